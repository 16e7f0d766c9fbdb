//! Configuration: what was written (raw) and what it means (resolved).
pub mod config;
mod dotenv;
mod fields;
mod layers;
pub mod llm;
pub mod login_file;
pub mod mode;
mod origins;
pub mod prices;
mod project;
mod raw;
mod resolve;
mod user_file;

pub use fields::{check_api_key, check_base_url, check_model, provider_name};
pub use origins::{Origin, origins};
pub use resolve::resolve_model;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A shorter "key" (`x`, `-`) is a placeholder: to mask it would blot out half of the words.
const MASKED_BYTES: usize = 4;
/// A shorter "key" (`1`, `none`, `ollama`) may stand in any other value by chance: to find it there tells nothing.
const TELLING_BYTES: usize = 16;

/// A secret value: no `Debug`, `Display` or serialization shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps it.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself; only for the header that carries it and for the login file.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without it. Before `text` is cut: the half of a key that stands at the end would not be found.
    pub fn masked_in(&self, text: &str) -> String {
        if self.0.len() < MASKED_BYTES { text.to_owned() } else { text.replace(&self.0, "***") }
    }

    /// Whether `text` gives it away.
    pub fn is_in(&self, text: &str) -> bool {
        self.0.len() >= TELLING_BYTES && text.contains(&self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The environment as it was when the process started. Looked at instead of `std::env`, so that a test can make one.
#[derive(Clone, Default)]
pub struct Environment(Arc<BTreeMap<OsString, OsString>>);

impl Environment {
    /// Takes this process's.
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    /// A variable's value; `None` when it is unset, empty, all blanks or not UTF-8.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.get_os(name)?.to_str()
    }

    /// The same, UTF-8 or not.
    fn get_os(&self, name: &str) -> Option<&OsStr> {
        let value = self.0.get(OsStr::new(name))?;
        (!value.to_string_lossy().trim().is_empty()).then_some(value)
    }

    /// With U+FFFD in place of what is not UTF-8, so that such a setting is one that can't be used, and not unset.
    fn lossy(&self) -> Self {
        self.0.iter().map(|(name, value)| (name, value.to_string_lossy().into_owned())).collect()
    }

    /// The names of all variables that give `key` away, alone or in a longer value (`Bearer …`).
    pub fn names_with(&self, key: &Secret) -> impl Iterator<Item = &OsString> {
        let holding = self.0.iter().filter(|(_, value)| key.is_in(&value.to_string_lossy()));
        holding.map(|(name, _)| name)
    }

    /// The user's home directory (`HOME`), if it is absolute.
    pub fn home(&self) -> Option<PathBuf> {
        self.get_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())
    }

    /// Bob's folder of the user: `$BOB_HOME`, else `~/.bob`; `None` without a home.
    pub fn user_folder(&self) -> Option<PathBuf> {
        self.get_os("BOB_HOME").map(PathBuf::from).or_else(|| Some(self.home()?.join(".bob")))
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(Arc::new(variables.collect()))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.0.len()) // values may be secrets
    }
}
