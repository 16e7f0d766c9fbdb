//! A saved session's life through the whole program: closed, resumed, begun anew, deleted.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::json;
use support::client::Launch;
use support::saved::{Place, listed};

#[test]
fn sessions_are_listed_resumed_and_deleted() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let first = client.new_session(place.cwd());
    let silent = client.new_session(place.cwd());
    place.prompt(&mut client, &first, "the first of all");
    assert_eq!(listed(&mut client, None), [first.as_str()], "not {silent}, in which nobody said anything");
    let of_folder = client.call("session/list", json!({"cwd": place.cwd()}));
    assert_eq!(of_folder["result"]["sessions"][0]["title"], "the first of all");
    // Closed, and resumed without a word of it.
    let params = json!({"sessionId": first});
    assert_eq!(client.call("session/close", params.clone())["result"], json!({}));
    let resumed = client.call("session/resume", json!({"sessionId": first, "cwd": place.cwd()}));
    assert!(resumed["result"]["modes"].is_object(), "{resumed}");
    place.prompt(&mut client, &first, "second");
    let last = place.model.requests().pop().unwrap();
    assert_eq!(last.messages().len(), 4, "system, question, answer, question");
    // Deleted while it is live.
    assert_eq!(client.call("session/delete", params.clone())["result"], json!({}));
    assert!(!place.file(&first).exists());
    assert!(listed(&mut client, None).is_empty());
    assert_eq!(client.call("session/delete", params)["result"], json!({}), "gone is gone");
    client.finish();
}

#[test]
fn new_keeps_the_past_under_an_id_of_its_own() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = client.new_session(place.cwd());
    place.prompt(&mut client, &session, "remember me");
    assert!(client.prompt(&session, "/new").text().contains("2 message(s) forgotten"));
    place.prompt(&mut client, &session, "fresh");
    assert_eq!(place.model.requests().pop().unwrap().messages().len(), 2, "the model knows nothing of it");
    let listed = client.call("session/list", json!({}))["result"]["sessions"].clone();
    let past = listed.as_array().unwrap().iter().find(|s| s["title"] == "remember me").unwrap();
    let past = past["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(past, session);
    assert_eq!(place.load(&mut client, &past).done().questions(), ["remember me"]);
    client.finish();
}

#[test]
fn a_script_s_name_is_free_again_and_what_bore_it_is_kept() {
    let place = Place::new();
    for round in ["one", "two"] {
        let mut client = place.start(&["--script"]);
        assert_eq!(client.new_session(place.cwd()), "script");
        place.prompt(&mut client, "script", round);
        client.finish();
    }
    let mut client = place.start(&[]);
    let listed = client.call("session/list", json!({}))["result"]["sessions"].clone();
    let titles: Vec<_> = listed.as_array().unwrap().iter().map(|s| s["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["two", "one"]);
    client.finish();
}

#[test]
fn to_delete_a_script_s_session_by_its_name_takes_no_other_of_that_name() {
    let place = Place::new();
    let mut client = place.start(&["--script"]);
    client.new_session(place.cwd());
    place.prompt(&mut client, "script", "of that name");
    client.finish();
    let mut client = place.start(&[]);
    let other = place.saved(&mut client, "resumed");
    client.finish();
    let mut client = place.start(&["--resume", &other, "--script"]);
    assert_eq!(client.new_session(place.cwd()), other);
    assert_eq!(client.call("session/delete", json!({"sessionId": "script"}))["result"], json!({}));
    assert!(!place.file(&other).exists() && place.file("script").exists());
    // Nobody goes by the name any more, so now it is the saved one's.
    assert_eq!(client.call("session/delete", json!({"sessionId": "script"}))["result"], json!({}));
    assert!(!place.file("script").exists());
    client.finish();
}

#[test]
fn without_saving_there_is_no_file_and_no_method() {
    let place = Place::new();
    support::write_file(place.user.path(), "config.json", r#"{"sessions": {"enabled": false}}"#);
    let mut client = place.launch(Launch::new()).start();
    let capabilities = client.initialize()["agentCapabilities"].clone();
    assert!(capabilities.get("loadSession").is_none(), "{capabilities}");
    assert!(capabilities["sessionCapabilities"].get("list").is_none(), "{capabilities}");
    let session = client.new_session(place.cwd());
    place.prompt(&mut client, &session, "hello");
    for method in ["session/load", "session/resume", "session/list", "session/delete"] {
        let params = json!({"sessionId": session, "cwd": place.cwd(), "mcpServers": []});
        assert_eq!(client.call(method, params)["error"]["code"], -32601, "{method}");
    }
    assert!(
        !place.cwd().join(".bob/sessions").exists() && !place.user.path().join("sessions.jsonl").exists()
    );
    client.finish();
}

#[test]
fn a_load_that_fails_gives_no_directive_back() {
    let place = Place::new();
    for args in [&["--script"][..], &["--resume"]] {
        let mut client = place.start(args);
        let first = client.new_session(place.cwd());
        place.prompt(&mut client, &first, "hello");
        client.call("session/close", json!({"sessionId": first}));
        let elsewhere = json!({"sessionId": first, "cwd": place.user.path(), "mcpServers": []});
        assert_eq!(client.call("session/load", elsewhere)["error"]["code"], -32602);
        assert_ne!(client.new_session(place.cwd()), first, "{args:?}");
        client.finish();
    }
}
