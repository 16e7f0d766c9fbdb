//! A session: its worker, its history, its turns.
pub mod busy;
pub mod calls;
pub mod catalog;
pub mod commands;
pub mod compaction;
pub mod conversation;
pub mod gate;
pub mod history;
pub mod ids;
mod image;
pub mod instructions;
mod links;
pub mod mentions;
pub mod opening;
pub mod options;
mod pause;
pub mod permission;
pub mod prompt;
mod raw_input;
pub mod replay;
mod shown;
pub mod speaker;
pub mod store;
pub mod turn;
pub mod usage;
pub mod worker;

pub use prompt::Prompt;

use crate::files::Unsynced;
use crate::logging::SessionLog;
use crate::model::{Call, Provider, Request, ToolSpec};
use crate::session::catalog::Catalog;
use crate::session::history::History;
use crate::session::history::record::{CallResult, Status};
use crate::session::permission::Permissions;
use crate::session::store::Store;
use crate::session::usage::Window;
use crate::settings::Environment;
use crate::settings::config::{Flags, ProcessSettings};
use crate::settings::llm::Thinking;
use crate::tools::{Tool, Workspace};
use crate::wire::acp::{Cost, ModeInfo, SessionId};
use crate::wire::jsonrpc::RpcError;
use crate::wire::outbox::{Outbox, Reply};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What all sessions of the process share.
pub struct Context {
    /// To the client.
    pub outbox: Outbox,
    /// The turn gate.
    pub gate: gate::Gate,
    /// Settings of the process.
    pub process: ProcessSettings,
    /// The environment as it was when the process started.
    pub environment: Environment,
    /// Bob's folder of the user; `None` where there is no home.
    pub user_folder: Option<PathBuf>,
    /// This program's own path.
    pub program: PathBuf,
    /// Whether a login could be kept in the user's folder when the process began.
    pub keeps_logins: bool,
    /// The user's `config.json`, or the file of `--config`.
    pub config_file: Option<PathBuf>,
    /// What the command line says over it.
    pub flags: Flags,
    /// What a worker tells the dispatcher.
    pub tell: Box<dyn Fn(Event) + Send + Sync>,
    /// For `call_N`.
    pub calls: Counter,
    /// For `msg_N`.
    pub messages: Counter,
}

/// What the client can do, as far as Bob makes use of it (`clientCapabilities`).
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientCapabilities {
    /// `auth.terminal`: it runs our login in a terminal.
    pub terminal_auth: bool,
    /// `_meta["terminal-auth"]`: the same in the spelling of older clients, who want the whole command.
    pub terminal_auth_meta: bool,
    /// `session.compaction`: it knows `compaction_update`.
    pub compaction: bool,
}

impl ClientCapabilities {
    /// It has a login of its own for us, in whatever spelling.
    pub fn has_login(self) -> bool {
        self.terminal_auth || self.terminal_auth_meta
    }
}

/// What the dispatcher has to know of a session.
pub enum Event {
    /// A new session has the name under which it is saved: that of the one it continues, if it does. It goes by the
    /// one it was opened under, too.
    Named {
        /// The name it was opened under.
        id: SessionId,
        /// Its own; mostly the same.
        name: SessionId,
    },
    /// Something was written that is still to be made to last; and whose lines tell how that went.
    Unsynced(Unsynced, Option<Arc<SessionLog>>),
    /// Its worker is gone: the last thing it tells.
    Ended(Ended),
}

/// A worker is gone.
pub struct Ended {
    /// Whose.
    pub id: SessionId,
    /// Why.
    pub how: HowEnded,
    /// What is to be answered once its id is free (`Ok` is `{}`). Not by the worker: nobody waits for it any more, and
    /// the process may end before it comes to that.
    pub last: Vec<(Reply, Result<(), RpcError>)>,
}

/// Why a worker is gone.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum HowEnded {
    /// Its session was closed, or the process ends.
    Closed,
    /// Its session could not be opened.
    NotOpened,
    /// A panic.
    Failed,
}

