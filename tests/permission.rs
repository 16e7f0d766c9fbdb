//! Who decides whether a call runs: the floor, the user's rules, the answers, the mode.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use std::fs;
use support::client::Permission;
use support::scene::{Ran, Scene};
use support::{openai, write_file};

const REJECTED: &str = "[command rejected by the user]";

/// How a call was decided, with a client that rejects what it is asked.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Decided {
    Runs,
    Asked,
    Denied,
}
use Decided::{Asked, Denied, Runs};

#[track_caller]
fn decided(ran: &Ran) -> Decided {
    match (&ran.asked, ran.status()) {
        (None, "completed") => Runs,
        (Some(_), "failed") => Asked,
        (None, "failed") => Denied,
        _ => panic!("neither: {ran:#?}"),
    }
}

/// The client sends this whole answer; whether the command ran.
#[track_caller]
fn answered(scene: &mut Scene, answer: &Value) -> bool {
    scene.new_session();
    scene.client.permission(Permission::Test);
    scene.model.push(openai::call([("c", "bash", json!({"command": "echo x >> ran"}))]));
    scene.model.push(openai::say("I see"));
    let session = scene.session.clone();
    let prompt = scene.client.send_prompt(&session, "go");
    let question = scene.client.wait_request("session/request_permission");
    let mut message = json!({"jsonrpc": "2.0", "id": question["id"]});
    message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    scene.client.send(&message);
    let turn = scene.client.wait_turn(&session, &prompt);
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "I see"), "{answer}");
    assert!(scene.client.take_requests("session/request_permission").is_empty(), "asked once: {answer}");
    let ran = fs::remove_file(scene.at("ran")).is_ok();
    let told = scene.results().pop().unwrap();
    assert_eq!(
        (turn.status(question["params"]["toolCall"]["toolCallId"].as_str().unwrap()), told.as_str()),
        if ran { (Some("completed"), "[no output]") } else { (Some("failed"), REJECTED) },
        "{answer}"
    );
    ran
}

#[test]
fn only_a_clear_yes_runs_a_call() {
    let mut scene = Scene::new();
    for option in ["allow", "allow_once", "allow_always"] {
        let answer = json!({"result": {"outcome": {"outcome": "selected", "optionId": option}}});
        assert!(answered(&mut scene, &answer), "{option}");
    }
    let selected =
        |option: Value| json!({"result": {"outcome": {"outcome": "selected", "optionId": option}}});
    let outcome = |outcome: Value| json!({"result": {"outcome": outcome}});
    for answer in [
        selected(json!("reject")),
        selected(json!("reject_once")),
        selected(json!("reject_always")),
        selected(json!("Allow")),
        selected(json!("allow ")),
        selected(json!("")),
        selected(json!(null)),
        selected(json!(true)),
        selected(json!(["allow"])),
        selected(json!({"allow": true})),
        outcome(json!({"outcome": "cancelled"})),
        outcome(json!({"outcome": "cancelled", "optionId": "allow"})),
        outcome(json!({"outcome": "Selected", "optionId": "allow"})),
        outcome(json!({"outcome": "selected"})),
        outcome(json!({"optionId": "allow"})),
        outcome(json!({"outcome": {"outcome": "selected", "optionId": "allow"}})),
        outcome(json!(["selected", "allow"])),
        outcome(json!("selected")),
        outcome(json!("allow")),
        outcome(json!(null)),
        json!({"result": {"optionId": "allow"}}),
        json!({"result": [{"outcome": "selected", "optionId": "allow"}]}),
        json!({"result": "allow"}),
        json!({"result": true}),
        json!({"result": {}}),
        json!({"result": null}),
        json!({"error": {"code": -32601, "message": "Method not found"}}),
        json!({"error": {"code": -32603, "message": "allow", "data": {"outcome": {"outcome": "selected", "optionId": "allow"}}}}),
        json!({"error": null}), // or the question would stay open for ever
        json!({"error": "allow"}),
        json!({"error": {"code": 1, "message": "no"}, "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}}),
    ] {
        assert!(!answered(&mut scene, &answer), "{answer}");
    }
    scene.finish();
}

#[test]
fn the_end_of_the_client_is_no_yes() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Test);
    scene.model.push(openai::call([("c", "bash", json!({"command": "touch ran"}))]));
    let session = scene.session.clone();
    scene.client.send_prompt(&session, "go");
    scene.client.wait_request("session/request_permission");
    scene.client.finish();
    assert!(!scene.at("ran").exists());
}

