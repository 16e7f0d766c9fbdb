//! `<think>…</think>` at the start of a reply is reasoning, however it is cut into deltas. A `</think>` there ends
//! reasoning that the prompt began, or that came on another way.
use crate::cancel::Cancelled;
use crate::model::Delta;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
/// More bytes than these are held back by nobody: models write a line or two before the tag.
const LONGEST_HELD: usize = 64;

/// Tells reasoning from text. Held back is only what may be the beginning of a tag, white space before it included.
#[derive(Default)]
pub(super) struct ThinkTags {
    place: Place,
    held: String,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Nothing but white space has come.
    #[default]
    Start,
    Thinking,
    /// Behind the tag; white space that separates it from the text is dropped.
    Behind,
    Text,
}

impl ThinkTags {
    /// Takes a piece of the reply's text.
    pub(super) fn push(&mut self, piece: &str, emit: &mut impl Emit) -> Result<(), Cancelled> {
        if self.place == Place::Text {
            return emit_some(Delta::Text, piece, emit);
        }
        self.held.push_str(piece);
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_str();
        while !rest.is_empty() {
            rest = match self.place {
                Place::Start => self.start(rest),
                Place::Thinking => self.thinking(rest, emit)?,
                Place::Behind => self.behind(rest),
                Place::Text => {
                    emit_some(Delta::Text, rest, emit)?;
                    ""
                }
            };
        }
        Ok(())
    }

    /// The reply has ended: what was held back is what it looks like.
    pub(super) fn finish(&mut self, emit: &mut impl Emit) -> Result<(), Cancelled> {
        let held = std::mem::take(&mut self.held);
        let kind = if self.place == Place::Thinking { Delta::Reasoning } else { Delta::Text };
        emit_some(kind, &held, emit)
    }

    fn start<'a>(&mut self, text: &'a str) -> &'a str {
        let trimmed = text.trim_start();
        for (tag, place) in [(OPEN, Place::Thinking), (CLOSE, Place::Behind)] {
            if let Some(rest) = trimmed.strip_prefix(tag) {
                self.place = place;
                return rest;
            }
            if tag.starts_with(trimmed) && text.len() <= LONGEST_HELD {
                text.clone_into(&mut self.held);
                return "";
            }
        }
        self.place = Place::Text;
        text
    }

    fn thinking<'a>(&mut self, text: &'a str, emit: &mut impl Emit) -> Result<&'a str, Cancelled> {
        if let Some((thought, rest)) = text.split_once(CLOSE) {
            emit_some(Delta::Reasoning, thought, emit)?;
            self.place = Place::Behind;
            return Ok(rest);
        }
        let begun = (1..CLOSE.len()).rev().filter_map(|length| CLOSE.get(..length));
        let tail = begun.into_iter().find(|begun| text.ends_with(begun)).unwrap_or_default();
        emit_some(Delta::Reasoning, text.strip_suffix(tail).unwrap_or(text), emit)?;
        tail.clone_into(&mut self.held);
        Ok("")
    }

    fn behind<'a>(&mut self, text: &'a str) -> &'a str {
        let trimmed = text.trim_start();
        if !trimmed.is_empty() {
            self.place = Place::Text;
        }
        trimmed
    }
}

/// Takes a piece, unless nobody wants more.
pub(super) trait Emit: FnMut(Delta<'_>) -> Result<(), Cancelled> {}

impl<F: FnMut(Delta<'_>) -> Result<(), Cancelled>> Emit for F {}

fn emit_some<'a>(
    kind: fn(&'a str) -> Delta<'a>,
    text: &'a str,
    emit: &mut impl Emit,
) -> Result<(), Cancelled> {
    if text.is_empty() { Ok(()) } else { emit(kind(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text and reasoning of a reply that comes in these pieces.
    fn told<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let (mut text, mut reasoning) = (String::new(), String::new());
        let mut emit = |delta: Delta<'_>| {
            match delta {
                Delta::Text(piece) => text.push_str(piece),
                Delta::Reasoning(piece) => reasoning.push_str(piece),
                Delta::CallBegun(_) => unreachable!("no calls here"),
            }
            Ok(())
        };
        let mut tags = ThinkTags::default();
        for piece in pieces {
            tags.push(piece, &mut emit).unwrap();
        }
        tags.finish(&mut emit).unwrap();
        (text, reasoning)
    }

    #[track_caller]
    fn check(reply: &str, text: &str, reasoning: &str) {
        for (first, rest) in splits(reply) {
            for (second, third) in splits(rest) {
                let pieces = [first, second, third];
                assert_eq!(told(pieces), (text.to_owned(), reasoning.to_owned()), "{pieces:?}");
            }
        }
    }

    fn splits(text: &str) -> impl Iterator<Item = (&str, &str)> {
        (0..=text.len()).filter_map(|at| text.split_at_checked(at))
    }

    #[test]
    fn a_tag_at_the_start_is_reasoning() {
        check("<think>so it is</think>\n\nSeven", "Seven", "so it is");
        check("<think></think>a", "a", "");
        check("<think>a</thin</think>b", "b", "a</thin");
        check("\n <think>a</think>b", "b", "a");
        check("\n</think>\n\nb", "b", "");
    }

    #[test]
    fn other_text_stays_text() {
        check("a <think>b</think>", "a <think>b</think>", "");
        check("<thinker>é", "<thinker>é", "");
        check("  <b>", "  <b>", "");
        check("<thi", "<thi", "");
        check("</thinker>", "</thinker>", "");
        check("a</think>b", "a</think>b", "");
        check(" \n", " \n", "");
    }

    #[test]
    fn a_tag_that_is_not_closed_was_reasoning_all_along() {
        check("<think>é</thi", "", "é</thi");
    }

    #[test]
    fn white_space_is_not_held_for_ever() {
        let (text, reasoning) = told(std::iter::repeat_n(" ", LONGEST_HELD + 1).chain(["<think>a"]));
        assert_eq!((text.trim_start(), reasoning.as_str()), ("<think>a", ""));
    }

    #[test]
    fn ordinary_text_goes_out_at_once() {
        let mut heard = Vec::new();
        let mut tags = ThinkTags::default();
        for piece in [" He", "llo", " ", " <"] {
            let mut emit = |delta: Delta<'_>| {
                heard.push(format!("{delta:?}"));
                Ok(())
            };
            tags.push(piece, &mut emit).unwrap();
            assert!(heard.pop().is_some(), "{piece} was held back");
        }
    }
}
