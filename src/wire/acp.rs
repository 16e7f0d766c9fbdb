//! What we write, in the words of the Agent Client Protocol, version 1 (agentclientprotocol.com/protocol).
use crate::wire::config_option::ConfigOption;
use crate::wire::jsonrpc;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The protocol version spoken here.
pub const PROTOCOL_VERSION: u16 = 1;

/// A session's id: 1 to 64 of `A-Za-z0-9_-`, so it can name a file and stand in a log line.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// `None`: not of that form.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=64).contains(&text.len());
        let safe = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        (fits && safe).then(|| Self(text.into()))
    }

    /// As it stands on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `session/update`, as a line.
pub fn session_update(session: &SessionId, update: &Update<'_>) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a SessionId,
        update: &'a Update<'a>,
    }
    jsonrpc::notification("session/update", &Params { session_id: session, update })
}

/// What changed in a session.
#[derive(Serialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Update<'a> {
    /// The slash commands.
    AvailableCommandsUpdate {
        /// All of them.
        available_commands: &'a [AvailableCommand],
    },
    /// A block of what the user said before; only when a session is loaded.
    UserMessageChunk(Block<'a>),
    /// A piece of the model's answer.
    AgentMessageChunk(Chunk<'a>),
    /// A piece of the model's reasoning, or a word of Bob's own.
    AgentThoughtChunk(Chunk<'a>),
    /// A call is announced.
    ToolCall(ToolCall<'a>),
    /// Something about an announced call changed.
    ToolCallUpdate(ToolCall<'a>),
    /// What the model means to do.
    Plan {
        /// All of it: it replaces what was there.
        entries: &'a [PlanEntry],
    },
    /// What a list of sessions shows of it.
    SessionInfoUpdate {
        /// One line.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        /// RFC 3339.
        updated_at: &'a str,
    },
    /// How full the model's context is.
    UsageUpdate {
        /// Tokens of the last model call, in and out.
        used: u64,
        /// Tokens that fit.
        size: u64,
        /// Of all the session's calls, if the model's prices are set.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<&'a Cost>,
    },
    /// A summary takes the place of older turns for the model. Only for a client that declared
    /// `session.compaction`.
    CompactionUpdate(CompactionUpdate<'a>),
    /// The mode was set.
    CurrentModeUpdate {
        /// Ours or the client's own.
        current_mode_id: &'a str,
    },
    /// An option was set.
    ConfigOptionUpdate {
        /// All of them.
        config_options: &'a [ConfigOption],
    },
}

/// How far a compaction is. What is absent stays as it was
/// (agentclientprotocol.com/protocol/v1/prompt-turn, session compaction).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionUpdate<'a> {
    /// Unique in the session.
    pub compaction_id: &'a str,
    /// Its stage.
    pub status: CompactionStatus,
    /// What the model has in place of the older turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<[Content<'a>; 1]>,
    /// Why it failed, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
}

/// The stages of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CompactionStatus {
    /// A summary is being made.
    InProgress,
    /// It holds.
    Completed,
    /// The history is as it was.
    Failed,
    /// The history is as it was.
    Cancelled,
}

impl<'a> CompactionUpdate<'a> {
    /// One with nothing more to say.
    pub fn new(compaction_id: &'a str, status: CompactionStatus) -> Self {
        Self { compaction_id, status, summary: None, error: None }
    }

    /// One that came to this.
    pub fn completed(compaction_id: &'a str, summary: &'a str) -> Self {
        let summary = Some([Content::Text { text: summary.into() }]);
        Self { summary, ..Self::new(compaction_id, CompactionStatus::Completed) }
    }
}

/// What a session has cost so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// In `currency`.
    pub amount: f64,
    /// ISO 4217.
    pub currency: String,
}

/// One slash command.
#[derive(Serialize)]
pub struct AvailableCommand {
    /// Without the slash.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
}

/// A piece of a message.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chunk<'a> {
    content: Content<'a>,
    message_id: &'a str,
}

impl<'a> Chunk<'a> {
    /// All pieces of one message share its id.
    pub fn text(text: &'a str, message_id: &'a str) -> Self {
        Self { content: Content::Text { text: text.into() }, message_id }
    }
}

/// A content block of the client's own.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Block<'a> {
    /// As the client sent it.
    pub content: &'a RawValue,
    /// All blocks of one message share it.
    pub message_id: &'a str,
}

/// A task of a plan.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct PlanEntry {
    /// What is to be done.
    pub content: String,
    /// How much it matters.
    pub priority: PlanPriority,
    /// How far it is.
    pub status: PlanStatus,
}

