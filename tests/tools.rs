//! What a tool call does, what the client sees of it and what the model reads.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use support::client::{Launch, Permission};
use support::openai;
use support::scene::{Ran, Scene};

/// Client text of a content block that is one fence, without the fence.
#[track_caller]
fn fenced(content: &Value) -> String {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    assert_eq!(blocks.len(), 1, "{content}");
    let text = blocks[0]["content"]["text"].as_str().unwrap();
    let (fence, rest) = text.split_once('\n').unwrap();
    let inside = rest.strip_suffix(fence).unwrap_or_else(|| panic!("no fence: {text:.200}"));
    assert!(fence.len() >= 3 && fence.bytes().all(|b| b == b'`') && !inside.contains(fence), "{text:.200}");
    inside.to_owned()
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("edit_file", json!({"path": path, "old_string": old, "new_string": new}))
}

fn edited(scene: &mut Scene, path: &str, old: &str, new: &str) -> Ran {
    let (tool, arguments) = edit(path, old, new);
    scene.run(tool, arguments)
}

fn written(scene: &mut Scene, path: &str, content: &str) -> Ran {
    scene.run("write_file", json!({"path": path, "content": content}))
}

/// Whether a process is there and not only waits to be reaped.
fn is_alive(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    !matches!(stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()), None | Some('Z' | 'X'))
}

