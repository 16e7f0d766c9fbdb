//! The reader: stdin as decoded lines, until it ends.
use crate::server::requests::{decode, too_long};
use crate::server::{Server, inbox::Event};
use crate::wire::lines::{Line, Lines};
use std::io::{BufReader, Read};

const BUFFER: usize = 64 << 10;
const BOM: &[u8] = "\u{feff}".as_bytes();

/// The reader thread's body.
pub fn read(server: &Server, input: impl Read) {
    let limit = server.context.process.message_bytes;
    let mut lines = Lines::new(BufReader::with_capacity(BUFFER, input), limit);
    let mut first = true;
    loop {
        server.context.outbox.wait_until_replies_fit(|| server.shutdown.poke());
        match lines.read() {
            Ok(Some(Line::Whole(line))) => {
                let line = if first { line.strip_prefix(BOM).unwrap_or(line) } else { line };
                let line = line.trim_ascii();
                if !line.is_empty() {
                    server.inbox.line(decode(line), line.len());
                }
            }
            Ok(Some(Line::TooLong(beginning))) => server.inbox.line(too_long(beginning, limit), 0),
            Ok(None) => break,
            Err(error) => {
                log::warn!("stdin: {error}");
                break;
            }
        }
        first = false;
    }
    if server.script.is_some() {
        server.inbox.event(Event::LastLine);
    } else {
        server.shut_down(0);
    }
}
