//! One tool call's life: planned, announced, asked about, run, finished; whatever happens, both the client and the
//! model learn how it ended.
use crate::cancel::Cancelled;
use crate::model::{Arguments, Call, ToolResult};
use crate::session::Session;
use crate::session::gate::Place;
use crate::session::permission::{Decision, OPTIONS, REJECTED};
use crate::session::speaker::Speaker;
use crate::text::{clean, fenced};
use crate::tools::{Access, Action, Diff, Kind, Location, Outcome, Plan, Run, Tool, Workspace};
use crate::wire::acp::{
    RawOutput, RequestPermission, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus, Update,
};
use serde_json::Value;
use std::borrow::Cow;

/// Texts of a diff, together, past which the client gets a summary instead.
const DIFF_BYTES: usize = 1 << 20;
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
pub fn not_tried(session: &Session, speaker: &Speaker<'_>, call: &Call, why: NotTried) -> ToolResult {
    let text = match why {
        NotTried::Cancelled => CANCELLED,
        NotTried::CutOff => CUT_OFF,
        NotTried::Repeated => "[not run: the turn ended]",
    };
    // Planning reads files; for a call that won't run its name is enough.
    let plan = refusal(session, call, text.to_string());
    let content = [ToolCallContent::text(text)];
    Announced::new(speaker, call, &plan).with_tool_call(ToolCallStatus::Failed, &content, |call| {
        speaker.update(&Update::ToolCall(call));
    });
    Outcome::failed(text).into_result(call)
}

/// Plans, announces, asks about and runs one call. Its result is always there; `Err` beside it: cancelled.
pub fn perform(
    session: &mut Session,
    speaker: &Speaker<'_>,
    place: &Place,
    call: &Call,
) -> (ToolResult, Result<(), Cancelled>) {
    let plan = plan(session, call);
    let announced = Announced::new(speaker, call, &plan).announce();
    let outcome = carry_out(session, speaker, place, call, plan, &announced);
    match outcome {
        Ok(outcome) => (announced.end(call, outcome), speaker.cancel.check()),
        Err(Cancelled) => (announced.end(call, Outcome::failed(CANCELLED)), Err(Cancelled)),
    }
}

