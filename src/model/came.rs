//! What came of a reply, kept in its order so that it can go back as it came.
use crate::model::{AssistantMessage, Call, Message, Request};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// How one wire format keeps the pieces of its replies in [`AssistantMessage::opaque`].
///
/// A call's piece is kept without its id, name and arguments: those are the message's, in the same order.
pub(super) struct Came {
    /// The member of `opaque`; formats don't read each other's.
    pub(super) member: &'static str,
    /// The `type` of a call's piece.
    pub(super) call: &'static str,
    /// The members of a call's piece that are not kept.
    pub(super) of_call: &'static [&'static str],
    /// The `type`s of reasoning. Providers take none at the end of a message: it was cut off there.
    pub(super) reasoning: &'static [&'static str],
}

/// A piece of an assistant's message to send.
pub(super) enum Piece<'a> {
    /// All of its text, where nothing else is known of it.
    Text(&'a str),
    /// A call, and all that stands beside its id, name and arguments: its `type` at least.
    Call(Cow<'a, Map<String, Value>>, &'a Call),
    /// Anything else.
    AsItCame(&'a Value),
}

impl Came {
    /// The value for `opaque`.
    pub(super) fn keep(&self, pieces: Vec<Value>) -> Option<Value> {
        if pieces.is_empty() {
            return None;
        }
        Some(Value::Object(Map::from_iter([(self.member.to_owned(), Value::Array(pieces))])))
    }

    /// A call's piece, as it is kept.
    pub(super) fn call(&self, piece: &Value) -> Value {
        let kept =
            |(name, value): &(&String, &Value)| !value.is_null() && !self.of_call.contains(&name.as_str());
        let members = piece.as_object().into_iter().flatten().filter(kept);
        Value::Object(members.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The pieces of a message in order.
    pub(super) fn pieces<'a>(&self, message: &'a AssistantMessage, with_reasoning: bool) -> Vec<Piece<'a>> {
        let mut calls = message.calls.iter();
        let mut pieces: Vec<Piece<'a>> = match self.kept(message) {
            None if message.text.trim().is_empty() => Vec::new(),
            None => vec![Piece::Text(&message.text)],
            Some(kept) => kept
                .iter()
                .filter(|piece| with_reasoning || !self.is_reasoning(piece))
                .filter_map(|piece| match piece.as_object()? {
                    beside if piece["type"] == self.call => {
                        calls.next().map(|call| Piece::Call(Cow::Borrowed(beside), call))
                    }
                    _ => Some(Piece::AsItCame(piece)),
                })
                .collect(),
        };
        let beside = || Map::from_iter([("type".to_owned(), json!(self.call))]);
        pieces.extend(calls.map(|call| Piece::Call(Cow::Owned(beside()), call)));
        while matches!(pieces.last(), Some(Piece::AsItCame(piece)) if self.is_reasoning(piece)) {
            pieces.pop();
        }
        pieces
    }

    /// Whether some reasoning goes back with this request.
    pub(super) fn has_reasoning(&self, request: &Request<'_>, from: usize) -> bool {
        request.messages.iter().skip(from).any(|message| match message {
            Message::Assistant(message) => {
                self.kept(message).into_iter().flatten().any(|piece| self.is_reasoning(piece))
            }
            _ => false,
        })
    }

    fn kept<'a>(&self, message: &'a AssistantMessage) -> Option<&'a Vec<Value>> {
        message.opaque.as_ref()?[self.member].as_array()
    }

    fn is_reasoning(&self, piece: &Value) -> bool {
        piece["type"].as_str().is_some_and(|kind| self.reasoning.contains(&kind))
    }
}
