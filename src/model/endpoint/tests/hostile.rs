//! What an endpoint may send to do harm, in every format: damaged pieces, floods, ends that never come.
use super::*;
use crate::model::failure::Retry;
use crate::model::recorded;
use crate::model::{Arguments, Call};

const FORMATS: [Format; 3] = [Format::OpenAiCompletions, Format::AnthropicMessages, Format::OpenAiResponses];

fn dialect(format: Format) -> Box<dyn Dialect> {
    let endpoint = recorded::endpoint(format);
    match format {
        Format::OpenAiCompletions => Box::new(OpenAi::new(&endpoint)),
        Format::AnthropicMessages => Box::new(Anthropic::new(&endpoint)),
        Format::OpenAiResponses => Box::new(Responses::new(&endpoint)),
    }
}

/// What is decoded of these events, and the text that was heard.
fn decode(format: Format, events: &[String]) -> (Result<Reply, Trouble>, String) {
    let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (result, heard, partial) = recorded::decode(dialect(format).reply(), [stream.as_bytes()]);
    if result.is_err() {
        assert_eq!(partial.text, heard.text);
    }
    (result, heard.text)
}

/// An event with a piece of a call's arguments, which is JSON already.
fn piece(format: Format, json: &str) -> String {
    match format {
        Format::OpenAiCompletions => format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":{json}}}}}]}}}}]}}"#
        ),
        Format::AnthropicMessages => format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"input_json_delta","partial_json":{json}}}}}"#
        ),
        Format::OpenAiResponses => {
            format!(r#"{{"type":"response.function_call_arguments.delta","output_index":0,"delta":{json}}}"#)
        }
    }
}

/// The same with text.
fn said(format: Format, json: &str) -> String {
    match format {
        Format::OpenAiCompletions => format!(r#"{{"choices":[{{"delta":{{"content":{json}}}}}]}}"#),
        Format::AnthropicMessages => format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{json}}}}}"#
        ),
        Format::OpenAiResponses => {
            format!(r#"{{"type":"response.output_text.delta","output_index":0,"delta":{json}}}"#)
        }
    }
}

/// The event in which call number `index` begins.
fn begin(format: Format, index: usize) -> String {
    let id = format!("c{index}");
    let event = match format {
        Format::OpenAiCompletions => {
            json!({"choices": [{"delta": {"tool_calls": [{"index": index, "id": id, "function": {"name": "bash"}}]}}]})
        }
        Format::AnthropicMessages => {
            json!({"type": "content_block_start", "index": index, "content_block": {"type": "tool_use", "id": id, "name": "bash"}})
        }
        Format::OpenAiResponses => {
            json!({"type": "response.output_item.added", "output_index": index, "item": {"type": "function_call", "call_id": id, "name": "bash"}})
        }
    };
    event.to_string()
}

/// The event that says why the reply ends.
fn end(format: Format) -> String {
    let event = match format {
        Format::OpenAiCompletions => stop(),
        Format::AnthropicMessages => {
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
        }
        Format::OpenAiResponses => {
            json!({"type": "response.completed", "response": {"status": "completed"}})
        }
    };
    event.to_string()
}

