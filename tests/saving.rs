//! Saving when the disk will not have it, and what many sessions, or many processes, leave.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Instant;
use support::client::{Client, Launch, Permission};
use support::model_server::ModelServer;
use support::openai::say;
use support::process::{is_gone, signal, wait_at_rest, wait_gone};
use support::saved::{Place, close, listed};
use support::turns::{TWO_PROCESSES, bash, wait_processes};
use support::{HANG, write_file};

/// The warnings about saving.
fn warnings(client: &Client) -> Vec<String> {
    let stderr = client.wait_stderr();
    stderr.lines().filter(|line| line.contains("saved")).map(str::to_owned).collect()
}

#[test]
fn a_folder_that_may_not_be_written_costs_a_warning() {
    let model = ModelServer::start().strict();
    let launch = Launch::without_rights().model(&model.base_url());
    fs::set_permissions(launch.cwd(), fs::Permissions::from_mode(0o555)).unwrap();
    let mut client = launch.start();
    let session = client.open();
    for _ in 0..2 {
        model.push(say("hello"));
        assert_eq!(client.prompt(&session, "hi").stop_reason(), "end_turn");
    }
    assert_eq!(listed(&mut client, None), [] as [&str; 0]);
    client.finish();
    let warnings = warnings(&client);
    assert!(warnings.len() == 1 && warnings[0].contains("it is not saved"), "{warnings:?}");
}

#[test]
fn a_folder_that_can_not_be_written_any_more_keeps_what_it_has_until_it_can() {
    let model = ModelServer::start().strict();
    let mut client = Launch::without_rights().model(&model.base_url()).start();
    let session = client.open();
    let folder = client.cwd().join(".bob/sessions");
    let file = folder.join(format!("{session}.json"));
    let talk = |client: &mut Client, text: &str| {
        model.push(say("hello"));
        assert_eq!(client.prompt(&session, text).stop_reason(), "end_turn");
        fs::read_to_string(&file).unwrap()
    };
    let before = talk(&mut client, "first");
    let allow = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    allow(0o500);
    for text in ["second", "third"] {
        assert_eq!(talk(&mut client, text), before, "whole, as it was");
    }
    allow(0o700);
    let after = talk(&mut client, "fourth");
    assert!(["first", "second", "third", "fourth"].iter().all(|text| after.contains(text)), "{after}");
    client.finish();
    let warnings = warnings(&client);
    assert!(warnings.len() == 1 && warnings[0].contains("could not be saved"), "told once: {warnings:?}");
}

#[test]
fn folders_that_vanish_cost_a_warning_and_only_bob_s_own_are_made_again() {
    let place = Place::new();
    let folder = place.cwd().join("sub");
    fs::create_dir(&folder).unwrap();
    let mut client = place.start(&[]);
    let session = client.new_session(&folder);
    place.prompt(&mut client, &session, "first");
    fs::remove_dir_all(folder.join(".bob")).unwrap();
    place.prompt(&mut client, &session, "second");
    let text = fs::read_to_string(folder.join(format!(".bob/sessions/{session}.json"))).unwrap();
    assert!(text.contains("first") && text.contains("second"));
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(place.prompt(&mut client, &session, "third").stop_reason(), "end_turn");
    assert!(!folder.exists(), "a project that is gone is not made again");
    place.model.push(bash("touch x"));
    assert_eq!(place.prompt(&mut client, &session, "a command in it").stop_reason(), "end_turn");
    client.finish();
    let warnings = warnings(&client);
    assert!(warnings.len() == 1 && warnings[0].contains("could not be saved"), "{warnings:?}");
}

/// A limit on the size of files fails a write as a full disk does: in its middle. The shell's `ulimit` counts blocks of
/// 512 or of 1024 bytes, so this is 64 or 128 KiB.
#[test]
fn a_disk_without_room_keeps_the_last_step_whole_and_saving_goes_on_with_room() {
    let place = Place::new();
    let script = r#"ulimit -f 128; exec "$0" "$@""#;
    let bob = env!("CARGO_BIN_EXE_bob");
    let mut client = place.launch(Launch::shell(script, &[bob, "--acp"])).start();
    client.permission(Permission::Select("allow"));
    client.initialize();
    let session = client.new_session(place.cwd());
    place.prompt(&mut client, &session, "small");
    let before = fs::read(place.file(&session)).unwrap();
    let large = "x".repeat(200 << 10);
    for _ in 0..2 {
        assert_eq!(place.prompt(&mut client, &session, &large).stop_reason(), "end_turn");
        assert_eq!(fs::read(place.file(&session)).unwrap(), before);
    }
    // The past needs no room to be kept, and there is room for a new one.
    assert!(client.prompt(&session, "/new").text().contains("forgotten"));
    place.prompt(&mut client, &session, "small again");
    let names: Vec<_> = fs::read_dir(place.cwd().join(".bob/sessions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.iter().filter(|name| name.ends_with(".json")).count(), 2, "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".tmp")), "{names:?}");
    close(&mut client, &session);
    assert_eq!(place.load(&mut client, &session).done().questions(), ["small again"]);
    let mut all = listed(&mut client, None);
    all.retain(|id| *id != session);
    assert_eq!(place.load(&mut client, &all[0]).done().questions(), ["small"]);
    place.finish(client);
}

