//! How a call is shown, when it happens and when its session is replayed.
use crate::model::Arguments;
use crate::session::history::record::{CallResult, Change, Status};
use crate::text::fenced;
use crate::tools::{self, Diff, Kind};
use crate::wire::acp::{ToolCallContent, ToolCallStatus};
use serde_json::Value;
use std::path::Path;

/// Texts of a diff, together, past which there is a summary instead.
const DIFF_BYTES: usize = 1 << 20;

/// How it ended, in the protocol's words.
pub(super) fn status(result: &CallResult) -> ToolCallStatus {
    match result.status {
        Status::Completed => ToolCallStatus::Completed,
        Status::Failed => ToolCallStatus::Failed,
    }
}

/// A diff as it is shown: whole, or in words where it is too large.
pub(super) fn change(diff: Diff) -> Change {
    let old_bytes = diff.old.as_deref().map_or(0, str::len);
    if old_bytes + diff.new.len() <= DIFF_BYTES {
        return Change::Diff(diff.into());
    }
    let lines = changed_lines(diff.old.as_deref().unwrap_or_default(), &diff.new);
    Change::Words(format!("{}: {old_bytes} → {} bytes, {lines}", diff.path.display(), diff.new.len()))
}

/// A change as content.
pub(super) fn changed(change: &Change) -> ToolCallContent<'_> {
    match change {
        Change::Diff(diff) => ToolCallContent::Diff {
            path: Path::new(&diff.path),
            old_text: diff.old_text.as_deref(),
            new_text: &diff.new_text,
        },
        Change::Words(words) => ToolCallContent::text(words.as_str()),
    }
}

/// What stands below the card's title once the call has ended.
pub(super) fn content(result: &CallResult) -> ToolCallContent<'_> {
    match &result.change {
        Some(change) => changed(change),
        None if result.kind == Kind::Execute => ToolCallContent::text(fenced("", &result.output)),
        None => ToolCallContent::text(result.output.as_str()),
    }
}

/// Title, uncleaned, and kind of a call of which no plan is known.
pub(super) fn by_name(tool: &str, arguments: &Arguments) -> (String, Kind) {
    let kind = match tool {
        "read_file" | "read_skill" => Kind::Read,
        "write_file" | "edit_file" => Kind::Edit,
        "todo_write" | "task" => Kind::Think,
        _ => Kind::Execute, // also the unknown: shown as the gravest
    };
    let subject = match arguments {
        Arguments::Object(members) if tools::NAMES.contains(&tool) => {
            ["command", "path", "name"].iter().find_map(|key| members.get(*key)).and_then(Value::as_str)
        }
        _ => None,
    };
    (subject.map_or_else(|| tool.to_owned(), |subject| format!("{tool}: {subject}")), kind)
}

/// A kind in the protocol's words.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Edit => "edit",
        Kind::Execute => "execute",
        Kind::Think => "think",
        Kind::Other => "other",
    }
}

/// Which lines a change is about: what is left when the equal beginning and end are taken away.
fn changed_lines(old: &str, new: &str) -> String {
    let first = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str| text.lines().count() - first;
    let last = old.lines().rev().zip(new.lines().rev()).take_while(|(a, b)| a == b).count();
    let last = last.min(rest(old)).min(rest(new));
    format!("lines {} to {} changed", first + 1, (first + rest(new) - last).max(first + 1))
}
