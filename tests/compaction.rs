//! A history that is too long for the model: compressed on request, by itself, and never at the price of the session.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use support::client::{Permission, Turn};
use support::matching::glob;
use support::model_server::{Answer, Recorded};
use support::openai::{self, finish, say, stream, text, usage};
use support::scene::Scene;
use support::turns::{and_stops, said_something, talking};

/// A PNG of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// How three providers say that a conversation is too long.
const TOO_LONG: [&str; 3] = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "the request exceeds the available context size. try increasing the context size",
];

/// A session that keeps this many turns.
fn keeping(turns: usize) -> Scene {
    Scene::configured(&json!({"context": {"keepLastTurns": turns}, "mode": "full-access"}))
}

/// An answer of one text that reports this much input.
fn say_at(what: &str, input: u64) -> Answer {
    stream([text(what), finish("stop"), usage(input, 5)])
}

/// An answer of one text that reports nothing.
fn say_uncounted(what: &str) -> Answer {
    stream([text(what), finish("stop")])
}

/// A turn with a call in it.
#[track_caller]
fn turn_with_a_call(scene: &mut Scene, name: &str) {
    let call = openai::call([("c", "bash", json!({"command": format!("echo output-{name}")}))]);
    let turn = scene.prompt_with(&format!("question-{name}"), [call, say(&format!("answer-{name}"))]);
    assert_eq!(turn.stop_reason(), "end_turn");
}

/// Plain turns.
#[track_caller]
fn talk(scene: &mut Scene, names: &[&str]) {
    for name in names {
        scene.prompt_with(&format!("question-{name}"), [say(&format!("answer-{name}"))]);
    }
}

/// A conversation behind the system prompt, each message as role and text.
fn shown(request: &Recorded) -> Vec<(String, String)> {
    let line = |message: &Value| {
        let text = |member: &str| message[member].as_str().unwrap_or_default().to_owned();
        (text("role"), text("content"))
    };
    request.messages()[1..].iter().map(line).collect()
}

fn last(scene: &Scene) -> Recorded {
    scene.model.requests().pop().unwrap()
}

fn is_summary_request(request: &Recorded) -> bool {
    request.body.get("tools").is_none() && request.messages().len() == 2
}

#[track_caller]
fn says(turn: &Turn, pattern: &str) {
    assert!(glob(pattern, &turn.text()), "{:?} is not {pattern:?}", turn.text());
    assert_eq!(turn.stop_reason(), "end_turn", "{}", turn.response);
}

#[track_caller]
fn thinks(turn: &Turn, pattern: &str) {
    assert!(glob(pattern, &turn.thoughts()), "{:?} is not {pattern:?}", turn.thoughts());
}

/// The next request holds the whole conversation, word for word.
#[track_caller]
fn history_is_whole(scene: &mut Scene, names: &[&str]) {
    scene.prompt_with("still all there?", [say("yes")]);
    let sent = shown(&last(scene));
    let expected: Vec<_> = names
        .iter()
        .flat_map(|name| {
            [
                ("user".to_owned(), format!("question-{name}")),
                ("assistant".to_owned(), format!("answer-{name}")),
            ]
        })
        .collect();
    assert_eq!(sent[..sent.len() - 1], expected);
}

// On request.

