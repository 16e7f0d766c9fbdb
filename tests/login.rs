//! `bob --login`, with answers from a pipe and in a terminal.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use support::client::Launch;
use support::command::{Ended, InTerminal, User};
use support::model_server::{Answer, ModelServer};
use support::process::signal;
use support::{openai, write_file};

const KEY: &str = "sk-0123456789abcdefghij";
const OLD: &str =
    r#"{"provider": "OPENAI", "api_key": "sk-old", "base_url": "http://127.0.0.1:9", "model": "old"}"#;

fn models(names: &[&str]) -> Answer {
    let data: Vec<Value> = names.iter().map(|name| json!({"id": name})).collect();
    Answer::json(200, &json!({"object": "list", "data": data}))
}

/// The answers for an endpoint: provider, key, base URL, model, format.
fn answers(provider: &str, server: &ModelServer, format: &str) -> String {
    format!("{provider}\n{KEY}\n{}\ntest-model\n{format}\n", server.base_url())
}

fn log_in(user: &User, input: &str) -> Ended {
    user.run(&["--login"], &[], input)
}

fn saved(user: &User) -> Value {
    serde_json::from_slice(&fs::read(user.login_file()).unwrap()).unwrap()
}

#[track_caller]
fn ends(ended: &Ended, code: i32, said: &str) {
    let all = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, Some(code), "{all}");
    assert!(all.contains(said), "{said:?} is not in {all}");
    assert!(!all.contains(KEY), "the key is shown: {all}");
}

