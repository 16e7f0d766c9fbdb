//! Model calls over a real socket: the test holds the server's end in its hand.
mod formats;
mod hostile;
mod server;

use super::*;
use crate::cancel::{CancelSource, Cancelled};
use crate::model::{Delta, Failure, Message, Part, Stop, ToolSpec, Why};
use crate::settings::config::Net;
use crate::settings::llm::Format;
use crate::settings::{Environment, Secret};
use crossbeam_channel::{Receiver, Sender, unbounded};
use serde_json::{Map, Value, json};
use server::{HANG, Peer, Server};
use std::net::{TcpListener, TcpStream};
use std::thread;

const KEY: &str = "sk-very-secret";

fn endpoint(base_url: &str) -> Endpoint {
    Endpoint {
        provider: "LOCAL".into(),
        format: Format::OpenAiCompletions,
        api_key: Some(Secret::new(KEY)),
        base_url: base_url.into(),
        model: "m".into(),
        temperature: None,
        max_tokens: None,
        thinking: None,
        extra_body: Map::new(),
    }
}

/// Limits that are never reached: a client that should have been ended by something else is noticed by the server.
fn net() -> Net {
    let never = 20 * HANG;
    Net { ca_file: None, connect: never, first_byte: never, idle: never }
}

fn provider_with(base_url: &str, net: &Net, environment: &Environment) -> EndpointProvider {
    let backoff = Backoff { first: Duration::ZERO, ..Backoff::default() };
    EndpointProvider::new(&endpoint(base_url), Client::new(net, environment), backoff)
}

fn provider(server: &Server) -> EndpointProvider {
    provider_with(&server.base_url(), &net(), &Environment::default())
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Text(String),
    Reasoning(String),
    Call(String),
    Pause(String, Duration),
}

struct Ear {
    heard: Sender<Heard>,
    /// Its pauses end in a cancel.
    cancelled: bool,
}

impl Listener for Ear {
    fn delta(&mut self, delta: Delta<'_>) {
        let heard = match delta {
            Delta::Text(text) => Heard::Text(text.into()),
            Delta::Reasoning(text) => Heard::Reasoning(text.into()),
            Delta::CallBegun(name) => Heard::Call(name.into()),
        };
        self.heard.send(heard).unwrap();
    }

    fn pause(&mut self, why: &str, wait: Duration) -> Result<(), Cancelled> {
        self.heard.send(Heard::Pause(why.into(), wait)).unwrap();
        if self.cancelled { Err(Cancelled) } else { Ok(()) }
    }
}

/// One model call on a thread of its own, while `serve` plays the server.
struct Outcome {
    result: Result<Reply, Broken>,
    heard: Vec<Heard>,
}

impl Outcome {
    #[track_caller]
    fn text(&self) -> &str {
        &self.result.as_ref().unwrap().message.text
    }

    #[track_caller]
    fn failure(&self) -> &Failure {
        match &self.result {
            Err(Broken { why: Why::Failed(failure), .. }) => failure,
            other => panic!("not failed: {other:?}"),
        }
    }

    fn pauses(&self) -> Vec<(&str, Duration)> {
        self.heard
            .iter()
            .filter_map(|heard| match heard {
                Heard::Pause(why, wait) => Some((why.as_str(), *wait)),
                _ => None,
            })
            .collect()
    }
}

fn call_with(
    provider: &mut dyn Provider,
    cancel: &CancelSource,
    cancelled: bool,
    serve: impl FnOnce(&Receiver<Heard>),
) -> Outcome {
    let messages = [Message::User(vec![Part::Text("hi".into())])];
    let tools =
        [ToolSpec { name: "bash".into(), description: String::new(), schema: json!({"type": "object"}) }];
    let request = Request { model: "m", thinking: None, system: "s", messages: &messages, tools: &tools };
    let (sender, receiver) = unbounded();
    let result = thread::scope(|scope| {
        let call = scope.spawn(|| {
            let mut ear = Ear { heard: sender, cancelled };
            provider.complete(&request, &cancel.token(), &mut ear)
        });
        serve(&receiver);
        call.join().unwrap()
    });
    Outcome { result, heard: receiver.try_iter().collect() }
}

