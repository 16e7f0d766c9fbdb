//! Tries again what may go better the next time, as long as nothing of a reply was shown.
use crate::cancel::{CancelToken, Cancelled};
use crate::model::failure::{Ended, Retry, Trouble};
use crate::model::{AssistantMessage, Broken, Delta, Flusher, Listener, Reply, Why};
use crate::settings::Secret;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    /// Tries in all.
    pub(super) tries: u32,
    /// The wait before the second try; it doubles with each.
    pub(super) first: Duration,
    /// The longest wait of ours.
    pub(super) longest: Duration,
    /// The longest wait that a provider may ask for.
    pub(super) longest_asked: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            tries: 5,
            first: Duration::from_millis(500),
            longest: Duration::from_secs(30),
            longest_asked: Duration::from_secs(60),
        }
    }
}

impl Backoff {
    /// The wait before the next try after `made` of them; `None` if there is none.
    fn wait(&self, retry: Retry, made: u32) -> Option<Duration> {
        let growing = || self.first.saturating_mul(1 << made.saturating_sub(1).min(16)).min(self.longest);
        match retry {
            _ if made >= self.tries => None,
            Retry::Never => None,
            Retry::After(asked) => Some(asked.min(self.longest_asked)),
            Retry::Later | Retry::Once => Some(growing().mul_f64(jitter())),
        }
    }
}

/// From 0.75 to 1.25, so that many clients don't come back all at once.
fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0) >> 32; // its keys are random
    0.75 + 0.5 * (random as f64 / f64::from(u32::MAX))
}

/// Calls `attempt` until it gives a whole reply, or no other try is due. `key` is kept out of all words.
///
/// # Errors
/// The last try's.
pub(super) fn until_whole(
    backoff: Backoff,
    key: Option<&Secret>,
    cancel: &CancelToken,
    listener: &mut dyn Listener,
    mut attempt: impl FnMut(&mut dyn Listener) -> Result<Reply, Ended>,
) -> Result<Reply, Broken> {
    let mut watched = Watched { listener, shown: false };
    let mut fell_silent = false;
    for made in 1.. {
        let Ended { trouble, partial } = match attempt(&mut watched) {
            Ok(reply) => return Ok(reply),
            Err(ended) => ended,
        };
        if cancel.is_cancelled() || trouble == Trouble::Cancelled {
            return Err(cancelled(partial));
        }
        let retry = match trouble.retry() {
            _ if watched.shown => Retry::Never,
            Retry::Once if std::mem::replace(&mut fell_silent, true) => Retry::Never,
            retry => retry,
        };
        let failure = trouble.into_failure(key);
        let Some(wait) = backoff.wait(retry, made) else {
            return Err(Broken { why: Why::Failed(failure), partial });
        };
        log::debug!("model: try {made} failed, the next in {wait:.1?}: {}", failure.message);
        if watched.listener.pause(&failure.message, wait).is_err() {
            return Err(cancelled(partial));
        }
    }
    unreachable!("the tries are counted")
}

fn cancelled(partial: AssistantMessage) -> Broken {
    Broken { why: Why::Cancelled, partial }
}

/// Notes whether anything was shown that can't be taken back; reasoning can.
struct Watched<'a> {
    listener: &'a mut dyn Listener,
    shown: bool,
}

impl Listener for Watched<'_> {
    fn delta(&mut self, delta: Delta<'_>) {
        self.shown |= !matches!(delta, Delta::Reasoning(_));
        self.listener.delta(delta);
    }

    fn flusher(&self) -> Flusher {
        self.listener.flusher()
    }

    fn pause(&mut self, why: &str, wait: Duration) -> Result<(), Cancelled> {
        self.listener.pause(why, wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_with_jitter_to_their_limit_and_the_tries_end() {
        let backoff = Backoff { tries: 12, ..Backoff::default() };
        for (made, seconds) in [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (8, 30.0), (11, 30.0)] {
            for _ in 0..100 {
                let wait = backoff.wait(Retry::Later, made).unwrap().as_secs_f64();
                assert!((0.75 * seconds..=1.25 * seconds).contains(&wait), "{made}: {wait}");
            }
        }
        assert_eq!(backoff.wait(Retry::Later, 12), None);
        assert_eq!(backoff.wait(Retry::Never, 1), None);
        assert_eq!(Backoff::default().wait(Retry::After(Duration::MAX), 5), None);
    }

    #[test]
    fn jitter_differs_from_time_to_time() {
        let first = jitter();
        assert!((0..100).any(|_| jitter() != first));
    }
}
