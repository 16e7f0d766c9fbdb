//! What is tried again, when, and what is asked for in another way: the model server refuses, case by case.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use support::client::Launch;
use support::model_server::{Answer, End};
use support::openai::{self, event, finish, reasoning, say, stream, text};
use support::scene::Scene;

/// The statuses that are worth another try.
const RETRIED: [u16; 9] = [408, 409, 425, 429, 500, 502, 503, 504, 529];

/// The first notice of a prompt that is tried again. It is cancelled then, as soon as this machine gets to it: how it
/// ends, and whether the server was asked again, nobody knows.
#[track_caller]
fn first_notice(scene: &mut Scene, answer: Answer) -> String {
    scene.model.push(answer);
    let session = scene.session.clone();
    let prompt = scene.client.send_prompt(&session, "go");
    let first = scene.client.wait_update(|update| update["sessionUpdate"] != "session_info_update");
    scene.client.notify("session/cancel", json!({"sessionId": session}));
    let turn = scene.client.wait_turn(&session, &prompt);
    assert_eq!(first["sessionUpdate"], "agent_thought_chunk", "{first} {}", turn.response);
    first["content"]["text"].as_str().unwrap().to_owned()
}

#[test]
fn of_the_statuses_these_are_tried_again_and_no_others() {
    let mut scene = Scene::new();
    for status in (400..=431).chain([444, 451, 460, 499]).chain(500..=530).chain([598, 599]) {
        if status == 413 {
            scene.new_session(); // there is nothing to compact
        }
        let before = scene.model.requests().len();
        let refusal = openai::refuse(status, "its words").header("retry-after", "0");
        if RETRIED.contains(&status) {
            let turn = scene.answers([refusal, say("hello")]);
            assert_eq!((turn.text().as_str(), turn.stop_reason()), ("hello", "end_turn"), "{status}");
            let told = turn.thoughts();
            assert!(told.starts_with(&status.to_string()) && told.contains("its words"), "{told}");
            assert!(told.contains("trying again in 0.0 s"), "{told}");
        } else {
            let turn = scene.answers([refusal]);
            let words = turn.error();
            assert!(words.contains(&status.to_string()) && words.contains("its words"), "{words}");
            assert_eq!(turn.thoughts(), "", "{status}");
            assert_eq!(scene.model.requests().len(), before + 1, "{status}");
        }
    }
    scene.finish();
}

#[test]
fn tries_end_after_the_fifth_with_the_last_words() {
    let mut scene = Scene::new();
    let refusal = |n: u32| openai::refuse(503, &format!("busy {n}")).header("retry-after", "0");
    let turn = scene.answers((1..=5).map(refusal));
    assert!(turn.error().contains("503 Service Unavailable: busy 5"), "{}", turn.response);
    assert_eq!(turn.thoughts().matches("trying again").count(), 4);
    assert_eq!(scene.model.requests().len(), 5);
    scene.finish();
}

