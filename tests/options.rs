//! Switching between turns: the next request goes by what was chosen, and only by that.
mod support;

use serde_json::{Value, json};
use std::net::TcpListener;
use support::client::{Client, Launch, Permission};
use support::model_server::{Answer, ModelServer};
use support::turns::{Place, request_line};
use support::{openai, write_file};

fn options<'a>(holder: &'a Value, id: &str) -> &'a Value {
    let all = holder["configOptions"].as_array().unwrap_or_else(|| panic!("no options: {holder}"));
    all.iter().find(|option| option["id"] == id).unwrap_or(&Value::Null)
}

fn values(option: &Value) -> Vec<&str> {
    let all = option["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|value| value["value"].as_str()).collect()
}

#[track_caller]
fn set(client: &mut Client, session: &str, option: &str, value: &str) -> Value {
    let params = json!({"sessionId": session, "configId": option, "value": value});
    client.call("session/set_config_option", params)
}

#[track_caller]
fn list(client: &mut Client, session: &str) -> Value {
    client.call("session/list_models", json!({"sessionId": session}))["result"].take()
}

/// The smallest good reply of a format.
fn reply(format: &str) -> Answer {
    let events = match format {
        "anthropic-messages" => vec![
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "ok"}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ],
        "openai-responses" => vec![
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "ok"}),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ],
        _ => return openai::say("ok"),
    };
    events.iter().fold(Answer::sse(), |answer, event| answer.write(format!("data: {event}\n\n")))
}

/// In a format, begun with some `LLM_THINKING` (or none): what a request says of thinking after each choice.
#[track_caller]
fn check_thinking(format: &str, configured: Option<&str>, pointer: &str, choices: &[(&str, Value)]) {
    let server = ModelServer::start();
    let launch = Launch::new().model(&server.base_url()).env("LOCAL_API_FORMAT", format);
    let launch = match configured {
        Some(configured) => launch.env("LLM_THINKING", configured),
        None => launch,
    };
    let mut client = launch.start();
    let session = client.open();
    for (at, (choice, expected)) in choices.iter().enumerate() {
        let answer = set(&mut client, &session, "thought_level", choice);
        assert_eq!(options(&answer["result"], "thought_level")["currentValue"], *choice, "{answer}");
        server.push(reply(format));
        assert_eq!(client.prompt(&session, "go").response["result"]["stopReason"], "end_turn");
        let sent = server.wait_request(at).body;
        assert_eq!(sent.pointer(pointer).unwrap_or(&Value::Null), expected, "{format}, {choice}");
    }
    client.finish();
}

#[test]
fn each_format_asks_for_the_thinking_that_was_chosen() {
    let chat =
        [("high", json!("high")), ("low", json!("low")), ("on", json!("medium")), ("off", json!("none"))];
    check_thinking("openai-completions", Some("on"), "/reasoning_effort", &chat);
    let responses = [("high", json!("high")), ("default", Value::Null), ("medium", json!("medium"))];
    check_thinking("openai-responses", None, "/reasoning/effort", &responses);
    let budgets =
        [("low", json!(2048)), ("5000", json!(5000)), ("off", Value::Null), ("high", json!(24_576))];
    check_thinking("anthropic-messages", Some("5000"), "/thinking/budget_tokens", &budgets);
}

#[test]
fn a_thought_level_is_offered_where_the_model_may_have_one() {
    for (format, configured, expected) in [
        ("openai-completions", "", vec![]),
        ("openai-completions", "low", vec!["off", "low", "medium", "high"]),
        ("openai-responses", "", vec!["default", "off", "low", "medium", "high"]),
        ("anthropic-messages", "on", vec!["on", "off", "low", "medium", "high"]),
        ("anthropic-messages", "700", vec!["700", "off", "low", "medium", "high"]),
    ] {
        let launch = Launch::new().model("http://127.0.0.1:9/v1").env("LOCAL_API_FORMAT", format);
        let mut client = launch.env("LLM_THINKING", configured).start();
        client.initialize();
        let cwd = client.cwd();
        let opened = client.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        let option = options(&opened["result"], "thought_level");
        assert_eq!(values(option), expected, "{format} {configured}");
        let current = option["currentValue"].as_str();
        assert!(current.is_none_or(|current| expected.contains(&current)), "{option}");
        if expected.is_empty() {
            let session = opened["result"]["sessionId"].as_str().unwrap_or_default().to_owned();
            assert_eq!(set(&mut client, &session, "thought_level", "low")["error"]["code"], -32600);
        }
        client.finish();
    }
}

