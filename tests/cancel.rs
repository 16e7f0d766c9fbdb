//! `session/cancel` and `$/cancel_request`: wherever a turn is, it ends, says `cancelled`, and the session goes on.
#![allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]
mod support;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;
use support::client::{Client, Launch, Permission, Turn};
use support::model_server::{Answer, ModelServer};
use support::process::{is_gone, memory_kib, wait_at_rest};
use support::turns::{
    TWO_PROCESSES, and_stops, bash, cancel_line, prompt_line, said_something, talking, wait_processes,
};
use support::{HANG, openai, write_file};

/// Rounds of what is cheap.
const ROUNDS: usize = 50;
/// What the first turn of each test is about: it must be in every later request.
const FIRST: &str = "the first thing ever said";

/// A client with a session that has had one turn, before a model that is strict about tool calls.
struct Stage {
    client: Client,
    server: ModelServer,
    session: String,
    prompts: usize,
}

impl Stage {
    fn new() -> Self {
        Self::launch(Launch::with_args(["--acp", "--mode", "full-access"]))
    }

    fn asking() -> Self {
        Self::launch(Launch::new())
    }

    fn with_config(config: Value) -> Self {
        let launch = Launch::new();
        write_file(launch.home(), ".bob/config.json", config.to_string());
        Self::launch(launch)
    }

    fn launch(launch: Launch) -> Self {
        let server = ModelServer::start().strict();
        let mut client = launch.model(&server.base_url()).start();
        let session = client.open();
        let mut stage = Self { client, server, session, prompts: 0 };
        stage.server.push(openai::say("Noted."));
        let session = stage.session.clone();
        assert_eq!(stage.client.prompt(&session, FIRST).stop_reason(), "end_turn");
        stage
    }

    /// Sends a prompt that the model answers with this; its id.
    fn ask(&mut self, answer: Answer) -> Value {
        let text = self.next_text();
        self.server.push_for(&text, answer);
        self.client.send_prompt(&self.session, &text)
    }

    fn next_text(&mut self) -> String {
        self.prompts += 1;
        format!("prompt number {};", self.prompts)
    }

    fn cancel(&mut self) {
        let params = json!({"sessionId": self.session});
        self.client.notify("session/cancel", params);
    }

    /// The turn ends `cancelled`.
    #[track_caller]
    fn is_cancelled(&mut self, prompt: &Value) -> Turn {
        let turn = self.client.wait_turn(&self.session, prompt);
        assert_eq!(turn.stop_reason(), "cancelled", "{}", turn.response);
        turn
    }

    /// The next prompt is answered at once, with all that was said before.
    #[track_caller]
    fn goes_on(&mut self) {
        let prompt = self.ask(openai::say("Here."));
        let turn = self.client.wait_turn(&self.session, &prompt);
        assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "Here."), "{}", turn.response);
        let request = self.server.requests().pop().expect("it was asked");
        assert_eq!(request.messages()[1]["content"], FIRST);
    }

    /// The connection of the model's last request is closed.
    #[track_caller]
    fn model_hung_up(&self) {
        let request = self.server.requests().pop().expect("it was asked");
        self.server.wait_closed(request.connection);
    }

    #[track_caller]
    fn finish(mut self) {
        self.client.finish();
        assert_eq!(self.server.violations(), Vec::<String>::new());
    }
}

#[test]
fn while_it_waits_for_the_headers() {
    let mut stage = Stage::new();
    for _ in 0..ROUNDS {
        let (answer, _hold) = Answer::sse().hold();
        let asked = stage.server.requests().len();
        let prompt = stage.ask(answer);
        stage.server.wait_request(asked);
        stage.cancel();
        assert_eq!(stage.is_cancelled(&prompt).text(), "");
        stage.model_hung_up();
        stage.goes_on();
    }
    stage.finish();
}