/// In KiB, the most it ever was.
fn peak_memory(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

// What the client sees.

#[test]
fn every_call_has_a_title_a_kind_and_a_place() {
    let mut scene = Scene::new();
    let file = scene.write("src/a.rs", "one\ntwo\n");
    scene.write(".bob/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: tidies\n---\nTidy up.\n");
    let here = scene.client.cwd();
    let at = |path: &Path, line: Value| json!([{"path": path, "line": line}]);
    let no_line = |path: &Path| json!([{"path": path}]);
    for (tool, arguments, title, kind, locations, status) in [
        ("bash", json!({"command": "true"}), "bash: true", "execute", json!([]), "completed"),
        ("read_file", json!({"path": file}), "read_file: src/a.rs", "read", at(&file, json!(1)), "completed"),
        (
            "read_file",
            json!({"path": "./src//a.rs", "offset": 2}),
            "read_file: src/a.rs",
            "read",
            at(&file, json!(2)),
            "completed",
        ),
        (
            "read_file",
            json!({"path": "none"}),
            "read_file: none",
            "read",
            at(&here.join("none"), json!(1)),
            "failed",
        ),
        ("read_file", json!({"path": "."}), "read_file: .", "read", at(&here, json!(1)), "failed"),
        (
            "write_file",
            json!({"path": "b", "content": ""}),
            "write_file: b",
            "edit",
            no_line(&here.join("b")),
            "completed",
        ),
        (
            "edit_file",
            json!({"path": "src/a.rs", "old_string": "two", "new_string": "2"}),
            "edit_file: src/a.rs",
            "edit",
            at(&file, json!(2)),
            "completed",
        ),
        (
            "edit_file",
            json!({"path": "src/a.rs", "old_string": "none", "new_string": "2"}),
            "edit_file: src/a.rs",
            "edit",
            no_line(&file),
            "failed",
        ),
        ("read_skill", json!({"name": "tidy"}), "read_skill: tidy", "read", json!(null), "completed"),
        ("read_skill", json!({"name": "none"}), "read_skill: none", "read", json!(null), "failed"),
        ("nothing", json!({"path": "a"}), "nothing", "execute", json!([]), "failed"),
        ("bash", json!({}), "bash: ", "execute", json!([]), "failed"),
    ] {
        let what = format!("{tool} {arguments}");
        let ran = scene.run(tool, arguments.clone());
        assert_eq!(
            (ran.call["title"].as_str().unwrap().trim_end(), ran.status()),
            (title.trim_end(), status),
            "{what}"
        );
        assert_eq!((&ran.call["kind"], &ran.call["rawInput"]), (&json!(kind), &arguments), "{what}");
        if !locations.is_null() {
            assert_eq!(ran.call["locations"], locations, "{what}");
        }
    }
    scene.finish();
}

#[test]
fn a_diff_is_of_what_was_there_and_stays_to_the_end() {
    let mut scene = Scene::new();
    let (new, old) = (scene.at("sub/new.txt"), scene.write("old.txt", "a\nb\n"));
    for (ran, path, before, after) in [
        (written(&mut scene, "sub/new.txt", "x\n"), &new, Value::Null, "x\n"),
        (written(&mut scene, "old.txt", "c\nb\n"), &old, json!("a\nb\n"), "c\nb\n"),
        (edited(&mut scene, "old.txt", "c", "d"), &old, json!("c\nb\n"), "d\nb\n"),
    ] {
        let ran = ran.done();
        let mut diff = json!([{"type": "diff", "path": path, "newText": after}]);
        if !before.is_null() {
            diff[0]["oldText"] = before;
        }
        let without_null = |content: &Value| {
            let mut content = content.clone();
            content[0].as_object_mut().unwrap().retain(|_, value| !value.is_null());
            content
        };
        assert_eq!(without_null(&ran.call["content"]), diff);
        assert_eq!(without_null(&ran.last["content"]), diff);
        assert_eq!(ran.last["rawOutput"]["output"], ran.told);
    }
    scene.finish();
}

#[test]
fn a_failed_edit_ends_with_its_text_and_not_with_the_diff() {
    let mut scene = Scene::new();
    scene.write("a", "one");
    scene.client.permission(Permission::Select("reject"));
    let refused = edited(&mut scene, "a", "one", "two").failed("[command rejected by the user]");
    assert_eq!(refused.call["content"][0]["type"], "diff");
    let no_match = edited(&mut scene, "a", "zwei", "two").failed("does not match its content");
    for ran in [refused, no_match] {
        assert_eq!(
            ran.last["content"],
            json!([{"type": "content", "content": {"type": "text", "text": ran.told}}])
        );
    }
    assert_eq!(scene.bytes("a"), b"one");
    scene.finish();
}

#[test]
fn a_diff_past_a_mebibyte_is_told_in_words_everywhere() {
    let mut scene = Scene::new();
    let old = "old line\n".repeat(70_000);
    let file = scene.write("big.txt", &old);
    let new = old.replacen("old line", "new line", 1);
    let ran = written(&mut scene, "big.txt", &new).done();
    let asked = &ran.asked.as_ref().unwrap()["params"]["toolCall"]["content"];
    for content in [&ran.call["content"], asked, &ran.last["content"]] {
        let text = content[0]["content"]["text"].as_str().unwrap_or_else(|| panic!("{content:.300}"));
        let wanted = format!("{}: 630000 → 630000 bytes, lines 1 to 1 changed", file.display());
        assert_eq!(text, wanted);
    }
    assert_eq!(scene.bytes("big.txt"), new.as_bytes());
    let small = edited(&mut scene, "big.txt", "new line", "x").done();
    assert_eq!(small.last["content"][0]["type"], "content");
    scene.finish();
}

/// A4: no line above 1 MB.
#[test]
fn a_huge_argument_is_written_whole_but_shown_in_part() {
    let mut scene = Scene::new();
    let content = "x".repeat(2 << 20);
    let ran = written(&mut scene, "huge", &content).done();
    for call in [&ran.call, &ran.asked.as_ref().unwrap()["params"]["toolCall"]] {
        let shown = call["rawInput"]["content"].as_str().unwrap();
        assert_eq!(shown, format!("{}… (+2031616 bytes)", "x".repeat(64 * 1024)));
    }
    assert_eq!(scene.bytes("huge"), content.as_bytes());
    scene.bash(&"a ".repeat(1 << 20)).failed("a command line has at most 131071");
    scene.finish();
}

#[test]
fn a_flood_of_output_is_restated_capped_and_never_one_huge_line() {
    const CLIENT: usize = 16_000;
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let before = peak_memory(scene.client.id());
    for command in [
        "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last",
        "echo first; yes ü | head -c 20000000; echo last",
    ] {
        scene.model.push(openai::call([("c", "bash", json!({"command": command}))]));
        scene.model.push(openai::say("done"));
        let turn = scene.prompt("go");
        let progress: Vec<_> = turn
            .of_kind("tool_call_update")
            .filter(|u| u["status"] == "in_progress" && !u["content"].is_null())
            .collect();
        assert!(!progress.is_empty());
        for update in &progress {
            let text = fenced(&update["content"]);
            assert!(text.starts_with("first\n"), "restated whole: {text:.100}");
            assert!(text.chars().count() <= CLIENT + 100, "{}", text.chars().count());
        }
        assert!(turn.updates.iter().all(|update| update.to_string().len() < 1_000_000));
        let ran = scene.came_of(&turn).pop().unwrap().done();
        let text = fenced(&ran.last["content"]);
        assert!(text.starts_with("first\n") && text.ends_with("last\n"), "{text:.100}");
        assert!(text.contains("characters elided ...]"), "says how much was cut");
        assert_eq!(ran.last["rawOutput"]["output"], ran.told);
        assert!(ran.told.chars().count() < 31_000, "{}", ran.told.len());
    }
    let after = peak_memory(scene.client.id());
    assert!(after < before + 50 * 1024, "{before} → {after} KiB");
    scene.finish();
}

/// The client reads nothing, and yet the command goes on to its end.
#[test]
fn a_client_that_does_not_read_holds_up_no_command() {
    let launch = Launch::with_args(["--acp", "--script", "s", "--mode", "full-access"]).unread();
    support::write_file(launch.home(), ".bob/config.json", "{\"limits\": {\"outboxBytes\": 20000}}");
    let end = launch.cwd().join("end");
    rustix::fs::mkfifoat(rustix::fs::CWD, &end, rustix::fs::Mode::RWXU).unwrap();
    let print = "for i in 1 2 3 4 5 6 7 8 9 10; do head -c 20000 /dev/zero | tr '\\0' x; sleep 0.11; done; echo over > end";
    let model = support::model_server::ModelServer::with([
        openai::call([("c", "bash", json!({"command": print}))]),
        openai::say("done"),
    ]);
    let mut client = launch.model(&model.base_url()).start();
    client.request("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    let cwd = client.cwd();
    client.request("session/new", json!({"cwd": cwd, "mcpServers": []}));
    let prompt = client.send_prompt("s", "go");
    let (said, last_word) = crossbeam_channel::bounded(1);
    support::spawn("last word", move || drop(said.send(fs::read_to_string(end).unwrap())));
    assert_eq!(last_word.recv_timeout(support::HANG).unwrap(), "over\n");
    client.start_reading();
    assert_eq!(client.wait_turn("s", &prompt).stop_reason(), "end_turn");
    client.finish();
}

#[test]
fn the_fence_is_longer_than_any_inside() {
    let mut scene = Scene::new();
    let ran = scene.bash("printf 'a\\n```\\n`````\\nb'").done();
    assert_eq!(fenced(&ran.last["content"]), "a\n```\n`````\nb\n");
    assert_eq!(ran.told, "a\n```\n`````\nb");
    scene.finish();
}

// bash.

#[test]
fn a_command_that_reads_stdin_ends_and_takes_no_line_of_the_clients() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    for (command, told) in [
        ("cat; echo end", "end\n"),
        ("read x; echo $?", "1\n"),
        ("wc -c", "0\n"),
        ("head -c1 /dev/tty 2>/dev/null; echo $?", "1\n"),
        ("cat /proc/self/fd/0; echo end", "end\n"),
        ("test -t 0 || test -t 1 || test -t 2; echo $?", "1\n"),
        ("sh -c 'cat <&1' 2>/dev/null; echo end", "end\n"),
        ("echo $TERM; git --version >/dev/null && echo $GIT_PAGER$PAGER", "dumb\ncatcat\n"),
    ] {
        assert_eq!(scene.bash(command).done().told, told, "{command}");
    }
    scene.finish();
}

#[test]
fn what_a_command_leaves_in_the_background_is_told_and_ends_with_the_session() {
    let mut scene = Scene::new();
    let ran = scene.bash("sleep 600 & echo $!").done();
    assert!(ran.told.contains("1 process left running in the background"), "{}", ran.told);
    let id = ran.told.lines().next().unwrap().parse().unwrap();
    assert!(is_alive(id));
    let session = scene.session.clone();
    let closed = scene.client.call("session/close", json!({"sessionId": session}));
    assert_eq!(closed["result"], json!({}));
    assert!(!is_alive(id), "gone before the answer");
    scene.new_session();
    let id = scene.bash("sleep 600 & echo $!").done().told.lines().next().unwrap().parse().unwrap();
    scene.finish();
    assert!(!is_alive(id), "gone with the process");
}

#[test]
fn a_timeout_ends_all_of_the_command_and_gives_the_output_so_far() {
    let mut scene = Scene::new();
    let command = "trap '' TERM; echo before; (sleep 300 & echo $! > child); sleep 300 & sleep 300";
    let ran = scene.run("bash", json!({"command": command, "timeoutSeconds": 0.3}));
    let ran = ran.failed("before\n[timed out after 0.3 s]");
    assert_eq!(ran.last["rawOutput"].get("exitCode"), None);
    let child: u32 = String::from_utf8(scene.bytes("child")).unwrap().trim().parse().unwrap();
    assert!(!is_alive(child));
    scene.finish();
}

#[test]
fn bytes_that_are_no_text_become_text() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    scene.bash("head -c 100000 /dev/urandom").done();
    let shifted = scene.bash("printf 'x\\303'; yes é | tr -d '\\n' | head -c 1048576").done();
    assert!(shifted.told.starts_with("x\u{fffd}éé") && shifted.told.ends_with("éé"), "{:.40}", shifted.told);
    let nul = scene.bash("printf 'a\\0b\\377c'").done().told;
    assert!(nul.starts_with('a') && nul.ends_with("b\u{fffd}c"), "{nul:?}");
    assert_eq!(scene.bash("printf '\\033[31mred\\033[0m 10%%\\r100%%\\n'").done().told, "100%\n");
    scene.finish();
}