#[test]
fn an_unanswered_question_holds_up_no_other_session_and_no_answer_comes_too_late() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Test);
    scene.model.push(openai::call([("c", "bash", json!({"command": "touch ran"}))]));
    let first = scene.session.clone();
    let waiting = scene.client.send_prompt(&first, "go");
    let question = scene.client.wait_request("session/request_permission");
    scene.new_session();
    scene.model.push(openai::say("here"));
    assert_eq!(scene.prompt("are you there?").text(), "here");
    scene.model.push(openai::say("done"));
    scene.client.answer(&question["id"], json!({"outcome": {"outcome": "selected", "optionId": "allow"}}));
    assert_eq!(scene.client.wait_turn(&first, &waiting).stop_reason(), "end_turn");
    assert!(scene.at("ran").exists());
    scene.finish();
}

#[test]
fn an_answer_counts_once_and_for_its_own_question() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Test);
    let mut asked = Vec::new();
    for file in ["first", "second"] {
        scene.new_session();
        scene.model.push(openai::call([("c", "bash", json!({"command": format!("touch {file}")}))]));
        let session = scene.session.clone();
        let prompt = scene.client.send_prompt(&session, "go");
        let question = scene.client.wait_request("session/request_permission");
        asked.push((session, prompt, question["id"].clone()));
    }
    let answer = |id: &Value, option: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "selected", "optionId": option}}});
    scene.model.push(openai::say("done"));
    scene.model.push(openai::say("done"));
    let lines = [(1, "reject"), (1, "allow"), (0, "allow"), (0, "reject_always")];
    let lines: String =
        lines.iter().map(|(at, option)| format!("{}\n", answer(&asked[*at].2, option))).collect();
    scene.client.send_raw(lines.as_bytes());
    for (session, prompt, _) in &asked {
        assert_eq!(scene.client.wait_turn(session, prompt).stop_reason(), "end_turn");
    }
    assert!(scene.at("first").exists() && !scene.at("second").exists());
    scene.client.permission(Permission::Select("allow"));
    scene.session = asked[0].0.clone();
    scene.bash("true").done();
    scene.finish();
}

#[test]
fn a_further_directory_is_inside_but_what_is_protected_stays_so() {
    let further = tempfile::tempdir().unwrap();
    let (file, secret) = (write_file(further.path(), "f", "a"), write_file(further.path(), "x.key", "k"));
    let mut scene = Scene::new();
    let params =
        json!({"cwd": scene.client.cwd(), "additionalDirectories": [further.path()], "mcpServers": []});
    scene.session =
        scene.client.call("session/new", params)["result"]["sessionId"].as_str().unwrap().to_owned();
    scene.client.permission(Permission::Select("allow_always"));
    assert!(scene.run("read_file", json!({"path": file})).done().asked.is_some());
    assert!(scene.run("read_file", json!({"path": file})).done().asked.is_none());
    scene.client.permission(Permission::Select("reject"));
    assert_eq!(decided(&scene.run("read_file", json!({"path": secret}))), Asked);
    let up = further.path().join("../x");
    assert_eq!(decided(&scene.run("read_file", json!({"path": up}))), Asked);
    scene.finish();
}

#[test]
fn always_holds_for_the_tool_and_the_session_and_new_keeps_it() {
    let mut scene = Scene::new();
    scene.write("a.txt", "a");
    scene.client.permission(Permission::Select("allow_always"));
    assert!(scene.bash("echo 1").done().asked.is_some());
    scene.client.permission(Permission::Select("reject"));
    assert_eq!(decided(&scene.bash("echo 2; touch two")), Runs);
    assert_eq!(decided(&scene.run("read_file", json!({"path": "a.txt"}))), Asked);
    assert_eq!(decided(&scene.run("write_file", json!({"path": "a.txt", "content": "b"}))), Asked);
    assert_eq!(scene.prompt("/new").stop_reason(), "end_turn");
    assert_eq!(decided(&scene.bash("echo 3")), Runs);
    let first = scene.session.clone();
    scene.new_session();
    assert_eq!(decided(&scene.bash("echo 4")), Asked);
    scene.session = first;
    assert_eq!(decided(&scene.bash("echo 5")), Runs);
    assert_eq!(decided(&scene.bash("rm -rf ~")), Denied, "the floor holds against it");
    scene.finish();
}

