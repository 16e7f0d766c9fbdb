//! Recorded streams and what is to come of them: bytes in `fixtures/model/FORMAT/NAME.sse`, the rest beside them. Tests
//! of all wire formats walk them here.
use crate::cancel::{CancelSource, Cancelled};
use crate::model::complaint::Complaint;
use crate::model::dialect::Dialect;
use crate::model::failure::{Retry, Trouble};
use crate::model::reply::{Ear, ReplyStream};
use crate::model::{
    Arguments, AssistantMessage, Call, Delta, Image, Listener, Message, Part, Reply, Request, Stop,
    ToolResult, ToolSpec, Usage,
};
use crate::settings::Secret;
use crate::settings::llm::{Endpoint, Format};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Hears deltas and joins them.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) calls: Vec<String>,
    pub(super) deltas: usize,
}

impl Listener for Heard {
    fn delta(&mut self, delta: Delta<'_>) {
        self.deltas += 1;
        match delta {
            Delta::Text(text) => self.text.push_str(text),
            Delta::Reasoning(text) => self.reasoning.push_str(text),
            Delta::CallBegun(name) => self.calls.push(name.to_owned()),
        }
    }

    fn pause(&mut self, _: &str, _: Duration) -> Result<(), Cancelled> {
        panic!("decoding never waits")
    }
}

/// Decodes a body that comes in these pieces; also what was heard, and what is left of a broken reply.
pub(super) fn decode<'a>(
    mut stream: ReplyStream,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Reply, Trouble>, Heard, AssistantMessage) {
    let (mut heard, cancel) = (Heard::default(), CancelSource::new().token());
    let mut ear = Ear::new(&mut heard, &cancel);
    let all = || {
        for piece in pieces {
            stream.push(piece, &mut ear)?;
            if stream.is_done() {
                break;
            }
        }
        stream.finish(&mut ear)
    };
    let result = all();
    (result, heard, stream.partial())
}

/// A server without any settings.
pub(super) fn endpoint(format: Format) -> Endpoint {
    Endpoint {
        provider: "LOCAL".into(),
        format,
        api_key: Some(Secret::new("sk")),
        base_url: "http://localhost/v1".into(),
        model: "m".into(),
        temperature: None,
        max_tokens: None,
        thinking: None,
        extra_body: Map::new(),
    }
}

/// The request that would be sent.
pub(super) fn body(dialect: &dyn Dialect, messages: &[Message], tools: &[ToolSpec]) -> Value {
    let request = Request { model: "m", thinking: None, system: "be good", messages, tools };
    serde_json::from_slice(&dialect.body(&request)).unwrap()
}

/// One reading of the file against one expectation.
fn matches(stream: ReplyStream, pieces: &[&[u8]], case: &Value, expected: &Value) -> Result<(), String> {
    let (result, heard, partial) = decode(stream, pieces.iter().copied());
    let equal = |name: &str, got: Value| {
        let wanted = &expected[name];
        if got == *wanted { Ok(()) } else { Err(format!("{name}: {got} instead of {wanted}")) }
    };
    equal("text", json!(heard.text))?;
    equal("reasoning", json!(heard.reasoning))?;
    let reply = match (result, &expected["error"]) {
        (Ok(reply), Value::Null) => reply,
        (Ok(_), error) => return Err(format!("no error, but {error}")),
        (Err(trouble), error) => {
            assert_eq!(partial.text, heard.text, "text that was shown is kept");
            assert_eq!((&partial.calls, &partial.opaque), (&Vec::new(), &None), "nothing half done is kept");
            return error_matches(trouble, error);
        }
    };
    assert_eq!((&reply.message.text, &reply.message.reasoning), (&heard.text, &heard.reasoning));
    assert_eq!(reply.message.calls.len(), heard.calls.len());
    calls_match(&reply.message.calls, &expected["tool_calls"])?;
    let finish = match reply.stop {
        Stop::End if !reply.message.calls.is_empty() => "tool_calls",
        Stop::End => "stop",
        Stop::MaxTokens => "length",
        Stop::Refusal => "content_filter",
        Stop::Pause => "pause_turn",
        Stop::Unknown(ref other) => other,
    };
    if finish != plain_finish(expected["finish"].as_str().unwrap()) {
        return Err(format!("finish: {finish}"));
    }
    usage_matches(reply.usage, &expected["usage"], case["protocol"] == "anthropic")
}

