//! The floor: what no mode and no rule allows. Wiping the root or a home, making a file system, `dd` to a device, fork
//! bombs. It guards against accidents and plain malice; a program that computes what it deletes is beyond it.
//!
//! Here the line is walked as the shell would run it, with the values it tells; [`commands`] judges each command.
mod bomb;
mod commands;
#[cfg(test)]
mod tests;

use super::expand::{Field, Unit, Variables, expand, expand_value, field, printed};
use super::parse::{
    DEPTH, Documents, List, Node, Operator, Piece, Redirection, Script, Simple, TooDeep, Word, parse_at,
};
use super::path::{Component, components};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Most commands of one line that are looked at; a line of more is refused.
const MOST_COMMANDS: usize = 10_000;
/// Most characters that the words of one line may expand to.
const MOST_CHARACTERS: usize = 1 << 22;

/// Why the line is denied in every mode, for the model and the user; `None`: the floor has nothing against it.
/// Every command of the line is looked at, also in groups, substitutions, functions, and lines given to a shell.
/// It starts in `cwd`. `homes` are names of the user's home, `$HOME` first; what is above one counts as it does.
pub fn floor(line: &str, cwd: &Path, homes: &[PathBuf]) -> Option<String> {
    let homes: Vec<_> = homes.iter().filter_map(|home| home.to_str()).collect();
    let homes = if homes.is_empty() { vec!["/root"] } else { homes };
    let path = |path: &str| components(&field(path), &[]);
    let mut judge = Judge {
        homes: homes.iter().map(|home| path(home)).collect(),
        variables: Variables::new(homes[0]),
        folder: None,
        folder_before: None,
        functions: HashMap::new(),
        calling: Vec::new(),
        depth: 0,
        commands: 0,
        characters: 0,
    };
    judge.enter(cwd.to_str().map(path));
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
    homes: Vec<Vec<Component>>,
    variables: Variables,
    /// The current folder, where the line tells.
    folder: Option<Vec<Component>>,
    /// The one before, for `cd -`.
    folder_before: Option<Vec<Component>>,
    functions: HashMap<String, Function>,
    /// The functions that are being run: one that calls itself does the same once more.
    calling: Vec<String>,
    depth: usize,
    commands: usize,
    characters: usize,
}

#[derive(Clone)]
struct Function {
    body: Rc<List>,
    documents: Documents,
}

impl Judge {
    fn line(&mut self, line: &str) -> Verdict {
        let script = parse_at(line, self.depth)?;
        self.list(&script.list, &script.documents)
    }

    /// What changes folder or variables there does so only there.
    fn apart(&mut self, judge: impl FnOnce(&mut Self) -> Verdict) -> Verdict {
        let outer = (self.variables.clone(), self.folder.clone(), self.folder_before.clone());
        judge(self)?;
        (self.variables, self.folder, self.folder_before) = outer;
        Ok(())
    }

    fn nested(&mut self, judge: impl FnOnce(&mut Self) -> Verdict) -> Verdict {
        if self.depth >= DEPTH {
            return Err(TooDeep.into());
        }
        self.depth += 1;
        judge(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Lists hold lists, as they are written and as lines for another shell: both count as depth.
    fn list(&mut self, list: &List, documents: &Documents) -> Verdict {
        self.nested(|judge| {
            let mut before = None;
            for item in list {
                let feeder = before.take().filter(|_| item.reads_pipe);
                match &item.node {
                    Node::Simple(simple) => {
                        judge.simple(simple, feeder, documents)?;
                        before = Some(simple);
                    }
                    Node::Group(list) => judge.list(list, documents)?,
                    Node::Subshell(list) => judge.apart(|judge| judge.list(list, documents))?,
                    Node::Function(name, body) => judge.define(name, body, documents)?,
                }
            }
            Ok(())
        })
    }

    /// A function is judged where it is defined, with arguments nobody knows, and again where it is called.
    fn define(&mut self, name: &str, body: &Rc<List>, documents: &Documents) -> Verdict {
        let function = Function { body: body.clone(), documents: documents.clone() };
        self.functions.insert(name.to_owned(), function);
        self.refuse_fork_bomb(name)?;
        self.apart(|judge| judge.call(name, None))
    }

    fn call(&mut self, name: &str, arguments: Option<&[Field]>) -> Verdict {
        let Some(Function { body, documents }) = self.functions.get(name).cloned() else { return Ok(()) };
        if self.calling.iter().any(|calling| calling == name) {
            return Ok(());
        }
        self.calling.push(name.to_owned());
        let outer = std::mem::replace(&mut self.variables.arguments, arguments.map(Into::into));
        self.list(&body, &documents)?;
        self.variables.arguments = outer;
        self.calling.pop();
        Ok(())
    }

    fn expand(&mut self, words: &[Word]) -> Result<Vec<Field>, TooDeep> {
        let mut fields = Vec::new();
        for word in words {
            let mut more = expand(word, &self.variables)?;
            self.characters += 1 + more.iter().map(|field| field.len() + 1).sum::<usize>();
            if self.characters > MOST_CHARACTERS {
                return Err(TooDeep);
            }
            fields.append(&mut more);
        }
        Ok(fields)
    }

    /// `feeder` writes what this command reads.
    fn simple(&mut self, simple: &Simple, feeder: Option<&Simple>, documents: &Documents) -> Verdict {
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
        if let Some((name, _)) = commands::name_and_arguments(&fields)
            && matches!(name.as_str(), "export" | "declare" | "local" | "readonly" | "typeset")
        {
            simple.words.iter().filter(is_assignment).try_for_each(|word| self.assign(word))?;
        }
        let stdin = self.stdin_of(simple, feeder, documents)?;
        self.command(&fields, stdin.as_ref())?;
        self.outputs(simple, &fields)
    }

    /// What is run to expand the command.
    fn substitutions_of(&mut self, simple: &Simple, documents: &Documents) -> Verdict {
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
                Piece::Words(words) | Piece::Array(words) => {
                    words.iter().try_for_each(|word| self.substitutions(word))?;
                }
                Piece::Variable { name, operator, subscript, operand, .. } => {
                    self.substitutions(subscript)?;
                    self.substitutions(operand)?;
                    if *operator == Operator::Assign {
                        let values = expand_value(operand, &self.variables)?;
                        self.variables.add(name, values);
                    }
                }
                Piece::Text(_) | Piece::Quoted(_) => {}
            }
        }
        Ok(())
    }

