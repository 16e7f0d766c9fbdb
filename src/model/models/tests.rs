//! Lists over a real socket.
use super::*;
use crate::cancel::CancelSource;
use crate::settings::Secret;
use crate::settings::llm::Format;
use crossbeam_channel::{Receiver, unbounded};
use serde_json::{Map, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

const KEY: &str = "sk-very-secret";
const NEVER: Duration = Duration::from_secs(600);

/// Gives each connection the next answer and closes it, except that an answer that doesn't end is held open. What
/// was asked comes out of the channel.
fn serve(answers: Vec<String>) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, asked) = unbounded();
    let accept = move || {
        let mut held = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            let _ = reader.get_mut().write_all(answer.as_bytes()); // it may have had enough
            if sender.send(head.to_lowercase()).is_err() {
                return;
            }
            held.extend(answer.contains("HOLD").then_some(reader));
        }
        let _ = listener.accept(); // whoever is held waits for the end of the process
        drop(held);
    };
    thread::Builder::new().name("serve".into()).spawn(accept).unwrap();
    (format!("http://{address}/v1"), asked)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn redirect(to: &str) -> String {
    format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
}

fn endpoint(base_url: &str, format: Format) -> Endpoint {
    Endpoint {
        provider: "OPENAI".into(),
        format,
        api_key: Some(Secret::new(KEY)),
        base_url: base_url.into(),
        model: "m".into(),
        temperature: None,
        max_tokens: None,
        thinking: None,
        extra_body: Map::new(),
    }
}

fn list(base_url: &str, limit: Duration) -> Result<Vec<String>, Failure> {
    let net = Net { ca_file: None, connect: NEVER, first_byte: NEVER, idle: NEVER };
    let endpoint = endpoint(base_url, Format::OpenAiCompletions);
    list_models(&endpoint, &net, &Environment::default(), &CancelSource::new().token(), limit)
}

#[test]
fn the_address_is_the_formats() {
    for (format, base, expected) in [
        (Format::OpenAiCompletions, "http://h/v1", "http://h/v1/models"),
        (Format::OpenAiCompletions, "http://h/v1/chat/completions", "http://h/v1/models"),
        (Format::OpenAiResponses, "http://h/v1/", "http://h/v1/models"),
        (Format::AnthropicMessages, "http://h", "http://h/v1/models"),
        (Format::AnthropicMessages, "http://h/v1", "http://h/v1/models"),
        (Format::AnthropicMessages, "http://h/v1/messages", "http://h/v1/models"),
    ] {
        assert_eq!(url(dialect_of(&endpoint(base, format)).url()), expected);
    }
}

#[test]
fn the_key_goes_as_the_format_has_it() {
    for (format, header) in
        [(Format::OpenAiCompletions, "authorization: bearer "), (Format::AnthropicMessages, "x-api-key: ")]
    {
        let (base, asked) = serve(vec![answer("200 OK", r#"{"data": []}"#)]);
        let net = Net { ca_file: None, connect: NEVER, first_byte: NEVER, idle: NEVER };
        let token = CancelSource::new().token();
        list_models(&endpoint(&base, format), &net, &Environment::default(), &token, NEVER).unwrap();
        let head = asked.recv().unwrap();
        assert!(head.contains(&format!("{header}{KEY}\r\n")), "{head}");
    }
}

#[test]
fn a_list_is_understood_in_every_shape() {
    for (body, expected) in [
        (json!({"data": [{"id": "b"}, {"id": "a"}, {"id": "b"}]}), Some(vec!["b", "a"])),
        (json!({"models": [{"name": "n"}, {"model": "m"}]}), Some(vec!["n", "m"])),
        (json!(["x", "", "a\u{1b}[31m", 3, null]), Some(vec!["x"])),
        (json!({"data": []}), Some(vec![])),
        (json!({"object": "list"}), None),
        (json!("data"), None),
    ] {
        let expected = expected.map(|names| names.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(names(&body), expected, "{body}");
    }
}

#[test]
fn a_redirect_is_followed_and_the_key_goes_to_the_same_origin_only() {
    let (other, asked_other) = serve(vec![answer("200 OK", r#"{"data": [{"id": "m"}]}"#)]);
    let (home, asked) = serve(vec![redirect("/elsewhere"), redirect(&format!("{other}/models"))]);
    assert_eq!(list(&home, NEVER).unwrap(), ["m"]);
    let (first, second) = (asked.recv().unwrap(), asked.recv().unwrap());
    assert!(first.starts_with("get /v1/models ") && first.contains(KEY), "{first}");
    assert!(second.starts_with("get /elsewhere ") && second.contains(KEY), "{second}");
    let foreign = asked_other.recv().unwrap();
    assert!(!foreign.contains(KEY) && !foreign.contains("authorization"), "{foreign}");
}

#[test]
fn a_redirect_without_end_or_place_is_an_error() {
    let (home, _asked) = serve(vec![redirect("/v1/models"); 10]);
    let message = list(&home, NEVER).unwrap_err().message;
    assert!(message.contains("redirects in circles"), "{message}");
    let (home, _asked) = serve(vec![redirect("file:///etc/passwd")]);
    let message = list(&home, NEVER).unwrap_err().message;
    assert!(message.contains("redirects to file:///etc/passwd, which is not followed"), "{message}");
}

#[test]
fn an_error_is_told_without_the_key() {
    let body = format!(r#"{{"error": {{"message": "Incorrect API key provided: {KEY}."}}}}"#);
    let (base, _asked) = serve(vec![answer("401 Unauthorized", &body)]);
    let failure = list(&base, NEVER).unwrap_err();
    assert_eq!(failure.status, Some(401));
    assert!(failure.message.starts_with("401 Unauthorized: Incorrect API key"), "{}", failure.message);
    assert!(!failure.message.contains(KEY), "{}", failure.message);
}

#[test]
fn what_is_no_list_is_an_error() {
    for (body, why) in [
        ("<html><title>Welcome</title>", "no list of models"),
        (r#"{"data": 1}"#, "no list of models"),
        (&" ".repeat(LIST_LIMIT + 1), "more than 8 MiB"),
    ] {
        let (base, _asked) = serve(vec![answer("200 OK", body)]);
        let message = list(&base, NEVER).unwrap_err().message;
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn the_limit_holds_for_an_answer_that_never_ends() {
    for beginning in ["HTTP/1.1 200 OK\r\nHOLD:", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nHOLD"] {
        let (base, _asked) = serve(vec![beginning.to_owned()]);
        assert!(list(&base, Duration::from_millis(200)).is_err());
    }
}

#[test]
fn a_cancel_ends_the_wait() {
    let (base, asked) = serve(vec!["HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nHOLD".into()]);
    let source = CancelSource::new();
    let token = source.token();
    let canceller = move || {
        asked.recv().unwrap();
        source.cancel();
    };
    let cancelling = thread::Builder::new().spawn(canceller).unwrap();
    let net = Net { ca_file: None, connect: NEVER, first_byte: NEVER, idle: NEVER };
    let endpoint = endpoint(&base, Format::OpenAiCompletions);
    let failure = list_models(&endpoint, &net, &Environment::default(), &token, NEVER).unwrap_err();
    assert_eq!(failure.message, "cancelled");
    cancelling.join().unwrap();
}
