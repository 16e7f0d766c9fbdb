//! One command with its arguments, looked for behind `sudo` and its like.
use super::super::expand::{Field, Unit, line_of, text};
use super::super::options::{self, Options, asks_for_help, asks_what_it_is, makes_file_system};
use super::super::parse::{Redirection, Simple};
use super::super::path::{Component, component_matches, components, fits_all};
use super::super::{find, options::Runs};
use super::{Denied, Judge, Verdict};

impl Judge {
    /// `stdin` is what it reads, where the line tells.
    pub(super) fn command(&mut self, mut fields: &[Field], stdin: Option<&Field>) -> Verdict {
        let mut tried = false;
        while let Some((first, arguments)) = fields.split_first() {
            let is_unsure = first.contains(&Unit::Unknown);
            let Some(name) = name_of(first).filter(|_| !(is_unsure && tried)) else {
                // `$SUDO rm …`: an unknown word may be a prefix, or nothing at all.
                fields = arguments;
                continue;
            };
            if let Some(options) = Options::of_prefix(&name) {
                if let Some(verdict) = self.special_prefix(&name, &options, arguments, stdin) {
                    return verdict;
                }
                fields = options.skip(arguments);
                continue;
            }
            if let Some(function) = text(first) {
                self.call(&function, Some(arguments))?;
            }
            self.program(&name, arguments, stdin)?;
            if !is_unsure {
                break;
            }
            (tried, fields) = (true, arguments);
        }
        Ok(())
    }

    /// A prefix that is more than one; `None`: it is not.
    fn special_prefix(
        &mut self,
        name: &str,
        options: &Options,
        arguments: &[Field],
        stdin: Option<&Field>,
    ) -> Option<Verdict> {
        if name == "command" && asks_what_it_is(arguments) {
            return Some(Ok(()));
        }
        if let Some((line, behind)) = options.line(arguments) {
            let line = line_of([&line]) + &line_of(behind);
            let verdict = self.apart(|judge| judge.line(&line));
            if verdict.is_err() || !options.permutes {
                return Some(verdict);
            }
        }
        let behind = options.skip(arguments);
        match options.runs {
            // Its option may have been one of the command's.
            Runs::Command if options.permutes => {
                return Some(self.nested(|judge| judge.command(behind, stdin)));
            }
            Runs::Line => {
                let line = line_of(behind);
                return Some(self.apart(|judge| judge.line(&line)));
            }
            Runs::WithStdin => {
                let is_blank = |unit: &Unit| matches!(unit, Unit::Char(' ' | '\t' | '\n'));
                let more = stdin.into_iter().flat_map(|stdin| stdin.split(is_blank));
                let more = more.filter(|word| !word.is_empty()).map(<[Unit]>::to_vec);
                let all: Vec<_> = behind.iter().cloned().chain(more).collect();
                return Some(self.nested(|judge| judge.command(&all, None)));
            }
            Runs::Command => {}
        }
        let folder = options.folder(arguments)?;
        Some(self.nested(|judge| {
            judge.apart(|judge| {
                judge.enter(judge.resolve(&folder));
                judge.command(behind, stdin)
            })
        }))
    }

    fn program(&mut self, name: &str, arguments: &[Field], stdin: Option<&Field>) -> Verdict {
        match name {
            "cd" | "pushd" | "popd" => self.change_folder(name, arguments),
            "for" | "select" => self.iterate(arguments),
            "set" => self.set_arguments(arguments),
            "shift" => self.shift(arguments),
            "unset" | "read" | "mapfile" | "readarray" | "getopts" => self.change_variables(name, arguments),
            "rm" => self.remove(arguments),
            "find" => self.find(arguments),
            "dd" => self.copy(arguments),
            "eval" => self.line(&line_of(arguments)),
            "trap" => options::operands(arguments).first().map_or(Ok(()), |code| self.line(&line_of([code]))),
            "." | "source" if stdin.is_some() && is_stdin(arguments.first()) => self.line(&line_of(stdin)),
            _ if is_shell(name) => self.shell(arguments, stdin),
            _ if makes_file_system(name) && !asks_for_help(arguments) => {
                Err(Denied(format!("`{name}` makes a file system and is never run")))
            }
            _ => Ok(()),
        }
    }

