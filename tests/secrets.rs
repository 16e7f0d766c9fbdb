//! A key is in `llm.json` and in the header that carries it, and nowhere else.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use support::client::{Launch, Permission};
use support::command::User;
use support::model_server::{Answer, ModelServer};
use support::{openai, write_file};

const KEY: &str = "sk-0123456789abcdefghij";

/// All regular files below a folder whose bytes hold the key.
fn holders(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holders(&path));
        } else if path.is_file() && holds_key(&fs::read(&path).unwrap()) {
            found.push(path);
        }
    }
    found
}

fn holds_key(bytes: &[u8]) -> bool {
    bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes())
}

fn refusal() -> Answer {
    openai::refuse(401, &format!("Incorrect API key provided: {KEY}."))
}

#[test]
fn a_login_and_a_check_leave_the_key_in_the_login_file_alone() {
    let server = ModelServer::with([refusal(), refusal(), refusal()]);
    let user = User::new();
    let trace = [("BOB_LOG", "trace"), ("RUST_LOG", "trace")];
    let input = format!("1\n{KEY}\n{}\ntest-model\n\n\n", server.base_url());
    let login = user.run(&["--login"], &trace, &input);
    assert_eq!(login.code, Some(0), "{login:?}");
    let check = user.run(&["--check"], &trace, "");
    assert_eq!(check.code, Some(1), "{check:?}");
    for ended in [&login, &check] {
        assert!(!holds_key(format!("{ended:?}").as_bytes()), "{ended:?}");
    }
    assert_eq!(holders(user.place()), [user.login_file()]);
}

#[test]
fn a_server_tells_nobody_the_key_however_much_it_logs() {
    let in_environment = |launch: Launch, base_url: &str| {
        launch
            .env("OPENAI_API_KEY", KEY)
            .env("OPENAI_BASE_URL", base_url)
            .env("OPENAI_MODEL", "m")
            .env("COPY", KEY)
            .env("HEADER", format!("Authorization: Bearer {KEY}"))
    };
    let in_login_file = |launch: Launch, base_url: &str| {
        let login = json!({"provider": "OPENAI", "api_key": KEY, "base_url": base_url, "model": "m"});
        write_file(launch.home(), ".bob/llm.json", login.to_string());
        launch
    };
    type Place<'a> = &'a dyn Fn(Launch, &str) -> Launch;
    for (place, expected) in [(&in_environment as Place<'_>, 0), (&in_login_file, 1)] {
        let server = ModelServer::start();
        let launch = Launch::with_args(["--acp", "-v", "--mode", "full-access", "--log-file", "log.txt"]);
        let mut client = place(launch, &server.base_url()).env("BOB_LOG", "trace").start();
        let session = client.open();
        client.permission(Permission::Select("allow"));
        let environment = json!({"command": "env; cat /proc/self/environ"});
        server.push(openai::call([("call_1", "bash", environment)]));
        server.push(openai::say("done"));
        let turn = client.prompt(&session, "hi");
        assert_eq!(turn.stop_reason(), "end_turn");
        server.push(refusal());
        let failed = client.prompt(&session, "again");
        assert!(failed.error().contains("401"), "{:?}", failed.response);
        client.finish();
        for request in server.requests() {
            assert!(!holds_key(&request.raw), "a command saw it");
            assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
        }
        for updates in [&turn.updates, &failed.updates] {
            assert!(!holds_key(format!("{updates:?}").as_bytes()), "{updates:?}");
        }
        assert!(!holds_key(failed.response.to_string().as_bytes()), "{:?}", failed.response);
        assert!(!holds_key(client.wait_stderr().as_bytes()), "{}", client.stderr());
        let holders = [client.home(), &client.cwd()].map(holders).concat();
        assert_eq!(holders.len(), expected, "{holders:?}");
        assert!(fs::metadata(client.cwd().join("log.txt")).unwrap().len() > 0);
    }
}

/// An endpoint may put the key wherever it likes into what it answers.
#[test]
fn an_endpoint_that_says_the_key_is_not_repeated() {
    let server = ModelServer::with([
        openai::stream([openai::text("x"), openai::finish(KEY)]),
        openai::refuse(400, &format!("{} {KEY}", "x".repeat(490))),
        Answer::sse().write(openai::event(&openai::error(&format!("{} {KEY}", "x".repeat(485)), 400))),
        Answer::status(200).write(format!("<html>{} {KEY}", "x".repeat(185))),
        Answer::status(307).header("location", &format!("http://127.0.0.1/{KEY}")),
        Answer::json(200, &json!({"data": [{"id": "m2"}, {"id": KEY}, {"id": format!("a/{KEY}")}]})),
    ]);
    let launch = Launch::with_args(["--acp", "-v"]).env("OPENAI_API_KEY", KEY).env("OPENAI_MODEL", "m");
    let mut client = launch.env("OPENAI_BASE_URL", server.base_url()).env("BOB_LOG", "trace").start();
    let session = client.open();
    let part = KEY.get(..8).unwrap();
    for _ in 0..5 {
        let turn = client.prompt(&session, "hi");
        let told = format!("{:?} {}", turn.updates, turn.response);
        assert!(!told.contains(part), "{told}");
    }
    let listed = client.call("session/list_models", json!({"sessionId": session}));
    assert_eq!(listed["result"]["models"], json!(["m2"]));
    client.finish();
    assert!(!client.wait_stderr().contains(part), "{}", client.stderr());
    assert_eq!(holders(&client.cwd()), [] as [PathBuf; 0]);
}

/// Whoever pastes it into the wrong place: what is not taken is in no file and no line.
#[test]
fn the_key_is_no_model_and_no_part_of_an_address() {
    let in_url = format!("http://127.0.0.1:9/{KEY}/v1");
    for (name, value) in [("OPENAI_MODEL", KEY), ("OPENAI_BASE_URL", &in_url)] {
        let mut variables = vec![
            ("OPENAI_API_KEY", KEY),
            ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1"),
            ("OPENAI_MODEL", "m"),
        ];
        variables.retain(|(known, _)| *known != name);
        variables.extend([(name, value), ("BOB_LOG", "trace")]);
        let ended = User::new().run(&["--check"], &variables, "");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stdout.contains(&format!("{name} in the environment holds the API key")), "{ended:?}");
        assert!(!holds_key(format!("{ended:?}").as_bytes()), "{ended:?}");
    }
    let user = User::new();
    let ended = user.run(&["--login"], &[], &format!("1\n{KEY}\n{in_url}\nhttp://127.0.0.1:9/v1\n{KEY}\n"));
    assert_eq!(ended.stdout.matches("That holds the API key.").count(), 2, "{ended:?}");

    let server = ModelServer::start();
    let launch = Launch::new().env("OPENAI_API_KEY", KEY).env("OPENAI_MODEL", "m");
    let mut client = launch.env("OPENAI_BASE_URL", server.base_url()).start();
    let session = client.open();
    let option = json!({"sessionId": session, "configId": "model", "value": format!("openai/{KEY}")});
    for refused in [
        client.call("_agentao.cn/set_model", json!({"sessionId": session, "model": KEY})),
        client.call("session/set_config_option", option),
    ] {
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert!(!holds_key(refused.to_string().as_bytes()), "{refused}");
    }
    client.finish();
    assert!(!holds_key(client.wait_stderr().as_bytes()), "{}", client.stderr());
}