#[test]
fn exit_codes_signals_and_both_streams_are_told_and_each_command_starts_in_cwd() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let ran = scene.bash("echo a; echo b >&2; exit 7").done();
    assert_eq!((ran.told.as_str(), &ran.last["rawOutput"]["exitCode"]), ("a\nb\n[exit code 7]", &json!(7)));
    let killed = scene.bash("echo x; kill -9 $$").done();
    assert_eq!(killed.told, "x\n[killed by SIGKILL]");
    assert_eq!(killed.last["rawOutput"].get("exitCode"), None);
    scene.bash("mkdir sub; cd sub; touch there").done();
    assert!(scene.at("sub/there").exists());
    assert_eq!(scene.bash("pwd").done().told, format!("{}\n", scene.client.cwd().display()));
    assert!(scene.bash("no-such-command").done().told.contains("[exit code 127]"));
    scene.finish();
}

#[test]
fn the_environment_is_the_one_bob_was_given() {
    let mut scene = Scene::with(|launch| launch.env("LINES_OF", "a\nb=c\n").env("GH_TOKEN", "kept"));
    scene.client.permission(Permission::Select("allow_always"));
    let home = scene.client.home().display().to_string();
    assert_eq!(scene.bash("echo $HOME").done().told, format!("{home}\n"));
    assert_eq!(scene.bash("echo $GH_TOKEN; printf %s \"$LINES_OF\"").done().told, "kept\na\nb=c\n");
    let path = std::env::var("PATH").unwrap();
    assert_eq!(scene.bash("echo $PATH").done().told, format!("{path}\n"));
    scene.finish();
}

