//! A reply in the making, as far as all wire formats share it: bytes of a body in, deltas and the whole out.
//! Does no I/O.
use crate::cancel::{CancelToken, Cancelled};
use crate::model::complaint::{Complaint, words_of_page};
use crate::model::failure::Trouble;
use crate::model::json::{self, Bad, Room};
use crate::model::sse::{self, Event};
use crate::model::think::ThinkTags;
use crate::model::{Arguments, AssistantMessage, Call, Delta, Flusher, Listener, Reply, Stop, Usage};
use crate::text;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;

/// Calls, content blocks or output items of one reply: each is searched for, announced and answered. Models make some
/// dozens.
const PIECES_LIMIT: usize = 1024;

/// Hears deltas until it is cancelled.
pub(super) struct Ear<'a> {
    listener: &'a mut dyn Listener,
    cancel: &'a CancelToken,
}

impl<'a> Ear<'a> {
    /// After a cancel `listener` hears no more.
    pub(super) fn new(listener: &'a mut dyn Listener, cancel: &'a CancelToken) -> Self {
        Self { listener, cancel }
    }

    /// See [`Listener::flusher`].
    pub(super) fn flusher(&self) -> Flusher {
        self.listener.flusher()
    }

    /// Tells that a call has begun, once it has a name.
    pub(super) fn begun(&mut self, name: Option<&str>) -> Result<(), Cancelled> {
        match name.filter(|name| !name.is_empty()) {
            Some(name) => self.tell(Delta::CallBegun(name)),
            None => Ok(()),
        }
    }

    fn tell(&mut self, delta: Delta<'_>) -> Result<(), Cancelled> {
        self.cancel.check()?;
        self.listener.delta(delta);
        Ok(())
    }
}

/// Makes a reply of what one format's events say.
pub(super) trait Assembly {
    /// One event that is neither an error by its kind nor `[DONE]`.
    ///
    /// # Errors
    /// An error told by the provider, [`Trouble::Damaged`], a limit, a cancel.
    fn event(&mut self, event: Event<'_>, ear: &mut Ear<'_>) -> Result<(), Trouble>;

    /// An answer that is no stream, and no error either. `false`: it is no reply of this format.
    ///
    /// # Errors
    /// An error told by the provider, a limit, a cancel.
    fn whole(&mut self, value: &Value, ear: &mut Ear<'_>) -> Result<bool, Trouble>;

    /// The calls, and what is to go back with the message.
    fn finish(&mut self) -> (Vec<Call>, Option<Value>);

    /// What was said so far.
    fn draft(&mut self) -> &mut Draft;
}

/// Takes the body of a good answer, stream or not, in any pieces.
pub(super) struct ReplyStream {
    body: Body,
    assembly: Box<dyn Assembly>,
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
    /// Nothing has come yet.
    pub(super) fn new(assembly: impl Assembly + 'static) -> Self {
        Self { body: Body::default(), assembly: Box::new(assembly) }
    }

    /// Takes the next bytes; tells what is in them.
    ///
    /// # Errors
    /// Those of [`Assembly::event`]; an event past its limit.
    pub(super) fn push(&mut self, bytes: &[u8], ear: &mut Ear<'_>) -> Result<(), Trouble> {
        let mut bytes = bytes;
        if matches!(self.body, Body::Unknown) {
            let begun = |byte: &u8| !byte.is_ascii_whitespace() && !sse::BOM.contains(byte);
            bytes = bytes.iter().position(begun).map_or(&[], |at| &bytes[at..]);
            self.body = match bytes.first() {
                None => return Ok(()),
                Some(b'{' | b'[' | b'<') => Body::Whole(Vec::new()),
                Some(_) => Body::Events(sse::Decoder::default()),
            };
        }
        let assembly = self.assembly.as_mut();
        match &mut self.body {
            Body::Unknown => {}
            Body::Whole(body) => body.extend_from_slice(bytes),
            Body::Events(events) => events.push(bytes, &mut |event| hear_event(assembly, event, ear))?,
        }
        Ok(())
    }

    /// Nothing that matters will follow.
    pub(super) fn is_done(&mut self) -> bool {
        self.assembly.draft().done
    }

    /// How often the reply's end was announced. After that only its usage may still follow, but some servers announce it
    /// with every chunk.
    pub(super) fn ends_told(&mut self) -> usize {
        self.assembly.draft().ends_told
    }

    /// It went on behind the last announced end.
    pub(super) fn went_on(&mut self) -> bool {
        self.assembly.draft().went_on
    }

    /// The body has ended, or broken off.
    ///
    /// # Errors
    /// [`Trouble::CutOff`], [`Trouble::Empty`], [`Trouble::NoReply`], or an error told by the provider.
    pub(super) fn finish(&mut self, ear: &mut Ear<'_>) -> Result<Reply, Trouble> {
        let assembly = self.assembly.as_mut();
        match std::mem::take(&mut self.body) {
            Body::Unknown => {}
            Body::Events(mut events) => {
                match events.finish(&mut |event| hear_event(assembly, event, ear)) {
                    Err(Trouble::Damaged) => {} // the stream broke off in it, and is judged by what came before
                    other => other?,
                }
            }
            Body::Whole(body) => hear_whole(assembly, &body, ear)?,
        }
        let (calls, opaque) = assembly.finish();
        assembly.draft().close(calls, opaque, ear)
    }

