//! A conversation as text to be summarized, in parts that fit a model call.
//!
//! Text, not messages: a call needs its result and its tool's description only where it is sent as a call, and a
//! provider that refuses the conversation for its form must not refuse the way out of it.
use crate::model::{Arguments, AssistantMessage, Image, Message, Part, ToolResult};
use crate::text::{fenced, head, tail};

/// What stands for a picture.
const IMAGE: &str = "[image left out]";
/// Of a unit too long for a part this share of its end is kept, the rest of the room goes to its beginning.
const TAIL_SHARE: usize = 3;

/// What may not be separated, each as text: a reply with the results of its calls, or a user's message.
pub(super) fn units(messages: &[Message]) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    for message in messages {
        match (message, units.last_mut()) {
            (Message::ToolResult(result), Some(unit)) => unit.push_str(&of_result(result)),
            (Message::ToolResult(result), None) => units.push(of_result(result)),
            (Message::User(parts), _) => units.push(of_user(parts)),
            (Message::Assistant(reply), _) => units.push(of_reply(reply)),
        }
    }
    units
}

/// The first part: as many units as have room in `bytes`, and how many these are. At least one, which is cut in
/// its middle if it must be.
pub(super) fn first_part(units: &[String], bytes: usize) -> (String, usize) {
    let mut part = String::new();
    let mut count = 0;
    for unit in units {
        if count > 0 && part.len() + unit.len() > bytes {
            break;
        }
        part.push_str(unit);
        count += 1;
    }
    if part.len() > bytes {
        part = cut(&part, bytes);
    }
    (part, count)
}

fn cut(text: &str, bytes: usize) -> String {
    let end = tail(text, bytes / TAIL_SHARE);
    let beginning = head(text, bytes - bytes / TAIL_SHARE);
    let left_out = text.len() - beginning.len() - end.len();
    format!("{beginning}\n[... {left_out} bytes left out ...]\n{end}")
}

fn of_user(parts: &[Part]) -> String {
    let text = parts.iter().map(|part| match part {
        Part::Text(text) => text,
        Part::Image(_) => IMAGE,
    });
    format!("# User\n{}\n\n", text.collect::<String>())
}

fn of_reply(reply: &AssistantMessage) -> String {
    let mut text = format!("# Assistant\n{}\n\n", reply.text);
    for call in &reply.calls {
        let arguments = match &call.arguments {
            Arguments::Object(members) => serde_json::to_string(members).expect("a map with text keys"),
            Arguments::Invalid(text) => text.clone(),
        };
        text.push_str(&format!("Calls {}:\n{}\n\n", call.name, fenced("", &arguments)));
    }
    text
}

fn of_result(result: &ToolResult) -> String {
    let ToolResult { name, output, images, failed, .. } = result;
    let how = if *failed { "failed" } else { "gave" };
    let note = |_: &Image| format!("{IMAGE}\n");
    format!("{name} {how}:\n{}\n{}\n", fenced("", output), images.iter().map(note).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Call;
    use serde_json::{Map, json};

    fn user(text: &str) -> Message {
        Message::User(vec![Part::Text(text.to_owned())])
    }

    fn image() -> Image {
        Image { mime_type: "image/png", base64: "SECRET".into() }
    }

    fn call(command: &str) -> Call {
        let arguments = Arguments::Object(Map::from_iter([("command".to_owned(), json!(command))]));
        Call { id: "id".to_owned(), name: "bash".to_owned(), arguments, extra: Map::new() }
    }

    fn result(output: &str, images: Vec<Image>) -> Message {
        Message::ToolResult(ToolResult {
            call_id: "id".to_owned(),
            name: "bash".to_owned(),
            output: output.to_owned(),
            images,
            failed: false,
        })
    }

    fn reply(text: &str, calls: Vec<Call>) -> Message {
        Message::Assistant(AssistantMessage { text: text.to_owned(), calls, ..AssistantMessage::default() })
    }

    #[test]
    fn a_reply_and_its_results_are_one_unit() {
        let messages = [
            user("go"),
            reply("I look", vec![call("ls"), call("pwd")]),
            result("a.txt", Vec::new()),
            result("/tmp", Vec::new()),
            reply("done", Vec::new()),
        ];
        let units = units(&messages);
        assert_eq!(units.len(), 3);
        for word in ["I look", r#"{"command":"ls"}"#, "a.txt", r#"{"command":"pwd"}"#, "/tmp"] {
            assert!(units[1].contains(word), "{word} is not in {}", units[1]);
        }
    }

    #[test]
    fn a_picture_is_a_note() {
        let messages = [
            Message::User(vec![Part::Text("see ".into()), Part::Image(image())]),
            reply("", vec![call("ls")]),
            result("a picture", vec![image()]),
        ];
        let text = units(&messages).concat();
        assert_eq!(text.matches(IMAGE).count(), 2);
        assert!(!text.contains("SECRET"));
    }

    #[test]
    fn a_part_holds_whole_units_and_at_least_one() {
        let units: Vec<_> = [40, 40, 40, 500, 10].map(|length| "x".repeat(length)).into();
        assert_eq!(first_part(&units, 100), ("x".repeat(80), 2));
        assert_eq!(first_part(&units, 80), ("x".repeat(80), 2));
        assert_eq!(first_part(&units, 40), ("x".repeat(40), 1));
        assert_eq!(first_part(&units, 10_000).1, 5);
        let (part, count) = first_part(&units[3..], 100);
        assert_eq!(count, 1);
        assert!(part.contains("[... 400 bytes left out ...]"), "{part}");
    }

    #[test]
    fn a_cut_tears_no_character_and_keeps_both_ends() {
        let text = format!("begin{}end", "ä".repeat(1000));
        for bytes in 20..60 {
            let cut = cut(&text, bytes);
            assert!(cut.starts_with("begin") && cut.ends_with("end"), "{cut}");
            assert!(cut.len() < bytes + 50);
        }
    }
}
