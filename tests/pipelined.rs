//! Requests about saved sessions written without waiting for answers: each session's take effect in order.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use std::path::Path;
use support::client::{Client, Launch};
use support::openai::say;
use support::saved::{Place, close, listed};
use support::turns::{bash, prompt_line, request_line};

/// A race shows in some rounds, not in each.
const ROUNDS: usize = 15;

/// Writes requests in one write, with the ids 0, 1, 2 … of a word. Gives the answers in that order.
struct Batch<'a> {
    client: &'a mut Client,
    name: String,
    lines: Vec<String>,
}

impl<'a> Batch<'a> {
    fn new(client: &'a mut Client, name: impl Into<String>) -> Self {
        Self { client, name: name.into(), lines: Vec::new() }
    }

    fn id(&self, at: usize) -> Value {
        json!(format!("{} {at}", self.name))
    }

    fn request(mut self, method: &str, params: Value) -> Self {
        self.lines.push(request_line(&self.id(self.lines.len()), method, params));
        self
    }

    fn prompt(mut self, session: &str, text: &str) -> Self {
        self.lines.push(prompt_line(&self.id(self.lines.len()), session, text));
        self
    }

    /// Cancels one of the requests before; takes no number, so that it stands in the same line as that.
    fn cancel(mut self, at: usize) -> Self {
        let cancel =
            json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": self.id(at)}});
        let last = self.lines.last_mut().unwrap();
        *last = format!("{last}\n{cancel}");
        self
    }

    fn send(&mut self) {
        self.client.send_raw((self.lines.join("\n") + "\n").as_bytes());
    }

    #[track_caller]
    fn answers(mut self) -> Vec<Value> {
        self.send();
        self.wait()
    }

    #[track_caller]
    fn wait(self) -> Vec<Value> {
        let ids: Vec<_> = (0..self.lines.len()).map(|at| self.id(at)).collect();
        ids.iter().map(|id| self.client.wait_response(id)).collect()
    }
}

#[track_caller]
fn is_done(answer: &Value) {
    assert!(answer.get("result").is_some(), "{answer}");
}

#[track_caller]
fn is_refused(answer: &Value, code: i64, why: &str) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains(why), "{answer}");
}

const LIVE: &str = "open on this connection";

/// Params that name a folder without sessions.
fn elsewhere(place: &Place, session: &str) -> Value {
    json!({"sessionId": session, "cwd": place.user.path(), "mcpServers": []})
}

#[test]
fn a_load_behind_a_close_finds_the_session_closed() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    for round in 0..ROUNDS {
        let params = place.params(&session);
        let batch = Batch::new(&mut client, format!("round {round}"));
        let batch = batch.request("session/load", params.clone());
        let batch = batch.request("session/close", json!({"sessionId": session}));
        let batch = batch.request("session/load", params);
        let batch = batch.request("session/close", json!({"sessionId": session}));
        batch.answers().iter().for_each(is_done);
    }
    place.finish(client);
}

#[test]
fn a_load_behind_a_delete_finds_nothing() {
    let place = Place::new();
    let mut client = place.start(&[]);
    for round in 0..ROUNDS {
        let is_live = round % 2 == 0;
        let session = place.saved(&mut client, "hello");
        if is_live {
            place.load(&mut client, &session).done();
        }
        let batch = Batch::new(&mut client, format!("round {round}"));
        let batch = batch.request("session/delete", json!({"sessionId": session}));
        let batch = batch.request("session/load", place.params(&session));
        let answers = batch.prompt(&session, "gone").answers();
        is_done(&answers[0]);
        is_refused(&answers[1], -32602, "no saved session");
        is_refused(&answers[2], -32602, &session);
        assert!(!place.file(&session).exists(), "live: {is_live}");
    }
    place.finish(client);
}

