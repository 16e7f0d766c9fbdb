//! One message of a conversation as it is saved: in no provider's form, and with what a client is to be shown again.
use crate::model::{Arguments, AssistantMessage, Call, Image};
use crate::tools::{Diff, Kind, Location};
use crate::wire::acp::PlanEntry;
use crate::wire::jsonrpc::nests_deeper_than;
use crate::wire::params::members_in;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;

/// The largest N of a `call_N` that is read: counting goes on behind it for as long as we live.
const LARGEST_CALL: u64 = 1 << 53;

/// Brackets open at once, at most. A line is taken with 128, and around a block there is one less here.
const DEEPEST: usize = 127;

/// A saved message.
#[derive(Debug)]
pub enum Record {
    /// What the user said.
    User(User),
    /// What a compaction made of all that stands before it.
    Summary(String),
    /// What the model said.
    Assistant(Assistant),
    /// What a call came to.
    Result(CallResult),
}

/// What the user said.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct User {
    /// The content blocks as the client sent them.
    pub blocks: Vec<Box<RawValue>>,
    /// What Bob added for the model, behind the blocks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub added: String,
    /// Its turn was refused: it stays here and is not in the model's context.
    #[serde(default, skip_serializing_if = "is_false")]
    pub refused: bool,
}

/// What the model said.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assistant {
    /// The answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What it thought.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// What its provider wants back with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<Value>,
    /// What it wanted done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<SavedCall>,
}

/// A call of the model's.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedCall {
    /// What the client knows it by.
    pub reference: CallReference,
    /// What the provider knows it by.
    pub id: String,
    /// The tool.
    pub name: String,
    /// An object, or text that is none.
    #[serde(with = "arguments")]
    pub arguments: Arguments,
    /// Members we don't know.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// What a call came to, with all that a client was shown of it but its arguments, which the call has.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallResult {
    /// Whose result it is.
    pub reference: CallReference,
    /// `completed` or `failed`.
    pub status: Status,
    /// One line, cleaned.
    pub title: String,
    /// The client's category.
    #[serde(with = "KindForm")]
    pub kind: Kind,
    /// The files it was about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<SavedLocation>,
    /// What the model read.
    pub output: String,
    /// Of a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What a client was shown in place of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// Pictures for the model.
    #[serde(default, with = "images", skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The list of an accepted `todo_write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Vec<PlanEntry>>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should.
    Completed,
    /// It did not do what was asked.
    Failed,
}

/// A change of a file, as it was shown.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Before and after.
    Diff(SavedDiff),
    /// The words that stand for a diff too large to show.
    Words(String),
}

/// A file before and after.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedDiff {
    /// Absolute.
    pub path: String,
    /// `None`: there was no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
    /// All of it.
    pub new_text: String,
}

/// A file a call was about. A path that is no text is saved as it is shown: paths are not opened again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedLocation {
    /// Absolute.
    pub path: String,
    /// From 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl From<&Location> for SavedLocation {
    fn from(location: &Location) -> Self {
        Self { path: location.path.to_string_lossy().into_owned(), line: location.line }
    }
}

impl From<Diff> for SavedDiff {
    fn from(diff: Diff) -> Self {
        Self { path: diff.path.to_string_lossy().into_owned(), old_text: diff.old, new_text: diff.new }
    }
}

/// The N of a `call_N`: a call's name towards the client, unique in the process.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallReference(u64);

impl CallReference {
    /// `call_<number>`.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its N.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CallReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call_{}", self.0)
    }
}

impl From<CallReference> for String {
    fn from(reference: CallReference) -> Self {
        reference.to_string()
    }
}

impl TryFrom<String> for CallReference {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digits = text.strip_prefix("call_").filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| *number <= LARGEST_CALL);
        number.map(Self).ok_or("a call's reference is not call_N")
    }
}

impl Assistant {
    /// A reply with the references of its calls, drawn from `next` in their order.
    pub fn new(message: AssistantMessage, mut next: impl FnMut() -> CallReference) -> Self {
        let AssistantMessage { text, reasoning, opaque, calls } = message;
        let calls = calls
            .into_iter()
            .map(|Call { id, name, arguments, extra }| SavedCall {
                reference: next(),
                id,
                name,
                arguments,
                extra,
            })
            .collect();
        Self { text, reasoning, opaque, calls }
    }

    /// As the model gets it again.
    pub fn into_message(self) -> AssistantMessage {
        let Self { text, reasoning, opaque, calls } = self;
        let calls = calls
            .into_iter()
            .map(|SavedCall { id, name, arguments, extra, .. }| Call { id, name, arguments, extra })
            .collect();
        AssistantMessage { text, reasoning, opaque, calls }
    }
}

