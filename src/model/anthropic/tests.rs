//! Every recorded stream, whole and in pieces; what goes out; what is learnt from refusals.
use super::*;
use crate::model::recorded::{self, assistant, body, image, refuse, result, tool, user};
use crate::model::{Arguments, Message, Part, Stop};
use crate::settings::llm::{Format, Thinking};
use serde_json::{Value, json};

fn endpoint() -> Endpoint {
    recorded::endpoint(Format::AnthropicMessages)
}

fn anthropic() -> Anthropic {
    Anthropic::new(&endpoint())
}

/// The options that come of these settings.
fn options(change: impl FnOnce(&mut Endpoint)) -> Value {
    let mut endpoint = endpoint();
    change(&mut endpoint);
    Value::Object(options::of(&endpoint))
}

fn say(text: &str) -> Message {
    user([Part::Text(text.into())])
}

#[test]
fn every_recorded_stream_is_understood_however_it_is_cut() {
    let recorded = recorded::of_format("anthropic");
    assert!(recorded.len() > 40, "the recorded streams are missing");
    recorded.iter().for_each(|each| each.check_however_cut(&anthropic()));
}

#[test]
fn what_came_back_goes_out_as_recorded() {
    let recorded = recorded::of_format("anthropic");
    recorded.iter().for_each(|each| each.check_round_trip(&anthropic()));
}

#[test]
fn one_delta_in_is_one_delta_out() {
    let delta = |number| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{number} \"}}}}\n\n"
        )
    };
    let stream: String =
        (0..100).map(delta).chain(["data: {\"type\":\"message_stop\"}\n\n".into()]).collect();
    let (reply, heard, _) = recorded::decode(anthropic().reply(), [stream.as_bytes()]);
    assert_eq!((reply.unwrap().stop, heard.deltas), (Stop::End, 100));
}

#[test]
fn a_conversation_goes_out_in_this_form() {
    let messages = [
        user([Part::Text("look".into()), Part::Image(image())]),
        assistant("I will.", &[("c1", "bash"), ("functions.bash:2", "Bash It")], None),
        result("c1", "", vec![image()]),
        result("functions.bash:2", "two", Vec::new()),
        say("and now"),
        say(" \n"),
        assistant("", &[], None),
        say("go on"),
    ];
    let picture =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}});
    let cached = json!({"type": "ephemeral"});
    assert_eq!(
        body(&anthropic(), &messages, &[tool("bash", json!({"type": "object"}))]),
        json!({
            "model": "m", "stream": true, "max_tokens": 32000,
            "system": [{"type": "text", "text": "be good", "cache_control": cached}],
            "tools": [{
                "name": "bash", "description": "does it", "input_schema": {"type": "object"}, "cache_control": cached,
            }],
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": picture["source"], "cache_control": cached},
                ]},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "I will."},
                    {"type": "tool_use", "id": "c1", "name": "bash", "input": {"a": 1}},
                    {"type": "tool_use", "id": "functions_bash_2", "name": "Bash_It", "input": {"a": 1}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": [picture]},
                    {"type": "tool_result", "tool_use_id": "functions_bash_2", "content": [
                        {"type": "text", "text": "two"},
                    ]},
                    {"type": "text", "text": "and now"},
                    {"type": "text", "text": "go on", "cache_control": cached},
                ]},
            ],
        })
    );
}

#[test]
fn a_failed_call_is_an_error_and_bad_arguments_an_empty_object() {
    let Message::Assistant(mut asked) = assistant("", &[("c1", "bash")], None) else { panic!("it is") };
    asked.calls[0].arguments = Arguments::Invalid("{a:".into());
    let Message::ToolResult(mut failed) = result("c1", "no", Vec::new()) else { panic!("it is") };
    failed.failed = true;
    let sent = body(&anthropic(), &[Message::Assistant(asked), Message::ToolResult(failed)], &[]);
    assert_eq!(sent["messages"][0]["content"][0]["input"], json!({}));
    assert_eq!(sent["messages"][1]["content"][0]["is_error"], true);
}

#[test]
fn what_another_format_kept_or_a_file_made_up_is_no_harm() {
    for opaque in [
        json!({"responses_output": [{"type": "reasoning"}]}),
        json!({"anthropic_content": "text"}),
        json!([1]),
        json!({"anthropic_content": [1, null, "x", [], {"type": "tool_use"}, {"type": "tool_use"}, {"type": "thinking"}]}),
    ] {
        let messages = [say("a"), assistant("", &[("c1", "bash")], Some(opaque)), result("c1", "b", vec![])];
        let sent = body(&anthropic(), &messages, &[]);
        let tool_use = json!({"type": "tool_use", "id": "c1", "name": "bash", "input": {"a": 1}});
        assert_eq!(sent["messages"][1]["content"], json!([tool_use]), "{sent}");
    }
}

