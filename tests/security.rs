//! The attackers: a repository, a model, an endpoint; and the secrets they are after.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use support::client::{Launch, Permission};
use support::model_server::Answer;
use support::openai::{self, refuse, say};
use support::scene::Scene;
use support::write_file;

const KEY: &str = "sk-test-0123456789abcdefghijklmnopqrstuvwxyz";

fn with_key(launch: Launch) -> Launch {
    launch.env("LOCAL_API_KEY", KEY).env("GH_TOKEN", "ghp-stays")
}

fn fifo(path: &Path) {
    rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
}

/// Every regular file below a folder that holds `text`.
fn holding(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        if kind.is_dir() {
            found.append(&mut holding(&path, text));
        } else if kind.is_file()
            && fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes())
        {
            found.push(path);
        }
    }
    found
}

// The key.

/// As root every process's environment can be read: `/proc/$PPID/environ` is closed to everybody else only.
#[test]
fn a_command_finds_the_key_neither_in_its_environment_nor_in_bobs() {
    let mut scene = Scene::launched(Launch::without_rights(), with_key);
    scene.client.permission(Permission::Select("allow_always"));
    let told = scene.bash("env; tr '\\0' '\\n' < /proc/self/environ; cat /proc/self/cmdline").done().told;
    assert!(told.contains("GH_TOKEN=ghp-stays") && told.contains("PATH="), "{told}");
    assert!(!told.contains(KEY) && !told.contains("LOCAL_API_KEY"), "{told}");
    let bob = scene.client.id();
    let lines = [
        "cat /proc/$PPID/environ",
        "cat /proc/$PPID/cmdline",
        "cat /proc/$PPID/task/*/environ",
        "grep -ac sk-test /proc/$PPID/mem",
        "ls -l /proc/$PPID/fd/",
    ];
    for line in lines {
        let told = scene.bash(line).done().told;
        assert!(!told.contains(KEY), "{line}: {told}");
        let open = line.contains("cmdline");
        assert!(open || told.contains("Permission denied"), "{line}: {told}");
    }
    assert_eq!(scene.bash("echo $PPID").done().told, format!("{bob}\n"), "it is Bob that was asked about");
    let sent = scene.model.wait_request(0);
    assert_eq!(sent.header("authorization"), Some(format!("Bearer {KEY}").as_str()), "the model gets it");
    scene.finish();
}

#[test]
fn the_key_stays_in_the_environment_only_if_the_user_says_so() {
    let mut scene = Scene::with(|launch| {
        write_file(launch.home(), ".bob/config.json", "{\"tools\": {\"passKeys\": true}}");
        with_key(launch)
    });
    assert_eq!(scene.bash("echo $LOCAL_API_KEY").done().told, format!("{KEY}\n"));
    scene.finish();
}

