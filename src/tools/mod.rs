//! The built-in tools: what they offer the model, what they would do, and doing it.
//!
//! A call is first planned ([`Tool::plan`] changes nothing, but reads what it needs), then shown and asked about by
//! the session, then run ([`Action::run`]), so that what the user saw is what runs.
mod arguments;
pub mod bash;
pub mod edit;
pub mod output;
pub mod paths;
pub mod read;
pub mod shell_line;
pub mod skill;
#[cfg(test)]
mod test_place;
pub mod write;

use crate::cancel::CancelToken;
use crate::model::{Image, ToolSpec};
use crate::process::Left;
use serde_json::{Map, Value};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The names of the built-in tools, which no MCP server may bear.
pub const NAMES: &[&str] = &["bash", "read_file", "write_file", "edit_file", "read_skill"];

/// The built-in tools, in the order they are offered.
pub fn built_in() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(bash::Bash),
        Box::new(read::ReadFile),
        Box::new(write::WriteFile),
        Box::new(edit::EditFile),
        Box::new(skill::ReadSkill),
    ]
}

/// The specs of the built-in tools, in the same order. Made once: to each session of a hundred they would be 20 KB.
pub fn built_in_specs() -> Arc<[ToolSpec]> {
    static SPECS: LazyLock<Arc<[ToolSpec]>> =
        LazyLock::new(|| built_in().iter().map(|tool| tool.spec()).collect());
    SPECS.clone()
}

/// A tool the model may call.
pub trait Tool: Send + Sync {
    /// Its name, description and schema, as offered to the model.
    fn spec(&self) -> ToolSpec;

    /// What a call would do. Bad arguments, a missing file, no match: a plan whose action is an error.
    fn plan(&self, arguments: &Map<String, Value>, workspace: &Workspace) -> Plan;
}

/// A call as it is shown and asked about before it runs.
pub struct Plan {
    /// One line, uncleaned: `bash: <command>`, `read_file: <path relative to cwd>`.
    pub title: String,
    /// For the client's icon.
    pub kind: Kind,
    /// The files it is about, absolute.
    pub locations: Vec<Location>,
    /// What an edit would change.
    pub diff: Option<Diff>,
    /// What permission is about.
    pub access: Access,
    /// What to run, or why it can't be; such a call fails without a question.
    pub action: Result<Box<dyn Action>, Refusal>,
}

/// Why a planned call can't be run, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// All there is to say.
    pub text: String,
    /// What is said instead where the user would be asked first: `text` tells what is in a file.
    pub before_permission: Option<String>,
}

impl Refusal {
    /// What the model reads; `asks`: the call would have been asked about.
    pub fn told(self, asks: bool) -> String {
        self.before_permission.filter(|_| asks).unwrap_or(self.text)
    }
}

/// A text that tells nothing of the user's.
impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self { text, before_permission: None }
    }
}

/// A planned call, ready to run.
pub trait Action: Send {
    /// Does it. Called once, after permission was given.
    fn run(self: Box<Self>, run: &mut Run<'_>) -> Outcome;
}

/// What a running call may use.
pub struct Run<'a> {
    /// Ends the call.
    pub cancel: &'a CancelToken,
    /// Called with the whole output so far, already cut for the client; at most 10 times a second. Never waits.
    pub progress: &'a mut dyn FnMut(&str),
    /// The session's surroundings.
    pub workspace: &'a mut Workspace,
}

/// What a call came to.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// What the model reads, capped.
    pub output: String,
    /// It did not do what was asked: refused, cancelled, timed out, invalid.
    pub failed: bool,
    /// Of a command that ended by itself.
    pub exit_code: Option<i32>,
    /// What was changed.
    pub diff: Option<Diff>,
    /// Pictures for a model that sees.
    pub images: Vec<Image>,
}

impl Outcome {
    /// Done, with what the model reads.
    pub fn done(output: impl Into<String>) -> Self {
        Self { output: output.into(), failed: false, exit_code: None, diff: None, images: Vec::new() }
    }

    /// Not done, with the reason for the model.
    pub fn failed(output: impl Into<String>) -> Self {
        Self { failed: true, ..Self::done(output) }
    }
}

/// The client's categories of calls (ACP `ToolKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Read,
    /// Changes a file.
    Edit,
    /// Runs a command.
    Execute,
    /// Neither reads nor changes anything of the user's.
    Think,
    /// Something else.
    Other,
}

/// A file a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Absolute.
    pub path: PathBuf,
    /// From 1, if known.
    pub line: Option<u32>,
}

/// A file before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// Absolute.
    pub path: PathBuf,
    /// `None`: there was no file.
    pub old: Option<String>,
    /// All of it.
    pub new: String,
}

/// What permission is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing to ask: `read_skill`, or a call with invalid arguments.
    Free,
    /// A shell command, whole.
    Command(String),
    /// A file.
    File {
        /// Where it is once every link is followed.
        path: PathBuf,
        /// Inside the project or not, protected or not.
        place: Place,
    },
}

/// How a resolved path is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Inside `cwd` or an additional directory.
    pub inside_roots: bool,
    /// A name that asks although the mode would allow (for reading, only those that may hold secrets).
    pub protected: bool,
}

impl Workspace {
    /// `cwd` as the kernel has it.
    pub fn physical_cwd(&self) -> &Path {
        self.roots.first().unwrap_or(&self.cwd)
    }

    /// The home as it is called, and without links.
    pub fn homes(&self) -> Vec<PathBuf> {
        self.home
            .iter()
            .cloned()
            .chain(self.home.as_ref().and_then(|home| home.canonicalize().ok()))
            .collect()
    }
}

/// A session's surroundings: where it works, within what limits, what it has seen and left running.
pub struct Workspace {
    /// Absolute, as the client gave it.
    pub cwd: PathBuf,
    /// `cwd` and the additional directories, resolved.
    pub roots: Vec<PathBuf>,
    /// The user's home, for `~`.
    pub home: Option<PathBuf>,
    /// The user's folder of Bob's, `~/.bob` by default; `None` without a home.
    pub user_folder: Option<PathBuf>,
    /// How long a command may run if the model names no limit.
    pub bash_timeout: Duration,
    /// Characters of a command's output kept for the model.
    pub bash_max_output: usize,
    /// Environment variables no command gets.
    pub hidden_variables: Vec<OsString>,
    /// What the files were when this session last read or wrote them.
    pub seen: paths::Seen,
    /// Processes that outlived their command, ended with the session.
    pub left: Vec<Left>,
}
