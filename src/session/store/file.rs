//! A session's file: `{version, id, cwd, title, createdAt, updatedAt, model, mode, skills, messages}`.
//!
//! Of what it says only the conversation, the title, the skills and the times are taken; id, `cwd` and all that
//! grants something come from the request that loads it.
use super::title::title_of;
use crate::session::history::{History, Transcript};
use crate::wire::acp::SessionId;
use crate::wire::jsonrpc::RpcError;
use crate::wire::params::members;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::path::PathBuf;
use std::time::SystemTime;

/// The form that is written.
const VERSION: u64 = 1;
/// Largest file, bytes.
pub(super) const FILE_AT_MOST: u64 = 256 << 20;
/// What stands before `messages` is at most so long, bytes.
const HEAD_AT_MOST: u64 = 1 << 20;
/// What a file may become in memory, bytes: 64 MiB of `{"a":0},` are some five GiB of objects.
const MEMORY_AT_MOST: usize = 2 << 30;

/// All of a session's file but the conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// The session's.
    pub id: SessionId,
    /// Where it works.
    pub cwd: PathBuf,
    /// One line; `None` until a prompt had text.
    pub title: Option<String>,
    /// When the session was made.
    pub created_at: SystemTime,
    /// When its conversation last changed.
    pub updated_at: SystemTime,
    /// The model's name.
    pub model: String,
    /// The mode that was set.
    pub mode: String,
    /// The skills it has read.
    pub skills: Vec<String>,
}

impl Head {
    /// Of a session that begins now.
    pub fn new(id: SessionId, cwd: PathBuf, model: &str, mode: &str) -> Self {
        let now = SystemTime::now();
        Self {
            id,
            cwd,
            title: None,
            created_at: now,
            updated_at: now,
            model: model.to_owned(),
            mode: mode.to_owned(),
            skills: Vec::new(),
        }
    }
}

/// What a file gives back.
#[derive(Debug)]
pub struct Loaded {
    /// The conversation.
    pub history: History,
    /// Cleaned.
    pub title: Option<String>,
    /// When the session was made.
    pub created_at: SystemTime,
    /// When its conversation last changed.
    pub updated_at: SystemTime,
    /// The skills it had read.
    pub skills: Vec<String>,
}

/// Why a saved session can't be had.
#[derive(Debug)]
pub enum LoadError {
    /// There is none of this id.
    Unknown,
    /// Another process has it open.
    Locked,
    /// A later version of Bob wrote it.
    Newer(u64),
    /// It is not a whole session.
    Broken(String),
    /// The disk, or what stands in the way on it.
    Unreadable(io::Error),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no saved session of this id in this folder"),
            Self::Locked => f.write_str("open in another process"),
            Self::Newer(version) => {
                write!(f, "written by a later version (its form is {version}, known here is {VERSION})")
            }
            Self::Broken(why) => write!(f, "the session file is broken: {why}"),
            Self::Unreadable(error) => write!(f, "the session file can't be read: {error}"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Unknown,
            _ => Self::Unreadable(error),
        }
    }
}

impl LoadError {
    /// As `session/load` and `session/resume` answer it: `-32600` if another process has it, else `-32602`.
    pub fn to_rpc(&self, id: &SessionId) -> RpcError {
        let error = match self {
            Self::Locked => RpcError::invalid_request(format!("session {id} is {self}")),
            _ => RpcError::invalid_params("sessionId", &format!("{id}: {self}")),
        };
        error.with_data(json!({ "sessionId": id, "error": self.to_string() }))
    }
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Form<'a> {
    version: u64,
    #[serde(default)]
    id: String,
    #[serde(default)]
    cwd: String,
    #[serde(default)]
    title: Option<String>,
    created_at: String,
    updated_at: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    skills: Vec<String>,
    /// Written separately, and last.
    #[serde(borrow, skip_serializing)]
    messages: Vec<&'a RawValue>,
}

/// The bytes before and behind the conversation's own.
pub(super) fn around(head: &Head, transcript: &Transcript) -> (Vec<u8>, &'static [u8]) {
    let form = Form {
        version: VERSION,
        id: head.id.to_string(),
        cwd: head.cwd.to_string_lossy().into_owned(),
        title: head.title.clone(),
        created_at: time(head.created_at),
        updated_at: time(head.updated_at),
        model: head.model.clone(),
        mode: head.mode.clone(),
        skills: head.skills.clone(),
        messages: Vec::new(),
    };
    let mut before = serde_json::to_vec(&form).expect("texts and a number");
    before.pop(); // the brace: `messages` is a member of the same object
    before.extend_from_slice(b",\"messages\":[");
    match transcript.is_empty() {
        true => (before, b"]}\n"),
        false => {
            before.push(b'\n');
            (before, b"\n]}\n")
        }
    }
}