#[test]
fn always_rejected_is_not_asked_again_and_holds_in_full_access() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject_always"));
    assert!(scene.bash("touch ran").failed(REJECTED).asked.is_some());
    scene.client.permission(Permission::Select("allow"));
    assert!(scene.bash("touch ran").failed(REJECTED).asked.is_none());
    scene.set_mode("full-access");
    assert!(scene.bash("touch ran").failed(REJECTED).asked.is_none());
    assert_eq!(decided(&scene.run("write_file", json!({"path": "w", "content": ""}))), Runs);
    assert!(!scene.at("ran").exists());
    scene.finish();
}

#[test]
fn always_does_not_reach_outside_the_project_or_protected_files() {
    let outside = tempfile::tempdir().unwrap();
    let file = write_file(outside.path(), "b.txt", "b");
    let mut scene = Scene::new();
    scene.write("a.txt", "a");
    scene.write(".env", "A=1");
    scene.write("src/x.pem", "k");
    std::os::unix::fs::symlink(&file, scene.at("link")).unwrap();
    std::os::unix::fs::symlink(outside.path(), scene.at("folder")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("new"), scene.at("dangling")).unwrap();
    scene.client.permission(Permission::Select("allow_always"));
    scene.run("write_file", json!({"path": "a.txt", "content": "b"})).done();
    scene.run("edit_file", json!({"path": "a.txt", "old_string": "b", "new_string": "c"})).done();
    scene.run("read_file", json!({"path": "a.txt"})).done();
    scene.client.permission(Permission::Select("reject"));
    assert_eq!(decided(&scene.run("write_file", json!({"path": "new/b.txt", "content": "b"}))), Runs);
    let up = format!("../{}/b.txt", outside.path().file_name().unwrap().to_str().unwrap());
    let missing = outside.path().join("missing");
    let outside_paths =
        [file.to_str().unwrap(), &up, "link", "folder/b.txt", "~/x", missing.to_str().unwrap(), "dangling"];
    for path in outside_paths.into_iter().chain([".env", "src/x.pem"]) {
        for (tool, arguments) in [
            ("write_file", json!({"path": path, "content": "x"})),
            ("edit_file", json!({"path": path, "old_string": "b", "new_string": "x"})),
            ("read_file", json!({"path": path})),
        ] {
            let ran = scene.run(tool, arguments);
            assert_eq!(decided(&ran), Asked, "{tool} {path}");
            ran.failed(REJECTED);
        }
    }
    for path in
        ["AGENTS.md", ".git/config", ".bob/x", ".vscode/tasks.json", ".github/workflows/ci.yml", "Agents.MD"]
    {
        assert_eq!(decided(&scene.run("write_file", json!({"path": path, "content": "x"}))), Asked, "{path}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"b");
    assert!(!outside.path().join("new").exists());
    scene.finish();
}

/// Rules, mode, tool and its `command` or `path`, what is decided.
#[expect(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]
#[track_caller]
fn by_rules(scene: &mut Scene, rules: Value, mode: &str, tool: &str, subject: &str, expected: Decided) {
    write_file(
        scene.client.home(),
        ".bob/config.json",
        json!({"mode": mode, "permissions": rules}).to_string(),
    );
    scene.new_session();
    let arguments = match tool {
        "bash" => json!({"command": subject}),
        "read_file" => json!({"path": subject}),
        _ => json!({"path": subject, "content": "x"}),
    };
    let ran = scene.run(tool, arguments);
    assert_eq!(decided(&ran), expected, "{rules} {mode} {tool} {subject:?}\n{ran:#?}");
    if expected == Denied {
        assert!(ran.told.starts_with("[denied"), "{}", ran.told);
    }
}

#[test]
fn the_strictest_of_the_users_rules_that_fit_decides() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    for file in ["src/a", "x/y", "b"] {
        scene.write(file, "a");
    }
    let rule = |tool: &str, glob: &str, action: &str| json!({"tool": tool, "match": glob, "action": action});
    let all = |tool: &str, action: &str| json!({"tool": tool, "action": action});
    for (rules, mode, tool, subject, expected) in [
        (json!([]), "ask", "bash", "true", Asked),
        (json!([]), "full-access", "bash", "true", Runs),
        (json!([all("bash", "deny")]), "full-access", "bash", "true", Denied),
        (json!([all("bash", "ask")]), "full-access", "bash", "true", Asked),
        (json!([all("bash", "allow")]), "ask", "bash", "true", Runs),
        (json!([all("bash", "allow")]), "ask", "bash", "true; true", Asked),
        (json!([all("Bash", "deny")]), "full-access", "bash", "true", Runs),
        (json!([all("b?sh", "deny")]), "full-access", "bash", "true", Denied),
        (json!([all("*", "deny")]), "full-access", "read_file", "src/a", Denied),
        (json!([all("*_file", "deny")]), "full-access", "bash", "true", Runs),
        (json!([all("bash", "allow"), all("*", "ask")]), "ask", "bash", "true", Asked),
        (json!([all("bash", "allow"), rule("bash", "rm *", "deny")]), "full-access", "bash", "rm x", Denied),
        (json!([rule("bash", "rm *", "deny"), all("bash", "allow")]), "ask", "bash", "true", Runs),
        (json!([rule("bash", "rm *", "deny")]), "full-access", "bash", "rmdir x", Runs),
        (json!([rule("read_file", "src/*", "allow")]), "ask", "read_file", "src/a", Runs),
        (json!([rule("read_file", "src/*", "allow")]), "ask", "read_file", "./x/../src/a", Runs),
        (json!([rule("read_file", "src/*", "allow")]), "ask", "read_file", "src/../b", Asked),
        (json!([rule("read_file", "src/*", "allow")]), "ask", "write_file", "src/b", Asked),
        (json!([rule("write_file", "*.lock", "deny")]), "full-access", "write_file", "a/Cargo.lock", Denied),
    ] {
        by_rules(&mut scene, rules, mode, tool, subject, expected);
    }
    scene.finish();
}

#[test]
fn a_rule_that_allows_a_command_allows_no_other_behind_it() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    let rules = json!([{"tool": "bash", "match": "git status*", "action": "allow"}]);
    let exact = json!([{"tool": "bash", "match": "git status", "action": "allow"}]);
    by_rules(&mut scene, exact.clone(), "ask", "bash", "git status", Runs);
    by_rules(&mut scene, rules.clone(), "ask", "bash", "git status --short 'a;b'", Runs);
    for line in ["git statusx", "git push", "git status x", " git status", "GIT status"] {
        by_rules(&mut scene, exact.clone(), "ask", "bash", line, Asked);
    }
    for line in [
        "git status; touch ran",
        "git status && touch ran",
        "git status || touch ran",
        "git status | sh",
        "git status & touch ran",
        "git status &",
        "git status\ntouch ran",
        "git status\r\ntouch ran",
        "git status $(touch ran)",
        "git status \"$(touch ran)\"",
        "git status `touch ran`",
        "git status <(touch ran)",
        "git status > f",
        "git status >> f",
        "git status < f",
        "git status 2>f",
        "git status ${x:-$(touch ran)}",
    ] {
        by_rules(&mut scene, rules.clone(), "ask", "bash", line, Asked);
    }
    assert!(!scene.at("ran").exists() && !scene.at("f").exists());
    scene.finish();
}

