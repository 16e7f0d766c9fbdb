//! What is measured, a function for each group of rows.
use crate::peer::Peer;
use crate::support::model_server::{Answer, Hold, ModelServer};
use crate::support::openai::{call, event, finish, say, text};
use crate::table::{Row, Times};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const NOWHERE: &str = "http://127.0.0.1:9/v1";
const DELTAS: usize = 20_000;
pub(crate) const PROMPT_END: &str = "\"stopReason\"";

pub(crate) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// From the start of the process to the answer of `initialize`; the floor answers any line.
pub(crate) fn start(bob: &Path) -> Vec<Row> {
    let run = |start: &dyn Fn() -> Peer| {
        let since = Instant::now();
        start().initialize();
        since.elapsed()
    };
    let (floor, times) =
        Times::beside(101, |_| run(&|| Peer::floor(&["answer"])), |_| run(&|| Peer::bob(bob, NOWHERE, &[])));
    vec![Row::times_floor("start -> initialize answered", &times, &floor, 1.5)]
}

/// One prompt whose answer is 20,000 deltas; the floor copies the same bytes to the same lines.
pub(crate) fn throughput(bob: &Path) -> Vec<Row> {
    let server = ModelServer::start();
    let run = |peer: &mut Peer, ask: &dyn Fn(&mut Peer)| {
        server.push(flood(DELTAS));
        let since = Instant::now();
        ask(peer);
        peer.until(PROMPT_END);
        since.elapsed()
    };
    let mut plain = Peer::floor(&["copy", &server.address().to_string()]);
    let mut peer = Peer::bob(bob, &server.base_url(), &[]);
    peer.initialize();
    let (floor, times) = Times::beside(
        15,
        |_| run(&mut plain, &|peer| peer.send("go")),
        |index| {
            peer.ask_session(100 + index); // a new session each time: no history
            let session = peer.session(100 + index);
            run(&mut peer, &|peer| drop(peer.prompt(&session)))
        },
    );
    let count = f64::from(u32::try_from(DELTAS).expect("it is small"));
    vec![Row::rate("20,000 deltas in one prompt", count, "", &times, &floor, 0.5)]
}

/// From the moment the server may write its first delta to the line on stdout.
pub(crate) fn first_delta(bob: &Path) -> Vec<Row> {
    let server = ModelServer::start();
    let run = |peer: &mut Peer, ask: &dyn Fn(&mut Peer)| {
        let (answer, hold) = Answer::sse().write(": here\n\n").hold();
        let before = server.written();
        server.push(answer.write(event(&text("x"))).write(event(&finish("stop"))).write("data: [DONE]\n\n"));
        ask(peer);
        settle(&server, before);
        let since = Instant::now();
        hold.release();
        peer.until("agent_message_chunk");
        let took = since.elapsed();
        peer.until(PROMPT_END);
        took
    };
    let mut plain = Peer::floor(&["copy", &server.address().to_string()]);
    let mut peer = Peer::bob(bob, &server.base_url(), &[]);
    let session = peer.open();
    let (floor, times) = Times::beside(
        51,
        |_| run(&mut plain, &|peer| peer.send("go")),
        |_| run(&mut peer, &|peer| drop(peer.prompt(&session))),
    );
    vec![Row::over_floor("first delta in -> first chunk out", &times, &floor, Duration::from_micros(500))]
}

/// From a cancel to the prompt's response, while deltas rush in and while the model is silent.
pub(crate) fn cancel_while_the_model_works(bob: &Path) -> Vec<Row> {
    let server = ModelServer::start();
    let mut peer = Peer::bob(bob, &server.base_url(), &[]);
    let session = peer.open();
    let streaming = Times::of(21, |_| {
        server.push(flood(200_000));
        let prompt = peer.prompt(&session);
        peer.skip(1000, "agent_message_chunk");
        peer.cancel(&session, &prompt)
    });
    let silent = Times::of(21, |_| {
        let (answer, _hold) = Answer::sse().write(event(&text("x"))).hold();
        server.push(answer);
        let prompt = peer.prompt(&session);
        peer.until("agent_message_chunk");
        peer.cancel(&session, &prompt)
    });
    let before = Times::of(21, |_| {
        let (_hold, asked) = held(&server);
        let prompt = peer.prompt(&session);
        server.wait_request(asked);
        peer.cancel(&session, &prompt)
    });
    vec![
        Row::time("cancel -> response, deltas rushing in", &streaming, ms(2)),
        Row::time("cancel -> response, the model silent", &silent, ms(2)),
        Row::time("cancel -> response, before the first byte", &before, ms(20)),
    ]
}

