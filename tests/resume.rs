//! `--resume`: the first session goes on with a saved one, and a miss is no reason to fail.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use std::fs;
use support::client::{Client, Launch};
use support::openai::say;
use support::saved::{Place, close};
use support::write_file;

/// Asks for the first session; its whole answer.
fn first(place: &Place, client: &mut Client) -> Value {
    client.call("session/new", json!({"cwd": place.cwd(), "mcpServers": []}))
}

/// Two saved sessions, the older one first, and their ids' common beginning.
fn two(place: &Place) -> [String; 3] {
    let mut client = place.start(&[]);
    let saved = ["old", "new"].map(|text| place.saved(&mut client, text));
    client.finish();
    let common = saved[0].bytes().zip(saved[1].bytes()).take_while(|(a, b)| a == b).count();
    let [old, new] = saved;
    let beginning = old.chars().take(common).collect();
    [old, new, beginning]
}

/// Starts with these arguments and expects a fresh session with this warning.
#[track_caller]
fn misses(place: &Place, args: &[&str], warning: &str) {
    let before: Vec<_> = files(place);
    let mut client = place.start(args);
    let answer = first(place, &mut client);
    let session =
        answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{args:?}: {answer}")).to_owned();
    assert!(!before.iter().any(|(name, _)| name.starts_with(&session)), "{args:?}: {session} is not fresh");
    assert_eq!(place.prompt(&mut client, &session, "hello").stop_reason(), "end_turn");
    let asked = place.model.requests().pop().unwrap();
    assert_eq!(asked.messages().len(), 2, "nothing of another session");
    client.finish();
    let stderr = client.wait_stderr();
    let told = stderr.lines().filter(|line| line.contains("--resume")).collect::<Vec<_>>();
    assert_eq!(told.len(), 1, "{args:?}: {stderr}");
    assert!(told[0].contains(warning) && told[0].contains("this is a new session"), "{args:?}: {stderr}");
    let after = files(place);
    assert!(before.iter().all(|file| after.contains(file)), "{args:?}: what was saved is as it was");
    fs::remove_file(place.file(&session)).unwrap();
}

fn files(place: &Place) -> Vec<(String, Vec<u8>)> {
    let Ok(folder) = fs::read_dir(place.cwd().join(".bob/sessions")) else { return Vec::new() };
    let files = folder
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"));
    files
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap()))
        .collect()
}

#[test]
fn the_newest_or_the_one_that_is_named_is_told_first_and_goes_on() {
    let place = Place::new();
    let [old, new, beginning] = two(&place);
    let prefix = old.strip_suffix(|_: char| true).unwrap(); // long enough to be of no other
    assert!(prefix.len() > beginning.len());
    for (args, wanted, said) in [
        (&["--resume"][..], &new, "new"),
        (&["--resume", &old], &old, "old"),
        (&["--resume", prefix], &old, "old"),
    ] {
        let mut client = place.start(args);
        let id = client.request("session/new", json!({"cwd": place.cwd(), "mcpServers": []}));
        let mut told = Vec::new();
        let answer = loop {
            let message = client.next().unwrap();
            if message["id"] == id {
                break message;
            }
            assert_eq!(message["params"]["sessionId"], **wanted, "{args:?}");
            told.push(message["params"]["update"].clone());
        };
        assert_eq!(answer["result"]["sessionId"], **wanted, "{args:?}");
        assert_eq!(told[0]["content"]["text"], said, "{args:?}");
        assert_eq!(told[1]["content"]["text"], format!("answer to {said}"), "{args:?}");
        assert_eq!(told.last().unwrap()["sessionUpdate"], "available_commands_update");
        // The second session is a new one.
        assert_ne!(client.new_session(place.cwd()), **wanted);
        place.finish(client);
    }
}

#[test]
fn without_a_saved_session_there_is_a_fresh_one() {
    let place = Place::new();
    misses(&place, &["--resume"], "no saved session of this folder");
    misses(&place, &["--resume", "nobody"], "begins with nobody");
    misses(&place, &["--resume", "../x"], "begins with ../x");
}

