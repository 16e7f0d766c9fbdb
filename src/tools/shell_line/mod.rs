//! What a command line would do, judged on the line as the shell reads it.
mod expand;
mod find;
mod floor;
mod options;
mod parse;
mod path;
mod word;

pub use floor::floor;
pub use parse::LONGEST_LINE;
use parse::{Node, Operator, Piece, Script};

/// Whether the line is one simple command: no separator, no second line, no substitution, no redirection, nothing
/// that runs in the background or in a subshell, no unclosed quote. What an allow rule for `bash` may fit.
pub fn is_single_command(line: &str) -> bool {
    let Ok(Script { list, documents, plain }) = parse::parse(line.trim()) else { return false };
    let [item] = list.as_slice() else { return false };
    let Node::Simple(command) = &item.node else { return false };
    plain
        && documents.is_empty()
        && command.redirections.is_empty()
        && command.words.iter().flatten().all(is_plain)
}

/// Text, or the value of a variable and nothing else: even arithmetic can run a command (`a[$(…)]`).
fn is_plain(piece: &Piece) -> bool {
    match piece {
        Piece::Text(_) | Piece::Quoted(_) => true,
        Piece::Variable { operator, .. } => *operator == Operator::None,
        Piece::Commands(_) | Piece::Words(_) | Piece::Array(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_is_single() {
        for line in [
            "git status",
            " git status\n",
            "git commit -m 'a; b && c | d > e $(f) `g`'",
            "git commit -m \"one\n\ntwo; three > four\"",
            "echo a\\;b \\> c \\$x",
            "echo $HOME \"${HOME}\" ~ *.rs {a,b}",
            "FOO=bar make test",
            "grep -E '^(a|b)$' file",
            "echo $'it\\'s; fine'",
            "ls \\\n -l",
            "echo a#b '#c'",
        ] {
            assert!(is_single_command(line), "{line}");
        }
    }

    #[test]
    fn anything_more_is_not() {
        for line in [
            "",
            "git status; rm -rf x",
            "git status;",
            "git status && x",
            "git status || x",
            "git status | sh",
            "git status |& sh",
            "git status &",
            "git status\nrm x",
            "git status\n\nrm x",
            "git status $(rm x)",
            "git status \"$(rm x)\"",
            "git status `rm x`",
            "git status \"`rm x`\"",
            "git status > f",
            "git status >> f",
            "git status 2>&1",
            "git status &> f",
            "git status < f",
            "git status << E\nx\nE",
            "git status <<< x",
            "git status <(rm x)",
            "git status >(rm x)",
            "(git status)",
            "{ git status; }",
            "! git status",
            "if git status",
            "while git status",
            "git() { rm x; }",
            "function git { rm x; }",
            "git status # comment",
            "git status 'unclosed",
            "git status \"unclosed",
            "git status $(unclosed",
            "git status ${x:-$(rm x)}",
            "git status ${PWD@P}",
            "git status $((a[$(rm x)]))",
            "git status $((x))",
            "git status $[x]",
            "x=(a b)",
            "git status\r\n rm x",
            "case x in",
            "coproc git status",
            "[[ a < b ]] && x",
            "git status )",
            "git status \\",
        ] {
            assert!(!is_single_command(line), "{line}");
        }
    }
}
