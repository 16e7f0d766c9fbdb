//! Answers in the `openai-completions` form, chunk by chunk.
use super::model_server::Answer;
use serde_json::{Value, json};

/// Tokens in and out that the answers below report.
pub const USAGE: (u64, u64) = (20, 5);

/// A whole answer of one text.
pub fn say(what: &str) -> Answer {
    stream([text(what), finish("stop"), usage(USAGE.0, USAGE.1)])
}

/// A whole answer of tool calls, each given as (id, name, arguments).
pub fn call<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, Value)>) -> Answer {
    let calls = calls.into_iter().enumerate();
    let chunks =
        calls.map(|(index, (id, name, arguments))| tool_call(index, id, name, &arguments.to_string()));
    stream(chunks.chain([finish("tool_calls"), usage(USAGE.0, USAGE.1)]))
}

/// A 200 with these chunks as events, each a write of its own, and `[DONE]`.
pub fn stream(chunks: impl IntoIterator<Item = Value>) -> Answer {
    chunks
        .into_iter()
        .fold(Answer::sse(), |answer, chunk| answer.write(event(&chunk)))
        .write("data: [DONE]\n\n")
}

/// An error as the provider sends it.
pub fn refuse(status: u16, message: &str) -> Answer {
    Answer::json(status, &error(message, i64::from(status)))
}

/// One event of a stream.
pub fn event(chunk: &Value) -> String {
    format!("data: {chunk}\n\n")
}

/// A piece of the answer.
pub fn text(text: &str) -> Value {
    delta(json!({"content": text}))
}

/// A piece of the reasoning.
pub fn reasoning(text: &str) -> Value {
    delta(json!({"reasoning_content": text}))
}

/// A whole call in one piece. `arguments` is the text a model would write.
pub fn tool_call(index: usize, id: &str, name: &str, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    delta(json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}))
}

/// A further piece of a call's arguments.
pub fn more_arguments(index: usize, arguments: &str) -> Value {
    delta(json!({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
}

/// Why the model stopped.
pub fn finish(reason: &str) -> Value {
    chunk(json!([{"index": 0, "delta": {}, "finish_reason": reason}]))
}

/// What it cost, in a chunk of its own.
pub fn usage(input: u64, output: u64) -> Value {
    let mut chunk = chunk(json!([]));
    chunk["usage"] =
        json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
    chunk
}

/// An error object, as a body or inside a stream.
pub fn error(message: &str, code: i64) -> Value {
    json!({"error": {"message": message, "code": code}})
}

fn delta(delta: Value) -> Value {
    chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]))
}

fn chunk(choices: Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "test-model", "choices": choices})
}

/// Whether a provider that is strict about it would take these messages: each call of an assistant message has
/// exactly one result directly behind it, and no result stands anywhere else.
///
/// # Errors
/// What is wrong.
pub fn check_messages(messages: &[Value]) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let found = open.iter().position(|open| *open == id);
            open.remove(
                found.ok_or_else(|| format!("messages[{at}]: a result of {id:?}, which is not open"))?,
            );
            continue;
        }
        if !open.is_empty() {
            return Err(format!("messages[{at}]: {open:?} have no result before it"));
        }
        open =
            message["tool_calls"].as_array().into_iter().flatten().filter_map(|c| c["id"].as_str()).collect();
        check_calls(at, message)?;
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no result")) }
}

fn check_calls(at: usize, message: &Value) -> Result<(), String> {
    let mut ids = Vec::new();
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let id = call["id"].as_str().filter(|id| !id.is_empty()).ok_or("a call without an id")?;
        if ids.contains(&id) {
            return Err(format!("messages[{at}]: two calls {id:?}"));
        }
        ids.push(id);
        let name = call["function"]["name"].as_str().unwrap_or_default();
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !(1..=64).contains(&name.len()) || !name.bytes().all(fits) {
            return Err(format!("messages[{at}]: the name {name:?} does not match ^[A-Za-z0-9_-]{{1,64}}$"));
        }
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        if !serde_json::from_str::<Value>(arguments).is_ok_and(|arguments| arguments.is_object()) {
            return Err(format!("messages[{at}]: arguments that are no object: {arguments}"));
        }
    }
    Ok(())
}