#[test]
fn no_error_log_or_file_holds_the_key_even_if_the_endpoint_echoes_it() {
    let mut scene = Scene::with(|launch| with_key(launch).env("RUST_LOG", "trace,ureq=trace"));
    let echo = format!("Incorrect API key provided: {KEY}. Bearer {KEY}");
    let mut seen = String::new();
    for answer in [
        refuse(401, &echo),
        refuse(400, &echo),
        Answer::status(403).write(format!("<html><title>{echo}</title></html>")),
        Answer::status(404)
            .header("x-echo", KEY)
            .header("location", &format!("http://x/{KEY}"))
            .write(echo.clone()),
        Answer::sse().write(openai::event(&openai::error(&echo, 400))),
        Answer::status(200).header("content-type", "text/html").write(format!("<title>{echo}</title>")),
        Answer::json(
            401,
            &json!({"error": {"message": "no", "param": KEY, "code": KEY, "metadata": {"raw": echo}}}),
        ),
    ] {
        let turn = scene.answers([answer]);
        assert_eq!(turn.response["error"]["code"], -32603, "{}", turn.response);
        seen += &turn.response.to_string();
        turn.updates.iter().for_each(|update| seen += &update.to_string());
    }
    assert!(!seen.contains(KEY), "{seen}");
    assert!(seen.contains("Incorrect API key provided"), "the provider's words: {seen}");
    scene.client.permission(Permission::Select("allow_always"));
    scene.bash("true").done();
    assert_eq!(holding(scene.client.home(), KEY), [] as [&Path; 0]);
    assert_eq!(holding(&scene.client.cwd(), KEY), [] as [&Path; 0]);
    scene.client.finish();
    let stderr = scene.client.wait_stderr();
    assert!(
        !stderr.contains(KEY),
        "{}",
        stderr.lines().filter(|line| line.contains(KEY)).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn a_broken_configuration_is_told_without_its_values() {
    for (name, value) in [
        ("LOCAL_BASE_URL", "ftp://user:hunter2-secret@host/v1"),
        ("LOCAL_BASE_URL", "hunter2-secret"),
        ("LOCAL_API_FORMAT", "hunter2-secret"),
        ("LLM_TEMPERATURE", "hunter2-secret"),
        ("LLM_EXTRA_BODY", "{\"hunter2-secret"),
        ("LOCAL_API_KEY", "hunter2-secret\nX-Injected: 1"),
    ] {
        let mut client = Launch::new().model("http://127.0.0.1:9/v1").env(name, value).start();
        client.initialize();
        let cwd = client.cwd();
        let response = client.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        assert_eq!(response["error"]["code"], -32603, "{name}: {response}");
        assert!(!response.to_string().contains("hunter2"), "{response}");
        client.finish();
        assert!(!client.wait_stderr().contains("hunter2"), "{name}");
    }
}

#[test]
fn the_log_tells_no_prompt_and_no_output() {
    let mut scene = Scene::new();
    scene.model.push(openai::call([("c", "bash", json!({"command": "echo so-secret-output"}))]));
    scene.model.push(say("so-secret-answer"));
    assert_eq!(scene.prompt("so-secret-question").stop_reason(), "end_turn");
    scene.client.finish();
    let stderr = scene.client.wait_stderr();
    assert!(stderr.contains("created in") && !stderr.contains("so-secret"), "{stderr}");
}

// stdout.

/// The client judges every line: JSON-RPC and nothing else, whatever goes wrong.
#[test]
fn every_line_on_stdout_is_the_protocols_on_the_first_run_and_with_all_logs_on() {
    for logs in ["warn", "trace"] {
        let mut scene = Scene::with(|launch| {
            let nowhere = launch.home().join("not/there");
            launch
                .env("HOME", &nowhere)
                .env("BOB_HOME", nowhere.join(".bob"))
                .env("RUST_LOG", logs)
                .env("BOB_LOG", logs)
        });
        scene.client.permission(Permission::Select("allow_always"));
        scene.bash("echo out; echo err >&2; echo {\\\"id\\\":1}; exit 3").done();
        scene.bash("echo x > /proc/$PPID/fd/1; echo '{\"jsonrpc\":\"2.0\"}' > /dev/stdout; echo y > /proc/$PPID/fd/2").done();
        assert_eq!(
            scene.answers([refuse(400, "{\"jsonrpc\":\"2.0\",\"id\":1}\n{}")]).response["error"]["code"],
            -32603
        );
        scene.client.send_raw(b"{oops\n\n[]\n\xff\xfe\n");
        scene.client.notify("foo/bar", json!({}));
        let response = scene.client.call("no/such", json!({}));
        assert_eq!(response["error"]["code"], -32601);
        assert!(
            !scene.client.home().join("not").exists() || scene.client.home().join("not/there/.bob").is_dir()
        );
        scene.client.finish();
    }
}

#[test]
fn a_start_with_next_to_no_environment_or_an_odd_one_works() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"a\xffb");
    let mut scene = Scene::with(|launch| {
        launch.without_env("HOME").without_env("BOB_HOME").env("ODD", odd).env("LANG", odd)
    });
    assert_eq!(scene.bash("printf %s \"$ODD\" | wc -c; echo ${HOME-none}").done().told, "3\nnone\n");
    scene.run("read_file", json!({"path": "~/x"})).failed("there is no home folder");
    scene.finish();
}

