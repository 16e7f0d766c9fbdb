//! A turn: model → tools → model, until the model is done or something ends it.
use crate::cancel::Cancelled;
use crate::model::{Broken, Call, Delta, Failure, Flusher, Listener, Reply, Request, Stop, Why};
use crate::session::calls::{self, NotTried};
use crate::session::compaction::{self, Outcome};
use crate::session::gate::Place;
use crate::session::history::record::CallReference;
use crate::session::mentions::Mention;
use crate::session::pause::pause;
use crate::session::speaker::Speaker;
use crate::session::store::{time, title_of};
use crate::session::usage::Spent;
use crate::session::{Prompt, Session, mentions, usage};
use crate::text::clean;
use crate::tools::Workspace;
use crate::wire::acp::{Chunk, PromptResponse, StopReason, Update};
use std::sync::Arc;
use std::time::Duration;

/// The same call, with the same arguments and result, so often in a row ends the turn.
const REPETITIONS: usize = 3;

/// How a turn that ended badly ended.
#[derive(Debug)]
pub struct TurnFailed(pub Failure);

/// Runs one prompt's turn. Everything it says is handed over when this returns.
///
/// # Errors
/// The model could not be reached, or failed.
pub fn take_turn(
    session: &mut Session,
    prompt: &Prompt,
    place: &Place,
    speaker: &Speaker<'_>,
) -> Result<PromptResponse, TurnFailed> {
    let mut turn = Turn {
        speaker: *speaker,
        place,
        spent: Spent::default(),
        compaction_failed: false,
        said_something: false,
        last_call: None,
        tally: Tally::default(),
    };
    let end = turn.run(session, prompt);
    match &end {
        Ok(_) if !turn.said_something => speaker.message("[no reply]"), // an editor waits for ever for a first word
        Err(Ended::Failed(failure) | Ended::TooLong(failure)) if !speaker.cancel.is_cancelled() => {
            speaker.message(&notice(failure));
        }
        _ => {}
    }
    turn.close(session, matches!(end, Err(Ended::Failed(_) | Ended::TooLong(_))));
    let stop_reason = match end {
        // A cancel wins over what it broke, and over an end that came while the last words waited for room.
        _ if speaker.cancel.is_cancelled() => StopReason::Cancelled,
        Ok(stop_reason) => stop_reason,
        Err(Ended::Cancelled) => StopReason::Cancelled,
        Err(Ended::Failed(failure) | Ended::TooLong(failure)) => return Err(TurnFailed(failure)),
    };
    Ok(PromptResponse { stop_reason, usage: turn.spent.sum() })
}

/// What the user is told of a failed model call, and the error's message word for word.
pub fn notice(failure: &Failure) -> String {
    format!("[LLM API error: {}]", failure.message)
}

struct Turn<'a> {
    speaker: Speaker<'a>,
    place: &'a Place,
    spent: Spent,
    /// It is not tried again at each call.
    compaction_failed: bool,
    said_something: bool,
    last_call: Option<(Call, String, usize)>,
    tally: Tally,
}

enum Ended {
    Cancelled,
    Failed(Failure),
    /// Before a word was said.
    TooLong(Failure),
}

impl From<Cancelled> for Ended {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

/// What was done, for the log.
#[derive(Default)]
struct Tally {
    commands: u32,
    file_operations: u32,
    skills: u32,
}

impl Turn<'_> {
    fn run(&mut self, session: &mut Session, prompt: &Prompt) -> Result<StopReason, Ended> {
        for notice in std::mem::take(&mut session.notices) {
            self.speaker.thought(&notice);
        }
        self.begin(session, prompt);
        self.place.enter(self.speaker.cancel, || self.speaker.waits_for_a_turn())?;
        for _ in 0..session.max_model_calls {
            if let Some(stop_reason) = self.step(session)? {
                return Ok(stop_reason);
            }
        }
        self.speaker.thought(&format!("Stopped after {} model calls in one turn.", session.max_model_calls));
        Ok(StopReason::MaxTurnRequests)
    }

    /// The user's message is saved before anything is done about it.
    fn begin(&self, session: &mut Session, prompt: &Prompt) {
        let mut prompt = prompt.clone();
        let added = mentioned(session, &prompt.text);
        prompt.add(&added);
        session.history.push_user(prompt.blocks, added, prompt.parts);
        let title = &mut session.store.head.title;
        *title = title.take().or_else(|| title_of(&prompt.text));
        session.save();
    }

