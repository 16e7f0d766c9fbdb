//! `anthropic-messages` and `openai-responses` through the whole program: a turn with a tool, and how turns end.
#![allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]
mod support;

use serde_json::{Value, json};
use support::client::{Client, Launch, Turn};
use support::formats::{completed, item_done, message, said, stream};
use support::model_server::{Answer, ModelServer};

const KEY: &str = "sk-ant-api03-secret";
const COMMAND: &str = "echo done > made.txt; echo out";

/// A client with a session before a model that talks `format`.
struct Stage {
    client: Client,
    server: ModelServer,
    session: String,
}

impl Stage {
    fn new(format: &str) -> Self {
        Self::with(format, |launch| launch)
    }

    fn with(format: &str, set_up: impl FnOnce(Launch) -> Launch) -> Self {
        let server = ModelServer::start().strict();
        let launch = Launch::with_args(["--acp", "--mode", "full-access"]).model(&server.base_url());
        let launch = launch.env("LOCAL_API_FORMAT", format).env("LOCAL_API_KEY", KEY);
        let mut client = set_up(launch).start();
        let session = client.open();
        Self { client, server, session }
    }

    #[track_caller]
    fn prompt(&mut self, answers: impl IntoIterator<Item = Answer>) -> Turn {
        answers.into_iter().for_each(|answer| self.server.push(answer));
        self.client.prompt(&self.session, "make it")
    }

    /// Whether the command has run.
    fn made(&self) -> bool {
        self.client.cwd().join("made.txt").exists()
    }

    /// All was asked for as scripted, and no key is on stderr.
    #[track_caller]
    fn finish(mut self) {
        self.client.finish();
        assert_eq!((self.server.violations(), self.server.unused()), (Vec::new(), 0));
        assert!(!self.client.stderr().contains(KEY), "{}", self.client.stderr());
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool_use(input: &str) -> Value {
    json!({"type": "tool_use", "id": "toolu_1", "name": "bash", "input": input})
}

fn thinking() -> Value {
    json!({"type": "thinking", "thinking": "A command.", "signature": "SIG"})
}

#[test]
fn a_turn_with_a_tool_in_anthropic_messages() {
    let mut stage = Stage::new("anthropic-messages");
    let command = json!({"command": COMMAND}).to_string();
    let turn = stage.prompt([
        message([thinking(), text("I run it."), tool_use(&command)], "tool_use"),
        message([text("It is made.")], "end_turn"),
    ]);
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "I run it.It is made."));
    assert_eq!(turn.thoughts(), "A command.");
    let usage = &turn.response["result"]["usage"];
    assert_eq!((&usage["inputTokens"], &usage["outputTokens"]), (&json!(50), &json!(14)), "{usage}");
    assert!(stage.made());
    let first = stage.server.wait_request(0);
    assert_eq!((first.path.as_str(), first.header("x-api-key")), ("/v1/messages", Some(KEY)));
    let second = stage.server.wait_request(1);
    assert_eq!(
        second.messages()[1]["content"],
        json!([
            thinking(),
            text("I run it."),
            {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": COMMAND}},
        ])
    );
    let result = &second.messages()[2]["content"][0];
    assert_eq!((&result["type"], &result["tool_use_id"]), (&json!("tool_result"), &json!("toolu_1")));
    assert!(result["content"][0]["text"].as_str().unwrap().contains("out"), "{result}");
    stage.finish();
}

#[test]
fn ends_of_a_turn_in_anthropic_messages() {
    let mut stage = Stage::new("anthropic-messages");
    let cut = tool_use("{\"command\":\"echo done > made.txt");
    assert_eq!(stage.prompt([message([cut], "max_tokens")]).stop_reason(), "max_tokens");
    assert!(!stage.made());
    let long = message([text("So")], "model_context_window_exceeded");
    assert_eq!(stage.prompt([long]).stop_reason(), "max_tokens");
    let turn = stage.prompt([message([text("First. ")], "pause_turn"), message([text("Then.")], "end_turn")]);
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "First. Then."));
    assert_eq!(stage.prompt([message([text("I won't.")], "refusal")]).stop_reason(), "refusal");
    assert_eq!(stage.prompt([message([text("Well.")], "end_turn")]).stop_reason(), "end_turn");
    let last = stage.server.requests().pop().unwrap();
    assert!(!last.body.to_string().contains("I won't."), "what was refused is gone: {}", last.body);
    let roles: Vec<_> = last.messages().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert!(
        roles.chunks(2).all(|pair| pair[0] == "user" && pair.get(1).is_none_or(|role| *role == "assistant")),
        "{roles:?}"
    );
    stage.finish();
}