#[test]
fn the_command_replaces_older_turns_and_keeps_the_last_word_for_word() {
    let mut scene = keeping(1);
    for name in ["one", "two", "three"] {
        turn_with_a_call(&mut scene, name);
    }
    let before = shown(&last(&scene));
    let turn = scene.prompt_with(" /compact\n", [say("SUMMARY")]);
    says(&turn, "🗜️ compressed 8 messages → 1 summary + 4 kept (* → * tokens, *s)");
    assert_eq!(turn.of_kind("agent_message_chunk").count(), 1);
    assert_eq!(turn.response["result"]["usage"]["totalTokens"], openai::USAGE.0 + openai::USAGE.1);
    let asked = last(&scene);
    assert!(is_summary_request(&asked), "{}", asked.body);
    let material = &shown(&asked)[0].1;
    for word in ["question-one", "echo output-two", "output-two\n", "answer-two"] {
        assert!(material.contains(word), "{word} is not in {material}");
    }
    assert!(!material.contains("question-three"));

    scene.prompt_with("go on", [say("done")]);
    let sent = shown(&last(&scene));
    assert!(sent[0].0 == "user" && sent[0].1.ends_with("SUMMARY"), "{sent:?}");
    assert_eq!(sent[1].0, "assistant", "roles take turns");
    let kept = before.len() - 3; // the last request of turn three: without its answer
    assert_eq!(sent[2..5], before[kept..]);
    assert_eq!(
        sent[5..].iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
        ["answer-three", "go on"]
    );
    scene.client.close_stdin();
    scene.client.wait_exit();
    let line = format!("[acp] session {}: /compact — 🗜️ compressed 8 messages", scene.session);
    assert!(scene.client.stderr().contains(&line), "{}", scene.client.stderr());
    assert_eq!(scene.model.violations(), [] as [String; 0]);
}

#[test]
fn the_next_summary_is_made_of_the_last_one_too() {
    let mut scene = keeping(1);
    talk(&mut scene, &["one", "two"]);
    says(&scene.prompt_with("/compact", [say("FIRST")]), "🗜️ compressed 2 messages*");
    talk(&mut scene, &["three"]);
    says(&scene.prompt_with("/compact", [say("SECOND")]), "🗜️ compressed 4 messages → 1 summary + 2 kept*");
    let material = &shown(&last(&scene))[0].1;
    assert!(material.contains("FIRST") && material.contains("question-two"), "{material}");
    scene.finish();
}

#[test]
fn with_nothing_older_there_is_nothing_to_compact() {
    let mut scene = keeping(2);
    says(&scene.prompt("/compact"), "🗜️ nothing to compact: 0 message(s), no turn older than the last 2");
    talk(&mut scene, &["one", "two"]);
    says(&scene.prompt("/compact"), "🗜️ nothing to compact: 4 message(s), no turn older than the last 2");
    history_is_whole(&mut scene, &["one", "two"]);
    scene.finish();
}

#[test]
fn to_keep_no_turn_is_possible() {
    let mut scene = keeping(0);
    talk(&mut scene, &["one", "two"]);
    says(&scene.prompt_with("/compact", [say("SUMMARY")]), "🗜️ compressed 4 messages → 1 summary + 0 kept*");
    scene.prompt_with("go on", [say("done")]);
    assert_eq!(shown(&last(&scene)).len(), 3);
    scene.finish();
}

#[test]
fn a_summary_that_fails_keeps_the_history_and_says_why() {
    let mut scene = keeping(1);
    talk(&mut scene, &["one", "two"]);
    for (answer, why) in [
        (openai::refuse(400, "no such model"), "*400 Bad Request: no such model*"),
        (say(" \n"), "*no summary*"),
        (stream([finish("length")]), "*output limit*"),
        (stream([finish("content_filter")]), "*refused*"),
    ] {
        let turn = scene.prompt_with("/compact", [answer]);
        says(&turn, &format!("[compact: failed, history kept: {why}]"));
    }
    history_is_whole(&mut scene, &["one", "two"]);
    scene.finish();
}

/// With a small `LLM_MAX_TOKENS` every summary is: a full session could never go on.
#[test]
fn a_summary_that_was_cut_off_is_better_than_none() {
    let mut scene = keeping(1);
    talk(&mut scene, &["one", "two"]);
    let cut = stream([text("half a sum"), finish("length")]);
    says(&scene.prompt_with("/compact", [cut]), "🗜️ compressed 2 messages*");
    scene.prompt_with("question-three", [say("done")]);
    let summary = &shown(&last(&scene))[0].1;
    assert!(glob("*half a sum\n[*cut off*]", summary), "{summary}");
    scene.finish();
}