#[test]
fn in_the_middle_of_a_text() {
    let mut stage = Stage::new();
    for _ in 0..ROUNDS {
        let (answer, _hold) = talking([]);
        let prompt = stage.ask(answer);
        stage.client.wait_update(said_something);
        stage.cancel();
        stage.is_cancelled(&prompt);
        stage.model_hung_up();
        stage.goes_on();
        let request = stage.server.requests().pop().expect("it was asked");
        let said = request.messages().iter().rev().find(|message| message["role"] == "assistant");
        assert_eq!(said.expect("it was said")["content"], "So: ", "what was shown stays in the history");
    }
    stage.finish();
}

#[test]
fn in_the_middle_of_arguments() {
    let mut stage = Stage::new();
    for _ in 0..ROUNDS {
        let begun = openai::tool_call(0, "model_1", "bash", "{\"command\":\"touch r");
        let (answer, _hold) = talking([begun]);
        let prompt = stage.ask(answer);
        stage.client.wait_update(said_something);
        stage.cancel();
        assert_eq!(stage.is_cancelled(&prompt).of_kind("tool_call").count(), 0, "it was no call yet");
        stage.model_hung_up();
        stage.goes_on();
    }
    assert!(!stage.client.cwd().join("r").exists());
    stage.finish();
}

#[test]
fn in_a_command_with_all_its_processes() {
    let mut stage = Stage::new();
    for _ in 0..10 {
        let prompt = stage.ask(bash(TWO_PROCESSES));
        let processes = wait_processes(&mut stage.client);
        stage.cancel();
        let turn = stage.is_cancelled(&prompt);
        assert!(processes.iter().all(|id| is_gone(*id)), "{processes:?} when the answer is out");
        let call = turn.of_kind("tool_call").next().expect("it was announced")["toolCallId"].clone();
        assert_eq!(turn.status(call.as_str().expect("it has an id")), Some("failed"));
        stage.goes_on();
    }
    stage.finish();
}

#[test]
fn in_a_command_that_ignores_signals() {
    let mut stage = Stage::new();
    let prompt =
        stage.ask(bash("trap '' TERM INT HUP; (trap '' TERM; sleep 300) & echo $! $$; sleep 300; sleep 300"));
    let processes = wait_processes(&mut stage.client);
    stage.cancel();
    stage.is_cancelled(&prompt);
    assert!(processes.iter().all(|id| is_gone(*id)), "{processes:?} when the answer is out");
    stage.goes_on();
    stage.finish();
}

#[test]
fn while_permission_is_asked_and_never_answered() {
    let mut stage = Stage::asking();
    for _ in 0..ROUNDS {
        let prompt = stage.ask(bash("touch ran"));
        let question = stage.client.wait_request("session/request_permission");
        stage.cancel();
        let withdrawn = stage.client.wait_for("the withdrawal", |m| m["method"] == "$/cancel_request");
        assert_eq!(withdrawn["params"]["requestId"], question["id"]);
        stage.is_cancelled(&prompt);
        stage.goes_on();
    }
    assert!(!stage.client.cwd().join("ran").exists());
    stage.finish();
}

#[test]
fn while_permission_is_asked_and_answered_late() {
    let allow = json!({"outcome": {"outcome": "selected", "optionId": "allow_always"}});
    let mut stage = Stage::asking();
    for round in 0..ROUNDS {
        let prompt = stage.ask(bash("touch ran"));
        let question = stage.client.wait_request("session/request_permission")["id"].clone();
        stage.cancel();
        if round % 2 == 0 {
            stage.client.answer(&question, json!({"outcome": {"outcome": "cancelled"}}));
        }
        stage.client.answer(&question, allow.clone());
        stage.is_cancelled(&prompt);
        stage.client.answer(&question, allow.clone());
        stage.goes_on();
    }
    assert!(!stage.client.cwd().join("ran").exists());
    stage.finish();
}

#[test]
fn in_a_retrys_pause() {
    let mut stage = Stage::new();
    for _ in 0..ROUNDS {
        let prompt = stage.ask(openai::refuse(503, "overloaded").header("retry-after", "60"));
        stage.client.wait_update(|update| update["sessionUpdate"] == "agent_thought_chunk");
        stage.cancel();
        stage.is_cancelled(&prompt);
        stage.goes_on();
    }
    stage.finish();
}

