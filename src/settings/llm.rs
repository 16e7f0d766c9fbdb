//! Which model, where, with which key; or why there is none.
use super::Secret;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// Where no layer names one.
pub(super) const DEFAULT_PROVIDER: &str = "OPENAI";

/// What `LLM_EXTRA_BODY` may not set: what Bob's own work rests on, in the words of any format, or what opens a way
/// around permission.
pub const NEVER_EXTRA: [&str; 10] = [
    "model",
    "messages",
    "input",
    "system",
    "instructions",
    "tools",
    "tool_choice",
    "stream",
    "store",
    "mcp_servers",
];

/// A model configuration with what is to be told about it.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The snapshot a session keeps.
    pub config: ModelConfig,
    /// Variables of the launch environment that hold the key, and the one that would: no command gets them unless
    /// `tools.passKeys` says so.
    pub hidden_variables: Vec<OsString>,
    /// A log line naming host and file, if the project's `.env` chose the endpoint.
    pub notice: Option<String>,
}

/// Why there is no model to talk to. `Display` is the message of the JSON-RPC error; see also
/// [`with_login`](Self::with_login).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LlmError {
    /// Something was not set anywhere it counts (`-32000`).
    Missing {
        /// Upper case.
        provider: String,
        /// Those missing and no others, of `api_key`, `base_url`, `model`, in this order (`data.missing`).
        missing: Vec<&'static str>,
        /// Where there is a base URL that does not count, for the key comes from elsewhere.
        unborrowed: Option<String>,
    },
    /// Something is there but can't be used (`-32603`). Names the setting and where it is, never a value.
    Broken(String),
}

impl fmt::Display for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { provider, missing, unborrowed } => {
                let missing = missing.join(", ");
                write!(f, "No usable model configuration for provider {provider}: missing {missing}")?;
                match unborrowed {
                    Some(place) => write!(f, " (the base_url in {place} counts only with a key from there)"),
                    None => Ok(()),
                }
            }
            Self::Broken(why) => write!(f, "LLM configuration error: {why}"),
        }
    }
}

impl std::error::Error for LlmError {}

impl LlmError {
    /// It with what to do about it: `login` says how to log in, in the imperative and without a full stop.
    pub fn with_login(&self, login: &str) -> String {
        let Self::Missing { provider, missing, .. } = self else { return self.to_string() };
        let variables: Vec<String> =
            missing.iter().map(|name| format!("{provider}_{}", name.to_ascii_uppercase())).collect();
        format!(
            "{self}. {login}, or set {} in the environment Bob is started with (LLM_PROVIDER chooses another \
             provider; LLM_PROVIDER=DEMO needs none of these), and start the session again",
            variables.join(", ")
        )
    }
}

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

impl ModelConfig {
    /// The model's name.
    pub fn model(&self) -> &str {
        match self {
            Self::Demo { model, .. } => model,
            Self::Endpoint(endpoint) => &endpoint.model,
        }
    }

    /// The provider's name, upper case.
    pub fn provider(&self) -> &str {
        match self {
            Self::Demo { .. } => "DEMO",
            Self::Endpoint(endpoint) => &endpoint.provider,
        }
    }

    /// `None` where none is needed.
    pub fn api_key(&self) -> Option<&Secret> {
        match self {
            Self::Demo { .. } => None,
            Self::Endpoint(endpoint) => endpoint.api_key.as_ref(),
        }
    }

    /// `LLM_THINKING`.
    pub fn thinking(&self) -> Option<Thinking> {
        match self {
            Self::Demo { .. } => None,
            Self::Endpoint(endpoint) => endpoint.thinking,
        }
    }
}

/// For the log: which model, where. No key is in it, nor can one be in a checked base URL.
impl fmt::Display for ModelConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Demo { model, .. } => write!(f, "DEMO {model}"),
            Self::Endpoint(Endpoint { provider, model, format, base_url, .. }) => {
                write!(f, "{provider} {model} at {base_url} ({})", format.name())
            }
        }
    }
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

impl Format {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::OpenAiCompletions, Self::AnthropicMessages, Self::OpenAiResponses];

    /// As it stands in `<P>_API_FORMAT`.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAiCompletions => "openai-completions",
            Self::AnthropicMessages => "anthropic-messages",
            Self::OpenAiResponses => "openai-responses",
        }
    }
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

/// As it stands in `LLM_THINKING`.
impl fmt::Display for Thinking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Budget(tokens) => return write!(f, "{tokens}"),
        })
    }
}