/// The same while a command runs, while another turn works, and while permission is asked.
pub(crate) fn cancel_elsewhere(bob: &Path) -> Vec<Row> {
    let server = ModelServer::start();
    let sleep = || call([("c", "bash", json!({"command": "sleep 60"}))]);
    let mut free = Peer::bob(bob, &server.base_url(), &["--mode", "full-access"]);
    let session = free.open();
    let command = Times::of(21, |_| {
        server.push(sleep());
        let prompt = free.prompt(&session);
        free.until("\"in_progress\"");
        pause(ms(10)); // the shell is up
        free.cancel(&session, &prompt)
    });
    let mut asking = Peer::bob(bob, &server.base_url(), &[]);
    let (one, two) = (asking.open(), asking.open());
    let permission = Times::of(21, |_| {
        server.push(sleep());
        let prompt = asking.prompt(&one);
        asking.until("session/request_permission");
        asking.cancel(&one, &prompt)
    });
    let gate = Times::of(21, |_| {
        let (_hold, asked) = held(&server);
        let working = asking.prompt(&one);
        server.wait_request(asked);
        let waiting = asking.prompt(&two);
        pause(ms(2)); // it waits
        let took = asking.cancel(&two, &waiting);
        asking.cancel(&one, &working);
        took
    });
    vec![
        Row::time("cancel -> response, in a command", &command, ms(20)),
        Row::time("cancel -> response, waiting for permission", &permission, ms(20)),
        Row::time("cancel -> response, waiting for the gate", &gate, ms(20)),
    ]
}

/// From the end of its input to the end of the idle process.
pub(crate) fn end_of_input(bob: &Path) -> Vec<Row> {
    let times = Times::of(31, |_| {
        let mut peer = Peer::bob(bob, NOWHERE, &[]);
        peer.open();
        peer.end()
    });
    vec![Row::time("end of input -> exit, idle", &times, ms(2))]
}

/// A whole turn with one command, two model calls included. The first floor is the bare fork and exec of `bash -c true`
/// and nothing else, so what the turn adds counts against it; the second asks the model and saves a file as often as
/// the turn does, on one thread.
pub(crate) fn shell_turn(bob: &Path) -> Vec<Row> {
    let server = ModelServer::start();
    let mut peer = Peer::bob(bob, &server.base_url(), &["--mode", "full-access"]);
    let session = peer.open();
    let file = peer.folder().join("floor.json").display().to_string();
    let (mut bare, mut same) =
        (Peer::floor(&["fork"]), Peer::floor(&["shell", &server.address().to_string(), &file]));
    let run = |peer: &mut Peer, ask: &dyn Fn(&mut Peer)| {
        let since = Instant::now();
        ask(peer);
        peer.until(PROMPT_END);
        since.elapsed()
    };
    let script = || {
        server.push(call([("c", "bash", json!({"command": "true"}))]));
        server.push(say("done"));
    };
    let mut turn = |_| {
        script();
        let took = run(&mut peer, &|peer| drop(peer.prompt(&session)));
        peer.forget(&session); // each turn is the first of its conversation
        took
    };
    let (floor, times) = Times::beside(101, |_| run(&mut bare, &|peer| peer.send("go")), &mut turn);
    let (floor_of_same, times_again) = Times::beside(
        51,
        |_| {
            script();
            run(&mut same, &|peer| peer.send("go"))
        },
        &mut turn,
    );
    vec![
        Row::times_floor("turn with one shell command", &times, &floor, 2.0),
        Row::times_floor("the same, beside one that asks and saves", &times_again, &floor_of_same, 2.0),
    ]
}

