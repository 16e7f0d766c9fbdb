//! `config.json` as it is written. Every key is optional; what it means is `config.rs`'s.
use super::mode::{Mode, Rule};
use super::prices::Price;
use super::user_file;
use crate::text::clean_to;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};

/// The keys of one `config.json`; one struct an object of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Raw {
    #[serde(deserialize_with = "object")]
    pub(super) sessions: Sessions,
    #[serde(deserialize_with = "object")]
    pub(super) context: Context,
    #[serde(deserialize_with = "object")]
    pub(super) turns: Turns,
    pub(super) mode: Option<Mode>,
    #[serde(deserialize_with = "objects")]
    pub(super) permissions: Option<Vec<Rule>>,
    #[serde(deserialize_with = "object")]
    pub(super) tools: Tools,
    #[serde(deserialize_with = "object")]
    pub(super) limits: Limits,
    #[serde(deserialize_with = "object")]
    mcp: Mcp,
    #[serde(deserialize_with = "object")]
    client: Client,
    #[serde(deserialize_with = "object")]
    pub(super) net: Net,
    pub(super) prices: Option<BTreeMap<String, Price>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Sessions {
    pub(super) enabled: Option<bool>,
    pub(super) dir: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Context {
    pub(super) window: Option<NonZeroUsize>,
    pub(super) threshold: Option<Share>,
    pub(super) keep_last_turns: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Turns {
    pub(super) parallel: Option<bool>,
    pub(super) queue: Option<bool>,
    pub(super) max_model_calls: Option<NonZeroU32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Tools {
    #[serde(deserialize_with = "object")]
    pub(super) bash: Bash,
    pub(super) pass_keys: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Bash {
    pub(super) timeout_seconds: Option<NonZeroU32>,
    pub(super) max_output: Option<NonZeroUsize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Limits {
    pub(super) message_bytes: Option<NonZeroUsize>,
    pub(super) outbox_bytes: Option<NonZeroUsize>,
    pub(super) sessions: Option<NonZeroUsize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Mcp {
    trust_project: Option<Trust>,
    start_seconds: Option<NonZeroU32>,
    call_seconds: Option<NonZeroU32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Client {
    fs: Option<bool>,
    terminal: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Net {
    pub(super) ca_file: Option<PathBuf>,
    pub(super) connect_seconds: Option<NonZeroU32>,
    pub(super) first_byte_seconds: Option<NonZeroU32>,
    pub(super) idle_seconds: Option<NonZeroU32>,
}

/// An object's members, and not the list of their values that serde takes for one too.
fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(ObjectVisitor(PhantomData))
}

/// A list of objects, each read as [`object`] reads one.
fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let items = Option::<Vec<Item<T>>>::deserialize(deserializer)?;
    Ok(items.map(|items| items.into_iter().map(|Item(item)| item).collect()))
}

struct Item<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        object(deserializer).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members))
    }
}

/// A number above 0 and at most 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share(pub(super) f64);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_f64(ShareVisitor)
    }
}

/// A visitor, since an error raised in one knows its place in the file, and one raised behind it the next token's.
struct ShareVisitor;

impl Visitor<'_> for ShareVisitor {
    type Value = Share;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number above 0 and at most 1")
    }

    fn visit_f64<E: de::Error>(self, share: f64) -> Result<Share, E> {
        let fits = share > 0.0 && share <= 1.0;
        fits.then_some(Share(share)).ok_or_else(|| E::invalid_value(Unexpected::Float(share), &self))
    }

    fn visit_u64<E: de::Error>(self, share: u64) -> Result<Share, E> {
        (share == 1).then_some(Share(1.0)).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(share), &self))
    }
}

/// Whether a project's own servers may start: `true`, `false` or a list of folders. Only checked so far.
#[derive(Debug)]
struct Trust;

impl<'de> Deserialize<'de> for Trust {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TrustVisitor)
    }
}

struct TrustVisitor;