#[test]
fn an_error_in_a_stream_of_anthropic_s_ends_the_turn_with_its_words() {
    let mut stage = Stage::new("anthropic-messages");
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": format!("Overloaded {KEY}")}});
    let half = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Half"}}),
        error,
    ];
    let turn = stage.prompt([stream(half)]);
    assert_eq!(turn.response["error"]["message"], "[LLM API error: Overloaded ***]");
    assert!(turn.text().starts_with("Half"), "{}", turn.text());
    stage.finish();
}

fn function_call(arguments: &str) -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "bash", "arguments": arguments})
}

#[test]
fn a_turn_with_a_tool_in_openai_responses() {
    let mut stage = Stage::with("openai-responses", |launch| launch.env("LLM_THINKING", "low"));
    let reasoning = json!({
        "type": "reasoning", "id": "rs_1", "encrypted_content": "gA",
        "summary": [{"type": "summary_text", "text": "A command."}],
    });
    let call = function_call(&json!({"command": COMMAND}).to_string());
    let turn = stage.prompt([
        stream([item_done(0, &reasoning), item_done(1, &call), completed("completed", None)]),
        stream([said("It is "), said("made."), completed("completed", None)]),
    ]);
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "It is made."));
    assert_eq!(turn.thoughts(), "A command.");
    let usage = &turn.response["result"]["usage"];
    assert_eq!((&usage["inputTokens"], &usage["thoughtTokens"]), (&json!(50), &json!(6)), "{usage}");
    assert!(stage.made());
    let first = stage.server.wait_request(0);
    assert_eq!((first.path.as_str(), &first.body["store"]), ("/v1/responses", &json!(false)));
    assert_eq!(first.body["reasoning"], json!({"effort": "low", "summary": "auto"}));
    let input = stage.server.wait_request(1).body["input"].clone();
    assert_eq!(input[1], reasoning);
    assert_eq!((&input[2]["id"], &input[2]["arguments"]), (&json!("fc_1"), &call["arguments"]));
    assert_eq!((&input[3]["type"], &input[3]["call_id"]), (&json!("function_call_output"), &json!("call_1")));
    assert!(input[3]["output"].as_str().unwrap().contains("out"), "{input}");
    stage.finish();
}

#[test]
fn ends_of_a_turn_in_openai_responses() {
    let mut stage = Stage::new("openai-responses");
    let cut = function_call("{\"command\":\"echo done > made.txt");
    let turn =
        stage.prompt([stream([item_done(0, &cut), completed("incomplete", Some("max_output_tokens"))])]);
    assert_eq!(turn.stop_reason(), "max_tokens");
    assert!(!stage.made());
    let turn = stage.prompt([stream([said("How to"), completed("incomplete", Some("content_filter"))])]);
    assert_eq!(turn.stop_reason(), "refusal");
    let error = json!({"code": "invalid_prompt", "message": "No such thing"});
    let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
    let turn = stage.prompt([stream([failed])]);
    assert_eq!(turn.response["error"]["message"], "[LLM API error: No such thing]");
    let turn = stage.prompt([stream([said("Well."), completed("completed", None)])]);
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "Well."));
    stage.finish();
}
