//! The conversation of a session, twice: as it is saved, whole, and as the model gets it.
//!
//! The saved form is the past and only grows; the model's view leaves out turns that were refused and what a
//! compaction replaced, and is at every moment what a provider takes: each call has its result. Both are carried
//! on with each message, never made anew.
pub mod record;
mod transcript;

pub use transcript::Transcript;

use crate::model::{AssistantMessage, Message, Part, ToolResult};
use crate::session::Prompt;
use record::{Assistant, CallReference, CallResult, Record, SavedCall, Status, User};
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::fmt;

/// What the model reads of a call whose end nobody saw.
const NO_RESULT: &str = "[no result: Bob ended before the call did]";
/// Stands before a summary, for the model.
const SUMMARY_HEADING: &str = "[Summary of the conversation so far, which it replaces]\n";
/// Stands behind it: some chat templates refuse two messages of the user's in a row.
const SUMMARY_READ: &str = "I have read the summary and go on from there.";

/// A session's conversation.
#[derive(Debug, Default)]
pub struct History {
    transcript: Transcript,
    view: View,
}

/// What the model gets.
#[derive(Debug, Default)]
struct View {
    messages: Vec<Message>,
    turns: Vec<Turn>,
    /// Those of the last reply that have no result yet.
    open: Vec<OpenCall>,
    /// The last turn was refused: what belongs to it is not for the model.
    refused: bool,
    highest_call: u64,
}

/// What a result needs of its call.
#[derive(Debug)]
struct OpenCall {
    reference: CallReference,
    id: String,
    name: String,
}

/// A turn that is in the view: where its user message stands.
#[derive(Clone, Copy, Debug)]
struct Turn {
    record: usize,
    message: usize,
}

/// A saved message that can't be taken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BadRecord {
    /// Which, from 0.
    pub at: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "messages[{}] {}", self.at, self.why)
    }
}

impl std::error::Error for BadRecord {}

impl History {
    /// The conversation that a file holds.
    ///
    /// # Errors
    /// The first message that can't be taken: of another form, a result without its call, a call's reference that
    /// comes twice, a reply before any question.
    pub fn restore<'a>(messages: impl IntoIterator<Item = &'a RawValue>) -> Result<Self, BadRecord> {
        let mut history = Self::default();
        let mut references = HashSet::new();
        for (at, raw) in messages.into_iter().enumerate() {
            let bad = |why: String| BadRecord { at, why };
            let record = Record::parse(raw).map_err(|why| bad(why.to_owned()))?;
            if let Record::Assistant(reply) = &record
                && !reply.calls.iter().all(|call| references.insert(call.reference))
            {
                return Err(bad("has a call's reference that was there before".to_owned()));
            }
            history.view.restore(record, at).map_err(bad)?;
            history.transcript.push_raw(raw);
        }
        history.view.settle();
        Ok(history)
    }

    /// For the model, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.view.messages
    }

    /// As it is saved.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The largest N of its `call_N`; 0 without any.
    pub fn highest_call(&self) -> u64 {
        self.view.highest_call
    }

    /// A turn begins: the client's blocks, what Bob added behind them, and what the model gets of both.
    pub fn push_user(&mut self, blocks: Vec<Box<RawValue>>, added: String, parts: Vec<Part>) {
        let at = self.transcript.len();
        self.transcript.push(&Record::User(User { blocks, added, refused: false }));
        self.view.user(parts, at);
    }

    /// A reply of the model's, whole or as far as it came. Gives the references of its calls, drawn from `next`.
    pub fn push_assistant(
        &mut self,
        message: AssistantMessage,
        next: impl FnMut() -> CallReference,
    ) -> Vec<CallReference> {
        let reply = Assistant::new(message, next);
        let references = reply.calls.iter().map(|call| call.reference).collect();
        let record = Record::Assistant(reply);
        self.transcript.push(&record);
        if let Record::Assistant(reply) = record {
            self.view.assistant(reply);
        }
        references
    }

    /// What a call of the last reply came to. One that is no such call's is left out: with it no provider would
    /// take the history any more.
    pub fn push_result(&mut self, result: CallResult) {
        let reference = result.reference;
        if !self.view.is_open(reference) {
            return log::error!("a result of {reference}, which is no open call");
        }
        let record = Record::Result(result);
        self.transcript.push(&record);
        if let Record::Result(result) = record {
            self.view.result(result);
        }
    }

    /// The last turn, from its user message on, leaves the model's context and stays saved.
    pub fn refuse_turn(&mut self) {
        let Some(turn) = self.view.turns.pop() else { return };
        self.view.messages.truncate(turn.message);
        self.view.open.clear();
        self.view.refused = true;
        if let Ok(Record::User(user)) = self.transcript.get(turn.record) {
            self.transcript.replace(turn.record, &Record::User(User { refused: true, ..user }));
        }
    }

    /// Takes the last turn back out if nothing followed its question. Whether it did.
    pub fn take_back_question(&mut self) -> bool {
        match self.view.turns.last().copied() {
            Some(turn) if turn.record + 1 == self.transcript.len() => {
                self.view.turns.pop();
                self.view.messages.truncate(turn.message);
                self.transcript.truncate(turn.record);
                true
            }
            _ => false,
        }
    }

    /// Back to the system prompt.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The model's messages older than the last `keep` turns; `None` if there is no such turn.
    pub fn older_than(&self, keep: usize) -> Option<&[Message]> {
        let older = self.view.turns.len().checked_sub(keep).filter(|older| *older > 0)?;
        let end = self.view.turns.get(older).map_or(self.view.messages.len(), |turn| turn.message);
        self.view.messages.get(..end)
    }

    /// For the model, `summary` takes the place of [`older_than`](Self::older_than) `keep`; saved, it stands
    /// between them and the turns that are kept.
    pub fn compact(&mut self, keep: usize, summary: String) {
        self.view.settle();
        let Some(older) = self.older_than(keep).map(<[Message]>::len) else { return };
        let kept = self.view.turns.len() - keep;
        let at = self.view.turns.get(kept).map_or(self.transcript.len(), |turn| turn.record);
        let messages = summary_messages(&summary);
        let new = messages.len();
        self.transcript.insert(at, &Record::Summary(summary));
        self.view.messages.splice(..older, messages);
        self.view.turns.drain(..kept);
        for turn in &mut self.view.turns {
            turn.record += 1;
            turn.message = turn.message - older + new;
        }
    }
}

