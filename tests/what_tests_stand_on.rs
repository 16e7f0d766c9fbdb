//! The support code itself: a checker that lets everything through would make every other test worthless.
#![allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]
mod support;

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use support::checker::Checker;
use support::matching::{How, Names, glob, matches};
use support::model_server::{Answer, End, ModelServer};
use support::{openai, schema};

/// Lines sent (`>`) and received (`<`) in turn; `broken` is a part of what the checker says at the last one.
#[track_caller]
fn check(lines: &[(char, Value)], broken: Option<&str>) {
    let mut checker = Checker::default();
    let (last, before) = lines.split_last().expect("there are lines");
    for (direction, message) in before {
        match direction {
            '>' => checker.sent(message.to_string().as_bytes()),
            _ => drop(checker.received(message.to_string().as_bytes()).expect("only the last is broken")),
        }
    }
    let verdict = checker.received(last.1.to_string().as_bytes());
    match (verdict, broken) {
        (Ok(_), None) => {}
        (Err(said), Some(part)) => assert!(said.contains(part), "{said}"),
        (verdict, broken) => panic!("{verdict:?}, expected {broken:?}"),
    }
}

fn asks(id: u64, method: &str, params: Value) -> (char, Value) {
    ('>', json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

fn answers(id: u64, result: Value) -> (char, Value) {
    ('<', json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn update(update: Value) -> (char, Value) {
    (
        '<',
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
    )
}

fn opened() -> Vec<(char, Value)> {
    vec![
        asks(1, "session/new", json!({"cwd": "/", "mcpServers": []})),
        answers(1, json!({"sessionId": "s", "configOptions": []})),
    ]
}

fn in_turn(more: impl IntoIterator<Item = (char, Value)>) -> Vec<(char, Value)> {
    let mut lines = opened();
    lines.push(asks(2, "session/prompt", json!({"sessionId": "s", "prompt": []})));
    lines.extend(more);
    lines
}

fn says(text: &str) -> (char, Value) {
    update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}))
}

fn call(kind: &str, status: &str) -> (char, Value) {
    update(json!({"sessionUpdate": kind, "toolCallId": "call_1", "title": "bash: ls", "status": status}))
}

fn ends() -> (char, Value) {
    answers(2, json!({"stopReason": "end_turn"}))
}

#[test]
fn the_checker_takes_a_good_turn() {
    let calls = [call("tool_call", "pending"), call("tool_call_update", "completed"), says("done")];
    check(&in_turn(calls.into_iter().chain([ends()])), None);
}

#[test]
fn the_checker_refuses_what_is_not_json_rpc() {
    check(&[('<', json!({"id": 1, "result": {}}))], Some("jsonrpc"));
    check(&[('<', json!([]))], Some("object"));
    check(&[('<', json!({"jsonrpc": "2.0"}))], Some("neither"));
    check(&[('<', json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}))], Some("either"));
    check(&[('<', json!({"jsonrpc": "2.0", "method": "x/y", "log": 1}))], Some("no member"));
}

#[test]
fn the_checker_refuses_a_second_answer() {
    let mut lines = opened();
    lines.push(answers(1, json!({"sessionId": "t"})));
    check(&lines, Some("waits for none"));
}

#[test]
fn the_checker_refuses_updates_of_a_session_nobody_knows() {
    check(&[says("hello")], Some("does not know"));
}

#[test]
fn the_checker_refuses_words_after_the_answer() {
    check(&in_turn([ends(), says("late")]), Some("without a turn"));
}

#[test]
fn the_checker_refuses_calls_out_of_order() {
    check(&in_turn([call("tool_call_update", "completed")]), Some("not announced"));
    check(&in_turn([call("tool_call", "pending"), call("tool_call", "pending")]), Some("announced before"));
    check(
        &in_turn([call("tool_call", "failed"), call("tool_call_update", "completed")]),
        Some("ended before"),
    );
    check(&in_turn([call("tool_call", "pending"), ends()]), Some("is not"));
}

#[test]
fn the_checker_refuses_what_was_not_declared() {
    let notice = json!({"sessionUpdate": "notice", "severity": "warning", "title": "x"});
    check(&in_turn([update(notice)]), Some("not declared"));
    let read = json!({"sessionId": "s", "path": "/x"});
    let read = json!({"jsonrpc": "2.0", "id": "srv_1", "method": "fs/read_text_file", "params": read});
    check(&in_turn([('<', read)]), Some("not declared"));
}

