//! The wire format `openai-completions`: `POST {base}/chat/completions`
//! (<https://platform.openai.com/docs/api-reference/chat>), and what servers make of it. Does no I/O.
mod calls;
mod details;
mod request;
mod stream;

use crate::model::Request;
use crate::model::complaint::Complaint;
use crate::model::dialect::{self, Dialect};
use crate::model::learnt::{Learnt, has_any, names};
use crate::model::reply::ReplyStream;
use crate::settings::llm::Endpoint;
use request::Reasoning;
use serde_json::{Map, Value, json};
use stream::Chunks;

/// How to talk to one server.
pub(super) struct OpenAi {
    url: String,
    learnt: Learnt,
    reasoning: Reasoning,
}

impl OpenAi {
    /// Knows nothing of the server yet.
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        Self {
            url: dialect::url(&endpoint.base_url, "/chat/completions"),
            learnt: Learnt::new(options(endpoint)),
            reasoning: Reasoning::default(),
        }
    }

    fn adapt_reasoning(&mut self, words: &str, request: &Request<'_>) -> bool {
        let sent = request::reasoning_fields(request).find(|field| names(words, field));
        let wanted = has_any(words, &["missing", "must be", "required", "expected"]);
        let style = match sent {
            Some(_) if !wanted => Reasoning::Never,
            None if !names(words, "reasoning_content") => return false,
            _ => Reasoning::Always,
        };
        let adapts = self.learnt.first_time(&format!("{style:?}"));
        if adapts {
            self.reasoning = style;
        }
        adapts
    }
}

impl Dialect for OpenAi {
    fn url(&self) -> &str {
        &self.url
    }

    fn body(&self, request: &Request<'_>) -> Vec<u8> {
        request::body(request, self.reasoning, &self.learnt)
    }

    fn adapt(&mut self, status: u16, complaint: &Complaint, request: &Request<'_>) -> bool {
        let words = complaint.haystack();
        self.learnt.adapt_images(&words, request)
            || matches!(status, 400 | 422)
                && (self.adapt_reasoning(&words, request)
                    || self.learnt.adapt_options(&words, &["stream"], other_name)
                    || self.learnt.adapt_schemas(&words, request))
    }

    fn reply(&self) -> ReplyStream {
        ReplyStream::new(Chunks::default())
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
        set("reasoning_effort", json!(dialect::effort(thinking)));
    }
    dialect::merge_extra(&mut options, endpoint);
    options
}

#[cfg(test)]
mod tests;
