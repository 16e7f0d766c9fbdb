//! What the log tells of a request: each error, and with `-v` what led to it. What of it is in a folder's log file.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use rustix::process::Signal;
use serde_json::json;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Instant;
use support::client::{Client, Launch, Permission};
use support::model_server::{Answer, ModelServer};
use support::process::{signal, wait_at_rest};
use support::scene::Scene;
use support::{HANG, openai, write_file};

/// All of the log, once Bob has ended.
#[track_caller]
fn log_of(mut scene: Scene) -> String {
    scene.client.finish();
    scene.client.wait_stderr()
}

#[test]
fn each_error_that_is_answered_is_one_line() {
    let mut scene = Scene::new();
    let (cwd, session) = (scene.client.cwd(), scene.session.clone());
    let no_session = scene.client.call("session/prompt", json!({"sessionId": "nope", "prompt": []}));
    assert_eq!(no_session["error"]["message"], "Invalid params: prompt: is empty");
    let prompt = json!([{"type": "text", "text": "hi"}]);
    scene.client.call("session/prompt", json!({"sessionId": "nope", "prompt": prompt}));
    scene.client.call("session/new", json!({"cwd": cwd.join("gone"), "mcpServers": []}));
    scene.client.call("no\nmethod", json!({}));
    scene.client.send_raw(b"{broken\n");
    scene.client.wait_for("a parse error", |message| message["error"]["code"] == -32700);
    scene.model.push(openai::refuse(401, "Incorrect\nkey"));
    scene.client.prompt(&session, "what is asked");
    let log = log_of(scene);
    let errors: Vec<_> = log.lines().filter(|line| line.contains(": -32")).collect();
    for (line, (method, code)) in errors.iter().zip([
        ("session/prompt", "-32602 Invalid params: prompt: is empty"),
        ("session/prompt", "-32602 Invalid params: sessionId: no session nope; open one first"),
        ("session/new", "-32602 Invalid params: cwd: does not exist"),
        ("no⏎method", "-32601 Method not found"),
        ("?", "-32700 Parse error: "),
        ("session/prompt", "-32603 [LLM API error: 401 Unauthorized: Incorrect key; "),
    ]) {
        assert!(
            line.starts_with(&format!("[acp] {method} ")) && line.contains(&format!(": {code}")),
            "{log}"
        );
    }
    assert_eq!(errors.len(), 6, "{log}");
    assert!(log.contains("skill(s) · failed\n") && !log.contains("what is asked"), "{log}");
}

#[test]
fn with_v_the_log_tells_what_is_done_but_not_what_is_said() {
    const KEY: &str = "sk-0123456789abcdef";
    let model = ModelServer::start();
    let mut client = Launch::with_args(["--acp", "-v"])
        .env("OPENAI_API_KEY", KEY)
        .env("OPENAI_BASE_URL", model.base_url())
        .env("OPENAI_MODEL", "some-model")
        .start();
    client.permission(Permission::Select("allow"));
    let session = client.open();
    model.push(openai::refuse(503, "busy"));
    model.push(openai::call([("c", "bash", json!({"command": "echo private"}))]));
    model.push(openai::say("done"));
    assert_eq!(client.prompt(&session, "a private matter").stop_reason(), "end_turn");
    model.push(openai::refuse(401, &format!("{KEY} is no key")));
    client.prompt(&session, "more of it, as private");
    model.push(Answer::json(200, &json!({"data": [{"id": "other"}]})));
    let list = client.call("session/list_models", json!({"sessionId": session}));
    assert!(list["result"].is_object(), "{list}");
    client.finish();
    let log = client.wait_stderr();
    let base_url = model.base_url();
    for told in ["[acp] session/new ", "[acp] session/prompt "] {
        assert!(log.contains(told), "{told:?} is not in {log}");
    }
    let lines = lines_in(&client.cwd());
    for told in [
        &format!(
            "session {session}: mode ask, 0 rule(s), model OPENAI some-model at {base_url} (openai-comp"
        ),
        &format!("model: POST {base_url}/chat/completions, "),
        "model: answer 503 after ",
        "model: try 1 failed, the next in ",
        "model: answer 200 after ",
        &format!("session {session}: bash is asked about"),
        &format!("session {session}: bash is allowed"),
        "-32603 [LLM API error: 401 Unauthorized",
        &format!("model: GET {base_url}/models"), // by the dispatcher's helper
    ] {
        assert!(log.contains(told), "{told:?} is not in {log}");
        assert!(lines.iter().any(|line| line.text.contains(told)), "{told:?} is not in {lines:#?}");
    }
    let in_folder = fs::read_to_string(client.cwd().join(LOG)).unwrap();
    for log in [log, in_folder] {
        assert!(!log.contains("private") && !log.contains(KEY), "{log}");
    }
}

