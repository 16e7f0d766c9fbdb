//! The floor: what no mode and no rule allows. Wiping the root or a home, making a file system, `dd` to a device, fork
//! bombs. It guards against accidents and plain malice; a program that computes what it deletes is beyond it.
use super::expand::{Field, Unit, Variables, expand, expand_value, line_of, text};
use super::options::{
    Options, asks_for_help, asks_what_it_is, deletes, is_find_option, makes_file_system, narrows,
    split_string,
};
use super::parse::{
    DEPTH, Document, Item, List, Node, Piece, Redirection, Script, Simple, TooDeep, Word, literal, parse_at,
};
use super::path::{Component, component_matches, components, fits_all};
use std::path::Path;

/// Most commands of one line that are looked at; a line of more is refused.
const MOST_COMMANDS: usize = 10_000;
/// Most characters that the words of one line may expand to.
const MOST_CHARACTERS: usize = 1 << 22;

/// Why the line is denied in every mode, for the model and the user; `None`: the floor has nothing against it.
/// Every command of the line is looked at, also in groups, substitutions, functions, and lines given to a shell.
/// `home` is the user's; what is above it counts as it does.
pub fn floor(line: &str, home: Option<&Path>) -> Option<String> {
    let home = home.and_then(Path::to_str).unwrap_or("/root");
    let mut judge = Judge {
        home: components(&home.chars().map(Unit::Char).collect::<Field>(), &[]),
        variables: Variables::new(home),
        folder: None,
        depth: 0,
        commands: 0,
        characters: 0,
    };
    judge.line(line).err().map(|Denied(reason)| reason)
}

struct Denied(String);

type Verdict = Result<(), Denied>;

impl From<TooDeep> for Denied {
    fn from(_: TooDeep) -> Self {
        Self("the command is too large or nested too deep to be judged".into())
    }
}

struct Judge {
    home: Vec<Component>,
    variables: Variables,
    /// The current folder, once the line has changed it to a known one.
    folder: Option<Vec<Component>>,
    depth: usize,
    commands: usize,
    characters: usize,
}

impl Judge {
    fn line(&mut self, line: &str) -> Verdict {
        let script = parse_at(line, self.depth)?;
        self.list(&script.list, &script.documents)
    }

    /// What changes folder or variables there does so only there.
    fn apart(&mut self, judge: impl FnOnce(&mut Self) -> Verdict) -> Verdict {
        let (variables, folder) = (self.variables.clone(), self.folder.clone());
        judge(self)?;
        (self.variables, self.folder) = (variables, folder);
        Ok(())
    }