#[test]
fn behind_another_sessions_turn() {
    let mut stage = Stage::new();
    let cwd = stage.client.cwd();
    let other = stage.client.new_session(&cwd);
    let (answer, hold) = talking([]);
    stage.server.push_for("somebody else's", and_stops(answer));
    let long = stage.client.send_prompt(&other, "somebody else's");
    stage.client.wait_update(said_something);
    for round in 0..ROUNDS {
        let text = stage.next_text();
        let prompt = stage.client.send_prompt(&stage.session, &text);
        if round == 0 {
            stage.client.wait_update(|update| update["sessionUpdate"] == "agent_thought_chunk");
        }
        stage.cancel();
        stage.is_cancelled(&prompt);
    }
    hold.release();
    assert_eq!(stage.client.wait_turn(&other, &long).stop_reason(), "end_turn");
    stage.goes_on();
    let asked = stage.server.requests().pop().expect("it was asked").messages().len();
    assert_eq!(asked, 4, "questions that got no answer at all are not in the history");
    stage.finish();
}

#[test]
fn in_the_same_write_as_its_prompt() {
    let mut stage = Stage::new();
    for round in 0..ROUNDS {
        let text = stage.next_text();
        let (answer, _hold) = Answer::sse().hold();
        stage.server.push_for(&text, answer);
        let (prompt, session) = (json!(format!("p{round}")), &stage.session);
        let both = format!("{}\n{}\n", prompt_line(&prompt, session, &text), cancel_line(session));
        stage.client.send_raw(both.as_bytes());
        stage.is_cancelled(&prompt);
        stage.goes_on();
    }
    stage.finish();
}

#[test]
fn together_with_the_next_prompt_in_one_write() {
    let mut stage = Stage::new();
    for round in 0..ROUNDS {
        let (answer, _hold) = talking([]);
        let first = stage.ask(answer);
        if round % 2 == 0 {
            stage.client.wait_update(said_something);
        }
        let text = stage.next_text();
        stage.server.push_for(&text, openai::say("Second."));
        let (second, session) = (json!(format!("p{round}")), &stage.session);
        let both = format!("{}\n{}\n", cancel_line(session), prompt_line(&second, session, &text));
        stage.client.send_raw(both.as_bytes());
        stage.is_cancelled(&first);
        let turn = stage.client.wait_turn(&stage.session, &second);
        assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "Second."));
    }
    stage.finish();
}

#[test]
fn before_the_session_is_open() {
    for _ in 0..10 {
        let server = ModelServer::start();
        let mut client = Launch::with_args(["--acp", "--script", "s"]).model(&server.base_url()).start();
        client.initialize();
        let new = json!({"jsonrpc": "2.0", "id": "n", "method": "session/new",
                         "params": {"cwd": client.cwd(), "mcpServers": []}});
        let (prompt, two) = (prompt_line(&json!("p"), "s", "one"), prompt_line(&json!("q"), "s", "two"));
        client.send_raw(format!("{new}\n{prompt}\n{two}\n{}\n", cancel_line("s")).as_bytes());
        for id in ["p", "q"] {
            assert_eq!(client.wait_response(&json!(id))["result"]["stopReason"], "cancelled");
        }
        assert_eq!(client.wait_response(&json!("n"))["result"]["sessionId"], "s");
        server.push(openai::say("Now."));
        assert_eq!(client.prompt("s", "three").text(), "Now.");
        client.finish();
    }
}

/// The address of a listener whose queue is full, so that who connects waits; the sockets that keep it so.
fn unreachable() -> (Vec<OwnedFd>, SocketAddr) {
    use rustix::net::{bind, connect, getsockname, listen, socket_with};
    let new = |flags| socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).expect("a socket");
    let listener = new(SocketFlags::CLOEXEC);
    bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback has a free port");
    listen(&listener, 0).expect("it listens");
    let address: SocketAddr = getsockname(&listener).expect("it is bound").try_into().expect("IPv4");
    let queued = (0..4).map(|_| {
        let socket = new(SocketFlags::NONBLOCK | SocketFlags::CLOEXEC);
        connect(&socket, &address).expect_err("it is not waited for");
        socket
    });
    (queued.chain([listener]).collect(), address)
}

