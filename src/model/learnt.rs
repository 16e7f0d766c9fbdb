//! What one server turned out not to take: learnt from its refusals, and kept to from then on.
use crate::model::{Request, picture};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// The changes that all wire formats know. Each is made once, so that a server which is never content gets its error
/// shown.
pub(super) struct Learnt {
    /// All members of a body but the conversation.
    pub(super) options: Map<String, Value>,
    /// Pictures are replaced by a note.
    pub(super) no_images: bool,
    /// Tool schemas lose what some servers can't turn into a grammar.
    pub(super) plain_schemas: bool,
    /// What came of a reply's reasoning goes back only from this message on: it was of another model, or is too old.
    pub(super) reasoning_from: usize,
    tried: HashSet<String>,
}

impl Learnt {
    /// Knows nothing of the server yet.
    pub(super) fn new(options: Map<String, Value>) -> Self {
        let (no_images, plain_schemas) = (false, false);
        Self { options, no_images, plain_schemas, reasoning_from: 0, tried: HashSet::new() }
    }

    /// Leaves pictures out, if it is about them. A server without a projector answers 500, a router 404: the status
    /// tells nothing.
    pub(super) fn adapt_images(&mut self, words: &str, request: &Request<'_>) -> bool {
        let adapts = has_any(words, &["image", "vision", "multimodal"])
            && picture::any_in(request)
            && self.first_time("images");
        self.no_images |= adapts;
        adapts
    }

    /// Makes schemas plain, if it is about them.
    pub(super) fn adapt_schemas(&mut self, words: &str, request: &Request<'_>) -> bool {
        let adapts = has_any(words, &["grammar", "schema", "$ref"])
            && !request.tools.is_empty()
            && self.first_time("schemas");
        self.plain_schemas |= adapts;
        adapts
    }

    /// Leaves all reasoning of the past out. Once for each length of the conversation: the model may change again.
    pub(super) fn forget_reasoning(&mut self, request: &Request<'_>) -> bool {
        let adapts = self.first_time(&format!("reasoning before {}", request.messages.len()));
        if adapts {
            self.reasoning_from = request.messages.len();
        }
        adapts
    }

    /// Takes out the first option that is named and was not tried before, or puts it under its `other_name`.
    pub(super) fn adapt_options(
        &mut self,
        words: &str,
        needed: &[&str],
        other_name: fn(&str) -> Option<&'static str>,
    ) -> bool {
        let named = |name: &&String| !needed.contains(&name.as_str()) && names(words, name);
        let named: Vec<String> = self.options.keys().filter(named).cloned().collect();
        named.iter().any(|name| self.drop_option(name, other_name(name)))
    }

    fn drop_option(&mut self, name: &str, other_name: Option<&str>) -> bool {
        if !self.first_time(name) {
            return false;
        }
        let Some(other) = other_name else { return self.options.remove(name).is_some() };
        if self.tried.contains(other) {
            return false;
        }
        let value = self.options.remove(name).unwrap_or_default();
        self.options.insert(other.to_owned(), value);
        true
    }

    /// Whether a change was not made before.
    pub(super) fn first_time(&mut self, change: &str) -> bool {
        self.tried.insert(change.to_owned())
    }
}

/// Whether `words` hold one of these.
pub(super) fn has_any(words: &str, any: &[&str]) -> bool {
    any.iter().any(|each| words.contains(each))
}

/// Whether `words` hold `name` as a word of its own.
pub(super) fn names(words: &str, name: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    words.match_indices(name).any(|(at, found)| {
        let before = words.get(..at).and_then(|before| before.chars().next_back());
        let behind = words.get(at + found.len()..).and_then(|behind| behind.chars().next());
        !before.is_some_and(part_of_word) && !behind.is_some_and(part_of_word)
    })
}