#[test]
fn a_login_that_works_is_saved_without_a_further_question_and_is_the_next_sessions() {
    let (user, server) = (User::new(), ModelServer::with([models(&["other", "test-model"])]));
    let ended = log_in(&user, &answers("7\nacme", &server, ""));
    ends(&ended, 0, "It works.");
    assert!(!ended.stdout.contains("Save anyway"), "{}", ended.stdout);
    let request = server.wait_request(0);
    assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/v1/models"));
    assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let expected = json!({"provider": "ACME", "api_key": KEY, "base_url": server.base_url(), "model": "test-model",
        "api_format": "openai-completions"});
    assert_eq!(saved(&user), expected);
    assert_eq!(user.login_file().metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(user.login_file().parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);

    server.push(openai::say("hello"));
    let launch = Launch::new();
    write_file(launch.home(), ".bob/llm.json", fs::read(user.login_file()).unwrap());
    let mut client = launch.start();
    let session = client.open();
    assert_eq!(client.prompt(&session, "hi").text(), "hello");
    client.finish();
}

#[test]
fn providers_and_formats_are_chosen_by_number_or_name_in_any_case() {
    for (provider, format, expected) in [
        ("", "", ("OPENAI", "openai-completions")),
        ("openai", "1", ("OPENAI", "openai-completions")),
        ("3", "openai-completions", ("DEEPSEEK", "openai-completions")),
        ("Gemini", "OPENAI-RESPONSES", ("GEMINI", "openai-responses")),
        ("2", "", ("ANTHROPIC", "anthropic-messages")),
        ("custom\nOther", "2", ("OTHER", "anthropic-messages")),
    ] {
        let (user, server) = (User::new(), ModelServer::with([models(&["test-model"])]));
        ends(&log_in(&user, &answers(provider, &server, format)), 0, "It works.");
        let saved = saved(&user);
        assert_eq!(
            (saved["provider"].as_str(), saved["api_format"].as_str()),
            (Some(expected.0), Some(expected.1))
        );
        let request = server.wait_request(0);
        let key = if expected.1 == "anthropic-messages" { KEY.to_owned() } else { format!("Bearer {KEY}") };
        let header = if expected.1 == "anthropic-messages" { "x-api-key" } else { "authorization" };
        assert_eq!((request.path.as_str(), request.header(header)), ("/v1/models", Some(key.as_str())));
    }
}

#[test]
fn a_local_model_needs_no_key() {
    let (user, server) = (User::new(), ModelServer::with([models(&["qwen 3:8b"])]));
    let ended = log_in(&user, &format!("6\n\n{}/\nqwen 3:8b\n\n", server.base_url()));
    ends(&ended, 0, "It works.");
    assert_eq!(server.wait_request(0).header("authorization"), None);
    assert_eq!(saved(&user)["base_url"], server.base_url());
}

#[test]
fn an_answer_that_cannot_be_used_is_told_and_asked_again() {
    let (user, server) = (User::new(), ModelServer::with([models(&["test-model"])]));
    let input = format!(
        "8\nnobody\n7\n1x\nDEMO\nmine\n\nkey with blanks\n{KEY}\n\nftp://h\nhttp://u:p@h\n{}\n\ntest-model\ngemini\n\n",
        server.base_url()
    );
    let ended = log_in(&user, &input);
    ends(&ended, 0, "It works.");
    for (question, times) in [
        ("Provider, ", 3),
        ("Its name", 3),
        ("API key (", 3),
        ("Base URL", 4),
        ("Model: ", 2),
        ("Format, ", 2),
    ] {
        assert_eq!(ended.stdout.matches(question).count(), times, "{question} in {}", ended.stdout);
    }
    assert!(ended.stdout.contains("a number from 1 to 7 or a name"), "{}", ended.stdout);
    assert!(ended.stdout.contains("That is not an http or https URL."), "{}", ended.stdout);
}

#[test]
fn one_that_does_not_work_is_told_and_saved_only_if_wanted() {
    let refusal = || openai::refuse(401, &format!("Incorrect API key provided: {KEY}"));
    for (answer, code) in [("\n", 0), ("yes\n", 0), ("maybe\ny\n", 0), ("n\n", 1), ("", 1)] {
        let (user, server) = (User::new(), ModelServer::with([refusal()]));
        let ended = log_in(&user, &format!("{}{answer}", answers("1", &server, "")));
        ends(&ended, code, "It does not work: 401 Unauthorized: Incorrect API key provided: ***");
        assert_eq!(user.login_file().exists(), code == 0);
        assert_eq!(ended.stderr.contains("nothing was saved"), code == 1, "{}", ended.stderr);
    }
}

#[test]
fn what_the_list_does_not_settle_a_small_request_does() {
    let lists = || [models(&["another"]), Answer::status(404), Answer::json(200, &json!({"hello": 1}))];
    for list in lists() {
        let (user, server) = (User::new(), ModelServer::with([list, openai::say("OK")]));
        ends(&log_in(&user, &answers("1", &server, "")), 0, "It works.");
        let request = server.wait_request(1);
        assert_eq!(
            (request.path.as_str(), &request.body["model"]),
            ("/v1/chat/completions", &json!("test-model"))
        );
    }
    for list in lists() {
        let (user, server) = (User::new(), ModelServer::with([list, openai::refuse(404, "no such model")]));
        ends(&log_in(&user, &answers("1", &server, "\n")), 0, "no such model; check the model's name");
    }
    // Everybody gets OpenRouter's list.
    let (user, server) =
        (User::new(), ModelServer::with([models(&["test-model"]), openai::refuse(401, "bad key")]));
    ends(
        &log_in(&user, &answers("OPENROUTER", &server, "\n")),
        0,
        "It does not work: 401 Unauthorized: bad key",
    );
}

#[test]
fn trouble_is_told_at_once_and_not_tried_again() {
    let user = User::new();
    let ended = log_in(&user, &format!("1\n{KEY}\nhttp://127.0.0.1:1/v1\nm\n\n\n"));
    ends(&ended, 0, "no answer from http://127.0.0.1:1: ");
    let server = ModelServer::with([Answer::status(404), Answer::status(503)]);
    let user = User::new();
    ends(&log_in(&user, &answers("1", &server, "\n")), 0, "503 Service Unavailable");
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn the_end_of_input_at_any_question_leaves_the_file_as_it_is() {
    let server = ModelServer::start();
    let all = format!("y\n{}", answers("1", &server, ""));
    let questions = all.lines().count() - 1; // the last has its default
    for given in 0..questions {
        let user = User::new();
        write_file(user.place(), "home/.bob/llm.json", OLD);
        let input: String = all.split_inclusive('\n').take(given).collect();
        ends(&log_in(&user, &input), 1, "nothing was saved");
        assert_eq!(fs::read_to_string(user.login_file()).unwrap(), OLD);
    }
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn a_login_that_exists_is_kept_unless_it_is_to_be_replaced() {
    let (user, server) = (User::new(), ModelServer::with([models(&["test-model"])]));
    write_file(user.place(), "home/.bob/llm.json", OLD);
    for answer in ["\n", "n\n"] {
        let ended = log_in(&user, answer);
        ends(&ended, 1, "Replace it? [y/N]");
        assert!(ended.stderr.contains("llm.json is kept as it was"), "{}", ended.stderr);
        assert_eq!(fs::read_to_string(user.login_file()).unwrap(), OLD);
    }
    ends(&log_in(&user, &format!("y\n{}", answers("1", &server, ""))), 0, "Saved in");
    assert_eq!(saved(&user)["api_key"], KEY);
}

#[test]
fn a_broken_login_can_be_replaced() {
    let (user, server) = (User::new(), ModelServer::with([models(&["test-model"])]));
    write_file(user.place(), "home/.bob/llm.json", "{");
    ends(&log_in(&user, &format!("y\n{}", answers("1", &server, ""))), 0, "Saved in");
}

#[test]
fn it_comes_before_the_server_in_any_order() {
    for args in [["--acp", "--login"], ["--login", "--acp"], ["-acp", "--login"]] {
        let ended = User::new().run(&args, &[], "");
        ends(&ended, 1, "Which provider?");
    }
    let ended = User::new().run(&["--login", "--nonsense"], &[], "");
    ends(&ended, 2, "usage:");
}

#[test]
fn what_cannot_be_saved_is_told() {
    let (user, server) = (User::new(), ModelServer::with([models(&["test-model"])]));
    let file = write_file(user.place(), "file", "");
    let folder = file.join("bob");
    let variables = [("BOB_HOME", folder.to_str().unwrap())];
    ends(&user.run(&["--login"], &variables, &answers("1", &server, "")), 1, "failed to write");
    let ended = user.run(&["--login"], &[("HOME", "")], "");
    ends(&ended, 1, "set HOME or BOB_HOME");
}

#[test]
fn what_comes_before_the_login_is_told() {
    let (user, server) = (User::new(), ModelServer::with([models(&["test-model"])]));
    let variables = [("OPENAI_API_KEY", "sk-other"), ("OPENAI_MODEL", "m"), ("LLM_TEMPERATURE", "0.5")];
    let ended = user.run(&["--login"], &variables, &answers("1", &server, ""));
    ends(&ended, 0, "api_key comes from the environment (OPENAI_API_KEY), which counts before the login");
    // The login has no say in the temperature: nothing comes before it.
    for told in ["sk-other", "LLM_TEMPERATURE"] {
        assert!(!ended.stdout.contains(told), "{}", ended.stdout);
    }
}

/// A login in a terminal, up to the question for the key.
fn at_the_key(user: &User) -> InTerminal {
    let mut terminal = InTerminal::start(user.command(&["--login"], &[]));
    terminal.wait_for("Provider, number or name [1]: ");
    assert!(terminal.echoes());
    terminal.type_in("6\n");
    terminal.wait_for("API key (not shown; empty if it needs none): ");
    assert!(!terminal.echoes(), "the key would be shown");
    terminal
}

#[test]
fn a_terminal_shows_everything_but_the_key() {
    let (user, server) = (User::new(), ModelServer::with([models(&["test-model"])]));
    let mut terminal = at_the_key(&user);
    terminal.type_in(&format!("{KEY}\n"));
    let shown = terminal.wait_for("Base URL [http://localhost:11434/v1]: ");
    assert!(!shown.contains(KEY) && terminal.echoes(), "{shown}");
    terminal.type_in(&format!("{}\n", server.base_url()));
    terminal.wait_for(&server.base_url());
    terminal.wait_for("Model: ");
    terminal.type_in("test-model\n\n");
    terminal.wait_for("Saved in ");
    assert_eq!(terminal.wait_exit(), Some(0));
    assert_eq!(saved(&user)["api_key"], KEY);
}

#[test]
fn the_terminal_is_restored_on_every_way_out() {
    type WayOut = fn(&mut InTerminal);
    let ways: [(WayOut, i32, &str); 5] = [
        (|terminal| signal(terminal.id(), Signal::INT), 130, "interrupted: nothing was saved"),
        (|terminal| signal(terminal.id(), Signal::TERM), 130, "interrupted: nothing was saved"),
        (|terminal| signal(terminal.id(), Signal::HUP), 130, "interrupted: nothing was saved"),
        (|terminal| signal(terminal.id(), Signal::QUIT), 130, "interrupted: nothing was saved"),
        (|terminal| terminal.type_in("\u{4}"), 1, "the input ended before the login: nothing was saved"),
    ];
    for (way_out, code, said) in ways {
        let user = User::new();
        let mut terminal = at_the_key(&user);
        way_out(&mut terminal);
        terminal.wait_for(said);
        assert_eq!(terminal.wait_exit(), Some(code));
        assert!(terminal.echoes(), "the terminal is left silent");
        assert!(!user.login_file().exists());
    }
}

#[test]
fn keys_that_would_leave_the_terminal_silent_are_no_keys_there() {
    let user = User::new();
    let mut terminal = at_the_key(&user);
    terminal.type_in("\u{1a}\u{1c}\n");
    terminal.wait_for("That holds characters that no key has.");
    terminal.wait_for("API key");
    terminal.type_in("\u{4}");
    assert_eq!(terminal.wait_exit(), Some(1));
}

#[test]
fn an_interrupt_ends_the_call_too() {
    let (answer, _held) = Answer::status(200).hold();
    let (user, server) = (User::new(), ModelServer::with([answer]));
    write_file(user.place(), "home/.bob/llm.json", OLD);
    let mut terminal = InTerminal::start(user.command(&["--login"], &[]));
    terminal.type_in(&format!("y\n{}", answers("1", &server, "")));
    server.wait_request(0);
    signal(terminal.id(), Signal::INT);
    terminal.wait_for("interrupted: nothing was saved");
    assert_eq!(terminal.wait_exit(), Some(130));
    assert_eq!(fs::read_to_string(user.login_file()).unwrap(), OLD);
}