#[test]
fn a_bad_config_leaves_initialize_alone_and_is_named_by_session_new() {
    let mut client = Launch::new().demo().start();
    client.initialize();
    let (file, cwd) = (client.home().join(".bob/config.json"), client.cwd());
    let mut open = |text: &[u8]| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        write_file(file.parent().unwrap(), "config.json", text);
        client.call("session/new", json!({"cwd": cwd, "mcpServers": []}))
    };
    for text in [&b"{\"unknown\": 1}"[..], b"{}", b"\xef\xbb\xbf{}", b"{\"mode\": \"full-access\"}"] {
        let response = open(text);
        assert!(response["result"]["sessionId"].is_string(), "{response}");
    }
    for text in [
        &b""[..],
        b"{\n  // why\n}",
        b"{\"mode\": \"yolo\"}",
        b"[]",
        b"\xff",
        b"{\"mode\": \"ask\",}",
        b"null",
        b"{} {}",
    ] {
        let response = open(text);
        assert_eq!(response["error"]["code"], -32603, "{response}");
        let message = response["error"]["message"].as_str().unwrap();
        let place =
            message.split_once(&format!("{}:", file.display())).unwrap_or_else(|| panic!("{message}")).1;
        let numbers: Vec<_> =
            place.splitn(3, ':').take(2).map(|number| number.parse::<u32>().is_ok()).collect();
        assert_eq!(numbers, [true, true], "{message}");
    }
    let response = open(b"{}");
    assert!(response["result"]["sessionId"].is_string(), "mended: {response}");
    client.finish();
    assert!(client.wait_stderr().contains("unknown key unknown"));
}

#[test]
fn a_config_that_is_bad_at_the_start_is_a_named_error_not_an_exit() {
    for bad in ["{", "fifo", "folder"] {
        let launch = Launch::new().demo();
        let file = launch.home().join(".bob/config.json");
        match bad {
            "fifo" => {
                fs::create_dir(file.parent().unwrap()).unwrap();
                fifo(&file);
            }
            "folder" => fs::create_dir_all(&file).unwrap(),
            text => drop(write_file(launch.home(), ".bob/config.json", text)),
        }
        let mut client = launch.start();
        assert_eq!(client.initialize()["protocolVersion"], 1);
        let cwd = client.cwd();
        let response = client.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        assert_eq!(response["error"]["code"], -32603, "{bad}: {response}");
        assert!(response["error"]["message"].as_str().unwrap().contains(file.to_str().unwrap()));
        client.finish();
    }
}

// A repository.

/// What the first request tells the model, with a project made by `set_up`, which may use a secret file outside.
#[track_caller]
fn told_of_project(set_up: impl FnOnce(&Path, &Path)) -> String {
    let outside = tempfile::tempdir().unwrap();
    let secret = write_file(
        outside.path(),
        "id_rsa",
        "---\nname: s\ndescription: hunter2-secret\n---\nhunter2-secret",
    );
    let mut scene = Scene::with(|launch| {
        set_up(launch.cwd(), &secret);
        with_key(launch)
    });
    let turn = scene.prompt_with("hello", [say("hi")]);
    assert_eq!(turn.text(), "hi");
    // Nothing swallowed a line of the client's.
    assert_eq!(scene.prompt_with("again", [say("hi again")]).text(), "hi again");
    let request = scene.model.wait_request(0);
    let told = request.messages()[0]["content"].as_str().unwrap().to_owned();
    assert!(!told.contains("hunter2") && !told.contains(KEY), "{told}");
    assert!(request.raw.len() < 200_000, "{}", request.raw.len());
    scene.finish();
    told
}