fn call(provider: &mut dyn Provider, serve: impl FnOnce()) -> Outcome {
    call_with(provider, &CancelSource::new(), false, |_| serve())
}

/// The server takes one connection for each answer.
fn call_answered(server: &Server, answers: &[String]) -> Outcome {
    call(&mut provider(server), || answers.iter().for_each(|answer| server.accept().answer(answer)))
}

fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn text(text: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {"content": text}}]})
}

fn stop() -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
}

/// A good answer that closes the connection.
fn good(words: &str) -> String {
    let body = sse(&[text(words), stop()]) + "data: [DONE]\n\n";
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{body}")
}

fn status(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_call_carries_key_and_conversation_and_brings_the_reply() {
    let server = Server::start();
    let outcome = call(&mut provider(&server), || {
        let mut peer = server.accept();
        let request = peer.request();
        assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
        let head = request.head.to_lowercase();
        assert!(head.contains(&format!("authorization: bearer {KEY}\r\n")), "{head}");
        assert!(head.contains("content-type: application/json\r\n") && !head.contains("expect:"), "{head}");
        assert_eq!(request.body["messages"][1]["content"], "hi");
        peer.send(&good("Hello."));
    });
    assert_eq!(outcome.text(), "Hello.");
    assert_eq!(outcome.heard, [Heard::Text("Hello.".into())]);
}

#[test]
fn a_connection_is_used_again() {
    let server = Server::start();
    let mut provider = provider(&server);
    let mut kept: Option<Peer> = None;
    for words in ["one", "two"] {
        let outcome = call(&mut provider, || {
            let mut peer = kept.take().unwrap_or_else(|| server.accept());
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            peer.send_chunk(&sse(&[text(words), stop()]));
            peer.send_chunk("data: [DONE]\n\n");
            peer.send("0\r\n\r\n");
            kept = Some(peer);
        });
        assert_eq!(outcome.text(), words);
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_reply_is_over_at_done_though_the_server_keeps_the_connection() {
    let server = Server::start();
    let mut peer = None;
    let outcome = call(&mut provider(&server), || {
        let mut accepted = server.accept();
        accepted.request();
        accepted.send(&good("Hello.").replace("connection: close", "x: y"));
        peer = Some(accepted);
    });
    assert_eq!(outcome.text(), "Hello.");
    peer.unwrap().expect_closed();
}

#[test]
fn a_cancel_reaches_a_call_that_waits_for_headers() {
    let server = Server::start();
    let cancel = CancelSource::new();
    let outcome = call_with(&mut provider(&server), &cancel, false, |_| {
        let mut peer = server.accept();
        peer.request();
        cancel.cancel();
        peer.expect_closed();
    });
    assert_eq!(outcome.result.unwrap_err().why, Why::Cancelled);
}

#[test]
fn a_cancel_reaches_a_stream_and_what_was_heard_is_kept() {
    let server = Server::start();
    let mut provider = provider(&server);
    let cancel = CancelSource::new();
    let outcome = call_with(&mut provider, &cancel, false, |heard| {
        let mut peer = server.accept();
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\n\r\n");
        peer.send(&sse(&[text("Half an ans")]));
        assert_eq!(heard.recv_timeout(HANG), Ok(Heard::Text("Half an ans".into())));
        cancel.cancel();
        peer.expect_closed();
    });
    let broken = outcome.result.unwrap_err();
    assert_eq!((broken.why, broken.partial.text.as_str()), (Why::Cancelled, "Half an ans"));
    // The next call makes its agent anew.
    assert_eq!(call(&mut provider, || server.accept().answer(&good("again"))).text(), "again");
}

#[test]
fn a_cancel_reaches_a_call_that_connects() {
    let (listener, queue) = full_listener();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let cancel = CancelSource::new();
    let net = Net { connect: Duration::from_secs(600), ..net() };
    let mut provider = provider_with(&base, &net, &Environment::default());
    let outcome = call_with(&mut provider, &cancel, false, |heard| {
        // Nothing tells that the helper connects by now; a cancel that comes before must do as well.
        assert!(heard.recv_timeout(Duration::from_millis(200)).is_err());
        cancel.cancel();
    });
    assert_eq!(outcome.result.unwrap_err().why, Why::Cancelled);
    drop(queue);
}

/// A listener that takes no more connections, and those that wait for it.
fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        waiting.push(stream);
        assert!(waiting.len() < 5000, "the queue has no end");
    }
    (listener, waiting)
}

#[test]
fn a_cancelled_request_is_not_sent() {
    let server = Server::start();
    let cancel = CancelSource::new();
    cancel.cancel();
    let outcome = call_with(&mut provider(&server), &cancel, false, |_| {});
    assert_eq!(outcome.result.unwrap_err().why, Why::Cancelled);
    // Whatever was connected before this: no byte came over it.
    let marker = TcpStream::connect(server.address()).unwrap().local_addr().unwrap();
    loop {
        let mut peer = server.accept();
        peer.expect_closed();
        if peer.client() == marker {
            break;
        }
    }
}

#[test]
fn a_cancel_reaches_a_call_that_waits_for_its_next_try() {
    let server = Server::start();
    let outcome = call_with(&mut provider(&server), &CancelSource::new(), true, |_| {
        server.accept().answer(&status("503 x", "", ""));
    });
    assert_eq!(outcome.pauses().len(), 1);
    assert_eq!(outcome.result.unwrap_err().why, Why::Cancelled);
}

#[test]
fn what_may_pass_is_tried_again_and_told_in_the_provider_s_words() {
    let server = Server::start();
    let busy = status("503 x", "", r#"{"error":{"message":"all busy"}}"#);
    let outcome = call_answered(&server, &[busy.clone(), busy, good("at last")]);
    assert_eq!(outcome.text(), "at last");
    let why = "503 Service Unavailable: all busy";
    assert_eq!(outcome.pauses(), [(why, Duration::ZERO), (why, Duration::ZERO)]);
}

#[test]
fn there_are_five_tries() {
    let server = Server::start();
    let outcome = call_answered(&server, &vec![status("502 x", "", "<title>502 Bad Gateway</title>"); 5]);
    assert_eq!(
        outcome.failure(),
        &Failure { status: Some(502), message: "502 Bad Gateway".into(), too_long: false, unanswered: false }
    );
    assert_eq!(outcome.pauses().len(), 4);
}

#[test]
fn a_provider_says_when_to_come_back() {
    let server = Server::start();
    let past = "Wed, 21 Oct 2015 07:28:00 GMT";
    let future = httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(3600));
    for (header, wait) in [
        ("retry-after: 2".to_owned(), Duration::from_secs(2)),
        ("retry-after: 0".to_owned(), Duration::ZERO),
        ("retry-after: 100000".to_owned(), Duration::from_secs(60)),
        ("retry-after: 9e99".to_owned(), Duration::from_secs(60)),
        (format!("retry-after: {past}"), Duration::ZERO),
        (format!("retry-after: {future}"), Duration::from_secs(60)),
        ("retry-after: 9\r\nretry-after-ms: 1500".to_owned(), Duration::from_millis(1500)),
    ] {
        let limited = status("429 x", &format!("{header}\r\n"), "");
        let outcome = call_answered(&server, &[limited, good("a")]);
        assert_eq!(outcome.pauses(), [("429 Too Many Requests", wait)], "{header}");
    }
}

#[test]
fn what_will_not_pass_is_not_tried_again() {
    let server = Server::start();
    for (line, body) in [
        ("401 x", r#"{"error":{"message":"bad key"}}"#),
        ("402 x", ""),
        ("404 x", ""),
        ("413 x", ""),
        ("429 x", r#"{"error":{"code":"insufficient_quota"}}"#),
    ] {
        let outcome = call_answered(&server, &[status(line, "", body)]);
        assert_eq!(outcome.pauses(), [], "{line}");
        assert_eq!(outcome.failure().status, line.get(..3).unwrap().parse().ok(), "{line}");
    }
}

#[test]
fn a_key_that_comes_back_is_masked() {
    let server = Server::start();
    let body = json!({"error": {"message": format!("Incorrect API key provided: {KEY}.")}}).to_string();
    let outcome = call_answered(&server, &[status("401 x", "", &body)]);
    assert!(!outcome.failure().message.contains(KEY), "{}", outcome.failure().message);
    let stream =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: {{\"error\":\"{KEY} overloaded\"}}\n\n");
    let outcome = call_answered(&server, &[stream, status("403 x", "", "")]);
    assert_eq!(outcome.pauses(), [("*** overloaded", Duration::ZERO)]);
}

#[test]
fn a_redirect_is_not_followed() {
    let server = Server::start();
    let header = format!("location: http://user:{KEY}@evil.example/v1?key={KEY}\r\n");
    let outcome = call_answered(&server, &[status("307 x", &header, "")]);
    let message = &outcome.failure().message;
    assert!(message.contains("redirects to http://evil.example/v1,") && !message.contains(KEY), "{message}");
    assert_eq!(outcome.pauses(), []);
}

#[test]
fn of_an_error_s_body_only_the_beginning_is_read() {
    let server = Server::start();
    let outcome = call(&mut provider(&server), || {
        let mut peer = server.accept();
        peer.request();
        peer.send("HTTP/1.1 400 x\r\n\r\n");
        peer.send(&"a".repeat(64 << 10));
        peer.expect_closed(); // though the body has not ended
    });
    assert!(outcome.failure().message.starts_with("400 Bad Request: aaa"));
}

#[test]
fn a_body_that_is_no_text_still_makes_words() {
    let server = Server::start();
    let outcome = call(&mut provider(&server), || {
        let mut peer = server.accept();
        peer.request();
        peer.send_bytes(b"HTTP/1.1 400 x\r\nconnection: close\r\n\r\n\xff\xfeno\x1b[1m");
    });
    assert_eq!(outcome.failure().message, "400 Bad Request: \u{fffd}\u{fffd}no\\u{1b}[1m");
}

#[test]
fn a_reply_that_breaks_off_is_tried_again_only_if_nothing_was_shown() {
    let server = Server::start();
    let cut = |chunk: Value| format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", sse(&[chunk]));
    let thought = json!({"choices": [{"delta": {"reasoning": "hm"}}]});
    let outcome = call_answered(&server, &[cut(thought), good("a")]);
    assert_eq!((outcome.text(), outcome.pauses().len()), ("a", 1));
    let outcome = call_answered(&server, &[cut(text("Half"))]);
    assert!(outcome.failure().message.contains("cut off"));
    assert_eq!(outcome.result.unwrap_err().partial.text, "Half");
    let begun = json!({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"name": "rm"}}]}}]});
    assert_eq!(call_answered(&server, &[cut(begun)]).pauses(), []);
}

