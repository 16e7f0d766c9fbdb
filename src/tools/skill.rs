//! `read_skill`: instructions that a project or a user keeps for a kind of task.
//!
//! A skill is a folder with a `SKILL.md`: front matter with `name` and `description`, then the instructions
//! (agentskills.io). Names and descriptions stand in the system prompt; the instructions are read when needed.
use super::arguments::Arguments;
use super::paths::invalid;
use super::{Access, Action, Kind, Location, Outcome, Plan, Run, Tool, Workspace};
use crate::files;
use crate::model::ToolSpec;
use crate::text;
use serde_json::{Map, Value, json};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Largest `SKILL.md`, in bytes.
const FILE_BYTES: u64 = 1 << 20;

/// What a model reads of one, in bytes.
const SHOWN_BYTES: usize = 50 << 10;

/// Most skills of one folder.
const FOLDER_ENTRIES: usize = 1_000;

const NAME_CHARACTERS: usize = 64;
const DESCRIPTION_CHARACTERS: usize = 1_024;

/// A skill as the system prompt lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// From the front matter, else its folder's; one clean line of at most 64 characters.
    pub name: String,
    /// From the front matter, perhaps empty; one clean line of at most 1,024 characters.
    pub description: String,
    /// Its `SKILL.md`, absolute. The files that belong to it are beside it.
    pub path: PathBuf,
}

/// The skills of a workspace, the project's first; of several with one name the first. What is there but can't be
/// read safely is skipped with a warning.
pub fn list(workspace: &Workspace) -> Vec<Skill> {
    scan(workspace, |path, error| {
        log::warn!("skill skipped: {}: {error}", text::clean(&path.to_string_lossy()))
    })
    .into_iter()
    .map(|(skill, _)| skill)
    .collect()
}

/// Each skill with its instructions.
fn scan(workspace: &Workspace, mut skipped: impl FnMut(&Path, &io::Error)) -> Vec<(Skill, String)> {
    let mut skills: Vec<(Skill, String)> = Vec::new();
    let users = workspace.user_folder.iter().map(|folder| (folder, "skills"));
    let folders = [(&workspace.cwd, ".bob/skills"), (&workspace.cwd, ".agents/skills")];
    for (root, folder) in folders.into_iter().chain(users) {
        let folder = Path::new(folder);
        let names = files::names_below(root, folder, FOLDER_ENTRIES);
        for name in report(names, &root.join(folder), &mut skipped).unwrap_or_default() {
            let relative = folder.join(&name).join("SKILL.md");
            let path = root.join(&relative);
            let file = files::read_below(root, &relative, FILE_BYTES).and_then(as_text);
            let Some(file) = report(file, &path, &mut skipped) else { continue };
            let skill = parse(&file, &name, path);
            if skills.iter().all(|(known, _)| known.name != skill.0.name) {
                skills.push(skill);
            }
        }
    }
    skills
}

/// What is not there is nothing to report: no skills, or a stray file among them.
fn report<T>(got: io::Result<T>, path: &Path, skipped: &mut impl FnMut(&Path, &io::Error)) -> Option<T> {
    match got {
        Ok(got) => Some(got),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
        Err(error) => {
            skipped(path, &error);
            None
        }
    }
}

fn as_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

fn parse(file: &str, folder: &OsStr, path: PathBuf) -> (Skill, String) {
    let file = file.strip_prefix('\u{feff}').unwrap_or(file);
    let (front, body) = front_matter(file).unwrap_or(("", file));
    let value = |key| text::one_line(&scalar(front, key).unwrap_or_default());
    let name = Some(value("name")).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| folder.to_string_lossy().into_owned());
    let skill = Skill {
        name: text::clean_to(&name, NAME_CHARACTERS).into_owned(),
        description: text::clean_to(&value("description"), DESCRIPTION_CHARACTERS).into_owned(),
        path,
    };
    (skill, body.to_owned())
}

/// What stands between two lines of `---` at the beginning, and what comes after.
fn front_matter(file: &str) -> Option<(&str, &str)> {
    let mut lines = file.split_inclusive('\n');
    let opening = lines.next().filter(|line| line.trim_end() == "---")?.len();
    let mut end = opening;
    for line in lines {
        if matches!(line.trim_end(), "---" | "...") {
            return Some((file.get(opening..end)?, file.get(end + line.len()..)?));
        }
        end += line.len();
    }
    None
}

