//! What a wire format is: how a request is written and a reply understood. Formats do no I/O.
use crate::model::Request;
use crate::model::complaint::Complaint;
use crate::model::reply::ReplyStream;
use crate::settings::Secret;
use crate::settings::llm::{Endpoint, NEVER_EXTRA, Thinking};
use serde_json::{Map, Value};

/// One format, as one server takes it; what the server turned out not to take is remembered.
pub(super) trait Dialect: Send {
    /// Where requests go.
    fn url(&self) -> &str;

    /// Headers that carry the key, and those the format asks for.
    fn headers(&self, key: Option<&Secret>) -> Vec<(&'static str, String)> {
        let bearer = |key: &Secret| ("authorization", format!("Bearer {}", key.expose()));
        key.map(bearer).into_iter().collect()
    }

    /// A request's body, JSON.
    fn body(&self, request: &Request<'_>) -> Vec<u8>;

    /// After a refusal: changes what the complaint names, for good. `false` if there is nothing to change, or it
    /// was changed before.
    fn adapt(&mut self, status: u16, complaint: &Complaint, request: &Request<'_>) -> bool;

    /// Takes the body of a good answer.
    fn reply(&self) -> ReplyStream;
}

/// Members that say how much to think, in the words of any format.
const THINKING: [&str; 3] = ["thinking", "reasoning", "reasoning_effort"];

/// Merges the user's own members into `options`, all members of a body but the conversation. One that is there is
/// replaced whole.
pub(super) fn merge_extra(options: &mut Map<String, Value>, endpoint: &Endpoint) {
    // Settings have warned of those that are left out.
    let extra = endpoint.extra_body.iter().filter(|(name, _)| !NEVER_EXTRA.contains(&name.as_str()));
    options.extend(extra.map(|(name, value)| (name.clone(), value.clone())));
}

/// The endpoint as it is asked for `model` and `thinking`. A thinking that is not the configured one was chosen later
/// than `LLM_EXTRA_BODY`, and comes before what that says of it.
pub(super) fn asked_for(configured: &Endpoint, model: &str, thinking: Option<Thinking>) -> Endpoint {
    let mut endpoint = Endpoint { model: model.to_owned(), thinking, ..configured.clone() };
    if thinking != configured.thinking {
        endpoint.extra_body.retain(|name, _| !THINKING.contains(&name.as_str()));
        if let Some(Value::Object(config)) = endpoint.extra_body.get_mut("output_config") {
            config.remove("effort");
        }
    }
    endpoint
}

/// The base URL with the path of a format behind it, unless it is there. A query stays at the end.
pub(super) fn url(base: &str, path: &str) -> String {
    let (before, query) = base.split_at(base.find('?').unwrap_or(base.len()));
    let before = before.trim_end_matches('/');
    if before.ends_with(path) { base.to_owned() } else { format!("{before}{path}{query}") }
}

/// How hard to think, in OpenAI's words; they know no budgets: the usual steps between them.
pub(super) fn effort(thinking: Thinking) -> &'static str {
    match thinking {
        Thinking::Off => "none",
        Thinking::Low | Thinking::Budget(..4096) => "low",
        Thinking::On | Thinking::Medium | Thinking::Budget(4096..16384) => "medium",
        Thinking::High | Thinking::Budget(16384..) => "high",
    }
}
