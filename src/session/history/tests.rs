use super::record::Change;
use super::*;
use crate::model::{Arguments, Call, Image};
use crate::tools::Kind;
use crate::wire::acp::{PlanEntry, PlanPriority, PlanStatus};
use serde_json::{Map, json};

fn raw(value: &serde_json::Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// A conversation under construction, numbering its calls.
#[derive(Default)]
struct Talk {
    history: History,
    calls: u64,
}

impl Talk {
    fn ask(&mut self, text: &str) {
        self.ask_with(&[json!({"type": "text", "text": text})], "");
    }

    fn ask_with(&mut self, blocks: &[serde_json::Value], added: &str) {
        let blocks: Vec<_> = blocks.iter().map(raw).collect();
        let mut prompt = Prompt::check(blocks.iter().map(AsRef::as_ref)).unwrap();
        prompt.add(added);
        self.history.push_user(prompt.blocks, added.to_owned(), prompt.parts);
    }

    fn reply(&mut self, message: AssistantMessage) -> Vec<CallReference> {
        let calls = &mut self.calls;
        self.history.push_assistant(message, || {
            *calls += 1;
            CallReference::new(*calls)
        })
    }

    fn say(&mut self, text: &str) {
        self.reply(AssistantMessage { text: text.to_owned(), ..AssistantMessage::default() });
    }

    /// A reply with calls; the provider gives the same ids each time, as some do.
    fn call(&mut self, count: usize) -> Vec<CallReference> {
        let call = |n| Call {
            id: format!("id{n}"),
            name: "bash".to_owned(),
            arguments: Arguments::Object(Map::from_iter([("command".to_owned(), json!("ls"))])),
            extra: Map::new(),
        };
        self.reply(AssistantMessage { calls: (0..count).map(call).collect(), ..AssistantMessage::default() })
    }

    fn texts(&self) -> Vec<String> {
        self.history.messages().iter().map(text).collect()
    }
}

fn text(message: &Message) -> String {
    match message {
        Message::User(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Image(image) => image.mime_type,
            })
            .collect(),
        Message::Assistant(reply) => format!("> {}{}", reply.text, "!".repeat(reply.calls.len())),
        Message::ToolResult(result) => format!("= {}", result.output),
    }
}

fn result(reference: CallReference, output: &str) -> CallResult {
    CallResult {
        reference,
        status: Status::Completed,
        title: "bash: ls".to_owned(),
        kind: Kind::Execute,
        locations: Vec::new(),
        output: output.to_owned(),
        exit_code: Some(0),
        change: None,
        images: Vec::new(),
        plan: None,
    }
}

fn restore(history: &History) -> History {
    let text = format!("[{}]", String::from_utf8(history.transcript().bytes().to_vec()).unwrap());
    let messages: Vec<&RawValue> = serde_json::from_str(&text).unwrap();
    History::restore(messages).unwrap()
}

/// What is saved gives the same conversation, for the model and for the next save.
#[track_caller]
fn comes_back(history: &History) {
    let restored = restore(history);
    assert_eq!(restored.transcript().bytes(), history.transcript().bytes());
    assert_eq!(restored.highest_call(), history.highest_call());
    // A live one may still get the results that the restored one had to make up.
    let (made_up, live) = (restored.messages(), history.messages());
    assert_eq!(made_up.get(..live.len()), Some(live));
    valid(made_up);
}

/// As a strict provider sees it: behind each reply exactly one result for each of its calls, and no other result.
#[track_caller]
fn valid(messages: &[Message]) {
    let mut expected: Vec<&str> = Vec::new();
    for message in messages {
        match message {
            Message::ToolResult(result) => {
                let at = expected.iter().position(|id| *id == result.call_id).expect("a result has its call");
                expected.remove(at);
            }
            Message::User(_) => assert!(expected.is_empty(), "no result for {expected:?}"),
            Message::Assistant(reply) => {
                assert!(expected.is_empty(), "no result for {expected:?}");
                expected = reply.calls.iter().map(|call| call.id.as_str()).collect();
            }
        }
    }
    assert!(expected.is_empty(), "no result for {expected:?}");
}