    /// One model call and what it wants done. `None`: the model goes on.
    fn step(&mut self, session: &mut Session) -> Result<Option<StopReason>, Ended> {
        let reply = self.ask_model(session)?;
        let calls = reply.message.calls.clone();
        let counter = &self.speaker.context.calls;
        let references = session.history.push_assistant(reply.message, || CallReference::new(counter.next()));
        let calls: Vec<_> = calls.into_iter().zip(references).collect();
        session.save();
        match reply.stop {
            Stop::Refusal => {
                self.do_not_try(session, &calls, NotTried::CutOff);
                session.history.refuse_turn();
                return Ok(Some(StopReason::Refusal));
            }
            Stop::MaxTokens => {
                self.do_not_try(session, &calls, NotTried::CutOff);
                return Ok(Some(StopReason::MaxTokens));
            }
            Stop::Unknown(reason) => {
                let word = clean(&reason);
                self.speaker.thought(&format!("The model stopped for a reason unknown here: {word}"));
            }
            Stop::Pause if calls.is_empty() => return Ok(None),
            Stop::End | Stop::Pause => {}
        }
        if calls.is_empty() {
            return Ok(Some(StopReason::EndTurn));
        }
        self.run_calls(session, &calls)
    }

    /// A history that is too long is compacted, before the call or when the provider says so; then it is made again.
    fn ask_model(&mut self, session: &mut Session) -> Result<Reply, Ended> {
        if !self.compaction_failed && session.window.is_full(&session.request()) {
            self.compact(session)?;
        }
        match self.call_model(session) {
            Err(Ended::TooLong(_)) if self.compact(session)?.is_shorter() => self.call_model(session),
            end => end,
        }
    }

    /// All but the last turns; this one, whose question waits for an answer, is always kept.
    fn compact(&mut self, session: &mut Session) -> Result<Outcome, Cancelled> {
        let keep = session.keep_last_turns.max(1);
        let outcome = compaction::compact(session, keep, self.place, &self.speaker, &mut self.spent)?;
        self.compaction_failed |= matches!(outcome, Outcome::Failed(_));
        if !matches!(outcome, Outcome::Nothing { .. }) {
            self.speaker.thought(&outcome.to_string());
            log::info!("[acp] session {}: compaction — {outcome}", session.id);
        }
        Ok(outcome)
    }

    fn call_model(&mut self, session: &mut Session) -> Result<Reply, Ended> {
        let request = Request {
            model: &session.model,
            thinking: session.thinking,
            system: &session.system,
            messages: session.history.messages(),
            tools: &session.specs,
        };
        let mut voice = Voice {
            speaker: self.speaker,
            place: self.place,
            message: self.speaker.new_message(),
            thought: self.speaker.new_message(),
            said_something: &mut self.said_something,
        };
        match session.provider.complete(&request, self.speaker.cancel, &mut voice) {
            Ok(reply) => {
                if let Some(count) = reply.usage {
                    self.spent.add(count);
                    session.window.count(count);
                    let (used, size) = (count.input.saturating_add(count.output), session.window.size);
                    let price = self.speaker.context.process.prices.get(&session.model);
                    session.cost = usage::add_cost(session.cost.take(), price, count);
                    self.speaker.update(&Update::UsageUpdate { used, size, cost: session.cost.as_ref() });
                }
                Ok(reply)
            }
            Err(Broken { why, mut partial }) => {
                partial.calls.clear(); // none of them was complete
                let said_something = !partial.text.is_empty();
                if said_something {
                    session.history.push_assistant(partial, || unreachable!("it has no calls"));
                    session.save();
                }
                Err(match why {
                    Why::Cancelled => Ended::Cancelled,
                    Why::Failed(failure) if failure.too_long && !said_something => Ended::TooLong(failure),
                    Why::Failed(failure) => Ended::Failed(failure),
                })
            }
        }
    }