#[test]
fn thinking_without_room_for_it_is_told() {
    let mut client = Launch::new()
        .model("http://127.0.0.1:1/v1")
        .env("LOCAL_API_FORMAT", "anthropic-messages")
        .env("LLM_THINKING", "high")
        .env("LLM_MAX_TOKENS", "77")
        .start();
    client.open();
    client.finish();
    let log = client.wait_stderr();
    assert!(log.contains("warn: no thinking: a reply of at most 77 tokens leaves no room for it"), "{log}");
}

#[test]
fn a_refusal_by_an_earlier_answer_is_told() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject_always"));
    scene.bash("true").failed("[command rejected by the user]");
    scene.bash("true").failed("[command rejected by the user]");
    let log = log_of(scene);
    assert_eq!(log.matches("bash not asked about").count(), 1, "{log}");
}

const LOG: &str = ".bob/bob.log";
const OLD: &str = ".bob/bob.log.1";
/// Bytes at most, of each of the two.
const AT_MOST: u64 = 1 << 20;

/// A line of a folder's log file.
#[derive(Debug)]
struct Line {
    level: String,
    session: String,
    text: String,
}

impl Line {
    /// `TIME LEVEL SESSION TEXT`, whole.
    #[track_caller]
    fn parse(line: &str) -> Self {
        let mut fields = line.splitn(2, ' ');
        let time = fields.next().unwrap();
        humantime::parse_rfc3339(time).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let (level, rest) = fields.next().and_then(|rest| rest.split_at_checked(5)).expect(line);
        assert!(["ERROR", "WARN ", "INFO ", "DEBUG"].contains(&level), "{line:?}");
        let (session, text) = rest.trim_start().split_once(' ').expect(line);
        assert!(!text.is_empty() && !text.contains(char::is_control), "{line:?}");
        Self { level: level.trim_end().into(), session: session.into(), text: text.into() }
    }
}

#[track_caller]
fn lines_of(file: &Path) -> Vec<Line> {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert!(text.ends_with('\n'), "{text:?}");
    text.lines().map(Line::parse).collect()
}

/// All that is in a folder's log file.
#[track_caller]
fn lines_in(cwd: &Path) -> Vec<Line> {
    lines_of(&cwd.join(LOG))
}

fn warnings(stderr: &str) -> usize {
    stderr.matches(": nothing more goes to ").count()
}