#[test]
fn a_command_that_can_not_be_started_is_told() {
    let mut scene = Scene::with(|launch| launch.env("PATH", "/nowhere"));
    scene.client.permission(Permission::Select("allow_always"));
    assert_eq!(scene.bash("echo hi").done().told, "hi\n"); // by the system's own shell
    assert!(scene.bash("ls").done().told.ends_with("[exit code 127]"));
    scene.bash("echo a\0b").failed("the command could not be run: ");
    scene.bash(&format!("echo {}", "a".repeat(300_000))).failed("a command line has at most 131071");
    let longest = format!(": {}", "a".repeat(131_071 - 2));
    scene.bash(&longest).done();
    scene.finish();
}

#[test]
fn what_a_file_tool_tells_is_bounded_too() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    scene.write("wide", format!("{}\n", "y".repeat(5000)).repeat(3000));
    scene.write("one-line", "z".repeat(8 << 20));
    scene.write(
        ".bob/skills/t/SKILL.md",
        format!("---\nname: t\ndescription: d\n---\n{}", "w".repeat(900_000)),
    );
    let (edit, old) = edit("one-line", "zzzy", "q");
    for (tool, arguments) in [
        ("read_file", json!({"path": "wide"})),
        ("read_file", json!({"path": "one-line"})),
        ("read_skill", json!({"name": "t"})),
        (edit, old),
    ] {
        let ran = scene.run(tool, arguments);
        assert!(
            ran.told.len() < 100_000 && ran.last.to_string().len() < 1_000_000,
            "{tool}: {}",
            ran.told.len()
        );
    }
    scene.finish();
}

