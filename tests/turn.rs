//! What a turn does with what a model says: bad calls, cut replies, loops, failures, and how it ends.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use std::net::TcpListener;
use support::client::{Launch, Permission, Turn};
use support::model_server::{Answer, End};
use support::openai::{self, finish, say, stream, text, tool_call, usage};
use support::scene::Scene;

/// A PNG of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn bash(id: &'static str, command: &str) -> (&'static str, &'static str, Value) {
    (id, "bash", json!({"command": command}))
}

/// The roles of the last request, behind the system prompt.
fn roles(scene: &Scene) -> Vec<String> {
    let last = scene.model.requests().pop().unwrap();
    last.messages()[1..].iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
}

/// A prompt that was answered with an error; its message and data.
#[track_caller]
fn error(turn: &Turn) -> (&str, &Value) {
    assert_eq!(turn.response["error"]["code"], -32603, "{}", turn.response);
    (turn.error(), &turn.response["error"]["data"])
}

// Calls that can't be made.

#[test]
fn an_unknown_tool_is_a_failed_call_that_names_the_tools_there_are() {
    let mut scene = Scene::new();
    for name in ["Read_File", "foo", "bash ", "functions.bash", "mcp_x_y", "task"] {
        let ran = scene.run(name, json!({"path": "a", "command": "touch ran"}));
        assert!(ran.asked.is_none(), "{name}");
        let ran = ran.failed("There is no tool");
        for known in ["bash", "read_file", "write_file", "edit_file", "read_skill"] {
            assert!(ran.told.contains(known), "{}", ran.told);
        }
    }
    scene.run(&"x".repeat(200), json!({})).failed("There is no tool");
    let tricky = scene.run("a\u{202e}b\n", json!({})).failed("There is no tool");
    assert!(!tricky.call["title"].as_str().unwrap().contains(['\u{202e}', '\n']));
    assert!(!scene.at("ran").exists());
    scene.finish();
}

/// The model server refuses a request whose calls have no object for arguments.
#[test]
fn arguments_that_are_no_object_run_nothing_and_do_not_poison_the_history() {
    let mut scene = Scene::new();
    for arguments in [
        "{a:1}",
        "\"x\"",
        "[]",
        "[{\"command\": \"touch ran\"}]",
        "null",
        "",
        "true",
        "{\"command\":\"C:\\Users\"}",
        "{\"command\":\"touch ran",
        "{\"command\":\"touch ran\"",
        "{\"command\":\"touch ran\"}}",
        "touch ran",
    ] {
        for reason in ["tool_calls", "stop"] {
            let turn =
                scene.answers([stream([tool_call(0, "c", "bash", arguments), finish(reason)]), say("I see")]);
            assert_eq!(turn.stop_reason(), "end_turn", "{arguments}: {}", turn.response);
            let ran = scene.came_of(&turn).pop().unwrap();
            assert_eq!(ran.status(), "failed", "{arguments}: {ran:#?}");
            assert!(ran.asked.is_none() && !ran.told.is_empty(), "{arguments}: {ran:#?}");
        }
    }
    assert!(!scene.at("ran").exists());
    scene.finish();
}

/// Clients parse our lines with a limit of their own, and a call's arguments are in them.
#[test]
fn arguments_nested_deeply_run_nothing_and_break_no_client() {
    let mut scene = Scene::new();
    for depth in [60, 100, 124, 126, 127, 10_000] {
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let plain = format!("{{\"command\": \"echo x >> ran\", \"x\": {nested}}}");
        for arguments in [plain.clone(), json!(plain).to_string()] {
            let call = stream([tool_call(0, "c", "bash", &arguments), finish("tool_calls")]);
            let turn = scene.answers([call, say("I see")]);
            let ran = scene.came_of(&turn).pop().unwrap();
            assert_eq!(ran.status(), if depth == 60 { "completed" } else { "failed" }, "{depth}");
        }
    }
    assert_eq!(scene.bytes("ran"), b"x\nx\n");
    scene.finish();
}

