//! Tool calls as all wire formats share them: arguments, ids, names.
use crate::model::json::Room;
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

/// Gives an id of its own to each call that has none, or another's.
pub(super) fn make_ids_unique(calls: &mut [Call]) {
    let mut taken = HashSet::new();
    for call in calls {
        if call.id.is_empty() || taken.contains(&call.id) {
            call.id = new_id();
        }
        taken.insert(call.id.clone());
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

    #[test]
    fn names_and_ids_are_made_to_fit() {
        for (word, fitting) in
            [("bash", "bash"), ("", "unnamed"), ("functions.bash:0", "functions_bash_0"), ("läs", "l_s")]
        {
            assert_eq!(fit(word), fitting);
        }
    }
}