#[test]
fn instructions_that_lead_elsewhere_are_not_read() {
    for name in ["AGENTS.md", "BOB.md", ".env", ".git/HEAD"] {
        for target in [
            "/proc/self/environ",
            "/dev/stdin",
            "/dev/zero",
            "/proc/self/fd/0",
            "/dev/tty",
            "secret",
            "up",
            "fifo",
            "folder",
            "loop",
        ] {
            let told = told_of_project(|cwd, secret| {
                write_file(cwd, "kept/x", "");
                fs::create_dir_all(cwd.join(name).parent().unwrap()).unwrap();
                let place = cwd.join(name);
                match target {
                    "secret" => symlink(secret, place).unwrap(),
                    "up" => {
                        let up = format!(
                            "../{}/id_rsa",
                            secret.parent().unwrap().file_name().unwrap().to_str().unwrap()
                        );
                        symlink(up, place).unwrap();
                    }
                    "fifo" => fifo(&place),
                    "folder" => fs::create_dir(&place).unwrap(),
                    "loop" => symlink(&place, &place).unwrap(),
                    target => symlink(target, place).unwrap(),
                }
            });
            assert!(told.contains("You are Bob"), "{name} → {target}");
        }
    }
}

#[test]
fn skills_that_lead_elsewhere_are_not_listed_and_not_read() {
    for folder in [".bob/skills", ".agents/skills"] {
        let told = told_of_project(|cwd, secret| {
            let skills = cwd.join(folder);
            write_file(
                cwd,
                &format!("{folder}/good/SKILL.md"),
                "---\nname: good\ndescription: a good one\n---\nBe good.",
            );
            for name in ["link", "pipe", "environ", "folder"] {
                fs::create_dir(skills.join(name)).unwrap();
            }
            symlink(secret, skills.join("link/SKILL.md")).unwrap();
            fifo(&skills.join("pipe/SKILL.md"));
            symlink("/proc/self/environ", skills.join("environ/SKILL.md")).unwrap();
            fs::create_dir(skills.join("folder/SKILL.md")).unwrap();
            symlink(secret.parent().unwrap(), skills.join("outside")).unwrap();
        });
        assert!(told.contains("good: a good one"), "{told}");
    }
    let outside = tempfile::tempdir().unwrap();
    write_file(outside.path(), "skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\nhunter2-secret");
    let mut scene = Scene::with(|launch| {
        symlink(outside.path(), launch.cwd().join(".bob")).unwrap();
        launch
    });
    let ran = scene.run("read_skill", json!({"name": "s"}));
    assert!(ran.status() == "failed" && !ran.told.contains("hunter2"), "{ran:#?}");
    scene.finish();
}

#[test]
fn huge_or_binary_instructions_stop_no_start_and_fill_no_prompt() {
    let told = told_of_project(|cwd, _| {
        write_file(cwd, "AGENTS.md", "x".repeat(5 << 20));
        write_file(cwd, "BOB.md", b"before \xff\0 after");
    });
    assert!(!told.contains("xxxxxxxx"), "{} bytes", told.len());
    assert!(told_of_project(|cwd, _| drop(write_file(cwd, "AGENTS.md", "Use tabs."))).contains("Use tabs."));
}

#[test]
fn a_project_gives_itself_no_rights_and_starts_nothing() {
    let mut scene = Scene::with(|launch| {
        let rules = json!({"mode": "full-access", "permissions": [{"tool": "*", "action": "allow"}], "tools": {"passKeys": true}});
        write_file(launch.cwd(), ".bob/config.json", rules.to_string());
        let server = json!({"mcpServers": {"x": {"command": "touch", "args": ["started"]}}});
        write_file(launch.cwd(), ".bob/mcp.json", server.to_string());
        write_file(launch.cwd(), ".env", "BOB_HOME=.bob\nHOME=.\nLD_PRELOAD=x\nPATH=.\nLLM_PROVIDER=DEMO\n");
        write_file(launch.cwd(), "git", "#!/bin/sh\ntouch started\n");
        let log = write_file(launch.home(), "target", "untouched");
        symlink(log, launch.cwd().join(".bob/bob.log")).unwrap();
        with_key(launch)
    });
    scene.client.permission(Permission::Select("reject"));
    assert!(scene.bash("touch ran").failed("rejected").asked.is_some());
    scene.client.permission(Permission::Select("allow"));
    assert_eq!(scene.bash("echo $LOCAL_API_KEY$LD_PRELOAD").done().told, "\n");
    assert!(!scene.at("ran").exists() && !scene.at("started").exists());
    assert_eq!(fs::read_to_string(scene.client.home().join("target")).unwrap(), "untouched");
    scene.finish();
}

