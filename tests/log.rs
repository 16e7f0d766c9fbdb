//! What the log tells of a request: each error, and with `-v` what led to it.
mod support;

use serde_json::json;
use support::client::{Launch, Permission};
use support::model_server::ModelServer;
use support::openai;
use support::scene::Scene;

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
    client.finish();
    let log = client.wait_stderr();
    let base_url = model.base_url();
    for told in [
        "[acp] session/new ",
        "[acp] session/prompt ",
        &format!(
            "session {session}: mode ask, 0 rule(s), model OPENAI some-model at {base_url} (openai-comp"
        ),
        &format!("model: POST {base_url}/chat/completions, "),
        "model: answer 503 after ",
        "model: try 1 failed, the next in ",
        "model: answer 200 after ",
        &format!("session {session}: bash is asked about"),
    ] {
        assert!(log.contains(told), "{told:?} is not in {log}");
    }
    assert!(!log.contains("private") && !log.contains(KEY), "{log}");
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
