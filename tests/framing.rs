//! Lines as bytes: what a text file of a conversation can't hold.
mod support;

use serde_json::json;
use support::client::Launch;
use support::model_server::ModelServer;
use support::openai;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;

/// One line that is good but for what stands around it.
#[track_caller]
fn is_answered(bytes: &[u8]) {
    let mut client = Launch::new().demo().start();
    client.send_raw(bytes);
    client.close_stdin();
    assert_eq!(client.wait_response(&json!(1))["result"]["protocolVersion"], 1);
    assert!(client.wait_exit().success());
}

/// A line that is no JSON, between two that are.
#[track_caller]
fn is_a_parse_error(line: &[u8]) {
    let mut client = Launch::new().demo().start();
    client.initialize();
    client.send_raw(line);
    let answer = client.next().expect("it is answered");
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(null), &json!(-32700)), "{answer}");
    client.initialize();
    client.finish();
}

#[test]
fn line_ends_and_blanks_are_tolerated() {
    is_answered(format!("{INITIALIZE}\r\n").as_bytes());
    is_answered(format!("\r\n \t\r\n{INITIALIZE}\n").as_bytes());
    is_answered(format!("  {INITIALIZE}\t \n").as_bytes());
}

#[test]
fn the_last_line_needs_no_newline() {
    is_answered(INITIALIZE.as_bytes());
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_very_start_only() {
    is_answered(format!("\u{feff}{INITIALIZE}\n").as_bytes());
    is_a_parse_error(format!("\u{feff}{INITIALIZE}\n").as_bytes());
}

#[test]
fn bytes_that_are_no_text_are_a_parse_error() {
    is_a_parse_error(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\xfe\"}\n");
    is_a_parse_error(b"\0\n");
}

#[test]
fn nesting_without_end_is_a_parse_error() {
    let deep = "[".repeat(100_000);
    is_a_parse_error(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":{deep}}}\n").as_bytes(),
    );
    is_a_parse_error(format!("{deep}\n").as_bytes());
}

#[test]
fn a_character_may_be_cut_anywhere_on_its_way_in() {
    let line = format!("{}\n", INITIALIZE.replace("{}", r#"{"_meta":{"a":"北京🙂é"}}"#));
    let first = line.find('北').expect("it is there");
    let mut client = Launch::new().demo().start();
    for cut in first..first + "北京🙂é".len() {
        client.send_cut(line.as_bytes(), cut);
        assert_eq!(client.wait_response(&json!(1))["result"]["protocolVersion"], 1);
    }
    client.finish();
}

#[test]
fn long_lines_are_read_whole() {
    let mut client = Launch::new().demo().start();
    let session = client.open();
    for megabytes in [5, 9] {
        let text = "x".repeat(megabytes << 20);
        let block = json!({"type": "audio", "mimeType": "audio/wav", "data": text});
        let answer = client.call("session/prompt", json!({"sessionId": session, "prompt": [block]}));
        assert_eq!(answer["error"]["code"], -32602);
    }
    client.finish();
}

/// The bookkeeping of an answer once came after the answer, and took the next request of that id for the last one.
/// Eight at a time, so that somebody is interrupted between the two.
#[test]
fn an_answered_id_may_be_used_again_at_once() {
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(one_id_for_all))));
}

fn one_id_for_all() {
    const PROMPTS: usize = 300;
    let server = ModelServer::with((0..PROMPTS).map(|_| openai::say("x")));
    let mut client = Launch::new().model(&server.base_url()).start();
    let session = client.open();
    let prompt = json!({"jsonrpc": "2.0", "id": "again", "method": "session/prompt",
        "params": {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}});
    for _ in 0..PROMPTS {
        client.send(&prompt);
        let turn = client.wait_turn(&session, &json!("again"));
        assert_eq!((turn.stop_reason(), turn.text().as_str()), ("end_turn", "x"), "{}", turn.response);
    }
    client.finish();
}
