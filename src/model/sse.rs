//! Server-sent events, decoded as they come: <https://html.spec.whatwg.org/multipage/server-sent-events.html>.
//!
//! Two things go beyond the standard, because servers do them: an event that the stream ends in counts without
//! its blank line, and a field `error` is an event of type `error` with that value.

use std::borrow::Cow;

/// Longest line, and longest data of one event, in bytes.
pub(super) const EVENT_LIMIT: usize = 16 << 20;

/// A byte order mark.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// One event; its data lines are joined by newlines, bad UTF-8 is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event<'a> {
    /// Empty where the stream names none.
    pub(super) kind: &'a str,
    pub(super) data: &'a str,
}

/// A line or an event was longer than [`EVENT_LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Takes bytes in any pieces, gives events.
#[derive(Default)]
pub(super) struct Decoder {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// Each data line with a newline behind it.
    data: Vec<u8>,
    kind: Vec<u8>,
    past_first_line: bool,
    /// A CR ended the last line: an LF that follows belongs to it.
    after_cr: bool,
}

impl Decoder {
    /// Takes the next bytes and hands on each event that they complete.
    ///
    /// # Errors
    /// [`TooLong`], or what `sink` returns.
    pub(super) fn push<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return Ok(extend(&mut self.line, bytes)?);
            };
            self.after_cr = bytes[end] == b'\r';
            self.end_line(&bytes[..end], sink)?;
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// The stream has ended: what came of a last event counts.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(super) fn finish<E: From<TooLong>>(
        &mut self,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.end_line(b"", sink)?;
        self.dispatch(sink)
    }

    /// A line is whole; `end` is what the last bytes gave of it.
    fn end_line<E: From<TooLong>>(
        &mut self,
        end: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.line.is_empty() {
            return self.field(end, sink);
        }
        extend(&mut self.line, end)?;
        let mut line = std::mem::take(&mut self.line);
        let result = self.field(&line, sink);
        line.clear();
        self.line = line; // its room is used again
        result
    }

    fn field<E: From<TooLong>>(
        &mut self,
        mut line: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if !std::mem::replace(&mut self.past_first_line, true) {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(sink);
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => self.data_line(value)?,
            b"event" => value.clone_into(&mut self.kind),
            b"error" => {
                b"error".as_slice().clone_into(&mut self.kind);
                self.data_line(value)?;
            }
            _ => {} // comments (no name), id, retry, unknown
        }
        Ok(())
    }

    fn data_line(&mut self, value: &[u8]) -> Result<(), TooLong> {
        extend(&mut self.data, value)?;
        self.data.push(b'\n');
        Ok(())
    }

    /// A blank line: the event is whole. Without data it is none.
    fn dispatch<E>(&mut self, sink: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        let result = match self.data.split_last() {
            None => Ok(()),
            Some((_newline, data)) => sink(Event { kind: &text(&self.kind), data: &text(data) }),
        };
        self.data.clear();
        self.kind.clear();
        result
    }
}

/// Nearly always valid, and checking is quicker than replacing.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

fn extend(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TooLong> {
    if buffer.len() + bytes.len() > EVENT_LIMIT {
        return Err(TooLong);
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a stream that comes in these pieces, as `kind=data`.
    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<String>, TooLong> {
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        let mut sink = |event: Event<'_>| {
            events.push(format!("{}={}", event.kind, event.data));
            Ok::<(), TooLong>(())
        };
        for piece in pieces {
            decoder.push(piece, &mut sink)?;
        }
        decoder.finish(&mut sink)?;
        Ok(events)
    }

    #[track_caller]
    fn check(stream: &str, expected: &[&str]) {
        let stream = stream.as_bytes();
        assert_eq!(events([stream]).unwrap(), expected, "whole");
        assert_eq!(events(stream.chunks(1)).unwrap(), expected, "byte by byte");
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            assert_eq!(events([a, b]).unwrap(), expected, "cut at {cut}");
        }
    }

    #[test]
    fn line_ends_of_every_kind() {
        check("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\r\n\n", &["=a", "=b", "=c", "=d"]);
    }

    #[test]
    fn one_blank_after_the_colon_is_not_data() {
        check("data:a\n\ndata:  b\n\ndata\n\ndata:\n\n", &["=a", "= b", "=", "="]);
    }

    #[test]
    fn several_data_lines_are_one_event() {
        check("data: {\ndata: }\ndata:\n\n", &["={\n}\n"]);
    }

    #[test]
    fn comments_and_other_fields_are_nothing() {
        check(": ping\n\n:\n\nid: 1\nretry: 5\nevent: x\n\nnonsense\n\ndata: a\n\n", &["=a"]);
    }

    #[test]
    fn a_kind_holds_for_one_event() {
        check("event: ping\ndata: 1\n\ndata: 2\n\nevent: lost\n\ndata: 3\n\n", &["ping=1", "=2", "=3"]);
    }

    #[test]
    fn an_error_field_is_an_error_event() {
        check("error: {\"message\":\"no\"}\n\n", &["error={\"message\":\"no\"}"]);
    }

    #[test]
    fn the_last_event_needs_no_blank_line() {
        check("data: a\n\ndata: b", &["=a", "=b"]);
        check("data: a\n\ndata: b\n", &["=a", "=b"]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_at_the_start_only() {
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["=a"]);
    }

    #[test]
    fn characters_are_whole_wherever_they_are_cut() {
        check("data: naïve 日本 🦀\n\n", &["=naïve 日本 🦀"]);
    }

    #[test]
    fn bad_utf8_is_replaced() {
        assert_eq!(events([b"data: a\xffb\n\n".as_slice()]).unwrap(), ["=a\u{fffd}b"]);
    }

    #[test]
    fn a_line_and_an_event_have_a_limit() {
        let endless = vec![b'x'; 1 << 20];
        assert_eq!(events(std::iter::repeat_n(endless.as_slice(), 17)), Err(TooLong));
        let line = [b"data: ".as_slice(), &endless, b"\n"].concat();
        assert_eq!(events(std::iter::repeat_n(line.as_slice(), 17)), Err(TooLong));
    }
}