/// How many sockets wait for an answer to their SYN to this port. There is no event for it from outside.
fn connecting_to(address: SocketAddr) -> usize {
    let (port, table) = (format!(":{:04X}", address.port()), std::fs::read_to_string("/proc/net/tcp"));
    let table = table.expect("this system has /proc/net/tcp");
    let columns = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    columns
        .filter(|line| line.get(2).is_some_and(|to| to.ends_with(&port)) && line.get(3) == Some(&"02"))
        .count()
}

#[test]
fn while_it_connects() {
    let (_sockets, address) = unreachable();
    let mut client = Launch::new().model(&format!("http://{address}/v1")).start();
    let session = client.open();
    for _ in 0..3 {
        let (before, since) = (connecting_to(address), Instant::now());
        let prompt = client.send_prompt(&session, "hello");
        while connecting_to(address) <= before {
            assert!(since.elapsed() < HANG, "it does not connect");
            std::thread::yield_now();
        }
        client.notify("session/cancel", json!({"sessionId": session}));
        let turn = client.wait_turn(&session, &prompt);
        assert_eq!(turn.stop_reason(), "cancelled", "{}", turn.response);
    }
    client.finish();
}

/// Pieces of 32 KiB: more than anybody should hold.
const FLOOD: usize = 3000;

/// Bob with a client that reads nothing yet, before a model that talks without end; at rest since nobody listens.
fn talking_to_nobody(server: &ModelServer) -> Client {
    let piece = openai::event(&openai::text(&"x".repeat(32 << 10)));
    let flood = (0..FLOOD).fold(Answer::sse(), |answer, _| answer.write(piece.as_bytes()));
    server.push(flood);
    let mut client = Launch::with_args(["--acp", "--script", "s"]).model(&server.base_url()).unread().start();
    client.request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    let cwd = client.cwd();
    client.request("session/new", json!({"cwd": cwd, "mcpServers": []}));
    let prompt = client.send_prompt("s", "talk");
    assert_eq!(prompt, json!(3));
    server.wait_request(0);
    wait_at_rest(client.id());
    assert!(server.written() < (FLOOD as u64) << 15, "all of it was read, and nobody listens");
    client
}

#[test]
fn while_it_waits_for_a_client_that_does_not_read() {
    let server = ModelServer::start();
    let mut client = talking_to_nobody(&server);
    let memory = memory_kib(client.id());
    assert!(memory < 60_000, "{memory} KiB, and nobody reads");
    client.notify("session/cancel", json!({"sessionId": "s"}));
    server.wait_closed(0); // the cancel got through although nobody reads
    server.push(openai::say("Yes."));
    let next = client.send_prompt("s", "still there?");
    wait_at_rest(client.id());
    let memory = memory_kib(client.id());
    assert!(memory < 60_000, "{memory} KiB, and nobody reads");
    client.start_reading();
    assert_eq!(client.wait_turn("s", &json!(3)).stop_reason(), "cancelled");
    assert_eq!(client.wait_turn("s", &next).text(), "Yes.");
    client.finish();
}

/// A model's pieces and their end, to a client that does not read: cancelled while its last word waits for room.
#[track_caller]
fn waits_with_its_last_word(pieces: usize, end: Value) {
    let launch = Launch::with_args(["--acp", "--script", "s"]);
    write_file(launch.home(), ".bob/config.json", json!({"limits": {"outboxBytes": 1000}}).to_string());
    let pieces = (0..pieces).map(|_| openai::text(&"x".repeat(60 << 10)));
    let server = ModelServer::with([openai::stream(pieces.chain([end]))]);
    let mut client = launch.model(&server.base_url()).unread().start();
    client.request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    let cwd = client.cwd();
    client.request("session/new", json!({"cwd": cwd, "mcpServers": []}));
    let prompt = client.send_prompt("s", "talk");
    server.wait_request(0);
    wait_at_rest(client.id());
    let cancel = client.request("session/cancel", json!({"sessionId": "s"}));
    wait_at_rest(client.id());
    client.start_reading();
    assert_eq!(client.wait_response(&cancel)["result"], json!(null));
    let turn = client.wait_turn("s", &prompt);
    assert_eq!(turn.stop_reason(), "cancelled", "{}", turn.response);
    client.finish();
}

