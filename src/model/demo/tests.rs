//! The demo model with its own script, and with those in `fixtures/demo`.
use super::*;
use crate::cancel::{CancelSource, Cancelled};
use crate::model::{Arguments, Message, Part, ToolResult, Why};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::thread;

#[derive(Default)]
struct Ear {
    deltas: usize,
    text: String,
    reasoning: String,
    pauses: Vec<String>,
}

impl Listener for Ear {
    fn delta(&mut self, delta: Delta<'_>) {
        self.deltas += 1;
        match delta {
            Delta::Text(piece) => self.text.push_str(piece),
            Delta::Reasoning(piece) => self.reasoning.push_str(piece),
            Delta::CallBegun(_) => {}
        }
    }

    fn pause(&mut self, why: &str, _: Duration) -> Result<(), Cancelled> {
        self.pauses.push(why.into());
        Ok(())
    }
}

fn demo(script: Option<&str>) -> DemoProvider {
    let path = script.map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/demo").join(name));
    DemoProvider::new(path, Backoff::default())
}

fn user(text: &str) -> Message {
    Message::User(vec![Part::Text(text.into())])
}

fn call(demo: &mut DemoProvider, messages: &[Message]) -> (Result<Reply, Broken>, Ear) {
    let mut ear = Ear::default();
    let request = Request { model: "demo", thinking: None, system: "", messages, tools: &[] };
    (demo.complete(&request, &CancelSource::new().token(), &mut ear), ear)
}

/// The one call in the built-in answer to `messages`.
#[track_caller]
fn built_in_call(messages: &[Message]) -> (String, Value) {
    let reply = call(&mut demo(None), messages).0.unwrap();
    let [call] = reply.message.calls.as_slice() else { panic!("{reply:?}") };
    let Arguments::Object(arguments) = call.arguments.clone() else { panic!("{call:?}") };
    (call.name.clone(), Value::Object(arguments))
}

fn result(name: &str, output: &str, failed: bool) -> Message {
    let (call_id, images) = ("demo-1".into(), Vec::new());
    Message::ToolResult(ToolResult { call_id, name: name.into(), output: output.into(), images, failed })
}

#[test]
fn it_greets_and_says_that_it_is_no_real_model() {
    let (reply, ear) = call(&mut demo(None), &[user("hi")]);
    assert!(reply.unwrap().message.text.contains("no real model"));
    assert!(ear.deltas > 10, "it streams");
}

#[test]
fn it_calls_the_tools_that_are_asked_for() {
    for (prompt, name, arguments) in [
        ("list the files", "bash", json!({"command": "ls -la"})),
        ("Run `cargo test`", "bash", json!({"command": "cargo test"})),
        ("read `src/main.rs`, please", "read_file", json!({"path": "src/main.rs"})),
        ("read src/main.rs", "read_file", json!({"path": "src/main.rs"})),
        ("write a.txt some text", "write_file", json!({"path": "a.txt", "content": "some text\n"})),
        ("edit a.txt", "read_file", json!({"path": "a.txt"})),
    ] {
        assert_eq!(built_in_call(&[user(prompt)]), (name.to_owned(), arguments), "{prompt}");
    }
}

#[test]
fn it_edits_what_it_has_read() {
    for output in ["     1\thello\n     2\tworld\n", "1→hello\n", "hello\n"] {
        let edited = json!({"path": "a", "old_string": "hello", "new_string": "hello (edited by the demo)"});
        let call = built_in_call(&[user("edit a"), result("read_file", output, false)]);
        assert_eq!(call, ("edit_file".to_owned(), edited), "{output}");
    }
}

