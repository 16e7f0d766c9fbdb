//! What is kept of an output: cleaned, its head and its tail, the rest counted. Memory is bounded and time linear
//! whatever comes.
use std::mem;

/// Head of the output as the client sees it, in characters.
pub const CLIENT_HEAD: usize = 4_000;
/// Tail of the output as the client sees it, in characters.
pub const CLIENT_TAIL: usize = 12_000;

/// Head and tail of a text, whose middle may be left out.
#[derive(Clone, Debug)]
pub struct Capped {
    head_limit: usize,
    tail_limit: usize,
    head: String,
    head_characters: usize,
    /// Up to twice its limit and a piece: cut only now and then, so that a character costs no more than its copy.
    tail: String,
    tail_characters: usize,
    characters: u64,
}

impl Capped {
    /// Keeps the first `head` and the last `tail` characters.
    pub fn new(head: usize, tail: usize) -> Self {
        Self {
            head_limit: head,
            tail_limit: tail,
            head: String::new(),
            head_characters: 0,
            tail: String::new(),
            tail_characters: 0,
            characters: 0,
        }
    }

    /// More of the text.
    pub fn push_str(&mut self, text: &str) {
        let count = text.chars().count();
        self.characters += count as u64;
        let to_head = count.min(self.head_limit - self.head_characters);
        let (head, rest) = split_at_character(text, to_head);
        self.head.push_str(head);
        self.head_characters += to_head;
        self.tail.push_str(rest);
        self.tail_characters += count - to_head;
        if self.tail_characters > 2 * self.tail_limit {
            self.cut_tail();
        }
    }

    fn cut_tail(&mut self) {
        let excess = self.tail_characters.saturating_sub(self.tail_limit);
        let bytes = split_at_character(&self.tail, excess).0.len();
        self.tail.drain(..bytes);
        self.tail_characters -= excess;
    }

    /// Takes the last character back, unless it was left out.
    fn pop(&mut self) {
        if self.tail.pop().is_some() {
            self.tail_characters -= 1;
        } else if self.left_out() == 0 && self.head.pop().is_some() {
            self.head_characters -= 1;
        } else {
            return;
        }
        self.characters -= 1;
    }

    /// As if what `other` was given were pushed; the limits of both must be the same.
    fn append(&mut self, other: &Self) {
        self.push_str(&other.head);
        let gap = other.left_out();
        if gap > 0 {
            // Its head has filled ours, and its tail is about to fill ours too.
            self.characters += gap;
            self.tail.clear();
            self.tail_characters = 0;
        }
        self.push_str(&other.tail);
    }

    fn clear(&mut self) {
        self.head.clear();
        self.tail.clear();
        (self.head_characters, self.tail_characters, self.characters) = (0, 0, 0);
    }

    /// Characters that are in neither part.
    fn left_out(&self) -> u64 {
        self.characters - (self.head_characters + self.tail_characters) as u64
    }

    /// The text, or its first `head` and last `tail` characters with a line between that counts what is left out.
    /// More than is kept can't be asked for.
    pub fn view(&self, head: usize, tail: usize) -> String {
        if self.left_out() == 0 && self.characters <= (head + tail) as u64 {
            return format!("{}{}", self.head, self.tail);
        }
        let head = head.min(self.head_characters);
        let last = tail.min(self.tail_characters);
        // If all was kept, the last characters may begin in the head.
        let before = if self.left_out() == 0 { tail - last } else { 0 };
        let left_out = self.characters - (head + before + last) as u64;
        let (first, _) = split_at_character(&self.head, head);
        let (_, before) = split_at_character(&self.head, self.head_characters - before);
        let (_, last) = split_at_character(&self.tail, self.tail_characters - last);
        format!("{first}\n[... {left_out} characters elided ...]\n{before}{last}")
    }
}

fn split_at_character(text: &str, characters: usize) -> (&str, &str) {
    let at = text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    text.split_at(at)
}

/// A command's output as it comes, in bytes cut anywhere: decoded, without control sequences and what a carriage
/// return or a backspace overwrote.
#[derive(Debug)]
pub struct Printed {
    /// The beginning of a character whose rest has not come.
    torn: Vec<u8>,
    state: State,
    /// Complete lines.
    lines: Capped,
    /// The last, which may still be overwritten.
    line: Capped,
    /// A carriage return came: what is printed next overwrites the line.
    returned: bool,
}

/// Where in a control sequence (ECMA-48) the text stands.
#[derive(Debug, PartialEq)]
enum State {
    Text,
    /// Behind ESC, and maybe intermediate bytes.
    Escape,
    /// Behind CSI, with its parameters so far (as many as are of interest).
    Csi(String),
    /// In a string (OSC, DCS, …), which ends with BEL, ST or, if neither comes, the line.
    String,
}

impl Printed {
    /// Keeps the first `head` and the last `tail` characters.
    pub fn new(head: usize, tail: usize) -> Self {
        let empty = Capped::new(head, tail);
        Self { torn: Vec::new(), state: State::Text, lines: empty.clone(), line: empty, returned: false }
    }

