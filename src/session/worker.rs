//! A session's worker: one thread that owns everything of the session and does its requests in order.
use crate::cancel::CancelToken;
use crate::session::busy::{Busy, Item, Job, Phase, Work};
use crate::session::opening::{self, Opened};
use crate::session::speaker::Speaker;
use crate::session::turn::{TurnFailed, take_turn};
use crate::session::{Context, Ended, HowEnded, MODES, Prompt, Session, commands};
use crate::settings::config::Mode;
use crate::wire::acp::{Modes, NewSessionResponse, PromptResponse, StopReason, Update, session_update};
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
    (context.ended)(Ended { id: busy.id.clone(), how, last });
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
    let mut session = match open(busy, context, &job.work) {
        Ok(opened) => greet(job, opened),
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
            }
            Work::SetMode(mode_id) => {
                set_mode(&mut session, context, mode_id, &job.cancel.token());
                let result = json!({ "modeId": mode_id });
                answer(job, Ok(result));
            }
            Work::Open(..) => {
                answer::<()>(job, Err(RpcError::invalid_request("the session is open already")))
            }
            Work::Close | Work::End => {
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

fn open(busy: &Busy, context: &Context, work: &Work) -> Result<Opened, RpcError> {
    match work {
        Work::Open(params, client) => opening::open(&busy.id, params, *client, context),
        _ => Err(RpcError::internal("Internal error: a session begins with its opening")),
    }
}

/// Answers the opening, and behind it, not before, the first update: the editor does not know the session yet.
fn greet(job: Job<'_>, opened: Opened) -> Session {
    let Opened { session, log } = opened;
    log.iter().for_each(|line| log::info!("{line}"));
    let result = NewSessionResponse {
        session_id: &session.id,
        config_options: [],
        modes: Modes { current_mode_id: &session.mode_id, available_modes: MODES },
    };
    let commands = session_update(
        &session.id,
        &Update::AvailableCommandsUpdate { available_commands: commands::AVAILABLE },
    );
    if let Some(reply) = job.end() {
        reply.ok_then(&result, vec![commands]);
    }
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
    let Some(place) = &job.place else {
        return Ok(commands::new(session, &speaker)); // only a slash command has no place
    };
    take_turn(session, prompt, place, &speaker).or_else(|TurnFailed(failure)| {
        let notice = format!("[LLM API error: {}]", failure.message);
        speaker.message(&notice);
        if cancel.is_cancelled() {
            // While the notice waited for room: never an error in its place.
            return Ok(PromptResponse { stop_reason: StopReason::Cancelled, usage: None });
        }
        let mut data = json!({ "reason": "llm_error", "error": failure.message });
        if let (Some(status), Some(data)) = (failure.status, data.as_object_mut()) {
            data.insert("status".into(), status.into());
        }
        Err(RpcError::internal(notice).with_data(data))
    })
}

/// A mode of ours holds from now on; any other is the client's own affair, kept and echoed.
fn set_mode(session: &mut Session, context: &Context, mode_id: &str, cancel: &CancelToken) {
    if let Ok(mode) = mode_id.parse::<Mode>() {
        session.permissions.mode = mode;
    }
    session.mode_id = mode_id.to_string();
    let id = session.id.clone();
    Speaker { context, session: &id, cancel }.update(&Update::CurrentModeUpdate { current_mode_id: mode_id });
}

/// The thread of a new session.
///
/// # Errors
/// The system gives no thread.
pub fn spawn(busy: Arc<Busy>, context: Arc<Context>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name(format!("s {}", busy.id)).stack_size(STACK);
    thread.spawn(move || run(&busy, &context)).map(drop)
}
