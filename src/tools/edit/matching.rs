//! Finding a text in a file's bytes and putting another one in its place.
//!
//! Bytes, not characters: what is outside a match stays as it is, whatever its encoding. A `\n` of the old text
//! matches a `\r\n` too, unless the text has a `\r` of its own; then it is taken as it stands.
use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter, memrchr};
use std::borrow::Cow;
use std::ops::Range;

/// Matches counted at most where only one is wanted.
pub(super) const COUNTED: usize = 100;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Where a text stands in a file, in order.
pub(super) struct Found(Vec<Range<usize>>);

impl Found {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The line of the first, from 1. There is one.
    pub(super) fn first_line(&self, file: &[u8]) -> usize {
        let before = self.0.first().map_or(0, |range| range.start);
        memchr_iter(b'\n', &file[..before]).count() + 1
    }

    /// The line of each, from 1.
    pub(super) fn lines(&self, file: &[u8]) -> Vec<usize> {
        let (mut line, mut at) = (1, 0);
        let mut line_of = |start: usize| {
            line += memchr_iter(b'\n', &file[at..start]).count();
            at = start;
            line
        };
        self.0.iter().map(|range| line_of(range.start)).collect()
    }
}

/// What matches are looked for.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    /// One; where there are more, each may be the one that was meant, also one that overlaps another. Up to
    /// [`COUNTED`].
    One,
    /// To be replaced: those that don't overlap, until there are more than this.
    All(usize),
}

/// The matches of `old`, which is not empty, behind a BOM.
pub(super) fn find(file: &[u8], old: &str, wanted: Wanted) -> Found {
    let (step, most) = match wanted {
        Wanted::One => (1, COUNTED),
        Wanted::All(most) => (old.len(), most + 1),
    };
    let begin = if file.starts_with(BOM) { BOM.len() } else { 0 };
    let text = Unified::new(&file[begin..], takes_any_ending(old));
    let (finder, mut from, mut found) = (Finder::new(old), 0, Vec::new());
    while let Some(start) = finder.find(&text.bytes[from..]).map(|at| from + at) {
        let range = text.original(start)..text.original(start + old.len());
        found.push(begin + range.start..begin + range.end);
        from = start + step;
        if found.len() == most {
            break;
        }
    }
    Found(found)
}

fn takes_any_ending(old: &str) -> bool {
    old.contains('\n') && !old.contains('\r')
}

/// A text with one kind of line ending, and the way back.
struct Unified<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where in `bytes` a `\n` stands that was `\r\n`.
    shortened: Vec<usize>,
}

impl<'a> Unified<'a> {
    fn new(text: &'a [u8], unify: bool) -> Self {
        let mut unified = Self { bytes: Cow::Borrowed(text), shortened: Vec::new() };
        if unify && text.contains(&b'\r') {
            let mut bytes = Vec::with_capacity(text.len());
            for (at, byte) in text.iter().enumerate() {
                match byte {
                    b'\r' if text.get(at + 1) == Some(&b'\n') => unified.shortened.push(bytes.len()),
                    byte => bytes.push(*byte),
                }
            }
            unified.bytes = Cow::Owned(bytes);
        }
        unified
    }

    /// The position in the text as it was.
    fn original(&self, at: usize) -> usize {
        at + self.shortened.partition_point(|shortened| *shortened < at)
    }
}

/// Whether a match follows a byte that may be half of a character of an encoding we don't know: in GBK and the like
/// the second half looks like ASCII.
pub(super) fn touches_half_a_character(file: &[u8], found: &Found) -> bool {
    found
        .0
        .iter()
        .any(|range| range.start > 0 && !file[range.start - 1].is_ascii() && file[range.start] >= b'0')
}

