//! What can go wrong with a model call, in words for the user, and whether another try may help.
use crate::cancel::Cancelled;
use crate::model::complaint::{Complaint, WORDS_LIMIT, masked};
use crate::model::http::{HttpError, is_retried};
use crate::model::json;
use crate::model::{AssistantMessage, Failure};
use crate::settings::Secret;
use crate::text::{clean_to, one_line};
use std::time::Duration;

/// What stands in place of a reply is cut to this many characters.
const PAGE_LIMIT: usize = 200;
/// A notice is, whatever it is made of.
const NOTICE_LIMIT: usize = 2 * WORDS_LIMIT;

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
        Failure { status, message: clean_to(&message, NOTICE_LIMIT).into_owned(), too_long, unanswered }
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
            "400 Bad Request: no; the conversation is too long for this model: /compact it or start a new one",
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
    fn an_error_in_a_stream_is_found_in_every_shape() {
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
