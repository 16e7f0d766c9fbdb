//! Lines of bounded length, from a stream of bytes.
use std::io::{self, BufRead};

/// How much of a line too long is kept, to see whose it was.
const BEGINNING: usize = 4 << 10;

/// One line of input, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Within the limit.
    Whole(&'a [u8]),
    /// Longer than the limit: its beginning. The rest was skipped without being held.
    TooLong(&'a [u8]),
}

/// Reads lines ended by `\n`; a last line without one counts.
pub struct Lines<R> {
    input: R,
    limit: usize,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// `limit` in bytes, the newline not counted.
    pub fn new(input: R, limit: usize) -> Self {
        Self { input, limit, line: Vec::new() }
    }

    /// The next line; `None` at the end of input.
    ///
    /// # Errors
    /// Those of the input.
    pub fn read(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        self.line.shrink_to(BEGINNING.max(64 << 10)); // one big prompt must not stay for ever
        let (mut too_long, mut anything) = (false, false);
        loop {
            let piece = match self.input.fill_buf() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if piece.is_empty() {
                return Ok(anything.then(|| self.done(too_long)));
            }
            anything = true;
            let end = piece.iter().position(|b| *b == b'\n');
            let part = piece.get(..end.unwrap_or(piece.len())).unwrap_or(piece);
            too_long |= self.line.len() + part.len() > self.limit;
            let room = if too_long { BEGINNING.saturating_sub(self.line.len()) } else { part.len() };
            self.line.extend_from_slice(part.get(..room).unwrap_or(part));
            if too_long {
                self.line.truncate(BEGINNING);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(self.done(too_long)));
            }
        }
    }

    fn done(&self, too_long: bool) -> Line<'_> {
        if too_long { Line::TooLong(&self.line) } else { Line::Whole(&self.line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    fn read(input: &[u8], chunk: usize, limit: usize) -> Vec<(bool, String)> {
        let mut lines = Lines::new(BufReader::with_capacity(chunk, input), limit);
        let mut all = Vec::new();
        while let Some(line) = lines.read().unwrap() {
            let (whole, bytes) = match line {
                Line::Whole(bytes) => (true, bytes),
                Line::TooLong(bytes) => (false, bytes),
            };
            all.push((whole, String::from_utf8_lossy(bytes).into_owned()));
        }
        all
    }

    #[test]
    fn however_the_bytes_come() {
        for chunk in 1..12 {
            let lines = read(b"ab\n\nlonger\ncd\r\nend", chunk, 4);
            let whole = |text: &str| (true, text.to_string());
            assert_eq!(
                lines,
                [whole("ab"), whole(""), (false, "longer".into()), whole("cd\r"), whole("end")],
                "{chunk}"
            );
        }
    }

    #[test]
    fn a_line_too_long_is_not_held() {
        let mut input = vec![b'x'; 1 << 20];
        input.extend_from_slice(b"\nok\n");
        let lines = read(&input, 512, 64 << 10);
        assert_eq!(lines[0], (false, "x".repeat(BEGINNING)));
        assert_eq!(lines[1], (true, "ok".into()));
    }
}
