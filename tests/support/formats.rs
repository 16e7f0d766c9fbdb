//! The three formats a model may talk: the same answer in each of them, and what a strict provider takes of a
//! conversation.
use super::model_server::{Answer, Recorded};
use super::openai;
use serde_json::{Value, json};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `openai-completions`.
    Completions,
    /// `anthropic-messages`.
    Messages,
    /// `openai-responses`.
    Responses,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Completions, Self::Messages, Self::Responses];

    /// As it is set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Completions => "openai-completions",
            Self::Messages => "anthropic-messages",
            Self::Responses => "openai-responses",
        }
    }

    /// A whole answer of one text.
    pub fn say(self, what: &str) -> Answer {
        match self {
            Self::Completions => openai::say(what),
            Self::Messages => message([json!({"type": "text", "text": what})], "end_turn"),
            Self::Responses => stream([said(what), completed("completed", None)]),
        }
    }

    /// A thought and calls, each given as (id, name, arguments).
    pub fn think_and_call<'a>(
        self,
        thought: &str,
        calls: impl IntoIterator<Item = (&'a str, &'a str, Value)>,
    ) -> Answer {
        let calls = calls.into_iter().map(|(id, name, arguments)| (id, name, arguments.to_string()));
        match self {
            Self::Completions => {
                let calls =
                    calls.enumerate().map(|(at, (id, name, text))| openai::tool_call(at, id, name, &text));
                let end = [openai::finish("tool_calls"), openai::usage(20, 5)];
                openai::stream([openai::reasoning(thought)].into_iter().chain(calls).chain(end))
            }
            Self::Messages => {
                let thought = json!({"type": "thinking", "thinking": thought, "signature": "SIG"});
                let calls = calls.map(
                    |(id, name, text)| json!({"type": "tool_use", "id": id, "name": name, "input": text}),
                );
                message([thought].into_iter().chain(calls), "tool_use")
            }
            Self::Responses => {
                let summary = json!([{"type": "summary_text", "text": thought}]);
                let thought =
                    json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "gA", "summary": summary});
                let calls = calls.map(|(id, name, text)| {
                    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": text})
                });
                let items = [thought].into_iter().chain(calls).enumerate();
                let items: Vec<_> = items.map(|(at, item)| item_done(at, &item)).collect();
                stream(items.into_iter().chain([completed("completed", None)]))
            }
        }
    }
}

/// Events of the two younger formats, each a write of its own, named by its type.
pub fn stream(events: impl IntoIterator<Item = Value>) -> Answer {
    events.into_iter().fold(Answer::sse(), |answer, event| {
        answer.write(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
    })
}

/// A message of Anthropic's: whole content blocks, cut into the events they come in.
pub fn message(blocks: impl IntoIterator<Item = Value>, stop_reason: &str) -> Answer {
    let usage = json!({"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 1});
    let mut events = vec![json!({"type": "message_start", "message": {"usage": usage}})];
    for (index, mut block) in blocks.into_iter().enumerate() {
        let deltas = match block["type"].as_str().unwrap_or_default() {
            "text" => vec![json!({"type": "text_delta", "text": block["text"].take()})],
            "thinking" => vec![
                json!({"type": "thinking_delta", "thinking": block["thinking"].take()}),
                json!({"type": "signature_delta", "signature": block["signature"].take()}),
            ],
            _ => vec![json!({"type": "input_json_delta", "partial_json": block["input"].take()})],
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        let delta = |delta| json!({"type": "content_block_delta", "index": index, "delta": delta});
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    let end = json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 7}});
    stream(events.into_iter().chain([end, json!({"type": "message_stop"})]))
}

/// A whole item of `openai-responses`.
pub fn item_done(index: usize, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

/// The end of an answer of `openai-responses`.
pub fn completed(status: &str, reason: Option<&str>) -> Value {
    let usage =
        json!({"input_tokens": 25, "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 3}});
    let details = reason.map(|reason| json!({"reason": reason}));
    let response = json!({"status": status, "incomplete_details": details, "output": [], "usage": usage});
    json!({"type": format!("response.{status}"), "response": response})
}

/// A piece of text of `openai-responses`.
pub fn said(words: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": 0, "delta": words})
}

/// Whether a provider that is strict about it would take this request: each call has exactly one result, where it
/// belongs, and no result stands anywhere else.
///
/// # Errors
/// What is wrong.
pub fn check_request(request: &Recorded) -> Result<(), String> {
    match request.path.rsplit('/').next() {
        Some("messages") => check_anthropic(request.messages()),
        Some("responses") => check_responses(request.body["input"].as_array().map_or(&[], Vec::as_slice)),
        _ => openai::check_messages(request.messages()),
    }
}

/// The calls of a message have their results at the beginning of the next one; the roles take turns.
fn check_anthropic(messages: &[Value]) -> Result<(), String> {
    let mut open = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let expected = if at % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != expected {
            return Err(format!("messages[{at}]: {} where {expected} has its turn", message["role"]));
        }
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        let results = blocks.iter().take_while(|block| block["type"] == "tool_result").count();
        for block in &blocks[..results] {
            close(&mut open, &block["tool_use_id"]).map_err(|why| format!("messages[{at}]: {why}"))?;
        }
        if !open.is_empty() {
            return Err(format!("messages[{at}]: {open:?} have no result in it"));
        }
        for block in &blocks[results..] {
            match block["type"].as_str() {
                Some("tool_use") if open.contains(&block["id"]) => {
                    return Err(format!("two calls {}", block["id"]));
                }
                Some("tool_use") => open.push(block["id"].clone()),
                Some("tool_result") => return Err(format!("messages[{at}]: a result behind something else")),
                _ => {}
            }
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no result")) }
}

/// A call's output stands behind it and before the next message; reasoning stands before what it led to.
fn check_responses(input: &[Value]) -> Result<(), String> {
    let mut open = Vec::new();
    for (at, item) in input.iter().enumerate() {
        match item["type"].as_str() {
            Some("function_call") if open.contains(&item["call_id"]) => {
                return Err(format!("input[{at}]: twice"));
            }
            Some("function_call") => open.push(item["call_id"].clone()),
            Some("function_call_output") => {
                close(&mut open, &item["call_id"]).map_err(|why| format!("input[{at}]: {why}"))?;
            }
            _ if !open.is_empty() => return Err(format!("input[{at}]: {open:?} have no output before it")),
            Some("reasoning") if input.get(at + 1).is_none_or(|next| next["role"] == "user") => {
                return Err(format!("input[{at}]: reasoning that led to nothing"));
            }
            _ => {}
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no output")) }
}

fn close(open: &mut Vec<Value>, id: &Value) -> Result<(), String> {
    let found = open.iter().position(|open| open == id).ok_or_else(|| format!("{id} is not open"))?;
    open.remove(found);
    Ok(())
}