#[test]
fn a_summary_is_tried_again_and_the_user_is_told() {
    let mut scene = keeping(1);
    talk(&mut scene, &["one", "two"]);
    let busy = openai::refuse(503, "overloaded").header("retry-after-ms", "1");
    let turn = scene.prompt_with("/compact", [busy, say("SUMMARY")]);
    says(&turn, "🗜️ compressed*");
    thinks(&turn, "*overloaded*trying again*");
    scene.finish();
}

#[test]
fn what_does_not_fit_one_call_is_summarized_in_parts_oldest_first() {
    let config = json!({"context": {"window": 8000, "threshold": 1, "keepLastTurns": 1}});
    let mut scene = Scene::configured(&config);
    for name in ["one", "two", "three", "four"] {
        scene.prompt_with(&format!("question-{name} {}", "x".repeat(7000)), [say("yes")]);
    }
    let asked = scene.model.requests().len();
    let turn = scene.prompt_with("/compact", [say("PART-1"), say("PART-2")]);
    says(&turn, "🗜️ compressed 6 messages → 1 summary + 2 kept*");
    let parts: Vec<_> = scene.model.requests()[asked..].iter().map(|r| shown(r)[0].1.clone()).collect();
    let has = |part: &str, words: &[&str]| words.iter().all(|word| part.contains(word));
    assert!(has(&parts[0], &["question-one", "question-two"]) && !has(&parts[0], &["question-three"]));
    assert!(has(&parts[1], &["PART-1", "question-three"]) && !has(&parts[1], &["question-two"]));
    assert!(!has(&parts[1], &["question-four"]), "it is kept");
    scene.prompt_with("go on", [say("done")]);
    assert!(shown(&last(&scene))[0].1.ends_with("PART-2"));
    scene.finish();
}

#[test]
fn a_summary_that_is_itself_too_long_is_made_of_smaller_parts() {
    let mut scene = keeping(1);
    for name in ["one", "two", "three", "four", "five", "six"] {
        scene.prompt_with(&format!("question-{name} {}", "x".repeat(2000)), [say("yes")]);
    }
    let refused = openai::refuse(400, TOO_LONG[0]);
    let parts = [refused, say("PART-1"), say("PART-2"), say("PART-3")];
    says(&scene.prompt_with("/compact", parts), "🗜️ compressed 10 messages*");
    assert!(shown(&last(&scene))[0].1.contains("question-five"));
    scene.finish();
}

#[test]
fn a_picture_is_not_sent_to_be_summarized() {
    let mut scene = keeping(1);
    scene.model.push(say("nice"));
    let prompt =
        json!([{"type": "text", "text": "look"}, {"type": "image", "mimeType": "image/png", "data": PNG}]);
    let params = json!({"sessionId": scene.session, "prompt": prompt});
    scene.client.call("session/prompt", params);
    talk(&mut scene, &["two"]);
    says(&scene.prompt_with("/compact", [say("SUMMARY")]), "🗜️ compressed 2 messages*");
    let raw = String::from_utf8(last(&scene).raw).unwrap();
    assert!(raw.contains("[image left out]") && !raw.contains(PNG), "{raw}");
    scene.finish();
}

// By itself.

