//! `session/load` and `session/resume`: where they look, what they take from a file, what they refuse.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use support::client::{Client, Launch, Permission};
use support::openai::{self, say};
use support::process::{is_gone, peak_kib};
use support::saved::{Place, close, listed, load_in};
use support::turns::{TWO_PROCESSES, bash, wait_processes};
use support::write_file;

#[test]
fn a_session_goes_where_its_folder_goes() {
    let place = Place::new();
    let (old, new) = (place.cwd().join("old"), place.cwd().join("new"));
    fs::create_dir(&old).unwrap();
    let mut client = place.start(&[]);
    let session = client.new_session(&old);
    place.prompt(&mut client, &session, "hello");
    client.finish();
    fs::rename(&old, &new).unwrap();

    let mut client = place.start(&[]);
    assert_eq!(listed(&mut client, None), [] as [&str; 0], "where it was there is nothing");
    assert_eq!(load_in(&mut client, &session, &old).code(), &json!(-32602));
    assert_eq!(load_in(&mut client, &session, &new).done().questions(), ["hello"]);
    place.model.push(openai::call([("c", "bash", json!({"command": "pwd; touch here"}))]));
    let turn = place.prompt(&mut client, &session, "where?");
    assert!(turn.updates.iter().any(|u| u["rawOutput"]["output"] == format!("{}\n", new.display())));
    assert!(new.join("here").exists() && !old.exists());
    let system = place.model.requests().pop().unwrap().messages()[0].to_string();
    assert!(system.contains(new.to_str().unwrap()) && !system.contains(old.to_str().unwrap()), "{system}");
    assert_eq!(listed(&mut client, Some(&new)), [&*session], "found again where it is now");
    place.finish(client);
}

#[test]
fn a_folder_that_is_none_is_named_and_the_session_is_as_it_was() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    let file = write_file(place.cwd(), "file", "");
    for (cwd, why) in [
        (Path::new("sub/folder"), "must be an absolute path"),
        (&place.cwd().join("nowhere"), "does not exist"),
        (&file, "is not a directory"),
        (place.user.path(), "no saved session of this id in this folder"),
    ] {
        for method in ["session/load", "session/resume"] {
            let mut params = place.params(&session);
            params["cwd"] = json!(cwd);
            let error = client.call(method, params)["error"].clone();
            assert_eq!(error["code"], -32602, "{method} {cwd:?}: {error}");
            assert!(error["message"].as_str().unwrap().contains(why), "{method} {cwd:?}: {error}");
            assert_eq!(error["data"]["sessionId"], *session, "{method} {cwd:?}: {error}");
        }
    }
    place.load(&mut client, &session).done();
    place.finish(client);
}

/// What can't be saved has no past: a session without a word would be taken for the one that was asked for.
#[test]
fn where_nothing_can_be_saved_there_is_nothing_to_load() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    client.finish();
    write_file(place.user.path(), "config.json", r#"{"sessions": {"dir": "../elsewhere"}}"#);
    let mut client = place.start(&[]);
    for method in ["session/load", "session/resume"] {
        let error = client.call(method, place.params(&session))["error"].clone();
        assert_eq!(
            (&error["code"], &error["data"]["sessionId"]),
            (&json!(-32602), &json!(session)),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains("sessions.dir"), "{error}");
    }
    client.new_session(place.cwd());
    place.finish(client);
}

#[test]
fn one_id_is_made_listed_and_loaded_in_any_process_from_any_folder() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    client.finish();
    // Started in another folder: only what the request says counts.
    let mut client = place.start(&["-C", "/"]);
    assert_eq!(listed(&mut client, None), [&*session]);
    assert_eq!(place.load(&mut client, &session).done().questions(), ["hello"]);
    place.finish(client);
}

#[test]
fn a_script_whose_name_is_taken_goes_by_the_name_it_is_saved_under_and_by_its_own() {
    let place = Place::new();
    let mut first = place.start(&["--script"]);
    assert_eq!(first.new_session(place.cwd()), "script");
    place.prompt(&mut first, "script", "first");
    let mut second = place.start(&["--script"]);
    let session = second.new_session(place.cwd());
    assert_ne!(session, "script");
    place.prompt(&mut second, &session, "second");
    // What a script has written before it could know.
    place.model.push(say("answer"));
    let prompt = second.send_prompt("script", "third");
    assert_eq!(second.wait_response(&prompt)["result"]["stopReason"], "end_turn");
    let mut names = listed(&mut second, None);
    names.sort();
    assert_eq!(names, [&*session, "script"]);
    assert_eq!(place.load(&mut second, &session).code(), &json!(-32600), "it is live");
    assert!(place.load(&mut second, &session).response.to_string().contains("open on this connection"));
    close(&mut second, "script");
    assert_eq!(place.load(&mut second, &session).done().questions(), ["second", "third"]);
    first.finish();
    place.finish(second);
}

