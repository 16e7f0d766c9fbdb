//! The settings as they hold: `config.json` resolved with its defaults, the flags over it.
//!
//! The user's own file first; of a project's only what narrows it (`project.rs`).
use super::prices::Price;
use super::raw::{self, Raw};
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use super::mode::{Mode, Rule, RuleAction, UnknownMode};
pub use super::raw::ConfigError;

/// All settings, with what is to be told about their file.
#[derive(Clone, Debug)]
pub struct Config {
    /// Of the process.
    pub process: ProcessSettings,
    /// Of each session.
    pub session: SessionSettings,
    /// One line each: unknown keys.
    pub warnings: Vec<String>,
}

/// What the command line says over the files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flags {
    /// `--mode`.
    pub mode: Option<Mode>,
    /// `--script`: prompts for a busy session line up.
    pub script: bool,
}

/// Settings of the process, read once.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessSettings {
    /// `sessions.enabled`: they are saved and can be loaded.
    pub save_sessions: bool,
    /// `turns.parallel`.
    pub parallel: bool,
    /// `turns.queue`, or `--script`.
    pub queue: bool,
    /// `limits.messageBytes`.
    pub message_bytes: usize,
    /// `limits.outboxBytes`.
    pub outbox_bytes: usize,
    /// `limits.sessions`.
    pub sessions: usize,
    /// `net.*`.
    pub net: Net,
    /// `prices`, by the model's name.
    pub prices: BTreeMap<String, Price>,
}

/// `net.*`: how HTTP is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Net {
    /// `net.caFile`: further CA certificates, PEM.
    pub ca_file: Option<PathBuf>,
    /// `net.connectSeconds`.
    pub connect: Duration,
    /// `net.firstByteSeconds`.
    pub first_byte: Duration,
    /// `net.idleSeconds`: between two bytes of an answer.
    pub idle: Duration,
}

/// Settings of one session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSettings {
    /// `sessions.dir`, relative to the session's `cwd` unless the user made it absolute.
    pub sessions_dir: PathBuf,
    /// `context.window`: tokens the model takes; `None`: not told.
    pub window: Option<usize>,
    /// `context.threshold`: the share of the window from which on the history is compacted.
    pub threshold: f64,
    /// `context.keepLastTurns`: kept word for word then.
    pub keep_last_turns: usize,
    /// `mode`, or `--mode`.
    pub mode: Mode,
    /// `permissions`.
    pub rules: Vec<Rule>,
    /// `turns.maxModelCalls`.
    pub max_model_calls: u32,
    /// `tools.bash.timeoutSeconds`.
    pub bash_timeout: Duration,
    /// `tools.bash.maxOutput`, characters.
    pub bash_max_output: usize,
    /// `tools.passKeys`.
    pub pass_keys: bool,
}

/// Reads the user's `config.json` (or the file named by `--config`). Without a path, and where there is no file,
/// all is default.
///
/// # Errors
/// The file can't be read, is not JSON, or holds a value that can't be used; the text names
/// `FILE:LINE:COLUMN`. [`Config::default`] holds then.
pub fn load(path: Option<&Path>) -> Result<Config, ConfigError> {
    let (raw, warnings) = match path {
        Some(path) => raw::read(path)?.unwrap_or_default(),
        None => Default::default(),
    };
    Ok(Config::resolve(raw, warnings))
}

impl Default for Config {
    fn default() -> Self {
        Self::resolve(Raw::default(), Vec::new())
    }
}

impl Config {
    fn resolve(raw: Raw, warnings: Vec<String>) -> Self {
        Self { process: ProcessSettings::resolve(&raw), session: SessionSettings::resolve(raw), warnings }
    }

    /// The flags over it.
    #[must_use]
    pub fn with_flags(mut self, flags: Flags) -> Self {
        self.session.mode = flags.mode.unwrap_or(self.session.mode);
        self.process.queue |= flags.script;
        self
    }
}

impl ProcessSettings {
    fn resolve(raw: &Raw) -> Self {
        Self {
            save_sessions: raw.sessions.enabled.unwrap_or(true),
            parallel: raw.turns.parallel.unwrap_or(false),
            queue: raw.turns.queue.unwrap_or(false),
            message_bytes: size(raw.limits.message_bytes, 64 << 20),
            outbox_bytes: size(raw.limits.outbox_bytes, 256 << 10),
            sessions: size(raw.limits.sessions, 1000),
            net: Net {
                ca_file: raw.net.ca_file.clone(),
                connect: seconds(raw.net.connect_seconds, 10),
                first_byte: seconds(raw.net.first_byte_seconds, 120),
                idle: seconds(raw.net.idle_seconds, 120),
            },
            prices: raw.prices.clone().unwrap_or_default(),
        }
    }
}