#[test]
fn the_server_says_when_within_a_minute() {
    let mut scene = Scene::new();
    let in_an_hour = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(3600));
    for (headers, wait) in [
        (vec![("retry-after", "2")], "2.0 s"),
        (vec![("retry-after", "0")], "0.0 s"),
        (vec![("Retry-After", "100000")], "60.0 s"),
        (vec![("retry-after", "99999999999999999999999")], "60.0 s"),
        (vec![("retry-after", &in_an_hour)], "60.0 s"),
        (vec![("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], "0.0 s"),
        (vec![("retry-after", "9"), ("retry-after-ms", "1500")], "1.5 s"),
        // What says nothing leaves the wait as it would be: half a second, more or less.
        (vec![("retry-after", "soon")], "0."),
        (vec![("retry-after", "-5")], "0."),
        (vec![("retry-after-ms", "NaN")], "0."),
        (vec![], "0."),
    ] {
        let refusal = headers
            .iter()
            .fold(openai::refuse(429, "slow down"), |answer, (name, value)| answer.header(name, value));
        let notice = match wait {
            "0.0 s" => scene.answers([refusal, say("hello")]).thoughts(),
            _ => first_notice(&mut scene, refusal),
        };
        let expected = format!("429 Too Many Requests: slow down; trying again in {wait}");
        assert!(notice.starts_with(&expected), "{headers:?}: {notice}");
        assert!(wait != "0." || !notice.contains("in 0.0 s"), "{headers:?}: {notice}");
    }
    scene.client.finish();
}

#[test]
fn an_error_inside_a_stream_counts_like_its_status() {
    let mut scene = Scene::new();
    let told = |error: Value| Answer::sse().write(event(&json!({"error": error})));
    for status in RETRIED {
        let notice = first_notice(&mut scene, told(json!({"message": "its words", "code": status})));
        assert!(notice.contains("its words") && notice.contains(&status.to_string()), "{notice}");
    }
    for passing in [
        json!({"message": "its words", "code": "529"}),
        json!({"message": "its words", "type": "overloaded_error"}),
        json!({"message": "its words", "code": "rate_limit_exceeded"}),
        json!("its words: model is overloaded"),
    ] {
        let notice = first_notice(&mut scene, told(passing.clone()));
        assert!(notice.contains("its words"), "{passing}: {notice}");
    }
    for lasting in [
        json!({"message": "its words", "code": 400}),
        json!({"message": "its words", "code": 401}),
        json!({"message": "its words", "code": "insufficient_quota", "status": 429}),
        json!({"message": "its words", "code": 501}),
        json!("its words"),
    ] {
        let turn = scene.answers([told(lasting.clone())]);
        assert!(turn.error().contains("its words"), "{lasting}: {}", turn.response);
        assert_eq!(turn.thoughts(), "", "{lasting}");
    }
    scene.client.finish();
}

#[test]
fn a_reply_without_a_reply_is_tried_again_as_long_as_nothing_was_shown() {
    let mut scene = Scene::new();
    let thought = event(&reasoning("hm"));
    for (answer, words) in [
        (Answer::sse().write("data: [DONE]\n\n"), "empty answer"),
        (Answer::sse(), "cut off"),
        (Answer::sse().write(": waiting\n\n").end(End::Reset), "cut off"),
        (Answer::sse().write(": waiting\n\n").end(End::Close), "cut off"),
        (Answer::raw("").end(End::Reset), "no answer from http://127.0.0.1:"),
        (Answer::raw("").end(End::Close), "no answer from http://127.0.0.1:"),
        (Answer::raw("HTTP/1.1 200 OK\r\nx: ").end(End::Close), "no answer from http://127.0.0.1:"),
    ] {
        let notice = first_notice(&mut scene, answer);
        assert!(notice.contains(words) && notice.contains("trying again"), "{notice}");
    }
    scene.client.finish();
    let mut scene = Scene::new();
    // Reasoning is not the reply; text is, also if all the rest could be had again.
    let turn = scene.answers([Answer::sse().write(thought).end(End::Close), say("hello")]);
    assert_eq!(turn.text(), "hello");
    let overloaded = json!({"error": {"message": "overloaded", "code": 529}});
    let turn = scene.answers([stream([text("Well"), overloaded])]);
    assert!(turn.error().contains("529: overloaded") && turn.thoughts().is_empty(), "{}", turn.response);
    scene.finish();
}

#[test]
fn what_to_do_about_it_is_told() {
    let mut scene = Scene::new();
    for (status, words, advice) in [
        (401, "no", "401 Unauthorized: no; check the API key (bob --login)"),
        (402, "no", "402 Payment Required: no; the account has nothing left to spend"),
        (403, "no", "403 Forbidden: no; the API key may not do this: check its rights and the model's name"),
        (404, "no", "404 Not Found: no; check the model's name and the base URL"),
        (413, "no", "413 Payload Too Large: no; the request is too large: /compact"),
        (
            429,
            "insufficient_quota",
            "429 Too Many Requests: insufficient_quota; the account has nothing left",
        ),
        (400, "prompt is too long", "400 Bad Request: prompt is too long; the conversation is too long"),
        (400, "context_length_exceeded", "/compact it or start a new one"),
    ] {
        let turn = scene.answers([openai::refuse(status, words)]);
        assert!(turn.error().contains(advice), "{status}: {}", turn.response);
        assert_eq!(turn.thoughts(), "");
    }
    scene.finish();
}

#[test]
fn a_page_is_told_by_its_title() {
    let mut scene = Scene::new();
    let page = "<!DOCTYPE html><html><head><title> Attention\n Required! </title><style>p{}</style></head><body>\
                <script>alert(1)</script></body></html>";
    let page = |status| Answer::status(status).header("content-type", "text/html").write(page);
    let turn = scene.answers([page(403)]);
    assert!(turn.error().contains("403 Forbidden: Attention Required!; the API key"), "{}", turn.response);
    let turn = scene.answers([page(200)]);
    let words = turn.error();
    assert!(words.contains("Attention Required!") && !words.contains("alert"), "{words}");
    scene.finish();
}

// Asked in another way.

/// The bodies of the requests from this one on.
fn bodies(scene: &Scene, from: usize) -> Vec<Value> {
    scene.model.requests().split_off(from).into_iter().map(|request| request.body).collect()
}

#[test]
fn a_field_that_is_refused_by_name_is_left_out_or_spelled_otherwise_from_then_on() {
    let mut scene = Scene::with(|launch: Launch| {
        let more = r#"{"parallel_tool_calls": false, "max_completion_tokens": 7}"#;
        launch.env("LLM_TEMPERATURE", "0.5").env("LLM_EXTRA_BODY", more)
    });
    let missing = json!({"detail": [{"loc": ["body", "parallel_tool_calls"], "msg": "Extra inputs are not permitted"}]});
    let turn = scene.answers([
        openai::refuse(400, "Unsupported parameter: 'max_completion_tokens'"),
        Answer::json(422, &missing),
        openai::refuse(400, "Unrecognized request argument supplied: stream_options"),
        openai::refuse(422, "temperature is not supported with this model"),
        say("hello"),
    ]);
    assert_eq!((turn.text().as_str(), turn.thoughts().as_str()), ("hello", ""), "{}", turn.response);
    scene.answers([say("again")]);
    let bodies = bodies(&scene, 0);
    assert_eq!(bodies.len(), 6, "what was learnt is kept");
    let fields = ["max_completion_tokens", "parallel_tool_calls", "stream_options", "temperature"];
    for (number, body) in bodies.iter().enumerate() {
        let sent = fields.map(|field| body.get(field).is_some());
        assert_eq!(sent, [0, 1, 2, 3].map(|field| number <= field), "{number}");
        assert_eq!(body.get("max_tokens"), (number > 0).then_some(&json!(7)), "{number}");
    }
    scene.finish();
}

#[test]
fn a_field_that_is_refused_in_both_spellings_is_told() {
    let mut scene = Scene::with(|launch| launch.env("LLM_MAX_TOKENS", "9"));
    let turn = scene.answers([
        openai::refuse(400, "'max_tokens' is too large"),
        openai::refuse(400, "'max_completion_tokens' is too large"),
    ]);
    assert!(turn.error().contains("'max_completion_tokens' is too large"), "{}", turn.response);
    let [first, second] = &bodies(&scene, 0)[..] else { panic!("not two requests") };
    assert_eq!((&first["max_tokens"], first.get("max_completion_tokens")), (&json!(9), None));
    assert_eq!((second.get("max_tokens"), &second["max_completion_tokens"]), (None, &json!(9)));
    scene.finish();
}

#[test]
fn a_complaint_that_no_change_answers_is_told_after_one_request() {
    let mut scene = Scene::new();
    for (status, words) in [(400, "invalid 'messages'"), (422, "no"), (401, "stream_options")] {
        let before = scene.model.requests().len();
        assert!(scene.answers([openai::refuse(status, words)]).error().contains(words));
        assert_eq!(bodies(&scene, before).len(), 1);
    }
    scene.finish();
}

#[test]
fn pictures_that_are_refused_become_a_note_from_then_on() {
    const PNG: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let mut scene = Scene::new();
    scene.model.push(openai::refuse(400, "this model does not support image input"));
    scene.model.push(say("hello"));
    let prompt = json!([{"type": "image", "mimeType": "image/png", "data": PNG}]);
    let session = scene.session.clone();
    let response = scene.client.call("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(response["result"]["stopReason"], "end_turn", "{response}");
    scene.answers([say("again")]);
    let sent: Vec<_> = scene.model.requests().iter().map(|request| holds(&request.raw, PNG)).collect();
    assert_eq!(sent, [true, false, false]);
    let note = "takes no images";
    assert!(holds(&scene.model.wait_request(1).raw, note) && holds(&scene.model.wait_request(2).raw, note));
    scene.finish();
}

fn holds(raw: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(raw).contains(text)
}

#[test]
fn a_model_that_knows_no_tools_is_named_after_one_request() {
    let mut scene = Scene::new();
    for (status, words) in [
        (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
        (404, "No endpoints found that support tool use"),
        (400, "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"),
    ] {
        let before = scene.model.requests().len();
        let turn = scene.answers([openai::refuse(status, words)]);
        let told = turn.error();
        assert!(told.contains("Bob needs a model that can call tools; `test-model` can't"), "{told}");
        assert_eq!(bodies(&scene, before).len(), 1);
        assert_eq!(turn.of_kind("tool_call").count(), 0);
    }
    scene.finish();
}

/// What servers turn into a grammar has none of the words that they choke on, and if one chokes all the same it is
/// asked once more.
#[test]
fn tool_schemas_are_plain_and_asked_about_once() {
    let mut scene = Scene::new();
    let complaint = "failed to parse grammar";
    let turn = scene.answers([openai::refuse(400, complaint), openai::refuse(400, complaint)]);
    assert!(turn.error().contains(complaint), "{}", turn.response);
    scene.answers([stream([text("hello"), finish("stop")])]);
    let bodies = bodies(&scene, 0);
    assert_eq!(bodies.len(), 3);
    for tool in bodies.iter().flat_map(|body| body["tools"].as_array().unwrap()) {
        let function = &tool["function"];
        let name = function["name"].as_str().unwrap();
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name}");
        let found = troublesome(&function["parameters"]);
        assert_eq!(found, None, "{name}");
    }
    scene.finish();
}

/// The first member of a schema that some server can't turn into a grammar.
fn troublesome(schema: &Value) -> Option<String> {
    const WORDS: [&str; 8] =
        ["pattern", "format", "maxLength", "maxItems", "$ref", "oneOf", "anyOf", "allOf"];
    let Some(members) = schema.as_object() else {
        return schema.as_array().and_then(|items| items.iter().find_map(troublesome));
    };
    if members.get("type").is_some_and(Value::is_array) {
        return Some("type".into());
    }
    let properties = members.get("properties").and_then(Value::as_object);
    let below = properties.into_iter().flat_map(|properties| properties.values()).find_map(troublesome);
    below.or_else(|| members.keys().find(|key| WORDS.contains(&key.as_str())).cloned())
}
