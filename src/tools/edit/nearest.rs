//! What a file has instead of the text that was looked for.
use crate::text;
use std::fmt::Write;

/// Lines shown, and the longest of them in characters.
const SHOWN_LINES: usize = 8;
const SHOWN_CHARACTERS: usize = 200;

/// Bytes of a line that are compared.
const COMPARED: usize = 300;

/// That `old` is not in `file`, and the lines that come nearest.
pub(super) fn missing(file: &[u8], old: &str) -> String {
    let mut said = "old_string matches 0 times".to_owned();
    let Some((first, lines)) = nearest(file, old) else {
        said.push_str(", and no line of the file is like it. Read it again");
        return said;
    };
    said.push_str(". The nearest lines:\n");
    for (at, line) in lines.iter().enumerate() {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end();
        // Writing to a string can't fail.
        let _ = match line.char_indices().nth(SHOWN_CHARACTERS) {
            Some((end, _)) => writeln!(said, "{}\t{}…", first + at, text::head(line, end)),
            None => writeln!(said, "{}\t{line}", first + at),
        };
    }
    said
}

/// The lines around the one that is most like the longest line of `old`, and the number of the first.
fn nearest<'a>(file: &'a [u8], old: &str) -> Option<(usize, Vec<&'a [u8]>)> {
    let wanted: Vec<&[u8]> = old.lines().map(|line| compared(line.as_bytes())).collect();
    // Where several are equally long: the first.
    let (anchor, longest) = wanted.iter().enumerate().rev().max_by_key(|(_, line)| line.len())?;
    let (mut best, mut score) = (0, 0);
    for (at, line) in file.split(|byte| *byte == b'\n').enumerate() {
        let likeness = likeness(compared(line), longest);
        if likeness > score {
            (best, score) = (at, likeness);
        }
    }
    if score == 0 || score * 2 < longest.len() {
        return None;
    }
    let first = best.saturating_sub(anchor.min(SHOWN_LINES / 2));
    let lines = file.split(|byte| *byte == b'\n').skip(first).take(wanted.len().min(SHOWN_LINES)).collect();
    Some((first + 1, lines))
}

/// Without indentation, and not all of a long line.
fn compared(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    &line[..line.len().min(COMPARED)]
}

/// How many bytes two lines share at their beginnings and ends, less what the longer one has more.
fn likeness(a: &[u8], b: &[u8]) -> usize {
    let head = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[head..], &b[head..]);
    let tail = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    (head + tail).saturating_sub(a.len().saturating_sub(b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(file: &str, old: &str, expected: &str) {
        assert_eq!(missing(file.as_bytes(), old), format!("old_string matches 0 times{expected}"));
    }

    #[test]
    fn the_nearest_lines_are_shown() {
        let file = "fn main() {\n    let count = 1;\n    run(count);\n}\n";
        check(file, "let count = 2;", ". The nearest lines:\n2\t    let count = 1;\n");
        check(
            file,
            "let count = 1;\n  run(count);",
            ". The nearest lines:\n2\t    let count = 1;\n3\t    run(count);\n",
        );
        check(
            file,
            "fn main() {\nlet count = 1;",
            ". The nearest lines:\n1\tfn main() {\n2\t    let count = 1;\n",
        );
    }

    #[test]
    fn nothing_alike_shows_nothing() {
        check("alpha\nbeta\n", "completely different", ", and no line of the file is like it. Read it again");
        check("", "x", ", and no line of the file is like it. Read it again");
        check("alpha", "\n", ", and no line of the file is like it. Read it again");
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let file = format!("{}\n", "x".repeat(10_000)).repeat(50);
        let said = missing(file.as_bytes(), &"xxxx\n".repeat(60));
        assert!(said.len() < 2_500, "{}", said.len());
    }
}
