//! How sessions and the process end: by a close, the end of input, a signal, a dead stdout. Everything asked for is
//! answered, nothing that Bob started is left.
#![allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]
mod support;

use crossbeam_channel::{Receiver, bounded};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;
use support::client::{Client, Launch, Permission};
use support::model_server::{Answer, ModelServer};
use support::process::{memory_kib, signal, wait_at_rest, wait_gone};
use support::turns::{Place, bash, prompt_line, request_line};
use support::{HANG, openai};

/// Bob before a model, with a session.
fn opened() -> (ModelServer, Client, String) {
    let server = ModelServer::start().strict();
    let mut client = Launch::new().model(&server.base_url()).start();
    let session = client.open();
    (server, client, session)
}

/// The answer to a request among what came before the end.
#[track_caller]
fn answer_to(client: &mut Client, id: &Value) -> Value {
    client.wait_response(id)
}

#[track_caller]
fn is_unknown(answer: &Value, session: &str) {
    let error = &answer["error"];
    assert_eq!((&error["code"], &error["data"]["sessionId"]), (&json!(-32602), &json!(session)), "{answer}");
}

// --- closing a session

#[test]
fn a_close_ends_the_turn_wherever_it_is() {
    for place in Place::ALL {
        let (server, mut client, session) = opened();
        let turn = place.reach(&mut client, &server, &session, "stay");
        let close = client.request("session/close", json!({"sessionId": session}));
        let closed = answer_to(&mut client, &close);
        assert_eq!(closed["result"], json!({}), "{place:?}");
        turn.left_nothing(&server);
        let cancelled = answer_to(&mut client, &turn.prompt);
        assert_eq!(cancelled["result"]["stopReason"], "cancelled", "{place:?}");
        let prompt = client.send_prompt(&session, "again");
        is_unknown(&answer_to(&mut client, &prompt), &session);
        is_unknown(
            &client.call("session/set_mode", json!({"sessionId": session, "modeId": "ask"})),
            &session,
        );
        is_unknown(&client.call("session/close", json!({"sessionId": session})), &session);
        assert!(!client.cwd().join("ran").exists());
        client.finish();
    }
}

#[test]
fn a_turn_is_answered_before_the_close_that_ends_it() {
    let (server, mut client, session) = opened();
    let turn = Place::Command.reach(&mut client, &server, &session, "stay");
    let close = client.request("session/close", json!({"sessionId": session}));
    let first = client.wait_for("an answer", |message| message.get("result").is_some());
    assert_eq!(first["id"], turn.prompt);
    let second = client.wait_for("an answer", |message| message.get("result").is_some());
    assert_eq!(second["id"], close);
    client.finish();
}

#[test]
fn a_close_ends_what_earlier_commands_left_running() {
    let (server, mut client, session) = opened();
    client.permission(Permission::Select("allow"));
    server.push(bash("sleep 300 > /dev/null 2>&1 & echo $!"));
    server.push(openai::say("It runs."));
    let turn = client.prompt(&session, "start a server");
    let output = turn.of_kind("tool_call_update").last().expect("it ended")["rawOutput"]["output"].clone();
    let id = output.as_str().and_then(|text| text.split_whitespace().next()?.parse().ok());
    let id: u32 = id.unwrap_or_else(|| panic!("no id: {output}"));
    assert!(!support::process::is_gone(id), "what a command left runs on");
    assert_eq!(client.call("session/close", json!({"sessionId": session}))["result"], json!({}));
    assert!(support::process::is_gone(id));
    client.finish();
}

#[test]
fn what_comes_behind_a_close_finds_no_session() {
    let (server, mut client, _) = opened();
    for _ in 0..20 {
        let cwd = client.cwd();
        let session = client.new_session(&cwd);
        let turn = Place::Text.reach(&mut client, &server, &session, "stay");
        let params = json!({"sessionId": session});
        let lines = [
            request_line(&json!("close"), "session/close", params.clone()),
            prompt_line(&json!("prompt"), &session, "hello"),
            request_line(&json!("mode"), "session/set_mode", json!({"sessionId": session, "modeId": "ask"})),
            request_line(&json!("again"), "session/close", params),
        ];
        client.send_raw((lines.join("\n") + "\n").as_bytes());
        assert_eq!(answer_to(&mut client, &turn.prompt)["result"]["stopReason"], "cancelled");
        assert_eq!(answer_to(&mut client, &json!("close"))["result"], json!({}));
        for id in ["prompt", "mode", "again"] {
            is_unknown(&answer_to(&mut client, &json!(id)), &session);
        }
        turn.left_nothing(&server);
    }
    client.finish();
}

