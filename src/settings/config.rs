//! `config.json`: what was written (raw) and what it means (resolved).
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the process, read once.
#[derive(Clone, Debug)]
pub struct ProcessSettings {
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
}

/// `net.*`: how HTTP is spoken.
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct SessionSettings {
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

/// What may be done without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `ask`: every command, read and write is asked about.
    Ask,
    /// `full-access`: nothing is.
    FullAccess,
}

/// One of the user's `permissions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// A tool's name, or a glob.
    pub tool: String,
    /// A glob that must fit all of the command, or the path; `None` fits all.
    pub matching: Option<String>,
    /// What it says.
    pub action: RuleAction,
}

/// What a rule says, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleAction {
    /// Do it.
    Allow,
    /// Ask first.
    Ask,
    /// Never.
    Deny,
}