/// What is chosen in the session is newer than what was configured, however it was configured.
#[test]
fn a_chosen_level_comes_before_what_the_extra_body_says_of_thinking() {
    for (format, configured, extra, pointer, chosen) in [
        ("openai-completions", "on", json!({"reasoning_effort": "xhigh"}), "/reasoning_effort", json!("low")),
        ("openai-completions", "on", json!({"reasoning": {"effort": "max"}}), "/reasoning", Value::Null),
        (
            "openai-responses",
            "",
            json!({"reasoning": {"effort": "xhigh"}}),
            "/reasoning/effort",
            json!("low"),
        ),
        (
            "anthropic-messages",
            "",
            json!({"thinking": {"type": "enabled", "budget_tokens": 20_000}}),
            "/thinking/budget_tokens",
            json!(2048),
        ),
        (
            "anthropic-messages",
            "high",
            json!({"output_config": {"effort": "max"}}),
            "/output_config",
            json!({}),
        ),
    ] {
        let server = ModelServer::start();
        let launch = Launch::new().model(&server.base_url()).env("LOCAL_API_FORMAT", format);
        let extra = launch.env("LLM_THINKING", configured).env("LLM_EXTRA_BODY", extra.to_string());
        let mut client = extra.start();
        let session = client.open();
        let sent = |client: &mut Client, at| {
            server.push(reply(format));
            assert_eq!(client.prompt(&session, "go").response["result"]["stopReason"], "end_turn");
            server.wait_request(at).body.pointer(pointer).cloned().unwrap_or_default()
        };
        let own = sent(&mut client, 0);
        client.call("_agentao.cn/set_model", json!({"sessionId": session, "model": "next"}));
        assert_eq!(sent(&mut client, 1), own, "{format}: another model is no choice of a level");
        set(&mut client, &session, "thought_level", "low");
        assert_eq!(sent(&mut client, 2), chosen, "{format}");
        let back = if configured.is_empty() { "default" } else { configured };
        set(&mut client, &session, "thought_level", back);
        assert_eq!(sent(&mut client, 3), own, "{format}: there is a way back");
        client.finish();
    }
}

/// A model that took no effort says nothing of the next one.
#[test]
fn what_one_model_refuses_is_asked_of_the_next() {
    let server = ModelServer::with([
        openai::refuse(400, "Unsupported parameter: 'reasoning_effort'"),
        openai::say("one"),
        openai::say("two"),
    ]);
    let mut client = Launch::new().model(&server.base_url()).env("LLM_THINKING", "low").start();
    let session = client.open();
    client.prompt(&session, "go");
    client.call("_agentao.cn/set_model", json!({"sessionId": session, "model": "next"}));
    client.prompt(&session, "go");
    let sent: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
    let efforts: Vec<_> = sent.iter().map(|body| (&body["model"], &body["reasoning_effort"])).collect();
    let (first, next) = (json!("test-model"), json!("next"));
    assert_eq!(efforts, [(&first, &json!("low")), (&first, &Value::Null), (&next, &json!("low"))]);
    client.finish();
}

#[test]
fn a_mode_set_as_an_option_holds_for_the_next_call() {
    let server = ModelServer::with([
        openai::call([("c1", "bash", json!({"command": "touch made"}))]),
        openai::say("done"),
    ]);
    let mut client = Launch::new().model(&server.base_url()).start();
    client.permission(Permission::Select("reject"));
    let session = client.open();
    set(&mut client, &session, "mode", "full-access");
    client.prompt(&session, "go");
    assert!(client.cwd().join("made").exists());
    assert_eq!(client.take_requests("session/request_permission"), [] as [Value; 0]);
    client.finish();
}

