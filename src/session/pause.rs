//! The wait before a model call is tried again: the user is told, and other sessions' turns may work meanwhile.
use crate::cancel::{CancelToken, Cancelled};
use crate::model::{Delta, Listener};
use crate::session::gate::Place;
use crate::session::speaker::Speaker;
use crossbeam_channel::{after, select};
use std::time::Duration;

/// Hears of a model call whose reply is not for the user.
pub(super) struct Retrying<'a> {
    /// Tells of the retries.
    pub(super) speaker: Speaker<'a>,
    /// Its turn's.
    pub(super) place: &'a Place,
}

impl Listener for Retrying<'_> {
    fn delta(&mut self, _: Delta<'_>) {}

    fn pause(&mut self, why: &str, wait: Duration) -> Result<(), Cancelled> {
        pause(&self.speaker, self.place, why, wait)
    }
}

/// Tells `why`, and waits without the gate.
///
/// # Errors
/// Cancelled meanwhile.
pub(super) fn pause(
    speaker: &Speaker<'_>,
    place: &Place,
    why: &str,
    wait: Duration,
) -> Result<(), Cancelled> {
    speaker.thought(&format!("{why}; trying again in {:.1} s.", wait.as_secs_f64()));
    place.away(speaker.cancel, || sleep(wait, speaker.cancel))
}

fn sleep(wait: Duration, cancel: &CancelToken) {
    select! {
        recv(after(wait)) -> _ => {}
        recv(cancel.fired()) -> _ => {}
    }
}