#[test]
fn a_prompt_behind_a_load_waits_for_it() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    place.model.push(say("again"));
    let batch = Batch::new(&mut client, "").request("session/load", place.params(&session));
    let answers = batch.prompt(&session, "and now").answers();
    is_done(&answers[0]);
    assert_eq!(answers[1]["result"]["stopReason"], "end_turn", "{}", answers[1]);
    assert_eq!(place.model.requests().pop().unwrap().messages().len(), 4);
    place.finish(client);
}

#[test]
fn what_is_behind_a_load_that_fails_fails_up_to_the_next_load_which_is_tried() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    for round in 0..ROUNDS {
        let batch = Batch::new(&mut client, format!("round {round}"));
        let batch = batch.request("session/load", elsewhere(&place, &session)).prompt(&session, "lost");
        let batch = batch.request("session/load", place.params(&session));
        let batch = batch.request("session/set_mode", json!({"sessionId": session, "modeId": "ask"}));
        let batch = batch.prompt(&session, "again");
        place.model.push_for("again", say("done"));
        let answers = batch.request("session/resume", place.params(&session)).answers();
        is_refused(&answers[0], -32602, "no saved session");
        is_refused(&answers[1], -32602, &session);
        is_done(&answers[2]);
        is_done(&answers[3]);
        assert_eq!(answers[4]["result"]["stopReason"], "end_turn", "{}", answers[4]);
        is_refused(&answers[5], -32600, LIVE);
        close(&mut client, &session);
    }
    place.finish(client);
}

#[test]
fn of_two_loads_the_first_has_it() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    for round in 0..ROUNDS {
        let batch = Batch::new(&mut client, format!("round {round}"));
        let batch = batch.request("session/load", place.params(&session));
        let answers = batch.request("session/load", place.params(&session)).answers();
        is_done(&answers[0]);
        is_refused(&answers[1], -32600, LIVE);
        assert_eq!(answers[1]["error"]["data"]["sessionId"], *session);
        close(&mut client, &session);
    }
    place.finish(client);
}

#[test]
fn a_load_that_is_cancelled_can_be_made_again_at_once() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    for round in 0..ROUNDS {
        let batch = Batch::new(&mut client, format!("round {round}"));
        let batch = batch.request("session/load", place.params(&session)).cancel(0);
        let answers = batch.request("session/load", place.params(&session)).answers();
        match answers[0]["error"]["code"].as_i64() {
            Some(code) => {
                assert_eq!(code, -32800, "{}", answers[0]);
                is_done(&answers[1]);
            }
            None => is_refused(&answers[1], -32600, LIVE), // it was too late
        }
        close(&mut client, &session);
    }
    place.finish(client);
}

/// A session whose replay is more than fits into the outbox and a pipe.
fn long_session(place: &Place) -> String {
    let mut client = place.start(&[]);
    let session = client.new_session(place.cwd());
    for _ in 0..2 {
        place.prompt(&mut client, &session, &"x".repeat(300_000));
    }
    client.finish();
    session
}

