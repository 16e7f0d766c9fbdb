//! Tool calls, put together from what servers make of them.
use crate::model::Call;
use crate::model::call::{arguments, arguments_text, make_ids_unique};
use crate::model::failure::Trouble;
use crate::model::json::{Nesting, Room};
use crate::model::reply::one_more;
use serde_json::{Map, Value};

/// The calls of one reply, while they come.
#[derive(Default)]
pub(super) struct Calls(Vec<Building>);

#[derive(Default)]
struct Building {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    nesting: Nesting,
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
        let function = &value["function"];
        let fragment = Fragment {
            index: value["index"].as_u64(),
            id: value["id"].as_str().unwrap_or_default(),
            name: function["name"].as_str().unwrap_or_default(),
            arguments: arguments_text(&function["arguments"]),
        };
        let at = self.place_of(&fragment)?;
        let call = &mut self.0[at];
        let had_name = !call.name.is_empty();
        call.take(&fragment);
        for (name, member) in value.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "index" | "id" | "type" | "function") && !member.is_null() {
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
            arguments: arguments(&call.arguments, room),
            extra: call.extra,
        };
        let mut calls: Vec<Call> = self.0.into_iter().map(finished).collect();
        make_ids_unique(&mut calls);
        calls
    }
}

impl Building {
    /// Whether the fragment, found at this call's place, begins the next one: it names a tool, and either its
    /// id is another, or there are no ids to tell and this call is whole.
    fn is_followed_by(&self, fragment: &Fragment<'_>) -> bool {
        if fragment.name.is_empty() || self.name.is_empty() {
            return false;
        }
        match (self.id.as_str(), fragment.id) {
            ("", "") => !fragment.arguments.is_empty() && self.is_whole() || fragment.name != self.name,
            ("", _) => self.is_whole(),
            (_, "") => false,
            (own, other) => own != other,
        }
    }

    fn is_whole(&self) -> bool {
        self.nesting.is_closed() || self.arguments == "null"
    }

    fn take(&mut self, fragment: &Fragment<'_>) {
        if self.id.is_empty() {
            fragment.id.clone_into(&mut self.id);
        }
        let restated = !fragment.name.is_empty() && fragment.arguments == self.arguments && self.is_whole();
        if self.name.is_empty() {
            fragment.name.clone_into(&mut self.name);
        }
        if !restated {
            self.nesting.push(&fragment.arguments);
            self.arguments.push_str(&fragment.arguments);
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
