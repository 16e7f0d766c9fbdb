//! What happens before each read of a socket: a limit that changes in the course of an answer, which no setting of ureq
//! does, and a word to whom it concerns that more has to be waited for.
use crate::model::Flusher;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
// Not under semver: Cargo.toml pins the minor version.
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// What happens before a socket is read: how long that may take, and who wants to know that more has to be waited for.
pub(super) struct ReadLimit {
    milliseconds: AtomicU64,
    before_wait: Mutex<Option<Flusher>>,
}

impl ReadLimit {
    pub(super) fn new(limit: Duration) -> Self {
        Self { milliseconds: AtomicU64::new(milliseconds(limit)), before_wait: Mutex::default() }
    }

    pub(super) fn set(&self, limit: Duration) {
        self.milliseconds.store(milliseconds(limit), Relaxed);
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_millis(self.milliseconds.load(Relaxed))
    }

    /// Whom to call whenever what has come is used up.
    pub(super) fn set_flusher(&self, flusher: Option<Flusher>) {
        *self.before_wait.lock() = flusher;
    }

    fn flush(&self) {
        let flusher = self.before_wait.lock().clone();
        flusher.inspect(|flush| flush());
    }
}

impl fmt::Debug for ReadLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadLimit({:?})", self.get())
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
        self.limit.flush();
        timeout.per_read = Some(self.limit.get().into());
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
