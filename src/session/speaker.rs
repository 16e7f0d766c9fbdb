//! Saying things to the client in a session's name: updates and questions, with the right to stop waiting.
use crate::cancel::CancelToken;
use crate::session::Context;
use crate::wire::acp::{Chunk, RequestPermission, SessionId, Update, session_update};
use crate::wire::outbox::Answer;

/// One request's voice. What it says waits for room in the outbox until the request is cancelled.
#[derive(Clone, Copy)]
pub struct Speaker<'a> {
    /// The process.
    pub context: &'a Context,
    /// In whose name.
    pub session: &'a SessionId,
    /// The request's.
    pub cancel: &'a CancelToken,
}

impl Speaker<'_> {
    /// An id for a message of its own.
    pub fn new_message(&self) -> String {
        format!("msg_{}", self.context.messages.next())
    }

    /// Sends an update.
    pub fn update(&self, update: &Update<'_>) {
        self.context.outbox.notify(session_update(self.session, update), self.cancel);
    }

    /// Sends an update that may go out together with the next ones, until the outbox is flushed.
    pub fn update_soon(&self, update: &Update<'_>) {
        self.context.outbox.notify_soon(session_update(self.session, update), self.cancel);
    }

    /// Sends an update only if nothing has to wait for it.
    pub fn update_if_room(&self, update: &Update<'_>) {
        self.context.outbox.notify_if_room(session_update(self.session, update));
    }

    /// A whole message.
    pub fn message(&self, text: &str) {
        self.update(&Update::AgentMessageChunk(Chunk::text(text, &self.new_message())));
    }

    /// A whole thought: what the user should know but the answer is not made of.
    pub fn thought(&self, text: &str) {
        self.update(&Update::AgentThoughtChunk(Chunk::text(text, &self.new_message())));
    }

    /// Another session's turn takes its time.
    pub fn waits_for_a_turn(&self) {
        self.thought("Waiting for another session's turn to end.");
    }

    /// Asks for permission. `None`: cancelled, or nobody answers.
    pub fn request_permission(&self, params: &RequestPermission<'_>) -> Option<Answer> {
        self.context.outbox.request("session/request_permission", params, self.cancel)
    }
}
