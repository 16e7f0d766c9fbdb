//! A word as the shell expands it, as far as the line alone tells: braces, `~`, variables, word splitting. Globs and
//! what can't be known stay in the result as such.
use super::parse::{DEPTH, Node, Operator, Piece, Script, TooDeep, Word};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

/// Most of what one word may expand to, all alternatives together.
const MOST_UNITS: usize = 1 << 20;
/// Longest value a variable is followed with, all alternatives together: no path is longer.
const LONGEST_VALUE: usize = 4096;
/// Most alternatives a variable is followed with.
const MOST_VALUES: usize = 64;
/// Most alternatives of one word.
const MOST_ALTERNATIVES: usize = 1024;
/// Most variables that are followed.
const MOST_VARIABLES: usize = 256;

/// What a command gets as one argument.
pub(super) type Field = Vec<Unit>;

/// A character of an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    Char(char),
    /// `*`, `?` or `[` that mean something.
    Wild(char),
    /// Any text.
    Unknown,
}

/// The text of a field with nothing unknown in it.
pub(super) fn text(field: &[Unit]) -> Option<String> {
    field
        .iter()
        .map(|unit| match unit {
            Unit::Char(c) | Unit::Wild(c) => Some(*c),
            Unit::Unknown => None,
        })
        .collect()
}

/// Fields as a line to be read once more; what is unknown stays so.
pub(super) fn line_of<'a>(fields: impl IntoIterator<Item = &'a Field>) -> String {
    let mut line = String::new();
    for field in fields {
        for unit in field {
            match unit {
                Unit::Char(c) | Unit::Wild(c) => line.push(*c),
                Unit::Unknown => line.push_str("${_}"),
            }
        }
        line.push(' ');
    }
    line
}

/// What `echo`, `printf` or `cat` with a name and arguments of its own prints, as far as the line tells.
pub(super) fn printed(command: &[Field]) -> Option<Field> {
    let (name, arguments) = command.split_first()?;
    let name = text(name)?;
    let is_option = |field: &&Field| name == "echo" && field.first() == Some(&Unit::Char('-'));
    let options = arguments.iter().take_while(is_option).count();
    let is_known = matches!(name.as_str(), "echo" | "printf");
    is_known.then(|| unescaped(&arguments.get(options..).unwrap_or_default().join(&Unit::Char(' '))))
}

/// With `\n` and the like as what they stand for: `printf`, and `echo` in many shells.
fn unescaped(field: &[Unit]) -> Field {
    let mut plain = Field::new();
    let mut units = field.iter();
    while let Some(unit) = units.next() {
        let escape = if *unit == Unit::Char('\\') { units.clone().next() } else { None };
        let stands_for = match escape {
            Some(Unit::Char('n')) => '\n',
            Some(Unit::Char('t')) => '\t',
            _ => {
                plain.push(*unit);
                continue;
            }
        };
        units.next();
        plain.push(Unit::Char(stands_for));
    }
    plain
}

/// Variables whose values the line tells.
#[derive(Clone)]
pub(super) struct Variables {
    /// More than one: it has had each of them (`for`).
    values: HashMap<String, Rc<[Field]>>,
    /// The positional parameters; `None`: unknown.
    pub(super) arguments: Option<Rc<[Field]>>,
}

impl Variables {
    pub(super) fn new(home: &str) -> Self {
        let mut new = Self { values: HashMap::new(), arguments: Some(Rc::new([])) };
        for (name, value) in [("HOME", home), ("IFS", " "), ("SHELL", "/bin/bash"), ("BASH", "/bin/bash")] {
            new.set(name, vec![field(value)]);
        }
        new
    }

    /// Values too long or too many are unknown from then on.
    pub(super) fn set(&mut self, name: &str, values: Vec<Field>) {
        let length: usize = values.iter().map(Vec::len).sum();
        let is_new = !self.values.contains_key(name);
        if values.len() > MOST_VALUES || length > LONGEST_VALUE {
            self.values.remove(name);
        } else if !is_new || self.values.len() < MOST_VARIABLES {
            self.values.insert(name.to_owned(), values.into());
        }
    }