#[test]
fn past_the_threshold_it_happens_once_before_the_next_call() {
    let context = json!({"window": 100_000, "threshold": 0.5, "keepLastTurns": 1});
    let mut scene = Scene::configured(&json!({"context": context}));
    scene.prompt_with("question-one", [say_at("answer-one", 50_000)]);
    scene.prompt_with("question-two", [say_at("answer-two", 50_001)]);
    assert_eq!(scene.model.requests().len(), 2, "at the threshold nothing happens yet");
    let turn = scene.prompt_with("question-three", [say("SUMMARY"), say_uncounted("answer-three")]);
    says(&turn, "answer-three");
    thinks(&turn, "🗜️ compressed 4 messages → 1 summary + 1 kept (50001 → * tokens, *s)");
    let sum = openai::USAGE.0 + openai::USAGE.1;
    assert_eq!(turn.response["result"]["usage"]["totalTokens"], sum, "the summary was paid for");
    let sent = shown(&last(&scene));
    assert!(
        sent[0].1.ends_with("SUMMARY") && sent[2..] == [("user".into(), "question-three".into())],
        "{sent:?}"
    );
    // The figure is forgotten: what is there now is small.
    let turn = scene.prompt_with("question-four", [say_uncounted("answer-four")]);
    assert_eq!(turn.thoughts(), "");
    scene.finish();
}

#[test]
fn without_a_count_the_length_is_estimated() {
    let context = json!({"window": 40_000, "threshold": 0.5, "keepLastTurns": 1});
    let mut scene = Scene::configured(&json!({"context": context}));
    let long = "x".repeat(60_000);
    scene.prompt_with(&format!("one {long}"), [say_uncounted("answer-one")]);
    let turn = scene.prompt_with(&format!("two {long}"), [say("SUMMARY"), say_uncounted("answer-two")]);
    thinks(&turn, "🗜️ compressed 2 messages → 1 summary + 1 kept*");
    // A count comes before the estimate, whatever that would be.
    scene.prompt_with("three", [say_at("answer-three", 10)]);
    let turn = scene.prompt_with(&format!("four {long}{long}"), [say_at("answer-four", 10)]);
    assert_eq!((turn.text().as_str(), turn.thoughts().as_str()), ("answer-four", ""));
    scene.finish();
}

#[test]
fn a_failed_summary_does_not_stop_the_turn_and_is_not_tried_at_each_call() {
    let context = json!({"window": 100_000, "threshold": 0.5, "keepLastTurns": 1});
    let mut scene = Scene::configured(&json!({"context": context, "mode": "full-access"}));
    scene.prompt_with("question-one", [say_at("answer-one", 60_000)]);
    let call = openai::call([("c", "bash", json!({"command": "echo hi"}))]);
    let refused = openai::refuse(400, "no");
    let turn = scene.prompt_with("question-two", [refused, call, say_at("answer-two", 60_000)]);
    says(&turn, "answer-two");
    thinks(&turn, "[compact: failed, history kept: 400 Bad Request: no]");
    // The next turn may try again.
    let turn = scene.prompt_with("question-three", [say("SUMMARY"), say("answer-three")]);
    thinks(&turn, "🗜️ compressed*");
    scene.finish();
}

#[test]
fn one_long_turn_alone_is_left_to_the_model() {
    let context = json!({"window": 100_000, "threshold": 0.5, "keepLastTurns": 0});
    let mut scene = Scene::configured(&json!({"context": context, "mode": "full-access"}));
    let call = stream([
        openai::tool_call(0, "c", "bash", &json!({"command": "echo hi"}).to_string()),
        finish("tool_calls"),
        usage(90_000, 5),
    ]);
    let turn = scene.prompt_with("question-one", [call, say("answer-one")]);
    assert_eq!((turn.text().as_str(), turn.thoughts().as_str()), ("answer-one", ""));
    scene.finish();
}

#[test]
fn a_provider_that_says_too_long_gets_the_call_again_once_it_is_shorter() {
    for words in TOO_LONG {
        let mut scene = keeping(1);
        for name in ["one", "two"] {
            scene.prompt_with(&format!("question-{name} {}", "x".repeat(3000)), [say("yes")]);
        }
        let turn =
            scene.prompt_with("question-three", [openai::refuse(400, words), say("SUMMARY"), say("done")]);
        says(&turn, "done");
        thinks(&turn, "🗜️ compressed 4 messages → 1 summary + 1 kept*");
        let sent = shown(&last(&scene));
        assert!(sent[0].1.ends_with("SUMMARY") && sent.last().unwrap().1 == "question-three", "{sent:?}");
        scene.finish();
    }
}