#[test]
fn what_waits_behind_a_close_can_be_cancelled() {
    let (server, mut client, session) = opened();
    let turn = Place::Command.reach(&mut client, &server, &session, "stay");
    let lines = [
        request_line(&json!("close"), "session/close", json!({"sessionId": session})),
        prompt_line(&json!("prompt"), &session, "hello"),
        support::turns::cancel_line(&session),
    ];
    client.send_raw((lines.join("\n") + "\n").as_bytes());
    let answer = answer_to(&mut client, &json!("prompt"));
    let was_cancelled = answer["result"]["stopReason"] == "cancelled";
    assert!(was_cancelled || answer["error"]["code"] == -32602, "{answer}");
    assert_eq!(answer_to(&mut client, &json!("close"))["result"], json!({}));
    assert_eq!(answer_to(&mut client, &turn.prompt)["result"]["stopReason"], "cancelled");
    client.finish();
}

#[test]
fn closed_sessions_leave_no_thread_and_no_memory() {
    let (_server, mut client, _session) = opened();
    let cwd = client.cwd();
    let (threads, mut after_the_first) = (threads(&client), 0);
    for round in 0..4 {
        let sessions: Vec<_> = (0..50).map(|_| client.new_session(&cwd)).collect();
        for session in sessions {
            assert_eq!(client.call("session/close", json!({"sessionId": session}))["result"], json!({}));
        }
        wait_for_threads(&client, threads);
        match round {
            0 => after_the_first = memory_kib(client.id()),
            _ => {
                assert!(memory_kib(client.id()) < after_the_first + 10_000, "memory grows with each session")
            }
        }
    }
    client.finish();
}

fn threads(client: &Client) -> usize {
    fs::read_dir(format!("/proc/{}/task", client.id())).expect("it is there").count()
}

/// A worker's thread is gone a moment after its last answer; nothing tells when.
#[track_caller]
fn wait_for_threads(client: &Client, wanted: usize) {
    let since = Instant::now();
    while threads(client) > wanted {
        assert!(since.elapsed() < HANG, "{} threads, not {wanted}", threads(client));
        std::thread::yield_now();
    }
}

#[test]
fn memory_does_not_grow_with_the_turns() {
    let (server, mut client, session) = opened();
    client.permission(Permission::Select("allow"));
    let mut early = 0;
    for round in 0..40 {
        server.push(bash("head -c 1000000 /dev/zero | tr '\\0' x"));
        server.push(openai::say("Much."));
        assert_eq!(client.prompt(&session, "print").stop_reason(), "end_turn");
        if round == 9 {
            early = memory_kib(client.id());
        }
    }
    let late = memory_kib(client.id());
    assert!(late < early + 30_000, "{early} KiB, then {late} KiB");
    client.finish();
}

// --- the end of input

#[test]
fn the_end_of_input_ends_the_turn_wherever_it_is() {
    for place in Place::ALL {
        let (server, mut client, session) = opened();
        let turn = place.reach(&mut client, &server, &session, "stay");
        let last = request_line(&json!("last"), "authenticate", json!({"methodId": "x"}));
        client.send_raw(format!("{last}\n").as_bytes());
        client.finish(); // exit 0, and no request without an answer
        assert_eq!(answer_to(&mut client, &turn.prompt)["result"]["stopReason"], "cancelled", "{place:?}");
        assert_eq!(answer_to(&mut client, &json!("last"))["result"], json!({}), "nothing is swallowed");
        turn.left_nothing(&server);
        assert!(!client.cwd().join("ran").exists());
    }
}