/// Idle, and with 100 sessions open.
pub(crate) fn memory(bob: &Path) -> Vec<Row> {
    const SESSIONS: usize = 100;
    let mut idle = Vec::new();
    let mut full = Vec::new();
    let times = Times::of(5, |_| {
        let mut peer = Peer::bob(bob, NOWHERE, &[]);
        peer.initialize();
        idle.push(peer.pss());
        let since = Instant::now();
        (1..=SESSIONS).for_each(|id| peer.ask_session(id));
        peer.skip(SESSIONS, "\"configOptions\"");
        let took = since.elapsed();
        full.push(peer.pss());
        took
    });
    vec![
        Row::amount("memory (PSS), idle", median(idle), 3.0, "MB"),
        Row::amount("memory (PSS), 100 sessions", median(full), 8.0, "MB"),
        Row::time("100 sessions opened", &times, ms(50)),
    ]
}

/// 100 MB of deltas while nobody reads stdout: what grows over idle.
pub(crate) fn unread_client(bob: &Path) -> Vec<Row> {
    let server = ModelServer::start();
    let mut peer = Peer::bob(bob, &server.base_url(), &[]);
    let session = peer.open();
    let idle = peer.pss();
    let deltas = (100 << 20) / event(&text("word ")).len();
    server.push(flood(deltas));
    peer.prompt(&session);
    let mut written = 0;
    loop {
        pause(ms(500));
        let now = server.written();
        if now > 0 && now == written {
            break; // nobody takes any more
        }
        written = now;
    }
    vec![Row::amount("memory over idle, 100 MB and nobody reads", (peer.pss() - idle).max(0.0), 2.0, "MB")]
}

/// Sizes that need no clock.
pub(crate) fn size(bob: &Path) -> Vec<Row> {
    let server = ModelServer::with([say("hi")]);
    let mut peer = Peer::bob(bob, &server.base_url(), &[]);
    let session = peer.open();
    peer.prompt(&session);
    let request = server.wait_request(0);
    let length = |bytes: usize| f64::from(u32::try_from(bytes).expect("it is small"));
    let binary = std::fs::metadata(bob).map_or(0, |data| usize::try_from(data.len()).expect("it is small"));
    vec![
        Row::amount("size of the binary", length(binary) / f64::from(1 << 20), 3.0, "MB"),
        Row::amount("crates", length(crates()), 60.0, "crates"),
        Row::amount("first request of a one-line prompt", length(request.raw.len()) / 1024.0, 8.0, "KiB"),
    ]
}

/// Names and versions in `cargo tree -e normal`.
#[expect(clippy::disallowed_methods, reason = "cargo is this program's child, not Bob's")]
fn crates() -> usize {
    let cargo = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--edges", "normal", "--prefix", "none", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo is there");
    let tree = String::from_utf8_lossy(&cargo.stdout).into_owned();
    let names = tree.lines().filter_map(|line| line.split(" (").next()).filter(|line| !line.is_empty());
    names.collect::<std::collections::BTreeSet<_>>().len()
}

/// An answer of so many deltas, in writes of 4 KiB, which is more than a provider sends at once.
fn flood(deltas: usize) -> Answer {
    let body = event(&text("word ")).repeat(deltas) + &event(&finish("stop")) + "data: [DONE]\n\n";
    Answer::sse().write_in_pieces(body.as_bytes(), 4096)
}

/// The next answer never comes; and the number of the request that will wait for it.
fn held(server: &ModelServer) -> (Hold, usize) {
    let asked = server.requests().len();
    let (answer, hold) = Answer::sse().hold();
    server.push(answer);
    (hold, asked)
}

/// Waits until the server has written its first bytes, and a little for them to be read.
fn settle(server: &ModelServer, before: u64) {
    while server.written() == before {
        std::thread::yield_now();
    }
    pause(ms(2));
}

fn pause(time: Duration) {
    let _ = crossbeam_channel::after(time).recv();
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