    /// The next piece.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut joined = mem::take(&mut self.torn);
        let bytes = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        let mut read = 0;
        for chunk in bytes.utf8_chunks() {
            self.push_text(chunk.valid());
            read += chunk.valid().len() + chunk.invalid().len();
            if chunk.invalid().is_empty() {
                continue;
            }
            if read == bytes.len() && may_go_on(chunk.invalid()) {
                self.torn = chunk.invalid().to_vec();
            } else {
                self.push_text("\u{fffd}");
            }
        }
    }

    /// Nothing comes any more: half a character is none.
    pub fn finish(&mut self) {
        if !mem::take(&mut self.torn).is_empty() {
            self.push_text("\u{fffd}");
        }
    }

    /// The first `head` and the last `tail` characters of all that came, see [`Capped::view`].
    pub fn view(&self, head: usize, tail: usize) -> String {
        let mut all = self.lines.clone();
        all.append(&self.line);
        all.view(head, tail)
    }

    fn push_text(&mut self, mut text: &str) {
        while !text.is_empty() {
            let plain = if self.state == State::Text { plain_bytes(text) } else { 0 };
            let (run, rest) = text.split_at(plain);
            self.print(run);
            let mut characters = rest.chars();
            if let Some(character) = characters.next() {
                self.step(character);
            }
            text = characters.as_str();
        }
    }

    /// Text with line feeds and tabs, but no other control character.
    fn print(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if mem::take(&mut self.returned) && !text.starts_with('\n') {
            self.line.clear();
        }
        let complete = text.rfind('\n').map_or(0, |at| at + 1);
        let (lines, line) = text.split_at(complete);
        if !lines.is_empty() {
            self.lines.append(&self.line);
            self.lines.push_str(lines);
            self.line.clear();
        }
        self.line.push_str(line);
    }

    fn step(&mut self, character: char) {
        match mem::replace(&mut self.state, State::Text) {
            State::Text => self.control(character),
            State::Escape => match character {
                '[' => self.state = State::Csi(String::new()),
                ']' | 'P' | 'X' | '^' | '_' => self.state = State::String,
                ' '..='/' => self.state = State::Escape,
                '0'..='~' => {}
                other => self.step_as_text(other),
            },
            State::Csi(mut parameters) => match character {
                ' '..='?' => {
                    if parameters.len() < 4 {
                        parameters.push(character);
                    }
                    self.state = State::Csi(parameters);
                }
                '@'..='~' => self.control_sequence(&parameters, character),
                other => self.step_as_text(other),
            },
            State::String => match character {
                '\u{7}' | '\u{9c}' | '\u{18}' | '\u{1a}' => {}
                '\u{1b}' | '\n' => self.control(character),
                _ => self.state = State::String,
            },
        }
    }

    /// What broke a sequence off counts as if there had been none.
    fn step_as_text(&mut self, character: char) {
        let mut buffer = [0; 4];
        match character {
            '\n' | '\t' => self.print(character.encode_utf8(&mut buffer)),
            c if c.is_control() => self.control(c),
            c => self.print(c.encode_utf8(&mut buffer)),
        }
    }

    /// A control character outside a sequence. Those without an effect on text are dropped.
    fn control(&mut self, character: char) {
        match character {
            '\n' => self.print("\n"),
            '\r' => self.returned = true,
            '\u{8}' => self.line.pop(),
            '\u{1b}' => self.state = State::Escape,
            '\u{9b}' => self.state = State::Csi(String::new()),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.state = State::String,
            _ => {}
        }
    }

    /// Progress bars move to column 1 and erase the line; all else is colour or makes no sense in a text.
    fn control_sequence(&mut self, parameters: &str, last: char) {
        match (last, parameters) {
            ('G', "" | "0" | "1") => self.returned = true,
            ('K', "2") => self.line.clear(),
            ('K', "" | "0") if self.returned => self.line.clear(),
            _ => {}
        }
    }
}

/// Bytes before the first control character other than line feed and tab.
fn plain_bytes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let special = |&b: &u8| (b < b' ' && b != b'\n' && b != b'\t') || b == 0x7f || b == 0xc2;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(special).map(|at| from + at) {
        // U+0080 to U+009F are C2 80 to C2 9F; the rest behind C2 are letters and signs.
        if bytes[at] != 0xc2 || bytes.get(at + 1).is_none_or(|b| *b < 0xa0) {
            return at;
        }
        from = at + 2;
    }
    bytes.len()
}