#[test]
fn the_end_of_input_ends_what_waits_for_another_sessions_turn() {
    let (server, mut client, session) = opened();
    let cwd = client.cwd();
    let others: Vec<_> = (0..3).map(|_| client.new_session(&cwd)).collect();
    let turn = Place::Text.reach(&mut client, &server, &session, "stay");
    let waiting: Vec<_> = others.iter().map(|other| client.send_prompt(other, "hello")).collect();
    client.finish();
    for prompt in waiting.iter().chain([&turn.prompt]) {
        assert_eq!(answer_to(&mut client, prompt)["result"]["stopReason"], "cancelled");
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_came_before_the_end_of_input_gets_its_real_answer() {
    for _ in 0..50 {
        let mut client = Launch::new().demo().start();
        let session = client.open();
        let nowhere = json!({"cwd": "/nowhere/at/all", "mcpServers": []});
        let lines = [
            request_line(&json!("new"), "session/new", json!({"cwd": client.cwd(), "mcpServers": []})),
            request_line(&json!("nowhere"), "session/new", nowhere),
            request_line(&json!("mode"), "session/set_mode", json!({"sessionId": session, "modeId": "ask"})),
            request_line(&json!("close"), "session/close", json!({"sessionId": session})),
        ];
        client.send_raw((lines.join("\n") + "\n").as_bytes());
        client.finish();
        assert!(answer_to(&mut client, &json!("new"))["result"]["sessionId"].is_string());
        assert_eq!(answer_to(&mut client, &json!("nowhere"))["error"]["code"], -32602);
        assert_eq!(answer_to(&mut client, &json!("mode"))["result"]["modeId"], "ask");
        assert_eq!(answer_to(&mut client, &json!("close"))["result"], json!({}));
    }
}

/// Bob before a model that talks without end and a client that has stopped reading; at rest therefore.
fn talking_to_nobody() -> (ModelServer, Raw) {
    let piece = openai::event(&openai::text(&"x".repeat(32 << 10)));
    let flood = (0..300).fold(Answer::sse(), |answer, _| answer.write(piece.as_bytes()));
    let server = ModelServer::with([flood]);
    let mut bob = Raw::start(&mut with_model(bob_command(["--acp"]), &server));
    bob.initialize();
    bob.write(&request_line(&json!(2), "session/new", json!({"cwd": "/", "mcpServers": []})));
    let opened = bob.read_line();
    let session = opened["result"]["sessionId"].as_str().expect("it is open");
    bob.write(&prompt_line(&json!(3), session, "talk"));
    server.wait_request(0);
    wait_at_rest(bob.id());
    (server, bob)
}

#[test]
fn the_end_of_input_ends_it_though_nobody_reads() {
    let (server, mut bob) = talking_to_nobody();
    bob.stdin = None;
    assert_eq!(bob.wait_code(), Some(0));
    server.wait_closed(0);
}

#[test]
fn the_end_of_input_is_seen_though_the_reader_pauses() {
    let mut bob = Raw::start(bob_command(["--acp"]).env("LLM_PROVIDER", "DEMO"));
    bob.initialize();
    // Each answer echoes its id: past 8 MiB of unread answers no further line is read.
    for n in 0..9 {
        let id = json!(format!("{n}{}", "x".repeat(1 << 20)));
        bob.write(&request_line(&id, "no/such/method", json!({})));
    }
    wait_at_rest(bob.id());
    bob.write(&request_line(&json!("unread"), "authenticate", json!({})));
    bob.stdin = None;
    assert_eq!(bob.wait_code(), Some(0));
}

// --- --script

/// `--script` with a session `script`, at its question about a command.
fn asked_in_a_script() -> (ModelServer, Client, Value, Value) {
    let server = ModelServer::with([bash("touch ran"), openai::say("Done.")]).strict();
    let mut client = Launch::with_args(["--acp", "--script"]).model(&server.base_url()).start();
    assert_eq!(client.open(), "script");
    let prompt = client.send_prompt("script", "go");
    let question = client.wait_request("session/request_permission")["id"].clone();
    (server, client, prompt, question)
}

#[test]
fn a_script_finishes_what_it_was_asked_and_its_open_question_is_refused() {
    let (server, mut client, prompt, _question) = asked_in_a_script();
    server.push(openai::say("Second."));
    let second = client.send_prompt("script", "and then?");
    client.finish();
    let turn = client.wait_turn("script", &prompt);
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "Done.Second."));
    assert_eq!(client.wait_response(&second)["result"]["stopReason"], "end_turn");
    assert!(!client.cwd().join("ran").exists());
    let told = server.requests()[1].messages().last().expect("there are some")["content"].clone();
    assert_eq!(told, "[command rejected by the user]");
}

