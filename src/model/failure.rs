//! What can go wrong with a model call, in words for the user, and whether another try may help.
use crate::cancel::Cancelled;
use crate::model::http::{HttpError, is_retried, status_line};
use crate::model::json;
use crate::model::{AssistantMessage, Failure};
use crate::settings::Secret;
use crate::text::{clean_to, one_line};
use serde_json::Value;
use std::time::Duration;

/// The provider's own words are cut to this many characters.
const WORDS_LIMIT: usize = 500;
/// What stands in place of a reply is cut to this many.
const PAGE_LIMIT: usize = 200;

/// What the notice ends in when the conversation is too long for the model.
const TOO_LONG: &str = "the conversation is too long for this model: /compact it or start a new one";

/// One try of a model call that did not give a whole reply.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) trouble: Trouble,
    /// What had been heard by then.
    pub(super) partial: AssistantMessage,
}

/// Why a try did not give a whole reply.
#[derive(Debug, PartialEq)]
pub(super) enum Trouble {
    /// The token was cancelled.
    Cancelled,
    /// No answer, or one that broke off.
    Http(HttpError),
    /// An answer with an error status.
    Status {
        status: u16,
        complaint: Complaint,
        /// What the answer said about the time of the next try.
        retry_after: Option<Duration>,
    },
    /// An error inside an answer that began well.
    Told(Complaint),
    /// An event that can't be read: what it said is lost.
    Damaged,
    /// The answer broke off in the middle.
    CutOff,
    /// Neither text nor calls, and no reason for that.
    Empty,
    /// Something else than a reply: a page's title, or the beginning of it.
    NoReply(String),
    /// Past a limit; the limit in words.
    TooLarge(&'static str),
    /// Something the user has to change, in words.
    Unusable(String),
}

/// When another try may help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    Never,
    /// After a time that grows with each try.
    Later,
    /// After the time that the provider names.
    After(Duration),
    /// As `Later`, but no more than once.
    Once,
}

impl From<json::Bad> for Trouble {
    fn from(bad: json::Bad) -> Self {
        match bad {
            json::Bad::TooMany => Self::TooLarge("131,072 JSON values"),
            json::Bad::Syntax(_) => Self::Damaged,
        }
    }
}

impl Trouble {
    /// When another try may help.
    pub(super) fn retry(&self) -> Retry {
        match self {
            Self::Http(HttpError::NoAnswer(_) | HttpError::Broken(_)) => Retry::Later,
            Self::Http(HttpError::Silence(_)) => Retry::Once,
            Self::Status { status, complaint, retry_after } => {
                let later = retry_after.map_or(Retry::Later, Retry::After);
                let retried = is_retried(*status) && !complaint.is_quota();
                if retried { later } else { Retry::Never }
            }
            Self::Told(complaint) if complaint.is_passing() => Retry::Later,
            Self::Damaged | Self::CutOff | Self::Empty => Retry::Later,
            Self::Cancelled | Self::Http(HttpError::Cancelled | HttpError::Unusable(_)) => Retry::Never,
            Self::Told(_) | Self::NoReply(_) | Self::TooLarge(_) | Self::Unusable(_) => Retry::Never,
        }
    }

    /// It in words, without the key.
    pub(super) fn into_failure(self, key: Option<&Secret>) -> Failure {
        let unanswered = matches!(self, Self::Http(HttpError::NoAnswer(_)));
        let too_long = match &self {
            Self::Status { status, complaint, .. } => complaint.is_too_long(Some(*status)),
            Self::Told(complaint) => complaint.is_too_long(complaint.status),
            _ => false,
        };
        let (status, message) = match self {
            Self::Cancelled => (None, HttpError::Cancelled.to_string()),
            Self::Http(error) => (None, error.to_string()),
            Self::Status { status, complaint, .. } => (Some(status), complaint.sentence(Some(status), key)),
            Self::Told(complaint) => (complaint.status, complaint.sentence(complaint.status, key)),
            Self::Damaged => (None, "the reply came damaged: a piece of it can't be read".into()),
            Self::CutOff => (None, "the reply was cut off: the connection ended before it was whole".into()),
            Self::Empty => (None, "the model gave an empty answer".into()),
            Self::NoReply(what) => (
                None,
                format!(
                    "the endpoint's answer is no model reply: {}; check the base URL (it usually ends in /v1)",
                    clean_to(&masked(what, key), PAGE_LIMIT)
                ),
            ),
            Self::TooLarge(limit) => (None, format!("the reply is too large: more than {limit}")),
            Self::Unusable(what) => (None, what),
        };
        let message = masked(one_line(&message), key);
        Failure { status, message: clean_to(&message, 2 * WORDS_LIMIT).into_owned(), too_long, unanswered }
    }
}

