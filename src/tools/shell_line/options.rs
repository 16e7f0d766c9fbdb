//! What certain commands' options mean: those that run another command, and those that may destroy.
use super::expand::{Field, Unit, line_of, text};

/// What the options of a command are, as far as is needed to step over them.
pub(super) struct Options {
    /// Short ones that take a value.
    pub(super) short: &'static str,
    /// Long ones that take a value.
    pub(super) long: &'static [&'static str],
    /// Operands before the command.
    pub(super) operands: usize,
}

impl Options {
    /// Of a command that runs its arguments as a command.
    pub(super) fn of_prefix(name: &str) -> Option<Self> {
        let (short, long, operands): (_, &[_], _) = match name {
            "sudo" => {
                ("ugpChrtDTRU", &["user", "group", "prompt", "host", "chdir", "chroot", "role", "type"], 0)
            }
            "doas" => ("uCa", &[], 0),
            "env" => ("uC", &["unset", "chdir"], 0),
            "exec" => ("a", &[], 0),
            "command" | "builtin" | "nohup" | "setsid" | "busybox" | "toybox" => ("", &[], 0),
            "nice" => ("n", &["adjustment"], 0),
            "ionice" => ("cn", &["class", "classdata"], 0),
            "time" => ("fo", &["format", "output"], 0),
            "timeout" => ("sk", &["signal", "kill-after"], 1),
            "stdbuf" => ("ioe", &["input", "output", "error"], 0),
            "chrt" | "taskset" => ("", &[], 1),
            "caffeinate" => ("tw", &[], 0),
            _ => return None,
        };
        Some(Self { short, long, operands })
    }

    /// The command behind options, assignments and operands.
    pub(super) fn skip<'f>(&self, mut fields: &'f [Field]) -> &'f [Field] {
        while let Some(length) = fields.first().and_then(|field| self.length(field)) {
            let is_last = text(&fields[0]).as_deref() == Some("--");
            fields = fields.get(length..).unwrap_or_default();
            if is_last {
                break;
            }
        }
        while fields.first().is_some_and(|field| field.contains(&Unit::Char('='))) {
            fields = &fields[1..];
        }
        fields.get(self.operands..).unwrap_or_default()
    }

    /// How many fields the option takes that this one is, or begins.
    pub(super) fn length(&self, field: &Field) -> Option<usize> {
        let Some(Unit::Char('-' | '+')) = field.first() else { return None };
        let option = text(field).unwrap_or_default();
        let takes_next = match option.strip_prefix("--") {
            Some(name) => self.long.contains(&name),
            None => {
                let letters = option.get(1..).unwrap_or_default();
                letters.find(|letter| self.short.contains(letter)).is_some_and(|at| at + 1 == letters.len())
            }
        };
        Some(if takes_next { 2 } else { 1 })
    }
}

/// The line of `env -S LINE`.
pub(super) fn split_string(arguments: &[Field]) -> Option<String> {
    for (at, argument) in arguments.iter().enumerate() {
        let option = text(argument)?;
        let begin = match option.strip_prefix("--split-string").or_else(|| option.strip_prefix("-S")) {
            Some(begin) => begin.trim_start_matches('=').to_owned(),
            None if option.starts_with('-') => continue,
            None => return None,
        };
        return Some(format!("{begin} {}", line_of(&arguments[at + 1..])));
    }
    None
}

pub(super) fn makes_file_system(name: &str) -> bool {
    name == "mkfs"
        || name.starts_with("mkfs.")
        || name.starts_with("newfs")
        || matches!(name, "mke2fs" | "mkdosfs" | "mkntfs")
}

/// `command -v NAME`
pub(super) fn asks_what_it_is(arguments: &[Field]) -> bool {
    let option = arguments.first().and_then(|field| text(field)).unwrap_or_default();
    option.starts_with('-') && option.contains(['v', 'V'])
}

pub(super) fn asks_for_help(arguments: &[Field]) -> bool {
    let is_question = |field| matches!(text(field).as_deref(), Some("--help" | "-h" | "--version" | "-V"));
    !arguments.is_empty() && arguments.iter().all(|field| is_question(field))
}

pub(super) fn is_find_option(field: &Field) -> bool {
    let option = text(field).unwrap_or_default();
    matches!(option.as_str(), "-H" | "-L" | "-P") || option.starts_with("-O")
}

pub(super) fn deletes(expression: &[String]) -> bool {
    let runs = |word: &String| matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
    let removes = |word: &String| word == "rm" || word.ends_with("/rm") || word.contains("rm ");
    let runs_rm = || expression.iter().skip_while(|word| !runs(word)).any(removes);
    expression.iter().any(|word| word == "-delete") || runs_rm()
}

/// Tests of `find` that let only a part pass.
const NARROWING: [&str; 26] = [
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-regex",
    "-iregex",
    "-lname",
    "-newer",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-size",
    "-empty",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-perm",
    "-inum",
    "-samefile",
    "-links",
];

pub(super) fn narrows(expression: &[String]) -> bool {
    expression.iter().enumerate().any(|(at, test)| {
        let before = at.checked_sub(1).and_then(|at| expression.get(at));
        let is_negated = before.is_some_and(|word| word == "!" || word == "-not");
        let fits_all = expression.get(at + 1).is_some_and(|pattern| pattern.chars().all(|c| c == '*'));
        NARROWING.contains(&test.as_str()) && !is_negated && !fits_all
    })
}