    /// Text and reasoning so far.
    pub(super) fn partial(&mut self) -> AssistantMessage {
        std::mem::take(&mut self.assembly.draft().message)
    }
}

fn hear_event(assembly: &mut dyn Assembly, event: Event<'_>, ear: &mut Ear<'_>) -> Result<(), Trouble> {
    if assembly.draft().done {
        return Ok(());
    }
    // Some servers leave out the blank lines between events.
    if event.data.contains('\n') && is_lines(event.data) {
        return hear_lines(assembly, event.data, ear).map(drop);
    }
    if event.kind == "error" {
        return Err(Trouble::Told(Complaint::from_event(event.data)));
    }
    if event.data.trim() == "[DONE]" {
        assembly.draft().done = true;
        return Ok(());
    }
    assembly.event(event, ear)
}

fn hear_whole(assembly: &mut dyn Assembly, body: &[u8], ear: &mut Ear<'_>) -> Result<(), Trouble> {
    let text = String::from_utf8_lossy(body);
    match json::value(&text) {
        Ok(value) => {
            if let Some(complaint) = Complaint::in_value(&value) {
                return Err(Trouble::Told(complaint));
            }
            if assembly.whole(&value, ear)? {
                assembly.draft().done = true;
                return Ok(());
            }
        }
        Err(Bad::Syntax(error)) if error.is_eof() => return Err(Trouble::CutOff),
        Err(Bad::Syntax(_)) if is_lines(&text) && hear_lines(assembly, &text, ear)? => return Ok(()),
        Err(Bad::Syntax(_)) => {}
        Err(too_many) => return Err(too_many.into()),
    }
    let words = Some(words_of_page(&text)).filter(|title| !title.is_empty());
    Err(Trouble::NoReply(text::one_line(words.as_deref().unwrap_or(&text))))
}

/// Whether the first line is a JSON object of its own.
fn is_lines(text: &str) -> bool {
    text.lines().next().is_some_and(|line| json::value(line).is_ok_and(|value| value.is_object()))
}

/// Events one a line, without the dress of an event stream. `false`: they say nothing.
fn hear_lines(assembly: &mut dyn Assembly, text: &str, ear: &mut Ear<'_>) -> Result<bool, Trouble> {
    for data in text.lines().filter(|line| !line.trim().is_empty()) {
        match hear_event(assembly, Event { kind: "", data }, ear) {
            Err(Trouble::Damaged) => break, // judged by what came before
            other => other?,
        }
    }
    let draft = assembly.draft();
    Ok(draft.is_ended() || draft.has_spoken() || draft.has_thought())
}

/// An event's data as a value; `None` for a comment that is wrapped as data.
///
/// # Errors
/// [`Trouble::Damaged`]: what a broken piece said is not known, so what is left of the reply must not count.
pub(super) fn value(data: &str) -> Result<Option<Value>, Trouble> {
    match json::value(data) {
        Err(Bad::Syntax(_)) if !data.contains(['{', '}']) => Ok(None),
        result => Ok(Some(result?)),
    }
}

/// Whether a reply of so many pieces may get another.
pub(super) fn one_more(pieces: usize) -> Result<(), Trouble> {
    if pieces < PIECES_LIMIT { Ok(()) } else { Err(Trouble::TooLarge("1,024 calls or other pieces")) }
}

impl From<sse::TooLong> for Trouble {
    fn from(_: sse::TooLong) -> Self {
        Self::TooLarge("16 MiB in one event")
    }
}

/// What was said so far, and how it ended.
#[derive(Default)]
pub(super) struct Draft {
    message: AssistantMessage,
    tags: ThinkTags,
    has_spoken: bool,
    /// The last count.
    pub(super) usage: Option<Usage>,
    /// Why the model stopped, in the provider's word.
    finish: Option<String>,
    ends_told: usize,
    /// Something was heard behind the last announced end.
    went_on: bool,
    /// For what is kept of the reply as values.
    pub(super) room: Room,
    /// The model declined, in a text of its own.
    pub(super) refused: bool,
    /// The reply's own end mark came, or the body was whole.
    pub(super) done: bool,
}

impl Draft {
    /// Keeps and tells a piece of the answer, which may hold `<think>` tags.
    pub(super) fn text(&mut self, text: &str, ear: &mut Ear<'_>) -> Result<(), Cancelled> {
        if text.is_empty() {
            return Ok(());
        }
        self.has_spoken = true;
        let mut tags = std::mem::take(&mut self.tags);
        let told = tags.push(text, &mut |delta| self.hear(delta, ear));
        self.tags = tags;
        told
    }

