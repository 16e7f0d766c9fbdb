//! The read end of a command's output, and the one place that waits.
use super::poll::poll;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, PipeReader, Read};
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// A whole pipe at once.
const PIECE: usize = 64 * 1024;
/// Pieces read once all are gone: a pipe holds no more, whoever escaped may write for ever.
const LAST_PIECES: usize = 16;

/// Takes what a command prints.
pub trait Sink {
    /// The next piece, cut anywhere.
    fn take(&mut self, bytes: &[u8]);

    /// When [`flush`](Self::flush) is wanted, if it is.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// The time named by [`due`](Self::due) has come.
    fn flush(&mut self) {}
}

impl Sink for () {
    fn take(&mut self, _: &[u8]) {}
}

/// The read end, where its bytes go, and the one place that waits.
pub(super) struct Pipe<'a> {
    read: Option<PipeReader>,
    buffer: Vec<u8>,
    sink: &'a mut dyn Sink,
}

impl<'a> Pipe<'a> {
    pub(super) fn new(read: PipeReader, sink: &'a mut dyn Sink) -> Self {
        Self { read: Some(read), buffer: vec![0; PIECE], sink }
    }

    pub(super) fn closed(sink: &'a mut dyn Sink) -> Self {
        Self { read: None, buffer: Vec::new(), sink }
    }

    /// Waits for one of `fds`, for output, for what the sink wants or for `until`. Takes one piece of output, so that
    /// a flood can't starve the caller's other checks.
    pub(super) fn wait<'f>(&mut self, fds: impl Iterator<Item = BorrowedFd<'f>>, until: Instant) {
        let until = self.sink.due().map_or(until, |due| due.min(until));
        let mut polled: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        if let Some(read) = &self.read {
            polled.push(PollFd::new(read, PollFlags::IN));
        }
        // An error (no memory) makes this turn a busy one; the caller's deadline still ends it.
        let _ = poll(&mut polled, Some(until.saturating_duration_since(Instant::now())));
        drop(polled);
        self.take_a_piece();
        if self.sink.due().is_some_and(|due| due <= Instant::now()) {
            self.sink.flush();
        }
    }

    /// Nobody writes any more, or it was [`close`](Self::close)d.
    pub(super) fn is_closed(&self) -> bool {
        self.read.is_none()
    }

    /// From now on who writes gets SIGPIPE.
    pub(super) fn close(&mut self) {
        self.read = None;
    }

    /// What is in the pipe when nobody is left to write.
    pub(super) fn drain(&mut self) {
        let _ = (0..LAST_PIECES).all(|_| self.take_a_piece());
    }

    /// False: there is none now.
    fn take_a_piece(&mut self) -> bool {
        let Some(read) = &mut self.read else { return false };
        match read.read(&mut self.buffer) {
            Ok(0) => self.read = None,
            Ok(n) => {
                self.sink.take(&self.buffer[..n]);
                return true;
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.read = None,
        }
        false
    }
}
