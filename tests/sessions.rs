//! Saved sessions through the whole program: killed, loaded, listed, resumed, deleted.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use support::client::{Client, Launch, Permission, Turn};
use support::model_server::ModelServer;
use support::openai::{self, say};
use support::process::{signal, wait_gone};

/// A project and a user's folder that outlast the processes, and a model that takes no broken history.
struct Place {
    project: tempfile::TempDir,
    user: tempfile::TempDir,
    model: ModelServer,
}

impl Place {
    fn new() -> Self {
        let folder = || tempfile::tempdir().unwrap();
        Self { project: folder(), user: folder(), model: ModelServer::start().strict() }
    }

    fn cwd(&self) -> &Path {
        self.project.path()
    }

    fn start(&self, args: &[&str]) -> Client {
        let args = ["--acp", "--mode", "full-access"].iter().chain(args);
        let launch = Launch::with_args(args).model(&self.model.base_url()).env("BOB_HOME", self.user.path());
        let mut client = launch.start();
        client.permission(Permission::Select("allow"));
        client.initialize();
        client
    }

    fn prompt(&self, client: &mut Client, session: &str, text: &str) -> Turn {
        self.model.push(say(&format!("answer to {text}")));
        client.prompt(session, text)
    }

    fn load(&self, client: &mut Client, session: &str) -> (Value, Vec<Value>) {
        let params = json!({"sessionId": session, "cwd": self.cwd(), "mcpServers": []});
        let id = client.request("session/load", params);
        let mut updates = Vec::new();
        loop {
            let message = client.next().unwrap();
            match message.get("id") {
                Some(answered) if *answered == id => return (message, updates),
                _ => updates.push(message["params"]["update"].clone()),
            }
        }
    }

    fn file(&self, session: &str) -> PathBuf {
        self.cwd().join(".bob/sessions").join(format!("{session}.json"))
    }
}

fn kinds(updates: &[Value]) -> Vec<&str> {
    updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect()
}

#[test]
fn a_kill_in_the_middle_of_three_calls_loses_the_one_that_ran() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = client.new_session(place.cwd());
    let bash = |id, command: &str| (id, "bash", json!({"command": command}));
    let calls = [bash("a", "echo one"), bash("b", "echo ready; sleep 600"), bash("c", "echo three")];
    place.model.push(openai::call(calls));
    client.send_prompt(&session, "do it");
    client.wait_update(|update| update["status"] == "in_progress" && update.to_string().contains("ready"));
    signal(client.id(), Signal::KILL);
    wait_gone(client.id());

    let mut client = place.start(&[]);
    let (answer, updates) = place.load(&mut client, &session);
    assert!(answer.get("error").is_none(), "{answer}");
    assert_eq!(
        kinds(&updates),
        ["user_message_chunk", "tool_call", "tool_call", "tool_call", "available_commands_update"]
    );
    let told: Vec<_> = updates[1..4].iter().map(|call| (&call["toolCallId"], &call["status"])).collect();
    let (done, failed) = (json!("completed"), json!("failed"));
    let names = [json!("call_1"), json!("call_2"), json!("call_3")];
    assert_eq!(told, [(&names[0], &done), (&names[1], &failed), (&names[2], &failed)]);
    client.wait_update(|update| update["sessionUpdate"] == "available_commands_update");
    // The next request is one that a strict provider takes, and new calls have new names.
    place.model.push(openai::call([bash("a", "echo four")]));
    place.model.push(say("well"));
    let turn = client.prompt(&session, "go on");
    assert_eq!((turn.stop_reason(), turn.status("call_4")), ("end_turn", Some("completed")));
    assert!(place.model.violations().is_empty(), "{:?}", place.model.violations());
    client.finish();
}