fn plan(session: &Session, call: &Call) -> Plan {
    match (&call.arguments, find(session, &call.name)) {
        (_, None) => {
            let names: Vec<_> = session.specs.iter().map(|spec| spec.name.as_str()).collect();
            let text =
                format!("There is no tool `{}`. The tools are: {}.", clean(&call.name), names.join(", "));
            refusal(session, call, text)
        }
        (Arguments::Invalid(_), Some(_)) => refusal(
            session,
            call,
            "The arguments are not a JSON object, or nested too deeply; nothing was run. Call it again."
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
fn refusal(session: &Session, call: &Call, why: String) -> Plan {
    let kind = match call.name.as_str() {
        "read_file" | "read_skill" => Kind::Read,
        "write_file" | "edit_file" => Kind::Edit,
        "bash" => Kind::Execute,
        _ => Kind::Execute, // unknown: shown as the gravest
    };
    let subject = match &call.arguments {
        Arguments::Object(arguments) => {
            ["command", "path", "name"].iter().find_map(|key| arguments.get(*key))
        }
        Arguments::Invalid(_) => None,
    };
    let title = match subject.and_then(Value::as_str).filter(|_| find(session, &call.name).is_some()) {
        Some(subject) => format!("{}: {subject}", call.name),
        None => call.name.clone(),
    };
    Plan { title, kind, locations: Vec::new(), diff: None, access: Access::Free, action: Err(why) }
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
    let asks = match session.permissions.decide(&call.name, &plan.access, &session.workspace) {
        Decision::Deny(why) => return Ok(Outcome::failed(why)),
        Decision::Ask => true,
        Decision::Allow => false,
    };
    let action = match plan.action {
        Ok(action) => action,
        Err(why) => return Ok(Outcome::failed(why)),
    };
    if asks {
        let answer = place.away(speaker.cancel, || announced.ask(&plan.access))?;
        if !session.permissions.take_answer(&call.name, answer.as_ref()) {
            return Ok(Outcome::failed(REJECTED));
        }
    }
    speaker.cancel.check()?;
    Ok(announced.run(action, &mut session.workspace))
}

/// A call the client knows of. Its end is told, also when its turn panics.
struct Announced<'a> {
    speaker: Speaker<'a>,
    id: String,
    shown: Shown,
    /// Announced, and its end not told yet.
    under_way: bool,
}

/// What a call looks like, kept for the question about it.
struct Shown {
    title: String,
    title_is_whole: bool,
    kind: &'static str,
    is_command: bool,
    locations: Vec<Location>,
    diff: Option<Diff>,
    input: Value,
}

impl<'a> Announced<'a> {
    fn new(speaker: &Speaker<'a>, call: &Call, plan: &Plan) -> Self {
        let title = clean(&plan.title);
        let shown = Shown {
            title_is_whole: title == plan.title,
            title: title.into_owned(),
            kind: kind_name(plan.kind),
            is_command: plan.kind == Kind::Execute,
            locations: plan.locations.clone(),
            diff: plan.diff.clone(),
            input: match &call.arguments {
                Arguments::Object(arguments) => Value::Object(arguments.clone()),
                Arguments::Invalid(text) => Value::String(text.clone()),
            },
        };
        let id = format!("call_{}", speaker.context.calls.next());
        Self { speaker: *speaker, id, shown, under_way: false }
    }

    fn announce(mut self) -> Self {
        let content: Vec<_> = self.shown.diff.iter().map(diff_content).collect();
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
            kind: Some(self.shown.kind),
            status: Some(status),
            content: Some(content),
            locations: Some(&locations),
            raw_input: Some(&self.shown.input),
            raw_output: None,
        })
    }

    fn ask(&self, access: &Access) -> Option<crate::wire::outbox::Answer> {
        let content: Vec<_> = match access {
            // The title does not tell all of it.
            Access::Command(command) if !self.shown.title_is_whole => {
                vec![ToolCallContent::text(fenced("", command))]
            }
            _ => self.shown.diff.iter().map(diff_content).collect(),
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

    fn end(mut self, call: &Call, outcome: Outcome) -> ToolResult {
        self.under_way = false;
        let status = if outcome.failed { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
        let content = match &outcome.diff {
            Some(diff) if !outcome.failed => [diff_content(diff)],
            _ if self.shown.is_command => [ToolCallContent::text(fenced("", &outcome.output))],
            _ => [ToolCallContent::text(outcome.output.as_str())],
        };
        let raw_output = RawOutput { output: &outcome.output, exit_code: outcome.exit_code };
        self.speaker.update(&self.status(status, Some(&content), Some(raw_output)));
        drop(content);
        outcome.into_result(call)
    }
}

impl Outcome {
    fn into_result(self, call: &Call) -> ToolResult {
        let Self { output, images, failed, .. } = self;
        ToolResult { call_id: call.id.clone(), name: call.name.clone(), output, images, failed }
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if self.under_way {
            self.speaker.update(&self.status(ToolCallStatus::Failed, None, None));
        }
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Edit => "edit",
        Kind::Execute => "execute",
        Kind::Think => "think",
        Kind::Other => "other",
    }
}

fn diff_content(diff: &Diff) -> ToolCallContent<'_> {
    let old_bytes = diff.old.as_deref().map_or(0, str::len);
    if old_bytes + diff.new.len() <= DIFF_BYTES {
        return ToolCallContent::Diff {
            path: &diff.path,
            old_text: diff.old.as_deref(),
            new_text: &diff.new,
        };
    }
    let summary = Cow::Owned(format!(
        "{}: {} → {} bytes, {}",
        diff.path.display(),
        old_bytes,
        diff.new.len(),
        changed_lines(diff.old.as_deref().unwrap_or_default(), &diff.new)
    ));
    ToolCallContent::text(summary)
}

/// Which lines a change is about: what is left when the equal beginning and end are taken away.
fn changed_lines(old: &str, new: &str) -> String {
    let first = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str| text.lines().count() - first;
    let last = old.lines().rev().zip(new.lines().rev()).take_while(|(a, b)| a == b).count();
    let last = last.min(rest(old)).min(rest(new));
    format!("lines {} to {} changed", first + 1, (first + rest(new) - last).max(first + 1))
}