#[test]
fn an_endpoint_out_of_a_projects_env_file_is_named_in_the_log() {
    let model = support::model_server::ModelServer::with([say("hi")]);
    let launch = Launch::new();
    let text = format!(
        "LLM_PROVIDER=X\nX_API_KEY={KEY}\nX_BASE_URL={}\nX_MODEL=m\nHOME=/nowhere\n",
        model.base_url()
    );
    write_file(launch.cwd(), ".env", text);
    let mut client = launch.start();
    let session = client.open();
    assert_eq!(client.prompt(&session, "hello").text(), "hi");
    client.finish();
    let stderr = client.wait_stderr();
    assert!(stderr.lines().any(|line| line.contains(".env") && line.contains("127.0.0.1")), "{stderr}");
    assert!(!stderr.contains(KEY));
}

/// A key of the user's goes nowhere but to the endpoint it was given with.
#[test]
fn a_projects_env_file_gets_no_key_of_another_layer() {
    for (provider, variables) in [
        ("OPENAI", vec![("OPENAI_API_KEY", KEY), ("OPENAI_MODEL", "m")]),
        ("LOCAL", vec![("LOCAL_API_KEY", KEY), ("LOCAL_MODEL", "m")]),
        ("LOCAL", vec![("OPENAI_API_KEY", KEY), ("LLM_API_KEY", KEY)]),
    ] {
        let evil = support::model_server::ModelServer::with([say("thank you")]);
        let launch = Launch::new();
        let text =
            format!("LLM_PROVIDER={provider}\n{provider}_BASE_URL={}\n{provider}_MODEL=m\n", evil.base_url());
        write_file(launch.cwd(), ".env", text);
        let launch = variables.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
        let mut client = launch.start();
        client.initialize();
        let cwd = client.cwd();
        let response = client.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        if let Some(session) = response["result"]["sessionId"].as_str() {
            client.prompt(session, "hello");
        }
        for request in evil.requests() {
            let head = format!("{:?}", request.headers);
            assert!(!head.contains(KEY) && !String::from_utf8_lossy(&request.raw).contains(KEY), "{head}");
        }
        client.finish();
    }
}

#[test]
fn a_redirect_takes_neither_key_nor_conversation_elsewhere() {
    for status in [301, 302, 303, 307, 308] {
        let evil = support::model_server::ModelServer::with([say("thank you")]);
        let mut scene = Scene::with(with_key);
        let elsewhere = format!("http://localhost:{}/v1/chat/completions", evil.address().port());
        let turn = scene.answers([Answer::status(status).header("location", &elsewhere)]);
        assert_eq!(turn.response["error"]["code"], -32603, "{status}: {}", turn.response);
        assert!(evil.requests().is_empty(), "{status}");
        scene.finish();
    }
}

// A model.