impl View {
    fn restore(&mut self, record: Record, at: usize) -> Result<(), String> {
        match record {
            Record::User(User { blocks, added, refused }) => {
                let mut prompt =
                    Prompt::check(blocks.iter().map(AsRef::as_ref)).map_err(|e| e.to_string())?;
                prompt.add(&added);
                self.user(prompt.parts, at);
                if refused {
                    self.turns.pop();
                    self.messages.pop();
                    self.refused = true;
                }
            }
            Record::Summary(text) => {
                let highest_call = self.highest_call;
                *self = Self { messages: summary_messages(&text).into(), highest_call, ..Self::default() };
            }
            Record::Assistant(_) if at == 0 => return Err("answers nothing".to_owned()),
            Record::Assistant(reply) => self.assistant(reply),
            Record::Result(result) if self.is_open(result.reference) => self.result(result),
            Record::Result(_) => return Err("is a result of no call before it".to_owned()),
        }
        Ok(())
    }

    fn user(&mut self, parts: Vec<Part>, record: usize) {
        self.settle();
        self.refused = false;
        self.turns.push(Turn { record, message: self.messages.len() });
        self.messages.push(Message::User(parts));
    }

    fn assistant(&mut self, reply: Assistant) {
        self.settle();
        for SavedCall { reference, id, name, .. } in &reply.calls {
            self.highest_call = self.highest_call.max(reference.number());
            self.open.push(OpenCall { reference: *reference, id: id.clone(), name: name.clone() });
        }
        self.add(Message::Assistant(reply.into_message()));
    }

    fn result(&mut self, result: CallResult) {
        let CallResult { reference, output, images, status, .. } = result;
        if let Some(at) = self.open.iter().position(|call| call.reference == reference) {
            let OpenCall { id: call_id, name, .. } = self.open.remove(at);
            let failed = status == Status::Failed;
            self.add(Message::ToolResult(ToolResult { call_id, name, output, images, failed }));
        }
    }

    fn is_open(&self, reference: CallReference) -> bool {
        self.open.iter().any(|call| call.reference == reference)
    }

    /// Gives a result to each call that will have none any more.
    fn settle(&mut self) {
        for OpenCall { id: call_id, name, .. } in std::mem::take(&mut self.open) {
            let output = NO_RESULT.to_owned();
            self.add(Message::ToolResult(ToolResult {
                call_id,
                name,
                output,
                images: Vec::new(),
                failed: true,
            }));
        }
    }

    fn add(&mut self, message: Message) {
        if !self.refused {
            self.messages.push(message);
        }
    }
}

fn summary_messages(summary: &str) -> [Message; 2] {
    let read = AssistantMessage { text: SUMMARY_READ.to_owned(), ..AssistantMessage::default() };
    [Message::User(vec![Part::Text(format!("{SUMMARY_HEADING}{summary}"))]), Message::Assistant(read)]
}

#[cfg(test)]
mod tests;
