//! Every recorded stream, whole and in pieces; what goes out; what is learnt from refusals.
use super::*;
use crate::model::failure::Trouble;
use crate::model::recorded::{self, Heard, contains, image};
use crate::model::{Arguments, AssistantMessage, Call, Image, Message, Part, Reply, Stop, ToolSpec};
use crate::settings::llm::{Format, Thinking};

fn decode<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Result<Reply, Trouble>, Heard, AssistantMessage) {
    recorded::decode(OpenAi::new(&endpoint()).reply(), pieces)
}

fn endpoint() -> Endpoint {
    recorded::endpoint(Format::OpenAiCompletions)
}

fn body(openai: &OpenAi, messages: &[Message], tools: &[ToolSpec]) -> Value {
    recorded::body(openai, messages, tools)
}

#[test]
fn every_recorded_stream_is_understood_however_it_is_cut() {
    let recorded = recorded::of_format("openai");
    assert!(recorded.len() > 30, "the recorded streams are missing");
    recorded.iter().for_each(|each| each.check_however_cut(&OpenAi::new(&endpoint())));
}

#[test]
fn what_came_back_goes_out_as_recorded() {
    let recorded = recorded::of_format("openai");
    recorded.iter().for_each(|each| each.check_round_trip(&OpenAi::new(&endpoint())));
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
fn a_reply_that_goes_on_behind_its_end_is_noticed() {
    let (mut heard, cancel) = (Heard::default(), crate::cancel::CancelSource::new().token());
    let mut ear = crate::model::reply::Ear::new(&mut heard, &cancel);
    let mut stream = OpenAi::new(&endpoint()).reply();
    for (chunk, told, went_on) in [
        (delta(json!({"content": "a"}), None), 0, false),
        (delta(json!({"content": "b"}), Some("stop")), 1, false),
        (delta(json!({"content": "c"}), None), 1, true),
        (delta(json!({"content": "d"}), Some("stop")), 2, false),
    ] {
        stream.push(&stream_of(&[&chunk]), &mut ear).unwrap();
        assert_eq!((stream.ends_told(), stream.went_on()), (told, went_on), "{chunk}");
    }
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
    let untitled = "<!doctype html>\n<p>It works!</p>\n".as_bytes();
    let trouble = decode([untitled]).0.unwrap_err();
    let message = trouble.into_failure(None).message;
    assert!(
        message.contains("no model reply: <!doctype html> <p>It works!</p>; check the base URL"),
        "{message}"
    );
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

fn result(output: &str, images: Vec<Image>) -> Message {
    recorded::result("c1", output, images)
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
    let request = Request { model: "m", thinking: None, system: "", messages, tools: &[] };
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
    let request = Request { model: "m", thinking: None, system: "", messages: &[], tools: &[] };
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
    let request = Request { model: "m", thinking: None, system: "", messages: &[], tools: &tools };
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
        assert_eq!(OpenAi::new(&Endpoint { base_url: base.into(), ..endpoint() }).url(), expected);
    }
}
