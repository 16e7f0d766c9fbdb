//! JSON-RPC 2.0 (jsonrpc.org/specification): ids, errors, and what one line is.
use crate::text::{TITLE_CHARACTERS, clean};
use crate::wire::params::{clear_members, is_null, members};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// Deepest nesting of arrays and objects a line may have: serde_json's own limit.
const DEEPEST: usize = 128;

/// A request's id, echoed as it was sent: `1` and `"1"` differ, and a number keeps all its digits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Id {
    /// An integer, in the digits it was written with.
    Number(Box<str>),
    /// A string.
    Text(Box<str>),
}

impl Id {
    /// `None`: neither an integer nor a string.
    pub fn from_json(raw: &str) -> Option<Self> {
        if raw.starts_with('"') {
            return Some(Self::Text(serde_json::from_str(raw).ok()?));
        }
        let digits = raw.strip_prefix('-').unwrap_or(raw);
        let integer = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        integer.then(|| Self::Number(raw.into()))
    }
}

/// As a value: a number that has more digits than one keeps, or is written unlike one (`-0`), as a text.
impl From<&Id> for Value {
    fn from(id: &Id) -> Self {
        match id {
            Id::Text(text) => Self::from(&**text),
            Id::Number(digits) => {
                let number = digits.parse::<i64>().ok().filter(|number| number.to_string() == **digits);
                number.map_or_else(|| Self::from(&**digits), Self::from)
            }
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(digits) => f.write_str(digits),
            Self::Text(text) => f.write_str(&Value::from(&**text).to_string()),
        }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // Digits beyond 64 bits would not survive as a number type.
            Self::Number(digits) => RawValue::from_string(digits.to_string())
                .map_err(serde::ser::Error::custom)?
                .serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

/// An error object. Codes: JSON-RPC's own and those of `wire.md`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RpcError {
    /// See the constructors.
    pub code: i32,
    /// Tells a person what to do; many clients show nothing else.
    pub message: String,
    /// For a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same with `data`.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The same with the session it is about, beside what `data` holds.
    #[must_use]
    pub fn about_session(mut self, id: &str) -> Self {
        let data = self.data.get_or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(members) = data {
            members.insert("sessionId".into(), id.into());
        }
        self
    }

    /// `-32700`: the line is no JSON.
    pub fn parse(why: impl fmt::Display) -> Self {
        Self::new(-32700, format!("Parse error: {why}"))
    }

    /// `-32600`: JSON, but no request, or one that can't be taken now.
    pub fn invalid_request(why: impl Into<String>) -> Self {
        Self::new(-32600, why)
    }

    /// `-32601`, `data.method`; one longer than any method is told as a title is.
    pub fn method_not_found(method: &str) -> Self {
        let is_long = method.chars().nth(TITLE_CHARACTERS).is_some();
        let method = if is_long { clean(method) } else { method.into() };
        Self::new(-32601, "Method not found").with_data(serde_json::json!({ "method": method }))
    }

    /// Whether it is a [`method_not_found`](Self::method_not_found).
    pub fn is_method_not_found(&self) -> bool {
        self.code == -32601
    }

    /// `-32602`, `data.field` naming the member.
    pub fn invalid_params(field: &str, why: &str) -> Self {
        Self::new(-32602, format!("Invalid params: {field}: {why}"))
            .with_data(serde_json::json!({ "field": field }))
    }

    /// `-32602` for an id that names no session, `data.sessionId`.
    pub fn unknown_session(id: &str) -> Self {
        Self::new(-32602, format!("Invalid params: sessionId: no session {id}; open one first"))
            .with_data(serde_json::json!({ "field": "sessionId", "sessionId": id }))
    }

    /// `-32603`.
    pub fn internal(why: impl Into<String>) -> Self {
        Self::new(-32603, why)
    }

    /// `-32000`: there is no usable model configuration.
    pub fn auth_required(why: impl Into<String>) -> Self {
        Self::new(-32000, why)
    }

    /// `-32002`: before `initialize`.
    pub fn not_initialized(method: &str) -> Self {
        Self::new(-32002, format!("{method} called before initialize"))
    }

    /// `-32800`: the request was cancelled.
    pub fn cancelled() -> Self {
        Self::new(-32800, "Request cancelled")
    }
}

/// What one line of input is.
#[derive(Debug)]
pub enum Message<'a> {
    /// To be answered.
    Request {
        /// Echoed in the answer.
        id: Id,
        /// Known or not.
        method: Cow<'a, str>,
        /// As written; absent and null are the same.
        params: Option<&'a RawValue>,
    },
    /// Never answered.
    Notification {
        /// Known or not.
        method: Cow<'a, str>,
        /// As written; absent and null are the same.
        params: Option<&'a RawValue>,
    },
    /// The client's answer to a request of ours.
    Answer {
        /// `None`: it names no request.
        id: Option<Id>,
        /// Its result, or the error object.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
    /// Neither. Answered with an error, under `id` where there is a usable one.
    Bad {
        /// `None` is answered as null.
        id: Option<Id>,
        /// Why.
        error: RpcError,
    },
}

/// Reads one line, in the order of `wire.md`: JSON, an object, `jsonrpc`, `id`, `method` or an answer.
pub fn parse(line: &[u8]) -> Message<'_> {
    let bad = |error| Message::Bad { id: None, error };
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(e) => return bad(RpcError::parse(e)),
    };
    if nests_deeper_than(line, DEEPEST) {
        return bad(RpcError::parse(format_args!("nested deeper than {DEEPEST}")));
    }
    let raw: &RawValue = match serde_json::from_str(text) {
        Ok(raw) => raw,
        Err(e) => return bad(RpcError::parse(e)),
    };
    let Ok([version, id, method, params, result, error]) =
        members(raw, ["jsonrpc", "id", "method", "params", "result", "error"])
    else {
        return bad(RpcError::invalid_request("Invalid request: not an object"));
    };
    let parsed_id = id.filter(|id| !is_null(id)).map(|id| Id::from_json(id.get()));
    let usable_id = || parsed_id.clone().flatten();
    let invalid = |id, why: &str| Message::Bad {
        id,
        error: RpcError::invalid_request(format!("Invalid request: {why}")),
    };
    if version.and_then(|v| serde_json::from_str::<Cow<'_, str>>(v.get()).ok()).as_deref() != Some("2.0") {
        return invalid(usable_id(), "jsonrpc is not \"2.0\"");
    }
    if parsed_id == Some(None) {
        return invalid(None, "id is neither an integer nor a string");
    }
    let id = usable_id();
    if let Some(method) = method.filter(|method| !is_null(method)) {
        let params = params.filter(|params| !is_null(params));
        return match (serde_json::from_str(method.get()), id) {
            (Ok(method), Some(id)) => Message::Request { id, method, params },
            (Ok(method), None) => Message::Notification { method, params },
            (Err(_), id) => invalid(id, "method is not a string"),
        };
    }
    match (error, result) {
        // Two results are none.
        (_, Some(result)) if clear_members(raw, ["result"]).is_err() => {
            Message::Answer { id, outcome: Err(result) }
        }
        // A null beside a result is how some clients say that there is no error.
        (Some(error), Some(result)) if is_null(error) => Message::Answer { id, outcome: Ok(result) },
        (Some(error), _) => Message::Answer { id, outcome: Err(error) },
        (None, Some(result)) => Message::Answer { id, outcome: Ok(result) },
        (None, None) => invalid(id, "neither method nor result nor error"),
    }
}

