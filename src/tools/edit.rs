//! `edit_file`: one text in a file replaced by another.
mod matching;
mod nearest;

use self::matching::Wanted::{All, One};
use self::matching::{COUNTED, Found, find, spliced, touches_half_a_character};
use super::arguments::Arguments;
use super::paths::{Purpose, Target, invalid};
use super::read::size;
use super::write::{Change, current, plan};
use super::{Kind, Plan, Refusal, Tool, Workspace};
use crate::model::ToolSpec;
use serde_json::{Map, Value, json};

/// Largest file that is edited, in bytes, and most matches that are replaced: planning can't be cancelled, so it is
/// to be over before anybody could wish it were.
const EDITED_BYTES: u64 = 4 << 20;
const MOST_MATCHES: usize = 50_000;
/// Largest file an edit may make, in bytes: many matches times a long text is soon too much.
const RESULT_BYTES: usize = 16 << 20;

/// The tool `edit_file`.
pub struct EditFile;

impl Tool for EditFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit_file".into(),
            description:
                "Replaces text in a file. old_string must match exactly (without the line numbers of \
                          read_file) and only once, unless replace_all. Line endings are kept."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "absolute, ~, or relative to the working directory"},
                    "old_string": {"type": "string"},
                    "new_string": {"type": "string"},
                    "replace_all": {"type": "boolean", "description": "replace every match"}
                },
                "required": ["path", "old_string", "new_string"]
            }),
        }
    }

    fn plan(&self, arguments: &Map<String, Value>, workspace: &Workspace) -> Plan {
        match Edit::parse(arguments, workspace) {
            Err(why) => invalid("edit_file", Kind::Edit, why),
            Ok(edit) => {
                let (line, change) = match edit.change(workspace) {
                    Ok((line, change)) => (u32::try_from(line).ok(), Ok(change)),
                    Err(why) => (None, Err(why)),
                };
                plan("edit_file", edit.target, line, change)
            }
        }
    }
}

struct Edit<'a> {
    target: Target,
    old: &'a str,
    new: &'a str,
    all: bool,
}

impl<'a> Edit<'a> {
    fn parse(arguments: &'a Map<String, Value>, workspace: &Workspace) -> Result<Self, String> {
        let arguments = Arguments(arguments);
        let path = arguments.text("path")?;
        let (old, new) = (arguments.text("old_string")?, arguments.text("new_string")?);
        let all = arguments.flag("replace_all")?.unwrap_or(false);
        if old == new {
            return Err("`old_string` and `new_string` are equal: nothing would change".into());
        }
        Ok(Self { target: Target::locate(path, workspace, Purpose::Write)?, old, new, all })
    }

    /// The change, and the line where it begins.
    fn change(&self, workspace: &Workspace) -> Result<(usize, Change), Refusal> {
        let Some(file) = current(&self.target, workspace, EDITED_BYTES)? else { return Ok(self.make()?) };
        if self.old.is_empty() {
            let why = "exists, and old_string is empty; write_file replaces a whole file";
            return Err(self.because(why).into());
        }
        let found = find(&file, self.old, if self.all { All(MOST_MATCHES) } else { One });
        self.check(&file, &found).map_err(|text| {
            // What doesn't match tells of the content, which this session may not have been let to read.
            let is_news = !workspace.seen.is_current(self.target.path().unwrap_or("".as_ref()), &file);
            let untold = || self.because("this edit does not match its content; read the file first");
            Refusal { text, before_permission: is_news.then(untold) }
        })?;
        let new = spliced(&file, &found, self.old, self.new);
        let line = found.first_line(&file);
        let times = if found.len() == 1 { String::new() } else { format!(", {} matches", found.len()) };
        let said = format!("Edited {} (line {line}{times})", self.target.title);
        Ok((line, Change { target: self.target.clone(), planned: Some(file), new, said }))
    }

    /// An empty old text is what a file that is not there holds.
    fn make(&self) -> Result<(usize, Change), String> {
        if !self.old.is_empty() {
            return Err(self.because("no such file"));
        }
        let said = format!("Made {} ({})", self.target.title, size(self.new.len() as u64));
        let new = self.new.as_bytes().to_vec();
        Ok((1, Change { target: self.target.clone(), planned: None, new, said }))
    }

    fn check(&self, file: &[u8], found: &Found) -> Result<(), String> {
        match found.len() {
            0 => return Err(self.because(&nearest::missing(file, self.old))),
            1 => {}
            times if self.all && times > MOST_MATCHES => {
                return Err(self.because(&format!(
                    "old_string matches more than {MOST_MATCHES} times: replace them with a command"
                )));
            }
            _ if self.all => {}
            _ => return Err(self.because(&several(file, found))),
        }
        if std::str::from_utf8(file).is_err()
            && (!self.old.is_ascii() || !self.new.is_ascii() || touches_half_a_character(file, found))
        {
            return Err(self.because(
                "not UTF-8, and this edit could tear its characters. Only ASCII text in ASCII surroundings can be \
                 edited there",
            ));
        }
        let most = self.new.len() + self.new.matches('\n').count();
        if found.len().saturating_mul(most).saturating_add(file.len()) > RESULT_BYTES {
            return Err(
                self.because(&format!("the result would be larger than {}", size(RESULT_BYTES as u64)))
            );
        }
        Ok(())
    }

