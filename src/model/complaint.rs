//! What a provider says is wrong, wherever its answer says it, and what kind of trouble that is.
use crate::model::http::{is_retried, status_line};
use crate::model::json;
use crate::settings::Secret;
use crate::text::{clean_to, one_line};
use serde_json::Value;

/// The provider's own words are cut to this many characters.
pub(super) const WORDS_LIMIT: usize = 500;

/// What the notice ends in when the conversation is too long for the model.
const TOO_LONG: &str = "the conversation is too long for this model: /compact it or start a new one";

/// What a provider says is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Complaint {
    /// In its own words; may be empty.
    pub(super) words: String,
    /// `code`, `type`, `param` and the like, lower case, separated by blanks.
    pub(super) kind: String,
    /// A status named inside the answer.
    pub(super) status: Option<u16>,
}

impl Complaint {
    /// From the body of an answer with an error status: JSON of any shape, a page, or text.
    pub(super) fn from_body(body: &[u8]) -> Self {
        let text = String::from_utf8_lossy(body);
        match json::value(&text) {
            Ok(value) => Self::in_value(&value).unwrap_or_else(|| Self::of_words(any_words(&value))),
            Err(_) => Self::of_words(words_of_page(&text)),
        }
    }

    /// From a value that may hold an error, at the usual places; `None` if it holds none.
    pub(super) fn in_value(value: &Value) -> Option<Self> {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let complaint = match &value["error"] {
            Value::String(words) if !words.is_empty() => Self::of_words(words.clone()).kinds_of(value),
            error @ Value::Object(members) if !members.is_empty() => Self::of_object(error),
            _ if value["error_message"].is_string() => {
                let words = value["error_message"].as_str().unwrap_or_default();
                Self { kind: text_of(&value["error_type"]), ..Self::of_words(words.into()) }.kinds_of(value)
            }
            Value::Bool(true) => Self::of_object(value),
            _ if value["object"] == "error" || value["type"] == "error" => Self::of_object(value),
            _ if is_bare(value) => Self::of_object(value),
            _ if is_minimax(&value["base_resp"]) => {
                Self::of_words(text_of(&value["base_resp"]["status_msg"]))
            }
            _ => return None,
        };
        Some(complaint)
    }

    /// From a word for the end of a reply that stands for a failure, such as `network_error`.
    pub(super) fn of_reason(reason: &str) -> Self {
        let kind = reason.to_lowercase();
        Self { words: format!("the provider broke the reply off: {reason}"), kind, status: None }
    }

    /// From data that is known to be an error, JSON or not.
    pub(super) fn from_event(data: &str) -> Self {
        match json::value(data) {
            Ok(value) => Self::in_value(&value).unwrap_or_else(|| Self::of_object(&value)),
            Err(_) => Self::of_words(data.into()),
        }
    }

    /// From words alone, which say nothing of the kind.
    pub(super) fn of_words(words: String) -> Self {
        Self { words, ..Self::default() }
    }

    /// From an error object, or whatever stands in its place.
    pub(super) fn of_object(error: &Value) -> Self {
        let mut words = any_words(error);
        // OpenRouter says "Provider returned error"; what the provider said stands here.
        if let Some(raw) = error["metadata"]["raw"].as_str() {
            words = format!("{words}: {raw}");
        }
        Self::of_words(words).kinds_of(error)
    }

    /// Adds what `value` says about the kind of error.
    fn kinds_of(mut self, value: &Value) -> Self {
        for name in ["code", "type", "status", "status_code", "statusCode", "param", "error_type"] {
            let member = &value[name];
            self.status = self.status.or_else(|| status_in(member));
            let kind = text_of(member).to_lowercase();
            if !kind.is_empty() {
                self.kind = format!("{} {kind}", self.kind).trim_start().to_owned();
            }
        }
        self
    }

    /// Words and kind, lower case, to look for something in.
    pub(super) fn haystack(&self) -> String {
        format!("{} {}", self.kind, self.words).to_lowercase()
    }

    /// What is used up does not come back within a minute.
    pub(super) fn is_quota(&self) -> bool {
        self.has(&["insufficient_quota", "insufficient balance", "insufficient credit", "billing_hard_limit"])
            || self.has(&["credit balance", "billing_not_active"])
    }

    /// An error inside a stream that may be gone soon.
    pub(super) fn is_passing(&self) -> bool {
        const PASSING: &[&str] = &[
            "overloaded",
            "rate_limit",
            "server_error",
            "servererror",
            "internal_error",
            "api_error",
            "unavailable",
            "timeout",
            "too_many_requests",
            "throttl",
            "network_error",
            "insufficient_system_resource",
        ];
        const PASSING_WORDS: &[&str] = &[
            "internal server error",
            "bad gateway",
            "service unavailable",
            "gateway timeout",
            "too many requests",
            "rate limit",
            "timed out",
            "connection refused",
            "connection reset",
        ];
        let named = self.status.is_some_and(is_retried)
            || PASSING.iter().any(|kind| self.kind.contains(kind))
            || self.status.is_none() && self.has(PASSING_WORDS)
            || self.has(&["overloaded"]);
        named && !self.is_quota()
    }

    /// The conversation does not fit the model.
    pub(super) fn is_context_too_long(&self) -> bool {
        self.has(&["context_length_exceeded", "context length", "context window", "context size"])
            || self.has(&["maximum context", "prompt is too long", "input is too long", "too many tokens"])
            || self.has(&["reduce the length", "exceed_context_size", "exceed context limit"])
            || self.has(&["maximum number of tokens", "maximum prompt length", "model token limit"])
            || self.has(&["prompt token count", "range of input length"])
    }

