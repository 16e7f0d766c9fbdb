//! Ctrl-C and its like (SIGINT, SIGTERM, SIGHUP, SIGQUIT), for the commands that have no server.
use crate::cancel::{CancelSource, CancelToken};
use crate::process;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Hears the first signal. From its making on, signals end nothing by themselves.
pub(super) struct Interrupt {
    token: CancelToken,
    /// Its other end is closed with the first signal.
    line: UnixStream,
}

impl Interrupt {
    /// Once a process.
    ///
    /// # Errors
    /// The system gives no descriptors or threads.
    pub(super) fn new() -> io::Result<Self> {
        let (mut wake, waker) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        process::signals_to(&waker)?;
        process::quit_signal_to(&waker)?;
        let (line, other_end) = UnixStream::pair()?;
        let source = CancelSource::new();
        let token = source.token();
        let watch = move || {
            let _ = wake.read_exact(&mut [0]);
            source.cancel();
            drop(other_end);
        };
        std::thread::Builder::new().name("signals".into()).spawn(watch)?;
        Ok(Self { token, line })
    }

    /// Cancelled with the first signal.
    pub(super) fn token(&self) -> &CancelToken {
        &self.token
    }

    /// Ready to be read from the first signal on, for `poll`.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }
}
