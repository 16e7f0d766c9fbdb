//! What happens before each read of a socket: a limit that changes in the course of an answer, which no setting of ureq
//! does, and a word to whom it concerns that more has to be waited for.
use crate::model::Flusher;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ureq::Timeout;
// Not under semver: Cargo.toml pins the minor version.
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// What happens before a socket is read: how long that may take, and who wants to know that more has to be waited for.
pub(super) struct ReadLimit(Mutex<Limits>);

struct Limits {
    each: Duration,
    deadline: Option<Instant>,
    before_wait: Option<Flusher>,
}

impl ReadLimit {
    pub(super) fn new(each: Duration) -> Self {
        Self(Mutex::new(Limits { each, deadline: None, before_wait: None }))
    }

    /// No read takes longer than `each`, and none begins after `deadline`. (A read's limit is not cut to what is left:
    /// it would be another each time, and each change is a system call.)
    pub(super) fn set(&self, each: Duration, deadline: Option<Instant>) {
        let mut limits = self.0.lock();
        (limits.each, limits.deadline) = (each, deadline);
    }

    /// Whom to call whenever what has come is used up.
    pub(super) fn set_flusher(&self, flusher: Option<Flusher>) {
        self.0.lock().before_wait = flusher;
    }

    /// Before a read: its limit.
    fn begin(&self) -> Result<Duration, ureq::Error> {
        let limits = self.0.lock();
        let (each, deadline, flusher) = (limits.each, limits.deadline, limits.before_wait.clone());
        drop(limits);
        flusher.inspect(|flush| flush());
        match deadline {
            Some(deadline) if Instant::now() > deadline => Err(ureq::Error::Timeout(Timeout::PerRead)),
            _ => Ok(each),
        }
    }
}

impl fmt::Debug for ReadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadLimit({:?})", self.0.lock().each)
    }
}

/// Puts a [`ReadLimit`] on each connection.
#[derive(Debug)]
pub(super) struct Limiting(pub(super) Arc<ReadLimit>);

impl<In: Transport> Connector<In> for Limiting {
    type Out = Limited<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Limited<In>>, ureq::Error> {
        Ok(chained.map(|inner| Limited { inner, limit: self.0.clone() }))
    }
}

#[derive(Debug)]
pub(super) struct Limited<T> {
    inner: T,
    limit: Arc<ReadLimit>,
}

impl<T: Transport> Transport for Limited<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, mut timeout: NextTimeout) -> Result<bool, ureq::Error> {
        timeout.per_read = Some(self.limit.begin()?.into());
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
