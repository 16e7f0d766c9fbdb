//! Slash commands: prompts that are not for the model.
use crate::cancel::{CancelToken, Cancelled};
use crate::session::compaction;
use crate::session::gate::Place;
use crate::session::speaker::Speaker;
use crate::session::usage::Spent;
use crate::session::{Session, ids};
use crate::wire::acp::{AvailableCommand, PromptResponse, StopReason};

/// What a client may offer.
pub const AVAILABLE: &[AvailableCommand] = &[
    AvailableCommand { name: "new", description: "Clear the history and start a new session" },
    AvailableCommand { name: "compact", description: "Compress the history now, keeping the last turns" },
];

/// A slash command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `/new`: asks no model, so it needs no place at the gate.
    New,
    /// `/compact`: asks the model for a summary.
    Compact,
}

impl Command {
    /// A prompt's text, trimmed, that is exactly one. Anything else goes to the model.
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "/new" => Some(Self::New),
            "/compact" => Some(Self::Compact),
            _ => None,
        }
    }
}

/// `/new`: back to the system prompt. Id, `cwd` and what was allowed stay; what was said is kept under a new id.
pub fn new(session: &mut Session, speaker: &Speaker<'_>) -> PromptResponse {
    let count = session.history.messages().len();
    session.store.keep_past(ids::new_session_id(|_| true), &session.history);
    session.history.clear();
    session.window.forget();
    session.store.head.title = None;
    session.save();
    speaker.message(&format!("🆕 New session: {count} message(s) forgotten."));
    log::info!("[acp] session {}: new session, {count} message(s) forgotten", session.id);
    PromptResponse { stop_reason: stop_reason(speaker.cancel), usage: None }
}

/// `/compact`: a summary takes the place of all but the last turns, however much room there is.
pub fn compact(session: &mut Session, place: &Place, speaker: &Speaker<'_>) -> PromptResponse {
    let (keep, mut spent) = (session.keep_last_turns, Spent::default());
    let entered = place.enter(speaker.cancel, || speaker.waits_for_a_turn());
    let line = match entered.and_then(|()| compaction::compact(session, keep, place, speaker, &mut spent)) {
        Ok(outcome) => {
            let line = outcome.to_string();
            speaker.message(&line);
            line
        }
        Err(Cancelled) => "cancelled, history kept".to_owned(),
    };
    log::info!("[acp] session {}: /compact — {line}", session.id);
    PromptResponse { stop_reason: stop_reason(speaker.cancel), usage: spent.sum() }
}

fn stop_reason(cancel: &CancelToken) -> StopReason {
    if cancel.is_cancelled() { StopReason::Cancelled } else { StopReason::EndTurn }
}
