//! Bob: a coding agent that an editor starts as a child process and talks to over the Agent Client Protocol.
//!
//! The rooms, from the top; each imports only from its own layer or from below (`ARCHITECTURE.md`).

pub mod cli;
pub mod server;

pub mod session;

pub mod mcp;
pub mod model;
pub mod tools;

pub mod settings;

pub mod cancel;
pub mod files;
pub mod logging;
pub mod process;
pub mod text;
pub mod wire;
