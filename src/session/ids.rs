//! Session ids: `YYYYMMDD-HHMMSS-xxxxxxxx`, UTC, sorted by date.
use crate::wire::acp::SessionId;
use ulid::Ulid;

/// A new id that is `free`.
pub fn new_session_id(free: impl Fn(&SessionId) -> bool) -> SessionId {
    loop {
        let id = from_ulid(Ulid::generate());
        if free(&id) {
            return id;
        }
    }
}

fn from_ulid(ulid: Ulid) -> SessionId {
    // 2026-12-01T10:15:00Z
    let time = humantime::format_rfc3339_seconds(ulid.datetime()).to_string();
    let digits: String = time.chars().filter(char::is_ascii_digit).collect();
    let (date, clock) = digits.split_at_checked(8).unwrap_or((&digits, ""));
    let id = format!("{date}-{clock}-{:08x}", ulid.random() as u32);
    SessionId::parse(&id).expect("digits, letters and dashes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_its_time() {
        let id = from_ulid(Ulid::from_parts(1_796_000_000_000, 0xdead_beef));
        assert_eq!(id.as_str(), "20261130-005320-deadbeef");
    }
}
