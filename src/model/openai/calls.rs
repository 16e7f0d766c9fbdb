//! Tool calls, put together from what servers make of them.
use crate::model::Call;
use crate::model::call::{PartialArguments, arguments_text, make_ids_unique};
use crate::model::failure::Trouble;
use crate::model::json::Room;
use crate::model::reply::one_more;
use serde_json::{Map, Value};

/// Members of a call, and of its function where that stands in the call's place.
const KNOWN: [&str; 6] = ["index", "id", "type", "function", "name", "arguments"];

/// The calls of one reply, while they come.
#[derive(Default)]
pub(super) struct Calls(Vec<Building>);

#[derive(Default)]
struct Building {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: PartialArguments,
    extra: Map<String, Value>,
}

/// A piece of a call; what is empty is not there.
#[derive(Default)]
struct Fragment<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: String,
}

impl Calls {
    /// No call has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes one element of `tool_calls`. Gives the name of the call if it begins (or gets its name) here.
    ///
    /// # Errors
    /// [`Trouble::TooLarge`]: too many calls, or no `room` for what we don't know of them.
    pub(super) fn push(&mut self, value: &Value, room: &mut Room) -> Result<Option<&str>, Trouble> {
        let function = if value["function"].is_object() { &value["function"] } else { value };
        let fragment = Fragment {
            index: index(&value["index"]),
            id: value["id"].as_str().unwrap_or_default(),
            name: function["name"].as_str().unwrap_or_default(),
            arguments: arguments_text(&function["arguments"]),
        };
        let at = self.place_of(&fragment)?;
        let call = &mut self.0[at];
        let had_name = !call.name.is_empty();
        call.take(&fragment);
        for (name, member) in value.as_object().into_iter().flatten() {
            if !KNOWN.contains(&name.as_str()) && !member.is_null() {
                call.extra.insert(name.clone(), room.keep(member)?);
            }
        }
        Ok((!had_name && !call.name.is_empty()).then_some(call.name.as_str()))
    }

    /// The legacy `function_call`: a single call without index and id.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(super) fn push_function(
        &mut self,
        function: &Value,
        room: &mut Room,
    ) -> Result<Option<&str>, Trouble> {
        self.push(&serde_json::json!({"index": 0, "function": function}), room)
    }

    /// Where a fragment belongs; a new call is made where it belongs to none.
    fn place_of(&mut self, fragment: &Fragment<'_>) -> Result<usize, Trouble> {
        let found = match fragment.index {
            Some(_) => self.0.iter().rposition(|call| call.index == fragment.index),
            None if !fragment.id.is_empty() => {
                let same = self.0.iter().rposition(|call| call.id == fragment.id);
                same.or_else(|| self.0.len().checked_sub(1))
            }
            None => self.0.len().checked_sub(1),
        };
        match found {
            Some(at) if !self.0[at].is_followed_by(fragment) => Ok(at),
            _ => {
                one_more(self.0.len())?;
                self.0.push(Building { index: fragment.index, ..Building::default() });
                Ok(self.0.len() - 1)
            }
        }
    }

    /// The calls in order, each with arguments and an id of its own.
    pub(super) fn finish(mut self, room: &mut Room) -> Vec<Call> {
        let mut last = 0;
        for call in &mut self.0 {
            last = *call.index.get_or_insert(last); // one without stays behind the one it came after
        }
        self.0.sort_by_key(|call| call.index);
        let finished = |call: Building| Call {
            id: call.id,
            name: call.name,
            arguments: call.arguments.read(room),
            extra: call.extra,
        };
        let mut calls: Vec<Call> = self.0.into_iter().map(finished).collect();
        make_ids_unique(&mut calls);
        calls
    }
}

/// Some servers write it as text, or with a fraction.
fn index(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64().filter(|number| *number >= 0.0).map(|number| number as u64),
    }
}

impl Building {
    /// Whether the fragment, found at this call's place, begins the next one: it names a tool, and either its
    /// id or that name is another, or there are no ids to tell and this call is whole.
    fn is_followed_by(&self, fragment: &Fragment<'_>) -> bool {
        if fragment.name.is_empty() || self.name.is_empty() {
            return false;
        }
        let other_name = fragment.name != self.name && !self.may_be_named_on_by(fragment);
        match (self.id.as_str(), fragment.id) {
            ("", "") if fragment.arguments.is_empty() => other_name,
            ("", _) => {
                other_name || self.arguments.is_whole() && !self.arguments.is_restated_by(&fragment.arguments)
            }
            (_, "") => other_name,
            (own, other) => own != other,
        }
    }

    /// Whether the fragment's name may be another piece of this call's: nothing else has come of it yet.
    fn may_be_named_on_by(&self, fragment: &Fragment<'_>) -> bool {
        let is_told_apart = fragment.index.is_some() || !self.id.is_empty();
        is_told_apart && fragment.id.is_empty() && self.arguments.is_blank() && fragment.arguments.is_empty()
    }

    fn take(&mut self, fragment: &Fragment<'_>) {
        if self.id.is_empty() {
            fragment.id.clone_into(&mut self.id);
        }
        if self.arguments.is_blank() {
            self.take_name(fragment.name);
        }
        self.arguments.push(&fragment.arguments);
    }