#[test]
fn a_connection_that_is_reset_counts_like_one_that_ends() {
    let server = Server::start();
    let outcome = call(&mut provider(&server), || {
        let mut peer = server.accept();
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        peer.send_chunk(&sse(&[text("All of it."), stop()]));
        drop(peer); // a chunked body that has no end
    });
    assert_eq!(outcome.text(), "All of it.");
}

#[test]
fn an_error_in_the_stream_and_an_empty_answer_are_tried_again() {
    let server = Server::start();
    let ok = |body: &str| format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{body}");
    let overloaded = ok("data: {\"error\":{\"message\":\"Overloaded\",\"code\":529}}\n\n");
    let outcome = call_answered(&server, &[overloaded, ok("data: [DONE]\n\n"), good("a")]);
    let why: Vec<&str> = outcome.pauses().iter().map(|(why, _)| *why).collect();
    assert_eq!(why, ["529: Overloaded", "the model gave an empty answer"]);
    let outcome = call_answered(&server, &[ok(&sse(&[stop()]))]);
    assert_eq!((outcome.text(), &outcome.result.as_ref().unwrap().stop), ("", &Stop::End));
}

#[test]
fn silence_is_tried_again_once() {
    let server = Server::start();
    let net = Net { idle: Duration::from_millis(50), ..net() };
    let mut provider = provider_with(&server.base_url(), &net, &Environment::default());
    let outcome = call(&mut provider, || {
        for _ in 0..2 {
            let mut peer = server.accept();
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\n\r\n: thinking\n\n");
            peer.expect_closed();
        }
    });
    assert!(outcome.failure().message.contains("fell silent"), "{}", outcome.failure().message);
    assert_eq!(outcome.pauses().len(), 1);
}

