//! Every recorded stream, whole and in pieces; what goes out; what is learnt from refusals.
use super::*;
use crate::model::recorded::{self, assistant, body, image, refuse, result, tool, user};
use crate::model::{Message, Part, Stop};
use crate::settings::llm::Format;

fn endpoint() -> Endpoint {
    recorded::endpoint(Format::OpenAiResponses)
}

fn responses() -> Responses {
    Responses::new(&endpoint())
}

fn say(text: &str) -> Message {
    user([Part::Text(text.into())])
}

#[test]
fn every_recorded_stream_is_understood_however_it_is_cut() {
    let recorded = recorded::of_format("responses");
    assert!(recorded.len() >= 30, "the recorded streams are missing");
    recorded.iter().for_each(|each| each.check_however_cut(&responses()));
}

#[test]
fn what_came_back_goes_out_as_recorded() {
    let recorded = recorded::of_format("responses");
    recorded.iter().for_each(|each| each.check_round_trip(&responses()));
}

#[test]
fn one_delta_in_is_one_delta_out() {
    let delta = |number| {
        format!(
            "data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"{number} \"}}\n\n"
        )
    };
    let stream: String = (0..100).map(delta).chain(["data: [DONE]\n\n".into()]).collect();
    let (reply, heard, _) = recorded::decode(responses().reply(), [stream.as_bytes()]);
    assert_eq!((reply.unwrap().stop, heard.deltas), (Stop::End, 100));
}

#[test]
fn numbers_past_all_bounds_are_no_harm() {
    let item = |index: u64| json!({"type": "response.output_item.added", "output_index": index, "item": {"type": "message"}});
    let stream = format!(
        "data: {}\n\ndata: {{\"type\":\"response.output_item.added\",\"item\":{{\"type\":\"message\"}}}}\n\n",
        item(u64::MAX)
    );
    let (reply, ..) = recorded::decode(responses().reply(), [stream.as_bytes()]);
    assert!(reply.is_err());
}

#[test]
fn a_conversation_goes_out_in_this_form() {
    let messages = [
        user([Part::Text("look".into()), Part::Image(image())]),
        assistant("I will.", &[("c1", "bash"), ("c2", "")], None),
        result("c1", "one", vec![image()]),
        result("c2", "two", Vec::new()),
        say("go on"),
    ];
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"});
    assert_eq!(
        body(&responses(), &messages, &[tool("bash", json!({"type": "object"}))]),
        json!({
            "model": "m", "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
            "instructions": "be good",
            "tools": [{
                "type": "function", "name": "bash", "description": "does it", "parameters": {"type": "object"},
                "strict": false,
            }],
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}, picture]},
                {"type": "message", "role": "assistant", "content": "I will."},
                {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{\"a\":1}"},
                {"type": "function_call", "call_id": "c2", "name": "unnamed", "arguments": "{\"a\":1}"},
                {"type": "function_call_output", "call_id": "c1", "output": "one"},
                {"type": "function_call_output", "call_id": "c2", "output": "two"},
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "What `read_file` returned as an image:"}, picture,
                ]},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go on"}]},
            ],
        })
    );
}

#[test]
fn what_another_format_kept_or_a_file_made_up_is_no_harm() {
    for opaque in [
        json!({"anthropic_content": [{"type": "thinking"}]}),
        json!({"responses_output": {"type": "reasoning"}}),
        json!({"responses_output": [1, null, [], {"type": "function_call"}, {"type": "reasoning", "id": "r"}]}),
    ] {
        let messages = [assistant("", &[("c1", "bash")], Some(opaque)), result("c1", "b", vec![])];
        let sent = body(&responses(), &messages, &[]);
        let call =
            json!({"type": "function_call", "call_id": "c1", "name": "bash", "arguments": "{\"a\":1}"});
        assert_eq!(sent["input"][0], call, "{sent}");
        assert_eq!(sent["input"].as_array().unwrap().len(), 2, "{sent}");
    }
}

