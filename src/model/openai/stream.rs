//! A reply in the making: bytes of a body in, deltas and the whole out. Does no I/O.
use super::calls::Calls;
use super::think::ThinkTags;
use crate::model::failure::{Complaint, Trouble, words_of_page};
use crate::model::sse::{self, Event};
use crate::model::{AssistantMessage, Delta, Listener, Reply, Stop, Usage};
use crate::text;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::borrow::Cow;

/// How servers call the reasoning; where they send it twice the first counts.
const REASONING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Member of a message's `opaque`: the name of its reasoning field.
pub(super) const REASONING_FIELD: &str = "reasoning_field";

/// Takes the body of a good answer, stream or not, in any pieces.
#[derive(Default)]
pub(in crate::model) struct ReplyStream {
    body: Body,
    reply: Assembly,
}

/// What the body turns out to be, by its first byte.
#[derive(Default)]
enum Body {
    #[default]
    Unknown,
    Events(sse::Decoder),
    /// A JSON value, or a page: read at its end.
    Whole(Vec<u8>),
}

impl ReplyStream {
    /// Takes the next bytes; tells what is in them.
    ///
    /// # Errors
    /// An error told by the provider; an event past its limit.
    pub(in crate::model) fn push(
        &mut self,
        bytes: &[u8],
        listener: &mut dyn Listener,
    ) -> Result<(), Trouble> {
        if matches!(self.body, Body::Unknown) {
            self.body = match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
                None => return Ok(()),
                Some(b'{' | b'[' | b'<') => Body::Whole(Vec::new()),
                Some(_) => Body::Events(sse::Decoder::default()),
            };
        }
        match &mut self.body {
            Body::Unknown => {}
            Body::Whole(body) => body.extend_from_slice(bytes),
            Body::Events(events) => events.push(bytes, &mut |event| self.reply.event(event, listener))?,
        }
        Ok(())
    }

    /// Nothing that matters will follow.
    pub(in crate::model) fn is_done(&self) -> bool {
        self.reply.done
    }

    /// The reply's end was announced: only its usage may still follow.
    pub(in crate::model) fn is_ending(&self) -> bool {
        self.reply.finish.is_some()
    }

    /// The body has ended, or broken off.
    ///
    /// # Errors
    /// [`Trouble::CutOff`], [`Trouble::Empty`], [`Trouble::NoReply`], or an error told by the provider.
    pub(in crate::model) fn finish(&mut self, listener: &mut dyn Listener) -> Result<Reply, Trouble> {
        match std::mem::take(&mut self.body) {
            Body::Unknown => {}
            Body::Events(mut events) => events.finish(&mut |event| self.reply.event(event, listener))?,
            Body::Whole(body) => self.reply.whole(&body, listener)?,
        }
        self.reply.finish(listener)
    }

    /// Text and reasoning so far.
    pub(in crate::model) fn partial(&mut self) -> AssistantMessage {
        AssistantMessage { calls: Vec::new(), ..std::mem::take(&mut self.reply.message) }
    }
}

impl From<sse::TooLong> for Trouble {
    fn from(_: sse::TooLong) -> Self {
        Self::TooLarge("16 MiB in one event")
    }
}

#[derive(Default)]
struct Assembly {
    message: AssistantMessage,
    reasoning_field: Option<&'static str>,
    tags: ThinkTags,
    calls: Calls,
    usage: Option<Usage>,
    finish: Option<String>,
    refused: bool,
    /// `[DONE]` came, or the body was whole.
    done: bool,
}

/// The chunk that nearly all of a stream consists of: a piece of text or reasoning and nothing else.
#[derive(Deserialize)]
struct PlainChunk<'a> {
    #[serde(borrow)]
    choices: [PlainChoice<'a>; 1],
    usage: Option<IgnoredAny>,
    x_groq: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
    error_message: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainChoice<'a> {
    #[serde(borrow)]
    delta: PlainDelta<'a>,
    finish_reason: Option<IgnoredAny>,
    usage: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct PlainDelta<'a> {
    #[serde(borrow)]
    content: Option<Borrowed<'a>>,
    #[serde(borrow)]
    reasoning_content: Option<Borrowed<'a>>,
    reasoning: Option<IgnoredAny>,
    thinking: Option<IgnoredAny>,
    refusal: Option<IgnoredAny>,
    tool_calls: Option<IgnoredAny>,
    function_call: Option<IgnoredAny>,
}