#[test]
fn rules_see_where_a_path_ends_and_the_users_word_counts_outside_too() {
    let outside = tempfile::tempdir().unwrap();
    let place = outside.path().canonicalize().unwrap();
    write_file(&place, "b", "b");
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    scene.write("src/own", "a");
    std::os::unix::fs::symlink(place.join("b"), scene.at("src/link")).unwrap();
    let inside = json!([{"tool": "*", "match": "src/*", "action": "allow"}]);
    let there = json!([{"tool": "*", "match": format!("{}/*", place.display()), "action": "allow"}]);
    let deny = json!([{"tool": "*", "match": format!("{}/*", place.display()), "action": "deny"}]);
    for (rules, mode, expected) in
        [(inside, "ask", Asked), (there, "ask", Runs), (deny, "full-access", Denied)]
    {
        by_rules(&mut scene, rules.clone(), mode, "read_file", "src/link", expected);
        let named = place.join("b");
        by_rules(&mut scene, rules, mode, "read_file", named.to_str().unwrap(), expected);
    }
    scene.finish();
}

#[test]
fn a_path_fits_however_the_rule_spells_it() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    let named = tempfile::tempdir().unwrap();
    let link = named.path().join("project");
    std::os::unix::fs::symlink(scene.client.cwd(), &link).unwrap();
    let cwd = scene.client.cwd().canonicalize().unwrap();
    let home = scene.client.home().canonicalize().unwrap();
    scene.write("secrets/a", "a");
    write_file(&home, "notes/a", "a");
    let (inside, outside) = ("secrets/a", "~/notes/a");
    let of = |glob: &str, action: &str| json!([{"tool": "read_file", "match": glob, "action": action}]);
    let absolute = format!("{}/secrets/*", cwd.display());
    let wild = format!("{}/*/a", cwd.parent().unwrap().display());
    let below_home = format!("{}/notes/*", home.display());
    for (glob, path) in [
        ("secrets/*", inside),
        ("./secrets/*", inside),
        (&absolute, inside),
        (&wild, inside),
        ("~/notes/*", outside),
        ("~/*", outside),
        (&below_home, outside),
    ] {
        by_rules(&mut scene, of(glob, "deny"), "full-access", "read_file", path, Denied);
        by_rules(&mut scene, of(glob, "ask"), "full-access", "read_file", path, Asked);
        by_rules(&mut scene, of(glob, "allow"), "ask", "read_file", path, Runs);
    }
    for (glob, path) in [("secrets/*", outside), ("~/secrets/*", inside), ("~", outside), ("./", inside)] {
        by_rules(&mut scene, of(glob, "deny"), "full-access", "read_file", path, Runs);
    }
    // Of the place where the project lies only a rule that forbids may speak without beginning at the root.
    let around = format!("*{}/secrets/*", cwd.file_name().unwrap().to_str().unwrap());
    by_rules(&mut scene, of(&around, "deny"), "full-access", "read_file", inside, Denied);
    by_rules(&mut scene, of(&around, "allow"), "ask", "read_file", inside, Asked);
    // As the editor calls the project, through a link.
    let through_link = format!("{}/secrets/*", link.display());
    write_file(
        &home,
        ".bob/config.json",
        json!({"mode": "full-access", "permissions": of(&through_link, "deny")}).to_string(),
    );
    scene.session = scene.client.new_session(&link);
    assert_eq!(decided(&scene.run("read_file", json!({"path": inside}))), Denied);
    scene.finish();
}