/// The value of a key of a YAML mapping at its top level: plain, quoted, or a block (`|`, `>`). Line breaks in it are
/// kept as blanks would be, since only one line is made of it.
fn scalar(yaml: &str, key: &str) -> Option<String> {
    let mut lines = yaml.lines();
    let first = lines.by_ref().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))?;
    let first = first.trim();
    let more = lines.take_while(|line| line.is_empty() || line.starts_with([' ', '\t']));
    if first.starts_with(['|', '>']) {
        return Some(more.collect::<Vec<_>>().join("\n"));
    }
    let whole = std::iter::once(first).chain(more.map(str::trim)).collect::<Vec<_>>().join(" ");
    Some(match whole.chars().next() {
        Some('"') => double_quoted(&whole),
        Some('\'') => single_quoted(&whole),
        Some('#') => String::new(),
        _ => whole.split(" #").next().unwrap_or_default().to_owned(),
    })
}

/// `''` stands for one quote.
fn single_quoted(quoted: &str) -> String {
    let mut value = String::new();
    let mut characters = quoted.chars().skip(1).peekable();
    while let Some(character) = characters.next() {
        if character == '\'' && characters.next_if_eq(&'\'').is_none() {
            break;
        }
        value.push(character);
    }
    value
}

/// The escapes of JSON are YAML's too; an unknown one stands for itself.
fn double_quoted(quoted: &str) -> String {
    let mut value = String::new();
    let mut characters = quoted.chars().skip(1);
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('n' | 't' | 'r') => value.push(' '),
                Some('u') => {
                    let code = characters.by_ref().take(4).collect::<String>();
                    value.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
                }
                escaped => value.extend(escaped),
            },
            character => value.push(character),
        }
    }
    value
}

/// The tool `read_skill`.
pub struct ReadSkill;

impl Tool for ReadSkill {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_skill".into(),
            description:
                "Reads the instructions of a skill listed in the system prompt. Do so before a task that \
                          fits its description."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"]
            }),
        }
    }

    fn plan(&self, arguments: &Map<String, Value>, workspace: &Workspace) -> Plan {
        let name = match Arguments(arguments).text("name") {
            Ok(name) => name,
            Err(why) => return invalid("read_skill", Kind::Read, why),
        };
        let found = find(name, workspace);
        let locations = found.iter().map(|reading| Location { path: reading.0.path.clone(), line: None });
        Plan {
            title: format!("read_skill: {name}"),
            kind: Kind::Read,
            locations: locations.collect(),
            diff: None,
            access: Access::Free,
            action: found.map(|reading| Box::new(reading) as Box<dyn Action>).map_err(Into::into),
        }
    }
}

fn find(name: &str, workspace: &Workspace) -> Result<Reading, String> {
    let skills = scan(workspace, |_, _| {});
    let names: Vec<&str> = skills.iter().map(|(skill, _)| skill.name.as_str()).collect();
    let known =
        if names.is_empty() { "there are none".into() } else { format!("there are: {}", names.join(", ")) };
    let found = skills.iter().position(|(skill, _)| skill.name == name.trim());
    let at = found.ok_or_else(|| format!("no skill `{name}`; {known}"))?;
    skills.into_iter().nth(at).map(|(skill, body)| Reading(skill, body)).ok_or(known)
}

struct Reading(Skill, String);