/// The client's names for its folders are the ones it can open.
#[test]
fn a_folder_given_by_a_link_is_called_as_the_client_calls_it() {
    let mut scene = Scene::new();
    scene.write("real/f", "a\n");
    symlink("real", scene.at("link")).unwrap();
    let link = scene.at("link");
    scene.session = scene.client.new_session(&link);
    let read = scene.run("read_file", json!({"path": "f"})).done();
    assert_eq!(
        (&read.call["title"], &read.call["locations"][0]["path"]),
        (&json!("read_file: f"), &json!(link.join("f")))
    );
    let edit = edited(&mut scene, "f", "a", "b").done();
    assert_eq!(edit.last["content"][0]["path"], json!(link.join("f")));
    scene.finish();
}

#[test]
fn a_folder_that_is_gone_is_told() {
    let mut scene = Scene::new();
    let sub = scene.at("sub");
    fs::create_dir(&sub).unwrap();
    scene.session = scene.client.new_session(&sub);
    fs::remove_dir_all(&sub).unwrap();
    scene.bash("pwd").failed("is no directory any more");
    scene.run("write_file", json!({"path": "f", "content": "x"})).failed("is no directory any more");
    assert!(!sub.exists());
    scene.finish();
}

// Files.

#[test]
fn six_edits_of_one_file_in_one_reply_all_land() {
    let mut scene = Scene::new();
    scene.write("f", "1 2 3 4 5 6\n");
    symlink("f", scene.at("link")).unwrap();
    symlink(".", scene.at("here")).unwrap();
    let absolute = scene.at("f");
    let paths = ["f", "./f", "link", "here/f", absolute.to_str().unwrap(), "here/./link"];
    let calls: Vec<_> = paths
        .iter()
        .zip(["1", "2", "3", "4", "5", "6"])
        .map(|(path, digit)| edit(path, digit, &format!("<{digit}>")))
        .collect();
    for ran in scene.run_all(calls) {
        ran.done();
    }
    assert_eq!(scene.bytes("f"), b"<1> <2> <3> <4> <5> <6>\n");
    assert!(scene.at("link").is_symlink());
    scene.finish();
}

#[test]
fn what_changed_since_it_was_read_is_not_overwritten() {
    let mut scene = Scene::new();
    scene.write("f", "one\n");
    scene.run("read_file", json!({"path": "f"})).done();
    scene.write("f", "one, and more\n");
    written(&mut scene, "f", "x").failed("read it again");
    edited(&mut scene, "f", "one", "two").failed("read it again");
    assert_eq!(scene.bytes("f"), b"one, and more\n");
    scene.run("read_file", json!({"path": "f"})).done();
    edited(&mut scene, "f", "one", "two").done();
    edited(&mut scene, "f", "two", "three").done(); // its own change is none
    written(&mut scene, "f", "all new\n").done();
    scene.write("never-read", "a\n");
    edited(&mut scene, "never-read", "a", "b").done();
    scene.finish();
}

type Change = fn(&Scene);

/// The file is changed while the user looks at the question.
#[test]
fn what_changed_between_question_and_answer_is_not_overwritten() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Test);
    scene.write("f", "one\n");
    scene.write("gone", "one\n");
    fs::create_dir(scene.at("dir")).unwrap();
    let changes: [(&str, Value, Change); 5] = [
        ("edit_file", json!({"path": "f", "old_string": "one", "new_string": "two"}), |s| {
            drop(s.write("f", "users\n"))
        }),
        ("write_file", json!({"path": "f", "content": "mine\n"}), |s| drop(s.write("f", "users\n"))),
        ("write_file", json!({"path": "new", "content": "mine\n"}), |s| drop(s.write("new", "users\n"))),
        ("write_file", json!({"path": "gone", "content": "mine\n"}), |s| {
            fs::remove_file(s.at("gone")).unwrap()
        }),
        ("write_file", json!({"path": "dir/new", "content": "mine\n"}), |s| {
            fs::remove_dir(s.at("dir")).unwrap();
            symlink(s.client.home(), s.at("dir")).unwrap();
        }),
    ];
    for (tool, arguments, change) in changes {
        scene.write("f", "one\n");
        scene.new_session();
        scene.model.push(openai::call([("c", tool, arguments.clone())]));
        scene.model.push(openai::say("done"));
        let session = scene.session.clone();
        let prompt = scene.client.send_prompt(&session, "go");
        let question = scene.client.wait_request("session/request_permission");
        change(&scene);
        scene
            .client
            .answer(&question["id"], json!({"outcome": {"outcome": "selected", "optionId": "allow"}}));
        let turn = scene.client.wait_turn(&session, &prompt);
        let ran = scene.came_of(&turn).pop().unwrap();
        let ran = ran.failed("again");
        assert_eq!(ran.last["content"][0]["type"], "content");
        if let Some(name @ ("f" | "new")) = arguments["path"].as_str() {
            assert_eq!(scene.bytes(name), b"users\n");
        }
    }
    assert!(!scene.at("gone").exists());
    assert!(!scene.client.home().join("new").exists(), "the link leads out of the project");
    scene.finish();
}

