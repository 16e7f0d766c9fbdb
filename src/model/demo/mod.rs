//! The demo model: no network, no key, no intelligence. It follows a script through the same events and the same
//! retries as any other model.
mod builtin;
mod script;

use crate::cancel::CancelToken;
use crate::model::complaint::Complaint;
use crate::model::failure::{Ended, Trouble};
use crate::model::retry::{self, Backoff};
use crate::model::{AssistantMessage, Broken, Call, Delta, Listener, Provider, Reply, Request, Stop, Usage};
use crossbeam_channel::select;
use script::{Script, ScriptedReply, Step};
use serde_json::Map;
use std::path::PathBuf;
use std::time::Duration;

/// Plays a script.
pub(super) struct DemoProvider {
    /// `None`: the built-in one.
    path: Option<PathBuf>,
    script: Option<Script>,
    backoff: Backoff,
    calls: u64,
}

impl DemoProvider {
    /// The script at `path` is read with the first call; `None` is the built-in one.
    pub(super) fn new(path: Option<PathBuf>, backoff: Backoff) -> Self {
        Self { path, script: None, backoff, calls: 0 }
    }

    fn attempt(
        &mut self,
        request: &Request<'_>,
        cancel: &CancelToken,
        listener: &mut dyn Listener,
    ) -> Result<Reply, Ended> {
        let next = self.next_reply(request);
        let scripted = next.map_err(|trouble| Ended { trouble, partial: AssistantMessage::default() })?;
        let mut play =
            Play { message: AssistantMessage::default(), cancel, listener, calls: &mut self.calls };
        for step in scripted.steps {
            if let Err(trouble) = play.step(step) {
                let partial = AssistantMessage { calls: Vec::new(), ..play.message };
                return Err(Ended { trouble, partial });
            }
        }
        let message = play.message;
        let usage = scripted.usage.unwrap_or_else(|| estimate(request, &message));
        Ok(Reply { message, stop: scripted.stop, usage: Some(usage) })
    }

    fn next_reply(&mut self, request: &Request<'_>) -> Result<ScriptedReply, Trouble> {
        let Some(path) = &self.path else { return Ok(builtin::reply_to(request)) };
        if self.script.is_none() {
            self.script = Some(Script::read(path).map_err(Trouble::Unusable)?);
        }
        let script = self.script.as_mut().expect("it was just read");
        Ok(script.next(request.messages.last()))
    }
}

impl Provider for DemoProvider {
    fn complete(
        &mut self,
        request: &Request<'_>,
        cancel: &CancelToken,
        listener: &mut dyn Listener,
    ) -> Result<Reply, Broken> {
        let backoff = self.backoff;
        retry::until_whole(backoff, None, cancel, listener, |listener| {
            self.attempt(request, cancel, listener)
        })
    }
}

/// A reply being played.
struct Play<'a> {
    message: AssistantMessage,
    cancel: &'a CancelToken,
    listener: &'a mut dyn Listener,
    /// Calls made so far, for their ids.
    calls: &'a mut u64,
}

impl Play<'_> {
    fn step(&mut self, step: Step) -> Result<(), Trouble> {
        self.cancel.check()?;
        match step {
            Step::Text(pieces) => pieces.iter().try_for_each(|piece| self.text(piece)),
            Step::Repeat { text, times } => (0..times).try_for_each(|_| self.text(&text)),
            Step::Reasoning(pieces) => {
                for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
                    self.message.reasoning.push_str(piece);
                    self.listener.delta(Delta::Reasoning(piece));
                }
                Ok(())
            }
            Step::Call { id, name, arguments } => {
                *self.calls += 1;
                let id = id.unwrap_or_else(|| format!("demo-{}", self.calls));
                self.listener.delta(Delta::CallBegun(&name));
                self.message.calls.push(Call { id, name, arguments, extra: Map::new() });
                Ok(())
            }
            Step::Delay(wait) => self.wait(wait),
            Step::Error { status, message, retry_after } => {
                let complaint = Complaint::from_body(message.as_bytes());
                Err(Trouble::Status { status, complaint, retry_after })
            }
            Step::CutOff => Err(Trouble::CutOff),
        }
    }

    fn text(&mut self, piece: &str) -> Result<(), Trouble> {
        self.cancel.check()?;
        if !piece.is_empty() {
            self.message.text.push_str(piece);
            self.listener.delta(Delta::Text(piece));
        }
        Ok(())
    }

    fn wait(&self, wait: Duration) -> Result<(), Trouble> {
        self.listener.flusher()();
        select! {
            recv(self.cancel.fired()) -> _ => Err(Trouble::Cancelled),
            default(wait) => Ok(()),
        }
    }
}

/// A token is about four characters.
fn estimate(request: &Request<'_>, message: &AssistantMessage) -> Usage {
    let tokens = |bytes: usize| (bytes / 4) as u64;
    let output = message.text.len() + message.reasoning.len() + 20 * message.calls.len();
    let input: usize = request.messages.iter().map(script::size).sum::<usize>() + request.system.len();
    Usage { input: tokens(input), output: tokens(output), ..Usage::default() }
}

/// A reply of these steps that ends as usual.
fn reply(steps: Vec<Step>) -> ScriptedReply {
    ScriptedReply { steps, stop: Stop::End, usage: None }
}

#[cfg(test)]
mod tests;