impl SessionSettings {
    fn resolve(raw: Raw) -> Self {
        Self {
            sessions_dir: raw.sessions.dir.unwrap_or_else(|| ".bob/sessions".into()),
            window: raw.context.window.map(NonZeroUsize::get),
            threshold: raw.context.threshold.map_or(0.8, |share| share.0),
            keep_last_turns: raw.context.keep_last_turns.unwrap_or(2),
            mode: raw.mode.unwrap_or(Mode::Ask),
            rules: raw.permissions.unwrap_or_default(),
            max_model_calls: raw.turns.max_model_calls.map_or(100, NonZeroU32::get),
            bash_timeout: seconds(raw.tools.bash.timeout_seconds, 120),
            bash_max_output: size(raw.tools.bash.max_output, 30_000),
            pass_keys: raw.tools.pass_keys.unwrap_or(false),
        }
    }
}

fn seconds(written: Option<NonZeroU32>, default: u32) -> Duration {
    Duration::from_secs(written.map_or(default, NonZeroU32::get).into())
}

fn size(written: Option<NonZeroUsize>, default: usize) -> usize {
    written.map_or(default, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn written(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn without_a_file_all_is_default() {
        let folder = tempfile::tempdir().unwrap();
        for path in [None, Some(folder.path().join("config.json"))] {
            let config = load(path.as_deref()).unwrap();
            assert!(config.warnings.is_empty());
            let process = ProcessSettings {
                save_sessions: true,
                parallel: false,
                queue: false,
                message_bytes: 67_108_864,
                outbox_bytes: 262_144,
                sessions: 1000,
                net: Net {
                    ca_file: None,
                    connect: Duration::from_secs(10),
                    first_byte: Duration::from_secs(120),
                    idle: Duration::from_secs(120),
                },
                prices: BTreeMap::new(),
            };
            assert_eq!(config.process, process);
            let session = SessionSettings {
                sessions_dir: ".bob/sessions".into(),
                window: None,
                threshold: 0.8,
                keep_last_turns: 2,
                mode: Mode::Ask,
                rules: Vec::new(),
                max_model_calls: 100,
                bash_timeout: Duration::from_secs(120),
                bash_max_output: 30_000,
                pass_keys: false,
            };
            assert_eq!(config.session, session);
        }
    }

    #[test]
    fn what_the_file_says_holds() {
        let file = written(
            r#"{"turns": {"parallel": true, "queue": true, "maxModelCalls": 7}, "mode": "full-access",
                "permissions": [{"tool": "bash", "match": "git *", "action": "deny"}, {"tool": "*", "action": "ask"}],
                "tools": {"bash": {"timeoutSeconds": 5, "maxOutput": 10}, "passKeys": true},
                "limits": {"messageBytes": 1, "outboxBytes": 2, "sessions": 3},
                "net": {"caFile": "/ca.pem", "connectSeconds": 1, "firstByteSeconds": 2, "idleSeconds": 3}}"#,
        );
        let Config { process, session, warnings } = load(Some(file.path())).unwrap();
        assert!(warnings.is_empty());
        assert!(process.parallel && process.queue && session.pass_keys);
        assert_eq!((process.message_bytes, process.outbox_bytes, process.sessions), (1, 2, 3));
        assert_eq!(process.net.ca_file.as_deref(), Some(Path::new("/ca.pem")));
        let net = [process.net.connect, process.net.first_byte, process.net.idle];
        assert_eq!(net.map(|limit| limit.as_secs()), [1, 2, 3]);
        assert_eq!((session.mode, session.max_model_calls), (Mode::FullAccess, 7));
        assert_eq!((session.bash_timeout.as_secs(), session.bash_max_output), (5, 10));
        let rules = [("bash", Some("git *"), RuleAction::Deny), ("*", None, RuleAction::Ask)];
        assert_eq!(
            session.rules,
            rules.map(|(tool, glob, action)| Rule {
                tool: tool.into(),
                matching: glob.map(Into::into),
                action
            })
        );
    }

    #[test]
    fn flags_come_over_the_file() {
        let config = load(Some(written(r#"{"mode": "full-access"}"#).path())).unwrap();
        let flags = Flags { mode: Some(Mode::Ask), script: true };
        let flagged = config.clone().with_flags(flags);
        assert_eq!((flagged.session.mode, flagged.process.queue), (Mode::Ask, true));
        let same = config.with_flags(Flags::default());
        assert_eq!((same.session.mode, same.process.queue), (Mode::FullAccess, false));
    }

    #[test]
    fn a_broken_file_is_an_error_that_names_file_line_and_column() {
        let file = written("{\n  \"mode\": 3\n}");
        let error = load(Some(file.path())).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:2:11: ", file.path().display())), "{error}");
    }

    #[test]
    fn a_file_too_large_is_an_error() {
        let file = written(&format!("{{}}{}", " ".repeat(1 << 20)));
        let error = load(Some(file.path())).unwrap_err().to_string();
        assert!(error.ends_with("larger than 1 MiB"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_or_a_folder_in_its_place_is_an_error_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("config.json");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
        for path in [pipe.as_path(), folder.path()] {
            let error = load(Some(path)).unwrap_err().to_string();
            assert_eq!(error, format!("{}: not a regular file", path.display()));
        }
    }
}
