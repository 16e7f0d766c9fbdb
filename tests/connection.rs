//! The connection to a model: how long it is kept, what is made of its end, and HTTP in its lesser-known forms.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::json;
use std::net::TcpListener;
use support::client::{Client, Launch, Turn};
use support::model_server::{Answer, End, ModelServer};
use support::openai::{self, finish, say, text};
use support::scene::Scene;
use support::turns::{said_something, talking};

/// The connection of each request, by its number from 0.
fn connections(scene: &Scene) -> Vec<usize> {
    scene.model.requests().iter().map(|request| request.connection).collect()
}

#[track_caller]
fn says_hello(turn: &Turn) {
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "hello"), "{}", turn.response);
}

#[test]
fn turns_share_a_connection_until_a_cancel() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        says_hello(&scene.answers([say("hello")]));
    }
    let (answer, _hold) = talking([]);
    scene.model.push(answer);
    let session = scene.session.clone();
    let prompt = scene.client.send_prompt(&session, "go");
    scene.client.wait_update(said_something);
    scene.client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(scene.client.wait_turn(&session, &prompt).stop_reason(), "cancelled");
    scene.model.wait_closed(0);
    for _ in 0..2 {
        says_hello(&scene.answers([say("hello")]));
    }
    assert_eq!(connections(&scene), [0, 0, 0, 0, 1, 1]);
    scene.finish();
}

#[test]
fn a_failure_is_no_reason_to_leave_a_connection() {
    let mut scene = Scene::new();
    scene.answers([openai::refuse(400, "odd")]).error();
    says_hello(&scene.answers([say("hello")]));
    assert_eq!(connections(&scene), [0, 0]);
    scene.finish();
}

#[test]
fn a_connection_that_was_closed_between_turns_is_made_anew_without_a_word() {
    let mut scene = Scene::new();
    for turn in 0..3 {
        let turn_done = scene.answers([say("hello").end(End::CleanClose)]);
        says_hello(&turn_done);
        assert_eq!(turn_done.thoughts(), "");
        scene.model.wait_closed(turn);
    }
    assert_eq!(connections(&scene), [0, 1, 2]);
    scene.finish();
}

/// The server's close and Bob's next request cross each other.
#[test]
fn a_connection_that_ends_as_it_is_used_again_costs_a_try_and_no_turn() {
    for end in [End::Reset, End::Close] {
        let mut scene = Scene::new();
        says_hello(&scene.answers([say("hello")]));
        let turn = scene.answers([Answer::raw("").end(end), say("hello")]);
        says_hello(&turn);
        assert!(turn.thoughts().contains("trying again"), "{}", turn.thoughts());
        assert_eq!(connections(&scene), [0, 0, 1]);
        scene.finish();
    }
}

/// A whole reply as events.
fn events(words: &str) -> String {
    format!("{}{}data: [DONE]\n\n", openai::event(&text(words)), openai::event(&finish("stop")))
}

#[test]
fn every_form_of_http_brings_the_reply() {
    let mut scene = Scene::new();
    let body = events("hello");
    let (length, hex) = (body.len(), format!("{:X}", body.len()));
    let sized = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    let (first, rest) = body.split_at(7);
    for (answer, kept) in [
        (format!("HTTP/1.0 200 OK\r\n\r\n{body}"), false),
        (format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"), false),
        (format!("HTTP/1.1 200\r\nconnection: close\r\n\r\n{body}"), false),
        (sized.clone(), true),
        (sized.replace("Content-Length", "CONTENT-LENGTH"), true),
        (format!("HTTP/1.1 100 Continue\r\n\r\n{sized}"), true),
        (
            format!("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n{sized}"),
            true,
        ),
        (
            format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{hex};a=b;c=\"d;e\"\r\n{body}\r\n0;x\r\n\r\n"
            ),
            true,
        ),
        (
            format!(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\nTrailer: X-A\r\n\r\n0007\r\n{first}\r\n\
                 {:x}\r\n{rest}\r\n000\r\nX-A: 1\r\nX-B: 2\r\n\r\n",
                rest.len()
            ),
            true,
        ),
        (
            format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-length: {length}\r\n\r\n{body}"
            ),
            true,
        ),
    ] {
        let end = if kept { End::Clean } else { End::Close };
        let turn = scene.answers([Answer::raw(answer.as_str()).end(end)]);
        assert_eq!((turn.text().as_str(), turn.thoughts().as_str()), ("hello", ""), "{answer}");
        assert_eq!(turn.stop_reason(), "end_turn");
    }
    scene.finish();
}