impl<'de> Visitor<'de> for TrustVisitor {
    type Value = Trust;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or a list of folders")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Trust, E> {
        Ok(Trust)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut folders: A) -> Result<Trust, A::Error> {
        while folders.next_element::<PathBuf>()?.is_some() {}
        Ok(Trust)
    }
}

/// All there are, dotted.
const KNOWN: [&str; 26] = [
    "sessions.enabled",
    "sessions.dir",
    "context.window",
    "context.threshold",
    "context.keepLastTurns",
    "turns.parallel",
    "turns.queue",
    "turns.maxModelCalls",
    "mode",
    "permissions",
    "tools.bash.timeoutSeconds",
    "tools.bash.maxOutput",
    "tools.passKeys",
    "limits.messageBytes",
    "limits.outboxBytes",
    "limits.sessions",
    "mcp.trustProject",
    "mcp.startSeconds",
    "mcp.callSeconds",
    "client.fs",
    "client.terminal",
    "net.caFile",
    "net.connectSeconds",
    "net.firstByteSeconds",
    "net.idleSeconds",
    "prices",
];

/// Why a settings file can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    path: PathBuf,
    /// Line and column, from 1; `None` if the file could not be read at all.
    place: Option<(usize, usize)>,
    message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some((line, column)) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self { path: path.into(), place: None, message: error.to_string() }
    }

    fn at(path: &Path, error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let message = message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
        // An empty file ends before its first character: serde_json counts that as column 0.
        Self {
            path: path.into(),
            place: Some((line.max(1), column.max(1))),
            message: clean_to(message, 500).into_owned(),
        }
    }
}

/// A `config.json` and the warnings about its unknown keys; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<(Raw, Vec<String>)>, ConfigError> {
    match user_file::read(path) {
        Ok(bytes) => parse(path, &bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ConfigError::unreadable(path, &error)),
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<(Raw, Vec<String>), ConfigError> {
    let (raw, keys) = parse_keys(path, bytes)?;
    let unknown = keys.iter().filter(|key| !KNOWN.contains(&key.as_str()));
    Ok((raw, unknown.map(|key| warning(path, "unknown key", key)).collect()))
}

/// `path` as a warning's beginning, and what is the matter with the key.
pub(super) fn warning(path: &Path, what: &str, key: &str) -> String {
    format!("{}: {what} {}", path.display(), clean_to(key, 100))
}

/// A `config.json` and the keys it sets, dotted, unknown ones included.
pub(super) fn parse_keys(path: &Path, bytes: &[u8]) -> Result<(Raw, Vec<String>), ConfigError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes); // a BOM, as some editors write
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let raw = object(&mut reader).map_err(|error| ConfigError::at(path, &error))?;
    // Once more without types: serde names only what it knows.
    let all: Value = serde_json::from_slice(bytes).map_err(|error| ConfigError::at(path, &error))?;
    let mut keys = Vec::new();
    collect_keys("", &all, &mut keys);
    Ok((raw, keys))
}

