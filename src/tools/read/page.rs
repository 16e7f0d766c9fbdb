//! Some lines of a text of any size, in constant memory.
use crate::cancel::{CancelToken, Cancelled};
use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, BufRead, Read};

/// Longest line shown, in bytes; the rest is counted.
const LINE_BYTES: usize = 4 << 10;

/// Longest page, in bytes.
const PAGE_BYTES: usize = 50 << 10;

/// What a text has to show.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Numbered lines, and notes about them.
    Page(String),
    /// No text: among the lines asked for is one with a NUL.
    Binary,
    /// Not a byte.
    Empty,
    /// Fewer lines than were asked to be skipped.
    PastTheEnd {
        /// As many as there are.
        lines: u64,
    },
}

/// Why there is no page.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The token was cancelled.
    Cancelled,
    /// Reading failed.
    Failed(io::Error),
}

impl From<Cancelled> for Stopped {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// `count` lines from the `first` (from 1), numbered.
pub(super) fn page(
    mut reader: impl BufRead,
    first: u64,
    count: u64,
    cancel: &CancelToken,
) -> Result<Shown, Stopped> {
    let mut page = Page::default();
    let mut line = Vec::with_capacity(LINE_BYTES);
    let mut number = 0;
    let end = first.saturating_add(count);
    while number + 1 < end && next_line(&mut reader, &mut line)? {
        number += 1;
        if number >= first && line.contains(&0) {
            return Ok(Shown::Binary);
        }
        let beyond = if line.ends_with(b"\n") { 0 } else { skip_line(&mut reader, cancel)? };
        if number >= first && !page.push(number, &line, beyond) {
            return Ok(page.finish(number, "the page is full"));
        }
        cancel.check()?;
    }
    match number {
        0 => Ok(Shown::Empty),
        lines if lines < first => Ok(Shown::PastTheEnd { lines }),
        last if reader.fill_buf()?.is_empty() => Ok(page.finish(last + 1, "")),
        last => Ok(page.finish(last + 1, "the file goes on")),
    }
}

/// The next line, its end included, or the beginning of a long one; false at the end of the text.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    Ok(reader.by_ref().take(LINE_BYTES as u64).read_until(b'\n', line)? > 0)
}

/// Reads to the end of the line; how many bytes that were, its end not counted.
fn skip_line(reader: &mut impl BufRead, cancel: &CancelToken) -> Result<u64, Stopped> {
    const PIECE: u64 = 64 << 10;
    let (mut piece, mut skipped) = (Vec::new(), 0);
    loop {
        cancel.check()?;
        piece.clear();
        skipped += reader.by_ref().take(PIECE).read_until(b'\n', &mut piece)? as u64;
        if piece.ends_with(b"\n") {
            return Ok(skipped - 1);
        }
        if piece.is_empty() {
            return Ok(skipped);
        }
    }
}

#[derive(Default)]
struct Page {
    text: String,
    has_crlf: bool,
    is_lossy: bool,
}