/// A call whose arguments come in three pieces.
fn call_in_pieces(format: Format, middle: String) -> Vec<String> {
    let first = piece(format, r#""{\"command\":\"rm -rf ./build""#);
    let last = piece(format, r#"" ; echo end\"}""#);
    vec![begin(format, 0), first, middle, last, end(format)]
}

fn calls(result: Result<Reply, Trouble>) -> Vec<Call> {
    result.unwrap().message.calls
}

#[test]
fn a_call_whose_middle_came_damaged_does_not_run() {
    for format in FORMATS {
        let whole = piece(format, r#"" --dry-run ""#);
        for cut in 1..whole.len() {
            let (front, back) = whole.split_at(cut);
            for part in [front, back] {
                let (result, _) = decode(format, &call_in_pieces(format, part.to_owned()));
                assert_eq!(result, Err(Trouble::Damaged), "{part}");
            }
        }
    }
    assert_eq!(Trouble::Damaged.retry(), Retry::Later);
}

#[test]
fn text_whose_middle_came_damaged_is_no_end() {
    for format in FORMATS {
        let broken = said(format, r#""not "#);
        let events = [said(format, r#""do ""#), broken, said(format, r#""do it""#), end(format)];
        assert_eq!(decode(format, &events), (Err(Trouble::Damaged), "do ".into()));
    }
}

#[test]
fn half_a_surrogate_pair_is_replaced_in_every_format() {
    for format in FORMATS {
        let (result, _) = decode(format, &call_in_pieces(format, piece(format, r#"" --dry-run \ud83d""#)));
        let command = json!("rm -rf ./build --dry-run \u{fffd} ; echo end");
        let arguments = Arguments::Object(Map::from_iter([("command".to_owned(), command)]));
        assert_eq!(calls(result)[0].arguments, arguments);
        let events = [said(format, r#""\ud83d""#), said(format, r#""\ude00 IMPORTANT""#), end(format)];
        assert_eq!(decode(format, &events).1, "\u{fffd}\u{fffd} IMPORTANT");
    }
}

#[test]
fn a_piece_of_a_call_in_another_shape_is_not_left_out() {
    for format in FORMATS {
        let (result, _) = decode(format, &call_in_pieces(format, piece(format, r#"{"a":1}"#)));
        let Arguments::Object(arguments) = &calls(result)[0].arguments else { continue };
        assert_ne!(arguments["command"], "rm -rf ./build ; echo end");
    }
    let odd = [
        (r#""index":0,"delta""#, r#""index":"0","delta""#),
        (r#""output_index":0"#, r#""output_index":"0""#),
    ];
    for format in [Format::AnthropicMessages, Format::OpenAiResponses] {
        let mut middle = piece(format, r#"" --dry-run""#);
        odd.iter().for_each(|(plain, odd)| middle = middle.replace(plain, odd));
        let (result, _) = decode(format, &call_in_pieces(format, middle));
        let Arguments::Object(arguments) = &calls(result)[0].arguments else { panic!("no object") };
        assert_eq!(arguments["command"], "rm -rf ./build --dry-run ; echo end");
    }
}

#[test]
fn comments_wrapped_as_data_are_nothing() {
    for format in FORMATS {
        for comment in [": PING", "keep-alive", "[ping]", "\"x\"", "1"] {
            let events = [said(format, r#""a""#), comment.into(), said(format, r#""b""#), end(format)];
            let (result, heard) = decode(format, &events);
            assert_eq!((result.unwrap().stop, heard.as_str()), (Stop::End, "ab"), "{comment}");
        }
    }
}

#[test]
fn damage_behind_the_end_of_a_reply_is_no_harm() {
    let server = Server::start();
    let usage = "data: {\"choices\":[],\"usa\n\n";
    for rest in ["", "data: [DONE]\n\n"] {
        let body = format!("{}{usage}{rest}", sse(&[text("All of it."), stop()]));
        let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}");
        assert_eq!(call_answered(&server, &[answer]).text(), "All of it.");
    }
}

#[test]
fn a_damaged_reply_is_tried_again_if_nothing_was_shown() {
    let server = Server::start();
    let damaged = |before: &str| {
        let body = format!("{before}data: {{\"choices\":[{{\"del\n\n{}", sse(&[stop()]));
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}")
    };
    let outcome = call_answered(&server, &[damaged(""), good("a")]);
    assert_eq!((outcome.text(), outcome.pauses().len()), ("a", 1));
    let outcome = call_answered(&server, &[damaged(&sse(&[text("Half")]))]);
    assert!(outcome.failure().message.contains("came damaged"), "{:?}", outcome.failure());
    assert_eq!(outcome.result.unwrap_err().partial.text, "Half");
}

#[test]
fn a_reply_has_so_many_calls_and_no_more() {
    for format in FORMATS {
        let events = |calls| (0..calls).map(|index| begin(format, index)).chain([end(format)]).collect();
        let (most, more): (Vec<_>, Vec<_>) = (events(1024), events(1025));
        assert_eq!(calls(decode(format, &most).0).len(), 1024);
        assert_eq!(decode(format, &more).0, Err(Trouble::TooLarge("1,024 calls or other pieces")));
    }
}

#[test]
fn a_flood_of_calls_in_one_event_is_refused() {
    let call = r#"{"index":0,"id":"c0","function":{"name":"x","arguments":""}}"#;
    let calls = vec![call; 200_000].join(",");
    let event = format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{calls}]}}}}]}}"#);
    let (result, _) = decode(Format::OpenAiCompletions, &[event]);
    assert!(matches!(result, Err(Trouble::TooLarge(_))), "{result:?}");
}

/// `times` an object that costs a hundred times its text.
fn costly(times: usize) -> String {
    format!("[{}0]", r#"{"a":0},"#.repeat(times))
}

#[test]
fn values_that_would_fill_the_memory_are_refused_in_every_place() {
    let costly = costly(100_000);
    for format in FORMATS {
        let spoken = [
            format!(r#"{{"choices":[],"x":{costly}}}"#),
            format!(r#"{{"type":"ping","x":{costly}}}"#),
            format!(r#"{{"error":{costly}}}"#),
        ];
        for event in spoken {
            let (result, _) = decode(format, std::slice::from_ref(&event));
            assert!(matches!(result, Err(Trouble::TooLarge(_))), "{result:?}");
            let (result, ..) = recorded::decode(dialect(format).reply(), [event.as_bytes()]);
            assert!(matches!(result, Err(Trouble::TooLarge(_))), "{result:?}");
        }
        let stream = format!("event: error\ndata: {{\"error\":{costly}}}\n\n");
        let (result, ..) = recorded::decode(dialect(format).reply(), [stream.as_bytes()]);
        assert!(matches!(result, Err(Trouble::Told(_))), "{result:?}");
        let arguments = Value::from(format!("{{\"x\":{costly}}}")).to_string();
        let events = [begin(format, 0), piece(format, &arguments), end(format)];
        assert!(matches!(calls(decode(format, &events).0)[0].arguments, Arguments::Invalid(_)));
    }
}

#[test]
fn what_is_kept_of_a_reply_has_a_limit_in_all() {
    let costly = costly(30_000);
    for format in FORMATS {
        let begun = (0..3).map(|index| {
            let begun = begin(format, index);
            let name = if format == Format::OpenAiCompletions { "\"function\"" } else { "\"name\"" };
            begun.replace(name, &format!(r#""x{index}":{costly},{name}"#))
        });
        let events: Vec<_> = begun.chain([end(format)]).collect();
        let (result, _) = decode(format, &events);
        assert!(matches!(result, Err(Trouble::TooLarge(_))), "{format:?}");
    }
}

#[test]
fn arguments_have_a_length() {
    for format in FORMATS {
        let megabyte = piece(format, &format!("\"{}\"", "a".repeat(1 << 20)));
        let opened = piece(format, r#""{\"x\":\"""#);
        let closed = piece(format, r#""\"}""#);
        for (megabytes, fits) in [(7, true), (8, false)] {
            let mut events = vec![begin(format, 0), opened.clone()];
            events.extend(vec![megabyte.clone(); megabytes]);
            events.extend([closed.clone(), end(format)]);
            let arguments = calls(decode(format, &events).0).remove(0).arguments;
            assert_eq!(matches!(arguments, Arguments::Object(_)), fits);
        }
    }
}

/// Cancels at its first delta.
struct Impatient(CancelSource, Vec<String>);

impl Listener for Impatient {
    fn delta(&mut self, delta: Delta<'_>) {
        self.0.cancel();
        self.1.push(format!("{delta:?}"));
    }

    fn pause(&mut self, _: &str, _: Duration) -> Result<(), Cancelled> {
        panic!("a cancelled call is not tried again")
    }
}

#[test]
fn a_cancel_counts_inside_of_an_event() {
    for format in FORMATS {
        let many = |one: Value| vec![one; 1000];
        let body = match format {
            Format::OpenAiCompletions => json!({"choices": many(text("a")["choices"][0].clone())}),
            Format::AnthropicMessages => {
                json!({"content": many(json!({"type": "text", "text": "a"}))})
            }
            Format::OpenAiResponses => {
                let item = json!({"type": "message", "content": [{"type": "output_text", "text": "a"}]});
                json!({"output": many(item), "status": "completed"})
            }
        };
        let cancel = CancelSource::new();
        let mut impatient = Impatient(cancel.clone(), Vec::new());
        let (token, mut stream) = (cancel.token(), dialect(format).reply());
        let mut ear = crate::model::reply::Ear::new(&mut impatient, &token);
        stream.push(body.to_string().as_bytes(), &mut ear).unwrap();
        assert_eq!(stream.finish(&mut ear), Err(Trouble::Cancelled));
        assert_eq!(stream.partial().text, "a", "what was not shown is not kept");
        assert_eq!(impatient.1, ["Text(\"a\")"]);
    }
}

/// Sends it without a gap until the client closes the connection.
#[track_caller]
fn flood(peer: &mut Peer, what: &str) {
    let (begun, block) = (std::time::Instant::now(), what.repeat(10_000));
    while peer.try_send(&block) {
        assert!(begun.elapsed() < HANG, "the client reads on");
    }
}

#[test]
fn trailers_without_an_end_do_not_hold_a_reply() {
    let server = Server::start();
    let outcome = call(&mut provider(&server), || {
        let mut peer = server.accept();
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        peer.send_chunk(&(sse(&[text("Hello."), stop()]) + "data: [DONE]\n\n"));
        peer.send("0\r\n");
        flood(&mut peer, "X: y\r\n");
    });
    assert_eq!(outcome.text(), "Hello.");
}

#[test]
fn trailers_in_place_of_a_reply_are_silence() {
    let server = Server::start();
    let net = Net { idle: Duration::from_millis(50), ..net() };
    let mut provider = provider_with(&server.base_url(), &net, &Environment::default());
    let outcome = call(&mut provider, || {
        for _ in 0..2 {
            let mut peer = server.accept();
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            peer.send_chunk(": thinking\n\n");
            peer.send("0\r\n");
            flood(&mut peer, "X: y\r\n");
        }
    });
    assert!(outcome.failure().message.contains("fell silent"), "{:?}", outcome.failure());
}

#[test]
fn interim_answers_without_an_end_count_as_headers() {
    let server = Server::start();
    let outcome = call(&mut provider(&server), || {
        let mut peer = server.accept();
        peer.request();
        flood(&mut peer, "HTTP/1.1 102 Processing\r\n\r\n");
    });
    assert!(outcome.failure().message.contains("64 KiB of headers"), "{:?}", outcome.failure());
    assert_eq!(outcome.pauses(), []);
}

#[test]
fn comments_without_an_end_do_not_hold_a_reply_that_said_why_it_stops() {
    let server = Server::start();
    let net = Net { idle: Duration::from_millis(50), ..net() };
    let mut provider = provider_with(&server.base_url(), &net, &Environment::default());
    let outcome = call(&mut provider, || {
        let mut peer = server.accept();
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        peer.send(&sse(&[text("Hello."), stop()]));
        flood(&mut peer, ": ping\n\n");
    });
    assert_eq!(outcome.text(), "Hello.");
}

#[test]
fn what_is_no_http_is_not_tried_again() {
    let server = Server::start();
    let headers: String = (0..200).map(|number| format!("x{number}: y\r\n")).collect();
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n".to_owned(),
        "HTTP/1.1 000 x\r\n\r\n".to_owned(),
        "SSH-2.0-OpenSSH_9.7\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\n{headers}\r\n"),
    ] {
        let outcome = call_answered(&server, std::slice::from_ref(&answer));
        let message = &outcome.failure().message;
        assert!(message.contains("does not answer as HTTP has it"), "{message}");
        assert_eq!(outcome.pauses(), []);
    }
}

#[test]
fn an_http_address_written_as_https_is_told() {
    let server = Server::start();
    let base = server.base_url().replace("http:", "https:");
    let outcome = call(&mut provider_with(&base, &net(), &Environment::default()), || {
        server.accept().send("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
    });
    let message = &outcome.failure().message;
    assert!(message.contains("is this an http address?"), "{message}");
    assert_eq!(outcome.pauses(), []);
}