fn collect_keys(above: &str, value: &Value, keys: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = format!("{above}{key}");
        let inner = format!("{path}.");
        // "a.b" as one name is not b in a.
        if !key.contains('.') && KNOWN.iter().any(|known| known.starts_with(&inner)) {
            collect_keys(&inner, value, keys);
        } else {
            keys.push(if key.contains('.') { format!("\"{path}\"") } else { path });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parsed(text: &str) -> Result<(Raw, Vec<String>), String> {
        parse(Path::new("/c.json"), text.as_bytes()).map_err(|error| error.to_string())
    }

    /// `{"a": {"b": value}}` for `a.b`.
    fn document(key: &str, value: &str) -> String {
        key.rsplit('.').fold(value.to_owned(), |inner, name| format!("{{\"{name}\": {inner}}}"))
    }

    #[test]
    fn every_known_key_is_checked_for_its_type() {
        for key in KNOWN {
            // No key takes this.
            let error = parsed(&document(key, "[[{}]]")).map(drop).expect_err(key);
            assert!(error.starts_with("/c.json:1:"), "{key}: {error}");
        }
    }

    #[test]
    fn known_keys_with_good_values_give_no_warning() {
        for (key, value) in [
            ("sessions.enabled", "false"),
            ("sessions.dir", "\".bob/s\""),
            ("context.window", "200000"),
            ("context.threshold", "0.5"),
            ("context.keepLastTurns", "0"),
            ("turns.parallel", "true"),
            ("turns.maxModelCalls", "3"),
            ("mode", "\"full-access\""),
            ("permissions", "[{\"tool\": \"bash\", \"match\": \"git *\", \"action\": \"allow\"}]"),
            ("tools.bash.timeoutSeconds", "5"),
            ("mcp.trustProject", "true"),
            ("mcp.trustProject", "[\"/p\"]"),
            ("client.terminal", "true"),
            ("net.caFile", "\"/ca.pem\""),
            ("prices", "{\"gpt\": {\"input\": 1.5}}"),
            ("turns.queue", "null"),
        ] {
            let (_, warnings) = parsed(&document(key, value)).expect(key);
            assert!(warnings.is_empty(), "{key}: {warnings:?}");
        }
    }

    #[test]
    fn unknown_keys_are_named_at_every_depth() {
        let text = r#"{"nope": 1, "turns": {"paralel": true}, "tools": {"bash": {"x": {"y": 1}}}, "turns.queue": true}"#;
        let (_, mut warnings) = parsed(text).unwrap();
        warnings.sort();
        let named = ["\"turns.queue\"", "nope", "tools.bash.x", "turns.paralel"];
        assert_eq!(warnings, named.map(|key| format!("/c.json: unknown key {key}")));
    }

    #[test]
    fn a_broken_file_names_the_place() {
        for (text, place, word) in [
            ("", "1:1", "EOF"),
            ("{\n  // why\n}", "2:3", "key"),
            ("{\n  \"mode\": \"yolo\"\n}", "2:16", "one of `ask`, "),
            ("{\n  \"mode\": \"\"\n}", "2:12", "one of `ask`, "),
            ("{\n  \"mode\": 3\n}", "2:11", "one of `ask`, "),
            ("{\"turns\": {\"maxModelCalls\": 0\n}}", "1:29", "nonzero"),
            ("{\"turns\": {\"maxModelCalls\": -1\n}}", "1:30", "-1"),
            ("{\"turns\": true\n}", "1:14", "an object"),
            ("{\"context\": {\"threshold\": 1.5\n}}", "1:29", "at most 1"),
            ("{\"context\": {\"threshold\": 0\n}}", "1:27", "above 0"),
            ("{\"mcp\": {\"trustProject\": 3\n}}", "1:26", "list of folders"),
            ("{\n\"permissions\": [{\"tool\": \"bash\", \"action\": \"maybe\"\n}]}", "2:", "maybe"),
            // A rule whose `match` is misspelt must not become a rule without one.
            (
                "{\n\"permissions\": [{\"tool\": \"bash\", \"mach\": \"ls\", \"action\": \"allow\"}]}",
                "2:",
                "mach",
            ),
            ("{\"mode\": \"ask\", \"mode\": \"ask\"}", "1:", "duplicate"),
            ("[]", "1:", "an object"),
            ("{\"turns\": [true]}", "1:", "an object"),
            ("{} x", "1:4", "trailing"),
        ] {
            let error = parsed(text).map(drop).expect_err(text);
            assert!(error.starts_with(&format!("/c.json:{place}")), "{text}: {error}");
            assert!(error.contains(word), "{text}: {error}");
            assert!(!error.contains(" at line "), "{error}");
        }
    }

    #[test]
    fn a_bom_is_no_fault() {
        assert!(parsed("\u{feff}{}").is_ok());
    }
}