/// A time as it is saved and listed: RFC 3339 in UTC, milliseconds.
pub fn time(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Reads a whole file.
///
/// # Errors
/// [`LoadError::Newer`], [`LoadError::Broken`]; never with words of the file's own.
pub(super) fn decode(bytes: &[u8]) -> Result<Loaded, LoadError> {
    let broken = |why: &str| LoadError::Broken(why.to_owned());
    let text = std::str::from_utf8(bytes).map_err(|_| broken("it is not UTF-8"))?;
    if text.trim().is_empty() {
        return Err(broken("it is empty"));
    }
    if memory(bytes) > MEMORY_AT_MOST {
        return Err(broken("it holds too many values"));
    }
    let form = match serde_json::from_str::<Form<'_>>(text) {
        Ok(form) if (1..=VERSION).contains(&form.version) => form,
        _ => return Err(why_not(text)),
    };
    let history = History::restore(form.messages).map_err(|error| broken(&error.to_string()))?;
    let time = |text: &str| humantime::parse_rfc3339(text).map_err(|_| broken("it has a time that is none"));
    Ok(Loaded {
        history,
        title: form.title.as_deref().and_then(title_of),
        created_at: time(&form.created_at)?,
        updated_at: time(&form.updated_at)?,
        skills: form.skills,
    })
}

/// Why a text is no [`Form`] of ours.
fn why_not(text: &str) -> LoadError {
    let broken = |why: &str| LoadError::Broken(why.to_owned());
    let raw: &RawValue = match serde_json::from_str(text) {
        Ok(raw) => raw,
        Err(error) => return broken(&place(&error)),
    };
    let Ok([version, messages]) = members(raw, ["version", "messages"]) else {
        return broken("it is not an object");
    };
    match version.and_then(|version| version.get().parse::<u64>().ok()) {
        None | Some(0) => broken("it has no usable version"),
        Some(version) if version > VERSION => LoadError::Newer(version), // whatever else it has
        Some(_) if messages.is_none_or(|list| !list.get().starts_with('[')) => {
            broken("it has no list of messages")
        }
        Some(_) => broken("what stands before the messages is not whole"),
    }
}

fn place(error: &serde_json::Error) -> String {
    match error.is_eof() {
        true => "it ends in the middle".to_owned(),
        false => format!("it is not JSON (line {}, column {})", error.line(), error.column()),
    }
}

/// About what the values become in memory, bytes: most for each object, some for each value.
fn memory(text: &[u8]) -> usize {
    let (mut inside_string, mut escaped, mut sum) = (false, false, 0usize);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = inside_string,
            b'"' => inside_string = !inside_string,
            _ if inside_string => {}
            b'{' => sum += 640,
            b'[' | b',' => sum += 32,
            _ => {}
        }
    }
    sum
}

/// What a list shows of a file.
#[derive(Debug, PartialEq)]
pub(super) struct Glance {
    pub(super) title: Option<String>,
    pub(super) updated_at: SystemTime,
    /// The user has said something.
    pub(super) begun: bool,
}

/// Reads a file's head, as far as the first message and no further; `None`: not a session's, or of a later version.
pub(super) fn glance(file: impl Read) -> Option<Glance> {
    let mut seen = Seen::default();
    let mut input = serde_json::Deserializer::from_reader(BufReader::new(file.take(HEAD_AT_MOST)));
    // Stopping in the middle looks like an error to the parser.
    let _ = input.deserialize_map(&mut seen);
    if !(1..=VERSION).contains(&seen.version?) {
        return None;
    }
    let updated_at = humantime::parse_rfc3339(&seen.updated_at?).ok()?;
    Some(Glance { title: seen.title.and_then(|title| title_of(&title)), updated_at, begun: seen.begun? })
}

#[derive(Default)]
struct Seen {
    version: Option<u64>,
    title: Option<String>,
    updated_at: Option<String>,
    begun: Option<bool>,
}

impl<'de> Visitor<'de> for &mut Seen {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a session")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "version" => self.version = map.next_value()?,
                "title" => self.title = map.next_value()?,
                "updatedAt" => self.updated_at = map.next_value()?,
                "messages" => return map.next_value_seed(FirstMessage(&mut self.begun)),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Looks whether a list has an element, without reading it: an error as soon as there is one.
struct FirstMessage<'a>(&'a mut Option<bool>);

impl<'de> DeserializeSeed<'de> for FirstMessage<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, list: D) -> Result<(), D::Error> {
        list.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for FirstMessage<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        list.next_element_seed(Stop(self.0))?;
        *self.0 = Some(false);
        Ok(())
    }
}

struct Stop<'a>(&'a mut Option<bool>);

impl<'de> DeserializeSeed<'de> for Stop<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, _: D) -> Result<(), D::Error> {
        *self.0 = Some(true);
        Err(D::Error::custom("seen enough"))
    }
}
