//! Tool calls as all wire formats share them: arguments, ids, names.
use crate::model::json::{Nesting, Room};
use crate::model::{Arguments, Call};
use crate::wire::jsonrpc::nests_deeper_than;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;
use ulid::Ulid;

/// Deeper arguments are none: they go to the client inside messages of ours, and its parser has a limit too.
const DEEPEST: usize = 64;
/// Longer arguments, in bytes, are none: they are shown, saved and sent back with every request.
const LONGEST_ARGUMENTS: usize = 8 << 20;
/// The longest name or id that every provider takes.
const LONGEST: usize = 64;

/// Nothing and `null` are no arguments; text inside text is looked into once. What `room` does not hold is invalid.
pub(super) fn arguments(text: &str, room: &mut Room) -> Arguments {
    let invalid = || Arguments::Invalid(text.to_owned());
    let nothing = |text: &str| matches!(text.trim(), "" | "null");
    if nothing(text) {
        return Arguments::Object(Map::new());
    }
    match parsed(text, room) {
        Some(Value::Object(members)) => Arguments::Object(members),
        Some(Value::String(inner)) if nothing(&inner) => Arguments::Object(Map::new()),
        Some(Value::String(inner)) => match parsed(&inner, room) {
            Some(Value::Object(members)) => Arguments::Object(members),
            _ => invalid(),
        },
        _ => invalid(),
    }
}

fn parsed(text: &str, room: &mut Room) -> Option<Value> {
    if text.len() > LONGEST_ARGUMENTS || nests_deeper_than(text.as_bytes(), DEEPEST) {
        return None;
    }
    room.parse(text).ok()
}

/// Arguments as a piece of text, also where a server sends them as a value.
pub(super) fn arguments_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The arguments of a call while they come, in pieces. Servers repeat themselves: each piece begins with all that came
/// before, or the last one is all of it once more.
#[derive(Default)]
pub(super) struct PartialArguments {
    text: String,
    nesting: Nesting,
    /// Where a piece began like all before it, and an object could stand there too: all pieces joined. This is what counts
    /// if `text`, which begins with that piece, comes to no arguments.
    joined: Option<String>,
}

impl PartialArguments {
    /// Nothing but white space came.
    pub(super) fn is_blank(&self) -> bool {
        self.nesting.is_blank()
    }

    /// Nothing is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.nesting.is_closed() || self.text == "null"
    }

    /// What they are; see [`arguments`].
    pub(super) fn read(&self, room: &mut Room) -> Arguments {
        match (arguments(&self.text, room), &self.joined) {
            (Arguments::Invalid(_), Some(joined)) => arguments(joined, room),
            (read, _) => read,
        }
    }

    /// The next piece.
    pub(super) fn push(&mut self, piece: &str) {
        if self.is_restated_by(piece) {
            return;
        }
        if self.is_begun_again_by(piece) {
            if self.nesting.awaits_value() {
                self.joined.get_or_insert_with(|| self.text.clone());
            }
            (self.text, self.nesting) = Default::default();
        }
        if let Some(joined) = &mut self.joined {
            joined.push_str(piece);
        }
        self.nesting.push(piece);
        self.text.push_str(piece);
    }

    /// All of it again, maybe spaced in another way or encoded once more.
    pub(super) fn is_restated_by(&self, piece: &str) -> bool {
        // A far shorter piece can't be, and looking into each of many would take long.
        let comparable = self.is_whole() && !piece.is_empty() && piece.len() >= self.text.len() / 4;
        let object = |text: &str| match arguments(text, &mut Room::default()) {
            Arguments::Object(members) => Some(members),
            Arguments::Invalid(_) => None,
        };
        comparable
            && (piece == self.text || object(piece).is_some_and(|again| object(&self.text) == Some(again)))
    }

    /// An object hardly goes on with all of its own beginning, and behind `{}` or `null` nothing goes on at all.
    fn is_begun_again_by(&self, piece: &str) -> bool {
        let stands_for_nothing = matches!(self.text.as_str(), "{}" | "null");
        let repeats = self.text.starts_with('{') && piece.starts_with(&self.text);
        piece.starts_with('{') && (stands_for_nothing || repeats)
    }
}

/// Gives an id of its own to each call that has none, or another's, be it only once both are made to [`fit`].
pub(super) fn make_ids_unique(calls: &mut [Call]) {
    let mut taken = HashSet::new();
    for call in calls {
        if call.id.is_empty() || taken.contains(fit(&call.id).as_ref()) {
            call.id = new_id();
        }
        taken.insert(fit(&call.id).into_owned());
    }
}

/// Nine letters and digits, the form that Mistral asks for; others take any.
fn new_id() -> String {
    let mut id = String::with_capacity(26);
    let _ = write!(id, "{}", Ulid::generate());
    id.split_off(id.len() - 9) // its end is random
}

