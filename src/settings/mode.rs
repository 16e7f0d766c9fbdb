//! What may be done without asking: modes and the user's rules.
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;

/// What may be done without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `ask`: every command, read and write is asked about.
    Ask,
    /// `full-access`: nothing is.
    FullAccess,
}

impl Mode {
    /// All there are, in the order a client is shown.
    pub const ALL: [Self; 2] = [Self::Ask, Self::FullAccess];

    /// As it is written in files, flags and on the wire.
    pub fn id(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::FullAccess => "full-access",
        }
    }
}

/// A word that is no [`Mode`]; its `Display` names those there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMode;

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Mode::ALL.map(|mode| format!("`{}`", mode.id()));
        write!(f, "unknown mode, expected one of {}", known.join(", "))
    }
}

impl std::error::Error for UnknownMode {}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(id: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.id() == id).ok_or(UnknownMode)
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(ModeVisitor)
    }
}

/// A visitor, since serde's own does not say which words there are to one who wrote no word.
struct ModeVisitor;

impl Visitor<'_> for ModeVisitor {
    type Value = Mode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Mode::ALL.map(|mode| format!("`{}`", mode.id()));
        write!(f, "one of {}", known.join(", "))
    }

    fn visit_str<E: de::Error>(self, id: &str) -> Result<Mode, E> {
        id.parse().map_err(|UnknownMode| E::invalid_value(Unexpected::Str(id), &self))
    }
}

/// One of the user's `permissions`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)] // a misspelt `match` would make a rule that fits everything
pub struct Rule {
    /// A tool's name, or a glob.
    pub tool: String,
    /// A glob that must fit all of the command, or the path; `None` fits all.
    #[serde(rename = "match")]
    pub matching: Option<String>,
    /// What it says.
    pub action: RuleAction,
}

/// What a rule says, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleAction {
    /// Do it.
    Allow,
    /// Ask first.
    Ask,
    /// Never.
    Deny,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_one_spelling() {
        for mode in Mode::ALL {
            assert_eq!(mode.id().parse(), Ok(mode));
        }
        for word in ["Ask", "read-only", "workspace-write", "plan", ""] {
            assert_eq!(word.parse::<Mode>(), Err(UnknownMode), "{word}");
        }
        assert_eq!(UnknownMode.to_string(), "unknown mode, expected one of `ask`, `full-access`");
    }
}