/// The file with `new` in place of each match of `old`.
pub(super) fn spliced(file: &[u8], found: &Found, old: &str, new: &str) -> Vec<u8> {
    let mut result = Vec::with_capacity(file.len() + new.len());
    let mut endings = Endings { file, line_end: 0, crlf: false };
    let lines = Alignment::new(old, new);
    let mut from = 0;
    for range in &found.0 {
        result.extend_from_slice(&file[from..range.start]);
        if old.contains('\r') || !new.contains('\n') {
            result.extend_from_slice(new.as_bytes());
        } else {
            let around = endings.has_crlf(range.end);
            fit(&mut result, &lines, new, &file[range.clone()], around);
        }
        from = range.end;
    }
    result.extend_from_slice(&file[from..]);
    result
}

/// The ending of the line that holds a position; positions come in order, so that each line is looked at once.
struct Endings<'a> {
    file: &'a [u8],
    line_end: usize,
    crlf: bool,
}

impl Endings<'_> {
    fn has_crlf(&mut self, at: usize) -> bool {
        if self.line_end < at {
            let end = memchr(b'\n', &self.file[at..]).map(|rest| at + rest);
            self.line_end = end.unwrap_or(self.file.len());
            // The last line, when it has no end, follows the one before.
            let end = end.or_else(|| memrchr(b'\n', self.file));
            self.crlf = end.is_some_and(|end| end > 0 && self.file[end - 1] == b'\r');
        }
        self.crlf
    }
}

/// Adds `new`, each line ended as the line of the match that it stands for; `around` if that has no ending.
fn fit(result: &mut Vec<u8>, lines: &Alignment, new: &str, matched: &[u8], around: bool) {
    let crlf: Vec<bool> = memchr_iter(b'\n', matched).map(|at| at > 0 && matched[at - 1] == b'\r').collect();
    for (at, line) in new.split_inclusive('\n').enumerate() {
        let Some(text) = line.strip_suffix('\n') else { return result.extend_from_slice(line.as_bytes()) };
        result.extend_from_slice(text.as_bytes());
        let crlf = lines.old_line(at).and_then(|at| crlf.get(at)).copied().unwrap_or(around);
        if crlf && !text.ends_with('\r') {
            result.push(b'\r');
        }
        result.push(b'\n');
    }
}

/// Which line of the old text a line of the new one stands for. Only lines with an end count.
struct Alignment {
    old: usize,
    new: usize,
    /// Equal lines at the beginning and at the end.
    head: usize,
    tail: usize,
}

impl Alignment {
    fn new(old: &str, new: &str) -> Self {
        let whole =
            |text| -> Vec<&str> { str::split_inclusive(text, '\n').filter(|l| l.ends_with('\n')).collect() };
        let (old, new) = (whole(old), whole(new));
        let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
        let rest = old[head..].iter().rev().zip(new[head..].iter().rev());
        let tail = rest.take_while(|(old, new)| old == new).count();
        Self { old: old.len(), new: new.len(), head, tail }
    }