    /// It may be anything from then on.
    pub(super) fn forget(&mut self, name: &str) {
        self.values.remove(name);
    }

    /// It may have these values too.
    pub(super) fn add(&mut self, name: &str, mut more: Vec<Field>) {
        let mut values = self.values(name);
        values.append(&mut more);
        self.set(name, values);
    }

    /// `NAME+=value`
    pub(super) fn append(&mut self, name: &str, more: &[Field]) {
        let before = self.values(name);
        let both = before.iter().flat_map(|before| more.iter().map(|more| [&before[..], more].concat()));
        let both = both.take(MOST_VALUES + 1).collect();
        self.set(name, both);
    }

    fn values(&self, name: &str) -> Vec<Field> {
        if matches!(name, "@" | "*") {
            return match self.arguments.as_deref() {
                Some([]) => vec![Field::new()],
                Some(arguments) => arguments.to_vec(),
                None => vec![vec![Unit::Unknown]],
            };
        }
        match (self.values.get(name), name.parse::<usize>().ok().filter(|at| *at > 0), &self.arguments) {
            (Some(values), ..) if !values.is_empty() => values.to_vec(),
            (None, Some(at), Some(arguments)) => vec![arguments.get(at - 1).cloned().unwrap_or_default()],
            _ => vec![vec![Unit::Unknown]],
        }
    }

    /// The one value, if there is one.
    fn value(&self, name: &str) -> Field {
        self.values(name).swap_remove(0)
    }
}

/// A text as a field.
pub(super) fn field(text: &str) -> Field {
    text.chars().map(Unit::Char).collect()
}

/// The arguments a word becomes: none, one, or with alternatives or blanks in a value more.
///
/// # Errors
/// There are too many.
pub(super) fn expand(word: &Word, variables: &Variables) -> Result<Vec<Field>, TooDeep> {
    let mut fields = Vec::new();
    for alternative in alternatives(word, false, variables, 0)? {
        for atoms in braces(with_ranges_spread(&alternative), 0)? {
            split(&tilde(atoms, variables), &mut fields);
        }
    }
    Ok(fields)
}

/// What `NAME=word` assigns: the word is neither split nor has it braces.
///
/// # Errors
/// There are too many.
pub(super) fn expand_value(word: &Word, variables: &Variables) -> Result<Vec<Field>, TooDeep> {
    let alternatives = alternatives(word, false, variables, 0)?;
    let unit = |atom: &Atom| match *atom {
        Atom::Value(c @ ('*' | '?' | '[')) => Some(Unit::Wild(c)),
        Atom::Bare(c) | Atom::Quoted(c) | Atom::Value(c) => Some(Unit::Char(c)),
        Atom::Unknown => Some(Unit::Unknown),
        Atom::Empty => None,
    };
    let value = |mut atoms: Vec<Atom>| {
        let behind_name = atoms.iter().position(|atom| *atom == Atom::Bare('=')).map_or(0, |at| at + 1);
        atoms.drain(..behind_name);
        tilde(atoms, variables).iter().filter_map(unit).collect()
    };
    Ok(alternatives.into_iter().map(value).collect())
}

/// A character with what may still become of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Atom {
    Bare(char),
    Quoted(char),
    /// Of an unquoted variable: blanks split it, globs count, braces and `~` don't.
    Value(char),
    /// `""`
    Empty,
    Unknown,
}