#[test]
fn endings_byte_order_mark_mode_and_links_are_kept() {
    let mut scene = Scene::new();
    let file = scene.write("f", b"\xef\xbb\xbfone\r\ntwo\r\nthree");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    symlink("f", scene.at("link")).unwrap();
    let read = scene.run("read_file", json!({"path": "f"})).done();
    assert!(!read.told.contains('\u{feff}') && read.told.starts_with("1\tone"), "{:?}", read.told);
    edited(&mut scene, "link", "one\ntwo", "eins\nzwei").done();
    assert_eq!(scene.bytes("f"), b"\xef\xbb\xbfeins\r\nzwei\r\nthree");
    written(&mut scene, "link", "new").done();
    assert_eq!(scene.bytes("f"), b"\xef\xbb\xbfnew");
    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o755);
    assert!(scene.at("link").is_symlink());
    let secret = scene.write("secret", "a");
    fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    edited(&mut scene, "secret", "a", "b").done();
    assert_eq!(secret.metadata().unwrap().mode() & 0o7777, 0o600);
    let names = fs::read_dir(scene.client.cwd()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name != ".bob").count(), 3, "no temporary file is left");
    scene.finish();
}

#[test]
fn a_file_that_is_not_utf8_is_edited_in_its_ascii_parts_or_not_at_all() {
    let mut scene = Scene::new();
    scene.write("latin1", b"caf\xe9 one\n");
    edited(&mut scene, "latin1", "one", "two").done();
    assert_eq!(scene.bytes("latin1"), b"caf\xe9 two\n");
    edited(&mut scene, "latin1", "two", "zw\u{f6}lf").failed("not UTF-8");
    assert_eq!(scene.bytes("latin1"), b"caf\xe9 two\n");
    scene.finish();
}

#[test]
fn none_or_several_matches_change_nothing() {
    let mut scene = Scene::new();
    scene.write("f", "a\nb\na\n");
    for old in ["a", "c"] {
        // Nobody was asked whether the model may know what is in it.
        let told = edited(&mut scene, "f", old, "x").failed("read the file first");
        assert_eq!(
            (told.told.as_str(), told.asked),
            ("f: this edit does not match its content; read the file first", None)
        );
    }
    scene.run("read_file", json!({"path": "f"})).done();
    edited(&mut scene, "f", "a", "x").failed("matches 2 times, at lines 1, 3");
    edited(&mut scene, "f", "c", "x").failed("matches 0 times");
    assert_eq!(scene.bytes("f"), b"a\nb\na\n");
    let all = json!({"path": "f", "old_string": "a", "new_string": "$1", "replace_all": true});
    scene.run("edit_file", all).done();
    assert_eq!(scene.bytes("f"), b"$1\nb\n$1\n");
    scene.finish();
}

#[test]
fn what_is_no_regular_file_holds_nobody_up() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow"));
    rustix::fs::mkfifoat(rustix::fs::CWD, scene.at("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scene.at("socket")).unwrap();
    symlink("loop", scene.at("loop")).unwrap();
    fs::create_dir(scene.at("folder")).unwrap();
    for path in [
        "pipe",
        "socket",
        "loop",
        "folder",
        "/dev/zero",
        "/dev/null",
        "/dev/tty",
        "/dev/stdin",
        "/dev/fd/0",
        "/proc/self/environ",
        "/proc/thread-self/environ",
    ] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            edit(path, "a", "b"),
        ] {
            let ran = scene.run(tool, arguments);
            assert_eq!(ran.status(), "failed", "{tool} {path}: {ran:#?}");
        }
    }
    scene.finish();
}