#[test]
fn a_foreign_mode_changes_no_option_and_the_next_known_one_does() {
    let mut client = Launch::new().demo().start();
    let session = client.open();
    for (mode, holds) in [("zen", "ask"), ("full-access", "full-access"), ("zen", "full-access")] {
        client.call("session/set_mode", json!({"sessionId": session, "modeId": mode}));
        let known = mode != "zen";
        client.wait_update(|update| update["currentModeId"] == mode);
        let updates = client.take_requests("session/update");
        assert_eq!(updates.len(), usize::from(known), "{updates:?}");
        let answer = set(&mut client, &session, "model", "demo");
        assert_eq!(options(&answer["result"], "mode")["currentValue"], holds);
        client.take_requests("session/update");
    }
    client.finish();
}

/// The project's `.env` and the login file are read when a session is opened, and not again.
#[test]
fn a_session_keeps_the_provider_it_was_opened_with() {
    let (server, other) = (ModelServer::start(), ModelServer::start());
    let mut client = Launch::new().without_env("LLM_PROVIDER").start();
    let settings = |url: &str, model: &str| {
        format!(
            "LLM_PROVIDER=ONE\nONE_API_KEY=sk-one\nONE_BASE_URL={url}\nONE_MODEL={model}\nLLM_THINKING=low\n"
        )
    };
    write_file(&client.cwd(), ".env", settings(&server.base_url(), "first"));
    let session = client.open();
    let rewritten = settings(&other.base_url(), "elsewhere").replace("ONE", "TWO");
    write_file(&client.cwd(), ".env", rewritten.replace("low", "high"));
    let refused = set(&mut client, &session, "model", "two/elsewhere");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let taken = set(&mut client, &session, "model", "one/second");
    let model = options(&taken["result"], "model");
    assert_eq!(
        (values(model), &model["currentValue"]),
        (vec!["one/first", "one/second"], &json!("one/second"))
    );
    server.push(openai::say("ok"));
    client.prompt(&session, "go");
    server.push(Answer::json(200, &json!({"data": [{"id": "listed"}]})));
    assert_eq!(list(&mut client, &session), json!({"models": ["listed"]}));
    for (request, path) in server.requests().iter().zip(["/v1/chat/completions", "/v1/models"]) {
        assert_eq!((request.path.as_str(), request.header("authorization")), (path, Some("Bearer sk-one")));
    }
    let sent = server.wait_request(0).body;
    assert_eq!((&sent["model"], &sent["reasoning_effort"]), (&json!("second"), &json!("low")));
    assert_eq!(other.requests().len(), 0);
    client.finish();
}

/// A turn that stays where it is does not hold the list up, nor does one that waits behind it.
#[test]
fn the_list_is_told_during_a_turn() {
    for place in Place::ALL {
        let server = ModelServer::start();
        let mut client = Launch::new().model(&server.base_url()).start();
        let session = client.open();
        let staying = place.reach(&mut client, &server, &session, "stay");
        server.push(Answer::json(200, &json!({"data": [{"id": "a"}, {"id": "b"}]})));
        assert_eq!(list(&mut client, &session), json!({"models": ["a", "b"]}), "{place:?}");
        client.notify("session/cancel", json!({"sessionId": session}));
        assert_eq!(client.wait_response(&staying.prompt)["result"]["stopReason"], "cancelled");
        client.finish();
    }
}

/// Sent in one write with the opening and a prompt that stays: the list waits for the first alone.
#[test]
fn a_pipelined_list_waits_for_the_opening_and_for_no_prompt() {
    let server = ModelServer::start();
    let (answer, hold) = Answer::sse().hold();
    server.push_for("stay", answer);
    server.push_for("", Answer::json(200, &json!([])));
    let mut client = Launch::with_args(["--acp", "--script", "s"]).model(&server.base_url()).start();
    client.initialize();
    let cwd = client.cwd();
    let prompt = json!([{"type": "text", "text": "stay"}]);
    let lines = [
        request_line(&json!("new"), "session/new", json!({"cwd": cwd, "mcpServers": []})),
        request_line(&json!("prompt"), "session/prompt", json!({"sessionId": "s", "prompt": prompt})),
        request_line(&json!("list"), "session/list_models", json!({"sessionId": "s"})),
    ];
    client.send_raw((lines.join("\n") + "\n").as_bytes());
    assert_eq!(client.wait_response(&json!("list"))["result"], json!({"models": []}));
    assert!(client.wait_response(&json!("new"))["result"].is_object());
    client.notify("session/cancel", json!({"sessionId": "s"}));
    assert_eq!(client.wait_response(&json!("prompt"))["result"]["stopReason"], "cancelled");
    drop(hold);
    client.finish();
}