#[test]
fn an_answer_given_before_the_end_of_a_script_counts() {
    for _ in 0..30 {
        let (_server, mut client, prompt, question) = asked_in_a_script();
        client.answer(&question, json!({"outcome": {"outcome": "selected", "optionId": "allow"}}));
        client.finish();
        assert_eq!(client.wait_response(&prompt)["result"]["stopReason"], "end_turn");
        assert!(client.cwd().join("ran").exists(), "the client had allowed it");
    }
}

#[test]
fn a_signal_ends_a_script_too() {
    let (_server, mut client, prompt, _question) = asked_in_a_script();
    signal(client.id(), Signal::TERM);
    assert!(client.wait_exit().success());
    client.check_ended();
    assert_eq!(client.wait_response(&prompt)["result"]["stopReason"], "cancelled");
}

// --- signals

#[test]
fn a_signal_is_an_orderly_end() {
    for ending in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (server, mut client, session) = opened();
        let turn = Place::Command.reach(&mut client, &server, &session, "stay");
        signal(client.id(), ending);
        assert!(client.wait_exit().success(), "{ending:?}");
        client.check_ended();
        assert_eq!(answer_to(&mut client, &turn.prompt)["result"]["stopReason"], "cancelled", "{ending:?}");
        turn.left_nothing(&server);
    }
}

#[test]
fn a_signal_ends_an_idle_bob() {
    let (_server, mut client, _session) = opened();
    signal(client.id(), Signal::TERM);
    assert!(client.wait_exit().success());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut bob = Raw::start(bob_command(["--acp", "--script", "s"]).env("LLM_PROVIDER", "DEMO"));
    bob.write(&request_line(
        &json!(1),
        "initialize",
        json!({"protocolVersion": 1, "clientCapabilities": {}}),
    ));
    bob.read_line();
    // More answers than a pipe holds, and nobody reads them: an orderly end would wait.
    for n in 0..3000 {
        bob.write(&request_line(&json!(n), "no/such/method", json!({})));
    }
    wait_at_rest(bob.id());
    signal(bob.id(), Signal::TERM);
    signal(bob.id(), Signal::INT);
    assert_eq!(bob.wait_code(), Some(130));
}

#[test]
fn a_killed_bob_takes_its_command_along() {
    let (server, mut client, session) = opened();
    let turn = Place::Command.reach(&mut client, &server, &session, "stay");
    signal(client.id(), Signal::KILL);
    client.wait_exit();
    // The shell is Bob's child; what it started in the background is not (its id was said first).
    let [background, shell] = turn.processes[..] else { panic!("two ids, not {:?}", turn.processes) };
    wait_gone(shell);
    if !support::process::is_gone(background) {
        signal(background, Signal::KILL);
    }
}

// --- what is around the process

/// A process without a client that checks it: its stdout can be closed.
struct Raw {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Receiver<String>,
    _home: tempfile::TempDir,
}

#[expect(clippy::disallowed_methods, reason = "the program under test is the test's child, not Bob's")]
fn command(program: &str) -> Command {
    Command::new(program)
}

fn bob_command<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut bob = command(env!("CARGO_BIN_EXE_bob"));
    bob.args(arguments);
    bob
}

fn with_model(mut bob: Command, server: &ModelServer) -> Command {
    bob.env("LLM_PROVIDER", "LOCAL").env("LOCAL_BASE_URL", server.base_url()).env("LOCAL_MODEL", "m");
    bob
}