#[test]
fn in_the_middle_of_a_turn_its_calls_keep_their_results() {
    let mut scene = keeping(1);
    scene.prompt_with(&format!("question-one {}", "x".repeat(3000)), [say("yes")]);
    let call = openai::call([
        ("a", "bash", json!({"command": "echo first"})),
        ("b", "bash", json!({"command": "echo second"})),
    ]);
    let turn = scene
        .prompt_with("question-two", [call, openai::refuse(400, TOO_LONG[1]), say("SUMMARY"), say("done")]);
    says(&turn, "done");
    let roles: Vec<_> = shown(&last(&scene)).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "tool", "tool"]);
    scene.finish();
}

/// The error of a turn and its notice.
#[track_caller]
fn failed(turn: &Turn, words: &str) {
    assert_eq!(turn.response["error"]["code"], -32603, "{}", turn.response);
    let message = turn.error();
    assert!(message.contains(words), "{message}");
    assert!(turn.text().contains(words), "{}", turn.text());
}

#[test]
fn too_long_with_nothing_to_compact_is_the_providers_error() {
    let mut scene = keeping(2);
    let turn = scene.prompt_with("question-one", [openai::refuse(400, TOO_LONG[1])]);
    failed(&turn, "prompt is too long");
    assert_eq!(turn.thoughts(), "");
    assert_eq!(scene.model.requests().len(), 1);
    history_is_whole(&mut scene, &[]);
    scene.finish();
}

#[test]
fn too_long_whatever_is_done_about_it_ends_in_the_error_and_a_session_that_goes_on() {
    let mut scene = keeping(1);
    talk(&mut scene, &["one"]);
    // No summary can be made.
    let turn =
        scene.prompt_with("question-two", [openai::refuse(400, TOO_LONG[1]), openai::refuse(400, "no")]);
    failed(&turn, "prompt is too long");
    thinks(&turn, "[compact: failed, history kept: 400 Bad Request: no]");
    history_is_whole(&mut scene, &["one"]);
    // There is one, and it was not enough.
    scene.prompt_with(&"x".repeat(3000), [say("yes")]);
    let too_long = || openai::refuse(400, TOO_LONG[1]);
    let turn = scene.prompt_with("question-four", [too_long(), say("SUMMARY"), too_long()]);
    failed(&turn, "prompt is too long");
    // There is one, and it is longer than what was there.
    talk(&mut scene, &["five"]);
    let long = say(&"s".repeat(9000));
    let turn = scene.prompt_with("question-six", [too_long(), long]);
    failed(&turn, "prompt is too long");
    says(&scene.prompt_with("question-seven", [say("done")]), "done");
    scene.finish();
}

#[test]
fn turns_to_keep_are_kept_even_if_they_are_too_long_themselves() {
    let mut scene = keeping(2);
    scene.prompt_with("question-one", [say("yes")]);
    let before = scene.model.requests().len();
    let turn = scene.prompt_with("question-two", [openai::refuse(400, TOO_LONG[1])]);
    assert!(turn.error().starts_with("[LLM API error: 400"), "{}", turn.response);
    assert_eq!(scene.model.requests().len(), before + 1, "nothing is older than the last two");
    says(&scene.prompt_with("/new", []), "🆕 New session*");
    says(&scene.prompt_with("question-three", [say("done")]), "done");
    scene.finish();
}

// Saved.

