//! `bob --check`: what it tells, and how it ends.
mod support;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::command::{Ended, InTerminal, User};
use support::model_server::{Answer, ModelServer};
use support::process::signal;
use support::{openai, write_file};

const KEY: &str = "sk-0123456789abcdefghij";

fn models(names: &[&str]) -> Answer {
    let data: Vec<Value> = names.iter().map(|name| json!({"id": name})).collect();
    Answer::json(200, &json!({"data": data}))
}

fn calls_a_tool() -> Answer {
    openai::call([("call_1", "bash", json!({"command": "echo works"}))])
}

/// Checks with the model behind `server` from the environment.
fn check(server: &ModelServer) -> Ended {
    let base_url = server.base_url();
    let variables = [("OPENAI_API_KEY", KEY), ("OPENAI_BASE_URL", &base_url), ("OPENAI_MODEL", "test-model")];
    User::new().run(&["--check"], &variables, "")
}

#[track_caller]
fn ends(ended: &Ended, code: i32, said: &[&str]) {
    assert_eq!(ended.code, Some(code), "{ended:?}");
    for said in said {
        assert!(ended.stdout.contains(said), "{said:?} is not in {}", ended.stdout);
    }
    assert!(!format!("{ended:?}").contains(KEY), "the key is shown: {ended:?}");
}

#[test]
fn all_works_and_each_value_is_told_with_its_layer() {
    let (user, server) = (User::new(), ModelServer::with([models(&["a", "m-env"]), calls_a_tool()]));
    let dotenv = format!("OPENAI_API_KEY={KEY}\nOPENAI_BASE_URL={}\nOPENAI_MODEL=m-dot\n", server.base_url());
    write_file(&user.project(), ".env", dotenv);
    write_file(
        user.place(),
        "home/.bob/llm.json",
        json!({"provider": "openai", "api_key": "sk-lower"}).to_string(),
    );
    let ended = user.run(&["--check"], &[("OPENAI_MODEL", "m-env")], "");
    let project = user.project().canonicalize().unwrap();
    let dotenv = format!("{}/.env", project.display());
    let login = user.login_file().display().to_string();
    ends(
        &ended,
        0,
        &[&format!("OPENAI  from {login}"), &format!("(set, not shown)  from {dotenv} (OPENAI_API_KEY)")],
    );
    ends(
        &ended,
        0,
        &[&format!("{}  from {dotenv}", server.base_url()), "m-env  from the environment (OPENAI_MODEL)"],
    );
    ends(
        &ended,
        0,
        &["openai-completions  from the default", "2 listed, the chosen one among them", "All works."],
    );
    assert!(!ended.stdout.contains("sk-lower"), "{}", ended.stdout);
    let request = server.wait_request(1);
    assert_eq!(request.body["tools"][0]["function"]["name"], "bash");
    assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
}

#[test]
fn the_folder_can_be_named() {
    let (user, server) = (User::new(), ModelServer::with([models(&["m"]), calls_a_tool()]));
    let dotenv = format!("LLM_PROVIDER=LOCAL\nLOCAL_BASE_URL={}\nLOCAL_MODEL=m\n", server.base_url());
    let folder = write_file(user.place(), "elsewhere/.env", dotenv).parent().unwrap().to_owned();
    ends(&user.run(&["--check", "-C", folder.to_str().unwrap()], &[], ""), 0, &["LOCAL  from", "All works."]);
    ends(&user.run(&["--check"], &[], ""), 2, &["No model can be used"]);
    let missing = user.run(&["--check", "-C", "/nonexistent"], &[], "");
    assert!(missing.code == Some(2) && missing.stderr.contains("-C /nonexistent: "), "{missing:?}");
}

/// What keeps every session of this folder from beginning is no matter of the model's alone.
#[test]
fn a_projects_settings_are_read_as_a_session_would() {
    let (user, demo) = (User::new(), [("LLM_PROVIDER", "DEMO")]);
    write_file(&user.project(), ".bob/config.json", "{\n \"mode\": 3}");
    ends(&user.run(&["--check"], &demo, ""), 1, &[".bob/config.json:2:10: ", "no session can begin"]);
    write_file(&user.project(), ".bob/config.json", "{\"mode\": \"full-access\"}");
    ends(&user.run(&["--check"], &demo, ""), 0, &["a project may not loosen mode", "All works."]);
}