/// A file that says this of itself, with one turn in it.
fn file(head: &Value, messages: &str) -> String {
    let mut whole = json!({"version": 1, "id": "x", "cwd": "/nowhere", "title": "T", "createdAt": "2026-12-01T10:00:00.000Z",
        "updatedAt": "2026-12-01T11:00:00.000Z", "model": "m", "mode": "full-access", "skills": []});
    whole.as_object_mut().unwrap().extend(head.as_object().unwrap().clone());
    let head = whole.to_string();
    format!("{},\"messages\":[{messages}]}}", head.strip_suffix('}').unwrap())
}

const QUESTION: &str = r#"{"role":"user","blocks":[{"type":"text","text":"q"}]}"#;

#[track_caller]
fn refused(place: &Place, client: &mut Client, name: &str, why: &str) {
    let before = fs::metadata(place.file(name)).unwrap();
    let content = (before.len() < 1 << 20).then(|| fs::read(place.file(name)).unwrap());
    for method in ["session/load", "session/resume"] {
        let error = client.call(method, place.params(name))["error"].clone();
        assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32602), &json!(name)), "{error}");
        let words = error["data"]["error"].as_str().unwrap();
        assert!(words.contains(why), "{name}: {words}");
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
        assert!(!error.to_string().contains("SECRET"), "{error}");
    }
    let after = fs::metadata(place.file(name)).unwrap();
    assert_eq!(
        (after.len(), after.modified().unwrap()),
        (before.len(), before.modified().unwrap()),
        "{name}"
    );
    if let Some(content) = content {
        assert_eq!(fs::read(place.file(name)).unwrap(), content, "{name}");
    }
    assert!(!place.file(name).with_extension("lock").exists(), "{name}");
}