#[test]
fn the_first_byte_may_take_longer_than_the_next() {
    let server = Server::start();
    let net = Net { idle: Duration::from_millis(50), ..net() };
    let mut provider = provider_with(&server.base_url(), &net, &Environment::default());
    let outcome = call_with(&mut provider, &CancelSource::new(), false, |heard| {
        let mut peer = server.accept();
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n");
        assert!(heard.recv_timeout(Duration::from_millis(200)).is_err());
        peer.send(&sse(&[text("late"), stop()]));
    });
    assert_eq!((outcome.text(), outcome.pauses()), ("late", vec![]));
}

#[test]
fn an_answer_that_never_comes_has_a_limit() {
    let server = Server::start();
    let net = Net { first_byte: Duration::from_millis(50), ..net() };
    let mut provider = provider_with(&server.base_url(), &net, &Environment::default());
    let outcome = call(&mut provider, || {
        for _ in 0..5 {
            let mut peer = server.accept();
            peer.request();
            peer.expect_closed();
        }
    });
    assert!(
        outcome.failure().message.contains("no answer from http://127.0.0.1:"),
        "{:?}",
        outcome.failure()
    );
}

#[test]
fn a_port_that_nobody_listens_on_is_named() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let base = format!("http://user:{KEY}@{address}/v1");
    let outcome = call(&mut provider_with(&base, &net(), &Environment::default()), || {});
    let message = &outcome.failure().message;
    assert!(message.contains(&format!("no answer from http://{address}: ")), "{message}");
    assert!(message.contains("refused") && !message.contains(KEY), "{message}");
    assert_eq!(outcome.pauses().len(), 4);
}