#[test]
fn ids_that_are_empty_or_come_again_are_calls_of_their_own() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    for [first, second] in [["c", "c"], ["", ""], ["c", ""], ["c", "d"]] {
        let turn =
            scene.answers([openai::call([bash(first, "echo 1"), bash(second, "echo 2")]), say("done")]);
        let told: Vec<_> = scene.came_of(&turn).into_iter().map(|ran| ran.done().told).collect();
        assert_eq!(told, ["1\n", "2\n"]);
    }
    scene.finish();
}

#[test]
fn arguments_given_as_an_object_or_encoded_twice_run() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let arguments = json!({"command": "echo x >> ran"});
    let mut as_object = tool_call(0, "c", "bash", "");
    as_object["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"] = arguments.clone();
    let twice = json!(arguments.to_string()).to_string();
    for call in [as_object, tool_call(0, "c", "bash", &twice)] {
        let turn = scene.answers([stream([call, finish("tool_calls")]), say("done")]);
        scene.came_of(&turn).pop().unwrap().done();
    }
    assert_eq!(scene.bytes("ran"), b"x\nx\n");
    scene.finish();
}

#[test]
fn arguments_of_a_wrong_type_say_what_was_expected_and_are_not_asked_about() {
    let mut scene = Scene::new();
    scene.write("f", "a");
    for (tool, arguments, why) in [
        ("bash", json!({}), "command"),
        ("bash", json!({"command": ["touch", "ran"]}), "`command` to be a string"),
        ("bash", json!({"command": " \n"}), "empty"),
        ("bash", json!({"command": null}), "command"),
        ("bash", json!({"command": "touch ran", "timeoutSeconds": "5"}), "timeoutSeconds"),
        ("bash", json!({"command": "touch ran", "timeoutSeconds": -1}), "timeoutSeconds"),
        ("read_file", json!({}), "`path` is missing"),
        ("read_file", json!({"path": 1}), "`path` must be a string"),
        ("read_file", json!({"path": ""}), "empty"),
        ("read_file", json!({"path": "f", "offset": 0}), "offset"),
        ("read_file", json!({"path": "f", "limit": "2"}), "limit"),
        ("write_file", json!({"path": "new"}), "`content` is missing"),
        ("write_file", json!({"path": "new", "content": {"a": 1}}), "`content` must be a string"),
        ("edit_file", json!({"path": "f", "old_string": "a"}), "`new_string` is missing"),
        (
            "edit_file",
            json!({"path": "f", "old_string": "a", "new_string": "b", "replace_all": "yes"}),
            "replace_all",
        ),
        ("edit_file", json!({"path": "f", "old_string": "a", "new_string": "a"}), "equal"),
        ("read_file", json!({"path": "f\u{0}"}), "f"),
        ("read_skill", json!({"name": "../../etc"}), ""),
        ("read_skill", json!({}), "name"),
    ] {
        let ran = scene.run(tool, arguments.clone());
        assert!(ran.asked.is_none(), "{tool} {arguments}");
        ran.failed(why);
    }
    assert!(!scene.at("ran").exists() && !scene.at("new").exists());
    assert_eq!(scene.bytes("f"), b"a");
    scene.finish();
}

// Replies that are not whole.

#[test]
fn a_reply_cut_off_at_its_limit_runs_nothing() {
    let mut scene = Scene::new();
    let whole = json!({"path": "a", "content": "x"}).to_string();
    for calls in [
        vec![tool_call(0, "c", "write_file", "{\"path\": \"a\", \"content\": \"hel")],
        vec![tool_call(0, "c", "write_file", &whole)],
        vec![tool_call(0, "c", "write_file", &whole), tool_call(1, "d", "write_file", "{\"pa")],
        vec![tool_call(0, "c", "write_file", "")],
    ] {
        let count = calls.len();
        let turn = scene.answers([stream(calls.into_iter().chain([finish("length")]))]);
        assert_eq!(turn.stop_reason(), "max_tokens", "{}", turn.response);
        let shown: Vec<_> = turn.of_kind("tool_call").collect();
        assert_eq!(shown.len(), count);
        for call in shown {
            assert_eq!(turn.status(call["toolCallId"].as_str().unwrap()), Some("failed"));
            assert!(call["title"].as_str().unwrap().starts_with("write_file"));
        }
        // The next request is one a strict provider takes, and tells what happened.
        assert_eq!(scene.answers([say("I see")]).stop_reason(), "end_turn");
        assert!(scene.results().pop().unwrap().contains("output limit"));
    }
    assert!(scene.client.take_requests("session/request_permission").is_empty());
    assert!(!scene.at("a").exists());
    scene.finish();
}