#[test]
fn a_beginning_of_two_names_none() {
    let place = Place::new();
    let [_, _, beginning] = two(&place);
    misses(&place, &["--resume", &beginning], "2 saved sessions here begin with");
}

#[test]
fn a_session_in_which_nothing_was_said_is_not_the_newest() {
    let place = Place::new();
    let [_, new, _] = two(&place);
    let mut client = place.start(&[]);
    client.new_session(place.cwd());
    client.finish();
    let mut client = place.start(&["--resume"]);
    assert_eq!(first(&place, &mut client)["result"]["sessionId"], new);
    place.finish(client);
}

#[test]
fn one_that_can_not_be_read_is_missed_and_left_alone() {
    let place = Place::new();
    for (name, text, why) in [
        ("broken", "{\"version\": 1, ", "ends in the middle"),
        ("newer", "{\"version\": 99}", "later version"),
        ("empty", "", "is empty"),
    ] {
        write_file(place.cwd(), &format!(".bob/sessions/{name}.json"), text);
        misses(&place, &["--resume", name], why);
    }
}

#[test]
fn one_that_a_repository_brings_is_continued_only_by_name() {
    let place = Place::new();
    let [_, new, _] = two(&place);
    let text = fs::read_to_string(place.file(&new)).unwrap();
    let (before, behind) = text.split_once("\"updatedAt\":\"20").unwrap();
    write_file(place.cwd(), ".bob/sessions/planted.json", format!("{before}\"updatedAt\":\"21{behind}"));
    let mut client = place.start(&["--resume"]);
    assert_eq!(first(&place, &mut client)["result"]["sessionId"], new, "the user's index does not know it");
    client.finish();
    let mut client = place.start(&["--resume", "planted"]);
    assert_eq!(first(&place, &mut client)["result"]["sessionId"], "planted");
    place.finish(client);
}

#[test]
fn one_that_is_open_here_or_elsewhere_is_missed() {
    let place = Place::new();
    let [old, new, _] = two(&place);
    let mut other = place.start(&[]);
    place.load(&mut other, &new).done();
    for args in [&["--resume"][..], &["--resume", &new]] {
        misses(&place, args, "is open already");
    }
    // Loaded by this client itself, before its first `session/new`.
    let mut client = place.start(&["--resume", &old]);
    place.load(&mut client, &old).done();
    let fresh = first(&place, &mut client)["result"]["sessionId"].clone();
    assert!(fresh != *old && fresh != *new, "{fresh}");
    place.prompt(&mut client, &old, "both work");
    place.prompt(&mut client, fresh.as_str().unwrap(), "both work");
    client.finish();
    assert!(client.wait_stderr().contains("is open already"));
    other.finish();
}

#[test]
fn a_first_session_that_can_not_be_opened_leaves_it_to_the_next() {
    let place = Place::new();
    let [_, new, _] = two(&place);
    let launch = place.launch(Launch::with_args(["--acp", "--resume"]));
    let without_model = ["LLM_PROVIDER", "LOCAL_BASE_URL", "LOCAL_MODEL", "LOCAL_API_FORMAT"];
    let mut client = without_model.into_iter().fold(launch, Launch::without_env).start();
    client.initialize();
    let refused = first(&place, &mut client);
    assert_eq!(refused["error"]["code"], -32000, "{refused}");
    let bad = client.call("session/new", json!({"cwd": place.cwd().join("none"), "mcpServers": []}));
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
    let bad = client.call("session/new", json!({"cwd": place.cwd()}));
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
    // Logged in now.
    let env =
        format!("LLM_PROVIDER=LOCAL\nLOCAL_BASE_URL={}\nLOCAL_MODEL=test-model\n", place.model.base_url());
    write_file(place.cwd(), ".env", env);
    let answer = first(&place, &mut client);
    assert_eq!(answer["result"]["sessionId"], *new, "{answer}");
    place.model.push(say("again"));
    client.prompt(&new, "go on");
    close(&mut client, &new);
    assert_ne!(first(&place, &mut client)["result"]["sessionId"], *new, "it is used up now");
    client.finish();
}