#[test]
fn a_list_asked_for_behind_an_opening_that_fails_is_of_no_session() {
    let mut client = Launch::with_args(["--acp", "--script", "s"]).start(); // no model is configured
    client.initialize();
    let cwd = client.cwd();
    let lines = [
        request_line(&json!("new"), "session/new", json!({"cwd": cwd, "mcpServers": []})),
        request_line(&json!("list"), "session/list_models", json!({"sessionId": "s"})),
    ];
    client.send_raw((lines.join("\n") + "\n").as_bytes());
    assert_eq!(client.wait_response(&json!("new"))["error"]["code"], -32000);
    assert_eq!(client.wait_response(&json!("list"))["error"]["code"], -32602);
    client.finish();
}

#[test]
fn an_endpoint_that_is_not_there_makes_a_warning_and_the_known_models() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let launch = Launch::new().model(&format!("http://{address}/v1")).env("LOCAL_API_KEY", "sk-local-secret");
    let mut client = launch.start();
    let session = client.open();
    client.call("session/set_model", json!({"sessionId": session, "model": "chosen"}));
    let listed = list(&mut client, &session);
    assert_eq!(listed["models"], json!(["test-model", "chosen"]));
    let warning = listed["warning"].as_str().unwrap_or_default();
    assert!(warning.contains(&address.to_string()) && !warning.contains("secret"), "{warning}");
    client.finish();
}

/// Only here a test waits for as long as Bob does: the five seconds are what it is about.
#[test]
fn an_endpoint_that_says_nothing_is_not_waited_for_for_ever() {
    let server = ModelServer::start();
    let (answer, hold) = Answer::json(200, &json!({})).hold();
    server.push(answer);
    let mut client = Launch::new().model(&server.base_url()).start();
    let session = client.open();
    let listed = list(&mut client, &session);
    assert_eq!(listed["models"], json!(["test-model"]));
    assert!(listed["warning"].is_string(), "{listed}");
    server.wait_closed(0);
    drop(hold);
    client.finish();
}

/// The request that is being answered answers all who ask meanwhile; a close lets none of them wait.
#[test]
fn one_request_serves_all_who_ask_and_a_close_ends_it() {
    let server = ModelServer::start();
    let (answer, hold) = Answer::json(200, &json!({})).hold();
    server.push(answer);
    let mut client = Launch::new().model(&server.base_url()).start();
    let session = client.open();
    let asked: Vec<_> =
        (0..3).map(|_| client.request("session/list_models", json!({"sessionId": session}))).collect();
    server.wait_request(0);
    let close = client.request("session/close", json!({"sessionId": session}));
    for id in &asked {
        let answer = client.wait_response(id);
        assert_eq!(answer["result"]["models"], json!(["test-model"]), "{answer}");
        assert!(answer["result"]["warning"].is_string(), "{answer}");
    }
    assert_eq!(client.wait_response(&close)["result"], json!({}));
    server.wait_closed(0);
    assert_eq!(server.requests().len(), 1);
    drop(hold);
    client.finish();
}

/// The end of input is no end for what can still be answered.
#[test]
fn a_list_that_was_asked_for_before_the_end_of_input_is_answered() {
    let server = ModelServer::with([Answer::json(200, &json!({"data": [{"id": "a"}]}))]);
    let mut client = Launch::with_args(["--acp", "--script", "s"]).model(&server.base_url()).start();
    let cwd = client.cwd();
    let version = json!({"protocolVersion": 1, "clientCapabilities": {}});
    let lines = [
        request_line(&json!(1), "initialize", version),
        request_line(&json!(2), "session/new", json!({"cwd": cwd, "mcpServers": []})),
        request_line(&json!(3), "session/list_models", json!({"sessionId": "s"})),
    ];
    client.send_raw((lines.join("\n") + "\n").as_bytes());
    client.finish();
    assert_eq!(client.wait_response(&json!(3))["result"], json!({"models": ["a"]}));
}
