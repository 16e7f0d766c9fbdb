//! What certain commands' options mean: those that run another command, and those that may destroy.
use super::expand::{Field, Unit, text};

/// What a command that runs another one does with its operands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Runs {
    /// They are the command.
    Command,
    /// They are a line for a shell.
    Line,
    /// They are the command, with what stdin holds as further arguments.
    WithStdin,
}

/// What the options of a command are, as far as is needed to step over them.
pub(super) struct Options {
    /// Short ones that take a value.
    short: &'static str,
    /// Long ones that take a value.
    long: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
    pub(super) runs: Runs,
    /// The option whose value is a line for a shell.
    line: Option<(char, &'static str)>,
    /// The option that names the folder the command starts in.
    folder: Option<(char, &'static str)>,
    /// Options may stand behind operands.
    pub(super) permutes: bool,
}

const PLAIN: Options = Options {
    short: "",
    long: &[],
    operands: 0,
    runs: Runs::Command,
    line: None,
    folder: None,
    permutes: false,
};

impl Options {
    /// Of a command that runs its arguments as a command.
    pub(super) fn of_prefix(name: &str) -> Option<Self> {
        Some(match name {
            "sudo" => Self {
                short: "ugpChrtDTRU",
                long: &["user", "group", "prompt", "host", "chdir", "chroot", "role", "type"],
                folder: Some(('D', "chdir")),
                ..PLAIN
            },
            "doas" => Self { short: "uCa", ..PLAIN },
            "pkexec" => Self { long: &["user"], ..PLAIN },
            "su" | "runuser" => Self {
                short: "cgGsTuw",
                long: &["command", "group", "supp-group", "shell", "user", "whitelist-environment"],
                line: Some(('c', "command")),
                permutes: true,
                ..PLAIN
            },
            "script" => Self {
                short: "cIOBTmEo",
                long: &["command", "log-in", "log-out", "log-io", "log-timing", "logging-format", "echo"],
                line: Some(('c', "command")),
                permutes: true,
                ..PLAIN
            },
            "env" => Self {
                short: "uCS",
                long: &["unset", "chdir", "split-string"],
                line: Some(('S', "split-string")),
                folder: Some(('C', "chdir")),
                ..PLAIN
            },
            "exec" => Self { short: "a", ..PLAIN },
            "command" | "builtin" | "nohup" | "setsid" | "busybox" | "toybox" | "fakeroot" | "unbuffer"
            | "eatmydata" => PLAIN,
            "nice" => Self { short: "n", long: &["adjustment"], ..PLAIN },
            "ionice" => Self { short: "cn", long: &["class", "classdata"], ..PLAIN },
            "time" => Self { short: "fo", long: &["format", "output"], ..PLAIN },
            "timeout" => Self { short: "sk", long: &["signal", "kill-after"], operands: 1, ..PLAIN },
            "stdbuf" => Self { short: "ioe", long: &["input", "output", "error"], ..PLAIN },
            "chrt" | "taskset" | "gosu" | "su-exec" => Self { operands: 1, ..PLAIN },
            "caffeinate" => Self { short: "tw", ..PLAIN },
            "chroot" => Self { long: &["userspec", "groups"], operands: 1, ..PLAIN },
            "unshare" => Self {
                short: "SGRw",
                long: &[
                    "setuid",
                    "setgid",
                    "root",
                    "wd",
                    "map-user",
                    "map-group",
                    "propagation",
                    "setgroups",
                ],
                folder: Some(('w', "wd")),
                ..PLAIN
            },
            "nsenter" => Self { short: "tSG", long: &["target", "setuid", "setgid"], ..PLAIN },
            "setpriv" => Self {
                long: &[
                    "reuid",
                    "regid",
                    "ruid",
                    "euid",
                    "rgid",
                    "egid",
                    "groups",
                    "inh-caps",
                    "ambient-caps",
                    "bounding-set",
                    "securebits",
                    "pdeathsig",
                    "selinux-label",
                    "apparmor-profile",
                ],
                ..PLAIN
            },
            "prlimit" => Self { short: "po", long: &["pid", "output"], ..PLAIN },
            "strace" | "ltrace" => Self { short: "eoOpsSuEPabXIUnlAD", ..PLAIN },
            "flock" => Self {
                short: "wEc",
                long: &["timeout", "wait", "conflict-exit-code", "command"],
                operands: 1,
                line: Some(('c', "command")),
                permutes: true,
                ..PLAIN
            },
            "watch" => Self { short: "nq", long: &["interval", "equexit"], runs: Runs::Line, ..PLAIN },
            "xargs" => Self {
                short: "adEILnPs",
                long: &["arg-file", "delimiter", "max-args", "max-procs", "max-lines", "max-chars"],
                runs: Runs::WithStdin,
                ..PLAIN
            },
            _ => return None,
        })
    }

    /// Of a shell.
    pub(super) fn of_shell() -> Self {
        Self { short: "oO", long: &["rcfile", "init-file"], ..PLAIN }
    }

    /// The line that an option gives, and what stands behind it.
    pub(super) fn line<'f>(&self, fields: &'f [Field]) -> Option<(Field, &'f [Field])> {
        self.value(fields, self.line?)
    }

    /// The folder that an option gives.
    pub(super) fn folder(&self, fields: &[Field]) -> Option<Field> {
        self.value(fields, self.folder?).map(|(folder, _)| folder)
    }

    fn value<'f>(
        &self,
        mut fields: &'f [Field],
        (letter, long): (char, &str),
    ) -> Option<(Field, &'f [Field])> {
        while let Some((option, behind)) = fields.split_first() {
            let length = self.length(option).or(self.permutes.then_some(1))?;
            match self.given(option, letter, long) {
                Some([]) => return behind.split_first().map(|(value, behind)| (value.clone(), behind)),
                Some(value) => return Some((value.to_vec(), behind)),
                None if text(option).as_deref() == Some("--") => return None,
                None => fields = fields.get(length..)?,
            }
        }
        None
    }

    /// The value behind `-x`, `-yx`, or `--name=`; empty: it is the next field.
    fn given<'f>(&self, option: &'f [Unit], letter: char, long: &str) -> Option<&'f [Unit]> {
        let [Unit::Char('-'), letters @ ..] = option else { return None };
        if let [Unit::Char('-'), name @ ..] = letters {
            let end = name.iter().position(|unit| *unit == Unit::Char('=')).unwrap_or(name.len());
            let (name, value) = name.split_at(end);
            return (text(name)? == long).then(|| value.get(1..).unwrap_or_default());
        }
        for (at, unit) in letters.iter().enumerate() {
            match unit {
                Unit::Char(c) if *c == letter => return letters.get(at + 1..),
                Unit::Char(c) if !self.short.contains(*c) => {}
                _ => return None,
            }
        }
        None
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

/// Behind options without a value.
pub(super) fn operands(mut fields: &[Field]) -> &[Field] {
    while let Some(([Unit::Char('-'), ..], behind)) =
        fields.split_first().map(|(f, behind)| (f.as_slice(), behind))
    {
        fields = behind;
    }
    fields
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

/// Behind the options of `find` that stand before its paths.
pub(super) fn behind_find_options(mut fields: &[Field]) -> &[Field] {
    while let Some(option) = fields.first().and_then(|field| text(field)) {
        let length = match option.as_str() {
            "-H" | "-L" | "-P" => 1,
            "-D" => 2,
            option if option.starts_with("-O") => 1,
            _ => break,
        };
        fields = fields.get(length..).unwrap_or_default();
    }
    fields
}