#[test]
fn a_turn_whose_last_words_wait_for_room_is_cancelled_not_done() {
    // One piece in the pipe, one in the writer's hands, and one that waits: the last, or not even that.
    waits_with_its_last_word(3, openai::finish("stop"));
    waits_with_its_last_word(4, openai::finish("stop"));
}

#[test]
fn a_turn_whose_error_waits_for_room_is_cancelled_not_failed() {
    waits_with_its_last_word(2, openai::error("the provider's own words", 400));
    waits_with_its_last_word(3, openai::error("the provider's own words", 400));
}

#[test]
fn in_the_middle_of_several_calls_each_has_its_end_and_its_result() {
    let mut stage = Stage::new();
    for _ in 0..10 {
        let calls = ["true", TWO_PROCESSES, "touch never", "touch never"];
        let ids = ["a", "b", "c", "d"];
        let calls = ids.into_iter().zip(calls).map(|(id, line)| (id, "bash", json!({"command": line})));
        let prompt = stage.ask(openai::call(calls));
        wait_processes(&mut stage.client);
        stage.cancel();
        let turn = stage.is_cancelled(&prompt);
        let status =
            |call: &Value| turn.status(call["toolCallId"].as_str().expect("an id")).map(str::to_owned);
        let ends: Vec<_> = turn.of_kind("tool_call").filter_map(status).collect();
        assert_eq!(ends, ["completed", "failed", "failed", "failed"]);
        stage.goes_on();
    }
    assert!(!stage.client.cwd().join("never").exists());
    stage.finish();
}

#[test]
fn a_request_is_cancelled_by_its_id() {
    let mut stage = Stage::with_config(json!({"turns": {"queue": true}}));
    for _ in 0..10 {
        let (answer, _hold) = talking([]);
        let running = stage.ask(answer);
        stage.client.wait_update(said_something);
        let queued: Vec<_> = (0..3).map(|_| stage.ask(openai::say("Queued."))).collect();
        let unknown =
            [json!("nobody"), json!(1), json!(-7), json!(null), json!([]), json!(format!("{running}"))];
        for id in unknown.iter().chain([&queued[1]]) {
            stage.client.notify("$/cancel_request", json!({"requestId": id}));
        }
        let cancelled = stage.client.wait_response(&queued[1]);
        assert_eq!(cancelled["result"]["stopReason"], "cancelled");
        stage.client.notify("$/cancel_request", json!({"requestId": running}));
        stage.is_cancelled(&running);
        for id in [&queued[0], &queued[2]] {
            assert_eq!(stage.client.wait_turn(&stage.session, id).text(), "Queued.");
            stage.client.notify("$/cancel_request", json!({"requestId": id})); // finished
        }
    }
    stage.finish();
}

#[test]
fn queued_prompts_run_in_order_and_a_cancel_takes_them_all() {
    let mut stage = Stage::with_config(json!({"turns": {"queue": true}}));
    for _ in 0..10 {
        let (answer, hold) = talking([]);
        let first = stage.ask(and_stops(answer));
        stage.client.wait_update(said_something);
        let texts = ["one", "two", "three"];
        let queued: Vec<_> = texts.iter().map(|text| stage.ask(openai::say(text))).collect();
        hold.release();
        assert_eq!(stage.client.wait_turn(&stage.session, &first).stop_reason(), "end_turn");
        for (prompt, text) in queued.iter().zip(texts) {
            let answer = stage.client.wait_for("the next answer", |message| message.get("result").is_some());
            assert_eq!(
                (&answer["id"], &answer["result"]["stopReason"]),
                (prompt, &json!("end_turn")),
                "{text}"
            );
        }
        let (answer, _hold) = talking([]);
        let running = stage.ask(answer);
        stage.client.wait_update(said_something);
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let text = stage.next_text();
                stage.client.send_prompt(&stage.session, &text)
            })
            .collect();
        stage.cancel();
        stage.is_cancelled(&running);
        for prompt in waiting {
            stage.is_cancelled(&prompt);
        }
        stage.goes_on();
    }
    stage.finish();
}