/// Numbers from 1, unique in the process.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The next one.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Relaxed) + 1
    }

    /// From here on only numbers past `taken`.
    pub fn lift(&self, taken: u64) {
        self.0.fetch_max(taken, Relaxed);
    }
}

/// How a session comes to be.
#[derive(Debug)]
pub struct Opening {
    /// As the request has them.
    pub params: OpenParams,
    /// Of the client.
    pub client: ClientCapabilities,
    /// Where its conversation comes from.
    pub origin: Origin,
}

/// Where a session's conversation comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It has none yet.
    New {
        /// Its name is the user's (`--script ID`): a saved session that bears it is set aside.
        named: bool,
    },
    /// `--resume`: the saved session whose id is or begins so, or the newest; a new one where that can't be had.
    Resume(Option<String>),
    /// `session/load`, `session/resume`: the saved session of this id.
    Saved {
        /// Told to the client once more.
        replay: bool,
    },
}

/// Params of `session/new`, `load` and `resume`, checked as far as that goes without the disk.
#[derive(Debug)]
pub struct OpenParams {
    /// Absolute.
    pub cwd: PathBuf,
    /// Absolute: further roots for the tools.
    pub additional_directories: Vec<PathBuf>,
    /// The names of the MCP servers the client wants started.
    pub mcp_servers: Vec<String>,
}

/// What only the session's worker touches.
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// Where it works.
    pub workspace: Workspace,
    /// The conversation.
    pub history: History,
    /// Its file.
    pub store: Store,
    /// What the client could do when it was opened.
    pub client: ClientCapabilities,
    /// The model.
    pub provider: Box<dyn Provider>,
    /// The model's name.
    pub model: String,
    /// How much it is to think.
    pub thinking: Option<Thinking>,
    /// The models there are; the dispatcher has a share in it.
    pub catalog: Arc<Catalog>,
    /// The system prompt.
    pub system: String,
    /// What the model may call.
    pub tools: Vec<Box<dyn Tool>>,
    /// Their specs, in the same order.
    pub specs: Arc<[ToolSpec]>,
    /// What may be done without asking.
    pub permissions: Permissions,
    /// What `session/set_mode` last named: a mode of ours or the client's own.
    pub mode_id: String,
    /// Of its model calls, as far as prices are set.
    pub cost: Option<Cost>,
    /// `turns.maxModelCalls`.
    pub max_model_calls: u32,
    /// The model's context, and how full it is.
    pub window: Window,
    /// `context.keepLastTurns`: kept word for word by a compaction.
    pub keep_last_turns: usize,
    /// What the user is to be told at the next prompt.
    pub notices: Vec<String>,
}

impl Session {
    /// Writes what has been said and done; a failure is a warning.
    pub fn save(&mut self) {
        self.store.save(&self.history);
    }

    /// The next model call as things stand.
    pub fn request(&self) -> Request<'_> {
        let Self { model, thinking, system, history, specs, .. } = self;
        Request { model, thinking: *thinking, system, messages: history.messages(), tools: specs }
    }

    /// Notes a skill that was read.
    fn note_skill(&mut self, call: &Call, result: &CallResult) {
        let skills = &mut self.store.head.skills;
        let name = result.title.strip_prefix("read_skill: ").filter(|_| call.name == "read_skill");
        if let Some(name) =
            name.filter(|name| result.status == Status::Completed && !skills.iter().any(|s| s == name))
        {
            skills.push(name.to_string());
        }
    }
}

/// What the client calls our login.
pub const LOGIN_NAME: &str = "Log in to Bob";

/// The modes a client may offer.
pub const MODES: &[ModeInfo] = &[
    ModeInfo { id: "ask", name: "Ask", description: "Asks before every command, read and write" },
    ModeInfo {
        id: "full-access",
        name: "Full access",
        description: "Runs commands and changes files without asking",
    },
];
