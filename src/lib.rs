//! Bob: a coding agent that an editor starts as a child process and talks to over the Agent Client Protocol.
//!
//! The rooms, from the top; each imports only from its own layer or from below (`ARCHITECTURE.md`).

pub mod cancel;
pub mod files;
pub mod model;
pub mod process;
pub mod session;
pub mod settings;
pub mod text;
pub mod tools;