    /// Keeps and tells a piece of the reasoning.
    pub(super) fn reasoning(&mut self, text: &str, ear: &mut Ear<'_>) -> Result<(), Cancelled> {
        if text.is_empty() { Ok(()) } else { self.hear(Delta::Reasoning(text), ear) }
    }

    /// Keeps and tells why the model declines.
    pub(super) fn refusal(&mut self, text: &str, ear: &mut Ear<'_>) -> Result<(), Cancelled> {
        self.refused |= !text.is_empty();
        self.text(text, ear)
    }

    /// The provider says why the model stopped.
    pub(super) fn end(&mut self, reason: &str) {
        self.ends_told += 1;
        self.went_on = false;
        let told = self.finish.as_deref().map(stop_of);
        // Some tell the end again with their usage, and no reason better than `stop`.
        if !matches!(told, Some(Stop::MaxTokens | Stop::Refusal)) || stop_of(reason) != Stop::End {
            self.finish = Some(reason.to_owned());
        }
    }

    /// The provider said why the model stopped.
    pub(super) fn is_ended(&self) -> bool {
        self.finish.is_some()
    }

    /// The reply hit its limit.
    pub(super) fn is_cut_off_by_limit(&self) -> bool {
        self.finish.as_deref().map(stop_of) == Some(Stop::MaxTokens)
    }

    /// Some text has come, maybe in `<think>` tags.
    pub(super) fn has_spoken(&self) -> bool {
        self.has_spoken
    }

    /// Some reasoning has come.
    pub(super) fn has_thought(&self) -> bool {
        !self.message.reasoning.is_empty()
    }

    /// Tells a piece and keeps it; what is not told is not kept.
    fn hear(&mut self, delta: Delta<'_>, ear: &mut Ear<'_>) -> Result<(), Cancelled> {
        ear.tell(delta)?;
        self.went_on |= self.is_ended();
        match delta {
            Delta::Text(text) => self.message.text.push_str(text),
            Delta::Reasoning(text) => self.message.reasoning.push_str(text),
            Delta::CallBegun(_) => {}
        }
        Ok(())
    }

    fn close(
        &mut self,
        calls: Vec<Call>,
        opaque: Option<Value>,
        ear: &mut Ear<'_>,
    ) -> Result<Reply, Trouble> {
        let mut tags = std::mem::take(&mut self.tags);
        tags.finish(&mut |delta| self.hear(delta, ear))?;
        let stop = self.stop(&calls)?;
        let message = AssistantMessage { opaque, calls, ..std::mem::take(&mut self.message) };
        // A prompt is never empty: who tells 0 did not count, and an estimate is better.
        let usage = self.usage.filter(|usage| usage.input > 0);
        Ok(Reply { message, stop, usage })
    }

    fn stop(&self, calls: &[Call]) -> Result<Stop, Trouble> {
        let any_complete = || calls.iter().any(|call| matches!(call.arguments, Arguments::Object(_)));
        let stop = match self.finish.as_deref() {
            Some(word) => stop_of(word),
            None if !self.done => return Err(Trouble::CutOff),
            None if !self.message.text.is_empty() || any_complete() => Stop::End,
            None if !calls.is_empty() => return Err(Trouble::CutOff),
            None => return Err(Trouble::Empty),
        };
        Ok(if self.refused && stop == Stop::End { Stop::Refusal } else { stop })
    }
}

/// Why a model stopped, by any provider's word: servers that translate formats mix them up.
fn stop_of(word: &str) -> Stop {
    match word.to_ascii_lowercase().as_str() {
        "stop" | "end_turn" | "stop_sequence" | "eos" | "eos_token" | "complete" | "completed" => Stop::End,
        "tool_calls" | "tool_use" | "function_call" | "tool_call" => Stop::End,
        "length" | "max_tokens" | "max_output_tokens" | "max_length" | "model_length" => Stop::MaxTokens,
        "model_context_window_exceeded" | "incomplete" => Stop::MaxTokens,
        "refusal" | "safety" | "sensitive" | "recitation" | "blocklist" | "prohibited_content" => {
            Stop::Refusal
        }
        "guardrail_intervened" => Stop::Refusal,
        filter if filter.starts_with("content_filter") => Stop::Refusal,
        "pause_turn" => Stop::Pause,
        _ => Stop::Unknown(word.to_owned()),
    }
}

/// A piece of text that is copied only where it holds escapes; `Option<Cow<str>>` would always be a copy.
#[derive(Deserialize)]
pub(super) struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> From<&'a str> for Borrowed<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Borrowed<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl Borrowed<'_> {
    /// The text.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The text; empty where there is none.
    pub(super) fn text(member: &Option<Self>) -> &str {
        member.as_ref().map_or("", |Self(text)| text)
    }
}

/// A count, also where a server writes it as `12.0`.
pub(super) fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().map(|number| number.max(0.0) as u64))
}
