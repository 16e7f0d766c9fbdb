//! Logging never blocks its caller: a line goes into a bounded channel, what does not fit is counted, one thread
//! owns stderr.
use crossbeam_channel::{Receiver, Sender, bounded};
use log::LevelFilter;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Lines that may wait.
const BOUND: usize = 1024;
/// How long the end of the process waits for lines that nobody may be reading.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The log thread's inbox, and what did not fit into it.
#[derive(Clone)]
pub struct Log {
    entries: Sender<Entry>,
    dropped: Arc<AtomicU64>,
}

enum Entry {
    Line(Vec<u8>),
    /// Dropped when all before it is written.
    Flush {
        _written: Sender<()>,
    },
}

/// What the log thread works on.
pub struct LogLines(Receiver<Entry>, Arc<AtomicU64>);

impl Log {
    /// The two ends.
    pub fn new() -> (Self, LogLines) {
        let (entries, received) = bounded(BOUND);
        let dropped = Arc::new(AtomicU64::new(0));
        (Self { entries, dropped: dropped.clone() }, LogLines(received, dropped))
    }

    /// Makes it the logger of the `log` crate: `BOB_LOG`, else `RUST_LOG`, else `default`.
    pub fn install(&self, default: LevelFilter) {
        let mut builder = env_logger::Builder::new();
        builder.filter_level(LevelFilter::Warn).filter_module("bob", default);
        for variable in ["RUST_LOG", "BOB_LOG"] {
            if let Ok(filters) = std::env::var(variable) {
                builder.parse_filters(&filters);
            }
        }
        // Below this they tell of headers, where an endpoint may have put the key it was sent.
        for library in ["ureq", "ureq_proto"] {
            builder.filter_module(library, LevelFilter::Info);
        }
        builder.format(|out, record| match record.level() {
            log::Level::Info => writeln!(out, "{}", record.args()),
            level => writeln!(out, "{}: {}", level.as_str().to_lowercase(), record.args()),
        });
        builder.target(env_logger::Target::Pipe(Box::new(self.clone())));
        let _ = builder.try_init(); // a second server in one process keeps the first one's
    }

    fn push(&self, line: Vec<u8>) {
        if self.entries.try_send(Entry::Line(line)).is_err() {
            self.dropped.fetch_add(1, SeqCst);
        }
    }

    /// Waits until what was logged is written, but not for ever.
    pub fn flush(&self) {
        let (written, wake) = bounded(0);
        if self.entries.try_send(Entry::Flush { _written: written }).is_ok() {
            let _ = wake.recv_timeout(LAST_WORDS);
        }
    }

    /// A panic says its piece here too: the default hook writes to stderr itself and hangs on a full one.
    pub fn take_panics(&self) {
        let log = self.clone();
        std::panic::set_hook(Box::new(move |what| log.push(format!("error: {what}\n").into_bytes())));
    }
}

impl Write for Log {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.push(record.to_vec());
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogLines {
    /// The log thread's body.
    pub fn write_all(&self, mut file: Option<&File>) {
        for entry in &self.0 {
            let Entry::Line(line) = entry else { continue };
            let dropped = self.1.swap(0, SeqCst);
            let note =
                if dropped > 0 { format!("warning: {dropped} log line(s) dropped\n") } else { String::new() };
            let lines = [note.as_bytes(), &line].concat();
            let _ = io::stderr().write_all(&lines);
            if let Some(file) = &mut file {
                let _ = file.write_all(&lines);
            }
        }
    }
}