#[test]
fn everything_that_was_said_and_done_comes_back() {
    let mut talk = Talk::default();
    let png = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
    let link = json!({"type": "resource_link", "uri": "file:///a", "name": "a"});
    talk.ask_with(&[json!({"type": "text", "text": "look"}), png, link], "\n[attached file: /b]");
    let calls = talk.reply(AssistantMessage {
        text: "I will.".to_owned(),
        reasoning: "Hm.".to_owned(),
        opaque: Some(json!({"signature": "c2ln", "n": 1.5})),
        calls: vec![
            Call {
                id: "a".to_owned(),
                name: "edit_file".to_owned(),
                arguments: Arguments::Object(Map::from_iter([("path".to_owned(), json!("x"))])),
                extra: Map::from_iter([("extra_content".to_owned(), json!({"x": [1]}))]),
            },
            Call {
                id: "b".to_owned(),
                name: "bash".to_owned(),
                arguments: Arguments::Invalid("{\"comm".to_owned()),
                extra: Map::new(),
            },
        ],
    });
    assert_eq!(calls.iter().map(ToString::to_string).collect::<Vec<_>>(), ["call_1", "call_2"]);
    let plan =
        PlanEntry { content: "c".to_owned(), priority: PlanPriority::High, status: PlanStatus::InProgress };
    let diff = crate::tools::Diff { path: "/x".into(), old: None, new: "new\n".to_owned() };
    talk.history.push_result(CallResult {
        kind: Kind::Edit,
        change: Some(Change::Diff(diff.into())),
        images: vec![Image { mime_type: "image/gif", base64: "R0lG".into() }],
        locations: vec![(&crate::tools::Location { path: "/x".into(), line: Some(3) }).into()],
        plan: Some(vec![plan]),
        exit_code: None,
        ..result(calls[0], "done")
    });
    talk.history.push_result(CallResult { status: Status::Failed, ..result(calls[1], "no object") });
    talk.say("Done.");
    comes_back(&talk.history);
    assert_eq!(restore(&talk.history).messages(), talk.history.messages());
    assert_eq!(talk.history.transcript().len(), 5);
}

#[test]
fn a_call_without_a_result_gets_one_for_the_model_and_none_in_the_file() {
    let mut talk = Talk::default();
    talk.ask("a");
    let calls = talk.call(2);
    talk.history.push_result(result(calls[0], "first"));
    comes_back(&talk.history);
    let restored = restore(&talk.history);
    assert_eq!(restored.messages().iter().map(text).collect::<Vec<_>>()[3], format!("= {NO_RESULT}"));
    assert_eq!(restored.transcript().len(), 3);
    talk.ask("b");
    valid(talk.history.messages());
    talk.call(1);
    talk.say("c");
    valid(talk.history.messages());
    comes_back(&talk.history);
}

#[test]
fn a_result_that_is_no_open_calls_is_left_out() {
    let mut talk = Talk::default();
    talk.ask("a");
    talk.history.push_result(result(CallReference::new(1), "too early"));
    let calls = talk.call(1);
    talk.history.push_result(result(calls[0], "right"));
    talk.history.push_result(result(calls[0], "twice"));
    assert_eq!(talk.texts(), ["a", "> !", "= right"]);
    comes_back(&talk.history);
}

#[test]
fn a_refused_turn_stays_saved_and_leaves_the_context() {
    let mut talk = Talk::default();
    talk.ask("a");
    talk.say("b");
    talk.ask_with(&[json!({"type": "text", "text": "bad"})], "\nadded");
    let calls = talk.call(1);
    talk.history.push_result(result(calls[0], "r"));
    talk.say("I can't");
    talk.history.refuse_turn();
    assert_eq!(talk.texts(), ["a", "> b"]);
    comes_back(&talk.history);
    assert_eq!(talk.history.transcript().len(), 6);
    talk.ask("c");
    talk.say("d");
    assert_eq!(talk.texts(), ["a", "> b", "c", "> d"]);
    comes_back(&talk.history);
    let refused = talk
        .history
        .transcript()
        .records()
        .filter(|record| matches!(record, Record::User(user) if user.refused && user.added == "\nadded"));
    assert_eq!(refused.count(), 1);
}

