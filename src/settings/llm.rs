//! Which model, where, with which key: resolved from its layers.
use crate::settings::Secret;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A session's model configuration, a snapshot that never changes under it.
#[derive(Clone, Debug)]
pub enum ModelConfig {
    /// The built-in demo model.
    Demo {
        /// `DEMO_SCRIPT`; `None`: its own small script.
        script: Option<PathBuf>,
        /// `DEMO_MODEL`, else `demo`.
        model: String,
    },
    /// A model behind HTTP.
    Endpoint(Endpoint),
}

/// A model behind HTTP.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// Upper case, as in `LLM_PROVIDER`: `OPENAI`, `LOCAL`, …
    pub provider: String,
    /// How to talk to it.
    pub format: Format,
    /// `None` only where none is needed (LOCAL).
    pub api_key: Option<Secret>,
    /// http or https, without a trailing slash.
    pub base_url: String,
    /// The model's name.
    pub model: String,
    /// `LLM_TEMPERATURE`.
    pub temperature: Option<f64>,
    /// `LLM_MAX_TOKENS`: the limit of one reply.
    pub max_tokens: Option<u64>,
    /// `LLM_THINKING`.
    pub thinking: Option<Thinking>,
    /// `LLM_EXTRA_BODY`: merged into each request.
    pub extra_body: Map<String, Value>,
}

/// The wire format of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `POST {base}/chat/completions`.
    OpenAiCompletions,
    /// `POST {base}/messages`.
    AnthropicMessages,
    /// `POST {base}/responses`.
    OpenAiResponses,
}

/// How much a model is to think before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Not at all.
    Off,
    /// As much as it likes.
    On,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// At most so many tokens.
    Budget(u64),
}
