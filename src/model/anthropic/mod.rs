//! The wire format `anthropic-messages`: `POST {base}/v1/messages`
//! (<https://docs.anthropic.com/en/api/messages>), and what servers make of it. Does no I/O.
mod options;
mod request;
mod stream;

use crate::model::Request;
use crate::model::came::Came;
use crate::model::complaint::Complaint;
use crate::model::dialect::{self, Dialect};
use crate::model::learnt::{Learnt, has_any, names};
use crate::model::reply::ReplyStream;
use crate::settings::Secret;
use crate::settings::llm::Endpoint;
use stream::Blocks;

/// How a reply's content blocks are kept.
const CAME: Came = Came {
    member: "anthropic_content",
    call: "tool_use",
    of_call: &["id", "name", "input"],
    reasoning: &["thinking", "redacted_thinking"],
};

/// How to talk to one server.
pub(super) struct Anthropic {
    url: String,
    learnt: Learnt,
    /// `cache_control` is not sent.
    no_cache: bool,
}

impl Anthropic {
    /// Knows nothing of the server yet.
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        Self { url: url(&endpoint.base_url), learnt: Learnt::new(options::of(endpoint)), no_cache: false }
    }

    /// A signature holds for one model, and not for ever.
    fn adapt_thinking_blocks(&mut self, words: &str, request: &Request<'_>) -> bool {
        has_any(words, &["signature", "cannot be modified"])
            && CAME.has_reasoning(request, self.learnt.reasoning_from)
            && self.learnt.forget_reasoning(request)
    }

    /// The newest models take no budget, the older ones nothing else.
    fn adapt_thinking(&mut self, words: &str) -> bool {
        words.contains("adaptive")
            && options::has_budget(&self.learnt.options)
            && self.learnt.first_time("adaptive thinking")
            && options::make_adaptive(&mut self.learnt.options)
    }

    fn adapt_limit(&mut self, words: &str) -> bool {
        names(words, "max_tokens")
            && self.learnt.first_time("max_tokens")
            && options::lower_limit(&mut self.learnt.options, words)
    }

    fn adapt_cache(&mut self, words: &str) -> bool {
        let adapts = names(words, "cache_control") && self.learnt.first_time("cache_control");
        self.no_cache |= adapts;
        adapts
    }
}

impl Dialect for Anthropic {
    fn url(&self) -> &str {
        &self.url
    }

    /// Anthropic's keys go as `x-api-key`, its OAuth tokens (`sk-ant-oat…`) as bearer. Any other key goes both ways:
    /// gateways and local servers look at the one or the other.
    fn headers(&self, key: Option<&Secret>) -> Vec<(&'static str, String)> {
        let mut headers = vec![("anthropic-version", "2023-06-01".to_owned())];
        let Some(key) = key.map(Secret::expose) else { return headers };
        let token = key.starts_with("sk-ant-oat");
        if token {
            headers.push(("anthropic-beta", "oauth-2025-04-20".to_owned()));
        } else {
            headers.push(("x-api-key", key.to_owned()));
        }
        if token || !key.starts_with("sk-ant-") {
            headers.push(("authorization", format!("Bearer {key}")));
        }
        headers
    }

    fn body(&self, request: &Request<'_>) -> Vec<u8> {
        request::body(request, &self.learnt, !self.no_cache)
    }

    fn adapt(&mut self, status: u16, complaint: &Complaint, request: &Request<'_>) -> bool {
        let words = complaint.haystack();
        self.learnt.adapt_images(&words, request)
            || matches!(status, 400 | 422)
                && !complaint.is_context_too_long() // its words name `max_tokens`
                && (self.adapt_thinking_blocks(&words, request)
                    || self.adapt_thinking(&words)
                    || self.adapt_limit(&words)
                    || self.adapt_cache(&words)
                    || self.learnt.adapt_options(&words, &["stream", "max_tokens"], |_| None)
                    || self.learnt.adapt_schemas(&words, request))
    }

    fn reply(&self) -> ReplyStream {
        ReplyStream::new(Blocks::default())
    }
}

/// `/v1` once, however the base URL is written.
fn url(base: &str) -> String {
    let path = base.split('?').next().unwrap_or_default().trim_end_matches('/');
    let whole = path.ends_with("/v1") || path.ends_with("/messages");
    dialect::url(base, if whole { "/messages" } else { "/v1/messages" })
}

#[cfg(test)]
mod tests;