#[test]
fn whatever_a_whole_reply_says_about_its_end_its_calls_run() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    for reason in ["stop", "tool_calls", "function_call", "end_turn", "", "eos"] {
        let arguments = json!({"command": "echo x >> ran"}).to_string();
        let turn =
            scene.answers([stream([tool_call(0, "c", "bash", &arguments), finish(reason)]), say("done")]);
        assert_eq!(turn.stop_reason(), "end_turn", "{reason}: {}", turn.response);
        scene.came_of(&turn).pop().unwrap().done();
    }
    assert_eq!(scene.bytes("ran").len(), 12);
    scene.finish();
}

#[test]
fn a_reply_whose_connection_breaks_runs_nothing() {
    let mut scene = Scene::new();
    let arguments = json!({"command": "echo x >> ran"}).to_string();
    // A call was shown to be coming, or text: there is no second try, which would say it all again.
    for (half, end) in [
        (tool_call(0, "c", "bash", &arguments), End::Close),
        (tool_call(0, "c", "bash", "{\"comm"), End::Close),
        (tool_call(0, "c", "bash", ""), End::Reset),
        (text("half a"), End::Close),
    ] {
        let turn = scene.answers([Answer::sse().write(openai::event(&half)).end(end)]);
        let (message, _) = error(&turn);
        assert!(message.contains("cut off") && turn.text().ends_with(message), "{message}");
        assert_eq!(turn.of_kind("tool_call").count(), 0);
    }
    // Nothing but thoughts: it is tried again.
    let thought = Answer::sse().write(openai::event(&openai::reasoning("hm"))).end(End::Close);
    let turn = scene.answers([thought, say("better now")]);
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "better now"), "{}", turn.response);
    assert!(turn.thoughts().contains("trying again"), "{}", turn.thoughts());
    assert!(!scene.at("ran").exists());
    scene.finish();
}

#[test]
fn an_error_inside_a_stream_is_told_in_the_providers_words() {
    let mut scene = Scene::new();
    let bad = json!({"error": {"message": "the moon is full", "code": "bad_request"}});
    let mut beside = bad.clone();
    beside["choices"] = Value::Null;
    for (answer, said) in [
        (Answer::sse().write(openai::event(&bad)), ""),
        (Answer::sse().write(openai::event(&beside)), ""),
        (Answer::sse().write(format!("event: error\n{}", openai::event(&bad))), ""),
        (Answer::sse().write(openai::event(&text("well"))).write(openai::event(&bad)), "well"),
        (Answer::json(200, &bad), ""),
    ] {
        let turn = scene.answers([answer]);
        let (message, data) = error(&turn);
        assert!(message.contains("the moon is full"), "{message}");
        assert_eq!(turn.text(), format!("{said}{message}"));
        assert_eq!(data["reason"], "llm_error");
    }
    scene.finish();
}

#[test]
fn characters_cut_anywhere_by_the_network_arrive_whole() {
    const SAID: &str = "北京🙂é";
    let mut scene = Scene::new();
    let bytes =
        [openai::event(&text(SAID)), openai::event(&finish("stop")), "data: [DONE]\n\n".into()].concat();
    let begin = bytes.find(SAID).unwrap();
    for at in begin..=begin + SAID.len() {
        let turn = scene.answers([Answer::sse().write_split(bytes.as_bytes(), &[at])]);
        assert_eq!((turn.text().as_str(), turn.stop_reason()), (SAID, "end_turn"), "cut at {at}");
    }
    let turn = scene.answers([Answer::sse().write_in_pieces(bytes.as_bytes(), 1)]);
    assert_eq!(turn.text(), SAID);
    scene.finish();
}

#[test]
fn a_stream_that_is_not_utf8_is_text_with_replacements_or_an_error_and_the_next_prompt_works() {
    let mut scene = Scene::new();
    let event = openai::event(&text("a?b"));
    let (before, after) = event.split_once('?').unwrap();
    let bytes = [before.as_bytes(), b"\xff\xc3", after.as_bytes()].concat();
    let end = format!("{}data: [DONE]\n\n", openai::event(&finish("stop")));
    let turn = scene.answers([Answer::sse().write(bytes).write(end)]);
    assert_eq!(turn.text(), "a\u{fffd}\u{fffd}b");
    assert_eq!(scene.answers([say("fine")]).text(), "fine");
    scene.finish();
}