    /// A changed line stands for the one at its place, an added one for the last of the changed ones.
    fn old_line(&self, at: usize) -> Option<usize> {
        if at >= self.new - self.tail {
            return Some(self.old - (self.new - at));
        }
        let last_changed = (self.old - self.tail).max(self.head + 1).min(self.old).checked_sub(1)?;
        Some(at.min(last_changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Wanted = Wanted::All(1000);

    #[track_caller]
    fn check(file: &[u8], old: &str, new: &str, expected: &[u8]) {
        for wanted in [Wanted::One, ALL] {
            let found = find(file, old, wanted);
            assert_eq!(found.len(), 1, "matches");
            let got = spliced(file, &found, old, new);
            assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(expected));
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn each_line_keeps_its_ending() {
        check(b"a\r\nb\r\nc\r\n", "b", "x", b"a\r\nx\r\nc\r\n");
        check(b"a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\n", b"a\r\nx\r\nc\r\n");
        check(b"a\r\nb\r\nc\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\nc\r\n");
        check(b"a\r\nb\nc\r\nd\n", "a\nb\nc\n", "x\ny\nz\n", b"x\r\ny\nz\r\nd\n");
        check(b"a\r\nb\nc\r\nd\n", "a\nb\nc\n", "a\nnew\nb\nc\n", b"a\r\nnew\nb\nc\r\nd\n");
        check(b"a\nb\r\nc\nd\n", "b\nc", "b\nx\ny\nc", b"a\nb\r\nx\r\ny\r\nc\nd\n");
        check(b"a\r\nb\nc\r\n", "a\nb\nc\n", "a\nc\n", b"a\r\nc\r\n");
        check(b"a\r\nb", "b", "x\ny\n", b"a\r\nx\r\ny\r\n");
        check(b"a\nb\n", "a", "x\ny", b"x\ny\nb\n");
        check(b"a", "a", "x\ny", b"x\ny");
        check(b"a\r\nb\r\n", "\nb", "\nx", b"a\r\nx\r\n");
        check(b"a\r\nb\r\n", "a\n", "", b"b\r\n");
    }

    #[test]
    fn a_text_with_a_cr_of_its_own_is_taken_as_it_stands() {
        check(b"a\r\nb\r\n", "a\r\nb", "x\ny", b"x\ny\r\n");
        check(b"a\r\nb\n", "a\r\n", "a\n", b"a\nb\n");
        check(b"a\r\nb\r\n", "a", "x\r\ny", b"x\r\ny\r\nb\r\n");
        assert_eq!(find(b"a\nb\n", "a\r\nb", Wanted::One).len(), 0);
        assert_eq!(find(b"a\r\r\nb", "a\nb", Wanted::One).len(), 0);
    }

    #[test]
    fn every_byte_outside_the_match_stays() {
        check(b"\xef\xbb\xbfone two", "one", "1", b"\xef\xbb\xbf1 two");
        check(b"caf\xe9 one \xff\0", "one", "two", b"caf\xe9 two \xff\0");
        check(b"no newline", "newline", "end", b"no end");
        check(b"price", "price", r"$1 \0 $& \\", br"$1 \0 $& \\");
    }

    #[test]
    fn overlapping_matches_count() {
        assert_eq!(find(b"aaa", "aa", Wanted::One).len(), 2);
        assert_eq!(find(b"aaaa", "aa", ALL).len(), 2);
        let many = find(&b"a\n".repeat(500), "a", Wanted::One);
        assert_eq!((many.len(), many.lines(&b"a\n".repeat(500))[99]), (COUNTED, 100));
        assert_eq!(find(&b"a\n".repeat(500), "a", ALL).len(), 500);
        assert_eq!(find(&b"a\n".repeat(500), "a", Wanted::All(99)).len(), 100);
    }

    #[test]
    fn lines_are_those_of_the_file() {
        assert_eq!(find(b"x\r\n\r\nx\r\nx", "x", ALL).lines(b"x\r\n\r\nx\r\nx"), [1, 3, 4]);
    }

    #[test]
    fn all_matches_are_replaced_each_with_the_ending_there() {
        let file = b"f(\r\n)\nf(\n)\r\nf(\n)";
        let found = find(file, "f(\n)", ALL);
        assert_eq!(found.len(), 3);
        assert_eq!(spliced(file, &found, "f(\n)", "g(\n)"), b"g(\r\n)\ng(\n)\r\ng(\n)");
        let found = find(b"x\r\nx\nx", "x", ALL);
        assert_eq!(spliced(b"x\r\nx\nx", &found, "x", "a\nb"), b"a\r\nb\r\na\nb\na\nb");
    }

    #[test]
    fn half_a_character_is_not_matched() {
        let gbk = b"\xc4\x61 a"; // one character whose second half is an `a`, then an `a`
        assert!(touches_half_a_character(gbk, &find(gbk, "a", ALL)));
        assert!(!touches_half_a_character(gbk, &find(gbk, " a", ALL)));
    }
}