#[test]
fn a_loaded_session_shows_all_that_was_said_and_the_model_gets_what_it_had() {
    const TURNS: usize = 150;
    let mut scene = keeping(2);
    for turn in 0..TURNS {
        scene.prompt_with(&format!("question-{turn}"), [say(&format!("answer-{turn}"))]);
    }
    says(
        &scene.prompt_with("/compact", [say("SUMMARY")]),
        "🗜️ compressed 296 messages → 1 summary + 4 kept*",
    );
    let session = json!({"sessionId": scene.session});
    scene.client.call("session/close", session);
    let params = json!({"sessionId": scene.session, "cwd": scene.client.cwd(), "mcpServers": []});
    let id = scene.client.request("session/load", params);
    let session = scene.session.clone();
    let load = scene.client.wait_turn(&session, &id);
    assert!(load.response.get("error").is_none(), "{}", load.response);
    let said = |update: &Value| update["content"]["text"].as_str().unwrap_or_default().to_owned();
    let replayed: Vec<_> =
        load.updates.iter().filter(|update| !update["content"].is_null()).map(said).collect();
    let mut expected: Vec<_> =
        (0..TURNS).flat_map(|turn| [format!("question-{turn}"), format!("answer-{turn}")]).collect();
    expected.insert(2 * (TURNS - 2), "🗜️ SUMMARY".to_owned());
    assert_eq!(replayed, expected);
    scene.prompt_with("go on", [say("done")]);
    let sent = shown(&last(&scene));
    assert!(sent[0].1.ends_with("SUMMARY"));
    assert_eq!(sent.len(), 2 + 4 + 1, "{sent:?}");
    assert_eq!((sent[2].1.as_str(), sent[6].1.as_str()), ("question-148", "go on"));
    scene.finish();
}

// Cancelled, and beside other turns.

#[test]
fn a_cancel_in_the_middle_keeps_the_history() {
    let context = json!({"window": 100_000, "threshold": 0.5, "keepLastTurns": 1});
    for prompt in ["/compact", "a question past the threshold"] {
        let mut scene = Scene::configured(&json!({"context": context}));
        talk(&mut scene, &["one"]);
        scene.prompt_with("question-two", [say_at("answer-two", 60_000)]);
        let (answer, _hold) = talking([]);
        scene.model.push(answer);
        let session = scene.session.clone();
        let id = scene.client.send_prompt(&session, prompt);
        assert!(is_summary_request(&scene.model.wait_request(2)));
        scene.client.notify("session/cancel", json!({"sessionId": session}));
        let turn = scene.client.wait_turn(&session, &id);
        assert_eq!(turn.stop_reason(), "cancelled", "{}", turn.response);
        assert!(!turn.text().contains("🗜️"));
        // The count is as it was, so this prompt begins with a summary, which fails.
        scene.model.push(openai::refuse(400, "no"));
        history_is_whole(&mut scene, &["one", "two"]);
        scene.finish();
    }
}

#[test]
fn the_command_waits_for_a_running_turn_and_a_prompt_behind_it_for_the_command() {
    let mut scene = keeping(1);
    talk(&mut scene, &["one"]);
    let (answer, hold) = talking([]);
    scene.model.push(and_stops(answer));
    let session = scene.session.clone();
    let turn = scene.client.send_prompt(&session, "question-two");
    scene.client.wait_update(said_something);
    let (summary, held) = openai::say("SUMMARY").hold();
    drop(held);
    scene.model.push(summary);
    let compact = scene.client.send_prompt(&session, "/compact");
    let mode = json!({"sessionId": session, "modeId": "ask"});
    let refused = scene.client.call("session/set_mode", mode);
    assert_eq!(refused["error"]["code"], -32600, "the command was taken");
    hold.release();
    assert_eq!(scene.client.wait_turn(&session, &turn).stop_reason(), "end_turn");
    scene.model.push(say("answer-three"));
    let behind = scene.client.send_prompt(&session, "question-three");
    says(&scene.client.wait_turn(&session, &compact), "🗜️ compressed 2 messages → 1 summary + 2 kept*");
    assert_eq!(scene.client.wait_turn(&session, &behind).stop_reason(), "end_turn");
    assert_eq!(shown(&last(&scene)).last().unwrap().1, "question-three");
    scene.finish();
}