    fn assign(&mut self, word: &Word) -> Verdict {
        let Some((name, adds)) = assignment(word) else { return Ok(()) };
        let values = expand_value(word, &self.variables)?;
        match adds {
            Adds::Nothing => self.variables.set(name, values),
            Adds::Text => self.variables.append(name, &values),
            Adds::Elements => self.variables.add(name, values),
        }
        Ok(())
    }

    /// What the command reads, as far as the line tells.
    fn stdin_of(
        &mut self,
        simple: &Simple,
        feeder: Option<&Simple>,
        documents: &Documents,
    ) -> Result<Option<Field>, TooDeep> {
        let mut stdin = None;
        if let Some(feeder) = feeder {
            let fields = self.expand(&feeder.words)?;
            let is_cat = commands::name_and_arguments(&fields).is_some_and(|(name, _)| name == "cat");
            stdin = if is_cat { self.stdin_of(feeder, None, documents)? } else { printed(&fields) };
        }
        for redirection in &simple.redirections {
            match redirection {
                Redirection::Document(index) => {
                    stdin = documents.get(*index).map(|document| field(&document.text))
                }
                Redirection::Text(word) => {
                    stdin = Some(self.expand(std::slice::from_ref(word))?.join(&Unit::Char(' ')));
                }
                Redirection::Input(_) | Redirection::Output(_) => {}
            }
        }
        Ok(stdin)
    }

    /// Goes to a folder; `None`: an unknown one.
    fn enter(&mut self, folder: Option<Vec<Component>>) {
        let known = folder.filter(|path| path.iter().flatten().all(|unit| matches!(unit, Unit::Char(_))));
        self.folder_before = std::mem::replace(&mut self.folder, known);
        for (name, folder) in [("PWD", &self.folder), ("OLDPWD", &self.folder_before)] {
            match folder {
                Some(path) => self.variables.set(name, vec![written(path)]),
                None => self.variables.forget(name),
            }
        }
    }
}

fn written(path: &[Component]) -> Field {
    if path.is_empty() {
        return field("/");
    }
    path.iter().flat_map(|component| [&[Unit::Char('/')], &component[..]].concat()).collect()
}

/// What an assignment keeps of the value before.
enum Adds {
    Nothing,
    /// `NAME+=text`
    Text,
    /// `NAME+=(…)`, `NAME[…]=text`
    Elements,
}

/// The name in `NAME=value` and the like.
fn assignment(word: &Word) -> Option<(&str, Adds)> {
    let Piece::Text(first) = word.first()? else { return None };
    let end = first.find(['=', '+', '[']).unwrap_or(first.len());
    let (name, behind) = first.split_at_checked(end)?;
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let has_array = word.iter().any(|piece| matches!(piece, Piece::Array(_)));
    let closes =
        |piece: &Piece| matches!(piece, Piece::Text(text) if text.contains("]=") || text.contains("]+="));
    let adds = match behind {
        _ if !is_name => return None,
        _ if behind.starts_with("+=") && has_array => Adds::Elements,
        _ if behind.starts_with("+=") => Adds::Text,
        _ if behind.starts_with('=') => Adds::Nothing,
        _ if behind.starts_with('[') && word.iter().any(closes) => Adds::Elements,
        _ => return None,
    };
    Some((name, adds))
}
