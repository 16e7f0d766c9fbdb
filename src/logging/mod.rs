//! Logging never blocks its caller: a line goes into a bounded channel, what does not fit is counted, one thread
//! owns stderr and the log files.
mod folder;
mod stderr;
mod whose;

pub use whose::{Scope, SessionLog, carried, current, of, of_opening, opened};

use crate::text::{escape_controls, head};
use crate::wire::acp::SessionId;
use crossbeam_channel::{Receiver, Sender, bounded};
use folder::FolderLogs;
use log::{Level, LevelFilter, Metadata, Record};
use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};
use stderr::Stderr;

/// Lines that may wait.
const BOUND: usize = 1024;
/// How long the end of the process waits for lines that nobody may be reading.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Bytes of a line: a panic may tell more.
const LONGEST: usize = 16 << 10;

static INSTALLED: OnceLock<Log> = OnceLock::new();

/// The log thread's inbox, and what did not fit into it.
#[derive(Clone)]
pub struct Log {
    entries: Sender<Entry>,
    dropped: Arc<AtomicU64>,
}

enum Entry {
    /// For stderr and `--log-file`, and for the folder of the session it is of.
    Line(Box<Line>, Option<Arc<SessionLog>>),
    /// For the folder: stderr had it while the session was being opened.
    Held(Box<Line>, Arc<SessionLog>),
    /// Dropped when all before it is written.
    Flush { _written: Sender<()> },
}

/// What is logged: one line, whatever was in it.
#[derive(Clone, Debug)]
struct Line {
    at: SystemTime,
    level: Level,
    text: String,
}

impl Line {
    fn new(level: Level, what: &impl Display) -> Self {
        let text = escape_controls(head(&what.to_string(), LONGEST));
        Self { at: SystemTime::now(), level, text }
    }

    fn on_stderr(&self) -> String {
        match self.level {
            Level::Info => format!("{}\n", self.text),
            level => format!("{}: {}\n", level.as_str().to_lowercase(), self.text),
        }
    }

    /// Alike for all levels, with what a shared file does not tell by itself.
    fn in_folder(&self, session: &SessionId) -> String {
        let Self { at, level, text } = self;
        format!("{} {level:<5} {session} {text}\n", humantime::format_rfc3339_millis(*at))
    }
}

/// What the log thread works on.
pub struct LogLines {
    entries: Receiver<Entry>,
    dropped: Arc<AtomicU64>,
}

impl Log {
    /// The two ends.
    pub fn new() -> (Self, LogLines) {
        let (entries, received) = bounded(BOUND);
        let dropped = Arc::new(AtomicU64::new(0));
        (Self { entries, dropped: dropped.clone() }, LogLines { entries: received, dropped })
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
        let filter = builder.build();
        let most = filter.filter();
        // A second server in one process keeps the first one's.
        if INSTALLED.set(self.clone()).is_ok() && log::set_boxed_logger(Box::new(Logger { filter })).is_ok() {
            log::set_max_level(most);
        }
    }

    fn installed() -> Option<&'static Self> {
        INSTALLED.get()
    }

    fn push(&self, line: Line) {
        let session = whose::session_of(&line);
        self.send(Entry::Line(Box::new(line), session));
    }

    fn send(&self, entry: Entry) {
        if self.entries.try_send(entry).is_err() {
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
        std::panic::set_hook(Box::new(move |what| log.push(Line::new(Level::Error, what))));
    }
}

/// The `log` crate's way to the [`Log`] that is installed.
struct Logger {
    filter: env_logger::Logger,
}

impl log::Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.filter.matches(record)
            && let Some(log) = Log::installed()
        {
            log.push(Line::new(record.level(), record.args()));
        }
    }

    fn flush(&self) {}
}

impl LogLines {
    /// The log thread's body.
    pub fn write_all(&self, file: Option<&File>) {
        let (mut folders, mut stderr) = (FolderLogs::default(), Stderr::default());
        while let Some(entry) = self.next(&mut folders) {
            let (line, session) = match &entry {
                Entry::Line(line, session) => (line, session.as_ref()),
                Entry::Held(line, session) => (line, Some(session)),
                Entry::Flush { .. } => continue,
            };
            let in_folder = session.map_or(Ok(()), |session| folders.write(session, line));
            if let Entry::Line(line, _) = &entry {
                self.tell(line, &mut stderr, file);
            }
            if let Err(why) = in_folder
                && log::log_enabled!(Level::Warn)
            {
                self.tell(&Line::new(Level::Warn, &why), &mut stderr, file);
            }
        }
    }

    fn next(&self, folders: &mut FolderLogs) -> Option<Entry> {
        self.entries.try_recv().ok().or_else(|| {
            folders.close();
            self.entries.recv().ok()
        })
    }

    fn tell(&self, line: &Line, stderr: &mut Stderr, file: Option<&File>) {
        let dropped = self.dropped.swap(0, SeqCst);
        let note =
            if dropped > 0 { format!("warning: {dropped} log line(s) dropped\n") } else { String::new() };
        let lines = note + &line.on_stderr();
        stderr.write(&lines);
        if let Some(mut file) = file {
            let _ = file.write_all(lines.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_nobody_writes_holds_nobody_up() {
        let (log, lines) = Log::new();
        (0..BOUND + 5).for_each(|_| log.push(Line::new(Level::Info, &"a line")));
        log.flush();
        assert_eq!((lines.entries.len(), lines.dropped.load(SeqCst)), (BOUND, 5));
    }

    #[test]
    fn a_line_is_one_line_and_bounded() {
        let line = |what: &str| Line::new(Level::Warn, &what).on_stderr();
        assert_eq!(line("a\nb\x1b[2J"), "warn: a⏎b\\u{1b}[2J\n");
        assert!(line(&"x".repeat(1 << 20)).len() < 2 * LONGEST);
    }
}
