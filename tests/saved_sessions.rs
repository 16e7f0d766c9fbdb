//! Saved sessions as they lie on the disk: what a client is told of them again, and what a kill leaves.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use bob::cancel::Cancelled;
use bob::model::{AssistantMessage, Message};
use bob::session::Prompt;
use bob::session::history::History;
use bob::session::history::record::CallReference;
use bob::session::replay::replay;
use bob::session::store::{Head, LoadError, Place, Store};
use bob::wire::acp::{SessionId, session_update};
use serde_json::Value;
use serde_json::value::RawValue;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use support::{schema, write_file};

fn id() -> SessionId {
    SessionId::parse("20261201-101500-0a1b2c3d").unwrap()
}

fn place(cwd: &Path) -> Place {
    Place::new(cwd.to_owned(), ".bob/sessions".as_ref()).unwrap()
}

fn open(cwd: &Path) -> Result<(Store, History), LoadError> {
    Store::open(place(cwd), Head::new(id(), cwd.to_owned(), "m", "ask"), None)
}

fn lines(history: &History) -> Vec<String> {
    let (mut lines, mut messages) = (Vec::new(), 0);
    let new_message = || {
        messages += 1;
        format!("msg_{messages}")
    };
    let told = replay(history.transcript(), false, new_message, |update| {
        lines.push(session_update(&id(), update));
        Ok(())
    });
    assert_eq!(told, Ok(history.transcript().len()));
    lines
}

/// Each `fixtures/sessions/NAME.json` is replayed as `NAME.replay.jsonl` says. What is in that folder was written
/// by a version that was released, or edited by hand, and is read for ever.
#[test]
fn a_saved_session_is_told_word_for_word() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions");
    let mut checked = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            check(&path);
            checked += 1;
        }
    }
    assert!(checked > 0, "no fixture was found");
}

fn check(fixture: &Path) {
    let cwd = tempfile::tempdir().unwrap();
    let saved = write_file(cwd.path(), &format!(".bob/sessions/{}.json", id()), fs::read(fixture).unwrap());
    let (mut store, history) = open(cwd.path()).unwrap();
    let expected = fs::read_to_string(fixture.with_extension("replay.jsonl")).unwrap_or_default();
    let told = lines(&history);
    let expected: Vec<_> = expected.lines().collect();
    for (at, line) in told.iter().enumerate() {
        assert!(!line.contains(['\n', '\r']), "{line:?}");
        let message: Value = serde_json::from_str(line).unwrap();
        schema::check_notification("session/update", &message["params"]).unwrap();
        let expected: Value = serde_json::from_str(expected.get(at).unwrap_or(&"null")).unwrap();
        assert_eq!(message["params"]["update"], expected, "{} line {}: {line}", fixture.display(), at + 1);
    }
    assert_eq!(told.len(), expected.len());
    // What is loaded and saved again is the same session.
    let before = fs::read(&saved).unwrap();
    store.save(&history);
    drop(store);
    assert_ne!(fs::read(&saved).unwrap(), before, "it has another time");
    let (_store, again) = open(cwd.path()).unwrap();
    assert_eq!(lines(&again), told);
    assert_eq!(again.messages(), history.messages());
    strict(history.messages());
}

/// As a strict provider reads it: each call has exactly one result, directly behind its reply.
fn strict(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match message {
            Message::ToolResult(result) => {
                let at = open.iter().position(|id| *id == result.call_id).expect("a result has its call");
                open.remove(at);
            }
            Message::User(_) => assert!(open.is_empty()),
            Message::Assistant(reply) => {
                assert!(open.is_empty());
                open = reply.calls.iter().map(|call| call.id.as_str()).collect();
            }
        }
    }
    assert!(open.is_empty());
}

#[test]
fn a_replay_ends_as_soon_as_it_is_cancelled() {
    let mut history = History::default();
    (0..9).for_each(|n| step(&mut history, n));
    let mut said = 0;
    let told = replay(history.transcript(), false, String::new, |_| {
        said += 1;
        if said < 3 { Ok(()) } else { Err(Cancelled) }
    });
    assert_eq!((told, said), (Err(Cancelled), 3));
}

/// A turn whose texts tell its number.
fn step(history: &mut History, n: usize) {
    let text = format!(r#"{{"type":"text","text":"q{n} {}"}}"#, "x".repeat(2000));
    let block = RawValue::from_string(text).unwrap();
    let prompt = Prompt::check([&*block]).unwrap();
    history.push_user(prompt.blocks, String::new(), prompt.parts);
    let message = AssistantMessage { text: format!("a{n}"), ..AssistantMessage::default() };
    history.push_assistant(message, || CallReference::new(1));
}

const PLAYED: &str = "TEST_SESSION_OF";

/// Not a test by itself: another process, which opens the session and goes on with it until it is killed. Without
/// the variable it does nothing.
#[test]
fn another_process() {
    let Some(cwd) = env::var_os(PLAYED).map(PathBuf::from) else { return };
    let (mut store, mut history) = match open(&cwd) {
        Err(LoadError::Unknown) => {
            let head = Head::new(id(), cwd.clone(), "m", "ask");
            (Store::create(place(&cwd), head, None).unwrap(), History::default())
        }
        opened => opened.unwrap(),
    };
    for n in history.messages().len() / 2.. {
        step(&mut history, n);
        store.save(&history);
        assert!(writeln!(std::io::stderr(), "saved {n}").is_ok(), "nobody watches any more");
    }
}

struct Other {
    child: Child,
    lines: BufReader<ChildStderr>,
}

impl Other {
    fn start(cwd: &Path) -> Self {
        #[expect(clippy::disallowed_methods, reason = "another Bob, as an editor starts it")]
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "another_process", "--nocapture"]).env(PLAYED, cwd);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Self { child, lines }
    }

    /// The number of the next step that it has saved.
    fn saved(&mut self) -> usize {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "it ended by itself");
            if let Some(n) = line.trim().strip_prefix("saved ") {
                return n.parse().unwrap();
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_kill_at_any_moment_leaves_a_whole_session_with_every_step_that_was_told() {
    let cwd = tempfile::tempdir().unwrap();
    for round in 0..15 {
        let mut other = Other::start(cwd.path());
        let mut told = other.saved();
        for _ in 0..round {
            told = other.saved();
        }
        other.kill(); // it is in the middle of a later step
        let (_store, history) = open(cwd.path()).expect("whole, and free at once");
        let turns = history.messages().len() / 2;
        assert!(turns > told, "{turns} turns, but step {told} was saved");
        let Message::Assistant(last) = history.messages().last().unwrap() else { panic!() };
        assert_eq!(last.text, format!("a{}", turns - 1));
    }
    let left = fs::read_dir(cwd.path().join(".bob/sessions")).unwrap().count();
    assert!(left <= 3, "at most one try of a killed writer: {left} files");
}

#[test]
fn a_session_open_in_another_process_is_refused_and_free_when_that_is_killed() {
    let cwd = tempfile::tempdir().unwrap();
    let mut other = Other::start(cwd.path());
    other.saved();
    for _ in 0..20 {
        assert!(matches!(open(cwd.path()), Err(LoadError::Locked)));
        other.saved();
    }
    other.kill();
    open(cwd.path()).unwrap();
}