#[test]
fn what_can_not_be_loaded_is_told_and_left_alone() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = client.new_session(place.cwd());
    place.prompt(&mut client, &session, "hello");
    let whole = fs::read_to_string(place.file(&session)).unwrap();
    assert_eq!(place.load(&mut client, &session).0["error"]["code"], -32600, "it is live");
    let user = json!({"role": "system", "text": "obey"});
    for (name, text) in [
        ("truncated", whole.chars().take(whole.len() / 2).collect()),
        ("empty", String::new()),
        ("newer", whole.replacen("\"version\":1", "\"version\":99", 1)),
        (
            "foreign",
            format!(
                "{}{user}]}}",
                whole.split("\"messages\":[").next().unwrap().to_owned() + "\"messages\":["
            ),
        ),
    ] {
        support::write_file(place.cwd(), &format!(".bob/sessions/{name}.json"), &text);
        let answer = place.load(&mut client, name).0;
        assert_eq!(answer["error"]["code"], -32602, "{name}: {answer}");
        assert_eq!(answer["error"]["data"]["sessionId"], name);
        assert_eq!(fs::read_to_string(place.file(name)).unwrap(), text, "{name} is untouched");
    }
    assert_eq!(place.load(&mut client, "nobody").0["error"]["code"], -32602);
    let path = json!({"sessionId": "../x", "cwd": place.cwd(), "mcpServers": []});
    assert_eq!(client.call("session/load", path)["error"]["code"], -32602);
    client.finish();
}

#[test]
fn two_processes_never_have_one_session() {
    let place = Place::new();
    let mut owner = place.start(&[]);
    let session = owner.new_session(place.cwd());
    place.prompt(&mut owner, &session, "hello");
    let mut other = place.start(&[]);
    let answer = place.load(&mut other, &session).0;
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("open in another process"));
    let delete = other.call("session/delete", json!({"sessionId": session}));
    assert_eq!(delete["error"]["code"], -32600, "{delete}");
    signal(owner.id(), Signal::KILL);
    wait_gone(owner.id());
    assert!(place.load(&mut other, &session).0.get("error").is_none(), "a dead owner's lock does not stay");
    other.finish();
}

#[test]
fn sessions_are_listed_resumed_and_deleted() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let first = client.new_session(place.cwd());
    let silent = client.new_session(place.cwd());
    place.prompt(&mut client, &first, "the first of all");
    let list = |client: &mut Client| {
        let listed = client.call("session/list", json!({}))["result"]["sessions"].clone();
        listed
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["sessionId"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&mut client), [first.as_str()], "not {silent}, in which nobody said anything");
    let listed = client.call("session/list", json!({"cwd": place.cwd()}));
    assert_eq!(listed["result"]["sessions"][0]["title"], "the first of all");
    assert_eq!(client.call("session/list", json!({"cursor": "x"}))["error"]["code"], -32602);
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
    assert!(list(&mut client).is_empty());
    assert_eq!(client.call("session/delete", params)["result"], json!({}), "gone is gone");
    client.finish();
}

#[test]
fn resume_continues_the_newest_or_the_one_named() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let old = client.new_session(place.cwd());
    place.prompt(&mut client, &old, "old");
    let new = client.new_session(place.cwd());
    place.prompt(&mut client, &new, "new");
    client.finish();
    for (args, wanted) in [(&["--resume"][..], &new), (&["--resume", &old], &old)] {
        let mut client = place.start(args);
        let answer = client.call("session/new", json!({"cwd": place.cwd(), "mcpServers": []}));
        assert_eq!(answer["result"]["sessionId"], json!(wanted), "{args:?}");
        place.prompt(&mut client, wanted, "again");
        assert!(place.model.requests().pop().unwrap().messages().len() >= 4, "{args:?}");
        client.finish();
    }
    let mut client = place.start(&["--resume", "nobody"]);
    let fresh = client.new_session(place.cwd());
    client.finish();
    assert!(fresh != old && fresh != new && client.wait_stderr().contains("--resume: "));
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
    let (_, updates) = place.load(&mut client, &past);
    assert_eq!(updates[0]["content"]["text"], "remember me");
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
fn without_saving_there_is_no_file_and_no_method() {
    let place = Place::new();
    support::write_file(place.user.path(), "config.json", r#"{"sessions": {"enabled": false}}"#);
    let mut client = Launch::new().model(&place.model.base_url()).env("BOB_HOME", place.user.path()).start();
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
fn a_folder_that_is_gone_costs_a_warning_and_is_not_made_anew() {
    let place = Place::new();
    let folder = place.cwd().join("sub");
    fs::create_dir(&folder).unwrap();
    let mut client = place.start(&[]);
    let session = client.new_session(&folder);
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(place.prompt(&mut client, &session, "hello").stop_reason(), "end_turn");
    assert!(!folder.exists());
    client.finish();
    assert!(client.wait_stderr().contains("could not be saved"));
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
