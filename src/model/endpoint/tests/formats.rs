//! The other formats through `connect`: what is on the wire, and that failures count alike.
use super::*;
use crate::model::connect;
use crate::settings::llm::ModelConfig;

const FORMATS: [Format; 2] = [Format::AnthropicMessages, Format::OpenAiResponses];

fn connected(server: &Server, format: Format, key: &str) -> Box<dyn Provider> {
    let endpoint = Endpoint { format, api_key: Some(Secret::new(key)), ..endpoint(&server.base_url()) };
    connect(&ModelConfig::Endpoint(endpoint), &net(), &Environment::default())
}

/// As [`connected`], without waits between its tries.
fn hasty(server: &Server, format: Format) -> EndpointProvider {
    let endpoint = Endpoint { format, ..endpoint(&server.base_url()) };
    let backoff = Backoff { first: Duration::ZERO, ..Backoff::default() };
    EndpointProvider::new(&endpoint, Client::new(&net(), &Environment::default()), backoff)
}

/// The events of a reply, as far as its end mark or without it.
fn events(format: Format, words: &str, ended: bool) -> String {
    let mut events = match format {
        Format::AnthropicMessages => vec![
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ],
        _ => vec![
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": words}),
            json!({"type": "response.completed", "response": {"status": "completed"}}),
        ],
    };
    if !ended {
        events.retain(|event| !event.to_string().contains("stop") && event["response"].is_null());
    }
    sse(&events)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

#[test]
fn anthropic_is_asked_at_its_path_with_its_headers() {
    let server = Server::start();
    let mut provider = connected(&server, Format::AnthropicMessages, "sk-ant-api03-x");
    let outcome = call(provider.as_mut(), || {
        let mut peer = server.accept();
        let request = peer.request();
        assert!(request.head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{}", request.head);
        let head = request.head.to_lowercase();
        assert!(head.contains("x-api-key: sk-ant-api03-x\r\n"), "{head}");
        assert!(
            head.contains("anthropic-version: 2023-06-01\r\n") && !head.contains("authorization"),
            "{head}"
        );
        assert_eq!(request.body["system"][0]["text"], "s");
        assert_eq!(request.body["messages"][0]["content"][0]["text"], "hi");
        assert_eq!(request.body["tools"][0]["name"], "bash");
        peer.send(&ok(&events(Format::AnthropicMessages, "Hello.", true)));
    });
    assert_eq!(outcome.text(), "Hello.");
    assert_eq!(outcome.heard, [Heard::Text("Hello.".into())]);
}

#[test]
fn responses_are_asked_for_at_their_path_and_not_stored() {
    let server = Server::start();
    let mut provider = connected(&server, Format::OpenAiResponses, KEY);
    let outcome = call(provider.as_mut(), || {
        let mut peer = server.accept();
        let request = peer.request();
        assert!(request.head.starts_with("POST /v1/responses HTTP/1.1\r\n"), "{}", request.head);
        let head = request.head.to_lowercase();
        assert!(head.contains(&format!("authorization: bearer {KEY}\r\n")), "{head}");
        assert_eq!((&request.body["store"], &request.body["instructions"]), (&json!(false), &json!("s")));
        peer.send(&ok(&events(Format::OpenAiResponses, "Hello.", true)));
    });
    assert_eq!(outcome.text(), "Hello.");
}

#[test]
fn what_may_pass_is_tried_again_in_every_format() {
    let server = Server::start();
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    for format in FORMATS {
        let busy = status(
            "529 x",
            "",
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        );
        let answers = [busy, ok(overloaded), ok(""), ok(&events(format, "at last", true))];
        let outcome = call(&mut hasty(&server, format), || {
            answers.iter().for_each(|answer| server.accept().answer(answer));
        });
        assert_eq!(outcome.text(), "at last");
        assert_eq!(outcome.pauses().len(), 3, "{:?}", outcome.pauses());
        assert_eq!(outcome.pauses()[0].0, "529: Overloaded");
    }
}

#[test]
fn a_reply_that_was_shown_and_breaks_off_is_no_end_in_any_format() {
    let server = Server::start();
    for format in FORMATS {
        let outcome = call(&mut hasty(&server, format), || {
            server.accept().answer(&ok(&events(format, "Half", false)));
        });
        assert!(outcome.failure().message.contains("cut off"), "{:?}", outcome.failure());
        assert_eq!(outcome.pauses(), []);
        let partial = outcome.result.unwrap_err().partial;
        assert_eq!((partial.text.as_str(), partial.opaque), ("Half", None));
    }
}

#[test]
fn what_will_not_pass_is_told_without_the_key_in_every_format() {
    let server = Server::start();
    let body = json!({"type": "error", "error": {"type": "authentication_error", "message": format!("invalid x-api-key {KEY}")}});
    for format in FORMATS {
        let outcome = call(connected(&server, format, KEY).as_mut(), || {
            server.accept().answer(&status("401 x", "", &body.to_string()));
        });
        let message = "401 Unauthorized: invalid x-api-key ***; check the API key (bob --login)";
        assert_eq!(
            outcome.failure(),
            &Failure { status: Some(401), message: message.into(), too_long: false, unanswered: false }
        );
    }
}

#[test]
fn a_refused_option_is_left_out_in_every_format() {
    let server = Server::start();
    for (format, words, member) in [
        (Format::AnthropicMessages, "max_tokens: 32000 > 4096, which is the maximum allowed", "max_tokens"),
        (Format::OpenAiResponses, "Encrypted content is not supported with this model.", "include"),
    ] {
        let outcome = call(&mut hasty(&server, format), || {
            let mut peer = server.accept();
            let before = peer.request().body[member].clone();
            peer.send(&status("400 x", "", &json!({"error": {"message": words}}).to_string()));
            drop(peer);
            let mut peer = server.accept();
            assert_ne!(peer.request().body[member], before);
            peer.send(&ok(&events(format, "a", true)));
        });
        assert_eq!((outcome.text(), outcome.pauses()), ("a", vec![]));
    }
}