/// A call's name or id as every provider takes it back (`[A-Za-z0-9_-]{1,64}`): one that a model or another server made
/// up would make it refuse every request from then on.
pub(super) fn fit(word: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match word {
        "" => Cow::Borrowed("unnamed"),
        _ if word.len() <= LONGEST && word.chars().all(fits) => Cow::Borrowed(word),
        _ => word.chars().take(LONGEST).map(|c| if fits(c) { c } else { '_' }).collect(),
    }
}

/// Arguments as an object. Those that were none go back as an empty one: servers parse them.
pub(super) fn object(arguments: &Arguments) -> Cow<'_, Map<String, Value>> {
    match arguments {
        Arguments::Object(members) => Cow::Borrowed(members),
        Arguments::Invalid(_) => Cow::Owned(Map::new()),
    }
}

/// The same as the text that OpenAI's formats carry.
pub(super) fn object_text(arguments: &Arguments) -> String {
    serde_json::to_string(&*object(arguments)).expect("a map with text keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_object_is_arguments() {
        for (text, expected) in [
            ("", Some(json!({}))),
            (" ", Some(json!({}))),
            ("null", Some(json!({}))),
            ("\"null\"", Some(json!({}))),
            ("\"\"", Some(json!({}))),
            ("{\"a\":1}", Some(json!({"a": 1}))),
            ("\"{\\\"a\\\":1}\"", Some(json!({"a": 1}))),
            ("{a:1}", None),
            ("\"x\"", None),
            ("[]", None),
            ("{\"p\":\"C:\\Users\"}", None),
            ("{\"path\":\"a\",\"content\":\"hel", None),
            ("{}{}", None),
        ] {
            match (arguments(text, &mut Room::default()), expected) {
                (Arguments::Object(members), Some(expected)) => assert_eq!(Value::Object(members), expected),
                (Arguments::Invalid(raw), None) => assert_eq!(raw, text),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
    }

    #[track_caller]
    fn check_written<const N: usize>(pieces: [&str; N], expected: Option<Value>) {
        let mut written = PartialArguments::default();
        pieces.iter().for_each(|piece| written.push(piece));
        match (written.read(&mut Room::default()), expected) {
            (Arguments::Object(members), Some(expected)) => assert_eq!(Value::Object(members), expected),
            (Arguments::Invalid(_), None) => {}
            (other, _) => panic!("{pieces:?}: {other:?}"),
        }
    }

    #[test]
    fn what_is_said_again_is_written_once() {
        let one = || Some(json!({"a": 1}));
        check_written(["{\"a\":", "1", "}"], one());
        check_written(["{\"a\":1}", "{\"a\":1}"], one());
        check_written(["{\"a\":1}", "{\"a\": 1}", "\"{\\\"a\\\":1}\""], one());
        check_written(["{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1}"], one());
        check_written(["{\"a\":\"x", "{\"a\":\"xy", "{\"a\":\"xy\"}"], Some(json!({"a": "xy"})));
        check_written(["{}", "{\"a\":", "1}"], one());
        check_written(["null", "{\"a\":", "1}"], one());
        check_written(["{}", "{}"], Some(json!({})));
    }

    #[test]
    fn what_only_looks_like_it_stays() {
        check_written(["{\"a\":", "{\"a\":", "1}}"], Some(json!({"a": {"a": 1}})));
        check_written(["{\"a\":[", "{\"a\":[", "]}]}"], Some(json!({"a": [{"a": []}]})));
        check_written(["{\"a\":\"", "ha", "ha", "\"}"], Some(json!({"a": "haha"})));
        check_written(["{\"a\":1}", "{\"a\":2}"], None);
    }

    #[test]
    fn ids_that_are_one_once_they_fit_are_made_unique() {
        let long = "x".repeat(LONGEST);
        let ids = ["", "a:1", "a.1", "a_1", &format!("{long}1"), &format!("{long}2"), "b", "b", "c"];
        let call = |id: &&str| Call {
            id: (*id).to_owned(),
            name: "t".into(),
            arguments: Arguments::Object(Map::new()),
            extra: Map::new(),
        };
        let mut calls: Vec<Call> = ids.iter().map(call).collect();
        make_ids_unique(&mut calls);
        let fitting: HashSet<_> = calls.iter().map(|call| fit(&call.id)).collect();
        assert_eq!(fitting.len(), ids.len(), "{calls:?}");
        let kept = [1, 4, 6, 8];
        assert!(kept.into_iter().all(|at| calls[at].id == ids[at]), "what is unique stays: {calls:?}");
    }

    #[test]
    fn names_and_ids_are_made_to_fit() {
        for (word, fitting) in
            [("bash", "bash"), ("", "unnamed"), ("functions.bash:0", "functions_bash_0"), ("läs", "l_s")]
        {
            assert_eq!(fit(word), fitting);
        }
    }
}