#[test]
fn a_rule_for_a_tool_that_there_is_not_is_warned_of() {
    let rules = ["Bash", "bsh", "bash", "read_file", "mcp_git_log", "B*", "b?sh", "a\nb"];
    let rules: Vec<_> = rules.iter().map(|tool| json!({"tool": tool, "action": "deny"})).collect();
    let mut scene = Scene::configured(&json!({ "permissions": rules }));
    scene.client.finish();
    let stderr = scene.client.wait_stderr();
    let warnings: Vec<_> = stderr.lines().filter(|line| line.contains("there is no tool")).collect();
    let tools = "bash, read_file, write_file, edit_file";
    assert_eq!(warnings.len(), 3, "{stderr}");
    for (warning, tool) in warnings.iter().zip(["`Bash`", "`bsh`", "`a⏎b`"]) {
        assert!(warning.starts_with("warn: permissions: "), "{warning}");
        assert!(warning.contains(tool) && warning.contains(tools), "{warning}");
    }
}

#[test]
fn an_ask_rule_outlasts_allow_always_and_reject_always_an_allow_rule() {
    let rules = json!([{"tool": "bash", "match": "touch *", "action": "ask"}, {"tool": "bash", "match": "echo *", "action": "allow"}]);
    let mut scene = Scene::configured(&json!({ "permissions": rules }));
    scene.client.permission(Permission::Select("allow_always"));
    assert!(scene.bash("touch a").done().asked.is_some());
    assert!(scene.bash("touch b").done().asked.is_some());
    scene.client.permission(Permission::Select("reject_always"));
    assert_eq!(decided(&scene.bash("touch c")), Asked);
    scene.client.permission(Permission::Select("allow"));
    scene.bash("echo x").failed(REJECTED);
    scene.finish();
}