    /// A shorter conversation may go through.
    pub(super) fn is_too_long(&self, status: Option<u16>) -> bool {
        match status {
            Some(413) => true,
            Some(429) => false, // too many tokens a minute
            _ => self.is_context_too_long(),
        }
    }

    /// The model can call no tools.
    pub(super) fn refuses_tools(&self) -> bool {
        self.has(&[
            "does not support tool",
            "not support tool use",
            "no endpoints found that support tool use",
        ]) || self.has(&["does not support function", "--enable-auto-tool-choice"])
    }

    fn has(&self, any: &[&str]) -> bool {
        let haystack = self.haystack();
        any.iter().any(|needle| haystack.contains(needle))
    }

    /// `502 Bad Gateway: its words; what to do about it`, without the key.
    pub(super) fn sentence(&self, status: Option<u16>, key: Option<&Secret>) -> String {
        let words = clean_to(&masked(one_line(&self.words), key), WORDS_LIMIT).into_owned();
        let head = status.map(status_line);
        let said = match head {
            Some(head) if words.is_empty() || head.contains(&words) => head,
            Some(head) if words.starts_with(&head) => words,
            Some(head) => format!("{head}: {words}"),
            None if words.is_empty() => "the provider reports an error without saying which".into(),
            None => words,
        };
        match self.advice(status) {
            Some(advice) => format!("{}; {advice}", said.trim_end_matches('.')),
            None => said,
        }
    }

    fn advice(&self, status: Option<u16>) -> Option<&'static str> {
        if self.is_context_too_long() {
            return Some(TOO_LONG);
        }
        match status? {
            401 => Some("check the API key (bob --login)"),
            403 => Some("the API key may not do this: check its rights and the model's name"),
            404 => Some("check the model's name and the base URL"),
            413 => Some("the request is too large: /compact the conversation or start a new one"),
            402 => Some("the account has nothing left to spend"),
            429 if self.is_quota() => Some("the account has nothing left to spend"),
            _ => None,
        }
    }
}

/// An error that no `error` holds: words and what kind of error it is, and nothing that a reply has.
fn is_bare(value: &Value) -> bool {
    let has = |names: &[&str], fits: fn(&Value) -> bool| names.iter().any(|name| fits(&value[*name]));
    let is_reply = has(&["choices", "type", "usage"], |member| !member.is_null());
    let has_words = has(&["message", "msg"], Value::is_string);
    let is_failure = has(&["code"], is_error_code)
        || has(&["status", "status_code", "statusCode"], |member| status_in(member).is_some());
    !is_reply
        && (has_words && is_failure || has(&["detail"], |member| member.is_string() || member.is_array()))
}

/// A name, or a number that does not stand for success.
fn is_error_code(code: &Value) -> bool {
    let code = text_of(code);
    let number = code.parse::<i64>();
    !code.is_empty() && !number.is_ok_and(|number| number == 0 || (200..300).contains(&number))
}

/// MiniMax answers 200 and tells in the body how it went (<https://www.minimax.io/platform/document/error-code>).
fn is_minimax(base_resp: &Value) -> bool {
    base_resp["status_code"].as_u64().is_some_and(|code| code != 0)
}

/// The message in an error object, wherever it keeps it; without one all of it.
fn any_words(error: &Value) -> String {
    for name in ["message", "detail", "error_message", "error", "msg", "errors", "title"] {
        match &error[name] {
            Value::String(words) if !words.is_empty() => return words.clone(),
            Value::Object(_) => return any_words(&error[name]),
            Value::Array(list) if !list.is_empty() => return words_of_list(list),
            _ => {}
        }
    }
    match error {
        Value::String(words) => words.clone(),
        Value::Null => String::new(),
        Value::Object(members) if members.is_empty() => String::new(),
        other => other.to_string(),
    }
}

/// `[{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]`, as validators write it.
fn words_of_list(list: &[Value]) -> String {
    let word = |entry: &Value| {
        let place: Vec<String> = entry["loc"].as_array().into_iter().flatten().map(text_of).collect();
        let words = any_words(entry);
        if place.is_empty() { words } else { format!("{}: {words}", place.join(".")) }
    };
    list.iter().map(word).collect::<Vec<_>>().join("; ")
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// A number, or text of one, that is an HTTP error status.
fn status_in(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// Text as it is; of a page only its title.
pub(super) fn words_of_page(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if !lower.trim_start().starts_with('<') {
        return text.to_owned();
    }
    let title = lower.find("<title").and_then(|at| {
        let begin = at + lower.get(at..)?.find('>')? + 1;
        let end = begin + lower.get(begin..)?.find("</title")?;
        text.get(begin..end)
    });
    title.unwrap_or_default().trim().to_owned()
}

/// `text` without the key, where there is one.
pub(super) fn masked(text: String, key: Option<&Secret>) -> String {
    match key {
        Some(key) => key.masked_in(&text),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_looks_like_an_error_is_none() {
        for fine in [
            r#"{"error":null}"#,
            r#"{"error":""}"#,
            r#"{"error":{}}"#,
            r#"{"error":false,"message":"a"}"#,
            r#"{"choices":[]}"#,
            "[]",
            r#"{"code":0,"message":"fine"}"#,
            r#"{"code":"200","msg":"fine"}"#,
            r#"{"status":"running","message":"searching"}"#,
            r#"{"type":"progress","code":1,"message":"searching"}"#,
            r#"{"base_resp":{"status_code":0,"status_msg":"success"}}"#,
        ] {
            assert_eq!(Complaint::in_value(&serde_json::from_str(fine).unwrap()), None, "{fine}");
        }
    }
}