    /// A name comes once, again and again, in pieces, or in pieces that each hold all of it so far.
    fn take_name(&mut self, name: &str) {
        if name.starts_with(&self.name) {
            name.clone_into(&mut self.name);
        } else {
            self.name.push_str(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Arguments;
    use serde_json::json;

    /// The calls that these fragments are, as `id name arguments`.
    fn calls(fragments: &[Value]) -> Vec<(String, String, Arguments)> {
        let mut calls = Calls::default();
        for fragment in fragments {
            calls.push(fragment, &mut Room::default()).unwrap();
        }
        calls
            .finish(&mut Room::default())
            .into_iter()
            .map(|call| (call.id, call.name, call.arguments))
            .collect()
    }

    fn call(id: &str, name: &str, arguments: Value) -> (String, String, Arguments) {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        (id.into(), name.into(), Arguments::Object(arguments))
    }

    fn fragment(index: Option<u64>, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
        json!({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
    }

    #[test]
    fn an_id_may_come_late_or_again() {
        let whole = [call("c1", "a", json!({"k": 1}))];
        for fragments in [
            [fragment(Some(0), None, Some("a"), "{\"k\""), fragment(Some(0), Some("c1"), None, ":1}")],
            [
                fragment(Some(0), Some("c1"), Some("a"), "{\"k\""),
                fragment(Some(0), Some("c1"), Some("a"), ":1}"),
            ],
            [
                fragment(Some(0), Some("c1"), Some("a"), "{\"k\""),
                fragment(Some(0), Some(""), Some(""), ":1}"),
            ],
            [fragment(Some(0), Some("c1"), Some("a"), "{\"k\""), fragment(Some(0), Some("x"), None, ":1}")],
            [fragment(None, Some("c1"), Some("a"), "{\"k\""), fragment(None, None, None, ":1}")],
            [fragment(None, Some("c1"), Some("a"), "{\"k\""), fragment(None, Some("c1"), None, ":1}")],
            [
                fragment(Some(0), Some("c1"), Some("a"), "{\"k\":1}"),
                fragment(Some(0), Some("c1"), Some("a"), "{\"k\":1}"),
            ],
        ] {
            assert_eq!(calls(&fragments), whole, "{fragments:?}");
        }
    }

    #[test]
    fn calls_are_told_apart_without_a_good_index() {
        let both = [call("c1", "a", json!({})), call("c2", "a", json!({"k": 2}))];
        for index in [None, Some(0)] {
            let fragments = [
                fragment(index, Some("c1"), Some("a"), "{}"),
                fragment(index, Some("c2"), Some("a"), "{\"k\""),
                fragment(index, None, None, ":2}"),
            ];
            assert_eq!(calls(&fragments), both, "{index:?}");
        }
        let nameless =
            calls(&[fragment(None, None, Some("a"), "{}"), fragment(None, None, Some("a"), "{\"k\":2}")]);
        assert_eq!(nameless.len(), 2);
        assert_ne!(nameless[0].0, nameless[1].0);
    }

    #[test]
    fn a_name_may_come_in_pieces() {
        let whole = [call("c1", "read_file", json!({"k": 1}))];
        for pieces in [["read", "_file", "", ""], ["read", "read_file", "read_file", "read_file"]] {
            for (index, id) in [(Some(0), Some("")), (None, None), (Some(0), Some("c1"))] {
                let rest = [(1, ""), (2, "{\"k\""), (3, ":1}")];
                let first = fragment(index, Some("c1"), Some(pieces[0]), "");
                let rest = rest.map(|(at, arguments)| fragment(index, id, Some(pieces[at]), arguments));
                let fragments: Vec<Value> = std::iter::once(first).chain(rest).collect();
                assert_eq!(calls(&fragments), whole, "{fragments:?}");
            }
        }
    }

    #[test]
    fn another_name_is_another_call() {
        let both = [("a", json!({"k": 1})), ("b", json!({"k": 2}))];
        for (own, other) in [(Some("c1"), None), (None, Some("c2")), (None, None)] {
            let fragments = [
                fragment(Some(0), own, Some("a"), "{\"k\":1}"),
                fragment(Some(0), other, Some("b"), "{\"k\":2}"),
            ];
            let named = calls(&fragments).into_iter().map(|(_, name, arguments)| (name, arguments));
            let expected = both.clone().map(|(name, arguments)| call("", name, arguments));
            assert!(named.eq(expected.map(|(_, name, arguments)| (name, arguments))), "{fragments:?}");
        }
    }

    #[test]
    fn each_call_has_an_id_of_its_own() {
        let fragments =
            [fragment(Some(0), Some("c"), Some("a"), ""), fragment(Some(1), Some("c"), Some("b"), "")];
        let calls = calls(&fragments);
        assert_eq!(calls[0].0, "c");
        assert!(calls[1].0.len() == 9 && calls[1].0.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    }

    #[test]
    fn a_call_is_named_once_when_its_name_is_known() {
        let (mut calls, room) = (Calls::default(), &mut Room::default());
        assert_eq!(calls.push(&fragment(Some(0), Some("c"), None, ""), room), Ok(None));
        assert_eq!(calls.push(&fragment(Some(0), None, Some("a"), ""), room), Ok(Some("a")));
        assert_eq!(calls.push(&fragment(Some(0), None, Some("a"), "{}"), room), Ok(None));
    }

    #[test]
    fn members_we_do_not_know_are_kept() {
        let (mut calls, room) = (Calls::default(), &mut Room::default());
        let signed = json!({"google": {"thought_signature": "s"}});
        let call = json!({"index": 0, "id": "c", "type": "function", "extra_content": signed, "function": {"name": "a"}});
        calls.push(&call, room).unwrap();
        assert_eq!(Value::Object(calls.finish(room).remove(0).extra), json!({"extra_content": signed}));
    }
}