/// Why a call can't succeed may hold what stands in the file: "the nearest lines".
#[test]
fn of_what_is_denied_not_even_a_failure_is_told() {
    let rules = json!([{"tool": "*", "match": "vault/*", "action": "deny"}]);
    let mut scene = Scene::configured(&json!({"mode": "full-access", "permissions": rules}));
    scene.write("vault/note", "the hunter2-secret\n");
    let edit = json!({"path": "vault/note", "old_string": "the hunter3-secret", "new_string": "x"});
    let calls = [
        ("edit_file", edit.clone()),
        ("read_file", json!({"path": "vault/note"})),
        ("read_file", json!({"path": "vault/none"})),
        ("write_file", json!({"path": "vault/note", "content": "x"})),
    ];
    for ran in scene.run_all(calls) {
        assert!(!ran.told.contains("hunter2"), "{ran:#?}");
        ran.failed("[denied");
    }
    scene.set_mode("ask");
    scene.write("open", "the hunter2-secret\n");
    scene.client.permission(Permission::Select("reject_always"));
    scene
        .run("edit_file", json!({"path": "open", "old_string": "hunter2", "new_string": "x"}))
        .failed(REJECTED);
    let again = json!({"path": "open", "old_string": "the hunter3-secret", "new_string": "x"});
    scene.run("edit_file", again).failed(REJECTED);
    scene.finish();
}

#[test]
fn a_tool_that_never_asks_can_still_be_denied() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    scene.write(".bob/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: tidies\n---\nTidy up.\n");
    for (rules, expected) in [
        (json!([]), Runs),
        (json!([{"tool": "*", "action": "ask"}]), Runs),
        (json!([{"tool": "read_*", "action": "deny"}]), Denied),
    ] {
        write_file(scene.client.home(), ".bob/config.json", json!({ "permissions": rules }).to_string());
        scene.new_session();
        assert_eq!(decided(&scene.run("read_skill", json!({"name": "tidy"}))), expected, "{rules}");
    }
    scene.finish();
}

#[test]
fn the_user_may_allow_a_protected_file_and_full_access_asks_nothing() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    scene.write(".env", "A=1");
    let rules = json!([{"tool": "read_file", "match": ".env", "action": "allow"}]);
    by_rules(&mut scene, rules.clone(), "ask", "read_file", ".env", Runs);
    by_rules(&mut scene, rules, "ask", "write_file", ".env", Asked);
    for path in [".env", "AGENTS.md", ".git/config", "~/x"] {
        by_rules(&mut scene, json!([]), "full-access", "write_file", path, Runs);
    }
    scene.finish();
}

#[test]
fn broken_rules_fail_the_session_with_their_place() {
    let mut scene = Scene::new();
    for rules in [
        json!([{"tool": "bash", "action": "alow"}]),
        json!([{"tool": "bash"}]),
        json!([{"action": "deny"}]),
        json!({"tool": "bash", "action": "deny"}),
        json!([{"tool": "bash", "match": 1, "action": "deny"}]),
        json!([{"tool": ["bash"], "action": "deny"}]),
        json!([["bash", null, "deny"]]),
    ] {
        let file =
            write_file(scene.client.home(), ".bob/config.json", json!({ "permissions": rules }).to_string());
        let response = scene.client.call("session/new", json!({"cwd": scene.at(""), "mcpServers": []}));
        let message = response["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(response["error"]["code"], -32603, "{rules}: {response}");
        assert!(message.contains(&format!("{}:1:", file.display())), "{message}");
    }
    scene.finish();
}

#[test]
fn the_floor_is_denied_without_a_question_in_every_mode_and_against_every_rule() {
    let mut scene = Scene::configured(&json!({"permissions": [{"tool": "*", "action": "allow"}]}));
    let kept = write_file(scene.client.home(), "kept", "x");
    scene.client.permission(Permission::Select("reject"));
    // Harmless even if they ran: the home is the test's own, the device is not there.
    let harmless = [
        "rm -rf ~",
        "rm -rf ~/",
        "rm -rf ~/*",
        "rm -fr \"$HOME\"",
        "rm -r -f ${HOME}/*",
        "rm --recursive --force $HOME",
        "true; rm -rf ~",
        "true && rm -rf '/'\"$HOME\"; rm -rf ~",
        "cd ~ && rm -rf *",
        "'rm' -rf ~",
        "\\rm -rf ~",
        "dd if=/dev/null of=/dev/bob-has-no-such-disk",
        "mkfs.ext4 /dev/bob-has-no-such-disk",
    ];
    for mode in ["ask", "full-access"] {
        scene.set_mode(mode);
        for line in harmless {
            let ran = scene.bash(line);
            assert_eq!(decided(&ran), Denied, "{mode}: {line}\n{ran:#?}");
            ran.failed("[denied: ");
        }
    }
    assert!(kept.exists());
    scene.finish();
}

/// In mode "ask" with a client that rejects: what the floor lets through is asked about, and does not run either.
#[test]
fn the_floor_comes_before_the_question() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    for line in [
        "rm -rf /",
        "sudo rm -rf /",
        "rm -rf /*",
        ":(){ :|:& };:",
        "cd / && rm -rf *",
        "mkfs /x",
        "dd of=/dev/sda if=x",
    ] {
        assert_eq!(decided(&scene.bash(line)), Denied, "{line}");
    }
    for line in [
        "rm -rf build",
        "rm -rf ./*",
        "echo 'rm -rf /'",
        "dd if=/dev/zero of=/dev/null count=1",
        "rm -rf /tmp/x",
    ] {
        assert_eq!(decided(&scene.bash(line)), Asked, "{line}");
    }
    scene.finish();
}

