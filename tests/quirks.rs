//! What backends make of the `openai-completions` form, through the whole program.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use support::client::Permission;
use support::model_server::Answer;
use support::openai::{self, event, finish, reasoning, say, stream, text, tool_call, usage};
use support::scene::Scene;

/// A piece of a call; what is `null` is left out, as servers do.
fn piece(index: Value, id: Value, name: Value, arguments: &str) -> Value {
    let mut function = json!({"arguments": arguments});
    let mut call = json!({"type": "function"});
    for (object, key, value) in [(&mut function, "name", name)] {
        if !value.is_null() {
            object[key] = value;
        }
    }
    for (key, value) in [("index", index), ("id", id)] {
        if !value.is_null() {
            call[key] = value;
        }
    }
    call["function"] = function;
    json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]})
}

/// The model server is strict: each call that comes back has an id of its own, a name and an object for arguments.
#[test]
fn calls_are_put_together_from_whatever_comes_of_them() {
    let null = || Value::Null;
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    for (what, pieces) in [
        (
            "whole calls without an index",
            vec![
                piece(null(), json!("a"), json!("bash"), "{\"command\":\"echo 1\"}"),
                piece(null(), json!("b"), json!("bash"), "{\"command\":\"echo 2\"}"),
            ],
        ),
        (
            "neither an index nor an id but at the first piece",
            vec![
                piece(null(), json!("a"), json!("bash"), "{\"command\":"),
                piece(null(), null(), null(), "\"echo 1\"}"),
                piece(null(), json!("b"), json!("bash"), "{\"command\""),
                piece(null(), null(), null(), ":\"echo 2\"}"),
            ],
        ),
        (
            "no id at all",
            vec![
                piece(json!(0), null(), json!("bash"), "{\"command\":\"echo 1\"}"),
                piece(json!(1), null(), json!("bash"), "{\"command\":\"echo 2\"}"),
            ],
        ),
        (
            "an id in every piece",
            vec![
                piece(json!(0), json!("a"), json!("bash"), "{\"command\":"),
                piece(json!(0), json!("a"), null(), "\"echo 1\"}"),
                piece(json!(1), json!("b"), json!("bash"), "{\"command\":"),
                piece(json!(1), json!("b"), null(), "\"echo 2\"}"),
            ],
        ),
        (
            "later pieces whose id and name are empty",
            vec![
                piece(json!(0), json!("a"), json!("bash"), "{\"command\":"),
                piece(json!(0), json!(""), json!(""), "\"echo 1\"}"),
                piece(json!(1), json!(""), json!("bash"), "{\"command\":"),
                piece(json!(1), json!(""), json!(""), "\"echo 2\"}"),
            ],
        ),
        (
            "index 0 for all of them",
            vec![
                piece(json!(0), json!("a"), json!("bash"), "{\"command\":\"echo 1\"}"),
                piece(json!(0), json!("b"), json!("bash"), "{\"command\":\"echo 2\"}"),
            ],
        ),
        (
            "calls that take turns",
            vec![
                piece(json!(0), json!("a"), json!("bash"), "{\"comm"),
                piece(json!(1), json!("b"), json!("bash"), "{\"command\":\"ec"),
                piece(json!(0), null(), null(), "and\":\"echo 1\"}"),
                piece(json!(1), null(), null(), "ho 2\"}"),
            ],
        ),
    ] {
        let turn = scene.answers([stream(pieces.into_iter().chain([finish("stop")])), say("done")]);
        assert_eq!(turn.stop_reason(), "end_turn", "{what}: {}", turn.response);
        let told: Vec<_> = scene.came_of(&turn).into_iter().map(|ran| ran.done().told).collect();
        assert_eq!(told, ["1\n", "2\n"], "{what}");
        let last = scene.model.requests().pop().unwrap();
        let assistant = last.messages().iter().rfind(|message| message["role"] == "assistant").unwrap();
        let ids: Vec<_> =
            assistant["tool_calls"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
        assert!(ids.len() == 2 && ids[0] != ids[1], "{what}: {ids:?}");
    }
    scene.finish();
}

#[test]
fn a_call_without_a_name_fails_and_the_turn_goes_on() {
    let mut scene = Scene::new();
    let nameless = piece(json!(0), json!("a"), Value::Null, "{\"command\":\"touch ran\"}");
    let turn = scene.answers([stream([nameless, finish("tool_calls")]), say("I see")]);
    assert_eq!(turn.stop_reason(), "end_turn", "{}", turn.response);
    scene.came_of(&turn).pop().unwrap().failed("There is no tool");
    assert!(!scene.at("ran").exists());
    scene.finish();
}

#[test]
fn chunks_without_a_choice_are_nothing_and_usage_counts_wherever_it_is() {
    let mut scene = Scene::new();
    let nothing = [
        json!({"choices": []}),
        json!({"choices": null}),
        json!({"id": "x"}),
        json!({}),
        json!({"choices": [{"delta": null}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": ""}]}),
        json!({"prompt_filter_results": [], "choices": []}),
    ];
    let between = |chunks: Vec<Value>| -> Vec<Value> {
        chunks.into_iter().flat_map(|chunk| nothing.iter().cloned().chain([chunk])).collect()
    };
    let with_usage = |mut chunk: Value| {
        chunk["usage"] = json!({"prompt_tokens": 7, "completion_tokens": 3});
        chunk
    };
    for chunks in [
        between(vec![text("hel"), text("lo"), finish("stop"), usage(7, 3)]),
        between(vec![text("hello"), with_usage(finish("stop"))]),
        between(vec![with_usage(text("hel")), with_usage(text("lo")), with_usage(finish("stop"))]),
        vec![with_usage(json!({"choices": null})), text("hello"), finish("stop"), json!({"choices": null})],
    ] {
        let turn = scene.answers([stream(chunks)]);
        assert_eq!((turn.text().as_str(), turn.stop_reason()), ("hello", "end_turn"), "{}", turn.response);
        let usage = &turn.response["result"]["usage"];
        assert_eq!((&usage["inputTokens"], &usage["outputTokens"]), (&json!(7), &json!(3)), "{usage}");
    }
    scene.finish();
}

#[test]
fn one_stream_with_every_oddity_arrives_cut_anywhere() {
    let mut scene = Scene::new();
    let (first, rest) = ("{\"choices\":[{\"index\":0,", "\"delta\":{\"content\":\"lo\"}}]}");
    let body = format!(
        ": hi\r\n\r\nevent: message\r\nid: 1\r\nretry: 5\r\ndata:{}\r\n\r\n:\n\ndata: : PING\n\n\rdata: {first}\rdata: {rest}\r\r\
         data: {}\n\ndata: [DONE]",
        text("hel"),
        finish("stop")
    );
    for size in [1, 2, 3, 7, 64, body.len()] {
        let turn = scene.answers([Answer::sse().write_in_pieces(body.as_bytes(), size)]);
        assert_eq!(
            (turn.text().as_str(), turn.stop_reason()),
            ("hello", "end_turn"),
            "{size}: {}",
            turn.response
        );
    }
    scene.finish();
}

/// The reasoning fields of the conversation's assistant messages in each request so far.
fn sent_back(scene: &Scene) -> Vec<Vec<Value>> {
    let of_request = |messages: &[Value]| {
        let assistants = messages.iter().filter(|message| message["role"] == "assistant");
        assistants.map(|message| message["reasoning_content"].clone()).collect()
    };
    scene.model.requests().iter().map(|request| of_request(request.messages())).collect()
}

fn thinks_and_calls(command: &str) -> Answer {
    let arguments = json!({"command": command}).to_string();
    stream([
        reasoning("I should "),
        reasoning("look."),
        tool_call(0, "c", "bash", &arguments),
        finish("tool_calls"),
    ])
}

#[test]
fn reasoning_goes_back_with_its_call_also_after_a_load() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let turn = scene.answers([thinks_and_calls("echo 1"), say("done")]);
    assert_eq!(turn.thoughts(), "I should look.");
    let (cwd, session) = (scene.client.cwd(), scene.session.clone());
    scene.client.call("session/close", json!({"sessionId": session}));
    let load = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let loaded = scene.client.call("session/load", load);
    assert!(loaded["result"].is_object(), "{loaded}");
    scene.answers([say("again")]);
    let reasoned = json!("I should look.");
    assert_eq!(sent_back(&scene), [vec![], vec![reasoned.clone()], vec![reasoned, Value::Null]]);
    scene.finish();
}

#[test]
fn a_server_that_minds_the_reasoning_gets_none_from_then_on() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let complaint = "Unknown field 'reasoning_content' in messages[2]";
    let turn = scene.answers([thinks_and_calls("echo 1"), openai::refuse(400, complaint), say("done")]);
    assert_eq!((turn.text().as_str(), turn.stop_reason()), ("done", "end_turn"), "{}", turn.response);
    scene.answers([thinks_and_calls("echo 2"), say("done")]);
    let (none, reasoned) = (Value::Null, json!("I should look."));
    assert_eq!(
        sent_back(&scene),
        [
            vec![],
            vec![reasoned],
            vec![none.clone()],
            vec![none.clone(), none.clone()],
            vec![none.clone(), none.clone(), none.clone()],
        ]
    );
    scene.finish();
}

#[test]
fn a_server_that_wants_a_reasoning_of_every_call_gets_one() {
    let mut scene = Scene::new();
    scene.client.permission(Permission::Select("allow_always"));
    let complaint = "Missing `reasoning_content` field in the assistant message at message index 2";
    let call = openai::call([("c", "bash", json!({"command": "echo 1"}))]);
    let turn = scene.answers([call, openai::refuse(400, complaint), say("done")]);
    assert_eq!((turn.text().as_str(), turn.stop_reason()), ("done", "end_turn"), "{}", turn.response);
    let sent = sent_back(&scene);
    assert!(sent[1] == [Value::Null] && sent[2][0].is_string(), "{sent:?}");
    scene.finish();
}

#[test]
fn silence_has_the_limits_that_the_user_set() {
    for (answer, words) in [
        (Answer::raw(""), "no answer from http://127.0.0.1:"),
        (Answer::sse().write(event(&reasoning("hm"))), "nothing came for 1 s"),
    ] {
        let mut scene = Scene::configured(&json!({"net": {"firstByteSeconds": 1, "idleSeconds": 1}}));
        scene.model.push(answer.end(support::model_server::End::HangOpen));
        scene.model.push(say("hello"));
        let turn = scene.prompt("go");
        assert_eq!(turn.text(), "hello", "{}", turn.response);
        assert!(turn.thoughts().contains(words), "{}", turn.thoughts());
        scene.finish();
    }
}