#[test]
fn only_a_question_without_any_answer_is_taken_back() {
    let mut talk = Talk::default();
    talk.ask("a");
    assert!(talk.history.take_back_question());
    assert!(talk.history.messages().is_empty() && talk.history.transcript().is_empty());
    talk.ask("a");
    talk.say("b");
    assert!(!talk.history.take_back_question());
    talk.ask("c");
    assert!(talk.history.take_back_question());
    assert!(!talk.history.take_back_question());
    assert_eq!(talk.texts(), ["a", "> b"]);
    comes_back(&talk.history);
    talk.history.clear();
    assert!(talk.history.messages().is_empty() && talk.history.transcript().is_empty());
}

#[test]
fn a_summary_stands_for_older_turns_and_nothing_is_lost_from_the_file() {
    let mut talk = Talk::default();
    assert!(talk.history.older_than(0).is_none());
    for n in 0..4 {
        talk.ask(&format!("q{n}"));
        let calls = talk.call(1);
        talk.history.push_result(result(calls[0], "r"));
        talk.say(&format!("a{n}"));
    }
    assert!(talk.history.older_than(4).is_none());
    assert_eq!(talk.history.older_than(1).unwrap().len(), 12);
    talk.history.compact(1, "S1".to_owned());
    let summary = format!("{SUMMARY_HEADING}S1");
    let read = format!("> {SUMMARY_READ}");
    assert_eq!(talk.texts(), [&summary, &read, "q3", "> !", "= r", "> a3"]);
    comes_back(&talk.history);
    assert!(talk.history.older_than(1).is_none(), "a summary alone is nothing to compact");
    talk.ask("q4");
    assert!(talk.history.take_back_question());
    talk.ask("q4");
    talk.say("bad");
    talk.history.refuse_turn();
    talk.ask("q5");
    talk.history.compact(1, "S2".to_owned());
    assert_eq!(talk.texts(), [&format!("{SUMMARY_HEADING}S2"), &read, "q5"]);
    talk.say("a5");
    comes_back(&talk.history);
    talk.history.compact(0, "S3".to_owned());
    assert_eq!(talk.texts(), [format!("{SUMMARY_HEADING}S3"), read]);
    comes_back(&talk.history);
    let said: Vec<_> = talk
        .history
        .transcript()
        .records()
        .filter_map(|record| match record {
            Record::User(user) => Some(user.blocks[0].get().to_owned()),
            Record::Summary(text) => Some(text),
            _ => None,
        })
        .collect();
    let asked = |n| json!({"type": "text", "text": format!("q{n}")}).to_string();
    let expected =
        [asked(0), asked(1), asked(2), "S1".into(), asked(3), asked(4), "S2".into(), asked(5), "S3".into()];
    assert_eq!(said, expected);
}

#[test]
fn a_turn_whose_call_is_open_can_be_compacted_with_it() {
    let mut talk = Talk::default();
    talk.ask("a");
    talk.call(1);
    talk.history.compact(0, "S".to_owned());
    talk.ask("b");
    valid(talk.history.messages());
    comes_back(&talk.history);
}

#[track_caller]
fn refused(messages: &serde_json::Value, at: usize, why: &str) {
    refused_text(&messages.to_string(), at, why);
}

#[track_caller]
fn refused_text(text: &str, at: usize, why: &str) {
    let messages: Vec<&RawValue> = serde_json::from_str(text).unwrap();
    let error = History::restore(messages).unwrap_err();
    assert_eq!(error.at, at, "{error}");
    assert!(error.why.contains(why), "{error}");
    assert!(!error.to_string().contains("SECRET"), "{error}");
}

