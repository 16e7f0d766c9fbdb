//! Who may cancel and who may only look.
//!
//! A wait in our own code selects on [`CancelToken::fired`]. A hook is only for what no channel reaches: a
//! thread in `poll` (one byte into its wake pipe) or in a socket read (`Agent::shutdown`).
//!
//! The order in [`CancelSource::cancel`] matters: flag, hooks, waiters. Waking the waiters first lets a woken
//! worker drop its guard before the hook has run, and what the hook should have ended lives on.
use crossbeam_channel::{Receiver, Sender, bounded};
use parking_lot::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

type Hook = Box<dyn FnOnce() + Send>;

/// What was being done has been cancelled.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Cancelled;

/// Held by who may cancel. Clones cancel the same thing.
#[derive(Clone)]
pub struct CancelSource(Arc<Shared>);

/// Held by who may only look, wait and register hooks.
#[derive(Clone)]
pub struct CancelToken(Arc<Shared>);

struct Shared {
    cancelled: AtomicBool,
    fired: Receiver<()>,
    hooks: Mutex<Hooks>,
    hook_ended: Condvar,
}

struct Hooks {
    next: u64,
    registered: Vec<(u64, Hook)>,
    running: Option<u64>,
    /// Dropped last: that disconnects `fired` and wakes every `select!`.
    wake: Option<Sender<()>>,
}

impl Default for CancelSource {
    fn default() -> Self {
        Self::new()
    }
}

impl CancelSource {
    /// Not cancelled yet.
    pub fn new() -> Self {
        let (wake, fired) = bounded(0);
        let hooks = Hooks { next: 0, registered: Vec::new(), running: None, wake: Some(wake) };
        Self(Arc::new(Shared {
            cancelled: AtomicBool::new(false),
            fired,
            hooks: Mutex::new(hooks),
            hook_ended: Condvar::new(),
        }))
    }

    /// The side that only looks.
    pub fn token(&self) -> CancelToken {
        CancelToken(self.0.clone())
    }

    /// Flag, hooks (outside the lock), waiters. Only the first call does anything.
    pub fn cancel(&self) {
        if self.0.cancelled.swap(true, SeqCst) {
            return;
        }
        loop {
            let mut hooks = self.0.hooks.lock();
            let Some((id, hook)) = hooks.registered.pop() else {
                hooks.wake = None;
                return;
            };
            hooks.running = Some(id);
            drop(hooks);
            hook();
            self.0.hooks.lock().running = None;
            self.0.hook_ended.notify_all();
        }
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(SeqCst)
    }
}

impl CancelToken {
    /// Whether the source was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(SeqCst)
    }

    /// `Err` once cancelled, for use with `?`.
    pub fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }

    /// Disconnects on cancel; nothing is ever sent.
    pub fn fired(&self) -> &Receiver<()> {
        &self.0.fired
    }

    /// The hook runs once: on cancel, or here and now if that was before. It may set a flag, write one byte to a
    /// non-blocking pipe or shut an agent down, and nothing else. Neither make nor drop the guard while a
    /// lock is held that the hook takes.
    #[must_use = "the hook is unregistered when its guard is dropped"]
    pub fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) -> HookGuard {
        let mut hooks = self.0.hooks.lock();
        let id = hooks.next;
        hooks.next += 1;
        // `cancel` sets the flag before it takes this lock: whoever reads false here is drained there.
        if self.is_cancelled() {
            drop(hooks);
            hook();
        } else {
            hooks.registered.push((id, Box::new(hook)));
        }
        HookGuard { shared: self.0.clone(), id }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelToken({})", if self.is_cancelled() { "cancelled" } else { "live" })
    }
}

/// Once it is dropped the hook does not run and is not running: what it points at may go.
pub struct HookGuard {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for HookGuard {
    fn drop(&mut self) {
        let mut hooks = self.shared.hooks.lock();
        hooks.registered.retain(|(id, _)| *id != self.id);
        while hooks.running == Some(self.id) {
            self.shared.hook_ended.wait(&mut hooks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn a_hook_runs_once_whenever_it_is_registered() {
        for late in [false, true] {
            let source = CancelSource::new();
            let runs = Arc::new(AtomicUsize::new(0));
            if late {
                source.cancel();
            }
            let counted = runs.clone();
            let _guard = source.token().on_cancel(move || {
                counted.fetch_add(1, SeqCst);
            });
            source.cancel();
            source.cancel();
            assert_eq!(runs.load(SeqCst), 1, "late: {late}");
        }
    }

    #[test]
    fn a_dropped_guard_takes_its_hook_along() {
        let source = CancelSource::new();
        drop(source.token().on_cancel(|| panic!("ran")));
        source.cancel();
        assert_eq!(source.token().check(), Err(Cancelled));
    }

    #[test]
    fn hooks_come_before_waiters() {
        for _ in 0..200 {
            let source = CancelSource::new();
            let token = source.token();
            let ran = Arc::new(AtomicBool::new(false));
            let seen = ran.clone();
            let _guard = token.on_cancel(move || seen.store(true, SeqCst));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    assert!(token.fired().recv().is_err());
                    assert!(ran.load(SeqCst), "woken before the hook ran");
                });
                source.cancel();
            });
        }
    }
}