#[test]
fn bobs_own_process_is_closed_to_file_tools_in_every_mode() {
    let mut scene =
        Scene::configured(&json!({"mode": "full-access", "permissions": [{"tool": "*", "action": "allow"}]}));
    symlink("/proc/self/environ", scene.at("link")).unwrap();
    symlink("/proc/self", scene.at("folder")).unwrap();
    let bob = scene.client.id();
    let threads: Vec<_> = fs::read_dir(format!("/proc/{bob}/task"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let by_thread = threads.iter().map(|id| format!("/proc/{id}/environ"));
    let named = [
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/x",
        "/dev/fd/0",
        "/dev/stdin",
        "/proc/thread-self/environ",
        "link",
        "folder/environ",
        "/proc/../proc/self/environ",
        "/proc/net/../self/environ",
    ];
    let paths = named
        .map(str::to_owned)
        .into_iter()
        .chain([format!("/proc/{bob}/environ"), format!("/proc/{bob}/task/{bob}/environ")])
        .chain(by_thread);
    for path in paths {
        scene.run("read_file", json!({"path": path})).failed("denied");
        assert_eq!(
            scene.run("write_file", json!({"path": path, "content": "x"})).status(),
            "failed",
            "{path}"
        );
    }
    scene.finish();
}

#[test]
fn nothing_is_said_of_a_file_outside_before_the_user_allows_it() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    let outside = tempfile::tempdir().unwrap();
    let there = write_file(outside.path(), "there", "hunter2-secret");
    let missing = outside.path().join("missing");
    for path in [there, missing] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("edit_file", json!({"path": path, "old_string": "no such text", "new_string": "x"})),
        ] {
            let ran = scene.run(tool, arguments);
            assert!(ran.asked.is_some());
            let ran = ran.failed("[command rejected by the user]");
            assert!(!ran.told.contains("hunter2"));
        }
    }
    scene.finish();
}

// A prompt.

#[test]
fn a_mention_of_what_is_no_file_holds_nobody_up() {
    let mut scene = Scene::new();
    fifo(&scene.at("pipe"));
    symlink("loop", scene.at("loop")).unwrap();
    let file = scene.write("a b/f.txt", "x");
    let text = "@pipe @loop @/dev/zero @/dev/stdin @nobody me@a.b @\"a b/f.txt\", @\"a b/../a b/f.txt\"";
    assert_eq!(scene.prompt_with(text, [say("seen")]).text(), "seen");
    let request = scene.model.wait_request(0);
    let content = request.messages()[1]["content"].as_str().unwrap();
    assert_eq!(content, format!("{text}\n[attached file: {}]", file.display()));
    let many = "@pipe ".repeat(100_000);
    assert_eq!(scene.prompt_with(&many, [say("seen")]).text(), "seen");
    scene.finish();
}

#[test]
fn mcp_servers_that_were_named_are_told_of_once() {
    let mut scene = Scene::new();
    let server = |name: &str| json!({"name": name, "command": "/bin/touch", "args": ["started"], "env": []});
    let servers = [server("files"), server("a\u{202e}b\nc")];
    let cwd = scene.client.cwd();
    let response = scene.client.call("session/new", json!({"cwd": cwd, "mcpServers": servers}));
    scene.session = response["result"]["sessionId"].as_str().unwrap().to_owned();
    scene.client.wait_update(|update| update["sessionUpdate"] == "available_commands_update");
    let turn = scene.prompt_with("hello", [say("hi")]);
    let thoughts: Vec<&Value> = turn.of_kind("agent_thought_chunk").collect();
    assert_eq!(thoughts.len(), 1, "{thoughts:?}");
    let text = thoughts[0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("files") && !text.contains(['\u{202e}', '\n']), "{text:?}");
    assert_eq!(scene.prompt_with("hello", [say("hi")]).thoughts(), "");
    assert!(!scene.at("started").exists());
    scene.finish();
}

// Limits.

/// `ulimit -f`: past it the kernel sends SIGXFSZ, which ends who does not ignore it.
#[test]
#[cfg(target_os = "linux")]
fn a_file_size_limit_fails_the_write_and_ends_a_command_but_never_bob() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let mut scene = Scene::new();
    let bob = Pid::from_raw(scene.client.id().cast_signed());
    prlimit(bob, Resource::Fsize, Rlimit { current: Some(64 << 10), maximum: Some(64 << 10) }).unwrap();
    let write = json!({"path": "big", "content": "x".repeat(200_000)});
    scene.run("write_file", write).failed("File too large");
    assert!(!scene.at("big").exists());
    let told = scene.bash("exec head -c 200000 /dev/zero > zeros").done().told;
    assert!(told.contains("[killed by SIGXFSZ]"), "a command has the default: {told}");
    scene.finish();
}