/// What the kernel counts of a process: its threads and its open files.
fn held(id: u32) -> (usize, usize) {
    let count = |what: &str| fs::read_dir(format!("/proc/{id}/{what}")).unwrap().count();
    (count("task"), count("fd"))
}

#[test]
fn two_hundred_sessions_leave_nothing_when_they_are_closed() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let first = place.saved(&mut client, "first");
    wait_at_rest(client.id());
    let before = held(client.id());
    let sessions: Vec<_> = (0..200).map(|_| client.new_session(place.cwd())).collect();
    place.prompt(&mut client, &sessions[7], "seventh");
    place.model.push(bash(TWO_PROCESSES));
    let prompt = client.send_prompt(&sessions[99], "stay");
    let processes = wait_processes(&mut client);
    assert!(held(client.id()).0 >= before.0 + 200);
    sessions.iter().for_each(|session| close(&mut client, session));
    assert_eq!(client.wait_turn(&sessions[99], &prompt).stop_reason(), "cancelled");
    assert!(processes.into_iter().all(is_gone));
    // A thread's last word is sent a moment before it is gone; there is no event for that.
    let since = Instant::now();
    loop {
        let (threads, files) = held(client.id());
        if threads <= before.0 && files <= before.1 {
            break;
        }
        assert!(since.elapsed() < HANG, "{threads} threads and {files} files, before: {before:?}");
        std::thread::yield_now();
    }
    let locks = fs::read_dir(place.cwd().join(".bob/sessions")).unwrap();
    assert!(locks.map(|e| e.unwrap().path()).all(|path| path.extension().is_none_or(|e| e != "lock")));
    assert_eq!(
        client.call("session/prompt", json!({"sessionId": first, "prompt": []}))["error"]["code"],
        -32602
    );
    for (session, said) in [(&sessions[7], "seventh"), (&sessions[99], "stay"), (&first, "first")] {
        assert_eq!(place.load(&mut client, session).done().questions(), [said]);
        assert_eq!(place.prompt(&mut client, session, "again").stop_reason(), "end_turn");
    }
    place.finish(client);
}

#[test]
fn of_two_processes_one_has_the_session_and_nothing_of_it_is_lost() {
    let place = Place::new();
    let mut owner = place.start(&[]);
    let session = owner.new_session(place.cwd());
    place.prompt(&mut owner, &session, "first");
    let mut other = place.start(&[]);
    let refused = |client: &mut Client, method: &str, params: Value| {
        let error = client.call(method, params)["error"].clone();
        assert_eq!(
            (&error["code"], &error["data"]["sessionId"]),
            (&json!(-32600), &json!(session)),
            "{error}"
        );
        assert!(error["message"].as_str().unwrap().contains("open in another process"), "{error}");
    };
    for method in ["session/load", "session/resume"] {
        refused(&mut other, method, place.params(&session));
    }
    refused(&mut other, "session/delete", json!({"sessionId": session}));
    assert_eq!(listed(&mut other, None), [&*session], "to look at it is free");
    let prompt = other.send_prompt(&session, "not mine");
    assert_eq!(other.wait_response(&prompt)["error"]["code"], -32602);
    place.prompt(&mut owner, &session, "second");
    // Killed in the middle of a step.
    place.model.push(bash("echo ready; sleep 600"));
    owner.send_prompt(&session, "third");
    owner.wait_update(|update| update["status"] == "in_progress" && update.to_string().contains("ready"));
    signal(owner.id(), Signal::KILL);
    wait_gone(owner.id());
    let loaded = place.load(&mut other, &session).done();
    assert_eq!(loaded.questions(), ["first", "second", "third"]);
    assert_eq!(loaded.of_kind("tool_call")[0]["status"], "failed");
    place.prompt(&mut other, &session, "fourth");
    // And the other way round, with an owner that ends in order.
    let mut third = place.start(&[]);
    refused(&mut third, "session/load", place.params(&session));
    other.finish();
    assert_eq!(place.load(&mut third, &session).done().questions().len(), 4);
    place.finish(third);
}

#[test]
fn a_lock_s_file_that_a_dead_process_left_is_no_lock() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "first");
    write_file(place.cwd(), &format!(".bob/sessions/{session}.lock"), "");
    place.load(&mut client, &session).done();
    place.finish(client);
}

/// Whatever the user's umask allows: what was said is the user's alone, also when it is written anew.
#[test]
fn no_one_else_may_read_what_is_saved() {
    let place = Place::new();
    let bob = env!("CARGO_BIN_EXE_bob");
    let mut client = place.launch(Launch::shell(r#"umask 000; exec "$0" "$@""#, &[bob, "--acp"])).start();
    client.initialize();
    let session = client.new_session(place.cwd());
    for text in ["first", "second"] {
        place.prompt(&mut client, &session, text);
    }
    client.prompt(&session, "/new");
    client.finish();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let sessions = place.cwd().join(".bob/sessions");
    assert_eq!(mode(&sessions), 0o700);
    let saved: Vec<_> = fs::read_dir(&sessions).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files = saved.iter().filter(|path| path.extension().is_some_and(|e| e == "json"));
    assert_eq!(files.clone().count(), 2, "the session and its past: {saved:?}");
    for file in files.chain([&place.cwd().join(".bob/bob.log")]) {
        assert_eq!(mode(file), 0o600, "{}", file.display());
    }
}