impl From<HttpError> for Trouble {
    fn from(error: HttpError) -> Self {
        match error {
            HttpError::Cancelled => Self::Cancelled,
            other => Self::Http(other),
        }
    }
}

impl From<Cancelled> for Trouble {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

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

    /// From a word for the end of a reply that is a failure's.
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

    fn of_words(words: String) -> Self {
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
    fn is_quota(&self) -> bool {
        self.has(&["insufficient_quota", "insufficient balance", "insufficient credit", "billing_hard_limit"])
            || self.has(&["credit balance", "billing_not_active"])
    }

    /// An error inside a stream that may be gone soon.
    fn is_passing(&self) -> bool {
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
    fn is_too_long(&self, status: Option<u16>) -> bool {
        match status {
            Some(413) => true,
            Some(429) => false, // too many tokens a minute
            _ => self.is_context_too_long(),
        }
    }

    fn has(&self, any: &[&str]) -> bool {
        let haystack = self.haystack();
        any.iter().any(|needle| haystack.contains(needle))
    }

    /// `502 Bad Gateway: its words; what to do about it`, without the key.
    fn sentence(&self, status: Option<u16>, key: Option<&Secret>) -> String {
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

/// An error without any dress: words and what kind of error it is, and nothing that a reply has.
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

fn masked(text: String, key: Option<&Secret>) -> String {
    match key {
        Some(key) => key.masked_in(&text),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, body: &str, message: &str, retry: Retry) {
        let complaint = Complaint::from_body(body.as_bytes());
        let trouble = Trouble::Status { status, complaint, retry_after: None };
        assert_eq!(trouble.retry(), retry);
        let failure = trouble.into_failure(Some(&Secret::new("sk-secret")));
        assert_eq!((failure.status, failure.message.as_str()), (Some(status), message));
    }

    #[test]
    fn a_status_comes_with_its_words_and_what_to_do() {
        check(502, "", "502 Bad Gateway", Retry::Later);
        check(502, "<html><head><TITLE>502 Bad Gateway</TITLE></head>…", "502 Bad Gateway", Retry::Later);
        check(503, "<!doctype html><p>x", "503 Service Unavailable", Retry::Later);
        check(500, "oops\nagain", "500 Internal Server Error: oops again", Retry::Later);
        check(
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-secret."}}"#,
            "401 Unauthorized: Incorrect API key provided: ***; check the API key (bob --login)",
            Retry::Never,
        );
        check(
            404,
            r#"{"error":"model \"x\" not found"}"#,
            "404 Not Found: model \"x\" not found; check the model's name and the base URL",
            Retry::Never,
        );
        check(
            400,
            r#"{"error":{"message":"no","code":"context_length_exceeded"}}"#,
            &format!("400 Bad Request: no; {TOO_LONG}"),
            Retry::Never,
        );
        check(
            422,
            r#"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#,
            "422 Unprocessable Entity: body.stream_options: Extra inputs are not permitted",
            Retry::Never,
        );
        check(
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            "529: Overloaded",
            Retry::Later,
        );
        check(400, r#"[{"error":{"code":400,"message":"bad"}}]"#, "400 Bad Request: bad", Retry::Never);
    }

    /// The words are cut, and the key may stand where.
    #[test]
    fn no_piece_of_the_key_is_told_wherever_it_stands() {
        let key = Secret::new("sk-0123456789abcdefghij");
        for before in 0..2 * WORDS_LIMIT {
            let words = format!("{} {} and more", "x".repeat(before), key.expose());
            let complaint = Complaint::of_words(words.clone());
            let told = Trouble::Told(complaint.clone());
            let status = Trouble::Status { status: 401, complaint, retry_after: None };
            for trouble in [told, status, Trouble::NoReply(words)] {
                let message = trouble.into_failure(Some(&key)).message;
                assert!(!message.contains("sk-"), "{before}: {message}");
            }
        }
    }

    #[test]
    fn a_limit_of_rate_is_waited_for_and_one_of_money_is_not() {
        check(429, r#"{"error":{"message":"slow down"}}"#, "429 Too Many Requests: slow down", Retry::Later);
        check(
            429,
            r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
            "429 Too Many Requests: You exceeded your current quota; the account has nothing left to spend",
            Retry::Never,
        );
    }

    #[test]
    fn an_error_in_a_stream_is_found_in_every_dress() {
        for (data, words, retry) in [
            (r#"{"error":{"message":"boom","code":502}}"#, "502 Bad Gateway: boom", Retry::Later),
            (r#"{"error":{"message":"boom","code":"server_error"}}"#, "boom", Retry::Later),
            (r#"{"error":"model overloaded"}"#, "model overloaded", Retry::Later),
            (r#"{"error":"no such tool"}"#, "no such tool", Retry::Never),
            (r#"{"error":true,"message":"bad"}"#, "bad", Retry::Never),
            (r#"{"error":"upstream: Bad Gateway"}"#, "upstream: Bad Gateway", Retry::Later),
            (
                r#"{"error":{"message":"rate limit of 400","code":400}}"#,
                "400 Bad Request: rate limit of 400",
                Retry::Never,
            ),
            (r#"{"code":"1302","message":"slow down"}"#, "slow down", Retry::Never),
            (r#"{"status":503,"message":"later"}"#, "503 Service Unavailable: later", Retry::Later),
            (r#"{"detail":"worker died"}"#, "worker died", Retry::Never),
            (r#"{"base_resp":{"status_code":1004,"status_msg":"login fail"}}"#, "login fail", Retry::Never),
            (r#"{"error_type":"rate_limit","error_message":"slow"}"#, "slow", Retry::Later),
            (r#"{"object":"error","message":"bad","code":400}"#, "400 Bad Request: bad", Retry::Never),
        ] {
            let complaint = Complaint::in_value(&serde_json::from_str(data).unwrap()).unwrap();
            let told = Trouble::Told(complaint);
            assert_eq!(told.retry(), retry, "{data}");
            assert_eq!(told.into_failure(None).message, words);
        }
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

    #[test]
    fn a_notice_is_one_line_of_bounded_length() {
        let complaint = Complaint::from_body("x\u{1b}[31m ".repeat(5000).as_bytes());
        let message = Trouble::Told(complaint).into_failure(None).message;
        assert!(message.len() < 8 * WORDS_LIMIT && !message.contains('\u{1b}'), "{message}");
    }

    #[test]
    fn a_conversation_that_is_too_long_is_known_by_its_failure() {
        for (status, words, too_long) in [
            (400, "This model's maximum context length is 8192 tokens", true),
            (400, "prompt is too long: 210000 tokens > 200000 maximum", true),
            (400, "the request exceeds the available context size", true),
            (400, "The input token count (9) exceeds the maximum number of tokens allowed (8).", true),
            (400, "This model's maximum prompt length is 8 but the request contains 9 tokens.", true),
            (413, "", true),
            (429, "too many tokens per minute", false),
            (400, "no such model", false),
        ] {
            let complaint = Complaint::of_words(words.into());
            let failure = Trouble::Status { status, complaint, retry_after: None }.into_failure(None);
            assert_eq!(failure.too_long, too_long, "{failure:?}");
        }
    }
}