/// Whether these bytes, which are no character, are the beginning of one.
fn may_go_on(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same whole and in pieces of every size.
    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        for size in 1..=bytes.len().max(1) {
            let mut printed = Printed::new(1000, 1000);
            bytes.chunks(size).for_each(|piece| printed.push(piece));
            printed.finish();
            assert_eq!(printed.view(1000, 1000), expected, "in pieces of {size}: {bytes:?}");
        }
    }

    #[test]
    fn control_sequences_are_dropped() {
        check(b"plain\ttext\n", "plain\ttext\n");
        check(b"\x1b[1;31mred\x1b[0m \x1b[38;2;255;100;0mrgb\x1b[m", "red rgb");
        check(b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink");
        check(b"\x1bPq#0;2~\x1b\\b\x1b(B\x1b=\x1b7c", "bc");
        check(b"bell\x07 nul\0 del\x7f vt\x0b", "bell nul del vt");
        check("c1 \u{9b}31mred\u{9d}title\u{9c}! \u{a0}ä\u{85}".as_bytes(), "c1 red! \u{a0}ä");
        check(b"\x1b", "");
        check(b"\x1b[12", "");
    }

    #[test]
    fn a_broken_sequence_takes_nothing_else_along() {
        check(b"\x1b[3\nnext", "\nnext");
        check("\x1b[3é".as_bytes(), "é");
        check("\x1bé".as_bytes(), "é");
        check(b"\x1b]never ended\nnext", "\nnext");
        check(b"\x1b\x1b[31mred", "red");
        check(b"\x1b[\x1b[31mred", "red");
    }

    #[test]
    fn overwritten_parts_are_dropped() {
        check(b"1%\r50%\r100%\ndone", "100%\ndone");
        check(b"crlf\r\nline\r\r\n", "crlf\nline\n");
        check(b"kept\r", "kept");
        check(b"gone\r\x1b[K", "");
        check(b"gone\x1b[2K\x1b[1Gnew\x1b[K", "new");
        check(b"a\x1b[Kb", "ab");
        check(b"before\n|\x08/\x08-\x08", "before\n");
        check(b"m\x08ma\x08an\x08n _\x08u", "man u");
        check(b"a\n\x08\x08b", "a\nb");
    }

    #[test]
    fn what_is_no_text_is_marked() {
        check(b"a\xffb", "a\u{fffd}b");
        check("añ€😀".as_bytes(), "añ€😀");
        check(b"\xf0\x9f\x98", "\u{fffd}");
        check(b"\xe2\x82\n", "\u{fffd}\n");
        check(b"\xc3\xc3\xa9", "\u{fffd}é");
    }

    #[test]
    fn anything_makes_valid_text_without_controls() {
        let mut random = 1_u64;
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        })
        .take(100_000)
        .collect();
        let mut printed = Printed::new(500, 500);
        bytes.chunks(4096).for_each(|piece| printed.push(piece));
        let text = printed.view(500, 500);
        assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{text:?}");
    }

    #[test]
    fn a_cut_counts_characters_and_tears_none() {
        for text in ["añ€😀".repeat(5), "😀".repeat(20), "x\n".repeat(10)] {
            for (head, tail) in [(0, 0), (3, 4), (7, 0), (0, 7), (9, 9), (10, 10), (30, 30)] {
                for kept in [head.max(tail), 12, 40] {
                    let mut capped = Capped::new(kept, kept);
                    text.split_inclusive('a').for_each(|piece| capped.push_str(piece));
                    assert_eq!(
                        capped.view(head, tail),
                        expected(&text, head, tail),
                        "{head} {tail} of {kept}"
                    );
                }
            }
        }
    }

    fn expected(text: &str, head: usize, tail: usize) -> String {
        let characters: Vec<char> = text.chars().collect();
        if characters.len() <= head + tail {
            return text.to_owned();
        }
        let first: String = characters[..head].iter().collect();
        let last: String = characters[characters.len() - tail..].iter().collect();
        let left_out = characters.len() - head - tail;
        format!("{first}\n[... {left_out} characters elided ...]\n{last}")
    }

    /// The largest a command of this pattern makes it, in bytes.
    #[track_caller]
    fn memory(piece: &[u8], pieces: usize) -> usize {
        let mut printed = Printed::new(4000, 12000);
        let of = |capped: &Capped| capped.head.capacity() + capped.tail.capacity();
        (0..pieces)
            .map(|_| {
                printed.push(piece);
                of(&printed.lines) + of(&printed.line) + printed.torn.capacity()
            })
            .max()
            .unwrap()
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        for pattern in ["y\n", "y", "progress\r", "\x08", "\x1b[", "\x1b]", "é", "0\r1\n"] {
            let piece = pattern.as_bytes().repeat(65536 / pattern.len());
            assert!(memory(&piece, 64) < 1 << 20, "{pattern:?}");
        }
    }

    #[test]
    fn backspaces_behind_a_gap_take_no_more_than_there_is() {
        let mut printed = Printed::new(4, 4);
        printed.push(b"0123456789abcdef");
        printed.push(&[8; 12]);
        printed.push(b"\nx");
        assert!(printed.view(4, 4).starts_with("0123\n[... "), "{}", printed.view(4, 4));
        assert!(printed.view(4, 4).ends_with("]\n\nx"), "{}", printed.view(4, 4));
    }

    #[test]
    fn an_endless_line_is_counted_like_many() {
        let mut printed = Printed::new(10, 10);
        for _ in 0..1000 {
            printed.push(b"0123456789");
        }
        printed.push(b"\nend");
        let expected = "0123456789\n[... 9984 characters elided ...]\n456789\nend";
        assert_eq!(printed.view(10, 10), expected);
    }
}