impl Action for Reading {
    fn run(self: Box<Self>, _: &mut Run<'_>) -> Outcome {
        let Self(skill, body) = *self;
        let folder = skill.path.parent().unwrap_or(&skill.path).display();
        let shown = text::head(&body, SHOWN_BYTES);
        let cut = body.len() - shown.len();
        let note =
            if cut == 0 { String::new() } else { format!("\n[cut: {cut} more bytes; read_file reads on]") };
        Outcome::done(format!(
            "[skill {}, its files are in {folder}]\n{}{note}",
            skill.name,
            shown.trim_start()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_place::TestPlace;
    use super::*;

    fn skill(name: &str, description: &str) -> String {
        format!("---\nname: {name}\ndescription: {description}\n---\n\nDo {name}.\n")
    }

    fn names(place: &TestPlace) -> Vec<String> {
        list(&place.workspace).into_iter().map(|skill| skill.name).collect()
    }

    #[test]
    fn skills_come_from_project_and_user_and_the_first_of_a_name_counts() {
        let mut place = TestPlace::new();
        place.write(".bob/skills/b/SKILL.md", skill("beta", "one"));
        place.write(".bob/skills/a/SKILL.md", skill("alpha", "two"));
        place.write(".bob/skills/README", "no skill");
        place.write(".agents/skills/a/SKILL.md", skill("alpha", "hidden"));
        place.write("../home/.bob/skills/c/SKILL.md", skill("gamma", "three"));
        assert_eq!(names(&place), ["alpha", "beta", "gamma"]);
        assert_eq!(list(&place.workspace)[0].description, "two");
        let plan = place.plan(&ReadSkill, json!({"name": "alpha"}));
        assert_eq!(
            (plan.title.as_str(), plan.kind, &plan.access),
            ("read_skill: alpha", Kind::Read, &Access::Free)
        );
        assert_eq!(plan.locations, [Location { path: place.at(".bob/skills/a/SKILL.md"), line: None }]);
        let folder = place.at(".bob/skills/a");
        let expected = format!("[skill alpha, its files are in {}]\nDo alpha.\n", folder.display());
        assert_eq!(place.run(plan), Outcome::done(expected));
        let unknown = place.plan(&ReadSkill, json!({"name": "delta"}));
        assert_eq!(
            unknown.action.err().map(|refusal| refusal.text).as_deref(),
            Some("no skill `delta`; there are: alpha, beta, gamma")
        );
    }

    #[test]
    fn a_project_without_skills_has_none() {
        let place = TestPlace::new();
        assert_eq!(list(&place.workspace), []);
        let plan = place.plan(&ReadSkill, json!({"name": "x"}));
        assert_eq!(
            plan.action.err().map(|refusal| refusal.text).as_deref(),
            Some("no skill `x`; there are none")
        );
    }

    #[test]
    fn traps_of_a_clone_are_no_skills() {
        let place = TestPlace::new();
        place.write("../outside/id_rsa", "SECRET");
        place.write("../outside/skills/x/SKILL.md", skill("x", "outside"));
        place.write(".bob/skills/large/SKILL.md", "x".repeat(1 << 20) + "x");
        place.write(".bob/skills/latin/SKILL.md", b"caf\xe9");
        for folder in ["key", "stdin", "environ", "pipe"] {
            std::fs::create_dir_all(place.at(".bob/skills").join(folder)).unwrap();
        }
        place.link(".bob/skills/key/SKILL.md", "../../../../outside/id_rsa");
        place.link(".bob/skills/stdin/SKILL.md", "/dev/stdin");
        place.link(".bob/skills/environ/SKILL.md", "/proc/self/environ");
        place.link(".bob/skills/folder", "../../../outside/skills/x");
        place.fifo(".bob/skills/pipe/SKILL.md");
        place.write(".agents/x", "");
        place.link(".agents/skills", "../../outside/skills");
        place.write(".bob/skills/fine/SKILL.md", skill("fine", ""));
        let mut skipped = Vec::new();
        let found = scan(&place.workspace, |path, _| {
            skipped.push(path.strip_prefix(place.at("")).unwrap().to_str().unwrap().to_owned());
        });
        assert_eq!(found.iter().map(|(skill, _)| skill.name.as_str()).collect::<Vec<_>>(), ["fine"]);
        let traps = ["environ", "folder", "key", "large", "latin", "pipe", "stdin"];
        let mut traps: Vec<_> = traps.iter().map(|name| format!(".bob/skills/{name}/SKILL.md")).collect();
        traps.push(".agents/skills".into());
        assert_eq!(skipped, traps);
    }

    #[test]
    fn front_matter_may_be_written_in_several_ways() {
        for (front, name, description) in [
            ("name: a\ndescription: b c", "a", "b c"),
            ("name: a # x\ndescription: b # c", "a", "b"),
            ("name: \"a b\"\ndescription: 'it''s: # b'", "a b", "it's: # b"),
            ("name: a\ndescription: \"x \\\"y\\\" \\u00e9\\nz\" # c", "a", "x \"y\" é z"),
            ("description: >-\n  b\n  c\n\n  d\nname: a", "a", "b c d"),
            ("name: a\ndescription: |\n  b:\n    c", "a", "b: c"),
            ("name: a\ndescription: b\n  c\n  d\nother: e", "a", "b c d"),
            ("name: a\r\ndescription: b\r", "a", "b"),
            ("meta:\n  name: x\nname : a\ndescription:", "a", ""),
            ("names: x", "folder", ""),
            ("name: a\u{202e}b\ndescription: c", "a\\u{202e}b", "c"),
        ] {
            let (skill, body) = parse(&format!("---\n{front}\n---\nbody"), "folder".as_ref(), PathBuf::new());
            assert_eq!(
                (skill.name.as_str(), skill.description.as_str(), body.as_str()),
                (name, description, "body"),
                "{front}"
            );
        }
        for without in ["text", "---\nname: a\n", ""] {
            let (skill, body) = parse(without, "folder".as_ref(), PathBuf::new());
            assert_eq!((skill.name.as_str(), body.as_str()), ("folder", without));
        }
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let mut place = TestPlace::new();
        place.write(".bob/skills/a/SKILL.md", "é".repeat(SHOWN_BYTES));
        let outcome = place.call(&ReadSkill, json!({"name": "a"}));
        assert!(outcome.output.len() < SHOWN_BYTES + 300 && outcome.output.contains("more bytes"));
        let (skill, _) = parse(&skill(&"n".repeat(99), &"d".repeat(2000)), "f".as_ref(), PathBuf::new());
        assert!(skill.name.ends_with("… (+35)") && skill.description.len() < 1_050);
    }
}
