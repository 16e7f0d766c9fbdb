//! Slash commands: prompts that are answered without the model.
use crate::session::speaker::Speaker;
use crate::session::{Session, ids};
use crate::wire::acp::{AvailableCommand, PromptResponse, StopReason};

/// What a client may offer.
pub const AVAILABLE: &[AvailableCommand] =
    &[AvailableCommand { name: "new", description: "Clear the history and start a new session" }];

/// Whether a prompt's text, trimmed, is exactly a slash command. Anything else goes to the model.
pub fn is_command(text: &str) -> bool {
    text.trim() == "/new"
}

/// `/new`: back to the system prompt. Id, `cwd` and what was allowed stay; what was said is kept under a new id.
pub fn new(session: &mut Session, speaker: &Speaker<'_>) -> PromptResponse {
    let count = session.history.messages().len();
    session.store.keep_past(ids::new_session_id(|_| true), &session.history);
    session.history.clear();
    session.store.head.title = None;
    session.save();
    speaker.message(&format!("🆕 New session: {count} message(s) forgotten."));
    log::info!("[acp] session {}: new session, {count} message(s) forgotten", session.id);
    let stop_reason = if speaker.cancel.is_cancelled() { StopReason::Cancelled } else { StopReason::EndTurn };
    PromptResponse { stop_reason, usage: None }
}