    /// Lists hold lists, as they are written and as lines for another shell: both count as depth.
    fn list(&mut self, list: &List, documents: &[Document]) -> Verdict {
        if self.depth >= DEPTH {
            return Err(TooDeep.into());
        }
        self.depth += 1;
        let mut before = None;
        for item in list {
            let feeder = before.take().filter(|_| item.reads_pipe);
            match &item.node {
                Node::Simple(simple) => {
                    self.simple(simple, feeder, documents)?;
                    before = Some(simple);
                }
                Node::Group(list) => self.list(list, documents)?,
                Node::Subshell(list) => self.apart(|judge| judge.list(list, documents))?,
                Node::Function(name, body) => {
                    refuse_fork_bomb(name, body)?;
                    self.apart(|judge| {
                        judge.variables.no_arguments = false;
                        judge.list(body, documents)
                    })?;
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn expand(&mut self, words: &[Word]) -> Result<Vec<Field>, TooDeep> {
        let mut fields = Vec::new();
        for word in words {
            let mut more = expand(word, &self.variables)?;
            self.characters += more.iter().map(Vec::len).sum::<usize>();
            if self.characters > MOST_CHARACTERS {
                return Err(TooDeep);
            }
            fields.append(&mut more);
        }
        Ok(fields)
    }

    /// `feeder` writes what this command reads.
    fn simple(&mut self, simple: &Simple, feeder: Option<&Simple>, documents: &[Document]) -> Verdict {
        self.commands += 1;
        if self.commands > MOST_COMMANDS {
            return Err(TooDeep.into());
        }
        self.substitutions_of(simple, documents)?;
        let is_assignment = |word: &&Word| assignment(word).is_some();
        let assignments: Vec<_> = simple.words.iter().take_while(is_assignment).collect();
        let fields = self.expand(&simple.words[assignments.len()..])?;
        if fields.is_empty() {
            // Before a command they are only in its environment.
            assignments.into_iter().try_for_each(|word| self.assign(word))?;
        }
        if let Some((name, _)) = command_name(&fields)
            && matches!(name.as_str(), "export" | "declare" | "local" | "readonly" | "typeset")
        {
            simple.words.iter().filter(is_assignment).try_for_each(|word| self.assign(word))?;
        }
        let script = self.stdin_of(simple, feeder, documents)?;
        self.command(&fields, script.as_deref())?;
        self.outputs(simple, &fields)
    }

    /// What is run to expand the command.
    fn substitutions_of(&mut self, simple: &Simple, documents: &[Document]) -> Verdict {
        for word in &simple.words {
            self.substitutions(word)?;
        }
        for redirection in &simple.redirections {
            match redirection {
                Redirection::Input(word) | Redirection::Output(word) | Redirection::Text(word) => {
                    self.substitutions(word)?;
                }
                Redirection::Document(index) => {
                    documents
                        .get(*index)
                        .map_or(Ok(()), |document| self.substitutions(&document.expansions))?;
                }
            }
        }
        Ok(())
    }

    fn substitutions(&mut self, word: &Word) -> Verdict {
        for piece in word {
            match piece {
                Piece::Commands(Script { list, documents, .. }) => {
                    self.apart(|judge| judge.list(list, documents))?;
                }
                Piece::Words(words) => words.iter().try_for_each(|word| self.substitutions(word))?,
                Piece::Variable { otherwise: Some(word), .. } => self.substitutions(word)?,
                Piece::Variable { .. } | Piece::Text(_) | Piece::Quoted(_) => {}
            }
        }
        Ok(())
    }

    fn assign(&mut self, word: &Word) -> Verdict {
        let Some((name, is_appended)) = assignment(word) else { return Ok(()) };
        let values = expand_value(word, &self.variables)?;
        if is_appended {
            self.variables.append(name, &values);
        } else {
            self.variables.set(name, values);
        }
        Ok(())
    }

    /// What a shell in this command's place would read, as far as the line tells.
    fn stdin_of(
        &mut self,
        simple: &Simple,
        feeder: Option<&Simple>,
        documents: &[Document],
    ) -> Result<Option<String>, TooDeep> {
        let mut script = None;
        if let Some(feeder) = feeder {
            let fields = self.expand(&feeder.words)?;
            script = match command_name(&fields) {
                Some((name, arguments)) if name == "echo" || name == "printf" => Some(line_of(arguments)),
                Some((name, _)) if name == "cat" => self.stdin_of(feeder, None, documents)?,
                _ => None,
            };
        }
        for redirection in &simple.redirections {
            match redirection {
                Redirection::Document(index) => {
                    script = documents.get(*index).map(|document| document.text.clone())
                }
                Redirection::Text(word) => script = Some(line_of(&self.expand(std::slice::from_ref(word))?)),
                Redirection::Input(_) | Redirection::Output(_) => {}
            }
        }
        Ok(script)
    }

    fn command(&mut self, mut fields: &[Field], stdin: Option<&str>) -> Verdict {
        let (name, arguments) = loop {
            let Some((_, rest)) = fields.split_first() else { return Ok(()) };
            // `$SUDO rm …`: an unknown word may be a prefix, or nothing at all.
            let Some((name, arguments)) = command_name(fields) else {
                fields = rest;
                continue;
            };
            let Some(options) = Options::of_prefix(&name) else { break (name, arguments) };
            if let Some(line) = split_string(arguments).filter(|_| name == "env") {
                return self.apart(|judge| judge.line(&line));
            }
            if name == "command" && asks_what_it_is(arguments) {
                return Ok(());
            }
            fields = options.skip(arguments);
        };
        match name.as_str() {
            "cd" | "pushd" => self.change_folder(arguments),
            "for" | "select" => self.iterate(arguments),
            "rm" => self.remove(arguments),
            "find" => self.find(arguments),
            "dd" => self.copy(arguments),
            "eval" => self.line(&line_of(arguments)),
            "trap" => arguments.first().map_or(Ok(()), |code| self.line(&line_of([code]))),
            "bash" | "sh" | "dash" | "zsh" | "ksh" | "ash" => self.shell(arguments, stdin),
            "su" | "runuser" => self.switch_user(arguments),
            _ if makes_file_system(&name) && !asks_for_help(arguments) => {
                Err(Denied(format!("`{name}` makes a file system and is never run")))
            }
            _ => Ok(()),
        }
    }

    fn change_folder(&mut self, arguments: &[Field]) -> Verdict {
        let target = arguments.iter().find(|field| !matches!(field.as_slice(), [Unit::Char('-'), _, ..]));
        let path = match target {
            None => Some(self.home.clone()),
            Some(field) if field.as_slice() == [Unit::Char('-')] => None,
            Some(field) => self.resolve(field),
        };
        self.folder = path.filter(|path| path.iter().flatten().all(|unit| matches!(unit, Unit::Char(_))));
        let value = |path: &Vec<Component>| {
            vec![path.iter().flat_map(|c| [&[Unit::Char('/')], &c[..]].concat()).collect()]
        };
        self.variables.set("PWD", self.folder.as_ref().map(value).unwrap_or_default());
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

    fn remove(&self, arguments: &[Field]) -> Verdict {
        match arguments.iter().find(|field| self.is_wiped_by(field)) {
            Some(field) => Err(wiping(field)),
            None => Ok(()),
        }
    }

    /// `find` that deletes all it meets; with a test that narrows it down it is a tool like others.
    fn find(&self, arguments: &[Field]) -> Verdict {
        let begins_expression = |field: &Field| {
            matches!(field.first(), Some(Unit::Char('-' | '(' | '!'))) && !is_find_option(field)
        };
        let begin = arguments.iter().position(begins_expression).unwrap_or(arguments.len());
        let (paths, expression) = arguments.split_at(begin);
        let here = [vec![Unit::Char('.')]];
        let mut paths = paths.iter().filter(|path| !is_find_option(path)).peekable();
        let wiped = if paths.peek().is_none() {
            here.iter().find(|path| self.is_wiped_by(path))
        } else {
            paths.find(|path| self.is_wiped_by(path))
        };
        let expression: Vec<_> = expression.iter().map(|field| text(field).unwrap_or_default()).collect();
        match wiped {
            Some(path) if deletes(&expression) && !narrows(&expression) => Err(wiping(path)),
            _ => Ok(()),
        }
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

    /// Redirections to a disk, and any device where `dd` prints to it.
    fn outputs(&mut self, simple: &Simple, fields: &[Field]) -> Verdict {
        let is_dd = fields.iter().any(|field| text(field).as_deref() == Some("dd"));
        for redirection in &simple.redirections {
            let Redirection::Output(word) = redirection else { continue };
            for target in self.expand(std::slice::from_ref(word))? {
                if self.device(&target).is_some_and(|name| is_dd || is_disk(&name)) {
                    return Err(writing_to_device(&target));
                }
            }
        }
        Ok(())
    }

    fn shell(&mut self, arguments: &[Field], stdin: Option<&str>) -> Verdict {
        let options = Options { short: "oO", long: &["rcfile", "init-file"], operands: 0 };
        let mut rest = arguments;
        let mut runs_argument = false;
        while let Some((option, behind)) = rest.split_first() {
            let Some(length) = options.length(option) else { break };
            let is_short = !matches!(option.as_slice(), [Unit::Char('-'), Unit::Char('-'), ..]);
            runs_argument |= is_short && option.contains(&Unit::Char('c'));
            rest = behind.get(length - 1..).unwrap_or_default();
        }
        let line = match rest.first() {
            Some(line) if runs_argument => line_of([line]),
            None => stdin.unwrap_or_default().to_owned(),
            Some(_) => return Ok(()), // a script
        };
        self.apart(|judge| {
            judge.variables.no_arguments = rest.len() <= 2;
            judge.line(&line)
        })
    }

    /// `su -c LINE`
    fn switch_user(&mut self, arguments: &[Field]) -> Verdict {
        for (at, argument) in arguments.iter().enumerate() {
            let Some(option) = text(argument) else { continue };
            let line = match option.strip_prefix("--command=") {
                Some(line) => Some(line.to_owned()),
                None if option == "-c" || option == "--command" => {
                    arguments.get(at + 1).map(|line| line_of([line]))
                }
                None => None,
            };
            if let Some(line) = line {
                return self.apart(|judge| judge.line(&line));
            }
        }
        Ok(())
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
        let matches_home = |(component, home): (&Component, &Component)| component_matches(component, home);
        path.len() <= self.home.len() && path.iter().zip(&self.home).all(matches_home)
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

/// Two calls of itself, one of them beside the rest: each run makes two more.
fn refuse_fork_bomb(name: &str, body: &List) -> Verdict {
    let (calls, beside) = self_calls(name, body, false);
    if calls >= 2 && beside >= 1 {
        return Err(Denied(format!("the function `{name}` is a fork bomb")));
    }
    Ok(())
}

fn self_calls(name: &str, list: &[Item], beside: bool) -> (usize, usize) {
    let (mut calls, mut calls_beside) = (0, 0);
    for item in list {
        let beside = beside || item.reads_pipe || item.writes_pipe || item.background;
        let (more, more_beside) = match &item.node {
            Node::Simple(simple) => {
                let is_call = simple.words.first().and_then(literal).as_deref() == Some(name);
                (usize::from(is_call), usize::from(is_call && beside))
            }
            Node::Group(list) | Node::Subshell(list) | Node::Function(_, list) => {
                self_calls(name, list, beside)
            }
        };
        calls += more;
        calls_beside += more_beside;
    }
    (calls, calls_beside)
}

/// The base name of the program, and its arguments.
fn command_name(fields: &[Field]) -> Option<(String, &[Field])> {
    let (name, arguments) = fields.split_first()?;
    let name = text(name)?;
    let base = name.rsplit('/').next().unwrap_or_default();
    Some((base.to_owned(), arguments))
}

/// The name in `NAME=value` and `NAME+=value`, and whether it is the latter.
fn assignment(word: &Word) -> Option<(&str, bool)> {
    let Piece::Text(first) = word.first()? else { return None };
    let (name, _) = first.split_once('=')?;
    let appended = name.strip_suffix('+');
    let name = appended.unwrap_or(name);
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, appended.is_some()))
}

/// Whether a device below `/dev` is a disk or memory.
fn is_disk(name: &str) -> bool {
    let disks =
        ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "md", "dm-", "mapper", "loop", "nbd"];
    disks.iter().any(|disk| name.starts_with(disk)) || matches!(name, "mem" | "kmem")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(line: &str) -> Option<String> {
        floor(line, Some(Path::new("/home/alice")))
    }

    #[track_caller]
    fn check_denied(lines: &[&str], because: &str) {
        for line in lines {
            let reason = reason(line);
            assert!(reason.as_ref().is_some_and(|reason| reason.contains(because)), "{line}: {reason:?}");
        }
    }

    #[track_caller]
    fn check_passes(lines: &[&str]) {
        for line in lines {
            assert_eq!(reason(line), None, "{line}");
        }
    }

    #[test]
    fn the_root_and_homes_are_never_wiped() {
        check_denied(
            &[
                "rm -rf /",
                "rm -rf /*",
                "rm -rf //",
                "rm -rf /.",
                "rm -rf /./",
                "rm -rf /tmp/..",
                "rm -rf /../",
                "rm -rf /*/",
                "rm -rf /*/*",
                "rm -rf /.*",
                "rm -rf /.[!.]* /*",
                "rm -rf /???",
                "rm -fr /",
                "rm -r -f /",
                "rm -f -R /",
                "rm -rfv /",
                "rm --recursive --force /",
                "rm --rec /",
                "rm / -rf",
                "rm -rf -- /",
                "rm -rf --no-preserve-root /",
                "rm -rf foo / bar",
                "rm -rf ~",
                "rm -rf ~/",
                "rm -rf ~/*",
                "rm -rf ~/.*",
                "rm -rf ~/{*,.*}",
                "rm -rf ~/.[!.]*",
                "rm -rf ~alice",
                "rm -rf ~root/",
                "rm -rf $HOME",
                "rm -rf \"$HOME\"",
                "rm -rf \"$HOME\"/*",
                "rm -rf ${HOME}/",
                "rm -rf \"${HOME}\"/*",
                "rm -rf ${HOME:?}/*",
                "rm -rf ${HOME%/}",
                "rm -rf /home",
                "rm -rf /home/*",
                "rm -rf /home/alice",
                "rm -rf /home/alice/",
                "rm -rf /home/al*",
                "rm -rf /home/bob/../alice",
                "rm -rf ~/project/..",
                "rm -rf {/,/tmp}",
                "rm -rf /{,tmp}",
                "rm -rf '/'",
                "rm -rf \"/\"",
                "rm -rf ''/",
                "rm -rf $'/'",
                "rm -rf $'\\x2f'",
                "rm -rf \\/",
                "rm \\\n -rf /",
                "\\rm -rf /",
                "'rm' -rf /",
                "r'm' -rf /",
                "/bin/rm -rf /",
                "{rm,-rf,/}",
                "rm${IFS}-rf${IFS}/",
                "rm -rf / 2>/dev/null",
                "2>/dev/null rm -rf /",
                "rm -rf />log",
            ],
            "would wipe",
        );
    }

    #[test]
    fn behind_whatever_stands_before() {
        check_denied(
            &[
                "cd / && rm -rf *",
                "cd /; rm -rf *",
                "cd / && rm -rf .",
                "cd / && rm -rf ./*",
                "cd ~ && rm -rf *",
                "cd ~; rm -rf -- *",
                "cd && rm -rf *",
                "cd $HOME && rm -rf .[!.]* *",
                "cd /tmp && cd .. && rm -rf *",
                "cd ~/project && rm -rf ..",
                "cd / && rm -rf \"$PWD\"/*",
                "cd -P / || exit\nrm -rf *",
                "pushd /; rm -rf *",
                "cd /tmp && rm -rf /",
                "ls; rm -rf /",
                "ls && rm -rf /",
                "ls || rm -rf /",
                "ls | rm -rf /",
                "ls & rm -rf /",
                "ls\nrm -rf /",
                "rm -rf / &",
                "(rm -rf /)",
                "(cd / && rm -rf *)",
                "{ rm -rf /; }",
                "! rm -rf /",
                "if true; then rm -rf /; fi",
                "if true\nthen\nrm -rf /\nfi",
                "while rm -rf /; do :; done",
                "for i in 1; do rm -rf /; done",
                "for d in /tmp /; do rm -rf \"$d\"; done",
                "for d in /*; do rm -rf $d; done",
                "case x in x) rm -rf / ;; esac",
                "case x in (a|b) :;; *) rm -rf /;; esac",
                "f() { rm -rf /; }; f",
                "function f { rm -rf /; }",
                "f()\n{\n rm -rf /\n}",
                "x=$(rm -rf /)",
                "echo \"$(rm -rf /)\"",
                "echo `rm -rf /`",
                "echo \"`rm -rf /`\"",
                "echo $(echo $(rm -rf /))",
                "echo ${x:-$(rm -rf /)}",
                "cat <(rm -rf /)",
                "x=($(rm -rf /))",
                "echo $((1 + $(rm -rf /)))",
                "((x = 1 << 2))\nrm -rf /",
                "x=$((1<<2))\nrm -rf /",
                "cat <<E\n$(rm -rf /)\nE",
                "cat <<'E'\ntext\nE\nrm -rf /",
                "x=$(cat <<E\ntext\nE)\nrm -rf /",
                "echo \"${x:-'}\"; rm -rf / # '}\"",
                "echo a # comment\nrm -rf /",
                "echo a#'\nrm -rf /'; rm -rf /",
                "coproc rm -rf /",
                "rm -rf / 'unclosed",
                "X=/; rm -rf $X",
                "X=/; rm -rf \"$X\"*",
                "export X=/; rm -rf \"$X\"",
                "X=; rm -rf \"$X/\"",
                "rm -rf \"$1\"/*",
                "rm -rf ${X:-/}",
                "$SUDO rm -rf /",
                "$(which sudo) rm -rf /",
                "X='-rf /'; rm $X",
                "X='rm -rf /'; $X",
                "X=~; rm -rf $X",
            ],
            "would wipe",
        );
    }

    #[test]
    fn through_other_commands() {
        check_denied(
            &[
                "sudo rm -rf /",
                "sudo -u root rm -rf /",
                "sudo -nu root rm -rf /",
                "sudo --user root -- rm -rf /",
                "sudo X=1 rm -rf /",
                "doas rm -rf /",
                "env rm -rf /",
                "env -i A=b rm -rf /",
                "env -u A rm -rf /",
                "env -S 'rm -rf /'",
                "A=b rm -rf /",
                "command rm -rf /",
                "exec rm -rf /",
                "nohup rm -rf / &",
                "nice -n 19 rm -rf /",
                "time -p rm -rf /",
                "timeout -s KILL 5 rm -rf /",
                "setsid -w rm -rf /",
                "busybox rm -rf /",
                "sudo env nice command rm -rf /",
                "bash -c 'rm -rf /'",
                "sh -ec 'rm -rf /'",
                "bash -euo pipefail -c 'rm -rf /'",
                "bash --norc -c 'rm -rf /'",
                "sudo bash -c \"rm -rf /\"",
                "bash -c \"bash -c 'rm -rf /'\"",
                "bash -c 'cd / && rm -rf *'",
                "cd / && bash -c 'rm -rf *'",
                "bash -c 'rm -rf \"$1\"/*'",
                "eval 'rm -rf /'",
                "eval rm -rf /",
                "eval \"X=/\"; rm -rf $X",
                "trap 'rm -rf /' EXIT",
                "su -c 'rm -rf /'",
                "su root --command='rm -rf /'",
                "bash <<'E'\nrm -rf /\nE",
                "bash <<< 'rm -rf /'",
                "echo 'rm -rf /' | sh",
                "echo rm -rf / | sudo bash",
                "cat <<'E' | sh\nrm -rf /\nE",
                "find / -delete",
                "find ~ -mindepth 1 -delete",
                "find / -type f -exec rm -f {} +",
                "find $HOME -name '*' -delete",
                "find / ! -name x -delete",
                "cd ~ && find -delete",
                "cd / && find . -exec rm -rf {} \\;",
            ],
            "would wipe",
        );
    }

    #[test]
    fn what_only_looks_like_it_passes() {
        check_passes(&[
            "",
            "rm -rf ./build",
            "rm -rf build /tmp/x",
            "rm -rf *",
            "rm -rf .",
            "rm -rf ./*",
            "rm -rf \"$HOME/x\"",
            "rm -rf ~/x ~/.cache/x",
            "rm -rf ~/x/*",
            "rm -rf /home/alice/x",
            "rm -rf /home/bob/x",
            "rm -rf /tmp/*",
            "rm -rf /tmp/../tmp/x",
            "rm -rf /*/cache/x",
            "rm -rf '~'",
            "rm -rf \"~\"/x '/*'x",
            "rm -rf \"$DIR\"",
            "rm -rf \"$DIR\"/*",
            "rm -rf \"${TMPDIR:-/tmp}\"/x",
            "rm -rf $(mktemp -d)",
            "cd /tmp && rm -rf *",
            "cd ~/project && rm -rf *",
            "cd / && cd tmp && rm -rf *",
            "cd / && rm -rf tmp/x",
            "(cd /; ls); rm -rf *",
            "cd /; cd -; rm -rf *",
            "cd \"$X\" && rm -rf *",
            "X=/tmp; rm -rf $X/x",
            "f() { rm -rf \"$1\"/*; }; f x",
            "bash -c 'rm -rf \"$1\"/*' _ build",
            "echo 'rm -rf /'",
            "echo rm -rf /",
            "echo \"rm -rf /\" > notes",
            "git commit -m 'rm -rf /'",
            "git commit -m \"$(cat <<'E'\nit's rm -rf /\nE\n)\"",
            "grep -r 'rm -rf /' .",
            "cat <<'E' > x.sh\nrm -rf /\nE",
            "cat <<E\nrm -rf / \"'\nE\nls",
            "# rm -rf /",
            "ls # rm -rf /",
            "ls /",
            "ls ~/*",
            "command -v rm",
            "which rm /",
            "sudo ls /",
            "find / -name '*.pyc'",
            "find ~ -name '*.pyc' -delete",
            "find . -delete",
            "find /tmp/x -delete",
            "find / -type f -exec grep x {} +",
            "echo $((1 << 2)) $((x > 3)) | cat",
            "[[ a < b && $x =~ ^(a|b)$ ]] && echo y",
            "case $x in a) echo;; esac",
            "bash script.sh /",
            "for f in *.rs; do rm \"$f\"; done",
            "docker run --rm -v /:/host image ls",
            "rsync -a / /backup",
        ]);
    }

    #[test]
    fn file_systems_are_not_made() {
        check_denied(
            &[
                "mkfs /dev/sda1",
                "mkfs.ext4 x.img",
                "sudo mkfs -t ext4 /dev/x",
                "/sbin/mkfs.xfs x",
                "ls; mke2fs x",
            ],
            "file system",
        );
        check_passes(&[
            "grep -r mkfs .",
            "man mkfs",
            "which mkfs.ext4",
            "command -v mkfs",
            "mkfs.ext4 --help",
            "sudo grep -r mkfs /etc",
            "echo mkfs",
            "apt-get install mkfs",
        ]);
    }

    #[test]
    fn devices_are_not_written_to() {
        check_denied(
            &[
                "dd if=/dev/zero of=/dev/sda",
                "dd of=/dev/sda1 if=x bs=1M",
                "dd if=x of=\"/dev/disk2\"",
                "dd if=x of=/dev/$DISK",
                "dd if=x of=/dev/mapper/root",
                "dd if=x of=/dev/not-there",
                "dd if=x of=/dev/shm/x",
                "dd if=x of=/tmp/../dev/sda",
                "cd /dev && dd if=x of=sda",
                "D=/dev/sda; dd if=x of=$D",
                "dd if=x > /dev/sda",
                "sudo dd if=x of=/dev/nvme0n1",
                "cat x | sudo dd of=/dev/sdb",
                "cat x > /dev/sda",
                "echo x >> /dev/nvme0n1",
                "&>/dev/vda echo x",
            ],
            "device",
        );
        check_passes(&[
            "dd if=/dev/zero of=/dev/null",
            "dd if=x of=/dev/stdout",
            "dd if=x of=/dev/fd/1",
            "dd if=/dev/sda of=disk.img",
            "dd if=/dev/urandom of=./dev/x count=1",
            "dd if=x of=$OUT",
            "dd if=x > /dev/null 2>&1",
            "echo x > /dev/null",
            "echo x > /dev/tty",
            "echo x > /dev/tcp/localhost/80",
            "echo x > /dev/shm/x",
            "cat < /dev/sda",
        ]);
    }

    #[test]
    fn fork_bombs_are_refused() {
        check_denied(
            &[
                ":(){ :|:& };:",
                ":() { : | : & }; :",
                "bomb() { bomb | bomb & }; bomb",
                "function f { f | f & }; f",
                "function f() { f & f & }",
                "f()\n{\n f |\n f &\n}\nf",
                "f() ( f & f )",
                "f() { { f; f; } & }",
                "bash -c ':(){ :|:& };:'",
            ],
            "fork bomb",
        );
        check_passes(&[
            "walk() { for f in \"$1\"/*; do walk \"$f\"; done; }; walk .",
            "fib() { echo $(( $(fib $(($1-1))) + $(fib $(($1-2))) )); }",
            "ls() { command ls \"$@\" | less; }",
            "echo ':(){ :|:& };:'",
            "serve() { server & }; serve",
        ]);
    }

    #[test]
    fn what_can_not_be_judged_is_refused_and_nothing_takes_for_ever() {
        for (open, close) in
            [("$(", ")"), ("(", ")"), ("{ ", "; }"), ("${x:-", "}"), ("$((", "))"), ("$(( (", "")]
        {
            let line = format!("echo {}{}", open.repeat(20_000), close.repeat(20_000));
            let _ = reason(&line); // returns
        }
        check_denied(&[&format!("{}rm -rf /{}", "$(".repeat(70), ")".repeat(70))], "nested too deep");
        check_denied(&[&format!("echo {}", "{a,b}".repeat(30))], "nested too deep");
        check_denied(&[&format!("echo {}", "{a,".repeat(30_000) + &"}".repeat(30_000))], "nested too deep");
        check_denied(&[&":;".repeat(20_000)], "nested too deep");
        check_denied(&[&"a ".repeat(64 * 1024), &"'".repeat(1 << 20)], "too large");
        assert_eq!(reason(&"sudo ".repeat(25_000)), None);
        assert_eq!(reason(&"$x ".repeat(40_000)), None);
        let mut documents = String::new();
        for at in 0..70 {
            documents += &format!("{}bash <<E{at}\n", "(".repeat(40));
        }
        check_denied(&[&documents], "nested too deep");
        let variables: String = (0..3000).map(|at| format!("V{at}=$X; (W=1);")).collect();
        check_passes(&[&format!("X={}; {variables}", "x".repeat(4000))]);
        check_denied(&[&format!("X={}; echo {}", "x".repeat(4000), "$X ".repeat(30_000))], "too large");
        let doubling = format!("X=aaaa;{} rm -rf $X", "X=$X$X;".repeat(60));
        assert_eq!(reason(&doubling), None);
        assert_eq!(reason(&"{".repeat(100_000)), None);
        assert_eq!(reason(&"'".repeat(100_001)), None);
        check_denied(&[&format!("X={}; eval \"{}\"", "x".repeat(4000), "$X".repeat(40))], "too large");
    }

    #[test]
    fn any_bytes_are_judged() {
        let alphabet = [
            "rm", " ", "-rf", "/", "'", "\"", "$(", "${", "((", ")", "}", "{", "`", "\\", "\n", "<<E", "E",
            "|", "&", ";", "case", "in", "#", "é", "$", "=", "(", "*", "~", "!", "<", ">", "[", ",",
            "function", "f",
        ];
        let mut random = 1_u64;
        for _ in 0..3000 {
            let line: String = (0..40)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    alphabet[(random >> 33) as usize % alphabet.len()]
                })
                .collect();
            let _ = reason(&line); // returns, without a panic
            let _ = super::super::is_single_command(&line);
        }
    }

    #[test]
    fn without_a_home_the_tilde_is_still_one() {
        assert!(floor("rm -rf ~", None).is_some());
        assert!(floor("rm -rf \"$HOME\"/*", None).is_some());
        assert_eq!(floor("rm -rf ~/x", None), None);
    }
}