/// `Option<Cow<str>>` would always be a copy.
#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> PlainChunk<'a> {
    /// `None` if it is of any other shape.
    fn parse(data: &'a str) -> Option<PlainDelta<'a>> {
        let chunk: Self = serde_json::from_str(data).ok()?;
        let Self { choices: [choice], usage: None, x_groq: None, error: None, error_message: None } = chunk
        else {
            return None;
        };
        let PlainChoice { delta, finish_reason: None, usage: None } = choice else { return None };
        let rest =
            [&delta.reasoning, &delta.thinking, &delta.refusal, &delta.tool_calls, &delta.function_call];
        rest.iter().all(|member| member.is_none()).then_some(delta)
    }
}

impl Assembly {
    fn event(&mut self, event: Event<'_>, listener: &mut dyn Listener) -> Result<(), Trouble> {
        if self.done {
            return Ok(());
        }
        if event.kind == "error" {
            return Err(Trouble::Told(Complaint::from_event(event.data)));
        }
        if let Some(delta) = PlainChunk::parse(event.data) {
            self.reasoning(REASONING_FIELDS[0], text_of(&delta.reasoning_content), listener);
            self.text(text_of(&delta.content), listener);
            return Ok(());
        }
        if event.data.trim() == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        match serde_json::from_str(event.data) {
            Ok(value) => self.chunk(&value, listener),
            Err(_) => Ok(()), // comments wrapped as data, and the like
        }
    }

    /// A chunk of any shape, or a whole answer.
    fn chunk(&mut self, value: &Value, listener: &mut dyn Listener) -> Result<(), Trouble> {
        if let Some(complaint) = Complaint::in_value(value) {
            return Err(Trouble::Told(complaint));
        }
        self.count(&value["x_groq"]["usage"]);
        for choice in value["choices"].as_array().into_iter().flatten() {
            self.choice(choice, listener)?;
        }
        self.count(&value["usage"]);
        Ok(())
    }

    fn choice(&mut self, choice: &Value, listener: &mut dyn Listener) -> Result<(), Trouble> {
        if let Some(complaint) = Complaint::in_value(choice) {
            return Err(Trouble::Told(complaint));
        }
        self.count(&choice["usage"]);
        let delta = match (&choice["delta"], &choice["message"]) {
            (delta @ Value::Object(_), _) => delta,
            (_, message) if self.is_empty() => message,
            _ => &Value::Null, // a restatement of what was streamed
        };
        self.delta(delta, listener);
        match choice["finish_reason"].as_str() {
            None | Some("" | "null") => Ok(()),
            Some("error") => Err(Trouble::Told(Complaint::default())),
            Some(reason) => {
                self.finish = Some(reason.to_owned());
                Ok(())
            }
        }
    }

    fn delta(&mut self, delta: &Value, listener: &mut dyn Listener) {
        let said = |name: &&str| delta[*name].as_str().is_some_and(|text| !text.is_empty());
        if let Some(field) = REASONING_FIELDS.iter().copied().find(said) {
            self.reasoning(field, delta[field].as_str().unwrap_or_default(), listener);
        }
        match &delta["content"] {
            Value::String(text) => self.text(text, listener),
            Value::Array(parts) => parts.iter().for_each(|part| self.part(part, listener)),
            _ => {}
        }
        if let Some(refusal) = delta["refusal"].as_str().filter(|text| !text.is_empty()) {
            self.refused = true;
            self.text(refusal, listener);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            begun(self.calls.push(call), listener);
        }
        if delta["function_call"].is_object() {
            begun(self.calls.push_function(&delta["function_call"]), listener);
        }
    }

    /// Mistral's reasoning models send content as parts.
    fn part(&mut self, part: &Value, listener: &mut dyn Listener) {
        if let Some(text) = part["text"].as_str() {
            self.text(text, listener);
        }
        for thought in part["thinking"].as_array().into_iter().flatten() {
            self.hear(Delta::Reasoning(thought["text"].as_str().unwrap_or_default()), listener);
        }
    }