impl Raw {
    fn start(command: &mut Command) -> Self {
        let home = tempfile::tempdir().expect("a folder");
        command.env("HOME", home.path()).env("BOB_HOME", home.path().join(".bob")).current_dir(home.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut stderr = child.stderr.take().expect("it is piped");
        let (all, said) = bounded(1);
        support::spawn("raw stderr", move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text); // what came is enough
            let _ = all.send(text); // nobody may want it
        });
        let stdout = child.stdout.take().map(BufReader::new);
        Self { stdin: child.stdin.take(), stdout, stderr: said, child, _home: home }
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        writeln!(stdin, "{line}").expect("Bob reads");
    }

    #[track_caller]
    fn read_line(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.as_mut().expect("it is open").read_line(&mut line).expect("it is text");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    #[track_caller]
    fn initialize(&mut self) {
        let params = json!({"protocolVersion": 1, "clientCapabilities": {}});
        self.write(&request_line(&json!(1), "initialize", params));
        assert_eq!(self.read_line()["result"]["protocolVersion"], 1);
    }

    #[track_caller]
    fn wait_code(&mut self) -> Option<i32> {
        wait_gone(self.id());
        self.child.wait().expect("it is a child").code()
    }

    fn stderr(&self) -> String {
        self.stderr.recv_timeout(HANG).expect("stderr ends with the process")
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.child.kill(); // gone already: all the better
        let _ = self.child.wait();
    }
}

#[test]
fn a_stdout_that_nobody_reads_any_more_is_noticed_while_idle() {
    let mut bob = Raw::start(bob_command(["--acp"]).env("LLM_PROVIDER", "DEMO"));
    bob.initialize();
    bob.stdout = None;
    assert_eq!(bob.wait_code(), Some(0));
}

#[test]
fn a_stdout_that_nobody_reads_any_more_ends_a_turn() {
    let (answer, _hold) = support::turns::talking([]);
    let server = ModelServer::with([answer]);
    let mut bob = Raw::start(&mut with_model(bob_command(["--acp", "--script", "s"]), &server));
    bob.initialize();
    bob.write(&request_line(&json!(2), "session/new", json!({"cwd": "/", "mcpServers": []})));
    bob.write(&prompt_line(&json!(3), "s", "talk"));
    while !bob.read_line().to_string().contains("So: ") {}
    bob.stdout = None;
    assert_eq!(bob.wait_code(), Some(0));
    server.wait_closed(0);
}

#[test]
fn a_stdout_that_nobody_reads_any_more_wakes_who_waits_for_room() {
    let (server, mut bob) = talking_to_nobody();
    bob.stdout = None;
    assert_eq!(bob.wait_code(), Some(0));
    server.wait_closed(0);
}

#[test]
fn a_killed_launcher_takes_bob_along() {
    let mut launcher = command("sh");
    launcher.args(["-c", "\"$0\" --acp; :", env!("CARGO_BIN_EXE_bob")]).env("LLM_PROVIDER", "DEMO");
    let mut launcher = Raw::start(&mut launcher);
    launcher.initialize();
    let children = format!("/proc/{0}/task/{0}/children", launcher.id());
    let children = fs::read_to_string(children).expect("this system tells of children");
    let bob: u32 = children.trim().parse().expect("one child");
    signal(launcher.id(), Signal::KILL);
    assert_eq!(launcher.wait_code(), None);
    launcher.stdin = None; // its client sees it die, and lets go of the pipes
    launcher.stdout = None;
    wait_gone(bob);
}

#[test]
fn it_needs_no_terminal() {
    let mut bob = Raw::start(command("setsid").args([env!("CARGO_BIN_EXE_bob"), "--acp"]));
    bob.initialize();
    bob.stdin = None;
    assert_eq!(bob.wait_code(), Some(0));
}

#[test]
fn without_a_stderr_stdout_is_still_nothing_but_json_rpc() {
    let closed = ["-c", "exec \"$0\" --acp -v 2>&-", env!("CARGO_BIN_EXE_bob")];
    let mut bob = Raw::start(command("sh").args(closed).env("LLM_PROVIDER", "DEMO"));
    bob.initialize();
    bob.write(&request_line(&json!(2), "session/new", json!({"cwd": "/", "mcpServers": []})));
    assert!(bob.read_line()["result"]["sessionId"].is_string());
    bob.stdin = None;
    assert_eq!(bob.wait_code(), Some(0));
    let mut rest = String::new();
    bob.stdout.take().expect("it is open").read_to_string(&mut rest).expect("it is text");
    assert!(rest.lines().all(|line| line.starts_with("{\"jsonrpc\":")), "{rest}");
}

