//! A script for the demo model: `DEMO_SCRIPT=file.json`.
//!
//! ```json
//! {"replies": [
//!   {"when": "hello",                        // only if the last message holds this; optional
//!    "again": true,                          // may be given any number of times; optional
//!    "steps": [
//!      {"reasoning": "Hm."},                 // a piece, or a list of pieces
//!      {"text": ["Hel", "lo. "]},
//!      {"repeat": {"text": "x ", "times": 20000}},
//!      {"delay": 250},                       // milliseconds
//!      {"call": {"name": "bash", "arguments": {"command": "ls"}, "id": "c1"}},  // text: malformed arguments
//!      {"error": {"status": 503, "message": "try later", "retryAfter": 0}},     // seconds; ends the reply
//!      {"cutOff": true}                      // the connection breaks; ends the reply
//!    ],
//!    "stop": "end",                          // end, max_tokens, refusal, or any other word
//!    "usage": {"input": 12, "output": 3}}
//! ]}
//! ```
//! Each model call takes the first reply that fits and was not given yet; after an error the retry takes the next.
use crate::model::{Arguments, Message, Part, Stop, Usage};
use serde::Deserialize;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Replies that are still to come.
pub(super) struct Script {
    name: String,
    replies: Vec<RawReply>,
}

/// One reply, ready to be played.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScriptedReply {
    pub(super) steps: Vec<Step>,
    pub(super) stop: Stop,
    pub(super) usage: Option<Usage>,
}

/// What happens next in a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Text(Vec<String>),
    Repeat { text: String, times: u32 },
    Reasoning(Vec<String>),
    Call { id: Option<String>, name: String, arguments: Arguments },
    Delay(Duration),
    Error { status: u16, message: String, retry_after: Option<Duration> },
    CutOff,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    replies: Vec<RawReply>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawReply {
    when: Option<String>,
    #[serde(default)]
    again: bool,
    #[serde(default)]
    steps: Vec<RawStep>,
    stop: Option<String>,
    usage: Option<RawUsage>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RawStep {
    Text(Pieces),
    Repeat { text: String, times: u32 },
    Reasoning(Pieces),
    Call(RawCall),
    Delay(u64),
    Error(RawError),
    CutOff(bool),
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Pieces {
    One(String),
    Many(Vec<String>),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    id: Option<String>,
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawError {
    status: u16,
    #[serde(default)]
    message: String,
    /// Seconds.
    retry_after: Option<u64>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawUsage {
    input: u64,
    output: u64,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// What is wrong and where, for the user.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("DEMO_SCRIPT: failed to read `{name}`: {error}"))?;
        let script: RawScript =
            serde_json::from_str(&text).map_err(|error| format!("DEMO_SCRIPT: `{name}`: {error}"))?;
        Ok(Self { name, replies: script.replies })
    }

    /// The reply to a conversation that ends in `last`.
    pub(super) fn next(&mut self, last: Option<&Message>) -> ScriptedReply {
        let said = last.map(words).unwrap_or_default();
        let fits = |reply: &RawReply| reply.when.as_ref().is_none_or(|when| said.contains(when.as_str()));
        match self.replies.iter().position(fits) {
            Some(at) if self.replies[at].again => self.replies[at].clone().into(),
            Some(at) => self.replies.remove(at).into(),
            None => super::reply(vec![Step::Text(vec![format!(
                "The demo script `{}` has no reply left that fits this message.",
                self.name
            )])]),
        }
    }
}

impl From<RawReply> for ScriptedReply {
    fn from(raw: RawReply) -> Self {
        let stop = match raw.stop.as_deref() {
            None | Some("end") => Stop::End,
            Some("max_tokens") => Stop::MaxTokens,
            Some("refusal") => Stop::Refusal,
            Some(other) => Stop::Unknown(other.to_owned()),
        };
        let usage = raw.usage.map(|RawUsage { input, output }| Usage { input, output, ..Usage::default() });
        Self { steps: raw.steps.into_iter().map(Step::from).collect(), stop, usage }
    }
}

impl From<RawStep> for Step {
    fn from(raw: RawStep) -> Self {
        match raw {
            RawStep::Text(pieces) => Self::Text(pieces.into()),
            RawStep::Repeat { text, times } => Self::Repeat { text, times },
            RawStep::Reasoning(pieces) => Self::Reasoning(pieces.into()),
            RawStep::Call(RawCall { id, name, arguments }) => {
                let arguments = match arguments {
                    Value::Object(members) => Arguments::Object(members),
                    Value::Null => Arguments::Object(serde_json::Map::new()),
                    Value::String(text) => Arguments::Invalid(text),
                    other => Arguments::Invalid(other.to_string()),
                };
                Self::Call { id, name, arguments }
            }
            RawStep::Delay(milliseconds) => Self::Delay(Duration::from_millis(milliseconds)),
            RawStep::Error(RawError { status, message, retry_after }) => {
                Self::Error { status, message, retry_after: retry_after.map(Duration::from_secs) }
            }
            RawStep::CutOff(true) => Self::CutOff,
            RawStep::CutOff(false) => Self::Text(Vec::new()),
        }
    }
}

impl From<Pieces> for Vec<String> {
    fn from(pieces: Pieces) -> Self {
        match pieces {
            Pieces::One(piece) => vec![piece],
            Pieces::Many(pieces) => pieces,
        }
    }
}

/// What a message says: its text, or a tool's output.
pub(super) fn words(message: &Message) -> String {
    match message {
        Message::User(parts) => {
            let texts = parts.iter().filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Image(_) => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        Message::Assistant(message) => message.text.clone(),
        Message::ToolResult(result) => result.output.clone(),
    }
}

/// A message's size in bytes, roughly.
pub(super) fn size(message: &Message) -> usize {
    words(message).len()
}
