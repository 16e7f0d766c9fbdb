//! Every recorded stream, whole and in pieces; what goes out; what is learnt from refusals.
use super::*;
use crate::cancel::Cancelled;
use crate::model::failure::Trouble;
use crate::model::{
    Arguments, AssistantMessage, Call, Delta, Image, Listener, Message, Part, Reply, Stop, ToolResult,
    ToolSpec,
};
use crate::settings::Secret;
use crate::settings::llm::Format;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Hears deltas and joins them.
#[derive(Default)]
struct Heard {
    text: String,
    reasoning: String,
    calls: Vec<String>,
    deltas: usize,
}

impl Listener for Heard {
    fn delta(&mut self, delta: Delta<'_>) {
        self.deltas += 1;
        match delta {
            Delta::Text(text) => self.text.push_str(text),
            Delta::Reasoning(text) => self.reasoning.push_str(text),
            Delta::CallBegun(name) => self.calls.push(name.to_owned()),
        }
    }

    fn pause(&mut self, _: &str, _: Duration) -> Result<(), Cancelled> {
        panic!("decoding never waits")
    }
}

/// Decodes a body that comes in these pieces; also what was heard, and what is left of a broken reply.
fn decode<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Reply, Trouble>, Heard, AssistantMessage) {
    let (mut stream, mut heard) = (ReplyStream::default(), Heard::default());
    let all = || {
        for piece in pieces {
            stream.push(piece, &mut heard)?;
            if stream.is_done() {
                break;
            }
        }
        stream.finish(&mut heard)
    };
    let result = all();
    (result, heard, stream.partial())
}

fn endpoint() -> Endpoint {
    Endpoint {
        provider: "LOCAL".into(),
        format: Format::OpenAiCompletions,
        api_key: Some(Secret::new("sk")),
        base_url: "http://localhost/v1".into(),
        model: "m".into(),
        temperature: None,
        max_tokens: None,
        thinking: None,
        extra_body: Map::new(),
    }
}

fn body(openai: &OpenAi, messages: &[Message], tools: &[ToolSpec]) -> Value {
    let request = Request { model: "m", system: "be good", messages, tools };
    serde_json::from_slice(&openai.body(&request)).unwrap()
}

/// One reading of the file against one expectation.
fn matches(pieces: &[&[u8]], expected: &Value) -> Result<(), String> {
    let (result, heard, partial) = decode(pieces.iter().copied());
    let equal = |name: &str, got: Value| {
        let wanted = &expected[name];
        if got == *wanted { Ok(()) } else { Err(format!("{name}: {got} instead of {wanted}")) }
    };
    equal("text", json!(heard.text))?;
    equal("reasoning", json!(heard.reasoning))?;
    let reply = match (result, &expected["error"]) {
        (Ok(reply), Value::Null) => reply,
        (Ok(_), error) => return Err(format!("no error, but {error}")),
        (Err(trouble), error) => {
            assert_eq!(partial.text, heard.text, "text that was shown is kept");
            let retried = trouble.retry() != crate::model::failure::Retry::Never;
            let failure = trouble.into_failure(None);
            let words = error["message_contains"].as_str().ok_or(format!("unexpected {failure:?}"))?;
            let status = error["code"].as_u64().map(|code| code as u16);
            let right = failure.message.contains(words)
                && (error["retryable"].is_null() || error["retryable"] == retried)
                && (status.is_none() || failure.status == status);
            return if right { Ok(()) } else { Err(format!("{failure:?}, retried: {retried}")) };
        }
    };
    assert_eq!((&reply.message.text, &reply.message.reasoning), (&heard.text, &heard.reasoning));
    assert_eq!(
        reply.message.calls.iter().map(|call| call.name.clone()).collect::<Vec<_>>().len(),
        heard.calls.len()
    );
    calls_match(&reply.message.calls, &expected["tool_calls"])?;
    let finish = match reply.stop {
        Stop::End if !reply.message.calls.is_empty() => "tool_calls",
        Stop::End => "stop",
        Stop::MaxTokens => "length",
        Stop::Refusal => "content_filter",
        Stop::Pause => "pause_turn",
        Stop::Unknown(ref other) => other,
    };
    equal("finish", json!(finish))?;
    usage_matches(reply.usage, &expected["usage"])
}

