//! The wire format `openai-responses`: `POST {base}/responses`
//! (<https://platform.openai.com/docs/api-reference/responses>), and what servers make of it. Nothing is stored at the
//! provider: each request carries all of the conversation, reasoning encrypted. Does no I/O.
mod request;
mod stream;

use crate::model::Request;
use crate::model::came::Came;
use crate::model::complaint::Complaint;
use crate::model::dialect::{self, Dialect};
use crate::model::learnt::{Learnt, has_any};
use crate::model::reply::ReplyStream;
use crate::settings::llm::{Endpoint, Thinking};
use serde_json::{Map, Value, json};
use stream::Items;

/// How a reply's output items are kept.
const CAME: Came = Came {
    member: "responses_output",
    call: "function_call",
    of_call: &["call_id", "name", "arguments"],
    reasoning: &["reasoning"],
};

/// How to talk to one server.
pub(super) struct Responses {
    url: String,
    learnt: Learnt,
}

impl Responses {
    /// Knows nothing of the server yet.
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        let url = dialect::url(&endpoint.base_url, "/responses");
        Self { url, learnt: Learnt::new(options(endpoint)) }
    }

    /// Reasoning can be read by one model and one account, and stands before what it led to.
    fn adapt_reasoning_items(&mut self, words: &str, request: &Request<'_>) -> bool {
        const ABOUT_ITEMS: &[&str] = &[
            "invalid_encrypted_content",
            "could not be decrypted",
            "required following item",
            "not persisted",
            "item with id",
        ];
        has_any(words, ABOUT_ITEMS)
            && CAME.has_reasoning(request, self.learnt.reasoning_from)
            && self.learnt.forget_reasoning(request)
    }

    /// A model that does not reason has nothing to encrypt.
    fn adapt_include(&mut self, words: &str) -> bool {
        has_any(words, &["encrypted content is not supported", "encrypted_content"])
            && self.learnt.first_time("include")
            && self.learnt.options.remove("include").is_some()
    }

    /// Summaries are for accounts that showed who they are.
    fn adapt_summary(&mut self, words: &str) -> bool {
        words.contains("summar")
            && self.learnt.first_time("summary")
            && match self.learnt.options.get_mut("reasoning") {
                Some(Value::Object(reasoning)) => reasoning.remove("summary").is_some(),
                _ => false,
            }
    }
}

impl Dialect for Responses {
    fn url(&self) -> &str {
        &self.url
    }

    fn body(&self, request: &Request<'_>) -> Vec<u8> {
        request::body(request, &self.learnt)
    }

    fn adapt(&mut self, status: u16, complaint: &Complaint, request: &Request<'_>) -> bool {
        let words = complaint.haystack();
        // Items that are not found at the provider are answered with 404.
        let about_request = matches!(status, 400 | 422);
        self.learnt.adapt_images(&words, request)
            || (about_request || status == 404) && self.adapt_reasoning_items(&words, request)
            || about_request
                && (self.adapt_include(&words)
                    || self.adapt_summary(&words)
                    || self.learnt.adapt_options(&words, &["stream", "store"], |_| None)
                    || self.learnt.adapt_schemas(&words, request))
    }

    fn reply(&self) -> ReplyStream {
        ReplyStream::new(Items::default())
    }
}

/// All members of a body but the conversation.
fn options(endpoint: &Endpoint) -> Map<String, Value> {
    let mut options = Map::new();
    let mut set = |name: &str, value: Value| drop(options.insert(name.to_owned(), value));
    set("stream", json!(true));
    set("store", json!(false));
    set("include", json!(["reasoning.encrypted_content"]));
    if let Some(limit) = endpoint.max_tokens {
        set("max_output_tokens", json!(limit));
    }
    if let Some(temperature) = endpoint.temperature {
        set("temperature", json!(temperature));
    }
    match endpoint.thinking {
        None => {}
        Some(Thinking::Off) => set("reasoning", json!({"effort": dialect::effort(Thinking::Off)})),
        Some(thinking) => {
            set("reasoning", json!({"effort": dialect::effort(thinking), "summary": "auto"}));
        }
    }
    dialect::merge_extra(&mut options, endpoint);
    options
}

#[cfg(test)]
mod tests;
