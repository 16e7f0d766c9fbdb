//! JSON from outside at a bounded cost: a value in memory takes up to ninety times its text.
use serde_json::Value;

/// Values (members and elements) that are built of one event, and that are kept of one reply. The largest events restate
/// all tools of a request, some thousands of values. So many `{"a":0}` take 25 MB, objects inside objects three times that.
const VALUES_LIMIT: usize = 1 << 17;

/// How many more values may be built.
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(VALUES_LIMIT)
    }
}

/// Why text gave no value.
#[derive(Debug)]
pub(super) enum Bad {
    TooMany,
    Syntax(serde_json::Error),
}

impl Room {
    /// The value that `text` is.
    pub(super) fn parse(&mut self, text: &str) -> Result<Value, Bad> {
        self.take(values_in(text)).ok_or(Bad::TooMany)?;
        serde_json::from_str(text).map_err(Bad::Syntax)
    }

    /// A copy.
    ///
    /// # Errors
    /// [`Bad::TooMany`].
    pub(super) fn keep(&mut self, value: &Value) -> Result<Value, Bad> {
        self.take(size(value)).ok_or(Bad::TooMany)?;
        Ok(value.clone())
    }

    fn take(&mut self, values: usize) -> Option<()> {
        self.0 = self.0.checked_sub(values)?;
        Some(())
    }
}

/// The value that `text` is; half a surrogate pair in it is replaced.
pub(super) fn value(text: &str) -> Result<Value, Bad> {
    match Room::default().parse(text) {
        Err(Bad::Syntax(error)) => match mended(text) {
            Some(text) => Room::default().parse(&text),
            None => Err(Bad::Syntax(error)),
        },
        result => result,
    }
}

/// At least as many as a parser builds before it finds an error: each but the first stands behind one of these.
fn values_in(text: &str) -> usize {
    let mut lexer = Lexer::default();
    let before_value = |byte: &u8| lexer.is_outside(*byte) && matches!(byte, b'[' | b'{' | b',');
    1 + text.bytes().filter(before_value).count()
}

/// Tells strings from what is around them.
#[derive(Default)]
struct Lexer {
    in_string: bool,
    escaped: bool,
}

impl Lexer {
    /// Whether the next byte is outside of all strings; the closing quote is.
    fn is_outside(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ => {}
        }
        !self.in_string
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(size).sum::<usize>() + 1,
        Value::Object(members) => members.values().map(size).sum::<usize>() + 1,
        _ => 1,
    }
}

/// JSON with `\ufffd` for each `\uXXXX` that is half a surrogate pair, as who cuts text between UTF-16 units sends it;
/// `None` if there is none.
fn mended(text: &str) -> Option<String> {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        mended.push_str(before);
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                mended.push_str("\\ufffd");
                rest = escape.get(6..)?;
                continue;
            }
            _ => 1 + escape.chars().nth(1)?.len_utf8(),
        };
        let (whole, behind) = escape.split_at_checked(length)?;
        mended.push_str(whole);
        rest = behind;
    }
    mended.push_str(rest);
    (mended != text).then_some(mended)
}

/// The UTF-16 unit that an escape at the beginning of `text` is.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// Tells as text comes whether it may be a whole object (or one that is encoded twice), without looking at it again.
#[derive(Default)]
pub(super) struct Nesting {
    lexer: Lexer,
    depth: usize,
    /// The last byte that is no white space.
    last: u8,
}

impl Nesting {
    /// The next piece of it.
    pub(super) fn push(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if !self.lexer.is_outside(byte) => {}
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                self.last = byte;
            }
        }
    }

    /// Nothing but white space has come.
    pub(super) fn is_blank(&self) -> bool {
        self.last == 0
    }

    /// A value may come next.
    pub(super) fn awaits_value(&self) -> bool {
        !self.lexer.in_string && matches!(self.last, b':' | b'[' | b',')
    }

    /// All that was opened is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.depth == 0 && !self.lexer.in_string && matches!(self.last, b'}' | b'"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_would_take_more_memory_than_it_may_is_not_built() {
        let many = |times: usize| format!("[{}0]", "{\"a\":0},".repeat(times));
        assert!(matches!(value(&many(VALUES_LIMIT / 2)), Err(Bad::TooMany)));
        assert!(value(&many(VALUES_LIMIT / 2 - 1)).is_ok());
        assert!(value(&json!({"text": ",[{".repeat(VALUES_LIMIT)}).to_string()).is_ok(), "text is one value");
        assert!(value(&format!("{{\"a\\\"\":\"{}\"}}", "\\\",".repeat(VALUES_LIMIT))).is_ok());
    }

    #[test]
    fn what_is_built_and_what_is_kept_of_a_reply_is_counted_together() {
        let mut room = Room(7);
        let kept = room.keep(&json!({"a": [1, 2]})).unwrap();
        assert_eq!(kept, json!({"a": [1, 2]}));
        assert!(room.parse("[1,2]").is_ok());
        assert!(matches!(room.parse("1"), Err(Bad::TooMany)));
        assert!(room.keep(&json!(1)).is_err());
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced_and_nothing_else() {
        for (text, expected) in [
            (r#""a\ud83db""#, Some("a\u{fffd}b")),
            (r#""\ude00 b""#, Some("\u{fffd} b")),
            (r#""\ud83d\ud83d\ude00""#, Some("\u{fffd}\u{1f600}")),
            (r#""\ud83d\n\\ud83d""#, Some("\u{fffd}\n\\ud83d")),
            (r#""\uD83D""#, Some("\u{fffd}")),
            (r#""\ud83d"#, None),
            (r#""\ud8""#, None),
            (r#""\ud83d\x""#, None),
            (r#""\ué""#, None),
            ("\"\\", None),
        ] {
            assert_eq!(value(text).ok(), expected.map(Value::from), "{text}");
        }
        assert_eq!(mended(r#""\ud83d\ude00 \\ud83d \u00e9""#), None, "nothing to mend");
    }

    #[test]
    fn an_object_is_closed_when_its_last_brace_is() {
        for (text, closed) in [
            ("", false),
            ("{", false),
            ("{}", true),
            (r#"{"a":"}"#, false),
            (r#"{"a":"\"}"#, false),
            (r#"{"a":["}"]} "#, true),
            (r#""{\"a\":1}""#, true),
            (r#""{\"a\":1}"#, false),
        ] {
            let mut nesting = Nesting::default();
            text.split_inclusive('"').for_each(|piece| nesting.push(piece));
            assert_eq!(nesting.is_closed(), closed, "{text}");
        }
    }
}
