//! One tool call's life: planned, announced, asked about, run, finished; whatever happens, both the client and the
//! model learn how it ended.
use crate::cancel::Cancelled;
use crate::model::{Arguments, Call};
use crate::session::Session;
use crate::session::gate::Place;
use crate::session::history::record::{CallReference, CallResult, Change, SavedLocation, Status};
use crate::session::permission::{Decision, OPTIONS, REJECTED};
use crate::session::raw_input;
use crate::session::shown::{by_name, change, changed, content, kind_name, status};
use crate::session::speaker::Speaker;
use crate::text::{clean, fenced};
use crate::tools::{Access, Action, Kind, Location, Outcome, Plan, Run, Tool, Workspace};
use crate::wire::acp::{
    RawOutput, RequestPermission, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, Update,
};
use crate::wire::outbox::Answer;
use serde_json::Value;

/// What the model reads of a call that a cancel ended or kept from beginning.
const CANCELLED: &str = "[cancelled by the user]";
/// What the model reads of a call that its reply's limit cut off.
const CUT_OFF: &str = "[not run: the reply hit its output limit before it was complete]";

/// Why a call is not even tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTried {
    /// The turn was cancelled before its time came.
    Cancelled,
    /// The reply it belongs to hit its limit.
    CutOff,
    /// The turn ends: the same call was made over and over.
    Repeated,
}

/// Shows a call that never runs, and gives the result the history needs.
pub fn not_tried(speaker: &Speaker<'_>, call: &Call, reference: CallReference, why: NotTried) -> CallResult {
    let text = match why {
        NotTried::Cancelled => CANCELLED,
        NotTried::CutOff => CUT_OFF,
        NotTried::Repeated => "[not run: the turn ended]",
    };
    // Planning reads files; for a call that won't run its name is enough.
    let mut plan = refusal(call, text.to_string());
    let announced = Announced::new(speaker, call, reference, plan.show());
    let result = announced.result(Outcome::failed(text));
    let raw_output = RawOutput { output: &result.output, exit_code: None };
    announced.with_tool_call(ToolCallStatus::Failed, &[content(&result)], |call| {
        speaker.update(&Update::ToolCall(ToolCall { raw_output: Some(raw_output), ..call }));
    });
    result
}

/// Plans, announces, asks about and runs one call. Its result is always there; `Err` beside it: cancelled.
pub fn perform(
    session: &mut Session,
    speaker: &Speaker<'_>,
    place: &Place,
    call: &Call,
    reference: CallReference,
) -> (CallResult, Result<(), Cancelled>) {
    let mut plan = plan(session, call);
    let announced = Announced::new(speaker, call, reference, plan.show()).announce();
    match carry_out(session, speaker, place, call, plan, &announced) {
        Ok(outcome) => (announced.end(outcome), speaker.cancel.check()),
        Err(Cancelled) => (announced.end(Outcome::failed(CANCELLED)), Err(Cancelled)),
    }
}

fn plan(session: &Session, call: &Call) -> Plan {
    match (&call.arguments, find(session, &call.name)) {
        (_, None) => {
            let names: Vec<_> = session.specs.iter().map(|spec| spec.name.as_str()).collect();
            let text =
                format!("There is no tool `{}`. The tools are: {}.", clean(&call.name), names.join(", "));
            refusal(call, text)
        }
        (Arguments::Invalid(_), Some(_)) => refusal(
            call,
            "The arguments are not a JSON object, or too large, or nested too deeply; nothing was run. Call it again."
                .into(),
        ),
        (Arguments::Object(arguments), Some(tool)) => tool.plan(arguments, &session.workspace),
    }
}

fn find<'a>(session: &'a Session, name: &str) -> Option<&'a dyn Tool> {
    let at = session.specs.iter().position(|spec| spec.name == name)?;
    session.tools.get(at).map(AsRef::as_ref)
}

/// The plan of a call that can't be planned.
fn refusal(call: &Call, why: String) -> Plan {
    let (title, kind) = by_name(&call.name, &call.arguments);
    Plan { title, kind, locations: Vec::new(), diff: None, access: Access::Free, action: Err(why.into()) }
}

fn carry_out(
    session: &mut Session,
    speaker: &Speaker<'_>,
    place: &Place,
    call: &Call,
    plan: Plan,
    announced: &Announced<'_>,
) -> Result<Outcome, Cancelled> {
    // Decided before the plan's own failure is told: that may be of a file that a rule denies.
    let decision = session.permissions.decide(&call.name, &plan.access, &session.workspace);
    log_decision(session, call, &decision);
    let asks = match decision {
        Decision::Deny(why) => return Ok(Outcome::failed(why)),
        Decision::Ask => true,
        Decision::Allow => false,
    };
    let action = match plan.action {
        Ok(action) => action,
        Err(refusal) => return Ok(Outcome::failed(refusal.told(asks))),
    };
    if asks {
        let answer = place.away(speaker.cancel, || announced.ask(&plan.access))?;
        let allowed = session.permissions.take_answer(&call.name, answer.as_ref());
        let (id, tool) = (&session.id, clean(&call.name));
        log::debug!("session {id}: {tool} {}", if allowed { "is allowed" } else { "is refused" });
        if !allowed {
            return Ok(Outcome::failed(REJECTED));
        }
    }
    speaker.cancel.check()?;
    Ok(announced.run(action, &mut session.workspace))
}