#[test]
fn a_length_that_is_not_the_bodys_is_no_good_end() {
    let mut scene = Scene::new();
    let whole = events("hel").into_bytes();
    let (said, rest) = (openai::event(&text("hel")).len(), 20);
    for (length, body) in [
        (said + rest + 100, &whole[..said + rest]), // more than comes
        (said + rest, &whole[..]),                  // an event is cut
        (said, &whole[..]),                         // all but the first event is no part of it
    ] {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n");
        let turn = scene.answers([Answer::raw([head.as_bytes(), body].concat()).end(End::Close)]);
        let told = "[LLM API error: the reply was cut off: the connection ended before it was whole]";
        assert_eq!(turn.error(), told, "{length}");
    }
    // What follows on its heels is not taken for the next answer.
    says_hello(&scene.answers([say("hello")]));
    // An end mark of the reply's own counts more than a length.
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", whole.len() + 100);
    let turn = scene.answers([Answer::raw([head.as_bytes(), &whole].concat()).end(End::Close)]);
    assert_eq!((turn.text().as_str(), turn.stop_reason()), ("hel", "end_turn"));
    scene.finish();
}

#[test]
fn a_compressed_answer_is_called_so() {
    let mut scene = Scene::new();
    let gzip = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b\x04\x00\x43\xbe\xb7\xe8\x01\x00\x00\x00";
    for (status, name, words) in [
        (200, "gzip", "compressed (gzip), though nobody asked for that"),
        (200, "br", "compressed (br)"),
        (401, "gzip", "401 Unauthorized; check the API key"),
    ] {
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-encoding: {name}\r\ncontent-length: {}\r\n\r\n",
            gzip.len()
        );
        let turn = scene.answers([Answer::raw([head.as_bytes(), gzip].concat())]);
        assert!(turn.error().contains(words), "{}", turn.response);
        assert_eq!(turn.thoughts(), "", "it would come the same again");
    }
    scene.finish();
}

#[test]
fn what_is_no_answer_or_too_much_of_one_is_told_at_once() {
    let mut scene = Scene::new();
    let long = "a".repeat(70 << 10);
    for (answer, words) in [
        (format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n"), "more than 64 KiB of headers"),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n".into(), "does not answer as HTTP has it"),
        ("HTTP/2.0 200 OK\r\n\r\n".into(), "does not answer as HTTP has it"),
        ("<html>portal</html>\r\n\r\n".into(), "does not answer as HTTP has it"),
    ] {
        let turn = scene.answers([Answer::raw(answer).end(End::Close)]);
        assert!(turn.error().contains(words), "{}", turn.response);
        assert!(turn.error().contains(&scene.model.address().to_string()), "{}", turn.response);
        assert_eq!(turn.thoughts(), "");
    }
    scene.finish();
}

/// A session's first prompt to this base URL.
#[track_caller]
fn reaches(server: &ModelServer, base_url: &str, path: &str) {
    server.push(say("hello"));
    let asked = server.requests().len();
    let mut client = Launch::new().model(base_url).start();
    let session = client.open();
    says_hello(&client.prompt(&session, "hi"));
    let request = server.wait_request(asked);
    assert_eq!(request.path, path, "{base_url}");
    assert_eq!(request.header("host"), Some(server.address().to_string().as_str()));
    client.finish();
}

#[test]
fn a_base_url_may_have_a_path_and_slashes_behind_it() {
    let server = ModelServer::start();
    let origin = format!("http://{}", server.address());
    reaches(&server, &format!("{origin}/v1/"), "/v1/chat/completions");
    reaches(&server, &format!("{origin}/api//a%20b/v4//"), "/api//a%20b/v4/chat/completions");
    reaches(&server, &origin.replace("http", "HTTP"), "/chat/completions");
}

#[test]
fn a_base_url_may_be_an_ipv6_address() {
    // A container may have no IPv6 at all.
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
    let server = ModelServer::on(listener);
    reaches(&server, &server.base_url(), "/v1/chat/completions");
}

#[test]
fn a_base_url_with_a_secret_or_a_query_is_refused_without_showing_it() {
    for base_url in
        ["http://me:s3cret@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?key=s3cret", "http://127.0.0.1:9/#s3cret"]
    {
        let mut client: Client = Launch::new().model(base_url).start();
        client.initialize();
        let cwd = client.cwd();
        let response = client.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        assert_eq!(response["error"]["code"], -32603, "{response}");
        assert!(response["error"]["message"].as_str().unwrap().contains("LOCAL_BASE_URL"), "{response}");
        client.finish();
        assert!(!format!("{response}{}", client.wait_stderr()).contains("s3cret"), "{response}");
    }
}

#[test]
fn a_host_that_is_not_there_is_named_while_it_is_tried_again() {
    let nowhere = "a".repeat(64); // no name is as long: no server has to be asked for it
    let mut client = Launch::new().model(&format!("http://{nowhere}:8080/v1")).start();
    let session = client.open();
    let prompt = client.send_prompt(&session, "hi");
    let notice = client.wait_update(|update| update["sessionUpdate"] == "agent_thought_chunk");
    let words = notice["content"]["text"].as_str().unwrap();
    let named = format!("no answer from http://{nowhere}:8080: failed to lookup address");
    assert!(words.starts_with(&named) && words.contains("; trying again in"), "{words}");
    client.notify("session/cancel", json!({"sessionId": session}));
    client.wait_turn(&session, &prompt);
    client.finish();
}