#[test]
fn a_load_is_cancelled_while_nobody_reads_and_one_that_waits_behind_it_too() {
    let place = Place::new();
    let session = long_session(&place);
    let mut client = place.launch(Launch::new().unread()).start();
    client.send(&json!({"jsonrpc": "2.0", "id": "i", "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}}}));
    let batch = Batch::new(&mut client, "").request("session/load", place.params(&session));
    let batch = batch.request("session/load", place.params(&session)).cancel(1);
    let batch = batch.request("session/load", place.params(&session)).cancel(0);
    let mut batch = batch.request("session/list", json!({}));
    batch.send();
    batch.client.start_reading();
    let answers = batch.wait();
    is_refused(&answers[0], -32800, "");
    is_refused(&answers[1], -32800, "");
    is_done(&answers[2]);
    is_done(&answers[3]);
    place.finish(client);
}

#[test]
fn what_names_the_session_that_resume_continues_waits_for_it() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    client.finish();
    for round in 0..ROUNDS / 3 {
        let mut client = place.start(&["--resume"]);
        place.model.push(say("again"));
        let batch = Batch::new(&mut client, format!("round {round}"));
        let batch = batch.request("session/new", json!({"cwd": place.cwd(), "mcpServers": []}));
        let batch = batch.request("session/load", place.params(&session)).prompt(&session, "go on");
        let answers = batch.answers();
        assert_eq!(answers[0]["result"]["sessionId"], *session, "{}", answers[0]);
        is_refused(&answers[1], -32600, LIVE);
        assert_eq!(answers[2]["result"]["stopReason"], "end_turn", "{}", answers[2]);
        place.finish(client);
    }
}

#[test]
fn what_names_another_session_goes_on_when_resume_has_its_own() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let [other, gone, newest] = ["a", "b", "c"].map(|text| place.saved(&mut client, text));
    client.finish();
    let mut client = place.start(&["--resume"]);
    let batch = Batch::new(&mut client, "");
    let batch = batch.request("session/new", json!({"cwd": place.cwd(), "mcpServers": []}));
    let batch = batch.request("session/delete", json!({"sessionId": gone}));
    let batch = batch.request("session/load", place.params(&other)).prompt("nobody", "lost");
    let answers = batch.answers();
    assert_eq!(answers[0]["result"]["sessionId"], *newest, "{}", answers[0]);
    is_done(&answers[1]);
    is_done(&answers[2]);
    is_refused(&answers[3], -32602, "nobody");
    assert_eq!(listed(&mut client, None), [&*newest, &*other]);
    place.finish(client);
}

/// A heredoc ends without waiting; what it asked for is still answered, each thing once.
#[test]
fn a_heredoc_that_resumes_by_the_saved_id_is_answered_whole() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "hello");
    client.finish();
    let mut client = place.start(&["--resume", &session, "--script"]);
    place.model.push(bash("touch ran"));
    place.model.push(say("done"));
    let mut batch = Batch::new(&mut client, "")
        .request("session/new", json!({"cwd": place.cwd(), "mcpServers": []}))
        .prompt(&session, "go on");
    batch.send();
    batch.client.close_stdin();
    let answers = batch.wait();
    assert_eq!(answers[1]["result"]["stopReason"], "end_turn", "{}", answers[1]);
    assert!(Path::new(place.cwd()).join("ran").exists());
    place.finish(client);
}

#[test]
fn a_heredoc_that_closes_and_loads_again_is_answered_whole() {
    let place = Place::new();
    let mut client = place.start(&["--script"]);
    ["one", "two", "three"].iter().for_each(|text| place.model.push(say(text)));
    let close = json!({"sessionId": "script"});
    let mut batch = Batch::new(&mut client, "")
        .request("session/new", json!({"cwd": place.cwd(), "mcpServers": []}))
        .prompt("script", "first")
        .request("session/close", close.clone())
        .request("session/load", place.params("script"))
        .prompt("script", "second")
        .request("session/close", close)
        .request("session/load", place.params("script"))
        .prompt("script", "third");
    batch.send();
    batch.client.close_stdin();
    let answers = batch.wait();
    answers.iter().for_each(is_done);
    // A close does not wait for what is asked for: it cancels it.
    assert_eq!(answers[7]["result"]["stopReason"], "end_turn", "{}", answers[7]);
    client.finish();
}

#[test]
fn what_waits_for_a_resume_is_cancelled_at_the_end_of_input() {
    let place = Place::new();
    let session = long_session(&place);
    let mut client = place.launch(Launch::with_args(["--acp", "--resume"]).unread()).start();
    client.send(&json!({"jsonrpc": "2.0", "id": "i", "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}}}));
    let mut batch = Batch::new(&mut client, "")
        .request("session/new", json!({"cwd": place.cwd(), "mcpServers": []}))
        .prompt(&session, "go on");
    batch.send();
    batch.client.close_stdin();
    batch.client.start_reading();
    let answers = batch.wait();
    assert_eq!(answers[1]["result"]["stopReason"], "cancelled", "{}", answers[1]);
    client.finish();
}