/// A provider's word for the end of a reply, in that of `openai-completions`.
fn plain_finish(word: &str) -> &str {
    match word {
        "end_turn" | "completed" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" | "max_output_tokens" | "model_context_window_exceeded" => "length",
        "refusal" => "content_filter",
        other => other,
    }
}

fn error_matches(trouble: Trouble, error: &Value) -> Result<(), String> {
    let retried = trouble.retry() != Retry::Never;
    let failure = trouble.into_failure(None);
    let words = error["message_contains"].as_str().ok_or(format!("unexpected {failure:?}"))?;
    let status = error["code"].as_u64().map(|code| code as u16);
    let right = failure.message.contains(words)
        && (error["retryable"].is_null() || error["retryable"] == retried)
        && (status.is_none() || failure.status == status);
    if right { Ok(()) } else { Err(format!("{failure:?}, retried: {retried}")) }
}

fn calls_match(calls: &[Call], expected: &Value) -> Result<(), String> {
    let expected = expected.as_array().unwrap();
    let same = |(call, wanted): (&Call, &Value)| {
        let id = wanted["id"] == call.id || wanted["id"] == "*" && !call.id.is_empty();
        let arguments = match &call.arguments {
            Arguments::Object(members) => wanted["arguments"] == Value::Object(members.clone()),
            Arguments::Invalid(raw) => wanted["arguments_invalid"] == *raw,
        };
        id && arguments && wanted["name"] == call.name
    };
    let right = calls.len() == expected.len() && calls.iter().zip(expected).all(same);
    if right { Ok(()) } else { Err(format!("calls: {calls:?}")) }
}

/// `false` is none, null any. `apart`: the expectation's input leaves out what has to do with a cache, as Anthropic counts.
fn usage_matches(usage: Option<Usage>, expected: &Value, apart: bool) -> Result<(), String> {
    if *expected == false && usage.is_some() {
        return Err(format!("usage: {usage:?}"));
    }
    let Some(expected) = expected.as_object() else { return Ok(()) };
    let usage = usage.ok_or("no usage")?;
    let cached = usage.cached_read.unwrap_or(0) + usage.cached_write.unwrap_or(0);
    for (name, wanted) in expected {
        let got = match name.as_str() {
            "input_tokens" => Some(usage.input - if apart { cached } else { 0 }),
            "output_tokens" => Some(usage.output),
            "cached_input_tokens" => usage.cached_read,
            "cache_write_tokens" => usage.cached_write,
            "reasoning_tokens" => usage.reasoning,
            other => return Err(format!("unknown expectation {other}")),
        };
        if json!(got) != *wanted {
            return Err(format!("usage: {usage:?}"));
        }
    }
    Ok(())
}

/// The expectation itself, then with each of the accepted replacements.
fn accepted(case: &Value) -> Vec<Value> {
    let mut expectations = vec![case["expect"].clone()];
    for other in case["accept"].as_array().into_iter().flatten() {
        let mut expectation = case["expect"].clone();
        for (name, value) in other.as_object().unwrap() {
            expectation[name] = value.clone();
        }
        expectations.push(expectation);
    }
    expectations
}

/// A stream with its name and expectation.
pub(super) struct Recorded {
    name: String,
    stream: Vec<u8>,
    case: Value,
}

/// All recorded streams of a format.
pub(super) fn of_format(folder: &str) -> Vec<Recorded> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/model").join(folder);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let streams = paths.filter(|path| path.extension().is_some_and(|extension| extension == "sse"));
    let recorded = |path: std::path::PathBuf| Recorded {
        name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
        stream: fs::read(&path).unwrap(),
        case: serde_json::from_slice(&fs::read(path.with_extension("expected.json")).unwrap()).unwrap(),
    };
    streams.map(recorded).collect()
}

impl Recorded {
    /// The stream is understood whole, byte by byte, and cut in two anywhere.
    #[track_caller]
    pub(super) fn check_however_cut(&self, dialect: &dyn Dialect) {
        self.check(dialect, "whole", &[&self.stream]);
        self.check(dialect, "byte by byte", &self.stream.chunks(1).collect::<Vec<_>>());
        for cut in 0..=self.stream.len() {
            let (a, b) = self.stream.split_at(cut);
            self.check(dialect, &format!("cut at {cut}"), &[a, b]);
        }
    }