#[test]
fn the_command_waits_for_another_sessions_turn() {
    let mut scene = keeping(1);
    talk(&mut scene, &["one", "two"]);
    let compacted = scene.session.clone();
    scene.new_session();
    let (answer, hold) = talking([]);
    scene.model.push(and_stops(answer));
    let other = scene.session.clone();
    let turn = scene.client.send_prompt(&other, "question-three");
    scene.client.wait_update(said_something);
    let compact = scene.client.send_prompt(&compacted, "/compact");
    scene.client.wait_update(|update| {
        update["content"]["text"].as_str().is_some_and(|text| text.starts_with("Waiting for another session"))
    });
    assert_eq!(scene.model.requests().len(), 3, "no summary was asked for");
    scene.model.push(say("SUMMARY"));
    hold.release();
    assert_eq!(scene.client.wait_turn(&other, &turn).stop_reason(), "end_turn");
    says(&scene.client.wait_turn(&compacted, &compact), "🗜️ compressed 2 messages*");
    scene.finish();
}

#[test]
fn a_command_that_waits_can_be_cancelled() {
    let mut scene = keeping(1);
    talk(&mut scene, &["one", "two"]);
    scene.client.permission(Permission::Test);
    scene.model.push(openai::call([("c", "bash", json!({"command": "sleep 300"}))]));
    let session = scene.session.clone();
    let turn = scene.client.send_prompt(&session, "question-three");
    scene.client.wait_update(|update| update["status"] == "in_progress");
    let compact = scene.client.send_prompt(&session, "/compact");
    scene.client.notify("$/cancel_request", json!({"requestId": compact}));
    assert_eq!(scene.client.wait_response(&compact)["result"]["stopReason"], "cancelled");
    scene.client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(scene.client.wait_turn(&session, &turn).stop_reason(), "cancelled");
    scene.finish();
}

#[test]
fn it_is_among_the_commands() {
    let mut scene = keeping(1);
    let params = json!({"cwd": scene.client.cwd(), "mcpServers": []});
    scene.client.request("session/new", params);
    let update = scene.client.wait_update(|update| update["sessionUpdate"] == "available_commands_update");
    let expected =
        json!({"name": "compact", "description": "Compress the history now, keeping the last turns"});
    assert_eq!(update["availableCommands"][1], expected);
    scene.finish();
}

// What a client is told of the context.

#[test]
fn the_context_is_what_the_last_call_took_and_nothing_is_invented() {
    let mut scene = Scene::configured(&json!({"context": {"window": 9000}, "mode": "full-access"}));
    let call = openai::call([("c", "bash", json!({"command": "echo hi"}))]);
    let turn = scene.prompt_with("go", [call, say_at("one", 300), say_uncounted("not asked for")]);
    let figures: Vec<_> = turn
        .of_kind("usage_update")
        .map(|u| (u["used"].as_u64().unwrap(), u["size"].as_u64().unwrap()))
        .collect();
    assert_eq!(figures, [(openai::USAGE.0 + openai::USAGE.1, 9000), (305, 9000)]);
    assert_eq!(turn.response["result"]["usage"]["inputTokens"], openai::USAGE.0 + 300);
    let turn = scene.prompt("again");
    assert_eq!(turn.text(), "not asked for");
    assert_eq!(turn.of_kind("usage_update").count(), 0);
    assert!(turn.response["result"].get("usage").is_none());
    scene.finish();
}

#[test]
fn a_summary_is_no_context() {
    let mut scene = keeping(1);
    talk(&mut scene, &["one", "two"]);
    let turn = scene.prompt_with("/compact", [say("SUMMARY")]);
    assert_eq!(turn.of_kind("usage_update").count(), 0);
    scene.finish();
}