// Loops and limits.

#[test]
fn the_same_call_with_the_same_result_ends_the_turn_at_the_third_time() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let same = |id| openai::call([bash(id, "echo x >> ran; echo same")]);
    let turn = scene.answers([same("1"), same("2"), same("3")]);
    assert_eq!(turn.stop_reason(), "max_turn_requests");
    assert!(turn.thoughts().contains("3 times"), "{}", turn.thoughts());
    assert_eq!(scene.bytes("ran"), b"x\nx\nx\n");
    // What was said goes on; a new turn counts anew.
    assert_eq!(scene.answers([same("4"), same("5"), say("done")]).stop_reason(), "end_turn");
    scene.finish();
}

#[test]
fn a_refused_call_made_over_and_over_ends_the_turn() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    let same = |id| openai::call([bash(id, "touch ran")]);
    let turn = scene.answers([same("1"), same("2"), same("3")]);
    assert_eq!(turn.stop_reason(), "max_turn_requests");
    assert_eq!(scene.client.take_requests("session/request_permission").len(), 3);
    let unknown = |id| openai::call([(id, "nothing", json!({}))]);
    assert_eq!(scene.answers([unknown("1"), unknown("2"), unknown("3")]).stop_reason(), "max_turn_requests");
    let broken = || stream([tool_call(0, "c", "bash", "{a:1}"), finish("tool_calls")]);
    assert_eq!(scene.answers([broken(), broken(), broken()]).stop_reason(), "max_turn_requests");
    assert!(!scene.at("ran").exists());
    scene.finish();
}

#[test]
fn the_same_call_many_times_in_one_reply_is_stopped_and_the_rest_is_answered() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let turn = scene.answers([openai::call(["1", "2", "3", "4", "5"].map(|id| bash(id, "echo x >> ran")))]);
    assert_eq!(turn.stop_reason(), "max_turn_requests");
    assert_eq!(scene.bytes("ran"), b"x\nx\nx\n");
    assert_eq!(turn.of_kind("tool_call").count(), 5);
    assert_eq!(scene.answers([say("fine")]).text(), "fine"); // to a provider that wants a result of each
    scene.finish();
}

#[test]
fn polling_and_turns_of_two_calls_are_not_punished() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let poll = |id| openai::call([bash(id, "echo x >> log; wc -l < log")]);
    assert_eq!(
        scene
            .answers(["1", "2", "3", "4", "5", "6"].map(poll).into_iter().chain([say("done")]))
            .stop_reason(),
        "end_turn"
    );
    let two = |id: &'static str| openai::call([bash(id, if id < "4" { "true" } else { "echo y" })]);
    assert_eq!(
        scene.answers(["1", "4", "2", "5", "3", "6"].map(two).into_iter().chain([say("done")])).stop_reason(),
        "end_turn"
    );
    scene.finish();
}

#[test]
fn a_turn_ends_at_the_limit_of_its_model_calls_and_says_so() {
    let mut scene = Scene::configured(&json!({"turns": {"maxModelCalls": 2}, "mode": "full-access"}));
    let turn = scene.answers([openai::call([bash("1", "echo 1")]), openai::call([bash("2", "echo 2")])]);
    assert_eq!(turn.stop_reason(), "max_turn_requests");
    assert!(turn.thoughts().contains("2 model calls"), "{}", turn.thoughts());
    assert_eq!(turn.text(), "[no reply]");
    assert_eq!(scene.answers([say("on we go")]).text(), "on we go");
    scene.finish();
}

// How a turn ends.

