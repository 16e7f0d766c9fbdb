//! OpenRouter's `reasoning_details`, put together from their pieces. They go back as they came: some models behind it
//! refuse a conversation without them.
use crate::model::failure::Trouble;
use crate::model::json::Room;
use crate::model::reply::one_more;
use serde_json::Value;

/// Members whose pieces are joined; of all others the last counts.
const TEXTS: [&str; 3] = ["text", "summary", "data"];

/// The details of one reply, while they come.
#[derive(Default)]
pub(super) struct Details(Vec<Value>);

impl Details {
    /// Takes a delta's details; anything but a list is none.
    ///
    /// # Errors
    /// [`Trouble::TooLarge`]: too many of them, or no `room`.
    pub(super) fn push(&mut self, pieces: &Value, room: &mut Room) -> Result<(), Trouble> {
        for piece in pieces.as_array().into_iter().flatten() {
            match self.0.last_mut() {
                Some(last) if is_more_of(last, piece) => join(last, piece, room)?,
                _ => {
                    one_more(self.0.len())?;
                    self.0.push(room.keep(piece)?);
                }
            }
        }
        Ok(())
    }

    /// The list to send back, if there is any.
    pub(super) fn finish(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Array(self.0))
    }
}

/// Encrypted ones come whole.
fn is_more_of(last: &Value, piece: &Value) -> bool {
    let same = |name: &str| last[name] == piece[name];
    last["type"] != "reasoning.encrypted" && last.is_object() && same("type") && same("index")
}

/// A piece that brings text alone takes no room: there may be one for each word.
fn join(last: &mut Value, piece: &Value, room: &mut Room) -> Result<(), Trouble> {
    for (name, member) in piece.as_object().into_iter().flatten() {
        match (&mut last[name], member) {
            (_, Value::Null) => {}
            (Value::String(text), Value::String(more)) if TEXTS.contains(&name.as_str()) => {
                text.push_str(more)
            }
            (kept, member) if kept == member => {}
            (kept, member) => *kept = room.keep(member)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pieces_of_one_detail_are_joined_and_others_stay_apart() {
        let (mut details, room) = (Details::default(), &mut Room::default());
        for piece in [
            json!([{"type": "reasoning.text", "index": 0, "text": "a", "signature": null}]),
            json!([{"type": "reasoning.text", "index": 0, "text": "b"}]),
            json!([{"type": "reasoning.text", "index": 0, "signature": "S", "text": null}]),
            json!([{"type": "reasoning.encrypted", "index": 1, "data": "X"}, {"type": "reasoning.encrypted", "index": 1, "data": "Y"}]),
            json!(null),
        ] {
            details.push(&piece, room).unwrap();
        }
        let expected = json!([
            {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "S"},
            {"type": "reasoning.encrypted", "index": 1, "data": "X"},
            {"type": "reasoning.encrypted", "index": 1, "data": "Y"},
        ]);
        assert_eq!(details.finish(), Some(expected));
        assert_eq!(Details::default().finish(), None);
    }

    #[test]
    fn long_reasoning_has_room() {
        let (mut details, room) = (Details::default(), &mut Room::default());
        let piece = json!([{"type": "reasoning.text", "index": 0, "format": "f", "text": "a"}]);
        for _ in 0..100_000 {
            details.push(&piece, room).unwrap();
        }
        assert_eq!(details.finish().unwrap()[0]["text"].as_str().map(str::len), Some(100_000));
    }
}