#[test]
fn a_start_that_fails_says_why_in_its_last_line() {
    for (arguments, code, why) in [
        (["--acp", "--config=/nowhere/config.json"], 2, "/nowhere/config.json"),
        (["--acp", "-C/nowhere"], 2, "-C/nowhere"),
        (["--acp", "--log-file=/nowhere/log"], 1, "/nowhere/log"),
        (["--acp", "--script=a/b"], 2, "a/b"),
    ] {
        let mut bob = Raw::start(&mut bob_command(arguments));
        assert_eq!(bob.wait_code(), Some(code), "{arguments:?}");
        let said = bob.stderr();
        let first = said.lines().next().unwrap_or_default();
        assert!(first.starts_with("bob: ") && first.contains(why), "{said}");
    }
}

/// Opening a pipe would wait for whoever reads it, with a reader for whoever reads on.
#[test]
fn a_log_file_that_is_none_is_an_error_and_a_character_device_is_one() {
    let place = tempfile::tempdir().expect("there is room");
    let pipe = place.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe can be made");
    let argument = format!("--log-file={}", pipe.display());
    let start = |argument: &str| Raw::start(&mut bob_command(["--acp", argument]));
    for reader in [false, true] {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let _reader = reader.then(|| rustix::fs::open(&pipe, flags, rustix::fs::Mode::empty()));
        let mut bob = start(&argument);
        assert_eq!(bob.wait_code(), Some(1));
        assert!(bob.stderr().starts_with(&format!("bob: --log-file {}: ", pipe.display())));
    }
    let mut bob = start("--log-file=/dev/null");
    bob.stdin = None;
    assert_eq!(bob.wait_code(), Some(0));
}

#[test]
fn a_home_that_cannot_be_written_does_not_keep_it_from_working() {
    let launch =
        Launch::new().demo().env("HOME", "/proc/self/nowhere").env("BOB_HOME", "/proc/self/nowhere/.bob");
    let mut client = launch.start();
    let session = client.open();
    assert_eq!(client.prompt(&session, "hello").stop_reason(), "end_turn");
    client.finish();
}

#[test]
fn two_bobs_live_side_by_side() {
    let mut clients: Vec<_> = (0..2).map(|_| Launch::new().demo().start()).collect();
    let sessions: Vec<_> = clients.iter_mut().map(Client::open).collect();
    for (client, session) in clients.iter_mut().zip(&sessions) {
        assert_eq!(client.prompt(session, "hello").stop_reason(), "end_turn");
    }
    clients.iter_mut().for_each(Client::finish);
}

// --- a panic

#[test]
fn a_session_that_panics_frees_itself_and_answers() {
    use bob::session::busy::{Busy, Item, Phase, Refused, Work};
    use bob::session::gate::Gate;
    use bob::session::{ClientCapabilities, OpenParams, Opening, Origin};
    use bob::wire::acp::SessionId;
    use bob::wire::jsonrpc::Id;
    use bob::wire::outbox::{AtDeadline, Outbox};

    let outbox = Outbox::new(1 << 10);
    let id = Id::Number("7".into());
    let asked = OpenParams { cwd: "/".into(), additional_directories: vec![], mcp_servers: vec![] };
    let opening = Opening {
        params: asked,
        client: ClientCapabilities::default(),
        origin: Origin::New { named: false },
    };
    let opening = Work::Open(opening);
    let reply = outbox.open(id.clone(), "m", AtDeadline::Error);
    let session = SessionId::parse("s").expect("a good id");
    let busy = Busy::new(session, Gate::new(false), false, Item::new(opening, reply));
    let panicked = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _job = busy.next();
            std::panic::resume_unwind(Box::new("asked to"));
        });
        worker.join().is_err()
    });
    assert!(panicked);
    assert_eq!(busy.phase(), Phase::Failed);
    let refused = busy.accept(Item::new(Work::Close, None)).err().map(|(why, _)| why);
    assert_eq!(refused, Some(Refused::Ending));
    outbox.finish();
    let mut written = Vec::new();
    outbox.write_all(&mut written).expect("a buffer takes all");
    let answer: Value = serde_json::from_slice(&written).expect("one line");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32603)));
}