#[test]
fn settings_become_members_and_ours_stay_ours() {
    let Value::Object(extra_body) =
        json!({"store": true, "input": [], "instructions": "evil", "service_tier": "flex"})
    else {
        panic!("an object")
    };
    let thinking = Some(Thinking::Budget(20_000));
    let endpoint =
        Endpoint { max_tokens: Some(9), temperature: Some(0.5), thinking, extra_body, ..endpoint() };
    let sent = body(&Responses::new(&endpoint), &[say("a")], &[]);
    assert_eq!((&sent["store"], &sent["service_tier"]), (&json!(false), &json!("flex")));
    assert_eq!((&sent["max_output_tokens"], &sent["temperature"]), (&json!(9), &json!(0.5)));
    assert_eq!(sent["reasoning"], json!({"effort": "high", "summary": "auto"}));
    assert_eq!(
        (&sent["input"][0]["content"][0]["text"], &sent["instructions"]),
        (&json!("a"), &json!("be good"))
    );
    let off = Endpoint { thinking: Some(Thinking::Off), ..endpoint };
    assert_eq!(body(&Responses::new(&off), &[], &[])["reasoning"], json!({"effort": "none"}));
}

#[test]
fn the_address_is_the_base_url_and_the_path() {
    for base in ["http://h/v1", "http://h/v1/", "http://h/v1/responses"] {
        let endpoint = Endpoint { base_url: base.into(), ..endpoint() };
        assert_eq!(Responses::new(&endpoint).url(), "http://h/v1/responses", "{base}");
    }
}

#[test]
fn what_is_refused_by_name_is_left_out() {
    let thinking = Some(Thinking::High);
    let mut responses =
        Responses::new(&Endpoint { thinking, max_tokens: Some(9), temperature: Some(0.5), ..endpoint() });
    let mut learns = |words: &str| assert!(refuse(&mut responses, words, &[]), "{words}");
    learns("Your organization must be verified to generate reasoning summaries.");
    learns("Encrypted content is not supported with this model.");
    learns("Unsupported parameter: 'temperature' is not supported with this model.");
    learns("Unknown parameter: 'max_output_tokens'");
    let sent = body(&responses, &[], &[]);
    assert_eq!(sent["reasoning"], json!({"effort": "high"}));
    for gone in ["include", "temperature", "max_output_tokens"] {
        assert_eq!(sent.get(gone), None, "{gone}");
    }
    assert!(refuse(&mut responses, "Unsupported value: 'reasoning.effort' does not support 'high'", &[]));
    assert_eq!(body(&responses, &[], &[]).get("reasoning"), None);
    assert!(!refuse(&mut responses, "store must be true", &[]), "it stays stateless");
}

#[test]
fn reasoning_of_another_model_stays_out_once_it_is_refused() {
    let thought = json!({"responses_output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA"}, {"type": "function_call"},
    ]});
    let messages = [say("a"), assistant("", &[("c1", "bash")], Some(thought)), result("c1", "b", Vec::new())];
    for words in [
        "The encrypted content gA could not be verified. Reason: invalid_encrypted_content",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
    ] {
        let mut responses = responses();
        assert_eq!(body(&responses, &messages, &[])["input"][1]["encrypted_content"], "gA");
        assert!(refuse(&mut responses, words, &messages), "{words}");
        let sent = body(&responses, &messages, &[]);
        assert_eq!(sent["input"][1]["type"], "function_call", "{sent}");
        assert!(!refuse(&mut responses, "Item with id 'rs_1' not found", &messages), "there is none left");
    }
}

#[test]
fn refused_images_become_a_note() {
    let messages =
        [user([Part::Image(image())]), assistant("", &[("c", "t")], None), result("c", "", vec![image()])];
    let mut responses = responses();
    assert!(refuse(&mut responses, "input_image is not supported", &messages));
    let sent = body(&responses, &messages, &[]);
    assert!(!sent.to_string().contains("input_image"), "{sent}");
}
