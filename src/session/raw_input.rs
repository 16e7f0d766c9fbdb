//! A call's arguments as the client is shown them: whole, but no line of ours is to be a huge one.
use crate::model::Arguments;
use crate::text::head;
use serde_json::{Map, Value};

/// Longest string, in bytes.
const STRING_BYTES: usize = 64 * 1024;
/// All strings and names together; each may take six times as much as JSON.
const ALL_BYTES: usize = 128 * 1024;
/// What a value costs beside its text.
const VALUE_BYTES: usize = 8;

/// The arguments with long strings cut, `… (+N bytes)` at their ends, and past a bound for all of it nothing more.
pub(super) fn shown(arguments: &Arguments) -> Value {
    let mut room = ALL_BYTES;
    match arguments {
        Arguments::Object(members) => cut_members(members, &mut room).into(),
        Arguments::Invalid(text) => cut_string(text, &mut room).into(),
    }
}

fn cut(value: &Value, room: &mut usize) -> Value {
    *room = room.saturating_sub(VALUE_BYTES);
    match value {
        Value::String(text) => cut_string(text, room).into(),
        Value::Array(items) => {
            let mut shown = Vec::new();
            for item in items {
                if *room == 0 {
                    shown.push(format!("… (+{} items)", items.len() - shown.len()).into());
                    break;
                }
                shown.push(cut(item, room));
            }
            shown.into()
        }
        Value::Object(members) => cut_members(members, room).into(),
        other => other.clone(),
    }
}

fn cut_members(members: &Map<String, Value>, room: &mut usize) -> Map<String, Value> {
    let mut shown = Map::new();
    for (name, value) in members {
        if *room == 0 {
            shown.insert("…".into(), format!("(+{} members)", members.len() - shown.len()).into());
            break;
        }
        shown.insert(cut_string(name, room), cut(value, room));
    }
    shown
}

fn cut_string(text: &str, room: &mut usize) -> String {
    let kept = head(text, STRING_BYTES.min(*room));
    *room -= kept.len();
    match text.len() - kept.len() {
        0 => kept.to_owned(),
        more => format!("{kept}… (+{more} bytes)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Arguments {
        let Value::Object(members) = value else { panic!("no object") };
        Arguments::Object(members)
    }

    #[test]
    fn what_is_ordinary_is_shown_whole() {
        for value in [json!({"a": [1, null, {"b": "x".repeat(STRING_BYTES)}]}), json!({})] {
            assert_eq!(shown(&object(value.clone())), value);
        }
        assert_eq!(shown(&Arguments::Invalid("{oops".into())), json!("{oops"));
    }

    #[test]
    fn nothing_makes_a_huge_line() {
        let long = "é".repeat(STRING_BYTES);
        let cut = format!("{}… (+65536 bytes)", "é".repeat(STRING_BYTES / 2));
        let arguments = json!({"content": long, "path": "f"});
        assert_eq!(shown(&object(arguments)), json!({"content": cut, "path": "f"}));
        let names: Map<_, _> = (0..100_000).map(|at| (format!("{at}"), at.into())).collect();
        let escaped = "\u{1}".repeat(1 << 20);
        for huge in [
            object(json!({"a": vec![&long; 100]})),
            object(json!({"a": vec![0; 1 << 20]})),
            object(json!({&escaped: &escaped})),
            Arguments::Object(names),
            Arguments::Invalid(escaped),
        ] {
            let line = shown(&huge).to_string();
            assert!(line.len() < 1 << 20, "{}", line.len());
            assert!(line.contains('…'));
        }
    }
}