#[test]
fn the_checker_knows_which_requests_are_open() {
    let mut checker = Checker::default();
    checker.sent(br#"{"jsonrpc":"2.0","id":"a","method":"initialize"}"#);
    assert!(checker.ended().unwrap_err().contains("\"a\""));
    checker.received(br#"{"jsonrpc":"2.0","id":"a","error":{"code":-32602,"message":"no"}}"#).unwrap();
    checker.ended().unwrap();
}

#[test]
fn the_schema_refuses_what_its_types_would_drop() {
    let good = json!({"sessionId": "s", "modes": {"currentModeId": "ask", "availableModes": []}});
    schema::check_result("session/new", &good).unwrap();
    let unknown = json!({"sessionId": "s", "model": "x"});
    assert!(schema::check_result("session/new", &unknown).unwrap_err().contains("`model`"));
    let wrong_type = json!({"sessionId": "s", "modes": {"currentModeId": 1, "availableModes": []}});
    assert!(schema::check_result("session/new", &wrong_type).unwrap_err().contains("`modes`"));
    let bad_item = json!({"sessionId": "s", "modes": {"currentModeId": "a", "availableModes": [{"id": 1}]}});
    schema::check_result("session/new", &bad_item).unwrap_err();
    assert!(schema::check_result("session/close", &Value::Null).is_err());
    schema::check_result("session/set_mode", &json!({"modeId": "ask"})).unwrap();
}

#[test]
fn matching_names_what_only_bob_knows() {
    let mut names = Names::new();
    let got = json!({"a": "one", "b": ["one", 2], "c": {"d": null}});
    let expected = json!({"a": "$X", "b": ["$X", "*"], "c": "*"});
    matches(How::Exact, &expected, &got, &mut names).unwrap();
    assert_eq!(names["$X"], "one");
    assert!(matches(How::Exact, &json!({"a": "$X"}), &got, &mut names).unwrap_err().contains("not expected"));
    matches(How::Subset, &json!({"a": "$X"}), &got, &mut names).unwrap();
    assert!(matches(How::Subset, &json!({"b": ["$X"]}), &got, &mut names).is_err());
    assert!(matches(How::Subset, &json!({"e": "*"}), &got, &mut names).unwrap_err().contains("missing"));
}

#[test]
fn globs_fit_whole_texts() {
    for (pattern, text, fits) in [
        ("a*c", "abc", true),
        ("a*c", "abcd", false),
        ("*b*", "abc", true),
        ("ab*ba", "aba", false),
        ("abc", "abc", true),
        ("", "a", false),
    ] {
        assert_eq!(glob(pattern, text), fits, "{pattern} {text}");
    }
}

/// One request on a connection of its own; everything the server writes until it ends the connection.
fn post(server: &ModelServer, body: &str) -> (TcpStream, String) {
    let mut socket = TcpStream::connect(server.address()).expect("it listens");
    let length = body.len();
    write!(socket, "POST /v1/x HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}").expect("it reads");
    let mut first = [0; 4096];
    let count = socket.read(&mut first).unwrap_or(0);
    (socket, String::from_utf8_lossy(&first[..count]).into_owned())
}

#[test]
fn the_model_server_answers_in_order_and_records() {
    let server = ModelServer::with([Answer::json(401, &json!({"a": 1})), Answer::json(200, &json!({}))]);
    let (_first, answer) = post(&server, r#"{"n":1}"#);
    assert!(answer.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{answer}");
    assert!(answer.contains("7\r\n{\"a\":1}\r\n"), "{answer}");
    let (second, _) = post(&server, r#"{"n":2}"#);
    assert_eq!(server.wait_request(1).body, json!({"n": 2}));
    drop(second);
    server.wait_closed(1);
    assert_eq!(server.unused(), 0);
}

#[test]
fn the_model_server_holds_until_it_is_let_go() {
    let (answer, hold) = Answer::sse().hold();
    let server = ModelServer::with([answer.write("data: x\n\n")]);
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| post(&server, "{}").1);
        server.wait_request(0);
        assert!(!asking.is_finished());
        hold.release();
        asking.join().unwrap()
    });
    assert!(asked.contains("data: x"), "{asked}");
}

#[test]
fn the_model_server_can_reset() {
    let server = ModelServer::with([Answer::sse().write("data: x\n\n").end(End::Reset)]);
    let (mut socket, _) = post(&server, "{}");
    let error = socket.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn the_model_server_is_strict_about_calls() {
    let call = json!({"id": "a", "function": {"name": "bash", "arguments": "{}"}});
    let assistant = json!({"role": "assistant", "tool_calls": [call]});
    let (user, result) = (json!({"role": "user"}), json!({"role": "tool", "tool_call_id": "a"}));
    openai::check_messages(&[user.clone(), assistant.clone(), result.clone(), user.clone()]).unwrap();
    openai::check_messages(&[user.clone(), assistant.clone(), user.clone()]).unwrap_err();
    openai::check_messages(&[user.clone(), assistant.clone()]).unwrap_err();
    openai::check_messages(&[user.clone(), result.clone()]).unwrap_err();
    openai::check_messages(&[user, assistant, result.clone(), result]).unwrap_err();
    let server = ModelServer::with([openai::say("never")]).strict();
    let (_socket, answer) = post(&server, r#"{"messages":[{"role":"tool","tool_call_id":"a"}]}"#);
    assert!(answer.contains(" 400 ") && answer.contains("not open"), "{answer}");
}
