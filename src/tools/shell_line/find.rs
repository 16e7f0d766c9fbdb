//! The expression of `find` (POSIX, and the GNU manual): whether it deletes all that it meets, or nearly.
use super::parse::DEPTH;

/// Tests that let only a part pass, unless their argument is one that all fit.
const NARROWING: [&str; 24] = [
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
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-inum",
    "-samefile",
    "-links",
];

/// Other tests and actions that take an argument.
const WITH_ARGUMENT: [&str; 12] = [
    "-type",
    "-xtype",
    "-maxdepth",
    "-mindepth",
    "-fstype",
    "-printf",
    "-fprint",
    "-fprint0",
    "-fls",
    "-used",
    "-ilname",
    "-context",
];

/// Whether the words, read from left to right, come to a deletion that no test before has narrowed down.
pub(super) fn wipes(expression: &[String]) -> bool {
    Reader { rest: expression, wipes: false }.read(false, 0).is_none_or(|reader| reader.wipes)
}

/// An expression being read.
struct Reader<'a> {
    rest: &'a [String],
    wipes: bool,
}

impl Reader<'_> {
    /// Up to its end; `narrowed`: by what stands before it. `None`: nested too deep.
    fn read(mut self, narrowed: bool, depth: usize) -> Option<Self> {
        self.alternatives(narrowed, depth)?;
        Some(self)
    }

    /// Up to a `)` or the end: whether each alternative is narrowed down, so that what follows is too.
    fn alternatives(&mut self, before: bool, depth: usize) -> Option<bool> {
        let (mut all, mut narrowed, mut negated) = (true, before, false);
        while let Some((word, rest)) = self.rest.split_first() {
            self.rest = rest;
            match word.as_str() {
                ")" => break,
                "-o" | "-or" | "," => {
                    all &= narrowed;
                    narrowed = before;
                }
                "!" | "-not" => {
                    negated = !negated;
                    continue;
                }
                "(" if depth >= DEPTH => return None,
                "(" => narrowed |= self.alternatives(narrowed, depth + 1)? && !negated,
                primary => narrowed |= self.primary(primary, narrowed) && !negated,
            }
            negated = false;
        }
        Some(all && narrowed)
    }

    /// A test or an action: whether it narrows down.
    fn primary(&mut self, primary: &str, narrowed: bool) -> bool {
        match primary {
            "-delete" => self.wipes |= !narrowed,
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                let end = self.rest.iter().position(|word| word == ";" || word == "+");
                let (command, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
                self.rest = rest;
                self.wipes |= !narrowed && command.iter().any(|word| removes(word));
            }
            "-empty" | "-nouser" | "-nogroup" => return true,
            "-perm" => {
                return self
                    .argument()
                    .is_some_and(|mode| mode.contains(|c| matches!(c, '1'..='9' | 'a'..='z')));
            }
            test if NARROWING.contains(&test) || test.starts_with("-newer") => {
                return self.argument().is_some_and(|argument| !fits_all(argument));
            }
            other if WITH_ARGUMENT.contains(&other) => drop(self.argument()),
            _ => {}
        }
        false
    }

    fn argument(&mut self) -> Option<&str> {
        let (argument, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(argument)
    }
}

fn removes(word: &str) -> bool {
    word == "rm" || word.ends_with("/rm") || word.contains("rm ")
}

/// `*`, `?*`, `*.*`, `./*`, `.*` as an expression; and `+0`: more than none.
fn fits_all(argument: &str) -> bool {
    let is_pattern = argument.contains('*') && argument.chars().all(|c| matches!(c, '*' | '?' | '.' | '/'));
    is_pattern || argument.starts_with("+0")
}