#[test]
fn a_refusal_leaves_the_models_context_with_its_whole_turn() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    assert_eq!(scene.prompt_with("first", [say("hello")]).stop_reason(), "end_turn");
    let refusal = [openai::call([bash("1", "true")]), stream([text("I can"), finish("content_filter")])];
    let turn = scene.prompt_with("second", refusal);
    assert_eq!((turn.stop_reason(), turn.text().as_str()), ("refusal", "I can"));
    scene.prompt_with("third", [say("fine")]);
    assert_eq!(roles(&scene), ["user", "assistant", "user"]);
    let last = scene.model.requests().pop().unwrap();
    assert!(!String::from_utf8_lossy(&last.raw).contains("second"));
    scene.finish();
}

#[test]
fn a_turn_without_a_word_says_that_there_is_no_reply() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let quiet = || stream([openai::reasoning("hm"), finish("stop")]);
    assert_eq!(scene.answers([quiet()]).text(), "[no reply]");
    assert_eq!(scene.answers([openai::call([bash("1", "true")]), quiet()]).text(), "[no reply]");
    scene.finish();
}

#[test]
fn usage_is_summed_over_the_turns_model_calls_and_never_invented() {
    let mut scene = Scene::new();
    let turn = scene.answers([
        stream([
            tool_call(0, "c", "bash", "{\"command\":\"true\"}"),
            finish("tool_calls"),
            openai::usage(100, 7),
        ]),
        stream([text("a"), finish("stop"), openai::usage(200, 3)]),
    ]);
    let usage = &turn.response["result"]["usage"];
    assert_eq!(
        (&usage["inputTokens"], &usage["outputTokens"], &usage["totalTokens"]),
        (&json!(300), &json!(10), &json!(310))
    );
    let turn = scene.answers([stream([text("a"), finish("stop")])]);
    assert!(turn.response["result"]["usage"].is_null(), "{}", turn.response);
    scene.finish();
}

#[test]
fn a_failed_model_call_is_told_word_for_word_and_the_session_goes_on() {
    let mut scene = Scene::new();
    for (status, words, wanted) in [
        (401, "bad key", "401 Unauthorized: bad key"),
        (402, "no money", "402 Payment Required: no money"),
        (404, "no such model", "404 Not Found: no such model"),
        (400, "maximum context length is 5", "too long for this model"),
    ] {
        let before = scene.model.requests().len();
        let turn = scene.answers([openai::refuse(status, words)]);
        let (message, data) = error(&turn);
        assert!(message.starts_with("[LLM API error: ") && message.contains(wanted), "{message}");
        assert_eq!(turn.text(), message, "one chunk, the same words");
        assert_eq!(turn.of_kind("agent_message_chunk").count(), 1);
        assert_eq!((&data["reason"], &data["status"]), (&json!("llm_error"), &json!(status)));
        let line = data["error"].as_str().unwrap();
        assert!(message.contains(line) && !line.contains('\n'), "{data}");
        assert_eq!(scene.model.requests().len(), before + 1, "not tried again");
    }
    assert_eq!(scene.prompt_with("now", [say("fine")]).text(), "fine");
    assert_eq!(roles(&scene), ["user"], "questions without any answer are taken back");
    scene.finish();
}

#[test]
fn what_was_done_before_a_failure_stays_in_the_history() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let turn =
        scene.prompt_with("do it", [openai::call([bash("1", "echo made")]), openai::refuse(400, "odd")]);
    error(&turn);
    scene.prompt_with("again", [say("fine")]);
    assert_eq!(roles(&scene), ["user", "assistant", "tool", "user"]);
    assert_eq!(scene.results(), ["made\n"]);
    let broken = Answer::sse().write(openai::event(&text("half"))).end(End::Close);
    error(&scene.prompt_with("third", [broken]));
    scene.prompt_with("fourth", [say("fine")]);
    let last = scene.model.requests().pop().unwrap();
    let raw = String::from_utf8_lossy(&last.raw);
    assert!(raw.contains("half") && !raw.contains("LLM API error"), "{raw}");
    scene.finish();
}

#[test]
fn an_endpoint_that_is_not_there_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut client = Launch::new().model(&format!("http://{address}/v1")).start();
    let session = client.open();
    let turn = client.prompt(&session, "hi");
    let (message, data) = error(&turn);
    assert!(message.contains(&address.to_string()), "{message}");
    assert!(turn.thoughts().contains("trying again"), "told while it waits");
    assert_eq!((turn.text().as_str(), data.get("status")), (message, None));
    client.finish();
}

// What goes to the model.

