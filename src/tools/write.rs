//! `write_file`: a file made or replaced whole. Also the replacing itself, shared with `edit_file`.
use super::arguments::Arguments;
use super::paths::{Purpose, Target, invalid, reason};
use super::read::{WHOLE_FILE, size};
use super::{Action, Diff, Kind, Outcome, Plan, Refusal, Run, Tool, Workspace};
use crate::files::{self, Refused};
use crate::model::ToolSpec;
use serde_json::{Map, Value, json};
use std::io;
use std::path::PathBuf;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// The tool `write_file`.
pub struct WriteFile;

impl Tool for WriteFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write_file".into(),
            description:
                "Writes a whole file, making missing folders. Prefer edit_file for changes to a file \
                          that exists."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "absolute, ~, or relative to the working directory"},
                    "content": {"type": "string", "description": "all of the new content"}
                },
                "required": ["path", "content"]
            }),
        }
    }

    fn plan(&self, arguments: &Map<String, Value>, workspace: &Workspace) -> Plan {
        match parse(arguments, workspace) {
            Err(why) => invalid("write_file", Kind::Edit, why),
            Ok((target, content)) => {
                let change = change(&target, content, workspace);
                plan("write_file", target, None, change)
            }
        }
    }
}

fn parse<'a>(arguments: &'a Map<String, Value>, workspace: &Workspace) -> Result<(Target, &'a str), String> {
    let arguments = Arguments(arguments);
    let target = Target::locate(arguments.text("path")?, workspace, Purpose::Write)?;
    Ok((target, arguments.text("content")?))
}

fn change(target: &Target, content: &str, workspace: &Workspace) -> Result<Change, String> {
    let planned = current(target, workspace, WHOLE_FILE)?;
    let has_bom = planned.as_ref().is_some_and(|old| old.starts_with(BOM));
    let keep_bom = has_bom && !content.as_bytes().starts_with(BOM);
    let new = [if keep_bom { BOM } else { b"" }, content.as_bytes()].concat();
    let verb = if planned.is_some() { "Replaced" } else { "Made" };
    let said = format!("{verb} {} ({})", target.title, size(new.len() as u64));
    Ok(Change { target: target.clone(), planned, new, said })
}

/// What a file to be changed holds now, of at most `limit` bytes; `None`: it is not there.
///
/// # Errors
/// Text for the model: not a regular file, no permission, too large, or changed since this session saw it.
pub(super) fn current(target: &Target, workspace: &Workspace, limit: u64) -> Result<Option<Vec<u8>>, String> {
    let path = target.path()?;
    let bytes = match files::open_resolved(path).and_then(|file| files::read_all(file, limit)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::FileTooLarge => {
            let limit = size(limit);
            return Err(
                target.because(&format!("larger than {limit}: such a file can't be changed by this tool"))
            );
        }
        read => read.map_err(|error| target.because(&reason(&error)))?,
    };
    if workspace.seen.is_outdated(path, &bytes) {
        return Err(target.because("changed on disk since you last read or wrote it; read it again first"));
    }
    Ok(Some(bytes))
}

/// A file's content, to be replaced if it is still what was planned with.
pub(super) struct Change {
    pub(super) target: Target,
    pub(super) planned: Option<Vec<u8>>,
    pub(super) new: Vec<u8>,
    /// What the model reads when it is done.
    pub(super) said: String,
}

/// The plan of a change.
pub(super) fn plan(
    tool: &str,
    target: Target,
    line: Option<u32>,
    change: Result<Change, impl Into<Refusal>>,
) -> Plan {
    let diff = change.as_ref().ok().map(Change::diff);
    let action = change.map(|change| Box::new(change) as Box<dyn Action>).map_err(Into::into);
    Plan { diff, ..target.plan(tool, Kind::Edit, line, action) }
}

impl Change {
    fn diff(&self) -> Diff {
        Diff {
            path: self.target.shown().to_owned(),
            old: self.planned.as_deref().map(as_text),
            new: as_text(&self.new),
        }
    }

