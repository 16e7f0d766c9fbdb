//! What whole-program tests share: a client that checks every line it gets, a scripted model server, matching.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file is a crate of its own that uses its part of this"
)]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by a panic and tells why on stderr"
)]
#![allow(clippy::needless_pass_by_value, reason = "callers write json!(…) in place")]

pub mod checker;
pub mod client;
pub mod command;
pub mod formats;
pub mod matching;
pub mod model_server;
pub mod openai;
pub mod process;
pub mod saved;
pub mod scene;
pub mod schema;
pub mod turns;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a test waits before it calls something hung. No test passes or fails by how fast anything is.
pub const HANG: Duration = Duration::from_secs(30);

/// Writes a file below `folder`, making the folders on the way.
pub fn write_file(folder: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("it is below a folder")).unwrap();
    File::create(&path).unwrap().write_all(content.as_ref()).unwrap();
    path
}

/// Starts a thread whose name shows in a debugger.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().name(name.into()).spawn(work).expect("a test may have a thread");
}