impl Record {
    /// Reads one saved message. A block's line breaks between its members are taken out: each is to stand on one
    /// line again.
    ///
    /// # Errors
    /// No object of one of the three roles, a member that is missing or of the wrong kind; in words without what
    /// the file holds.
    pub fn parse(raw: &RawValue) -> Result<Self, &'static str> {
        if nests_deeper_than(raw.get().as_bytes(), DEEPEST) {
            return Err("nests too deeply");
        }
        Self::parse_again(raw.get())
    }

    /// [`parse`](Self::parse) of what was parsed or written before: not looked through once more.
    ///
    /// # Errors
    /// As there.
    pub(super) fn parse_again(text: &str) -> Result<Self, &'static str> {
        let [role, summary] = members_in(text, ["role", "summary"]).map_err(|_| "is not an object")?;
        let role: &str =
            role.and_then(|role| serde_json::from_str(role.get()).ok()).ok_or("has no usable role")?;
        match role {
            "user" if summary.is_some_and(|summary| summary.get() == "true") => {
                #[derive(Deserialize)]
                struct Summary {
                    added: String,
                }
                Ok(Self::Summary(read::<Summary>(text, "is no whole summary")?.added))
            }
            "user" => {
                let mut user: User = read(text, "is no whole user message")?;
                user.blocks = user.blocks.into_iter().map(on_one_line).collect();
                Ok(Self::User(user))
            }
            "assistant" => Ok(Self::Assistant(read(text, "is no whole assistant message")?)),
            "tool" => Ok(Self::Result(read(text, "is no whole tool result")?)),
            _ => Err("has a role other than user, assistant and tool"),
        }
    }

    /// As [`parse`](Self::parse) reads it, on one line.
    pub fn write(&self, to: &mut Vec<u8>) {
        #[derive(Serialize)]
        #[serde(tag = "role", rename_all = "lowercase")]
        enum Form<'a> {
            User(&'a User),
            Assistant(&'a Assistant),
            Tool(&'a CallResult),
        }
        #[derive(Serialize)]
        struct Summary<'a> {
            role: &'static str,
            summary: bool,
            added: &'a str,
        }
        let written = match self {
            Self::User(user) => serde_json::to_writer(to, &Form::User(user)),
            Self::Assistant(assistant) => serde_json::to_writer(to, &Form::Assistant(assistant)),
            Self::Result(result) => serde_json::to_writer(to, &Form::Tool(result)),
            Self::Summary(text) => {
                serde_json::to_writer(to, &Summary { role: "user", summary: true, added: text })
            }
        };
        written.expect("texts, numbers and JSON values, into memory");
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str, otherwise: &'static str) -> Result<T, &'static str> {
    serde_json::from_str(text).map_err(|_| otherwise)
}

/// A block with a line break in it would end the line it is sent on, and what follows be a message of its own.
fn on_one_line(block: Box<RawValue>) -> Box<RawValue> {
    if !block.get().contains(['\n', '\r']) {
        return block;
    }
    // Inside a string JSON has no bare line break, so each of these stands between two tokens.
    let text = block.get().replace(['\n', '\r'], " ");
    RawValue::from_string(text).unwrap_or(block)
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Deserialize, Serialize)]
#[serde(remote = "Kind", rename_all = "snake_case")]
enum KindForm {
    Read,
    Edit,
    Execute,
    Think,
    Other,
}

mod arguments {
    use super::{Arguments, Value};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(arguments: &Arguments, to: S) -> Result<S::Ok, S::Error> {
        match arguments {
            Arguments::Object(members) => members.serialize(to),
            Arguments::Invalid(text) => text.serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arguments, D::Error> {
        match Value::deserialize(from)? {
            Value::Object(members) => Ok(Arguments::Object(members)),
            Value::String(text) => Ok(Arguments::Invalid(text)),
            _ => Err(D::Error::custom("arguments are an object, or text that is none")),
        }
    }
}

mod images {
    use super::Image;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::borrow::Cow;

    #[derive(Deserialize, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Form<'a> {
        mime_type: Cow<'a, str>,
        data: Cow<'a, str>,
    }

    pub(super) fn serialize<S: Serializer>(images: &[Image], to: S) -> Result<S::Ok, S::Error> {
        let forms = images.iter().map(|image| Form {
            mime_type: Cow::Borrowed(image.mime_type),
            data: Cow::Borrowed(&*image.base64),
        });
        to.collect_seq(forms)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Image>, D::Error> {
        let forms = Vec::<Form<'_>>::deserialize(from)?;
        let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
        let image = |form: Form<'_>| {
            let mime_type = known.into_iter().find(|known| *known == form.mime_type);
            let mime_type = mime_type.ok_or_else(|| D::Error::custom("no type of picture that is taken"))?;
            Ok(Image { mime_type, base64: form.data.into() })
        };
        forms.into_iter().map(image).collect()
    }
}
