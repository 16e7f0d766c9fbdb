//! The wire format `openai-completions`: `POST {base}/chat/completions`
//! (<https://platform.openai.com/docs/api-reference/chat>), and what servers make of it. Does no I/O.
mod calls;
mod request;
mod stream;
mod think;

pub(super) use stream::ReplyStream;

use crate::model::Request;
use crate::model::failure::Complaint;
use crate::settings::llm::{Endpoint, Thinking};
use request::{Reasoning, Style};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

/// Members that `extra_body` never sets (`settings` has warned of them).
const OURS: &[&str] =
    &["model", "messages", "input", "system", "tools", "tool_choice", "stream", "store", "mcp_servers"];

/// How to talk to one server; what it turned out not to take is remembered.
pub(super) struct OpenAi {
    url: String,
    options: Map<String, Value>,
    style: Style,
    /// Each change is made once, so that a server which is never content gets its error shown.
    tried: HashSet<String>,
}

impl OpenAi {
    /// Knows nothing of the server yet.
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        Self {
            url: url(&endpoint.base_url),
            options: options(endpoint),
            style: Style::default(),
            tried: HashSet::new(),
        }
    }

    /// Where requests go.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// A request's body, JSON.
    pub(super) fn body(&self, request: &Request<'_>) -> Vec<u8> {
        request::body(request, self.style, &self.options)
    }

    /// After a refusal: changes what the complaint names, for good. `false` if there is nothing to change, or it
    /// was changed before.
    pub(super) fn adapt(&mut self, status: u16, complaint: &Complaint, request: &Request<'_>) -> bool {
        let words = complaint.haystack();
        if self.adapt_images(&words, request) {
            return true;
        }
        matches!(status, 400 | 422)
            && (self.adapt_reasoning(&words, request)
                || self.adapt_options(&words)
                || self.adapt_schemas(&words, request))
    }

    /// A server without a projector answers 500, a router 404.
    fn adapt_images(&mut self, words: &str, request: &Request<'_>) -> bool {
        let about_images = ["image", "vision", "multimodal"].iter().any(|word| words.contains(word));
        let adapts = about_images && request::has_images(request) && self.first_time("images");
        self.style.no_images |= adapts;
        adapts
    }

    fn adapt_reasoning(&mut self, words: &str, request: &Request<'_>) -> bool {
        let sent = request::reasoning_fields(request).find(|field| names(words, field));
        let wanted = ["missing", "must be", "required", "expected"].iter().any(|word| words.contains(word));
        let style = match sent {
            Some(_) if !wanted => Reasoning::Never,
            None if !names(words, "reasoning_content") => return false,
            _ => Reasoning::Always,
        };
        let adapts = self.first_time(&format!("{style:?}"));
        if adapts {
            self.style.reasoning = style;
        }
        adapts
    }

    fn adapt_options(&mut self, words: &str) -> bool {
        let named: Vec<String> = self.options.keys().filter(|name| names(words, name)).cloned().collect();
        named.iter().any(|name| name != "stream" && self.drop_option(name))
    }

    /// Takes an option out, or puts it under its other name.
    fn drop_option(&mut self, name: &str) -> bool {
        if !self.first_time(name) {
            return false;
        }
        let Some(other) = other_name(name) else { return self.options.remove(name).is_some() };
        if self.tried.contains(other) {
            return false;
        }
        let value = self.options.remove(name).unwrap_or_default();
        self.options.insert(other.to_owned(), value);
        true
    }

    fn adapt_schemas(&mut self, words: &str, request: &Request<'_>) -> bool {
        let about_schemas = ["grammar", "schema", "$ref"].iter().any(|word| words.contains(word));
        let adapts = about_schemas && !request.tools.is_empty() && self.first_time("schemas");
        self.style.plain_schemas |= adapts;
        adapts
    }

    fn first_time(&mut self, change: &str) -> bool {
        self.tried.insert(change.to_owned())
    }
}

/// A reply's limit has two names; servers know either or both.
fn other_name(option: &str) -> Option<&'static str> {
    match option {
        "max_tokens" => Some("max_completion_tokens"),
        "max_completion_tokens" => Some("max_tokens"),
        _ => None,
    }
}

/// Whether the complaint says that the model can call no tools.
pub(super) fn knows_no_tools(complaint: &Complaint) -> bool {
    let words = complaint.haystack();
    [
        "does not support tool",
        "not support tool use",
        "does not support function",
        "--enable-auto-tool-choice",
    ]
    .iter()
    .any(|phrase| words.contains(phrase))
}

/// Whether `words` hold `name` as a word of its own.
fn names(words: &str, name: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    words.match_indices(name).any(|(at, found)| {
        let before = words.get(..at).and_then(|before| before.chars().next_back());
        let behind = words.get(at + found.len()..).and_then(|behind| behind.chars().next());
        !before.is_some_and(part_of_word) && !behind.is_some_and(part_of_word)
    })
}

fn url(base: &str) -> String {
    const PATH: &str = "/chat/completions";
    let (path, query) = base.split_at(base.find('?').unwrap_or(base.len()));
    let path = path.trim_end_matches('/');
    if path.ends_with(PATH) { base.to_owned() } else { format!("{path}{PATH}{query}") }
}

/// All members of a body but the conversation.
fn options(endpoint: &Endpoint) -> Map<String, Value> {
    let mut options = Map::new();
    let mut set = |name: &str, value: Value| drop(options.insert(name.to_owned(), value));
    set("stream", json!(true));
    set("stream_options", json!({"include_usage": true}));
    if let Some(limit) = endpoint.max_tokens {
        set("max_tokens", json!(limit));
    }
    if let Some(temperature) = endpoint.temperature {
        set("temperature", json!(temperature));
    }
    if let Some(thinking) = endpoint.thinking {
        set("reasoning_effort", json!(effort(thinking)));
    }
    for (name, value) in &endpoint.extra_body {
        if !OURS.contains(&name.as_str()) {
            set(name, value.clone());
        }
    }
    options
}

/// `reasoning_effort` knows no budgets: the usual steps between its words.
fn effort(thinking: Thinking) -> &'static str {
    match thinking {
        Thinking::Off => "none",
        Thinking::Low | Thinking::Budget(..4096) => "low",
        Thinking::On | Thinking::Medium | Thinking::Budget(4096..16384) => "medium",
        Thinking::High | Thinking::Budget(16384..) => "high",
    }
}

#[cfg(test)]
mod tests;
