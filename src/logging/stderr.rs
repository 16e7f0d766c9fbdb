//! stderr, which a client may have stopped reading: what has no room in it must not keep the log files from theirs.
use crate::process::{self, Watch};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

/// How long a reader may take to make room, once.
const PATIENCE: Duration = Duration::from_secs(1);

/// stderr, and how it goes with its reader.
#[derive(Default)]
pub(super) struct Stderr {
    /// Writes that had no room since the last that had.
    missed: u64,
}

impl Stderr {
    /// Writes the text, or counts it where nobody makes room for it. What is longer than a page may wait all the same.
    pub(super) fn write(&mut self, text: &str) {
        if !has_room(if self.missed == 0 { PATIENCE } else { Duration::ZERO }) {
            self.missed += 1;
            return;
        }
        let note = match std::mem::take(&mut self.missed) {
            0 => String::new(),
            missed => format!("warning: {missed} log line(s) missing: nobody was reading\n"),
        };
        let _ = io::stderr().write_all((note + text).as_bytes());
    }
}

fn has_room(patience: Duration) -> bool {
    // Asked again, since a signal ends a wait; where nothing can be asked, writing tells.
    [patience, Duration::ZERO].into_iter().any(|patience| {
        let stderr = io::stderr();
        process::wait([Some(Watch::Output(stderr.as_fd()))], Some(patience)).map_or(true, |[ready]| ready)
    })
}