    #[track_caller]
    fn check(&self, dialect: &dyn Dialect, how: &str, pieces: &[&[u8]]) {
        let read = |expected| matches(dialect.reply(), pieces, &self.case, expected);
        let results: Vec<_> = accepted(&self.case).iter().map(read).collect();
        assert!(results.iter().any(Result::is_ok), "{}, {how}: {results:?}", self.name);
    }

    /// The next request carries what it has to.
    #[track_caller]
    pub(super) fn check_round_trip(&self, dialect: &dyn Dialect) {
        let wanted = &self.case["round_trip"];
        if wanted.is_null() {
            return;
        }
        let message = decode(dialect.reply(), [self.stream.as_slice()]).0.unwrap().message;
        let results: Vec<_> = message.calls.iter().map(|call| result(&call.id, "done", Vec::new())).collect();
        let messages: Vec<_> = std::iter::once(Message::Assistant(message)).chain(results).collect();
        let sent = body(dialect, &messages, &[]);
        for each in wanted["must_contain"].as_array().into_iter().flatten() {
            assert!(contains(&sent, each), "{}: {each} is not in {sent}", self.name);
        }
        for each in wanted["must_not_contain"].as_array().into_iter().flatten() {
            assert!(!contains(&sent, each), "{}: {each} is in {sent}", self.name);
        }
        if let Some(pieces) = wanted["assistant_content"].as_array() {
            // What the assistant said stands first: a turn of Anthropic's, or items of OpenAI's.
            let content = sent["messages"][0]["content"].as_array().or(sent["input"].as_array()).unwrap();
            let mut rest = content.iter();
            for piece in pieces {
                assert!(
                    rest.any(|each| has(each, piece)),
                    "{}: {piece} is not in its place in {sent}",
                    self.name
                );
            }
        }
    }
}

/// Whether `value` has all that `wanted` has; `*` is any text that is not empty.
fn has(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (Value::Object(value), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| value.get(name).is_some_and(|value| has(value, wanted)))
        }
        (Value::Array(value), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| value.iter().any(|value| has(value, wanted)))
        }
        (Value::String(text), Value::String(wanted)) if wanted == "*" => !text.is_empty(),
        _ => value == wanted,
    }
}

/// Whether some value in `tree` has all that `wanted` has; a text, whether some text in it holds it.
pub(super) fn contains(tree: &Value, wanted: &Value) -> bool {
    if let (Value::String(text), Value::String(wanted)) = (tree, wanted) {
        return text.contains(wanted.as_str());
    }
    has(tree, wanted)
        || match tree {
            Value::Object(members) => members.values().any(|each| contains(each, wanted)),
            Value::Array(list) => list.iter().any(|each| contains(each, wanted)),
            _ => false,
        }
}

/// A picture.
pub(super) fn image() -> Image {
    Image { mime_type: "image/png", base64: "QUJD".into() }
}

/// A tool's result.
pub(super) fn result(call: &str, output: &str, images: Vec<Image>) -> Message {
    Message::ToolResult(ToolResult {
        call_id: call.into(),
        name: "read_file".into(),
        output: output.into(),
        images,
        failed: false,
    })
}

/// What the user said.
pub(super) fn user(parts: impl IntoIterator<Item = Part>) -> Message {
    Message::User(parts.into_iter().collect())
}

/// What the model said, and wants called: ids and names.
pub(super) fn assistant(text: &str, calls: &[(&str, &str)], opaque: Option<Value>) -> Message {
    let call = |(id, name): &(&str, &str)| Call {
        id: (*id).into(),
        name: (*name).into(),
        arguments: Arguments::Object(Map::from_iter([("a".to_owned(), json!(1))])),
        extra: Map::new(),
    };
    Message::Assistant(AssistantMessage {
        text: text.into(),
        reasoning: "hm".into(),
        opaque,
        calls: calls.iter().map(call).collect(),
    })
}

/// A tool.
pub(super) fn tool(name: &str, schema: Value) -> ToolSpec {
    ToolSpec { name: name.into(), description: "does it".into(), schema }
}

/// A refusal in these words: whether the format makes another try of it.
pub(super) fn refuse(dialect: &mut dyn Dialect, words: &str, messages: &[Message]) -> bool {
    let tools = [tool("bash", json!({"type": "object"}))];
    let request = Request { model: "m", thinking: None, system: "", messages, tools: &tools };
    let body = json!({"error": {"message": words}}).to_string();
    dialect.adapt(400, &Complaint::from_body(body.as_bytes()), &request)
}
