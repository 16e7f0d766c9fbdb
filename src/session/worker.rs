//! A session's worker: one thread that owns everything of the session and does its requests in order.
use crate::cancel::{CancelToken, Cancelled};
use crate::logging::{self, SessionLog};
use crate::session::busy::{Busy, Item, Job, Phase, Work, is_open};
use crate::session::commands::{self, Command};
use crate::session::opening::{self, Opened};
use crate::session::replay::replay;
use crate::session::speaker::Speaker;
use crate::session::turn::{TurnFailed, notice, take_turn};
use crate::session::{Context, Ended, Event, HowEnded, MODES, Opening, Origin, Prompt, Session, options};
use crate::text::clean;
use crate::wire::acp::{Modes, OpenedSession, PromptResponse, Update, session_update};
use crate::wire::jsonrpc::RpcError;
use crate::wire::outbox::Reply;
use serde_json::json;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Untouched pages cost nothing.
const STACK: usize = 2 << 20;

/// The thread's body and its edge: a panic ends here, and every way out answers what was left.
pub fn run(busy: &Busy, context: &Context) {
    let _lines = logging::of_opening();
    let farewell = catch_unwind(AssertUnwindSafe(|| serve(busy, context)));
    let how = match &farewell {
        Ok(Farewell::Closed(_)) => HowEnded::Closed,
        Ok(Farewell::NotOpened(..)) => HowEnded::NotOpened,
        Err(_) => HowEnded::Failed,
    };
    let closes = refuse_rest(busy, how);
    // A close that waited behind the panic has closed it.
    let how = if closes.is_empty() { how } else { HowEnded::Closed };
    let mut last: Vec<_> = closes.into_iter().map(|reply| (reply, Ok(()))).collect();
    last.extend(match farewell {
        Ok(Farewell::Closed(reply)) => reply.map(|reply| (reply, Ok(()))),
        Ok(Farewell::NotOpened(reply, error)) => reply.map(|reply| (reply, Err(error))),
        Err(_) => None,
    });
    (context.tell)(Event::Ended(Ended { id: busy.id.clone(), how, last }));
}

/// Answers what waits behind the end. Closes of a failed session are given back, to be answered last.
fn refuse_rest(busy: &Busy, how: HowEnded) -> Vec<Reply> {
    let error = match how {
        HowEnded::Failed => RpcError::internal("Internal error: this session failed; load it again"),
        HowEnded::Closed | HowEnded::NotOpened => RpcError::unknown_session(busy.id.as_str()),
    };
    let mut closes = Vec::new();
    for Item { work, reply, .. } in busy.left() {
        match (work, reply) {
            (Work::Close, Some(reply)) if how == HowEnded::Failed => closes.push(reply),
            (_, Some(reply)) => reply.err(&error),
            (_, None) => {}
        }
    }
    closes
}

/// How the worker ended when it did not panic, and what is to be answered once all else is done.
enum Farewell {
    Closed(Option<Reply>),
    NotOpened(Option<Reply>, RpcError),
}

fn serve(busy: &Busy, context: &Context) -> Farewell {
    let mut job = busy.next();
    let opened = open(busy, context, &job);
    let mut session = match opened {
        Ok(opened) => greet(busy, job, opened),
        Err(error) => {
            job.after = Phase::Closing;
            return Farewell::NotOpened(job.end(), error);
        }
    };
    loop {
        let mut job = busy.next();
        match &job.work {
            Work::Prompt(prompt) => {
                let result = answer_prompt(&mut session, context, prompt, &job);
                answer(job, result);
                // A killed process loses nothing that was written; this is for the day the power fails.
                if let Some(unsynced) = session.store.unsynced() {
                    (context.tell)(Event::Unsynced(unsynced, logging::current()));
                }
            }
            Work::Change(change) => {
                let (id, cancel) = (session.id.clone(), job.cancel.token());
                let speaker = Speaker { context, session: &id, cancel: &cancel };
                let result = options::apply(&mut session, &speaker, change);
                answer(job, result);
            }
            Work::ListModels => job.end().into_iter().for_each(|reply| session.catalog.list(reply)),
            Work::Open(_) | Work::Delete => answer::<()>(job, Err(is_open(&session.id))), // none gets here
            Work::Close | Work::End => {
                session.catalog.end(matches!(job.work, Work::End));
                drop(session); // its commands end before the answer
                job.after = Phase::Closing;
                return Farewell::Closed(job.end());
            }
        }
    }
}