fn calls_match(calls: &[Call], expected: &Value) -> Result<(), String> {
    let expected = expected.as_array().unwrap();
    let same = |(call, wanted): (&Call, &Value)| {
        let id = wanted["id"] == call.id || wanted["id"] == "*" && !call.id.is_empty();
        let arguments = match &call.arguments {
            Arguments::Object(members) => wanted["arguments"] == Value::Object(members.clone()),
            Arguments::Invalid(raw) => wanted["arguments_invalid"] == *raw,
        };
        id && arguments && wanted["name"] == call.name
    };
    let right = calls.len() == expected.len() && calls.iter().zip(expected).all(same);
    if right { Ok(()) } else { Err(format!("calls: {calls:?}")) }
}

fn usage_matches(usage: Option<crate::model::Usage>, expected: &Value) -> Result<(), String> {
    let Some(expected) = expected.as_object() else { return Ok(()) };
    let usage = usage.ok_or("no usage")?;
    for (name, wanted) in expected {
        let got = match name.as_str() {
            "input_tokens" => Some(usage.input),
            "output_tokens" => Some(usage.output),
            "cached_input_tokens" => usage.cached_read,
            "reasoning_tokens" => usage.reasoning,
            other => return Err(format!("unknown expectation {other}")),
        };
        if json!(got) != *wanted {
            return Err(format!("usage: {usage:?}"));
        }
    }
    Ok(())
}

/// The expectation itself, then with each of the accepted replacements.
fn accepted(case: &Value) -> Vec<Value> {
    let mut expectations = vec![case["expect"].clone()];
    for other in case["accept"].as_array().into_iter().flatten() {
        let mut expectation = case["expect"].clone();
        for (name, value) in other.as_object().unwrap() {
            expectation[name] = value.clone();
        }
        expectations.push(expectation);
    }
    expectations
}

#[track_caller]
fn check(name: &str, how: &str, pieces: &[&[u8]], case: &Value) {
    let results: Vec<_> = accepted(case).iter().map(|expected| matches(pieces, expected)).collect();
    assert!(results.iter().any(Result::is_ok), "{name}, {how}: {results:?}");
}

fn recorded() -> Vec<(String, Vec<u8>, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/model/openai");
    let mut cases: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sse"))
        .map(|path| {
            let expected = fs::read(path.with_extension("expected.json")).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(&path).unwrap(), serde_json::from_slice(&expected).unwrap())
        })
        .collect();
    cases.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    assert!(cases.len() > 30, "the recorded streams are missing");
    cases
}

#[test]
fn every_recorded_stream_is_understood_however_it_is_cut() {
    for (name, stream, case) in recorded() {
        check(&name, "whole", &[&stream], &case);
        check(&name, "byte by byte", &stream.chunks(1).collect::<Vec<_>>(), &case);
        for cut in 0..=stream.len() {
            let (a, b) = stream.split_at(cut);
            check(&name, &format!("cut at {cut}"), &[a, b], &case);
        }
    }
}

#[test]
fn what_came_back_goes_out_as_recorded() {
    for (name, stream, case) in recorded() {
        let Some(wanted) = case["round_trip"]["must_contain"].as_array() else { continue };
        let message = decode([stream.as_slice()]).0.unwrap().message;
        let result = |call: &Call| {
            Message::ToolResult(ToolResult {
                call_id: call.id.clone(),
                name: call.name.clone(),
                output: "done".into(),
                images: Vec::new(),
                failed: false,
            })
        };
        let results: Vec<_> = message.calls.iter().map(result).collect();
        let messages: Vec<_> = std::iter::once(Message::Assistant(message)).chain(results).collect();
        let sent = body(&OpenAi::new(&endpoint()), &messages, &[]);
        for each in wanted {
            assert!(contains(&sent, each), "{name}: {each} is not in {sent}");
        }
    }
}

/// Whether some value in `tree` has all that `wanted` has.
fn contains(tree: &Value, wanted: &Value) -> bool {
    fn has(value: &Value, wanted: &Value) -> bool {
        match (value, wanted) {
            (Value::Object(value), Value::Object(wanted)) => {
                wanted.iter().all(|(name, wanted)| value.get(name).is_some_and(|value| has(value, wanted)))
            }
            (Value::Array(value), Value::Array(wanted)) => {
                wanted.iter().all(|wanted| value.iter().any(|value| has(value, wanted)))
            }
            _ => value == wanted,
        }
    }
    has(tree, wanted)
        || match tree {
            Value::Object(members) => members.values().any(|each| contains(each, wanted)),
            Value::Array(list) => list.iter().any(|each| contains(each, wanted)),
            _ => false,
        }
}