#[test]
fn a_folders_log_has_the_lines_of_its_sessions_each_with_the_id_and_no_others() {
    let other = tempfile::tempdir().unwrap();
    write_file(other.path(), ".bob/config.json", r#"{"mode": "full-access"}"#);
    let mut client = Launch::new().demo().start();
    let one = client.open();
    let cwd = client.cwd();
    let two = client.new_session(&cwd);
    let elsewhere = client.new_session(other.path());
    for session in [&one, &elsewhere, &two, &one] {
        assert_eq!(client.prompt(session, "hello").stop_reason(), "end_turn");
    }
    client.call("session/close", json!({"sessionId": one}));
    client.finish();
    assert_eq!(warnings(&client.wait_stderr()), 0);

    let lines = lines_in(&cwd);
    let of = |session: &str| lines.iter().filter(|line| line.session == session).collect::<Vec<_>>();
    for (session, turns) in [(&one, 2), (&two, 1)] {
        let lines = of(session);
        let created = format!("[acp] session {session} created in {}, 0 MCP server(s)", cwd.display());
        assert!(lines[0].text == created && lines[0].level == "INFO", "{lines:?}");
        assert_eq!(lines.iter().filter(|line| line.text.starts_with("[acp] turn done: ")).count(), turns);
    }
    assert_eq!(of(&one).len() + of(&two).len(), lines.len(), "{lines:#?}");
    assert_eq!(fs::metadata(cwd.join(LOG)).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(cwd.join(".bob/.gitignore")).unwrap(), "*\n");

    let lines = lines_in(other.path());
    assert!(lines.iter().all(|line| line.session == elsewhere), "{lines:#?}");
    assert!(lines[0].level == "WARN" && lines[0].text.contains("mode"), "said before it was open: {lines:?}");
    assert!(!other.path().join(".bob/.gitignore").exists(), "the folder is not Bob's");
}

#[test]
fn what_is_refused_for_a_turn_that_runs_is_a_line_of_its_session() {
    let mut scene = Scene::new();
    let session = scene.session.clone();
    let (answer, hold) = Answer::sse().hold();
    scene.model.push(answer.write(openai::event(&openai::text("never said"))));
    let turn = scene.client.send_prompt(&session, "hi");
    scene.model.wait_request(0);
    scene.client.prompt(&session, "hi again");
    scene.client.notify("session/cancel", json!({"sessionId": session}));
    scene.client.wait_turn(&session, &turn);
    drop(hold);
    let cwd = scene.client.cwd();
    scene.client.finish();
    let lines = lines_in(&cwd);
    assert!(lines.iter().any(|line| line.text.contains("already has an active turn")), "{lines:#?}");
}

#[test]
fn a_session_that_is_not_opened_leaves_nothing() {
    let mut client = Launch::new().start();
    client.initialize();
    let cwd = client.cwd();
    let no_model = client.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
    assert_eq!(no_model["error"]["code"], -32000, "{no_model}");
    client.finish();
    assert!(!cwd.join(".bob").exists());

    let mut client = Launch::new().demo().start();
    client.initialize();
    let cwd = client.cwd();
    for method in ["session/load", "session/resume"] {
        let unknown = json!({"sessionId": "unknown", "cwd": cwd, "mcpServers": []});
        assert_eq!(client.call(method, unknown)["error"]["code"], -32602);
    }
    client.call("session/new", json!({"cwd": cwd.join("gone"), "mcpServers": []}));
    client.finish();
    assert!(!cwd.join(".bob").exists() && !cwd.join("gone").exists());
}

#[test]
fn sessions_that_are_not_saved_are_logged() {
    let mut scene = Scene::configured(&json!({"sessions": {"enabled": false}}));
    scene.prompt_with("hi", [openai::say("hello")]);
    let cwd = scene.client.cwd();
    scene.client.finish();
    assert!(lines_in(&cwd).len() >= 2 && !cwd.join(".bob/sessions").exists());
}

/// A project with something in the way of its log file: the turn works, one warning tells of it.
#[track_caller]
fn check_off(launch: Launch, lay: impl FnOnce(&Path)) {
    let mut scene = Scene::launched(launch, |launch| {
        lay(launch.cwd());
        launch
    });
    for _ in 0..3 {
        assert_eq!(scene.answers([openai::say("hello")]).stop_reason(), "end_turn");
    }
    let log = log_of(scene);
    assert_eq!(warnings(&log), 1, "{log}");
}

#[test]
fn nothing_is_logged_through_a_link_or_into_what_is_no_file() {
    let outside = tempfile::tempdir().unwrap();
    let target = write_file(outside.path(), "target", "as it was");
    let folder = |path: &Path| DirBuilder::new().recursive(true).create(path).unwrap();
    let fifo = |path: &Path| {
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
    };
    type Trap<'a> = &'a dyn Fn(&Path);
    let traps: [Trap<'_>; 6] = [
        &|log| symlink(&target, log).unwrap(),
        &|log| symlink("../nowhere", log).unwrap(),
        &|log| symlink("config.json", log).unwrap(),
        &fifo,
        &folder,
        &|log| {
            File::create(log).unwrap().set_len(AT_MOST).unwrap();
            symlink(&target, log.with_file_name("bob.log.1")).unwrap();
        },
    ];
    for trap in traps {
        check_off(Launch::new(), |cwd| {
            folder(&cwd.join(".bob"));
            trap(&cwd.join(LOG));
        });
    }
    check_off(Launch::new(), |cwd| symlink(outside.path(), cwd.join(".bob")).unwrap());
    check_off(Launch::new(), |cwd| drop(File::create(cwd.join(".bob")).unwrap()));
    assert_eq!(fs::read_to_string(&target).unwrap(), "as it was");
    let names: Vec<_> = outside.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["target"]);
}