fn answer<T: serde::Serialize>(job: Job<'_>, result: Result<T, RpcError>) {
    if let Some(reply) = job.end() {
        match result {
            Ok(result) => reply.ok(&result),
            Err(error) => reply.err(&error),
        }
    }
}

/// Opens the session, and tells what was said in it where the client wants to hear it.
fn open(busy: &Busy, context: &Context, job: &Job<'_>) -> Result<Opened, RpcError> {
    let Work::Open(opening) = &job.work else {
        return Err(RpcError::internal("Internal error: a session begins with its opening"));
    };
    let opened = opening::open(&busy.id, opening, context)?;
    let session = &opened.session;
    if !matches!(opening.origin, Origin::Saved { .. }) {
        (context.tell)(Event::Named { id: busy.id.clone(), name: session.id.clone() });
    }
    let cancel = job.cancel.token();
    if opened.is_old && opening.origin != (Origin::Saved { replay: false }) {
        tell_past(session, context, &cancel).map_err(|Cancelled| RpcError::cancelled())?;
    }
    // A load may be cancelled; whatever else opens a session may not.
    let may_be_cancelled = matches!(opening.origin, Origin::Saved { .. });
    match cancel.check() {
        Err(Cancelled) if may_be_cancelled => Err(RpcError::cancelled()),
        _ => Ok(opened),
    }
}

fn tell_past(session: &Session, context: &Context, cancel: &CancelToken) -> Result<(), Cancelled> {
    let speaker = Speaker { context, session: &session.id, cancel };
    let say = |update: &Update<'_>| {
        speaker.update_soon(update); // the last update, or the answer, sends all of it out
        cancel.check()
    };
    let count =
        replay(session.history.transcript(), session.client.compaction, || speaker.new_message(), say)?;
    speaker.update(&Update::AvailableCommandsUpdate { available_commands: commands::AVAILABLE });
    let (id, folder) = (&session.id, session.workspace.cwd.to_string_lossy());
    log::info!("[acp] session {id} loaded from {}: {count} message(s) replayed", clean(&folder));
    Ok(())
}

/// Answers the opening, and behind it, not before, the first update: the editor does not know the session yet.
fn greet(busy: &Busy, job: Job<'_>, opened: Opened) -> Session {
    let Opened { session, log, .. } = opened;
    logging::opened(&SessionLog::new(session.id.clone(), session.workspace.cwd.clone()));
    log.iter().for_each(|line| log::info!("{line}"));
    let is_new = !matches!(&job.work, Work::Open(Opening { origin: Origin::Saved { .. }, .. }));
    let result = OpenedSession {
        session_id: is_new.then_some(&session.id),
        config_options: options::of(&session),
        modes: Modes { current_mode_id: &session.mode_id, available_modes: MODES },
    };
    let commands = session_update(
        &session.id,
        &Update::AvailableCommandsUpdate { available_commands: commands::AVAILABLE },
    );
    if let Some(reply) = job.end() {
        reply.ok_then(&result, vec![commands]);
    }
    busy.opened(&session.catalog);
    session
}

fn answer_prompt(
    session: &mut Session,
    context: &Context,
    prompt: &Prompt,
    job: &Job<'_>,
) -> Result<PromptResponse, RpcError> {
    let (id, cancel) = (session.id.clone(), job.cancel.token());
    let speaker = Speaker { context, session: &id, cancel: &cancel };
    let place = match (Command::parse(&prompt.text), &job.place) {
        (Some(Command::Compact), Some(place)) => return Ok(commands::compact(session, place, &speaker)),
        (None, Some(place)) => place,
        _ => return Ok(commands::new(session, &speaker)), // it alone has no place
    };
    take_turn(session, prompt, place, &speaker).map_err(|TurnFailed(failure)| {
        let mut data = json!({ "reason": "llm_error", "error": failure.message });
        if let (Some(status), Some(data)) = (failure.status, data.as_object_mut()) {
            data.insert("status".into(), status.into());
        }
        RpcError::internal(notice(&failure)).with_data(data)
    })
}

/// The thread of a new session.
///
/// # Errors
/// The system gives no thread.
pub fn spawn(busy: Arc<Busy>, context: Arc<Context>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(format!("s {}", busy.id)).stack_size(STACK);
    thread.spawn(move || run(&busy, &context)).map(drop)
}