fn stream_of(chunks: &[&str]) -> Vec<u8> {
    chunks.iter().flat_map(|chunk| format!("data: {chunk}\n\n").into_bytes()).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it reads better with `json!` in the call")]
fn delta(delta: Value, finish: Option<&str>) -> String {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).to_string()
}

#[test]
fn one_delta_in_is_one_delta_out() {
    let chunks: Vec<String> =
        (0..100).map(|number| delta(json!({"content": format!("{number} ")}), None)).collect();
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).chain(["[DONE]"]).collect();
    let (reply, heard, _) = decode([stream_of(&chunks).as_slice()]);
    assert_eq!((reply.unwrap().stop, heard.deltas), (Stop::End, 100));
}

#[test]
fn a_reply_ends_as_its_finish_reason_says() {
    for (finish, stop) in [
        ("stop", Stop::End),
        ("end_turn", Stop::End),
        ("function_call", Stop::End),
        ("length", Stop::MaxTokens),
        ("model_context_window_exceeded", Stop::MaxTokens),
        ("content_filter", Stop::Refusal),
        ("something_new", Stop::Unknown("something_new".into())),
    ] {
        let chunks = [delta(json!({"content": "a"}), None), delta(json!({}), Some(finish))];
        let stream = stream_of(&chunks.each_ref().map(String::as_str));
        assert_eq!(decode([stream.as_slice()]).0.unwrap().stop, stop, "{finish}");
    }
}

#[test]
fn done_without_a_finish_reason_needs_something_to_show_for_it() {
    let call = |arguments: &str| {
        delta(json!({"tool_calls": [{"index": 0, "function": {"name": "a", "arguments": arguments}}]}), None)
    };
    for (chunk, expected) in [
        (delta(json!({"content": "a"}), None), Ok(Stop::End)),
        (call("{}"), Ok(Stop::End)),
        (call("{\"a"), Err(Trouble::CutOff)),
        (delta(json!({"reasoning": "a"}), None), Err(Trouble::Empty)),
        (delta(Value::Null, None), Err(Trouble::Empty)),
    ] {
        let stream = stream_of(&[&chunk, "[DONE]"]);
        assert_eq!(decode([stream.as_slice()]).0.map(|reply| reply.stop), expected, "{chunk}");
    }
    assert_eq!(decode([b"".as_slice()]).0, Err(Trouble::CutOff));
}

#[test]
fn a_message_that_restates_the_stream_is_not_heard_twice() {
    let whole = json!({"choices": [{"delta": null, "message": {"content": "a"}, "finish_reason": "stop"}]})
        .to_string();
    let stream = stream_of(&[&delta(json!({"content": "a"}), None), &whole]);
    assert_eq!(decode([stream.as_slice()]).1.text, "a");
    assert_eq!(decode([stream_of(&[&whole]).as_slice()]).1.text, "a", "unless it is all there is");
}

#[test]
fn a_call_cut_off_by_the_limit_is_no_call_to_run() {
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "a", "arguments": "{\"path\":\"hel"}}]});
    for finish in ["length", "stop"] {
        let stream = stream_of(&[&delta(call.clone(), None), &delta(json!({}), Some(finish))]);
        let reply = decode([stream.as_slice()]).0.unwrap();
        assert_eq!(reply.message.calls[0].arguments, Arguments::Invalid("{\"path\":\"hel".into()));
    }
}

#[test]
fn errors_in_a_stream_are_heard_in_every_dress() {
    for stream in [
        "event: error\ndata: {\"message\":\"overloaded\"}\n\n",
        "event: error\ndata: overloaded\n\n",
        "error: {\"message\":\"overloaded\",\"code\":503}\n\n",
        "data: {\"choices\":null,\"error\":{\"message\":\"overloaded\"}}\n\n",
        "data: {\"error_type\":\"x\",\"error_message\":\"overloaded\"}\n\n",
        "{\"error\":\"overloaded\"}",
    ] {
        let trouble = decode([stream.as_bytes()]).0.unwrap_err();
        assert_ne!(trouble.retry(), crate::model::failure::Retry::Never, "{stream}");
        assert!(trouble.into_failure(None).message.contains("overloaded"), "{stream}");
    }
}