#[test]
fn a_cancel_may_be_a_request() {
    let mut stage = Stage::new();
    let (answer, _hold) = talking([]);
    let prompt = stage.ask(answer);
    stage.client.wait_update(said_something);
    let cancel = stage.client.call("session/cancel", json!({"sessionId": stage.session}));
    assert_eq!(cancel.get("result"), Some(&json!(null)));
    stage.is_cancelled(&prompt);
    let again = stage.client.call("session/cancel", json!({"sessionId": stage.session}));
    assert_eq!(again.get("result"), Some(&json!(null)));
    let unknown = stage.client.call("session/cancel", json!({"sessionId": "nobody"}));
    assert_eq!(
        (&unknown["error"]["code"], &unknown["error"]["data"]["sessionId"]),
        (&json!(-32600), &json!("nobody"))
    );
    stage.client.notify("session/cancel", json!({"sessionId": "nobody"}));
    stage.client.notify("session/cancel", json!({"sessionId": 7}));
    stage.client.notify("session/cancel", json!(null));
    stage.goes_on();
    stage.finish();
}

#[test]
fn a_second_prompt_is_refused_while_a_turn_runs_and_not_once_it_is_cancelled() {
    let mut stage = Stage::new();
    let (answer, _hold) = talking([]);
    let prompt = stage.ask(answer);
    stage.client.wait_update(said_something);
    let session = stage.session.clone();
    let refused = stage.client.prompt(&session, "me too").response;
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(refused["error"]["message"], format!("session {session} already has an active turn"));
    let mode = json!({"sessionId": session, "modeId": "ask"});
    assert_eq!(stage.client.call("session/set_mode", mode.clone())["error"]["code"], -32600);
    let new = stage.client.send_prompt(&session, "/new");
    let behind = stage.client.call("session/set_mode", mode.clone());
    assert_eq!(behind["error"]["code"], -32600, "the slash command is an accepted prompt");
    stage.cancel();
    stage.is_cancelled(&prompt);
    assert_eq!(
        stage.client.wait_response(&new)["result"]["stopReason"],
        "cancelled",
        "it came before the cancel"
    );
    assert_eq!(stage.client.call("session/set_mode", mode)["result"]["modeId"], "ask");
    stage.goes_on();
    stage.finish();
}

#[test]
fn a_slash_command_waits_for_the_turn_before_it() {
    let mut stage = Stage::new();
    let (answer, hold) = talking([]);
    let prompt = stage.ask(and_stops(answer));
    stage.client.wait_update(said_something);
    let session = stage.session.clone();
    let new = stage.client.send_prompt(&session, "/new");
    hold.release();
    assert_eq!(stage.client.wait_turn(&session, &prompt).stop_reason(), "end_turn");
    assert_eq!(stage.client.wait_turn(&session, &new).stop_reason(), "end_turn");
    stage.server.push(openai::say("Fresh."));
    assert_eq!(stage.client.prompt(&session, "hello").text(), "Fresh.");
    assert_eq!(stage.server.requests().pop().expect("it was asked").messages().len(), 2);
    stage.finish();
}

#[test]
fn the_other_session_is_left_alone() {
    let mut stage = Stage::with_config(json!({"turns": {"parallel": true}}));
    stage.client.permission(Permission::Select("allow"));
    let cwd = stage.client.cwd();
    let other = stage.client.new_session(&cwd);
    let (answer, hold) = talking([]);
    stage.server.push_for("somebody else's", and_stops(answer));
    let long = stage.client.send_prompt(&other, "somebody else's");
    stage.client.wait_update(said_something);
    for _ in 0..10 {
        let prompt = stage.ask(bash(TWO_PROCESSES));
        wait_processes(&mut stage.client);
        stage.cancel();
        stage.is_cancelled(&prompt);
    }
    hold.release();
    assert_eq!(stage.client.wait_turn(&other, &long).stop_reason(), "end_turn");
    stage.goes_on();
    stage.finish();
}