/// The id that the beginning of a line too long to be read shows, in case it is an answer.
pub fn id_in_beginning(beginning: &[u8]) -> Option<Id> {
    let text = String::from_utf8_lossy(beginning);
    let value = text.split("\"id\"").nth(1)?.trim_start().strip_prefix(':')?.trim_start();
    let end = match value.strip_prefix('"') {
        Some(rest) => rest.find('"')? + 2,
        None => value.find(|c: char| c != '-' && !c.is_ascii_digit())?,
    };
    Id::from_json(value.get(..end)?)
}

/// Whether JSON text has more brackets open at once. One pass, no recursion: the parser skips values without counting.
pub(crate) fn nests_deeper_than(line: &[u8], limit: usize) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// A notification of ours as a line, without the newline.
pub fn notification(method: &str, params: &impl Serialize) -> String {
    to_line(&Outgoing { jsonrpc: "2.0", id: None::<&Id>, method, params })
}

/// A request of ours as a line.
pub fn request(id: &Id, method: &str, params: &impl Serialize) -> String {
    to_line(&Outgoing { jsonrpc: "2.0", id: Some(id), method, params })
}

/// An answer of ours with a result, as a line.
pub fn success(id: &Id, result: &impl Serialize) -> String {
    to_line(&Success { jsonrpc: "2.0", id, result })
}

/// An answer of ours with an error, as a line; without an id it is null.
pub fn failure(id: Option<&Id>, error: &RpcError) -> String {
    to_line(&Failure { jsonrpc: "2.0", id, error })
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct Success<'a, R> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: &'a R,
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: Option<&'a Id>,
    error: &'a RpcError,
}

/// Room for the line of an ordinary delta.
const LINE: usize = 384;