#[test]
fn what_is_no_reply_is_called_by_its_name() {
    let page = b"<html><title>Sign in to the airport</title></html>".as_slice();
    assert_eq!(decode([page]).0, Err(Trouble::NoReply("Sign in to the airport".into())));
    assert_eq!(decode([b"{\"choices\":[{".as_slice()]).0, Err(Trouble::CutOff));
}

#[test]
fn content_in_parts_and_refusals_are_text() {
    let parts = json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]});
    let stream = stream_of(&[&delta(parts, None), &delta(json!({"refusal": "no"}), Some("stop"))]);
    let (reply, heard, _) = decode([stream.as_slice()]);
    assert_eq!((heard.text.as_str(), heard.reasoning.as_str()), ("ano", "hm"));
    assert_eq!(reply.unwrap().stop, Stop::Refusal);
}

fn with_calls(arguments: Arguments, opaque: Option<Value>) -> Message {
    let call = Call { id: "c1".into(), name: "bash".into(), arguments, extra: Map::new() };
    Message::Assistant(AssistantMessage {
        text: String::new(),
        reasoning: "hm".into(),
        opaque,
        calls: vec![call],
    })
}

fn image() -> Image {
    Image { mime_type: "image/png", base64: "QUJD".into() }
}

fn result(output: &str, images: Vec<Image>) -> Message {
    Message::ToolResult(ToolResult {
        call_id: "c1".into(),
        name: "read_file".into(),
        output: output.into(),
        images,
        failed: false,
    })
}

#[test]
fn a_conversation_goes_out_in_this_form() {
    let messages = [
        Message::User(vec![Part::Text("look".into()), Part::Image(image())]),
        with_calls(Arguments::Object(Map::new()), None),
        result("a picture", vec![image()]),
        result("text", Vec::new()),
        Message::Assistant(AssistantMessage::default()),
        Message::User(vec![Part::Text("a".into()), Part::Text("b".into())]),
    ];
    let tools =
        [ToolSpec { name: "bash".into(), description: "runs".into(), schema: json!({"type": "object"}) }];
    let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}});
    assert_eq!(
        body(&OpenAi::new(&endpoint()), &messages, &tools),
        json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true},
            "tools": [{"type": "function", "function": {
                "name": "bash", "description": "runs", "parameters": {"type": "object"},
            }}],
            "messages": [
                {"role": "system", "content": "be good"},
                {"role": "user", "content": [{"type": "text", "text": "look"}, url]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "a picture"},
                {"role": "tool", "tool_call_id": "c1", "content": "text"},
                {"role": "user", "content": [
                    {"type": "text", "text": "What `read_file` returned as an image:"}, url,
                ]},
                {"role": "user", "content": "a\n\nb"},
            ],
        })
    );
}

#[test]
fn settings_become_members_and_ours_stay_ours() {
    let Value::Object(extra_body) = json!({"top_k": 3, "model": "evil", "stream": false, "temperature": 1.0})
    else {
        panic!("an object")
    };
    let endpoint = Endpoint {
        max_tokens: Some(9),
        temperature: Some(0.5),
        thinking: Some(Thinking::Budget(20_000)),
        extra_body,
        ..endpoint()
    };
    let sent = body(&OpenAi::new(&endpoint), &[], &[]);
    assert_eq!((&sent["model"], &sent["stream"], &sent["top_k"]), (&json!("m"), &json!(true), &json!(3)));
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(9), &json!(1.0)));
    assert_eq!(sent["reasoning_effort"], "high");
}

#[test]
fn bad_arguments_go_back_as_an_empty_object_and_unknown_members_as_they_came() {
    let messages = [with_calls(Arguments::Invalid("{a:".into()), None)];
    let sent = body(&OpenAi::new(&endpoint()), &messages, &[]);
    assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["arguments"], "{}");
    let signed = json!({"extra_content": {"google": {"thought_signature": "s"}}});
    let Value::Object(extra) = signed.clone() else { panic!("an object") };
    let Message::Assistant(mut message) = with_calls(Arguments::Object(Map::new()), None) else {
        panic!("it is")
    };
    message.calls[0].extra = extra;
    let sent = body(&OpenAi::new(&endpoint()), &[Message::Assistant(message)], &[]);
    assert!(contains(&sent, &signed), "{sent}");
}