#[test]
fn it_says_what_came_of_a_call() {
    let (reply, _) = call(&mut demo(None), &[user("list"), result("bash", "a\nb\n", false)]);
    assert!(reply.unwrap().message.text.starts_with("`bash` gave 2 lines"));
    let (reply, _) = call(&mut demo(None), &[user("read a"), result("read_file", "     1\thello\n", false)]);
    assert!(reply.unwrap().message.text.contains("> 1 hello\n"), "a tab is shown as a blank");
    let (reply, _) = call(&mut demo(None), &[user("list"), result("bash", "denied", true)]);
    assert!(reply.unwrap().message.text.contains("did not work out: denied"));
}

#[test]
fn a_script_is_followed_in_order() {
    let mut demo = demo(Some("tools.json"));
    let (reply, ear) = call(&mut demo, &[user("list them")]);
    let message = reply.unwrap().message;
    assert_eq!((ear.text.as_str(), ear.reasoning.as_str()), ("I look.", "The user wants to see the files."));
    assert_eq!((message.calls[0].id.as_str(), message.calls[0].name.as_str()), ("call-1", "bash"));
    assert_eq!(call(&mut demo, &[result("bash", "a", false)]).0.unwrap().message.text, "There they are.");
    let malformed = call(&mut demo, &[user("malformed")]).0.unwrap().message.calls.remove(0);
    assert_eq!(malformed.arguments, Arguments::Invalid("{\"command\": \"ls".into()));
    assert_eq!(call(&mut demo, &[user("x")]).0.unwrap().stop, Stop::MaxTokens);
    let (reply, _) = call(&mut demo, &[user("x")]);
    assert!(reply.unwrap().message.text.contains("has no reply left"));
}

#[test]
fn a_script_s_errors_are_retried_like_real_ones() {
    let mut demo = demo(Some("trouble.json"));
    let (reply, ear) = call(&mut demo, &[user("x")]);
    assert_eq!(reply.unwrap().message.text, "At last.");
    assert_eq!(ear.pauses[0], "503 Service Unavailable: try later");
    assert_eq!(ear.pauses.len(), 2);
    let broken = call(&mut demo, &[user("x")]).0.unwrap_err();
    assert_eq!(broken.partial.text, "Half an ans");
    assert!(matches!(broken.why, Why::Failed(failure) if failure.status == Some(502)));
}

#[test]
fn usage_is_the_script_s() {
    let usage = call(&mut demo(Some("greeting.json")), &[user("x")]).0.unwrap().usage.unwrap();
    assert_eq!((usage.input, usage.output), (12, 4));
}

#[test]
fn a_flood_comes_as_so_many_deltas() {
    assert_eq!(call(&mut demo(Some("flood.json")), &[user("x")]).1.deltas, 20_000);
}

#[test]
fn a_delay_ends_on_cancel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("slow.json");
    write(&path, r#"{"replies":[{"steps":[{"text":"a"},{"delay":3600000}]}]}"#);
    let source = CancelSource::new();
    let broken = thread::scope(|scope| {
        let token = source.token();
        let call = scope.spawn(move || {
            let messages = [user("x")];
            let request =
                Request { model: "demo", thinking: None, system: "", messages: &messages, tools: &[] };
            let mut demo = DemoProvider::new(Some(path), Backoff::default());
            demo.complete(&request, &token, &mut Ear::default())
        });
        source.cancel();
        call.join().unwrap()
    });
    assert_eq!(broken.unwrap_err().why, Why::Cancelled);
}

fn write(path: &Path, text: &str) {
    use std::io::Write;
    fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_script_that_can_t_be_used_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.json");
    for (text, words) in [
        (None, "DEMO_SCRIPT: failed to read `"),
        (Some("{\n  \"replies\": 1}"), "line 2 column 14"),
        (Some("{\"replies\": [{\"steps\": [{\"sing\": 1}]}]}"), "unknown variant `sing`"),
    ] {
        if let Some(text) = text {
            write(&path, text);
        }
        let broken =
            call(&mut DemoProvider::new(Some(path.clone()), Backoff::default()), &[user("x")]).0.unwrap_err();
        let Why::Failed(failure) = broken.why else { panic!("{broken:?}") };
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}
