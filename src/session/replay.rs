//! A saved conversation told to a client once more: its records as the updates they were. No tool runs.
use crate::cancel::Cancelled;
use crate::session::history::Transcript;
use crate::session::history::record::{Assistant, CallResult, Record, SavedCall, User};
use crate::session::raw_input;
use crate::session::shown::{by_name, content, kind_name, status};
use crate::text::{clean, clean_to};
use crate::wire::acp::{
    Block, Chunk, CompactionUpdate, RawOutput, ToolCall, ToolCallLocation, ToolCallStatus, Update,
};
use std::path::Path;

/// Characters of a saved title. One that was cleaned and cut when it was live is not cut again: a character may
/// have become nine.
const TITLE_AT_MOST: usize = 2048;

/// Tells `say` all updates in order, each message and each compaction under an id of its own from `new_id`. Gives how
/// many messages there were. To a client that does not know compactions a summary is a message of Bob's.
///
/// # Errors
/// [`Cancelled`], as soon as `say` says so.
pub fn replay(
    transcript: &Transcript,
    knows_compactions: bool,
    new_id: impl FnMut() -> String,
    say: impl FnMut(&Update<'_>) -> Result<(), Cancelled>,
) -> Result<usize, Cancelled> {
    let mut replay = Replay { knows_compactions, new_id, say, open: Vec::new() };
    for record in transcript.records() {
        replay.record(&record)?;
    }
    replay.settle()?;
    Ok(transcript.len())
}

struct Replay<M, S> {
    knows_compactions: bool,
    new_id: M,
    say: S,
    /// Calls of the last reply that have not been shown: a call comes with its result.
    open: Vec<SavedCall>,
}

impl<M: FnMut() -> String, S: FnMut(&Update<'_>) -> Result<(), Cancelled>> Replay<M, S> {
    fn record(&mut self, record: &Record) -> Result<(), Cancelled> {
        if !matches!(record, Record::Result(_)) {
            self.settle()?;
        }
        match record {
            Record::User(user) => self.user(user),
            Record::Summary(text) => self.summary(text),
            Record::Assistant(reply) => self.assistant(reply),
            Record::Result(result) => self.result(result),
        }
    }

    fn user(&mut self, user: &User) -> Result<(), Cancelled> {
        let id = (self.new_id)();
        let mut blocks = user.blocks.iter().map(|block| Block { content: block, message_id: &id });
        blocks.try_for_each(|block| (self.say)(&Update::UserMessageChunk(block)))
    }

    fn summary(&mut self, text: &str) -> Result<(), Cancelled> {
        if !self.knows_compactions {
            return self.message(&format!("🗜️ {text}"));
        }
        let id = (self.new_id)();
        (self.say)(&Update::CompactionUpdate(CompactionUpdate::completed(&id, text)))
    }

    fn message(&mut self, text: &str) -> Result<(), Cancelled> {
        let id = (self.new_id)();
        (self.say)(&Update::AgentMessageChunk(Chunk::text(text, &id)))
    }

    fn assistant(&mut self, reply: &Assistant) -> Result<(), Cancelled> {
        if !reply.reasoning.is_empty() {
            let id = (self.new_id)();
            (self.say)(&Update::AgentThoughtChunk(Chunk::text(&reply.reasoning, &id)))?;
        }
        if !reply.text.is_empty() {
            self.message(&reply.text)?;
        }
        self.open.clone_from(&reply.calls);
        Ok(())
    }

    fn result(&mut self, result: &CallResult) -> Result<(), Cancelled> {
        let Some(at) = self.open.iter().position(|call| call.reference == result.reference) else {
            return Ok(());
        };
        let call = self.open.remove(at);
        let locations: Vec<_> = result
            .locations
            .iter()
            .map(|location| ToolCallLocation { path: Path::new(&location.path), line: location.line })
            .collect();
        (self.say)(&Update::ToolCall(ToolCall {
            tool_call_id: &call.reference.to_string(),
            title: Some(&clean_to(&result.title, TITLE_AT_MOST)),
            kind: Some(kind_name(result.kind)),
            status: Some(status(result)),
            content: Some(&[content(result)]),
            locations: Some(&locations),
            raw_input: Some(&raw_input::shown(&call.arguments)),
            raw_output: Some(RawOutput { output: &result.output, exit_code: result.exit_code }),
        }))?;
        result.plan.as_ref().map_or(Ok(()), |entries| (self.say)(&Update::Plan { entries }))
    }

    /// What has not been shown has no result.
    fn settle(&mut self) -> Result<(), Cancelled> {
        for call in std::mem::take(&mut self.open) {
            let (title, kind) = by_name(&call.name, &call.arguments);
            (self.say)(&Update::ToolCall(ToolCall {
                tool_call_id: &call.reference.to_string(),
                title: Some(&clean(&title)),
                kind: Some(kind_name(kind)),
                status: Some(ToolCallStatus::Failed),
                raw_input: Some(&raw_input::shown(&call.arguments)),
                ..ToolCall::default()
            }))?;
        }
        Ok(())
    }
}
