//! Compaction: for the model, one summary of its own making takes the place of all turns but the last. The saved
//! conversation keeps them.
//!
//! The history is changed at the very end, in one step: whatever comes before, a failure or a cancel, leaves it as
//! it was.
mod card;
mod parts;
mod summary;

use crate::cancel::Cancelled;
use crate::session::Session;
use crate::session::gate::Place;
use crate::session::pause::Retrying;
use crate::session::speaker::Speaker;
use crate::session::usage::{Spent, estimate};
use card::{Card, End};
use std::fmt;
use std::time::{Duration, Instant};
use summary::{NoSummary, Summarizer};

/// What a compaction came to. Displayed it is the line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The history is another one.
    Compressed(Compressed),
    /// There was no turn to replace.
    Nothing {
        /// Of the history.
        messages: usize,
        /// Turns to keep.
        keep: usize,
    },
    /// The history is as it was; why, in one line.
    Failed(String),
}

/// What was gained, and at what price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compressed {
    /// Messages that the summary replaces.
    pub replaced: usize,
    /// Messages kept behind it.
    pub kept: usize,
    /// Tokens of the next request as it would have been.
    pub before: u64,
    /// And as it is now.
    pub after: u64,
    /// What it took.
    pub took: Duration,
}

impl Outcome {
    /// The next request is shorter than it would have been.
    pub fn is_shorter(&self) -> bool {
        matches!(self, Self::Compressed(done) if done.after < done.before)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compressed(Compressed { replaced, kept, before, after, took }) => write!(
                f,
                "🗜️ compressed {replaced} messages → 1 summary + {kept} kept ({before} → {after} tokens, {}s)",
                took.as_secs_f64().round()
            ),
            Self::Nothing { messages, keep } => {
                write!(f, "🗜️ nothing to compact: {messages} message(s), no turn older than the last {keep}")
            }
            Self::Failed(why) => write!(f, "[compact: failed, history kept: {why}]"),
        }
    }
}

/// Replaces all turns but the last `keep`. What it costs is added to `spent`.
///
/// # Errors
/// Cancelled, and the history is as it was.
pub fn compact(
    session: &mut Session,
    keep: usize,
    place: &Place,
    speaker: &Speaker<'_>,
    spent: &mut Spent,
) -> Result<Outcome, Cancelled> {
    let messages = session.history.messages().len();
    let Some(replaced) = session.history.older_than(keep).map(<[_]>::len) else {
        return Ok(Outcome::Nothing { messages, keep });
    };
    let (begun, card) = (Instant::now(), Card::begin(speaker, session.client));
    let summary = match summarize(session, keep, place, speaker, spent) {
        Ok(summary) => summary,
        Err(NoSummary::Cancelled) => {
            card.end(End::Cancelled);
            return Err(Cancelled);
        }
        Err(NoSummary::Failed(why) | NoSummary::TooLong(why)) => {
            card.end(End::Failed(&why));
            return Ok(Outcome::Failed(why));
        }
    };
    card.end(End::Completed(&summary));
    let (before, after) = replace(session, keep, summary);
    let kept = messages - replaced;
    Ok(Outcome::Compressed(Compressed { replaced, kept, before, after, took: begun.elapsed() }))
}

/// A summary of all turns but the last `keep`. Changes nothing.
fn summarize(
    session: &mut Session,
    keep: usize,
    place: &Place,
    speaker: &Speaker<'_>,
    spent: &mut Spent,
) -> Result<String, NoSummary> {
    let summarizer = Summarizer {
        provider: &mut *session.provider,
        model: &session.model,
        thinking: session.thinking,
        bytes: summary::bytes_for(session.window.size),
        cancel: speaker.cancel,
        listener: &mut Retrying { speaker: *speaker, place },
        spent,
    };
    let summary = summarizer.summarize(session.history.older_than(keep).unwrap_or_default())?;
    speaker.cancel.check().map_err(|Cancelled| NoSummary::Cancelled)?;
    Ok(summary)
}

/// Tokens of the next request before and after. One that was counted makes the estimate of the other better.
fn replace(session: &mut Session, keep: usize, summary: String) -> (u64, u64) {
    let (before, estimated) = (session.window.used(&session.request()), estimate(&session.request()));
    session.history.compact(keep, summary);
    session.window.forget();
    session.save();
    let after = estimate(&session.request());
    (before, (after as f64 * before as f64 / estimated.max(1) as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_reads_as_documented() {
        let done =
            Compressed { replaced: 12, kept: 4, before: 9000, after: 700, took: Duration::from_millis(2600) };
        for (outcome, line) in [
            (
                Outcome::Compressed(done),
                "🗜️ compressed 12 messages → 1 summary + 4 kept (9000 → 700 tokens, 3s)",
            ),
            (
                Outcome::Nothing { messages: 3, keep: 2 },
                "🗜️ nothing to compact: 3 message(s), no turn older than the last 2",
            ),
            (Outcome::Failed("502 Bad Gateway".into()), "[compact: failed, history kept: 502 Bad Gateway]"),
        ] {
            assert_eq!(outcome.to_string(), line);
        }
    }

    #[test]
    fn only_a_shorter_history_counts_as_shorter() {
        let done = |before, after| {
            Outcome::Compressed(Compressed { replaced: 2, kept: 1, before, after, took: Duration::ZERO })
        };
        assert!(done(10, 9).is_shorter());
        assert!(!done(10, 10).is_shorter() && !done(10, 11).is_shorter());
        assert!(!Outcome::Failed(String::new()).is_shorter());
    }
}