#[test]
fn a_reply_that_went_on_is_one_turn() {
    let messages = [say("a"), assistant("One.", &[], None), assistant("Two.", &[], None)];
    let sent = body(&anthropic(), &messages, &[]);
    assert_eq!(sent["messages"].as_array().unwrap().len(), 2);
    assert_eq!(sent["messages"][1]["content"][1]["text"], "Two.");
}

#[test]
fn v1_stands_once_in_the_address() {
    for base in ["http://h", "http://h/", "http://h/v1", "http://h/v1/", "http://h/v1/messages"] {
        let endpoint = Endpoint { base_url: base.into(), ..endpoint() };
        assert_eq!(Anthropic::new(&endpoint).url(), "http://h/v1/messages", "{base}");
    }
    assert_eq!(url("http://h/anthropic"), "http://h/anthropic/v1/messages");
    assert_eq!(url("http://h/v1?a=b"), "http://h/v1/messages?a=b");
}

#[test]
fn the_key_goes_as_its_kind_is_taken() {
    for (key, names) in [
        (Some("sk-ant-api03-x"), &["anthropic-version", "x-api-key"][..]),
        (Some("sk-ant-oat01-x"), &["anthropic-version", "anthropic-beta", "authorization"]),
        (Some("sk-or-x"), &["anthropic-version", "x-api-key", "authorization"]),
        (None, &["anthropic-version"]),
    ] {
        let headers = anthropic().headers(key.map(Secret::new).as_ref());
        assert_eq!(headers.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names, "{key:?}");
    }
}

#[test]
fn thinking_has_a_budget_below_the_limit() {
    let thinking = |thinking, limit| {
        let options = options(|endpoint| {
            (endpoint.thinking, endpoint.max_tokens) = (Some(thinking), limit);
            endpoint.temperature = Some(0.5);
        });
        let (budget, limit) =
            (options["thinking"]["budget_tokens"].as_u64(), options["max_tokens"].as_u64().unwrap());
        assert!(budget.is_none_or(|budget| budget < limit), "{options}");
        let asked = options["thinking"]["type"] == "enabled";
        assert_eq!(options["temperature"].is_null(), asked && budget.is_some(), "{options}");
        (budget, limit)
    };
    assert_eq!(thinking(Thinking::Low, None), (Some(2048), 32_000));
    assert_eq!(thinking(Thinking::On, None), (Some(8192), 32_000));
    assert_eq!(thinking(Thinking::High, None), (Some(24_576), 32_768));
    assert_eq!(thinking(Thinking::Budget(7), None), (Some(1024), 32_000));
    assert_eq!(thinking(Thinking::Budget(60_000), None), (Some(60_000), 68_192));
    assert_eq!(thinking(Thinking::Budget(u64::MAX), Some(4000)), (Some(2000), 4000));
    assert_eq!(thinking(Thinking::Off, Some(4000)), (None, 4000));
    assert_eq!(thinking(Thinking::High, Some(500)), (None, 500));
    assert_eq!(options(|endpoint| endpoint.thinking = Some(Thinking::Off))["thinking"]["type"], "disabled");
    assert_eq!(options(|_| {}).get("thinking"), None);
}

/// `LLM_EXTRA_BODY` may bring the limit, the budget or both: the request holds together.
#[test]
fn a_limit_and_a_budget_fit_each_other_wherever_they_come_from() {
    let sent = |thinking, extra: Value| {
        let Value::Object(extra_body) = extra else { panic!("an object") };
        let endpoint = Endpoint { thinking, extra_body, temperature: Some(0.5), ..endpoint() };
        let sent = options::of(&endpoint);
        let of = |name: &str| sent.get(name).cloned().unwrap_or_default();
        (of("max_tokens"), of("thinking")["budget_tokens"].clone(), of("temperature"))
    };
    let own = json!({"thinking": {"type": "enabled", "budget_tokens": 64_000}});
    assert_eq!(sent(None, own), (json!(72_192), json!(64_000), Value::Null));
    let limit = json!({"max_tokens": 5000});
    assert_eq!(sent(Some(Thinking::High), limit), (json!(5000), json!(2500), Value::Null));
    let off = json!({"thinking": {"type": "disabled"}});
    assert_eq!(sent(Some(Thinking::High), off), (json!(32_000), Value::Null, json!(0.5)));
    let odd = json!({"thinking": null, "max_tokens": "many", "temperature": 1});
    assert_eq!(sent(Some(Thinking::Low), odd), (json!("many"), Value::Null, json!(1)));
}

