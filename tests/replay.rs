//! What a client is told again when it loads a session: what it was told when it happened, element for element.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use rustix::process::Signal;
use serde_json::{Value, json};
use support::client::{Client, Launch, Permission, Turn};
use support::formats::Format;
use support::model_server::Answer;
use support::openai::{self, finish, reasoning, say, stream, text, tool_call};
use support::process::{signal, wait_gone};
use support::saved::{Loaded, Place};
use support::write_file;

/// A conversation as it looks on a screen, from updates that came one by one.
#[derive(Default)]
struct Screen {
    elements: Vec<Value>,
}

impl Screen {
    /// Pieces of one message are joined, a call's updates are laid over its announcement.
    fn show(&mut self, update: &Value) {
        let mut update = update.clone();
        let same = |known: &&mut Value, member: &str| known.get(member) == update.get(member);
        match update["sessionUpdate"].as_str().unwrap() {
            "agent_message_chunk" | "agent_thought_chunk" => {
                let last = self.elements.last_mut();
                match last.filter(|last| same(last, "sessionUpdate") && same(last, "messageId")) {
                    Some(last) => {
                        let text =
                            ["content", "text"].iter().fold(&mut *last, |value, name| &mut value[*name]);
                        *text = json!(
                            text.as_str().unwrap().to_owned() + update["content"]["text"].as_str().unwrap()
                        );
                    }
                    None => self.elements.push(update),
                }
            }
            "tool_call_update" => {
                let call = self.elements.iter_mut().find(|known| same(known, "toolCallId")).unwrap();
                for (name, value) in update.as_object_mut().unwrap() {
                    if name != "sessionUpdate" {
                        call[name] = value.take();
                    }
                }
            }
            // Of the turn, not of the conversation.
            "usage_update" | "session_info_update" | "available_commands_update" => {}
            _ => self.elements.push(update),
        }
    }

    /// A prompt and what came of it.
    fn turn(&mut self, prompt: &[Value], turn: &Turn) {
        for block in prompt {
            self.show(&json!({"sessionUpdate": "user_message_chunk", "content": block}));
        }
        turn.updates.iter().for_each(|update| self.show(update));
    }

    /// Without the names of messages, which are new each time.
    fn finish(mut self) -> Vec<Value> {
        for element in &mut self.elements {
            element.as_object_mut().unwrap().remove("messageId");
            if let Some(content) = element["content"].as_array_mut() {
                content.iter_mut().for_each(normal);
            }
        }
        self.elements
    }
}

