//! The wire: JSON-RPC 2.0 as lines, what we write, and the one queue to stdout.
pub mod acp;
pub mod config_option;
pub mod jsonrpc;
pub mod lines;
pub mod outbox;
pub mod params;