fn alternatives(
    word: &Word,
    quoted: bool,
    variables: &Variables,
    depth: usize,
) -> Result<Vec<Vec<Atom>>, TooDeep> {
    if depth > DEPTH {
        return Err(TooDeep);
    }
    let mut all: Vec<Vec<Atom>> = vec![Vec::new()];
    for piece in word {
        let more = of_piece(piece, quoted, variables, depth)?;
        if let [only] = more.as_slice() {
            all.iter_mut().for_each(|atoms| atoms.extend_from_slice(only));
        } else {
            all =
                all.iter().flat_map(|before| more.iter().map(|more| [&before[..], more].concat())).collect();
        }
        if all.len() > MOST_ALTERNATIVES || all.iter().map(Vec::len).sum::<usize>() > MOST_UNITS {
            return Err(TooDeep);
        }
    }
    Ok(all)
}

fn of_piece(
    piece: &Piece,
    quoted: bool,
    variables: &Variables,
    depth: usize,
) -> Result<Vec<Vec<Atom>>, TooDeep> {
    Ok(match piece {
        Piece::Text(text) if !quoted => vec![text.chars().map(Atom::Bare).collect()],
        Piece::Quoted(text) if text.is_empty() => vec![vec![Atom::Empty]],
        Piece::Text(text) | Piece::Quoted(text) => vec![text.chars().map(Atom::Quoted).collect()],
        Piece::Variable { name, quoted: in_quotes, operator, operand, .. } => {
            let quoted = quoted || *in_quotes;
            let values = variables.values(name);
            let mut all: Vec<_> = values.iter().map(|value| atoms(value, quoted)).collect();
            if matches!(operator, Operator::Otherwise | Operator::Assign) {
                all.append(&mut alternatives(operand, quoted, variables, depth + 1)?);
            }
            all
        }
        Piece::Commands(script) => match output(script, variables)? {
            Some(field) => vec![atoms(&field, quoted)],
            None => vec![vec![Atom::Unknown]],
        },
        Piece::Words(_) => vec![vec![Atom::Unknown]],
        Piece::Array(words) if words.len() > MOST_VALUES => vec![vec![Atom::Unknown]],
        Piece::Array(words) => {
            let mut all = Vec::new();
            for word in words {
                all.extend(expand(word, variables)?.iter().map(|field| atoms(field, true)));
            }
            all
        }
    })
}

fn atoms(field: &[Unit], quoted: bool) -> Vec<Atom> {
    let atom = |unit: &Unit| match *unit {
        Unit::Char(c) if quoted => Atom::Quoted(c),
        // A value got its glob where it would have been expanded: each of the names, quoted or not.
        Unit::Char(c) | Unit::Wild(c) => Atom::Value(c),
        Unit::Unknown => Atom::Unknown,
    };
    field.iter().map(atom).collect()
}

/// What `$(echo …)` or `$(pwd)` stands for, where it is that one command and the line tells.
fn output(script: &Script, variables: &Variables) -> Result<Option<Field>, TooDeep> {
    let [item] = script.list.as_slice() else { return Ok(None) };
    let Node::Simple(command) = &item.node else { return Ok(None) };
    let mut fields = Vec::new();
    for word in &command.words {
        fields.append(&mut expand(word, variables)?);
    }
    let is_pwd = matches!(fields.as_slice(), [name, ..] if text(name).as_deref() == Some("pwd"));
    Ok(if is_pwd { Some(variables.value("PWD")) } else { printed(&fields) })
}

/// `a{b,c}` → `ab`, `ac`.
fn braces(atoms: Vec<Atom>, depth: usize) -> Result<Vec<Vec<Atom>>, TooDeep> {
    let Some(brace) = first_brace(&atoms) else { return Ok(vec![atoms]) };
    if depth > DEPTH {
        return Err(TooDeep);
    }
    let mut all = Vec::new();
    let (before, after) = (&atoms[..brace[0]], &atoms[brace[brace.len() - 1] + 1..]);
    for ends in brace.windows(2) {
        let inner = &atoms[ends[0] + 1..ends[1]];
        all.append(&mut braces([before, inner, after].concat(), depth + 1)?);
        if all.iter().map(Vec::len).sum::<usize>() > MOST_UNITS {
            return Err(TooDeep);
        }
    }
    Ok(all)
}

