//! Talking to a model: one trait, whatever the provider.
//!
//! A [`Provider`] turns a [`Request`] into one [`Reply`], telling a [`Listener`] each delta as it comes. The turn
//! that uses it knows no provider; a provider knows no session.
mod anthropic;
mod call;
mod came;
mod codec;
mod complaint;
mod demo;
mod dialect;
mod endpoint;
mod failure;
mod http;
mod json;
mod learnt;
mod models;
mod openai;
mod picture;
mod proxy;
#[cfg(test)]
mod recorded;
mod reply;
mod responses;
mod retry;
mod schema;
mod sse;
mod think;

pub use codec::Codec;
pub use models::list_models;

use crate::cancel::{CancelToken, Cancelled};
use crate::settings::Environment;
use crate::settings::config::Net;
use crate::settings::llm::{ModelConfig, Thinking};
use demo::DemoProvider;
use endpoint::EndpointProvider;
use retry::Backoff;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// One model call: everything the provider is to know.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The model's name as the endpoint knows it.
    pub model: &'a str,
    /// How much it is to think; `None`: as it does by itself.
    pub thinking: Option<Thinking>,
    /// The system prompt.
    pub system: &'a str,
    /// The conversation, oldest first. Every call of an assistant message is followed by its results.
    pub messages: &'a [Message],
    /// What the model may call.
    pub tools: &'a [ToolSpec],
}

/// One message of a conversation, in no provider's form.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// What the user said.
    User(Vec<Part>),
    /// What the model said.
    Assistant(AssistantMessage),
    /// What a call of the model's came to.
    ToolResult(ToolResult),
}

/// A piece of a user's message or of a tool's result.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Plain text.
    Text(String),
    /// A picture.
    Image(Image),
}

/// A picture as providers take it.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`, as its bytes show.
    pub mime_type: &'static str,
    /// Standard base64 with padding.
    pub base64: Arc<str>,
}

/// One reply of the model, whole or as far as it came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssistantMessage {
    /// All text deltas, joined.
    pub text: String,
    /// What it thought, joined; empty if it did not say.
    pub reasoning: String,
    /// What the provider wants back with the message, as it came (signatures, the reasoning field's name).
    pub opaque: Option<Value>,
    /// What it wants done, in order.
    pub calls: Vec<Call>,
}

/// One tool call of a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The provider's id; made by us where it gave none. Unique within its message.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// What it is called with.
    pub arguments: Arguments,
    /// Members of the call we don't know, sent back as they came (Gemini's `extra_content`).
    pub extra: Map<String, Value>,
}

/// What a tool is called with.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// A JSON object, as it should be.
    Object(Map<String, Value>),
    /// Text that is no JSON object. Such a call never runs; it goes back to the provider as `{}`.
    Invalid(String),
}

/// The result of a call, for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    /// [`Call::id`].
    pub call_id: String,
    /// [`Call::name`].
    pub name: String,
    /// What the model reads.
    pub output: String,
    /// Pictures that belong to it.
    pub images: Vec<Image>,
    /// It did not do what was asked.
    pub failed: bool,
}

/// A tool as it is offered to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// `^[A-Za-z0-9_-]{1,64}$`.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON schema of its arguments, of type `object`.
    pub schema: Value,
}

/// What came of one model call.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What the model said.
    pub message: AssistantMessage,
    /// Why it stopped.
    pub stop: Stop,
    /// What the provider counted, if it said.
    pub usage: Option<Usage>,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It was done, or wants its calls run (there are some in the message then).
    End,
    /// The reply hit its limit; none of its calls may run.
    MaxTokens,
    /// The provider withheld the answer, or the model declined.
    Refusal,
    /// Anthropic's `pause_turn`: to be continued by the next call.
    Pause,
    /// A reason we don't know, in the provider's word.
    Unknown(String),
}

/// Tokens of one model call, as the provider reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens, those from a cache included.
    pub input: u64,
    /// All output tokens, reasoning included.
    pub output: u64,
    /// The part of `input` that was read from a cache, if told.
    pub cached_read: Option<u64>,
    /// The part of `input` that was written to a cache, if told.
    pub cached_write: Option<u64>,
    /// The part of `output` that was reasoning, if told.
    pub reasoning: Option<u64>,
}

/// Something that came while a reply streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta<'a> {
    /// A piece of the answer, never empty.
    Text(&'a str),
    /// A piece of the reasoning, never empty.
    Reasoning(&'a str),
    /// A call has begun, by its tool's name. It comes whole in the [`Reply`]; from here on nothing is retried.
    CallBegun(&'a str),
}

/// See [`Listener::flusher`]. Cheap, and never waits.
pub type Flusher = Arc<dyn Fn() + Send + Sync>;

/// Who hears of a reply while it comes; implemented by the turn.
pub trait Listener {
    /// Called for each delta, in order, on the caller's thread. May wait for room towards the client. Several may go
    /// out together until [`flusher`](Self::flusher)'s function is called.
    fn delta(&mut self, delta: Delta<'_>);

    /// Sends out all deltas told by then. A provider calls it before it waits for more: so a flood costs one wake-up for
    /// all that one read brought, and a single delta is not held up by anything.
    fn flusher(&self) -> Flusher {
        Arc::new(|| {}) // for who holds nothing back
    }

    /// Waits `wait` before another try and tells the user `why` (one line: what failed, in the provider's own
    /// words). Other turns may work meanwhile.
    ///
    /// # Errors
    /// [`Cancelled`] if the turn was cancelled before the wait was over.
    fn pause(&mut self, why: &str, wait: Duration) -> Result<(), Cancelled>;
}

/// A model behind some wire format.
pub trait Provider: Send {
    /// Makes one model call: retries included, until the reply is whole.
    ///
    /// # Errors
    /// [`Broken`]: cancelled, or failed for good. It holds what had come by then.
    fn complete(
        &mut self,
        request: &Request<'_>,
        cancel: &CancelToken,
        listener: &mut dyn Listener,
    ) -> Result<Reply, Broken>;
}

/// A model call that did not come to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// Why.
    pub why: Why,
    /// The text and reasoning shown by then; calls that were not complete are not in it.
    pub partial: AssistantMessage,
}

/// Why a model call did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The token was cancelled.
    Cancelled,
    /// It failed, after its retries.
    Failed(Failure),
}

/// A failed model call, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// One line without brackets: status, the provider's own message, what to do about it
    /// (`502 Bad Gateway`). Never a key, never a URL's credentials.
    pub message: String,
    /// The conversation is too long for the model or its endpoint: a shorter one may go through.
    pub too_long: bool,
    /// Nobody answered: the server is not there, or not to be reached.
    pub unanswered: bool,
}

/// The model of a session. Nothing is opened, read or sent before its first call; what it learns about the
/// endpoint lives as long as it does.
pub fn connect(config: &ModelConfig, net: &Net, environment: &Environment) -> Box<dyn Provider> {
    match config {
        ModelConfig::Demo { script, .. } => Box::new(DemoProvider::new(script.clone(), Backoff::default())),
        ModelConfig::Endpoint(endpoint) => {
            let client = http::Client::new(net, environment);
            Box::new(EndpointProvider::new(endpoint, client, Backoff::default()))
        }
    }
}