    fn text(&mut self, text: &str, listener: &mut dyn Listener) {
        if text.is_empty() {
            return;
        }
        let mut tags = std::mem::take(&mut self.tags);
        tags.push(text, &mut |delta| self.hear(delta, listener));
        self.tags = tags;
    }

    fn reasoning(&mut self, field: &'static str, text: &str, listener: &mut dyn Listener) {
        if !text.is_empty() {
            self.reasoning_field.get_or_insert(field);
            self.hear(Delta::Reasoning(text), listener);
        }
    }

    /// Keeps a piece and tells it.
    fn hear(&mut self, delta: Delta<'_>, listener: &mut dyn Listener) {
        match delta {
            Delta::Text(text) => self.message.text.push_str(text),
            Delta::Reasoning("") => return,
            Delta::Reasoning(text) => self.message.reasoning.push_str(text),
            Delta::CallBegun(_) => {}
        }
        listener.delta(delta);
    }

    /// The last count is the one that counts: some servers restate it in every chunk.
    fn count(&mut self, usage: &Value) {
        if usage.is_object() {
            self.usage = Some(usage_of(usage));
        }
    }

    fn is_empty(&self) -> bool {
        self.message.text.is_empty() && self.message.reasoning.is_empty() && self.calls.is_empty()
    }

    /// An answer that is no stream.
    fn whole(&mut self, body: &[u8], listener: &mut dyn Listener) -> Result<(), Trouble> {
        let text = String::from_utf8_lossy(body);
        match serde_json::from_str::<Value>(&text) {
            Ok(value) if value["choices"].is_array() || Complaint::in_value(&value).is_some() => {
                self.done = true;
                self.chunk(&value, listener)
            }
            Err(error) if error.is_eof() => Err(Trouble::CutOff),
            _ => Err(Trouble::NoReply(text::clean_to(&words_of_page(&text), 200).into_owned())),
        }
    }

    fn finish(&mut self, listener: &mut dyn Listener) -> Result<Reply, Trouble> {
        let mut tags = std::mem::take(&mut self.tags);
        tags.finish(&mut |delta| self.hear(delta, listener));
        let stop = self.stop()?;
        let mut message = std::mem::take(&mut self.message);
        message.calls = std::mem::take(&mut self.calls).finish();
        message.opaque = self.reasoning_field.map(|field| json!({REASONING_FIELD: field}));
        Ok(Reply { message, stop, usage: self.usage })
    }

    fn stop(&self) -> Result<Stop, Trouble> {
        let stop = match self.finish.as_deref() {
            Some(
                "stop" | "end_turn" | "tool_calls" | "tool_use" | "function_call" | "eos" | "stop_sequence",
            ) => Stop::End,
            Some("length" | "max_tokens" | "model_length" | "model_context_window_exceeded") => {
                Stop::MaxTokens
            }
            Some("content_filter" | "refusal" | "safety") => Stop::Refusal,
            Some(other) => Stop::Unknown(other.to_owned()),
            None if !self.done => return Err(Trouble::CutOff),
            None if !self.message.text.is_empty() || self.calls.any_complete() => Stop::End,
            None if !self.calls.is_empty() => return Err(Trouble::CutOff),
            None => return Err(Trouble::Empty),
        };
        Ok(if self.refused && stop == Stop::End { Stop::Refusal } else { stop })
    }
}

fn begun(name: Option<&str>, listener: &mut dyn Listener) {
    if let Some(name) = name {
        listener.delta(Delta::CallBegun(name));
    }
}

fn text_of<'a>(member: &'a Option<Borrowed<'_>>) -> &'a str {
    member.as_ref().map_or("", |Borrowed(text)| text)
}

fn usage_of(usage: &Value) -> Usage {
    let input = &usage["prompt_tokens_details"];
    let number =
        |value: &Value| value.as_u64().or_else(|| value.as_f64().map(|number| number.max(0.0) as u64));
    Usage {
        input: number(&usage["prompt_tokens"]).unwrap_or_default(),
        output: number(&usage["completion_tokens"]).unwrap_or_default(),
        cached_read: number(&input["cached_tokens"]).or_else(|| number(&usage["prompt_cache_hit_tokens"])),
        cached_write: number(&input["cache_write_tokens"]),
        reasoning: number(&usage["completion_tokens_details"]["reasoning_tokens"]),
    }
}