    fn run_calls(
        &mut self,
        session: &mut Session,
        calls: &[(Call, CallReference)],
    ) -> Result<Option<StopReason>, Ended> {
        for (at, (call, reference)) in calls.iter().enumerate() {
            let rest = calls.get(at + 1..).unwrap_or_default();
            if self.speaker.cancel.is_cancelled() {
                self.do_not_try(session, calls.get(at..).unwrap_or_default(), NotTried::Cancelled);
                return Err(Ended::Cancelled);
            }
            let (result, cancelled) = calls::perform(session, &self.speaker, self.place, call, *reference);
            self.tally.count(&call.name);
            let repeated = self.is_repeated(call, &result.output);
            session.note_skill(call, &result);
            session.history.push_result(result);
            session.save();
            if cancelled.is_err() {
                self.do_not_try(session, rest, NotTried::Cancelled);
                return Err(Ended::Cancelled);
            }
            if repeated {
                self.do_not_try(session, rest, NotTried::Repeated);
                let name = clean(&call.name);
                self.speaker.thought(&format!(
                    "Stopped: the same call of {name} came to the same {REPETITIONS} times."
                ));
                return Ok(Some(StopReason::MaxTurnRequests));
            }
        }
        Ok(None)
    }

    fn do_not_try(&self, session: &mut Session, calls: &[(Call, CallReference)], why: NotTried) {
        for (call, reference) in calls {
            let result = calls::not_tried(&self.speaker, call, *reference, why);
            session.history.push_result(result);
        }
    }

    fn is_repeated(&mut self, call: &Call, output: &str) -> bool {
        let times = match &self.last_call {
            Some((last, came_to, times))
                if last.name == call.name && last.arguments == call.arguments && came_to == output =>
            {
                times + 1
            }
            _ => 1,
        };
        self.last_call = Some((call.clone(), output.to_string(), times));
        times >= REPETITIONS
    }

    /// A question that got no answer at all is taken back.
    fn close(&self, session: &mut Session, failed: bool) {
        session.history.take_back_question();
        session.store.save_changes(&session.history); // nearly always the last step was the last change
        self.speaker.update(&Update::SessionInfoUpdate {
            title: session.store.head.title.as_deref(),
            updated_at: &time(session.store.head.updated_at),
        });
        let Tally { commands, file_operations, skills } = &self.tally;
        log::info!(
            "[acp] turn done: {commands} command(s) · {file_operations} file op(s) · {skills} skill(s){}",
            if failed { " · failed" } else { "" }
        );
    }
}

impl Tally {
    fn count(&mut self, tool: &str) {
        match tool {
            "bash" => self.commands += 1,
            "read_file" | "write_file" | "edit_file" => self.file_operations += 1,
            "read_skill" => self.skills += 1,
            _ => {}
        }
    }
}

/// What Bob adds to a prompt: which files it mentions.
fn mentioned(session: &Session, text: &str) -> String {
    let Workspace { cwd, home, .. } = &session.workspace;
    let mentions = mentions::find(text, cwd, home.as_deref());
    for mention in &mentions {
        log::info!("[acp] session {}: attached {}", session.id, clean(&mention.path.to_string_lossy()));
    }
    mentions.iter().map(Mention::note).collect()
}

/// Passes one reply's deltas on, each as its own notification.
struct Voice<'a> {
    speaker: Speaker<'a>,
    place: &'a Place,
    message: String,
    thought: String,
    said_something: &'a mut bool,
}

impl Listener for Voice<'_> {
    fn delta(&mut self, delta: Delta<'_>) {
        match delta {
            Delta::Text(text) => {
                *self.said_something = true;
                self.speaker.update_soon(&Update::AgentMessageChunk(Chunk::text(text, &self.message)));
            }
            Delta::Reasoning(text) => {
                self.speaker.update_soon(&Update::AgentThoughtChunk(Chunk::text(text, &self.thought)));
            }
            Delta::CallBegun(_) => {}
        }
    }

    fn flusher(&self) -> Flusher {
        let outbox = self.speaker.context.outbox.clone();
        Arc::new(move || outbox.flush())
    }

    fn pause(&mut self, why: &str, wait: Duration) -> Result<(), Cancelled> {
        pause(&self.speaker, self.place, why, wait)
    }
}

impl Drop for Voice<'_> {
    fn drop(&mut self) {
        self.speaker.context.outbox.flush();
    }
}