#[test]
fn a_picture_reaches_the_model() {
    let mut scene = Scene::new();
    scene.model.push(say("nice"));
    let session = scene.session.clone();
    let prompt =
        json!([{"type": "text", "text": "look"}, {"type": "image", "mimeType": "image/png", "data": PNG}]);
    let response = scene.client.call("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(response["result"]["stopReason"], "end_turn");
    let url = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}")}});
    let content = scene.model.wait_request(0).messages()[1]["content"].clone();
    assert!(content.as_array().unwrap().contains(&url), "{content}");
    for wrong in [json!("AAAA"), json!("no base64!"), json!("")] {
        let prompt = json!([{"type": "image", "mimeType": "image/png", "data": wrong}]);
        let response = scene.client.call("session/prompt", json!({"sessionId": session, "prompt": prompt}));
        assert_eq!(response["error"]["code"], -32602, "{response}");
    }
    let empty = scene.client.call("session/prompt", json!({"sessionId": session, "prompt": []}));
    assert_eq!(empty["error"]["code"], -32602);
    scene.finish();
}

#[test]
fn a_picture_that_is_read_reaches_the_model_too() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let ran = scene.bash(&format!("echo {PNG} | base64 -d > dot.txt")).done();
    assert_eq!(ran.told, "[no output]");
    let ran = scene.run("read_file", json!({"path": "dot.txt"})).done();
    assert!(ran.told.contains("a picture, image/png"), "{}", ran.told);
    let last = String::from_utf8(scene.model.requests().pop().unwrap().raw).unwrap();
    assert!(last.contains(&format!("data:image/png;base64,{PNG}")), "{last}");
    scene.finish();
}

#[test]
fn only_an_exact_slash_command_is_one() {
    let mut scene = Scene::new();
    scene.prompt_with("remember me", [say("yes")]);
    for text in ["/x", "/new now", "/compactor", "please /new", "/NEW"] {
        assert_eq!(scene.prompt_with(text, [say("as text")]).text(), "as text", "{text}");
        let last = scene.model.requests().pop().unwrap();
        assert_eq!(last.messages().last().unwrap()["content"], text);
    }
    let turn = scene.prompt("  /new\n");
    assert_eq!((turn.stop_reason(), turn.of_kind("agent_message_chunk").count()), ("end_turn", 1));
    scene.prompt_with("who am I?", [say("no idea")]);
    assert_eq!(roles(&scene), ["user"]);
    scene.finish();
}

#[test]
fn one_session_that_has_it_all_go_wrong_leaves_the_other_alone() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("reject"));
    scene.prompt_with("calm", [say("yes")]);
    let calm = scene.session.clone();
    scene.new_session();
    error(&scene.answers([openai::refuse(400, "\u{0}\u{202e}```\n")]));
    error(
        &scene.answers([Answer::sse()
            .write("data: {\"choices\": 3}\n\n")
            .write("data: \u{1}\n\n")
            .write("data: {\"error\": {\"message\": \"x\"}}\n\n")]),
    );
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    scene.answers([stream([tool_call(0, "", "", &deep), finish("tool_calls")]), say("done")]);
    scene.run("bash", json!({"command": "x".repeat(300_000)})).failed("at most 131071");
    scene.run("bash", json!({"command": "x".repeat(100_000)})).failed("rejected");
    scene.session = calm;
    assert_eq!(scene.prompt_with("still there?", [say("yes")]).text(), "yes");
    assert_eq!(roles(&scene), ["user", "assistant", "user"]);
    scene.finish();
}

#[test]
fn the_cost_of_a_session_is_told_where_prices_are_set() {
    let mut scene = Scene::configured(&json!({"prices": {"test-model": {"input": 2, "output": 10}}}));
    let costs = |turn: &Turn| -> Vec<Value> {
        turn.of_kind("usage_update").map(|update| update["cost"].clone()).collect()
    };
    let reply = || stream([text("a"), finish("stop"), usage(500_000, 100_000)]);
    assert_eq!(costs(&scene.answers([reply()])), [json!({"amount": 2.0, "currency": "USD"})]);
    assert_eq!(costs(&scene.answers([reply()])), [json!({"amount": 4.0, "currency": "USD"})]);
    scene.finish();
}