    fn change_folder(&mut self, name: &str, arguments: &[Field]) -> Verdict {
        let target = arguments.iter().find(|field| !matches!(field.as_slice(), [Unit::Char('-'), _, ..]));
        let path = match target {
            _ if name == "popd" => self.folder_before.clone(),
            None => self.homes.first().cloned(),
            Some(field) if field.as_slice() == [Unit::Char('-')] => self.folder_before.clone(),
            Some(field) => self.resolve(field),
        };
        self.enter(path);
        Ok(())
    }

    /// `for NAME in …`
    fn iterate(&mut self, arguments: &[Field]) -> Verdict {
        if let [name, _, values @ ..] = arguments
            && let Some(name) = text(name)
        {
            self.variables.set(&name, values.to_vec());
        }
        Ok(())
    }

    /// `set -- …`
    fn set_arguments(&mut self, arguments: &[Field]) -> Verdict {
        let is_end = |field: &Field| text(field).as_deref() == Some("--");
        let behind = arguments.iter().position(is_end).map(|at| at + 1);
        let is_option = |field: &Field| matches!(field.first(), Some(Unit::Char('-' | '+')));
        let begin = behind.or_else(|| arguments.first().filter(|first| !is_option(first)).map(|_| 0));
        if let Some(begin) = begin {
            self.variables.arguments = Some(arguments[begin..].into());
        }
        Ok(())
    }

    fn shift(&mut self, by: &[Field]) -> Verdict {
        let by = by.first().map_or(Some(1), |by| text(by)?.parse().ok());
        let before = self.variables.arguments.take();
        self.variables.arguments =
            before.zip(by).map(|(before, by)| before.get(by..).unwrap_or_default().into());
        Ok(())
    }

    /// `unset` leaves nothing, the others anything.
    fn change_variables(&mut self, name: &str, arguments: &[Field]) -> Verdict {
        for variable in arguments.iter().filter_map(|field| text(field)) {
            match name {
                "unset" => self.variables.set(&variable, vec![Field::new()]),
                _ => self.variables.forget(&variable),
            }
        }
        Ok(())
    }

    fn remove(&self, arguments: &[Field]) -> Verdict {
        match arguments.iter().find(|field| self.is_wiped_by(field)) {
            Some(field) => Err(wiping(field)),
            None => Ok(()),
        }
    }

    /// `find` that deletes all it meets; with a test that narrows it down it is a tool like others.
    fn find(&self, arguments: &[Field]) -> Verdict {
        let arguments = options::behind_find_options(arguments);
        let begins_expression = |field: &Field| matches!(field.first(), Some(Unit::Char('-' | '(' | '!')));
        let begin = arguments.iter().position(begins_expression).unwrap_or(arguments.len());
        let (paths, expression) = arguments.split_at(begin);
        let here = [vec![Unit::Char('.')]];
        let paths = if paths.is_empty() { &here } else { paths };
        let Some(wiped) = paths.iter().find(|path| self.is_wiped_by(path)) else { return Ok(()) };
        let expression: Vec<_> = expression.iter().map(|field| text(field).unwrap_or_default()).collect();
        if find::wipes(&expression) { Err(wiping(wiped)) } else { Ok(()) }
    }

    fn copy(&self, arguments: &[Field]) -> Verdict {
        let of = ['o', 'f', '='].map(Unit::Char);
        let outputs = arguments.iter().filter_map(|field| field.strip_prefix(&of));
        for output in outputs {
            if self.device(output).is_some() {
                return Err(writing_to_device(output));
            }
        }
        Ok(())
    }

    /// Redirections to a device; also to a harmless one where `dd` prints to it.
    pub(super) fn outputs(&mut self, simple: &Simple, fields: &[Field]) -> Verdict {
        let is_dd = fields.iter().any(|field| text(field).as_deref() == Some("dd"));
        for redirection in &simple.redirections {
            let Redirection::Output(word) = redirection else { continue };
            for target in self.expand(std::slice::from_ref(word))? {
                if self.device(&target).is_some_and(|name| is_dd || !is_harmless(&name)) {
                    return Err(writing_to_device(&target));
                }
            }
        }
        Ok(())
    }