#[test]
fn messages_of_another_form_are_refused() {
    let user = json!({"role": "user", "blocks": [{"type": "text", "text": "a"}]});
    let call = json!({"reference": "call_1", "id": "a", "name": "bash", "arguments": {}});
    let calls = json!({"role": "assistant", "calls": [call]});
    let done = json!({"role": "tool", "reference": "call_1", "status": "completed", "title": "t",
        "kind": "execute", "output": "SECRET"});
    let with = |value: &serde_json::Value, key: &str, new: serde_json::Value| {
        let mut value = value.clone();
        value[key] = new;
        value
    };
    for (messages, at, why) in [
        (json!([{"role": "system", "text": "SECRET"}]), 0, "role other than"),
        (json!([with(&user, "role", json!("developer"))]), 0, "role other than"),
        (json!([{"text": "SECRET"}]), 0, "no usable role"),
        (json!([["user", []]]), 0, "not an object"),
        (json!(["SECRET"]), 0, "not an object"),
        (json!([null]), 0, "not an object"),
        (json!([{"role": "user"}]), 0, "no whole user message"),
        (json!([{"role": "user", "blocks": []}]), 0, "is empty"),
        (json!([{"role": "user", "blocks": ["SECRET"]}]), 0, "prompt[0]"),
        (json!([{"role": "user", "blocks": [{"type": "audio", "data": "SECRET"}]}]), 0, "prompt[0].type"),
        (json!([{"role": "user", "summary": true}]), 0, "no whole summary"),
        (json!([{"role": "assistant", "text": "SECRET"}]), 0, "answers nothing"),
        (json!([user, {"role": "assistant", "text": 5}]), 1, "no whole assistant message"),
        (json!([user, with(&calls, "calls", json!([with(&call, "reference", json!("x"))]))]), 1, "assistant"),
        (json!([user, with(&calls, "calls", json!([with(&call, "arguments", json!([1]))]))]), 1, "assistant"),
        (json!([user, with(&calls, "calls", json!([call, call]))]), 1, "there before"),
        (json!([user, calls, calls]), 2, "there before"),
        (json!([user, done]), 1, "no call before it"),
        (json!([user, calls, done, done]), 3, "no call before it"),
        (json!([user, calls, user, done]), 3, "no call before it"),
        (json!([user, calls, with(&done, "status", json!("SECRET"))]), 2, "no whole tool result"),
        (json!([user, calls, with(&done, "kind", json!("SECRET"))]), 2, "no whole tool result"),
        (
            json!([user, calls, with(&done, "images", json!([{"mimeType": "text/html", "data": "SECRET"}]))]),
            2,
            "tool result",
        ),
    ] {
        refused(&messages, at, why);
    }
    let deep = |depth| {
        let (open, shut) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"[{{"role": "user", "blocks": [{{"type": "text", "text": "a", "_meta": {open}{shut}}}]}}]"#)
    };
    refused_text(&deep(125), 0, "too deeply");
    // What comes in on a line of 128 is saved and has to be read again.
    let deepest = deep(124);
    assert!(History::restore(serde_json::from_str::<Vec<&RawValue>>(&deepest).unwrap()).is_ok());
    for number in ["9007199254740993", "18446744073709551615", "18446744073709551616", "-1", "+1", "", "x"] {
        let call = with(&call, "reference", json!(format!("call_{number}")));
        refused(&json!([user, with(&calls, "calls", json!([call]))]), 1, "no whole assistant message");
    }
}

/// A file may have been edited by hand, or by someone who wants a line of his own on the wire.
#[test]
fn a_block_is_one_line_again_whatever_the_file_looks_like() {
    let text = "[{\"role\": \"user\",\n \"blocks\": [{\"type\":\r\n\"text\",\n\"text\":\"a\\nb  c\"}]}]";
    let messages: Vec<&RawValue> = serde_json::from_str(text).unwrap();
    let history = History::restore(messages).unwrap();
    let Some(Record::User(user)) = history.transcript().records().next() else { panic!() };
    assert_eq!(user.blocks[0].get(), r#"{"type":  "text", "text":"a\nb  c"}"#);
    assert_eq!(history.messages(), [Message::User(vec![Part::Text("a\nb  c".to_owned())])]);
}

#[test]
fn the_highest_call_counts_also_when_a_summary_or_a_refusal_hides_it() {
    let mut talk = Talk { calls: 40, ..Talk::default() };
    talk.ask("a");
    talk.call(2);
    talk.history.refuse_turn();
    talk.ask("b");
    talk.history.compact(0, "S".to_owned());
    assert_eq!(talk.history.highest_call(), 42);
    assert_eq!(restore(&talk.history).highest_call(), 42);
}