#[test]
fn a_huge_file_is_read_by_the_page_without_being_held() {
    let mut scene = Scene::new();
    let lines: String = (1..=30).map(|n| format!("line {n}\n")).collect();
    let file = scene.write("huge", lines);
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(3 << 30).unwrap();
    scene.write("long", format!("{}\nend\n", "x".repeat(30 << 20)));
    scene.client.permission(Permission::Select("allow_always"));
    let before = peak_memory(scene.client.id());
    let page = scene.run("read_file", json!({"path": "huge", "offset": 2, "limit": 2}));
    assert!(page.told.starts_with("2\tline 2\n3\tline 3\n"), "{}", page.told);
    let long = scene.run("read_file", json!({"path": "long"})).done();
    assert!(long.told.len() < 100_000 && long.told.contains("2\tend"), "{}", long.told.len());
    edited(&mut scene, "huge", "line 1\n", "x").failed("larger than");
    let after = peak_memory(scene.client.id());
    assert!(after < before + 50 * 1024, "{before} → {after} KiB");
    scene.finish();
}

#[test]
fn empty_files_pages_and_binaries_are_told_apart() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    scene.write("empty", "");
    scene.write("three", "a\nb\nc");
    scene.write("binary", b"\x7fELF\x02\x01\x01\0\0\0");
    assert!(scene.run("read_file", json!({"path": "empty"})).done().told.contains("the file is empty"));
    scene.run("read_file", json!({"path": "three", "offset": 9})).failed("the file has 3 lines");
    assert!(scene.run("read_file", json!({"path": "binary"})).done().told.contains("binary"));
    scene.finish();
}

/// A user without rights: root may write everywhere.
#[test]
fn a_read_only_file_or_folder_stays_as_it_is() {
    let launch = Launch::without_rights();
    let mut scene = Scene::launched(launch, |launch| launch);
    scene.client.permission(Permission::Select("allow_always"));
    scene.bash("mkdir ro; echo old > ro/f; chmod a-w ro; echo old > file; chmod a-w file; echo s > dark; chmod 0 dark").done();
    for path in ["ro/f", "ro/new", "ro/sub/new", "file"] {
        let ran = written(&mut scene, path, "new");
        assert_eq!(ran.status(), "failed", "{path}: {ran:#?}");
    }
    edited(&mut scene, "ro/f", "old", "new").failed("ro/f: ");
    edited(&mut scene, "file", "old", "new").failed("file: ");
    scene.run("read_file", json!({"path": "dark"})).failed("permission denied");
    written(&mut scene, "dark", "x").failed("permission denied");
    assert_eq!(
        (scene.bytes("ro/f").as_slice(), scene.bytes("file").as_slice()),
        (&b"old\n"[..], &b"old\n"[..])
    );
    assert_eq!(fs::read_dir(scene.at("ro")).unwrap().count(), 1, "no temporary file is left");
    assert_eq!(fs::read_dir(scene.client.cwd()).unwrap().count(), 4, "with Bob's own folder");
    scene.bash("chmod u+w ro").done(); // so that the folder can be removed
    scene.finish();
}

/// Wherever in its write the process dies.
#[test]
fn a_write_that_is_killed_leaves_the_old_or_the_new_whole() {
    use rustix::process::{Pid, Signal, kill_process};
    let (old, new) = ("old\n".repeat(100_000), "new\n".repeat(100_000));
    for round in 0..6 {
        let mut scene = Scene::configured(&json!({"mode": "full-access"}));
        scene.write("f", &old);
        scene.model.push(openai::call([("c", "write_file", json!({"path": "f", "content": new}))]));
        let session = scene.session.clone();
        scene.client.send_prompt(&session, "go");
        let progress = if round % 2 == 0 { "pending" } else { "in_progress" };
        scene.client.wait_update(|update| update["status"] == progress);
        let bob = Pid::from_raw(scene.client.id().cast_signed()).unwrap();
        kill_process(bob, Signal::KILL).unwrap();
        scene.client.wait_exit();
        let now = scene.bytes("f");
        assert!(now == old.as_bytes() || now == new.as_bytes(), "{} bytes", now.len());
    }
}

#[test]
fn a_new_file_has_the_mode_the_mask_gives() {
    let mut scene = Scene::new();
    written(&mut scene, "a/new", "x").done();
    scene.bash("touch reference; mkdir folder").done();
    let mode = |name: &str| scene.at(name).metadata().unwrap().mode();
    assert_eq!((mode("a/new"), mode("a")), (mode("reference"), mode("folder")));
    scene.finish();
}