fn said(words: &str) -> Complaint {
    Complaint::from_body(json!({"error": {"message": words}}).to_string().as_bytes())
}

#[track_caller]
fn adapt(openai: &mut OpenAi, words: &str, messages: &[Message]) -> bool {
    let request = Request { model: "m", system: "", messages, tools: &[] };
    openai.adapt(400, &said(words), &request)
}

#[test]
fn reasoning_goes_back_by_its_own_name_until_the_server_minds() {
    let messages = [with_calls(Arguments::Object(Map::new()), Some(json!({"reasoning_field": "reasoning"})))];
    let mut openai = OpenAi::new(&endpoint());
    assert_eq!(body(&openai, &messages, &[])["messages"][1]["reasoning"], "hm");
    assert!(adapt(&mut openai, "Unknown field 'reasoning'", &messages));
    assert_eq!(body(&openai, &messages, &[])["messages"][1].get("reasoning"), None);
    assert!(!adapt(&mut openai, "Unknown field 'reasoning'", &messages), "once");
    assert!(adapt(&mut openai, "The `reasoning_content` must be passed back", &messages));
    assert_eq!(body(&openai, &messages, &[])["messages"][1]["reasoning_content"], "hm");
}

#[test]
fn a_refused_option_is_left_out_or_renamed_once_and_for_all() {
    let mut openai = OpenAi::new(&Endpoint { max_tokens: Some(9), temperature: Some(0.0), ..endpoint() });
    assert!(adapt(
        &mut openai,
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
        &[]
    ));
    let sent = body(&openai, &[], &[]);
    assert_eq!((sent.get("max_tokens"), &sent["max_completion_tokens"]), (None, &json!(9)));
    assert!(!adapt(&mut openai, "'max_completion_tokens' is too large", &[]), "both names were tried");
    assert!(adapt(&mut openai, "Unrecognized request argument supplied: stream_options", &[]));
    assert!(adapt(&mut openai, "Only the default temperature (1) is supported", &[]));
    let sent = body(&openai, &[], &[]);
    assert_eq!((sent.get("stream_options"), sent.get("temperature")), (None, None));
    assert!(!adapt(&mut openai, "invalid 'messages'", &[]));
    let request = Request { model: "m", system: "", messages: &[], tools: &[] };
    let mut fresh = OpenAi::new(&endpoint());
    assert!(!fresh.adapt(500, &said("stream_options"), &request), "only a 400 or 422 is about the request");
}

#[test]
fn refused_images_become_a_note() {
    let messages = [Message::User(vec![Part::Image(image())])];
    let mut openai = OpenAi::new(&endpoint());
    assert!(!adapt(&mut openai, "image input is not supported", &[]), "there is none");
    assert!(adapt(&mut openai, "image input is not supported", &messages));
    let sent = body(&openai, &messages, &[]);
    assert!(sent["messages"][1]["content"].as_str().unwrap().contains("takes no images"), "{sent}");
    assert!(!adapt(&mut openai, "image input is not supported", &messages), "once");
}

#[test]
fn schemas_are_simplified_after_a_complaint_about_them() {
    let schema = json!({"type": "object", "properties": {
        "format": {"type": ["string", "null"], "pattern": "^a", "maxLength": 9}, "b": {"$ref": "#/x"},
    }});
    let tools = [ToolSpec { name: "t".into(), description: String::new(), schema }];
    let request = Request { model: "m", system: "", messages: &[], tools: &tools };
    let mut openai = OpenAi::new(&endpoint());
    assert!(openai.adapt(400, &said("failed to parse grammar"), &request));
    assert_eq!(
        body(&openai, &[], &tools)["tools"][0]["function"]["parameters"],
        json!({"type": "object", "properties": {"format": {"type": "string"}, "b": {}}})
    );
}

#[test]
fn the_address_is_the_base_url_and_the_path() {
    for (base, expected) in [
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/d?api-version=1", "http://h/d/chat/completions?api-version=1"),
    ] {
        assert_eq!(url(base), expected);
    }
}