#[test]
fn ours_stay_ours() {
    let extra = json!({"top_k": 3, "model": "evil", "system": "evil", "max_tokens": 5});
    let Value::Object(extra_body) = extra else { panic!("an object") };
    let sent = body(&Anthropic::new(&Endpoint { extra_body, ..endpoint() }), &[say("a")], &[]);
    assert_eq!((&sent["model"], &sent["top_k"], &sent["max_tokens"]), (&json!("m"), &json!(3), &json!(5)));
    assert_eq!(sent["system"][0]["text"], "be good");
}

#[test]
fn a_model_that_takes_no_budget_is_asked_to_think_by_effort() {
    let mut anthropic = Anthropic::new(&Endpoint { thinking: Some(Thinking::High), ..endpoint() });
    let words = "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \
                 \"output_config.effort\" to control thinking behavior.";
    assert!(refuse(&mut anthropic, words, &[]));
    let sent = body(&anthropic, &[], &[]);
    assert_eq!(sent["thinking"], json!({"type": "adaptive"}));
    assert_eq!(sent["output_config"], json!({"effort": "high"}));
    assert!(refuse(&mut anthropic, "output_config: Extra inputs are not permitted", &[]));
    assert!(refuse(&mut anthropic, "thinking: Extra inputs are not permitted", &[]));
    let sent = body(&anthropic, &[], &[]);
    assert_eq!((sent.get("thinking"), sent.get("output_config")), (None, None));
    assert!(!refuse(&mut anthropic, words, &[]), "once");
}

#[test]
fn the_limit_is_lowered_to_what_the_refusal_names() {
    let mut anthropic = Anthropic::new(&Endpoint { thinking: Some(Thinking::High), ..endpoint() });
    let words = "max_tokens: 32768 > 8192, which is the maximum allowed number of output tokens for claude-3-5-x-20240620";
    assert!(refuse(&mut anthropic, words, &[]));
    let sent = body(&anthropic, &[], &[]);
    assert_eq!((&sent["max_tokens"], &sent["thinking"]["budget_tokens"]), (&json!(8192), &json!(4096)));
    assert!(!refuse(&mut anthropic, words, &[]), "once");
    let mut unnamed = self::anthropic();
    assert!(refuse(&mut unnamed, "max_tokens is too large", &[]));
    assert_eq!(body(&unnamed, &[], &[])["max_tokens"], 4096);
    let too_long = "input length and `max_tokens` exceed context limit: 188240 + 32000 > 200000, decrease input \
                    length or `max_tokens` and try again";
    assert!(!refuse(&mut self::anthropic(), too_long, &[]), "the conversation is what is too long");
}

#[test]
fn what_is_refused_by_name_is_left_out() {
    let mut anthropic = Anthropic::new(&Endpoint { temperature: Some(0.5), ..endpoint() });
    assert!(refuse(&mut anthropic, "tools.0.cache_control: Extra inputs are not permitted", &[]));
    assert!(refuse(&mut anthropic, "`temperature` is deprecated for this model.", &[]));
    let sent = body(&anthropic, &[say("a")], &[tool("t", json!({}))]);
    assert!(!sent.to_string().contains("cache_control") && sent.get("temperature").is_none(), "{sent}");
    assert!(!refuse(&mut anthropic, "stream: must be false", &[]));
}

#[test]
fn refused_images_become_a_note() {
    let messages =
        [user([Part::Image(image())]), assistant("", &[("c", "t")], None), result("c", "", vec![image()])];
    let mut anthropic = anthropic();
    assert!(refuse(&mut anthropic, "image content is not supported", &messages));
    let sent = body(&anthropic, &messages, &[]);
    assert!(!recorded::contains(&sent, &json!({"type": "image"})), "{sent}");
    assert!(sent["messages"][2]["content"][0]["content"][0]["text"].as_str().unwrap().contains("no images"));
}

#[test]
fn thinking_of_another_model_stays_out_once_it_is_refused() {
    let thought = json!({"anthropic_content": [{"type": "thinking", "thinking": "a", "signature": "S"}, {"type": "tool_use"}]});
    let turn = || [assistant("", &[("c1", "bash")], Some(thought.clone())), result("c1", "a", vec![])];
    let mut messages = [vec![say("a")], turn().to_vec()].concat();
    let mut anthropic = anthropic();
    let words = "messages.1.content.0: Invalid `signature` in `thinking` block";
    assert!(refuse(&mut anthropic, words, &messages));
    assert!(!body(&anthropic, &messages, &[]).to_string().contains("signature"));
    assert!(!refuse(&mut anthropic, words, &messages), "there is none left");
    messages.extend(turn());
    let sent = body(&anthropic, &messages, &[]);
    assert_eq!(sent["messages"][3]["content"][0]["signature"], "S", "what comes now is this model's: {sent}");
}