#[test]
fn what_was_skipped_is_told_where_nothing_is_left() {
    let user = User::new();
    write_file(&user.project(), ".env", "OPENAI_API_KEY='open\n");
    ends(&user.run(&["--check"], &[], ""), 2, &["warning", ".env:1: ignored: a quote is not closed"]);
    std::fs::remove_file(user.project().join(".env")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", user.project().join(".env")).unwrap();
    ends(&user.run(&["--check"], &[], ""), 2, &[".env skipped: a link leads outside, or is absolute"]);
}

#[test]
fn the_demo_model_works_and_needs_nothing() {
    let demo = [("LLM_PROVIDER", "DEMO")];
    ends(&User::new().run(&["--check"], &demo, ""), 0, &["DEMO  from the environment", "All works."]);
}

#[test]
fn nothing_configured_is_told_from_something_missing() {
    let user = User::new();
    let ended = user.run(&["--check"], &[], "");
    ends(&ended, 2, &["api_key", "base_url", "model", "missing (OPENAI_MODEL", "bob --login"]);
    ends(&user.run(&["--check"], &[("LLM_PROVIDER", "LOCAL")], ""), 2, &["missing (LOCAL_BASE_URL"]);
    let ended = user.run(&["--check"], &[("OPENAI_API_KEY", KEY), ("OPENAI_MODEL", "m")], "");
    ends(&ended, 1, &["(set, not shown)  from the environment", "missing (OPENAI_BASE_URL", "bob --login"]);
}

#[test]
fn bad_arguments_are_told() {
    for args in [&["--check", "--acp"][..], &["--check", "extra"], &["--check", "--stdio"], &["--check=1"]] {
        let ended = User::new().run(args, &[], "");
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains("usage:"), "{}", ended.stderr);
    }
}

#[test]
fn a_model_that_calls_no_tool_does_not_work() {
    let server = ModelServer::with([models(&["test-model"]), openai::say("works")]);
    ends(&check(&server), 1, &["without a tool call", "Not all works."]);
}

#[test]
fn an_endpoint_may_have_no_list() {
    for status in [404, 405, 501] {
        let server = ModelServer::with([Answer::status(status), calls_a_tool()]);
        ends(&check(&server), 0, &["has no list of them", "All works."]);
    }
    let server = ModelServer::with([Answer::status(500), calls_a_tool()]);
    ends(&check(&server), 1, &["can't be listed: 500 Internal Server Error", "as it should be"]);
}

#[test]
fn a_model_that_is_not_listed_is_tried_all_the_same() {
    let names: Vec<String> = (0..30).map(|number| format!("model-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = ModelServer::with([models(&names), calls_a_tool()]);
    ends(
        &check(&server),
        0,
        &["30 listed: model-0, ", "model-19, and 10 more", "test-model is not among them"],
    );
}

#[test]
fn a_refusal_that_holds_the_key_is_told_without_it() {
    let refusal = || openai::refuse(401, &format!("Incorrect API key provided: {KEY}."));
    let server = ModelServer::with([refusal(), refusal()]);
    ends(
        &check(&server),
        1,
        &["can't be listed: 401", "failed: 401 Unauthorized", "check the API key (bob --login)"],
    );
}

#[test]
fn trouble_is_told_at_once_and_not_tried_again() {
    let server = ModelServer::with([models(&["test-model"]), Answer::status(503)]);
    ends(&check(&server), 1, &["failed: 503 Service Unavailable"]);
    assert_eq!(server.requests().len(), 2);
    let variables =
        [("LLM_PROVIDER", "LOCAL"), ("LOCAL_BASE_URL", "http://127.0.0.1:1"), ("LOCAL_MODEL", "m")];
    let ended = User::new().run(&["--check"], &variables, "");
    ends(&ended, 1, &["no answer from http://127.0.0.1:1", "does the server run"]);
}

#[test]
fn broken_files_are_named_by_their_place() {
    let user = User::new();
    write_file(user.place(), "home/.bob/llm.json", format!("{{\n\"api_key\": {KEY}\n}}"));
    ends(&user.run(&["--check"], &[], ""), 1, &["llm.json:2:12: not valid JSON"]);
    let user = User::new();
    write_file(user.place(), "home/.bob/config.json", "{\"mode\": 3}");
    let demo = [("LLM_PROVIDER", "DEMO")];
    ends(&user.run(&["--check"], &demo, ""), 1, &["config.json:1:10", "Not all works."]);
}

#[test]
fn an_interrupt_ends_it() {
    let (answer, _held) = Answer::status(200).hold();
    let server = ModelServer::with([answer]);
    let user = User::new();
    let base_url = server.base_url();
    let variables = [("LLM_PROVIDER", "LOCAL"), ("LOCAL_BASE_URL", &base_url), ("LOCAL_MODEL", "m")];
    let mut terminal = InTerminal::start(user.command(&["--check"], &variables));
    server.wait_request(0);
    signal(terminal.id(), Signal::INT);
    assert_eq!(terminal.wait_exit(), Some(130));
}