/// How much a task matters.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanPriority {
    /// Much.
    High,
    /// Some.
    Medium,
    /// Little.
    Low,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
}

/// A content block.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content<'a> {
    /// Markdown.
    Text {
        /// The text.
        text: Cow<'a, str>,
    },
}

/// A tool call, or those members of it that changed: what is `None` is left out.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall<'a> {
    /// `call_N`.
    pub tool_call_id: &'a str,
    /// One line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<&'a str>,
    /// The client's category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ToolCallStatus>,
    /// Replaces what was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<&'a [ToolCallContent<'a>]>,
    /// The files it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locations: Option<&'a [ToolCallLocation<'a>]>,
    /// The arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<&'a Value>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<RawOutput<'a>>,
}

/// What a call came to, for a program.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RawOutput<'a> {
    /// As the model reads it.
    pub output: &'a str,
    /// Of a command that ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// Announced.
    Pending,
    /// Running.
    InProgress,
    /// Ended as it should.
    Completed,
    /// Did not.
    Failed,
}

/// A piece of a call's content.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ToolCallContent<'a> {
    /// A content block.
    Content {
        /// The block.
        content: Content<'a>,
    },
    /// A file before and after.
    Diff {
        /// Absolute.
        path: &'a Path,
        /// Null: there was no file.
        old_text: Option<&'a str>,
        /// All of it.
        new_text: &'a str,
    },
}

impl<'a> ToolCallContent<'a> {
    /// A text block.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Content { content: Content::Text { text: text.into() } }
    }
}

/// A file a call is about.
#[derive(Serialize)]
pub struct ToolCallLocation<'a> {
    /// Absolute.
    pub path: &'a Path,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Params of `session/request_permission`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestPermission<'a> {
    /// Whose.
    pub session_id: &'a SessionId,
    /// The members its `tool_call` had.
    pub tool_call: &'a ToolCall<'a>,
    /// What may be answered.
    pub options: &'a [PermissionOption],
}

/// One answer to a permission request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    /// Comes back in the answer.
    pub option_id: &'static str,
    /// For the button.
    pub name: &'static str,
    /// For the button's look.
    pub kind: &'static str,
}

/// The result of `session/prompt`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptResponse {
    /// Why the turn ended.
    pub stop_reason: StopReason,
    /// Over all model calls of the turn, if any reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model was done.
    EndTurn,
    /// Its reply hit its limit.
    MaxTokens,
    /// Too many model calls, or the same call over and over.
    MaxTurnRequests,
    /// The model or its provider declined.
    Refusal,
    /// The client, a close or the end of the process ended it.
    Cancelled,
}

/// Tokens of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input and output.
    pub total_tokens: u64,
    /// All input.
    pub input_tokens: u64,
    /// All output.
    pub output_tokens: u64,
    /// The reasoning part of the output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_tokens: Option<u64>,
    /// The part of the input read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_read_tokens: Option<u64>,
    /// The part of the input written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_write_tokens: Option<u64>,
}

/// The result of `session/new`, `session/load` and `session/resume`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenedSession<'a> {
    /// Names it from here on; only of `session/new`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<&'a SessionId>,
    /// What may be changed between turns.
    pub config_options: Vec<ConfigOption>,
    /// What it may do without asking.
    pub modes: Modes<'a>,
}

/// The result of `session/list`.
#[derive(Default, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListSessionsResponse {
    /// A page of them, newest first.
    pub sessions: Vec<SessionInfo>,
    /// Asks for the next page; `None` with the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A saved session.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its name.
    pub session_id: SessionId,
    /// Absolute.
    pub cwd: String,
    /// One line; none if its first prompt had no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// RFC 3339.
    pub updated_at: String,
}

/// The modes, and which one holds.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Modes<'a> {
    /// One of them.
    pub current_mode_id: &'a str,
    /// All of them.
    pub available_modes: &'a [ModeInfo],
}

/// One mode.
#[derive(Serialize)]
pub struct ModeInfo {
    /// For `session/set_mode`.
    pub id: &'static str,
    /// For the menu.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_has_one_form() {
        for good in ["a", "script", "20261201-101500-0a1B2c3d", "_-", &"x".repeat(64)] {
            assert!(SessionId::parse(good).is_some(), "{good}");
        }
        for bad in ["", "..", "a/b", "a b", "ä", "a\n", "a\u{0}", &"x".repeat(65)] {
            assert!(SessionId::parse(bad).is_none(), "{bad:?}");
        }
    }
}