    fn because(&self, why: &str) -> String {
        self.target.because(why)
    }
}

fn several(file: &[u8], found: &Found) -> String {
    const NAMED: usize = 20;
    let lines: Vec<String> = found.lines(file).iter().take(NAMED).map(usize::to_string).collect();
    let (times, more) = match found.len() {
        COUNTED => (format!("at least {COUNTED}"), ", …"),
        times if times > NAMED => (times.to_string(), ", …"),
        times => (times.to_string(), ""),
    };
    format!(
        "old_string matches {times} times, at lines {}{more}. Give more of the text around it, or set replace_all",
        lines.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::test_place::TestPlace;
    use super::super::{Access, Diff, Location, Outcome, read::ReadFile};
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    fn edit(path: &str, old: &str, new: &str) -> Value {
        json!({"path": path, "old_string": old, "new_string": new})
    }

    /// Why a call is refused; nothing is changed then.
    #[track_caller]
    fn refused(content: &[u8], old: &str, new: &str, why: &str) {
        let mut place = TestPlace::new();
        place.write("f", content);
        let outcome = place.call(&EditFile, edit("f", old, new));
        assert!(outcome.failed && outcome.output.contains(why), "{}", outcome.output);
        assert_eq!(place.bytes("f"), content);
    }

    #[test]
    fn an_edit_shows_its_diff_and_line() {
        let mut place = TestPlace::new();
        place.write("f", b"\xef\xbb\xbfone\r\ntwo\r\nthree");
        fs::set_permissions(place.at("f"), PermissionsExt::from_mode(0o755)).unwrap();
        let plan = place.plan(&EditFile, edit("f", "one\ntwo", "one\nzwei"));
        let (old, new) = (Some("one\r\ntwo\r\nthree".into()), "one\r\nzwei\r\nthree".into());
        let diff = Some(Diff { path: place.at("f"), old, new });
        assert_eq!((plan.title.as_str(), plan.kind, &plan.diff), ("edit_file: f", Kind::Edit, &diff));
        assert_eq!(plan.locations, [Location { path: place.at("f"), line: Some(1) }]);
        assert_eq!(place.run(plan), Outcome { diff, ..Outcome::done("Edited f (line 1)") });
        assert_eq!(place.bytes("f"), b"\xef\xbb\xbfone\r\nzwei\r\nthree");
        assert_eq!(place.at("f").metadata().unwrap().mode() & 0o7777, 0o755);
    }

    #[test]
    fn none_or_many_matches_say_how_many_and_where() {
        refused(b"a\nb\na\n", "a", "x", "matches 2 times, at lines 1, 3. Give more");
        refused(b"aaa", "aa", "x", "matches 2 times, at lines 1, 1.");
        refused(&b"a\n".repeat(30), "a", "x", "matches 30 times, at lines 1, 2, 3, 4,");
        refused(&b"a\n".repeat(300), "a", "x", "at least 100 times");
        refused(b"let a = 1;\n", "let a = 2;", "x", "matches 0 times. The nearest lines:\n1\tlet a = 1;\n");
        refused(b"a", "a", "a", "equal");
        refused(b"a", "", "x", "old_string is empty");
        refused(b"", "", "x", "old_string is empty");
    }

    #[test]
    fn all_are_replaced_where_that_is_asked() {
        let mut place = TestPlace::new();
        place.write("f", "a b\na\n");
        let all = json!({"path": "f", "old_string": "a", "new_string": "$0", "replace_all": true});
        assert_eq!(place.call(&EditFile, all).output, "Edited f (line 1, 2 matches)");
        assert_eq!(place.bytes("f"), b"$0 b\n$0\n");
    }

    #[test]
    fn a_file_in_another_encoding_keeps_its_bytes_or_is_refused() {
        let mut place = TestPlace::new();
        place.write("latin", b"caf\xe9 word \xfc\n");
        assert!(!place.call(&EditFile, edit("latin", "word", "text")).failed);
        assert_eq!(place.bytes("latin"), b"caf\xe9 text \xfc\n");
        refused(b"caf\xe9 word", "word", "wörd", "not UTF-8");
        refused(b"\xc4\x61bc", "abc", "x", "not UTF-8");
    }

    #[test]
    fn a_result_of_any_size_is_refused() {
        let mut place = TestPlace::new();
        for (content, why) in [
            ("a".repeat(20_000), "larger than 16.0 MiB"),
            ("a".repeat(60_000), "matches more than 50000 times"),
            ("a".repeat((4 << 20) + 1), "larger than 4.0 MiB"),
        ] {
            place.write("f", content);
            let new = "b".repeat(1 << 10);
            let all = json!({"path": "f", "old_string": "a", "new_string": new, "replace_all": true});
            let outcome = place.call(&EditFile, all);
            assert!(outcome.failed && outcome.output.contains(why), "{}", outcome.output);
        }
    }

    #[test]
    fn six_edits_of_one_file_by_several_names_all_land() {
        let mut place = TestPlace::new();
        place.write("d/f", "1 2 3 4 5 6");
        place.link("link", "d/f");
        for (at, path) in ["d/f", "./d/f", "link", "d/../d/f", "link", "d//f"].iter().enumerate() {
            let (old, new) = ((at + 1).to_string(), format!("<{}>", ["a", "b", "c", "d", "e", "f"][at]));
            let outcome = place.call(&EditFile, edit(path, &old, &new));
            assert!(!outcome.failed, "{}", outcome.output);
        }
        assert_eq!(place.bytes("d/f"), b"<a> <b> <c> <d> <e> <f>");
        assert!(place.at("link").is_symlink());
    }

    #[test]
    fn a_file_changed_by_the_user_must_be_read_again() {
        let mut place = TestPlace::new();
        place.write("f", "one two");
        assert!(!place.call(&EditFile, edit("f", "one", "1")).failed, "never read: not refused");
        place.write("f", "one two three");
        let outcome = place.call(&EditFile, edit("f", "two", "2"));
        assert!(outcome.failed && outcome.output.contains("read it again"), "{}", outcome.output);
        place.call(&ReadFile, json!({"path": "f"}));
        let plan = place.plan(&EditFile, edit("f", "two", "2"));
        place.write("f", "the user's two");
        assert!(place.run(plan).failed);
        assert_eq!(place.bytes("f"), b"the user's two");
    }

    #[test]
    fn an_empty_old_text_makes_a_file() {
        let mut place = TestPlace::new();
        assert!(place.call(&EditFile, edit("f", "x", "y")).failed);
        assert!(!place.at("f").exists());
        assert_eq!(place.call(&EditFile, edit("f", "", "y")).output, "Made f (1 byte)");
        assert_eq!(place.bytes("f"), b"y");
    }

    #[test]
    fn what_does_not_match_tells_of_the_content_only_who_may_read_it() {
        let mut place = TestPlace::new();
        place.write("f", "let a = 1;\nb\nb\ncaf\u{e9}\n");
        place.write("latin", b"caf\xe9");
        let untold =
            |name: &str| Some(format!("{name}: this edit does not match its content; read the file first"));
        for (name, old) in [("f", "let a = 2;"), ("f", "nowhere"), ("f", "b"), ("latin", "caf")] {
            let refusal = place.plan(&EditFile, edit(name, old, "\u{e9}")).action.err().unwrap();
            assert_eq!(refusal.before_permission, untold(name), "{old}");
            assert_eq!(refusal.clone().told(false), refusal.text);
            assert_eq!(Some(refusal.told(true)), untold(name));
        }
        place.call(&ReadFile, json!({"path": "f", "limit": 1}));
        let known = place.plan(&EditFile, edit("f", "b", "c")).action.err().unwrap();
        assert_eq!(known.before_permission, None);
        assert!(known.told(true).contains("at lines 2, 3"));
    }

    /// Neither whether it is there, nor how often something is in it, nor what is.
    #[test]
    fn of_a_file_to_ask_about_nothing_is_said_before_permission() {
        let mut place = TestPlace::new();
        place.write("../outside/secret", "password = 1\npassword = 2\n");
        place.write(".env", "KEY=1\n");
        place.write("AGENTS.md", "rules\n");
        place.link("link", "../outside/secret");
        for (path, old) in [
            ("link", "password = 3"),
            ("../outside/secret", "password"),
            ("../outside/missing", "x"),
            (".env", "KEY=2"),
            (".env.local", "KEY=2"),
            ("AGENTS.md", "rulez"),
        ] {
            let plan = place.plan(&EditFile, edit(path, old, "new"));
            assert!(plan.action.is_ok() && plan.diff.is_none(), "{path}");
            assert!(matches!(plan.access, Access::File { .. }));
            assert!(place.run(plan).failed);
        }
        let inside = place.plan(&EditFile, edit("missing", "x", "y"));
        assert_eq!(inside.action.err().map(|refusal| refusal.text).as_deref(), Some("missing: no such file"));
    }

    #[test]
    fn wrong_arguments_are_told_what_is_expected() {
        let place = TestPlace::new();
        for (arguments, why) in [
            (json!({"path": "f", "old_string": "a"}), "`new_string` is missing: a string is expected"),
            (
                json!({"path": "f", "old_string": "a", "new_string": "b", "replace_all": "yes"}),
                "`replace_all` must be true or false, not a string",
            ),
        ] {
            let plan = place.plan(&EditFile, arguments);
            assert_eq!(
                (plan.action.err().map(|refusal| refusal.text).as_deref(), plan.access),
                (Some(why), Access::Free)
            );
        }
    }
}