impl Page {
    /// Adds a line of which `beyond` bytes were not read into `line`; false if there is no room for it.
    fn push(&mut self, number: u64, line: &[u8], beyond: u64) -> bool {
        let mut line = line.strip_suffix(b"\n").unwrap_or(line);
        if let Some(shorter) = line.strip_suffix(b"\r") {
            (line, self.has_crlf) = (shorter, true);
        }
        if number == 1 {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        let whole = if beyond > 0 { without_torn_character(line) } else { line };
        let cut = beyond + (line.len() - whole.len()) as u64;
        let shown = String::from_utf8_lossy(whole);
        if !self.text.is_empty() && self.text.len() + shown.len() > PAGE_BYTES {
            return false;
        }
        self.is_lossy |= matches!(shown, Cow::Owned(_));
        // Writing to a string can't fail.
        let _ = match cut {
            0 => writeln!(self.text, "{number}\t{shown}"),
            _ => writeln!(self.text, "{number}\t{shown}… [line cut: {cut} more bytes]"),
        };
        true
    }

    /// With the notes; `why` it ends before line `next`, if the text goes on.
    fn finish(mut self, next: u64, why: &str) -> Shown {
        if self.is_lossy {
            self.text.push_str("[not UTF-8: bytes that are no text are shown as \u{fffd}]\n");
        }
        if self.has_crlf {
            self.text.push_str("[lines end with CRLF]\n");
        }
        if !why.is_empty() {
            let _ = writeln!(self.text, "[{why}: offset={next} reads on]");
        }
        Shown::Page(self.text)
    }
}

/// Without the beginning of a UTF-8 character whose end was cut off.
fn without_torn_character(line: &[u8]) -> &[u8] {
    let tail = line.iter().rev().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    let lead = line.len() - tail;
    match line.get(..lead).and_then(<[u8]>::last) {
        Some(0xc0..) if std::str::from_utf8(&line[lead - 1..]).is_err() => &line[..lead - 1],
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelSource;
    use std::io::BufReader;

    fn shown(text: &[u8], first: u64, count: u64) -> Shown {
        page(text, first, count, &CancelSource::new().token()).unwrap()
    }

    fn text(bytes: &[u8], first: u64, count: u64) -> String {
        match shown(bytes, first, count) {
            Shown::Page(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_are_numbered_from_the_first_asked_for() {
        assert_eq!(text(b"a\nb\nc\n", 1, 9), "1\ta\n2\tb\n3\tc\n");
        assert_eq!(text(b"a\nb\nc", 3, 9), "3\tc\n");
        assert_eq!(text(b"a\nb\nc\n", 2, 1), "2\tb\n[the file goes on: offset=3 reads on]\n");
        assert_eq!(text(b"a\nb\n", 1, 2), "1\ta\n2\tb\n");
        assert_eq!(text(b"\n\n", 1, u64::MAX), "1\t\n2\t\n");
    }

    #[test]
    fn what_is_not_there_is_said() {
        assert_eq!(shown(b"", 1, 9), Shown::Empty);
        assert_eq!(shown(b"a\nb\n", 3, 9), Shown::PastTheEnd { lines: 2 });
        assert_eq!(shown(b"a\nb", 3, 9), Shown::PastTheEnd { lines: 2 });
        assert_eq!(shown(b"a\nb\0\n", 1, 9), Shown::Binary);
        assert_eq!(text(b"a\nb\0\n", 1, 1), "1\ta\n[the file goes on: offset=2 reads on]\n");
    }

    #[test]
    fn encodings_are_noted() {
        assert_eq!(text(b"\xef\xbb\xbfa\r\nb\n", 1, 9), "1\ta\n2\tb\n[lines end with CRLF]\n");
        let latin = text(b"caf\xe9\n", 1, 9);
        assert_eq!(latin, "1\tcaf\u{fffd}\n[not UTF-8: bytes that are no text are shown as \u{fffd}]\n");
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for (line, kept) in [("x".repeat(5000), 4096), ("é".repeat(2500), 4096), ("aé€".repeat(1000), 4096)]
        {
            let got = text(format!("{line}\nnext\n").as_bytes(), 1, 9);
            let (first, second) = got.split_once('\n').unwrap();
            let (head, note) = first.strip_prefix("1\t").unwrap().split_once("… ").unwrap();
            assert!(line.starts_with(head) && head.len() <= kept && head.len() > kept - 4);
            assert_eq!(note, format!("[line cut: {} more bytes]", line.len() - head.len()));
            assert_eq!(second, "2\tnext\n");
        }
    }

    #[test]
    fn a_full_page_says_where_to_go_on() {
        let line = "x".repeat(999) + "\n";
        let got = text(line.repeat(200).as_bytes(), 1, 200);
        assert!(got.len() < PAGE_BYTES + 2000 && got.len() > PAGE_BYTES - 2000);
        let next = got.matches('\t').count() + 1;
        assert!(got.ends_with(&format!("[the page is full: offset={next} reads on]\n")), "{}", got.len());
        assert!(text(line.repeat(200).as_bytes(), next as u64, 1).starts_with(&format!("{next}\t")));
    }

    #[test]
    fn a_line_of_200_mb_is_counted_not_held() {
        let line = io::repeat(b'x').take(200_000_000).chain(&b"\nend\n"[..]);
        let got = page(BufReader::with_capacity(64 << 10, line), 1, 9, &CancelSource::new().token()).unwrap();
        let Shown::Page(got) = got else { panic!("{got:?}") };
        assert!(got.ends_with("… [line cut: 199995904 more bytes]\n2\tend\n"), "{}", got.len());
    }

    #[test]
    fn an_endless_line_ends_on_cancel() {
        let source = CancelSource::new();
        source.cancel();
        let endless = BufReader::new(io::repeat(b'x'));
        assert!(matches!(page(endless, 2, 1, &source.token()), Err(Stopped::Cancelled)));
    }
}