    fn shell(&mut self, arguments: &[Field], stdin: Option<&Field>) -> Verdict {
        let options = Options::of_shell();
        let mut rest = arguments;
        let (mut runs_argument, mut reads_stdin) = (false, false);
        while let Some((option, behind)) = rest.split_first() {
            let Some(length) = options.length(option) else { break };
            let is_short = !matches!(option.as_slice(), [Unit::Char('-'), Unit::Char('-'), ..]);
            runs_argument |= is_short && option.contains(&Unit::Char('c'));
            reads_stdin |= is_short && option.contains(&Unit::Char('s'));
            rest = behind.get(length - 1..).unwrap_or_default();
        }
        let (line, own) = match rest.first() {
            Some(line) if runs_argument => (line_of([line]), rest.get(2..).unwrap_or_default()),
            Some(_) if reads_stdin => (line_of(stdin), rest),
            Some(script) if is_stdin(Some(script)) => (line_of(stdin), &rest[1..]),
            None => (line_of(stdin), rest),
            Some(_) => return Ok(()), // a script
        };
        self.apart(|judge| {
            judge.variables.arguments = Some(own.into());
            judge.line(&line)
        })
    }

    /// The path from the root, `.` and `..` taken out; `None` where it begins in an unknown folder.
    fn resolve(&self, field: &[Unit]) -> Option<Vec<Component>> {
        match field.first()? {
            Unit::Char('/') => Some(components(field, &[])),
            Unit::Unknown => None,
            _ => Some(components(field, self.folder.as_ref()?)),
        }
    }

    /// Whether removing what the field names removes the root, a home or what is above it, or all that is in there.
    fn is_wiped_by(&self, field: &Field) -> bool {
        let Some(mut path) = self.resolve(field) else { return false };
        while path.last().is_some_and(|component| fits_all(component)) {
            path.pop();
        }
        self.homes.iter().any(|home| {
            let matches_home =
                |(component, home): (&Component, &Component)| component_matches(component, home);
            path.len() <= home.len() && path.iter().zip(home).all(matches_home)
        })
    }

    /// The name below `/dev` of a device that is neither `null` nor a standard stream.
    fn device(&self, field: &[Unit]) -> Option<String> {
        let path = self.resolve(field)?;
        let (first, rest) = path.split_first()?;
        let name = rest.first().map(|name| text(name).unwrap_or_default())?;
        let is_stream = match name.as_str() {
            "null" | "stdin" | "stdout" | "stderr" => rest.len() == 1,
            "fd" => rest.len() == 2,
            _ => false,
        };
        (text(first)? == "dev" && !is_stream).then_some(name)
    }
}

fn wiping(field: &Field) -> Denied {
    let path = line_of([field]);
    Denied(format!(
        "removing `{}` would wipe the root or a home directory, which is never done",
        path.trim_end()
    ))
}

fn writing_to_device(field: &[Unit]) -> Denied {
    let path = line_of([&field.to_vec()]);
    Denied(format!("writing to the device `{}` is never done", path.trim_end()))
}

/// The base name of a program, where what is unknown of it is nothing; `None`: all of it is unknown.
fn name_of(field: &Field) -> Option<String> {
    let known: Field = field.iter().copied().filter(|unit| *unit != Unit::Unknown).collect();
    let name = text(&known)?;
    let base = name.rsplit('/').next().unwrap_or_default();
    (!base.is_empty() || known.len() == field.len()).then(|| base.to_owned())
}

/// The base name of the program, and its arguments.
pub(super) fn name_and_arguments(fields: &[Field]) -> Option<(String, &[Field])> {
    let (name, arguments) = fields.split_first()?;
    Some((name_of(name)?, arguments))
}

fn is_shell(name: &str) -> bool {
    const SHELLS: [&str; 16] = [
        "bash", "sh", "dash", "zsh", "ksh", "ash", "rbash", "fish", "mksh", "lksh", "oksh", "yash", "posh",
        "tcsh", "csh", "ksh93",
    ];
    SHELLS.contains(&name)
}

fn is_stdin(field: Option<&Field>) -> bool {
    field
        .and_then(|field| text(field))
        .is_some_and(|path| matches!(path.as_str(), "/dev/stdin" | "/dev/fd/0"))
}

/// Whether anybody may print to a device below `/dev`: terminals, sockets, shared memory, and what swallows all.
fn is_harmless(name: &str) -> bool {
    let kinds = ["tty", "pts", "tcp", "udp", "shm", "mqueue"];
    kinds.iter().any(|kind| name.starts_with(kind))
        || matches!(name, "full" | "zero" | "random" | "urandom" | "kmsg" | "console" | "log")
}
