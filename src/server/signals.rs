//! How it all ends: one path, one owner of the deadline. The signals thread blocks on nothing but its poll.
use crate::process::{self, SIGNAL_BYTE, Watch};
use crate::server::Server;
use crate::server::inbox::Event;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// From then on what is open is answered, and nothing more is taken.
const ANSWERED_BY: Duration = Duration::from_millis(1000);
/// From then on nobody is waited for: clients kill after 2 s.
const GONE_BY: Duration = Duration::from_millis(1400);
/// Exit code of a process that two signals ended.
const INTERRUPTED: u8 = 130;
/// Says "look again".
const POKE: u8 = b'p';

/// The end of the process, as far as it has come.
pub struct Shutdown {
    begun: OnceLock<Instant>,
    waker: UnixStream,
    code: AtomicU8,
}

impl Shutdown {
    /// `waker` must be non-blocking; its other end is the signals thread's.
    pub fn new(waker: UnixStream) -> Self {
        Self { begun: OnceLock::new(), waker, code: AtomicU8::new(0) }
    }

    /// The signals thread looks again.
    pub fn poke(&self) {
        let _ = (&self.waker).write(&[POKE]); // full is as good as written
    }

    /// With what the process is to end.
    pub fn code(&self) -> u8 {
        self.code.load(SeqCst)
    }
}

impl Server {
    /// Begins the end, or makes its exit code worse.
    pub fn shut_down(&self, code: u8) {
        self.shutdown.code.fetch_max(code, SeqCst);
        if self.shutdown.begun.set(Instant::now()).is_ok() {
            self.inbox.event(Event::Shutdown);
            self.shutdown.poke();
        }
    }
}

/// The signals thread's body: it ends with the process.
///
/// # Errors
/// `poll` is broken.
pub fn watch(server: &Server, mut wake: &UnixStream, stdout: BorrowedFd<'_>) -> io::Result<()> {
    let (mut signals, mut answered, mut stdout) = (0_usize, false, Some(stdout));
    let stdin = io::stdin();
    loop {
        let age = server.shutdown.begun.get().map(Instant::elapsed);
        let due = if answered { GONE_BY } else { ANSWERED_BY };
        if age.is_some_and(|age| age >= due) {
            if answered {
                exit(server.shutdown.code());
            }
            server.context.outbox.finish();
            answered = true;
            continue;
        }
        // A paused reader does not see the end of input.
        let paused = age.is_none() && server.context.outbox.reader_paused();
        let watched = [
            Some(Watch::Input(wake.as_fd())),
            stdout.map(Watch::HangUp),
            paused.then(|| Watch::HangUp(stdin.as_fd())),
        ];
        let [woken, nobody_reads, input_ended] = process::wait(watched, age.map(|age| due - age))?;
        if woken {
            let mut bytes = [0; 64];
            let count = wake.read(&mut bytes).unwrap_or(0);
            signals += bytes.iter().take(count).filter(|byte| **byte == SIGNAL_BYTE).count();
            match signals {
                0 => {}
                1 => server.shut_down(0),
                _ => exit(INTERRUPTED),
            }
        }
        if nobody_reads {
            stdout = None;
            server.context.outbox.dead();
            server.shut_down(0);
        }
        if input_ended && server.context.outbox.reader_paused() {
            server.shut_down(0);
        }
    }
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the deadline ends the process whatever others do"
)]
fn exit(code: u8) -> ! {
    std::process::exit(code.into())
}