#[test]
fn headers_and_replies_have_a_limit() {
    let server = Server::start();
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "a".repeat(70 << 10));
    let outcome = call(&mut provider(&server), || server.accept().answer(&endless));
    assert!(outcome.failure().message.contains("64 KiB of headers"), "{:?}", outcome.failure());
    let outcome = call(&mut provider(&server), || {
        let mut peer = server.accept();
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\n\r\n{");
        while peer.try_send(&" ".repeat(1 << 20)) {}
    });
    assert!(outcome.failure().message.contains("more than 64 MiB"), "{:?}", outcome.failure());
}

#[test]
fn a_field_the_server_refuses_is_left_out_from_then_on() {
    let server = Server::start();
    let mut provider = provider(&server);
    let refusal = status("400 x", "", r#"{"error":{"message":"Unrecognized argument: stream_options"}}"#);
    let outcome = call(&mut provider, || {
        let mut peer = server.accept();
        assert!(peer.request().body["stream_options"].is_object());
        peer.send(&refusal);
        drop(peer);
        let mut peer = server.accept();
        assert_eq!(peer.request().body.get("stream_options"), None);
        peer.send(&good("a"));
    });
    assert_eq!((outcome.text(), outcome.pauses()), ("a", vec![]));
    let outcome = call(&mut provider, || {
        let mut peer = server.accept();
        assert_eq!(peer.request().body.get("stream_options"), None);
        peer.send(&good("b"));
    });
    assert_eq!(outcome.text(), "b");
}

#[test]
fn a_model_without_tools_is_named() {
    let server = Server::start();
    let refusal = status("400 x", "", r#"{"error":{"message":"m does not support tools"}}"#);
    let message = &call_answered(&server, &[refusal]).failure().message.clone();
    assert!(
        message.contains("m does not support tools (Bob needs a model that can call tools; `m` can't)"),
        "{message}"
    );
}

#[test]
fn a_proxy_from_the_environment_is_used() {
    let server = Server::start();
    let environment: Environment =
        [("HTTP_PROXY", format!("http://u:p@{}", server.address()))].into_iter().collect();
    let mut provider = provider_with("http://model.invalid/v1", &net(), &environment);
    let outcome = call(&mut provider, || {
        let mut peer = server.accept();
        let head = peer.head();
        assert!(head.starts_with("CONNECT model.invalid:80 HTTP/1.1\r\n"), "{head}");
        assert!(
            head.to_lowercase().contains("proxy-authorization: basic dtpw\r\n")
                || head.contains("Basic dTpw")
        );
        peer.send("HTTP/1.1 200 Connected\r\n\r\n");
        peer.answer(&good("through"));
    });
    assert_eq!(outcome.text(), "through");
}

#[test]
fn no_proxy_names_who_is_asked_directly() {
    let server = Server::start();
    let environment: Environment =
        [("http_proxy", "http://127.0.0.1:9"), ("no_proxy", "example.com, 127.0.0.1")].into_iter().collect();
    let mut provider = provider_with(&server.base_url(), &net(), &environment);
    assert_eq!(call(&mut provider, || server.accept().answer(&good("direct"))).text(), "direct");
}

#[test]
fn an_address_that_speaks_no_tls_is_told_and_not_tried_again() {
    let server = Server::start();
    let base_url = server.base_url().replace("http:", "https:");
    let mut provider = provider_with(&base_url, &net(), &Environment::default());
    let outcome = call(&mut provider, || server.accept().send("HTTP/1.1 400 Bad Request\r\n\r\n"));
    assert!(outcome.failure().message.ends_with("is this an http address?"), "{}", outcome.failure().message);
    assert_eq!(outcome.pauses(), []);
}

#[test]
fn a_file_of_certificates_without_one_is_told() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for variable in [None, Some("SSL_CERT_FILE")] {
        let ca_file = variable.is_none().then(|| file.path().to_owned());
        let path = file.path().to_str().unwrap();
        let environment = variable.into_iter().map(|name| (name, path)).collect();
        let mut provider = provider_with("https://127.0.0.1:1/v1", &Net { ca_file, ..net() }, &environment);
        let outcome = call(&mut provider, || ());
        let message = &outcome.failure().message;
        assert!(message.starts_with(variable.unwrap_or("net.caFile")), "{message}");
        assert!(message.contains(&format!("no certificate in `{path}`")), "{message}");
    }
}

#[test]
fn settings_that_can_t_work_are_told_and_not_tried() {
    let socks: Environment = [("ALL_PROXY", "socks5://127.0.0.1:1")].into_iter().collect();
    let missing: Environment = [("SSL_CERT_FILE", "/nonexistent/ca.pem")].into_iter().collect();
    for (base, environment, words) in [
        ("http://127.0.0.1:9", socks, "SOCKS proxy"),
        ("https://127.0.0.1:9", missing, "failed to read `/nonexistent/ca.pem`"),
        ("no url", Environment::default(), "base URL"),
    ] {
        let outcome = call(&mut provider_with(base, &net(), &environment), || {});
        assert!(outcome.failure().message.contains(words), "{:?}", outcome.failure());
        assert_eq!(outcome.pauses(), []);
    }
}

#[test]
fn text_cut_at_every_byte_arrives_whole() {
    let server = Server::start();
    let words = "北京🙂é";
    let body = sse(&[text(words), stop()]);
    let cut = body.find('北').unwrap();
    for at in cut..cut + words.len() {
        let outcome = call(&mut provider(&server), || {
            let mut peer = server.accept();
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            peer.send_chunk_bytes(&body.as_bytes()[..at]);
            peer.send_chunk_bytes(&body.as_bytes()[at..]);
            peer.send("0\r\n\r\n");
        });
        assert_eq!(outcome.text(), words);
    }
}