    fn carry_out(&self, run: &mut Run<'_>) -> Result<Outcome, String> {
        let path = self.target.path_again()?;
        // Folders are made in a project, but no project is.
        let is_gone = |root: &&PathBuf| path.starts_with(root) && !root.is_dir();
        if let Some(root) = run.workspace.roots.iter().find(is_gone) {
            return Err(format!("nothing was written: `{}` is no directory any more", root.display()));
        }
        run.cancel.check().map_err(|_| self.target.because("cancelled; nothing was written"))?;
        files::replace(path, self.planned.as_deref(), &self.new).map_err(|refused| match refused {
            Refused::Changed => {
                self.target.because("changed on disk meanwhile; nothing was written; read it again first")
            }
            Refused::Failed(error) => {
                self.target.because(&format!("nothing was written: {}", reason(&error)))
            }
        })?;
        run.workspace.seen.note(path, &self.new);
        Ok(Outcome { diff: Some(self.diff()), ..Outcome::done(&self.said) })
    }
}

impl Action for Change {
    fn run(self: Box<Self>, run: &mut Run<'_>) -> Outcome {
        self.carry_out(run).unwrap_or_else(Outcome::failed)
    }
}

/// As an editor shows it: without the BOM, and what is no UTF-8 replaced.
fn as_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_prefix(BOM).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::read::ReadFile;
    use super::super::test_place::TestPlace;
    use super::super::{Access, Location};
    use super::*;
    use crate::cancel::CancelSource;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn diff(place: &TestPlace, name: &str, old: Option<&str>, new: &str) -> Option<Diff> {
        Some(Diff { path: place.at(name), old: old.map(Into::into), new: new.into() })
    }

    #[test]
    fn a_new_file_is_made_with_its_folders() {
        let mut place = TestPlace::new();
        let plan = place.plan(&WriteFile, json!({"path": "a/b/new.txt", "content": "text\n"}));
        assert_eq!((plan.title.as_str(), plan.kind), ("write_file: a/b/new.txt", Kind::Edit));
        assert_eq!(plan.locations, [Location { path: place.at("a/b/new.txt"), line: None }]);
        assert_eq!(plan.diff, diff(&place, "a/b/new.txt", None, "text\n"));
        assert!(!place.at("a").exists(), "planning changes nothing");
        let outcome = place.run(plan);
        assert_eq!((outcome.failed, &outcome.diff), (false, &diff(&place, "a/b/new.txt", None, "text\n")));
        assert_eq!(place.bytes("a/b/new.txt"), b"text\n");
    }

    #[test]
    fn an_old_file_keeps_mode_link_and_bom() {
        let mut place = TestPlace::new();
        place.write("real", b"\xef\xbb\xbfold");
        fs::set_permissions(place.at("real"), PermissionsExt::from_mode(0o751)).unwrap();
        place.link("link", "real");
        let outcome = place.call(&WriteFile, json!({"path": "link", "content": "new"}));
        assert_eq!(outcome.diff, diff(&place, "real", Some("old"), "new"));
        assert!(place.at("link").is_symlink());
        assert_eq!(place.bytes("real"), b"\xef\xbb\xbfnew");
        assert_eq!(place.at("real").metadata().unwrap().mode() & 0o7777, 0o751);
        place.call(&WriteFile, json!({"path": "real", "content": "\u{feff}newer"}));
        assert_eq!(place.bytes("real"), b"\xef\xbb\xbfnewer");
    }

    #[test]
    fn what_is_no_text_has_an_old_side_all_the_same() {
        let mut place = TestPlace::new();
        place.write("latin", b"caf\xe9");
        let outcome = place.call(&WriteFile, json!({"path": "latin", "content": "café"}));
        assert_eq!(outcome.diff, diff(&place, "latin", Some("caf\u{fffd}"), "café"));
    }

    #[test]
    fn a_file_changed_since_it_was_seen_must_be_read_again() {
        let mut place = TestPlace::new();
        place.write("f", "one");
        let write = json!({"path": "f", "content": "mine"});
        place.call(&ReadFile, json!({"path": "./f"}));
        place.write("f", "the user's");
        let plan = place.plan(&WriteFile, write.clone());
        assert!(plan.action.err().is_some_and(|why| why.text.contains("read it again")));
        place.call(&ReadFile, json!({"path": "f"}));
        assert!(!place.call(&WriteFile, write.clone()).failed);
        assert!(!place.call(&WriteFile, write).failed, "its own second write");
        assert_eq!(place.bytes("f"), b"mine");
    }

    #[test]
    fn a_file_never_seen_may_be_written_and_a_deleted_one_made_anew() {
        let mut place = TestPlace::new();
        place.write("f", "one");
        assert!(!place.call(&WriteFile, json!({"path": "f", "content": "two"})).failed);
        fs::remove_file(place.at("f")).unwrap();
        assert!(!place.call(&WriteFile, json!({"path": "f", "content": "three"})).failed);
        assert_eq!(place.bytes("f"), b"three");
    }

    #[test]
    fn a_change_between_question_and_answer_stops_the_write() {
        let mut place = TestPlace::new();
        place.write("f", "one");
        for (planned, arrives) in [("f", "f"), ("new", "new")] {
            let plan = place.plan(&WriteFile, json!({"path": planned, "content": "mine"}));
            place.write(arrives, "the user's");
            let outcome = place.run(plan);
            assert!(outcome.failed && outcome.output.contains("read it again"), "{}", outcome.output);
            assert_eq!((outcome.diff, place.bytes(planned)), (None, b"the user's".to_vec()));
        }
    }

    #[test]
    fn a_project_that_is_gone_is_not_made_anew() {
        let mut place = TestPlace::new();
        fs::remove_dir(place.at("")).unwrap();
        let outcome = place.call(&WriteFile, json!({"path": "a/f", "content": "x"}));
        assert!(outcome.failed && outcome.output.contains("no directory any more"), "{}", outcome.output);
        assert!(!place.at("").exists());
        let long = place.call(&WriteFile, json!({"path": "x".repeat(1 << 20), "content": "x"}));
        assert_eq!(long.output, "`path` has 1048576 bytes; a path has at most 4096");
    }

    #[test]
    fn a_cancelled_call_writes_nothing() {
        let mut place = TestPlace::new();
        let plan = place.plan(&WriteFile, json!({"path": "f", "content": "x"}));
        let source = CancelSource::new();
        source.cancel();
        assert!(place.run_with(plan, &source).failed);
        assert!(!place.at("f").exists());
    }

    #[test]
    fn what_can_not_be_written_is_said() {
        let mut place = TestPlace::new();
        place.fifo("pipe");
        place.write("file", "");
        fs::File::create(place.at("huge")).unwrap().set_len(3 << 30).unwrap();
        for (path, why) in [
            (".", "is a directory"),
            ("pipe", "not a regular file"),
            ("file/x", "not a directory"),
            ("huge", "larger than 16.0 MiB"),
        ] {
            let outcome = place.call(&WriteFile, json!({"path": path, "content": "x"}));
            assert!(outcome.failed && outcome.output.contains(why), "{path}: {}", outcome.output);
        }
        let plan = place.plan(&WriteFile, json!({"path": "x", "content": 1}));
        assert_eq!(
            plan.action.err().map(|refusal| refusal.text).as_deref(),
            Some("`content` must be a string, not 1")
        );
        assert_eq!(plan.access, Access::Free);
    }

    #[test]
    fn of_a_file_to_ask_about_nothing_is_said_before_permission() {
        let mut place = TestPlace::new();
        fs::create_dir(place.at(".git")).unwrap();
        place.link("out", "../outside");
        for path in ["out", "../outside", ".git", "/dev/null", "/etc/passwd/x"] {
            let plan = place.plan(&WriteFile, json!({"path": path, "content": "x"}));
            assert!(plan.action.is_ok() && plan.diff.is_none(), "{path}");
            assert!(place.run(plan).failed, "{path}");
        }
    }

    #[test]
    fn a_folder_swapped_for_a_link_leads_nowhere() {
        let mut place = TestPlace::new();
        fs::create_dir(place.at("folder")).unwrap();
        let plan = place.plan(&WriteFile, json!({"path": "folder/new", "content": "x"}));
        fs::remove_dir(place.at("folder")).unwrap();
        place.link("folder", "../outside");
        assert!(place.run(plan).failed);
        assert_eq!(fs::read_dir(place.at("../outside")).unwrap().count(), 0);
    }
}