/// No file before and an old text that is null are the same.
fn normal(content: &mut Value) {
    content.as_object_mut().unwrap().retain(|_, value| !value.is_null());
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// All there can be in a conversation, each live turn put on a screen.
struct Story {
    place: Place,
    client: Client,
    session: String,
    live: Screen,
}

impl Story {
    fn new() -> Self {
        let place = Place::new();
        write_file(place.user.path(), "config.json", r#"{"context": {"keepLastTurns": 2}}"#);
        let mut client = place.launch(Launch::new()).start();
        client.permission(Permission::With(|params| {
            let refused = params["toolCall"]["title"].as_str().unwrap().contains("refuse-me");
            let option = if refused { "reject" } else { "allow" };
            json!({"outcome": {"outcome": "selected", "optionId": option}})
        }));
        client.initialize();
        let session = client.new_session(place.cwd());
        Self { place, client, session, live: Screen::default() }
    }

    fn send(&mut self, prompt: &[Value], answers: impl IntoIterator<Item = Answer>) -> Value {
        answers.into_iter().for_each(|answer| self.place.model.push(answer));
        self.client.request("session/prompt", json!({"sessionId": self.session, "prompt": prompt}))
    }

    #[track_caller]
    fn turn(&mut self, prompt: &[Value], answers: impl IntoIterator<Item = Answer>) -> Turn {
        let id = self.send(prompt, answers);
        let turn = self.client.wait_turn(&self.session, &id);
        self.live.turn(prompt, &turn);
        turn
    }

    /// Thoughts, a picture, and a text in pieces.
    fn begin(&mut self) {
        let image = json!({"type": "image", "mimeType": "image/png", "data": PNG});
        let link = json!({"type": "resource_link", "uri": "file:///etc/hosts#L2", "name": "hosts"});
        let prompt = [text_block("Look\nat @a.txt "), image, link];
        let answer =
            [reasoning("Let me "), reasoning("see."), text("It is"), text(" a\n\tpicture."), finish("stop")];
        assert_eq!(self.turn(&prompt, [stream(answer)]).stop_reason(), "end_turn");
    }

    /// A call of each kind, with each end a call can have but a cancel's.
    fn work(&mut self) {
        let calls = [
            ("bash", json!({"command": "echo '```'; exit 3"})),
            ("read_file", json!({"path": "a.txt"})),
            ("write_file", json!({"path": "sub/new.txt", "content": "new\n"})),
            ("edit_file", json!({"path": "a.txt", "old_string": "two", "new_string": "2"})),
            ("edit_file", json!({"path": "a.txt", "old_string": "no such text", "new_string": "x"})),
            ("bash", json!({"command": "touch refuse-me"})),
            ("read_file", json!({"path": "missing.txt"})),
            ("unheard_of", json!({"path": "x"})),
        ];
        let chunks = calls
            .iter()
            .enumerate()
            .map(|(at, (name, arguments))| tool_call(at, &format!("c{at}"), name, &arguments.to_string()));
        let begin = [reasoning("Now I work."), text("I begin.")];
        let answer = stream(begin.into_iter().chain(chunks).chain([finish("tool_calls")]));
        let turn = self.turn(&[text_block("work")], [answer, say("All tried.")]);
        assert_eq!(turn.stop_reason(), "end_turn", "{}", turn.response);
        let ends: Vec<_> = (1..=calls.len()).map(|n| turn.status(&format!("call_{n}")).unwrap()).collect();
        assert_eq!(ends[..4], ["completed"; 4]);
        assert_eq!(ends[4..], ["failed"; 4]);
    }

    /// Three calls: one is done, one is cancelled, one is never reached.
    fn cancel(&mut self) {
        let bash = |id, command: &str| (id, "bash", json!({"command": command}));
        let calls = [bash("a", "echo one"), bash("b", "echo ready; sleep 600"), bash("c", "echo three")];
        let prompt = [text_block("stop in the middle")];
        let id = self.send(&prompt, [openai::call(calls)]);
        let running =
            self.client.wait_update(|u| u["status"] == "in_progress" && u.to_string().contains("ready"));
        self.client.notify("session/cancel", json!({"sessionId": self.session}));
        let turn = self.client.wait_turn(&self.session, &id);
        assert_eq!(turn.stop_reason(), "cancelled");
        self.live.turn(&prompt, &turn);
        assert_eq!(running["toolCallId"], "call_10");
    }

    /// A summary takes the place of all but the last two turns; the client is told a line of it.
    fn compact(&mut self) {
        self.place.model.push(say("What was: a picture."));
        let turn = self.client.prompt(&self.session, "/compact");
        assert!(turn.text().contains("compressed"), "{}", turn.text());
        let content = text_block("🗜️ What was: a picture.");
        let summary = json!({"sessionUpdate": "agent_message_chunk", "content": content});
        // It stands before the turns that are kept: those of `work` and `cancel`.
        let kept =
            self.live.elements.iter().position(|element| element["content"]["text"] == "work").unwrap();
        self.live.elements.insert(kept, summary);
    }
}

const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[track_caller]
fn same(live: &[Value], told: &[Value]) {
    for (live, told) in live.iter().zip(told) {
        assert_eq!(live, told);
    }
    assert_eq!(live.len(), told.len());
}

#[test]
fn what_was_said_live_is_told_again_element_for_element() {
    let mut story = Story::new();
    write_file(story.place.cwd(), "a.txt", "one\ntwo\n");
    story.begin();
    story.work();
    story.cancel();
    story.compact();
    story.turn(&[text_block("and a last word")], [say("Said.")]);
    let Story { place, mut client, session, live } = story;
    client.finish();
    let live = live.finish();

    let mut client = place.start(&[]);
    let loaded = place.load(&mut client, &session).done();
    assert_eq!(loaded.kinds().last(), Some(&"available_commands_update"));
    let again = client.next().unwrap();
    assert_eq!(
        again["params"]["update"]["sessionUpdate"], "available_commands_update",
        "once more behind it"
    );
    each_message_has_an_id_of_its_own(&loaded);
    let mut told = Screen::default();
    for update in &loaded.updates {
        assert!(
            !["tool_call_update", "usage_update", "session_info_update"]
                .contains(&update["sessionUpdate"].as_str().unwrap()),
            "{update}"
        );
        told.show(update);
    }
    same(&live, &told.finish());
    place.finish(client);
}

/// What stands in pieces has one id, and no two messages share one.
#[track_caller]
fn each_message_has_an_id_of_its_own(loaded: &Loaded) {
    let chunks = loaded.updates.iter().filter(|update| update.get("messageId").is_some());
    let mut ids: Vec<_> = chunks.map(|chunk| (&chunk["messageId"], &chunk["sessionUpdate"])).collect();
    ids.dedup();
    let count = ids.len();
    ids.sort_by_key(|(id, _)| id.as_str().unwrap());
    ids.dedup_by_key(|(id, _)| *id);
    assert_eq!(ids.len(), count);
}

/// The first call has its result, the second ran, the third was never reached.
fn three_calls(place: &Place, format: Format, client: &mut Client) -> (String, Value) {
    let session = client.new_session(place.cwd());
    let bash = |id, command: &str| (id, "bash", json!({"command": command}));
    let calls = [bash("a", "echo one"), bash("b", "echo ready; sleep 600"), bash("c", "echo three")];
    place.model.push(format.think_and_call("Three things.", calls));
    let prompt = client.send_prompt(&session, "do it");
    client.wait_update(|update| update["status"] == "in_progress" && update.to_string().contains("ready"));
    (session, prompt)
}

/// Whatever ended the turn, the session goes on in another process with a request that a strict provider takes, and
/// that one gets back what it wants back.
#[track_caller]
fn goes_on(place: &Place, format: Format, session: &str, results: [(&str, bool); 3]) {
    let mut client = place.start(&[]);
    let loaded = place.load(&mut client, session).done();
    assert_eq!(loaded.questions(), ["do it"]);
    assert_eq!(loaded.of_kind("agent_thought_chunk")[0]["content"]["text"], "Three things.");
    let calls = loaded.of_kind("tool_call");
    let ends: Vec<_> =
        calls.iter().map(|call| (call["status"].as_str().unwrap(), call.get("content").is_some())).collect();
    assert_eq!(ends, results);
    assert_eq!(calls[0]["rawOutput"]["output"], "one\n");
    assert_eq!(calls[2]["title"], "bash: echo three");

    place.model.push(format.think_and_call("One more.", [("a", "bash", json!({"command": "echo four"}))]));
    let turn = place.prompt(&mut client, session, "go on");
    assert_eq!(
        (turn.stop_reason(), turn.status("call_4")),
        ("end_turn", Some("completed")),
        "{}",
        turn.response
    );
    let asked = place.model.requests().pop().unwrap().body.to_string();
    let came_back = match format {
        Format::Completions => "Three things.",
        Format::Messages => r#""signature":"SIG""#,
        Format::Responses => r#""encrypted_content":"gA""#,
    };
    assert!(asked.contains(came_back), "{asked}");
    place.finish(client);
}

#[test]
fn a_cancel_in_the_middle_of_three_calls_leaves_a_whole_session() {
    for format in Format::ALL {
        let place = Place::talking(format);
        let mut client = place.start(&[]);
        let (session, prompt) = three_calls(&place, format, &mut client);
        client.notify("session/cancel", json!({"sessionId": session}));
        assert_eq!(client.wait_turn(&session, &prompt).stop_reason(), "cancelled");
        client.finish();
        goes_on(&place, format, &session, [("completed", true), ("failed", true), ("failed", true)]);
    }
}

#[test]
fn a_kill_in_the_middle_of_three_calls_loses_the_one_that_ran() {
    for format in Format::ALL {
        let place = Place::talking(format);
        let mut client = place.start(&[]);
        let (session, _) = three_calls(&place, format, &mut client);
        signal(client.id(), Signal::KILL);
        wait_gone(client.id());
        goes_on(&place, format, &session, [("completed", true), ("failed", false), ("failed", false)]);
    }
}

#[test]
fn a_loaded_session_keeps_its_title_and_counts_anew() {
    let place = Place::new();
    let mut client = place.start(&[]);
    let session = place.saved(&mut client, "The first prompt\nis its title");
    place.load(&mut client, &session).done();
    let turn = place.prompt(&mut client, &session, "go on");
    let only = |kind| {
        let all: Vec<_> = turn.of_kind(kind).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    };
    let info = only("session_info_update");
    assert_eq!(info["title"], "The first prompt is its title");
    let list = client.call("session/list", json!({}))["result"]["sessions"][0].clone();
    assert_eq!((&list["title"], &list["updatedAt"]), (&info["title"], &info["updatedAt"]));
    assert_eq!(only("usage_update")["used"], openai::USAGE.0 + openai::USAGE.1, "of the last call");
    place.finish(client);
}

/// More than one page of anything, and more than waits unread; the model has the summary, the client has it all.
#[test]
fn a_long_session_that_was_compacted_is_told_to_its_first_word() {
    let place = Place::new();
    let turn = |n| {
        let pad = "x".repeat(2000);
        let question = json!({"role": "user", "blocks": [text_block(&format!("question {n} {pad}"))]});
        format!("{question},\n{}", json!({"role": "assistant", "text": format!("answer {n}")}))
    };
    let mut messages: Vec<_> = (0..300).map(turn).collect();
    messages.insert(290, json!({"role": "user", "summary": true, "added": "SUMMARY"}).to_string());
    let head = r#"{"version":1,"createdAt":"2026-12-01T10:00:00Z","updatedAt":"2026-12-01T10:00:00Z""#;
    let file = format!("{head},\"messages\":[{}]}}", messages.join(",\n"));
    write_file(place.cwd(), ".bob/sessions/long.json", file);
    let mut client = place.start(&[]);
    let loaded = place.load(&mut client, "long").done();
    let numbers =
        loaded.questions().into_iter().map(|text| text.split(' ').nth(1).unwrap().parse::<usize>().unwrap());
    assert!(numbers.eq(0..300usize));
    assert_eq!(loaded.of_kind("agent_message_chunk").len(), 301);
    place.prompt(&mut client, "long", "go on");
    let asked = place.model.requests().pop().unwrap();
    assert_eq!(asked.messages().len(), 1 + 2 + 2 * 10 + 1, "system, summary, ten turns, the question");
    place.finish(client);
}

/// A card of an editor's terminal would be empty: nobody has a terminal of another process.
#[test]
fn nothing_replayed_names_a_terminal() {
    let place = Place::new();
    let start = || {
        let mut client = place.launch(Launch::with_args(["--acp", "--mode", "full-access"])).start();
        client.initialize_with(json!({"terminal": true}));
        client
    };
    let mut client = start();
    let session = client.new_session(place.cwd());
    place.model.push(openai::call([("c", "bash", json!({"command": "echo hello"}))]));
    place.prompt(&mut client, &session, "run it");
    client.finish();
    let mut client = start();
    let loaded = place.load(&mut client, &session).done();
    let call = loaded.of_kind("tool_call")[0];
    assert_eq!(call["content"][0]["content"]["text"], "```\nhello\n```");
    for update in &loaded.updates {
        assert!(!update.to_string().contains("erminal"), "{update}");
    }
    place.finish(client);
}