#[test]
fn the_card_shows_what_will_run() {
    let mut scene = Scene::new();
    let file = scene.write("src/a.rs", "one\ntwo\n");
    let card = |ran: &Ran| {
        let asked = ran.asked.clone().expect("it is asked about");
        assert_eq!(asked["params"]["toolCall"], without_update(&ran.call), "the same as announced");
        let options: Vec<_> = asked["params"]["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|o| (o["optionId"].clone(), o["name"].clone(), o["kind"].clone()))
            .collect();
        let expected = [
            ("allow", "Allow once", "allow_once"),
            ("allow_always", "Always allow", "allow_always"),
            ("reject", "Reject once", "reject_once"),
            ("reject_always", "Always reject", "reject_always"),
        ];
        assert_eq!(options, expected.map(|(id, name, kind)| (json!(id), json!(name), json!(kind))));
        asked["params"]["toolCall"].clone()
    };
    let bash = card(&scene.bash("echo hi"));
    assert_eq!(bash["title"], "bash: echo hi");
    assert_eq!((&bash["kind"], &bash["status"]), (&json!("execute"), &json!("pending")));
    assert_eq!(bash["rawInput"], json!({"command": "echo hi"}));
    let edit =
        card(&scene.run("edit_file", json!({"path": "src/a.rs", "old_string": "two", "new_string": "2"})));
    assert_eq!((&edit["title"], &edit["kind"]), (&json!("edit_file: src/a.rs"), &json!("edit")));
    assert_eq!(edit["locations"], json!([{"path": file, "line": 2}]));
    assert_eq!(
        edit["content"],
        json!([{"type": "diff", "path": file, "oldText": "one\ntwo\n", "newText": "one\n2\n"}])
    );
    let write = card(&scene.run("write_file", json!({"path": "new", "content": "n"})));
    assert_eq!(write["content"][0]["newText"], "n");
    let read = card(&scene.run("read_file", json!({"path": "src/a.rs", "offset": 2})));
    assert_eq!((&read["title"], &read["kind"]), (&json!("read_file: src/a.rs"), &json!("read")));
    assert_eq!(read["locations"], json!([{"path": file, "line": 2}]));
    scene.finish();
}

fn without_update(call: &Value) -> Value {
    let mut call = call.clone();
    call.as_object_mut().unwrap().remove("sessionUpdate");
    call
}

#[test]
fn a_title_can_not_lie_and_the_question_shows_the_whole_command() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    let long = format!("echo {}; touch ran", "a".repeat(400));
    for line in ["echo a\ntouch ran", "echo \u{202e}x\u{200b}y", "echo \x1b[2K\rls", "echo ```\n````", &long]
    {
        let ran = scene.bash(line);
        let title = ran.call["title"].as_str().unwrap();
        let tricky = |c: char| c.is_control() || "\u{202e}\u{200b}".contains(c);
        assert!(title.starts_with("bash: echo ") && !title.contains(tricky), "{title:?}");
        assert!(title.chars().count() < 230, "{title}");
        let question = ran.asked.expect("it is asked about");
        let content = question["params"]["toolCall"]["content"].as_array().unwrap().clone();
        assert_eq!(content.len(), 1, "{content:?}");
        let text = content[0]["content"]["text"].as_str().unwrap();
        let (fence, rest) = text.split_once('\n').unwrap();
        assert!(fence.bytes().all(|b| b == b'`') && fence.len() >= 3 && !line.contains(fence), "{text}");
        assert_eq!(rest, format!("{line}\n{fence}"));
        assert_eq!(question["params"]["toolCall"]["rawInput"]["command"], *line);
    }
    let long = scene.bash(&long).call["title"].clone();
    assert!(long.as_str().unwrap().contains("… (+"), "{long}");
    let shown = scene.bash("echo short").asked.unwrap()["params"]["toolCall"]["content"].clone();
    assert_eq!(shown, json!([]), "the title says it all");
    for path in ["a\nb", "x\u{202e}txt.exe"] {
        let ran = scene.run("write_file", json!({"path": path, "content": ""}));
        assert!(!ran.call["title"].as_str().unwrap().contains(['\n', '\u{202e}']));
        assert_eq!(ran.call["locations"][0]["path"], json!(scene.at(path)));
    }
    scene.finish();
}