fn to_line(message: &impl Serialize) -> String {
    let mut line = Vec::with_capacity(LINE);
    serde_json::to_writer(&mut line, message).expect("our own types have string keys and finite numbers");
    String::from_utf8(line).expect("serde_json writes UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn bad(line: &str, code: i32, id: Option<&str>) {
        match parse(line.as_bytes()) {
            Message::Bad { id: got, error } => {
                assert_eq!((error.code, got.map(|id| id.to_string()).as_deref()), (code, id), "{line}");
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_the_order_of_the_checks() {
        bad("{oops", -32700, None);
        bad("", -32700, None);
        bad("{\"a\":1} x", -32700, None);
        bad("\u{feff}{}", -32700, None);
        bad("[]", -32600, None);
        bad("\"x\"", -32600, None);
        bad("{}", -32600, None);
        bad(r#"{"jsonrpc":"1.0","id":1.5,"method":"m"}"#, -32600, None);
        bad(r#"{"jsonrpc":2.0,"id":3,"method":"m"}"#, -32600, Some("3"));
        bad(r#"{"jsonrpc":"2.0","id":1.0,"method":"m"}"#, -32600, None);
        bad(r#"{"jsonrpc":"2.0","id":1e3,"method":"m"}"#, -32600, None);
        bad(r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, -32600, None);
        bad(r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, -32600, None);
        bad(r#"{"jsonrpc":"2.0","id":7,"method":5}"#, -32600, Some("7"));
        bad(r#"{"jsonrpc":"2.0","id":7}"#, -32600, Some("7"));
        assert!(
            matches!(parse(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}"), Message::Bad { error, .. } if error.code == -32700)
        );
    }

    #[test]
    fn deep_nesting_is_no_json_of_ours() {
        let nested = |depth: usize| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{}{}}}"#,
                "[".repeat(depth),
                "]".repeat(depth)
            )
        };
        assert!(matches!(parse(nested(127).as_bytes()), Message::Request { .. }));
        bad(&nested(128), -32700, None);
        bad(&nested(100_000), -32700, None);
        let brackets_in_text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "[\\\"".repeat(200));
        assert!(matches!(parse(brackets_in_text.as_bytes()), Message::Request { .. }));
    }

    #[test]
    fn ids_come_back_as_they_were_sent() {
        for id in
            ["\"a\"", "0", "-0", "-7", "9007199254740993", "123456789012345678901234567890", "\"1\"", "\"\""]
        {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            let Message::Request { id: parsed, .. } = parse(line.as_bytes()) else { panic!("{line}") };
            assert_eq!(success(&parsed, &()), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#));
        }
        assert_ne!(Id::from_json("1"), Id::from_json("\"1\""));
        for (id, value) in
            [("-7", "-7"), ("-0", "\"-0\""), ("12345678901234567890", "\"12345678901234567890\"")]
        {
            assert_eq!(Value::from(&Id::from_json(id).unwrap()).to_string(), value);
        }
    }

    #[test]
    fn an_unknown_method_comes_back_but_not_all_of_a_long_one() {
        let told = |method: &str| RpcError::method_not_found(method).data.unwrap()["method"].to_string();
        assert_eq!(told("a\u{7f}"), "\"a\u{7f}\"");
        assert_eq!(told(&"x".repeat(1 << 20)), format!("\"{}… (+1048376)\"", "x".repeat(200)));
    }

    #[test]
    fn null_counts_as_absent() {
        let line = br#"{"jsonrpc":"2.0","id":null,"method":"m","params":null}"#;
        assert!(matches!(parse(line), Message::Notification { params: None, .. }));
        let line = br#"{"jsonrpc":"2.0","id":"srv_1","result":null}"#;
        assert!(matches!(parse(line), Message::Answer { outcome: Ok(_), .. }));
        let line = br#"{"jsonrpc":"2.0","id":null,"error":{"code":1}}"#;
        assert!(matches!(parse(line), Message::Answer { id: None, outcome: Err(_) }));
        let line = br#"{"jsonrpc":"2.0","id":5,"method":null,"result":1}"#;
        assert!(matches!(parse(line), Message::Answer { id: Some(_), outcome: Ok(_) }));
        bad(r#"{"jsonrpc":"2.0","id":7,"method":null}"#, -32600, Some("7"));
    }

    #[test]
    fn two_results_are_no_clear_one() {
        let line = br#"{"jsonrpc":"2.0","id":"srv_1","result":1,"result":2}"#;
        assert!(matches!(parse(line), Message::Answer { outcome: Err(_), .. }));
        let line = br#"{"jsonrpc":"2.0","id":"srv_1","result":1,"result":2,"error":null}"#;
        assert!(matches!(parse(line), Message::Answer { outcome: Err(_), .. }));
    }

    #[test]
    fn a_lone_surrogate_in_a_text_does_not_lose_the_id() {
        let line = br#"{"jsonrpc":"2.0","id":5,"method":"m","params":{"\ud800":"\ud800"}}"#;
        assert!(matches!(parse(line), Message::Request { id, .. } if id.to_string() == "5"));
    }

    #[test]
    fn the_id_of_a_line_too_long_is_found_in_its_beginning() {
        for (beginning, id) in [
            (r#"{"jsonrpc":"2.0","id":"srv_3","result":{"a"#, Some("\"srv_3\"")),
            (r#"{"id" : 12 ,"x"#, Some("12")),
            (r#"{"jsonrpc":"2.0","#, None),
            (r#"{"id":"#, None),
            (r#"{"id":12"#, None),
        ] {
            assert_eq!(
                id_in_beginning(beginning.as_bytes()).map(|id| id.to_string()).as_deref(),
                id,
                "{beginning}"
            );
        }
    }
}