#[test]
fn what_can_not_be_loaded_is_told_apart_and_left_alone_byte_for_byte() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let whole = file(&json!({}), QUESTION);
    let deep = format!(
        r#"{{"role":"user","blocks":[{{"type":"text","text":"q","a":{}{}}}]}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let with = |message: &str| file(&json!({}), &format!("{QUESTION},{message}"));
    for (name, text, why) in [
        ("empty", String::new(), "is empty"),
        ("blank", " \n\t".into(), "is empty"),
        ("truncated", whole.strip_suffix("}]}").unwrap().into(), "ends in the middle"),
        ("zeros", "\0".repeat(4096), "not JSON"),
        ("foreign", "# SECRET notes\n".into(), "not JSON"),
        ("other-json", r#"{"SECRET": 1}"#.into(), "no usable version"),
        ("newer", file(&json!({"version": 2}), "{\"SECRET\": 1}"), "later version"),
        ("version-0", file(&json!({"version": 0}), QUESTION), "no usable version"),
        ("version-text", file(&json!({"version": "1"}), QUESTION), "no usable version"),
        ("system", with(r#"{"role":"system","text":"SECRET"}"#), "messages[1] has a role"),
        ("developer", with(r#"{"role":"developer","text":"SECRET"}"#), "messages[1] has a role"),
        (
            "orphan",
            with(
                r#"{"role":"tool","reference":"call_1","status":"completed","title":"t","kind":"read","output":"SECRET"}"#,
            ),
            "messages[1] is a result of no call",
        ),
        (
            "answers-nothing",
            file(&json!({}), r#"{"role":"assistant","text":"SECRET"}"#),
            "messages[0] answers nothing",
        ),
        ("deep-block", file(&json!({}), &deep), "messages[0] nests too deeply"),
        ("deep-file", file(&json!({}), &"[".repeat(1 << 20)), "not JSON"),
    ] {
        write_file(place.cwd(), &format!(".bob/sessions/{name}.json"), text);
        refused(&place, &mut client, name, why);
    }
    // Past the bound, and not read: its zeros are on no disk.
    let huge = fs::File::create(place.file("huge")).unwrap();
    huge.set_len((256 << 20) + 1).unwrap();
    refused(&place, &mut client, "huge", "can't be read");
    assert!(peak_kib(client.id()) < 100 << 10, "nothing of it was held");
    let unknown = place.load(&mut client, "nobody");
    assert_eq!(
        (unknown.code(), &unknown.response["error"]["data"]["sessionId"]),
        (&json!(-32602), &json!("nobody"))
    );
    for id in ["../sessions/x", "a/b", "..", "", &"x".repeat(65)] {
        let error = client.call("session/load", place.params(id))["error"].clone();
        assert_eq!(
            (&error["code"], &error["data"]["field"]),
            (&json!(-32602), &json!("sessionId")),
            "{error}"
        );
    }
    place.finish(client);
}

#[test]
fn a_file_grants_nothing_and_says_nothing_about_where() {
    let place = Place::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let head = json!({"cwd": elsewhere.path(), "mode": "full-access", "model": "evil\nmodel", "id": "someone-else",
        "title": "T\u{202e}\nx"});
    write_file(place.cwd(), ".bob/sessions/mine.json", file(&head, QUESTION));
    let mut client = place.launch(Launch::new()).start();
    client.initialize();
    let loaded = place.load(&mut client, "mine").done();
    let result = &loaded.response["result"];
    assert_eq!(result["modes"]["currentModeId"], "ask");
    assert!(!result.to_string().contains("evil"), "{result}");
    place.model.push(bash("pwd > where"));
    place.model.push(say("done"));
    let prompt = client.send_prompt("mine", "go on");
    let question = client.wait_request("session/request_permission");
    client.answer(&question["id"], json!({"outcome": {"outcome": "selected", "optionId": "allow"}}));
    let turn = client.wait_turn("mine", &prompt);
    assert_eq!(turn.of_kind("session_info_update").next().unwrap()["title"], "T\\u{202e} x");
    assert!(place.cwd().join("where").exists() && !elsewhere.path().join("where").exists());
    assert_eq!(place.model.requests()[0].body["model"], "test-model");
    client.finish();
}

#[test]
fn a_resumed_session_is_not_told_again_and_its_model_knows_it_all() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    let params = json!({"sessionId": session, "cwd": place.cwd()});
    let id = client.request("session/resume", params);
    let answer = client.next().unwrap();
    assert_eq!(answer["id"], id, "not a word before it");
    assert!(
        answer["result"]["modes"].is_object() && answer["result"]["configOptions"].is_array(),
        "{answer}"
    );
    let behind = client.next().unwrap();
    assert_eq!(behind["params"]["update"]["sessionUpdate"], "available_commands_update");
    place.prompt(&mut client, &session, "again");
    assert_eq!(place.model.requests().pop().unwrap().messages().len(), 4, "system, two questions, an answer");
    place.finish(client);
}

#[test]
fn a_session_that_works_is_not_loaded_again_and_can_still_be_cancelled() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = client.new_session(place.cwd());
    place.model.push(bash(TWO_PROCESSES));
    let prompt = client.send_prompt(&session, "stay");
    let processes = wait_processes(&mut client);
    for method in ["session/load", "session/resume"] {
        let error = client.call(method, place.params(&session))["error"].clone();
        assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32600), &json!(session)));
        assert!(error["message"].as_str().unwrap().contains("open on this connection"), "{error}");
    }
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.wait_turn(&session, &prompt).stop_reason(), "cancelled");
    assert!(processes.into_iter().all(is_gone));
    assert_eq!(place.prompt(&mut client, &session, "and on").stop_reason(), "end_turn");
    place.finish(client);
}

#[test]
fn permissions_are_asked_for_anew_after_a_load() {
    let place = Place::new();
    let mut client = place.launch(Launch::new()).start();
    client.permission(Permission::Select("allow_always"));
    client.initialize();
    let session = client.new_session(place.cwd());
    for _ in 0..2 {
        place.model.push(bash("true"));
        place.prompt(&mut client, &session, "run it");
    }
    assert_eq!(client.take_requests("session/request_permission").len(), 1);
    close(&mut client, &session);
    place.load(&mut client, &session).done();
    place.model.push(bash("true"));
    place.prompt(&mut client, &session, "run it");
    assert_eq!(client.take_requests("session/request_permission").len(), 1, "the file holds no permission");
    client.finish();
}