#[test]
fn a_folder_that_can_not_be_written_stops_nobody() {
    check_off(Launch::without_rights(), |cwd| {
        fs::set_permissions(cwd, Permissions::from_mode(0o555)).unwrap();
    });
}

#[test]
fn a_folder_that_is_gone_is_not_made_again() {
    let place = tempfile::tempdir().unwrap();
    let cwd = place.path().join("project");
    DirBuilder::new().mode(0o700).create(&cwd).unwrap();
    let mut scene = Scene::new();
    scene.session = scene.client.new_session(&cwd);
    scene.answers([openai::say("hello")]);
    wait_for_line(&cwd, "[acp] turn done");
    fs::remove_dir_all(&cwd).unwrap();
    for _ in 0..2 {
        assert_eq!(scene.answers([openai::say("hello")]).stop_reason(), "end_turn");
    }
    let log = log_of(scene);
    assert!(!cwd.exists());
    assert_eq!(warnings(&log), 1, "{log}");
}

/// Waits until there is such a line. There is no event for it, so this asks, and gives its time slice away in
/// between.
#[track_caller]
fn wait_for_line(cwd: &Path, text: &str) {
    let since = Instant::now();
    while !fs::read_to_string(cwd.join(LOG)).is_ok_and(|log| log.contains(text)) {
        assert!(since.elapsed() < HANG, "{text:?} is not logged");
        std::thread::yield_now();
    }
}

#[test]
fn a_log_file_that_is_full_gives_its_name_to_a_new_one() {
    let full = format!("{}\n", "x".repeat(AT_MOST as usize - 1));
    let mut scene = Scene::with(|launch| {
        write_file(launch.cwd(), LOG, &full);
        write_file(launch.cwd(), OLD, "older");
        launch
    });
    scene.answers([openai::say("hello")]);
    let (cwd, session) = (scene.client.cwd(), scene.session.clone());
    scene.client.finish();
    let lines = lines_in(&cwd);
    assert!(lines.len() >= 2 && lines.iter().all(|line| line.session == session), "{lines:#?}");
    assert!(fs::read_to_string(cwd.join(OLD)).unwrap() == full, "it is the one that was full");
}

#[test]
fn a_killed_process_leaves_whole_lines() {
    let mut client = Launch::with_args(["--acp", "-v", "--script"]).demo().start();
    let session = client.open();
    for _ in 0..200 {
        client.send_prompt(&session, "hello");
    }
    let cwd = client.cwd();
    wait_for_line(&cwd, "[acp] turn done");
    signal(client.id(), Signal::KILL);
    client.wait_exit();
    assert!(lines_in(&cwd).iter().all(|line| line.session == session));
}

#[test]
fn idle_sessions_hold_no_file_open() {
    let folders: Vec<_> = (0..20).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut client = Launch::new().demo().start();
    client.initialize();
    for folder in &folders {
        let session = client.new_session(folder.path());
        client.prompt(&session, "hello");
    }
    for folder in &folders {
        wait_for_line(folder.path(), "[acp] turn done");
    }
    wait_at_rest(client.id());
    let open = open_files(&client);
    assert!(!open.iter().any(|file| file.ends_with("bob.log")), "{open:#?}");
    client.finish();
}

fn open_files(client: &Client) -> Vec<std::path::PathBuf> {
    let open = fs::read_dir(format!("/proc/{}/fd", client.id())).unwrap();
    open.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok()).collect()
}

#[test]
fn a_client_that_does_not_read_stderr_keeps_no_line_from_the_files() {
    let mut client = Launch::with_args(["--acp", "--log-file", "all.log"]).demo().unread_stderr().start();
    let session = client.open();
    let cwd = client.cwd();
    let unknown = "x".repeat(200);
    for _ in 0..300 {
        client.call(&unknown, json!({})); // a line of some 500 bytes each
    }
    client.prompt(&session, "hello");
    wait_for_line(&cwd, "[acp] turn done");
    client.finish();
    let stderr = client.wait_stderr();
    assert!(stderr.lines().count() < 300 && stderr.ends_with('\n'), "a pipe holds less: {}", stderr.len());
    let all = fs::read_to_string(cwd.join("all.log")).unwrap();
    assert_eq!(all.matches("Method not found").count(), 300);
}