/// Not what it is about: that is the client's to show.
fn log_decision(session: &Session, call: &Call, decision: &Decision) {
    let (id, tool) = (&session.id, clean(&call.name));
    match decision {
        Decision::Allow => log::debug!("session {id}: {tool} runs unasked"),
        Decision::Ask => log::debug!("session {id}: {tool} is asked about"),
        Decision::Deny(why) if why == REJECTED => {
            log::info!(
                "[acp] session {id}: {tool} not asked about: \u{201c}Always reject\u{201d} was the answer before"
            );
        }
        Decision::Deny(why) => log::debug!("session {id}: {tool} {why}"),
    }
}

/// A call the client knows of. Its end is told, also when its turn panics.
struct Announced<'a> {
    speaker: Speaker<'a>,
    reference: CallReference,
    id: String,
    shown: Shown,
    input: Value,
    /// Announced, and its end not told yet.
    under_way: bool,
}

/// What a plan looks like: announced, asked about, and saved with the call's result.
struct Shown {
    title: String,
    title_is_whole: bool,
    kind: Kind,
    locations: Vec<Location>,
    change: Option<Change>,
}

impl Plan {
    /// Takes what is shown out of it; what remains is to be asked about and run.
    fn show(&mut self) -> Shown {
        let title = clean(&self.title);
        Shown {
            title_is_whole: title == self.title,
            title: title.into_owned(),
            kind: self.kind,
            locations: std::mem::take(&mut self.locations),
            change: self.diff.take().map(change),
        }
    }
}

impl<'a> Announced<'a> {
    fn new(speaker: &Speaker<'a>, call: &Call, reference: CallReference, shown: Shown) -> Self {
        let input = raw_input::shown(&call.arguments);
        Self { speaker: *speaker, reference, id: reference.to_string(), shown, input, under_way: false }
    }

    fn announce(mut self) -> Self {
        let content: Vec<_> = self.shown.change.iter().map(changed).collect();
        let speaker = self.speaker;
        self.with_tool_call(ToolCallStatus::Pending, &content, |call| {
            speaker.update(&Update::ToolCall(call))
        });
        drop(content);
        self.under_way = true;
        self
    }

    /// All that is known of the call, as its announcement and the question about it have it.
    fn with_tool_call<T>(
        &self,
        status: ToolCallStatus,
        content: &[ToolCallContent<'_>],
        then: impl FnOnce(ToolCall<'_>) -> T,
    ) -> T {
        let locations: Vec<_> =
            self.shown.locations.iter().map(|l| ToolCallLocation { path: &l.path, line: l.line }).collect();
        then(ToolCall {
            tool_call_id: &self.id,
            title: Some(&self.shown.title),
            kind: Some(kind_name(self.shown.kind)),
            status: Some(status),
            content: Some(content),
            locations: Some(&locations),
            raw_input: Some(&self.input),
            raw_output: None,
        })
    }

    fn ask(&self, access: &Access) -> Option<Answer> {
        let content: Vec<_> = match access {
            // The title does not tell all of it.
            Access::Command(command) if !self.shown.title_is_whole => {
                vec![ToolCallContent::text(fenced("", command))]
            }
            _ => self.shown.change.iter().map(changed).collect(),
        };
        self.with_tool_call(ToolCallStatus::Pending, &content, |call| {
            let params =
                RequestPermission { session_id: self.speaker.session, tool_call: &call, options: OPTIONS };
            self.speaker.request_permission(&params)
        })
    }

    fn run(&self, action: Box<dyn Action>, workspace: &mut Workspace) -> Outcome {
        self.speaker.update(&self.status(ToolCallStatus::InProgress, None, None));
        let mut progress = |output: &str| {
            let content = [ToolCallContent::text(fenced("", output))];
            self.speaker.update_if_room(&self.status(ToolCallStatus::InProgress, Some(&content), None));
        };
        action.run(&mut Run { cancel: self.speaker.cancel, progress: &mut progress, workspace })
    }

    fn status<'s>(
        &'s self,
        status: ToolCallStatus,
        content: Option<&'s [ToolCallContent<'s>]>,
        raw_output: Option<RawOutput<'s>>,
    ) -> Update<'s> {
        Update::ToolCallUpdate(ToolCall {
            tool_call_id: &self.id,
            status: Some(status),
            content,
            raw_output,
            ..ToolCall::default()
        })
    }

    fn end(mut self, outcome: Outcome) -> CallResult {
        self.under_way = false;
        let result = self.result(outcome);
        let raw_output = RawOutput { output: &result.output, exit_code: result.exit_code };
        let content = [content(&result)];
        self.speaker.update(&self.status(status(&result), Some(&content), Some(raw_output)));
        drop(content);
        result
    }

    /// What is saved, and what the model reads.
    fn result(&self, outcome: Outcome) -> CallResult {
        let Outcome { output, failed, exit_code, diff, images } = outcome;
        CallResult {
            reference: self.reference,
            status: if failed { Status::Failed } else { Status::Completed },
            title: self.shown.title.clone(),
            kind: self.shown.kind,
            locations: self.shown.locations.iter().map(SavedLocation::from).collect(),
            output,
            exit_code,
            change: diff.filter(|_| !failed).map(change), // a failed edit's last content is its text
            images,
            plan: None,
        }
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if self.under_way {
            self.speaker.update(&self.status(ToolCallStatus::Failed, None, None));
        }
    }
}