/// `{a..e}` as `{a,b,c,d,e}`; of digits and letters only.
fn with_ranges_spread(atoms: &[Atom]) -> Vec<Atom> {
    let mut spread = Vec::with_capacity(atoms.len());
    let mut rest = atoms;
    while let [first, behind @ ..] = rest {
        spread.push(*first);
        rest = behind;
        if let Some((range, behind)) = range(rest).filter(|_| *first == Atom::Bare('{')) {
            spread.extend(range.flat_map(|c| [Atom::Bare(','), Atom::Bare(c)]).skip(1));
            rest = behind;
        }
    }
    spread
}

/// `a..e` before a `}`, and what stands behind it.
fn range(atoms: &[Atom]) -> Option<(RangeInclusive<char>, &[Atom])> {
    let [Atom::Bare(from), Atom::Bare('.'), Atom::Bare('.'), Atom::Bare(to), behind @ ..] = atoms else {
        return None;
    };
    let is_one = from.is_ascii_alphanumeric() && to.is_ascii_alphanumeric();
    (is_one && behind.first() == Some(&Atom::Bare('}'))).then(|| (*from.min(to)..=*from.max(to), behind))
}

/// Where the first brace with a comma stands: `{`, its commas, `}`.
fn first_brace(atoms: &[Atom]) -> Option<Vec<usize>> {
    let mut open: Vec<Vec<usize>> = Vec::new();
    let mut first: Option<Vec<usize>> = None;
    for (at, atom) in atoms.iter().enumerate() {
        match atom {
            Atom::Bare('{') => open.push(vec![at]),
            Atom::Bare(',') => open.last_mut().into_iter().for_each(|marks| marks.push(at)),
            Atom::Bare('}') => {
                if let Some(mut marks) = open.pop().filter(|marks| marks.len() > 1) {
                    marks.push(at);
                    first = first.filter(|first| first[0] < marks[0]).or(Some(marks));
                }
            }
            _ => {}
        }
    }
    first
}

/// A `~` that leads is the home, `~+` the current folder, `~-` the one before; `~name` is the home too: any home is
/// as good as ours.
fn tilde(atoms: Vec<Atom>, variables: &Variables) -> Vec<Atom> {
    if atoms.first() != Some(&Atom::Bare('~')) {
        return atoms;
    }
    let end = atoms.iter().position(|atom| *atom == Atom::Bare('/')).unwrap_or(atoms.len());
    let all_bare = atoms[..end].iter().all(|atom| matches!(atom, Atom::Bare(_)));
    if !all_bare {
        return atoms;
    }
    let folder = match &atoms[1..end] {
        [Atom::Bare('+')] => variables.value("PWD"),
        [Atom::Bare('-')] => variables.value("OLDPWD"),
        [Atom::Bare('+' | '-'), ..] => return atoms,
        _ => variables.value("HOME"),
    };
    let folder = folder.iter().map(|unit| match *unit {
        Unit::Char(c) | Unit::Wild(c) => Atom::Quoted(c),
        Unit::Unknown => Atom::Unknown,
    });
    folder.chain(atoms[end..].iter().copied()).collect()
}

fn split(atoms: &[Atom], fields: &mut Vec<Field>) {
    let mut field: Option<Field> = None;
    for atom in atoms {
        let unit = match *atom {
            Atom::Value(' ' | '\t' | '\n') => {
                fields.extend(field.take());
                continue;
            }
            Atom::Empty => {
                field.get_or_insert_default();
                continue;
            }
            Atom::Bare(c @ ('*' | '?' | '[')) | Atom::Value(c @ ('*' | '?' | '[')) => Unit::Wild(c),
            Atom::Bare(c) | Atom::Quoted(c) | Atom::Value(c) => Unit::Char(c),
            Atom::Unknown => Unit::Unknown,
        };
        field.get_or_insert_default().push(unit);
    }
    fields.extend(field);
}