#[test]
fn calls_of_one_reply_are_asked_about_one_after_the_other() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Test);
    let calls = ["touch a", "touch b", "touch c"].map(|line| ("bash", json!({"command": line})));
    let ids = ["1", "2", "3"];
    scene
        .model
        .push(openai::call(ids.into_iter().zip(calls).map(|(id, (name, arguments))| (id, name, arguments))));
    scene.model.push(openai::say("done"));
    let session = scene.session.clone();
    let prompt = scene.client.send_prompt(&session, "go");
    for (line, option, made) in
        [("touch a", "allow", "a"), ("touch b", "reject", "a"), ("touch c", "allow", "c")]
    {
        let call = scene.client.wait_update(|update| update["sessionUpdate"] == "tool_call");
        assert_eq!(call["rawInput"]["command"], line);
        let question = scene.client.wait_request("session/request_permission");
        assert_eq!(question["params"]["toolCall"]["toolCallId"], call["toolCallId"]);
        scene.client.answer(&question["id"], json!({"outcome": {"outcome": "selected", "optionId": option}}));
        scene.client.wait_update(|update| {
            update["toolCallId"] == call["toolCallId"]
                && matches!(update["status"].as_str(), Some("completed" | "failed"))
        });
        assert!(scene.at(made).exists());
    }
    assert_eq!(scene.client.wait_turn(&session, &prompt).stop_reason(), "end_turn");
    assert!(!scene.at("b").exists());
    assert_eq!(scene.results(), ["[no output]", REJECTED, "[no output]"]);
    scene.finish();
}

#[test]
fn a_mode_has_its_effect_and_a_foreign_one_changes_nothing() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    assert_eq!(decided(&scene.bash("true")), Asked);
    for (mode, expected) in [
        ("full-access", Runs),
        ("architect", Runs),
        ("Ask", Runs),
        ("ask", Asked),
        ("read-only", Asked),
        ("full-access", Runs),
        ("ask", Asked),
    ] {
        let response = scene.set_mode(mode);
        assert_eq!(response["result"], json!({"modeId": mode}), "{response}");
        let update = scene.client.wait_update(|update| update["sessionUpdate"] == "current_mode_update");
        assert_eq!(update["currentModeId"], mode);
        assert_eq!(decided(&scene.bash("true")), expected, "{mode}");
    }
    let session = scene.session.clone();
    for bad in [json!(""), json!(null), json!(1), json!(["ask"])] {
        let response = scene.client.call("session/set_mode", json!({"sessionId": session, "modeId": bad}));
        assert_eq!(response["error"]["code"], -32602, "{response}");
    }
    scene.set_mode("full-access");
    scene.new_session();
    assert_eq!(decided(&scene.bash("true")), Asked, "a mode is the session's own");
    scene.finish();
}
