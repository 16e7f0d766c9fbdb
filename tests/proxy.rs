//! Proxies: which is used, what it learns, and what is said when it is of no use.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use serde_json::json;
use std::net::{SocketAddr, TcpListener};
use support::client::{Client, Launch, Turn};
use support::model_server::ModelServer;
use support::proxy::Proxy;
use support::tls::{Authority, Flaw, TlsFront};
use support::turns::works;
use support::write_file;

const PASSWORD: &str = "p4ss-w0rd";
const KEY: &str = "sk-0123456789";

fn talk(launch: Launch) -> (Client, String) {
    let mut client = launch.start();
    let session = client.open();
    (client, session)
}

fn with_authority(launch: Launch, authority: &Authority) -> Launch {
    let path = write_file(launch.home(), "ca.pem", authority.pem());
    write_file(launch.home(), ".bob/config.json", json!({"net": {"caFile": path}}).to_string());
    launch
}

fn nobody_listens() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn each_spelling_names_the_proxy() {
    let server = ModelServer::start();
    let dead = format!("http://{}", nobody_listens());
    for (name, address, beside) in [
        ("HTTP_PROXY", "http://{}", None),
        ("http_proxy", "http://{}/", Some("HTTP_PROXY")),
        ("ALL_PROXY", "HTTP://{}", Some("HTTPS_PROXY")),
        ("all_proxy", "{}", None),
    ] {
        let proxy = Proxy::to(server.address());
        let launch = Launch::new().model("http://model.invalid:8080/v1");
        let launch = launch.env(name, address.replace("{}", &proxy.address().to_string()));
        let launch = if let Some(beside) = beside { launch.env(beside, &dead) } else { launch };
        let (mut client, session) = talk(launch);
        works(&mut client, &session, &server);
        let head = proxy.asked();
        assert!(head.starts_with("CONNECT model.invalid:8080 HTTP/1.1\r\n"), "{name}: {head}");
        client.finish();
    }
}

#[test]
fn who_is_excepted_is_asked_directly() {
    let server = ModelServer::start();
    let proxy = Proxy::that_says("HTTP/1.1 502 x\r\n\r\n");
    let port = server.address().port();
    for (name, list) in [
        ("NO_PROXY", "127.0.0.1".to_owned()),
        ("no_proxy", format!("example.com, 127.0.0.1:{port}")),
        ("NO_PROXY", "*".to_owned()),
        ("NO_PROXY", "a b,127.0.0.1".to_owned()),
    ] {
        let launch = Launch::new().model(&server.base_url()).env(name, &list);
        let (mut client, session) = talk(launch.env("HTTP_PROXY", format!("http://{}", proxy.address())));
        works(&mut client, &session, &server);
        client.finish();
    }
    assert_eq!(proxy.unasked(), 0);
}

/// The proxy sees where it leads to, and nothing else: the key goes through the tunnel.
#[test]
fn a_private_authority_is_known_through_a_proxy_whose_password_nobody_sees() {
    let (authority, server) = (Authority::new(), ModelServer::start());
    let front = TlsFront::new(server.address(), authority.signs(Flaw::None));
    let proxy = Proxy::to(front.address());
    let launch = Launch::new().model(&front.base_url()).env("LOCAL_API_KEY", KEY);
    let launch = launch.env("RUST_LOG", "trace").env("BOB_LOG", "trace");
    let address = format!("http://me:{PASSWORD}%40@{}", proxy.address());
    let (mut client, session) = talk(with_authority(launch.env("https_proxy", address), &authority));
    works(&mut client, &session, &server);
    works(&mut client, &session, &server);
    let head = proxy.asked();
    let port = front.address().port();
    assert!(head.starts_with(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n")), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic bWU6cDRzcy13MHJkQA==\r\n"), "{head}");
    assert!(!head.contains(KEY) && !head.contains("test-model"), "{head}");
    assert_eq!(proxy.unasked(), 0, "the tunnel is kept");
    let request = server.wait_request(1);
    assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(request.header("proxy-authorization"), None);
    client.finish();
    let stderr = client.wait_stderr();
    for secret in [PASSWORD, "bWU6cDRzcy13MHJkQA", KEY] {
        let lines: Vec<_> = stderr.lines().filter(|line| line.contains(secret)).collect();
        assert!(lines.is_empty(), "{lines:#?}");
    }
}

#[test]
fn a_proxy_may_itself_speak_tls() {
    let (authority, server) = (Authority::new(), ModelServer::start());
    let inner = TlsFront::new(server.address(), authority.signs(Flaw::None));
    for (base_url, target, name) in [
        (inner.base_url(), inner.address(), "HTTPS_PROXY"),
        ("http://model.invalid/v1".to_owned(), server.address(), "HTTP_PROXY"),
    ] {
        let proxy = Proxy::to(target);
        let outer = TlsFront::new(proxy.address(), authority.signs(Flaw::None));
        let launch = Launch::new().model(&base_url).env(name, format!("https://{}", outer.address()));
        let (mut client, session) = talk(with_authority(launch, &authority));
        works(&mut client, &session, &server);
        assert!(proxy.asked().starts_with("CONNECT "));
        client.finish();
    }
}

/// What a proxy that is of no use makes of a prompt. Where it is tried again, the first notice.
struct Refused {
    words: String,
    tried_again: bool,
}

fn through(proxy: &str) -> Refused {
    let launch = Launch::new().model("https://model.invalid/v1").env("LOCAL_API_KEY", KEY);
    let (mut client, session) = talk(launch.env("HTTPS_PROXY", proxy));
    let prompt = client.send_prompt(&session, "hi");
    let first = client.wait_update(|update| {
        update["sessionUpdate"] == "agent_thought_chunk" || update["sessionUpdate"] == "agent_message_chunk"
    });
    let tried_again = first["sessionUpdate"] == "agent_thought_chunk";
    if tried_again {
        client.notify("session/cancel", json!({"sessionId": session}));
    }
    let Turn { response, .. } = client.wait_turn(&session, &prompt);
    assert_eq!(response["result"]["stopReason"] == "cancelled", tried_again, "{response}");
    client.finish();
    let words = first["content"]["text"].as_str().unwrap().to_owned();
    let all = format!("{words}{response}{}", client.wait_stderr());
    assert!(!all.contains(PASSWORD) && !all.contains(KEY), "{all}");
    Refused { words, tried_again }
}

#[test]
fn a_proxy_that_refuses_is_named_with_what_to_do() {
    for (says, tried_again, words) in [
        (
            "HTTP/1.1 407 x\r\nProxy-Authenticate: Basic\r\nContent-Length: 2\r\n\r\nno",
            false,
            "407 Proxy Authentication Required; it wants a user name and password",
        ),
        ("HTTP/1.1 403 x\r\n\r\n", false, "403 Forbidden; hosts that need no proxy belong in NO_PROXY"),
        ("HTTP/1.1 302 x\r\nLocation: http://portal/\r\n\r\n", false, "302 Found"),
        ("HTTP/1.1 503 x\r\n\r\n", true, "503 Service Unavailable"),
        ("", true, "did not respond"),
        ("SSH-2.0-OpenSSH_9.7\r\n\r\n", false, "does not answer as HTTP has it"),
        ("HTTP/1.1 200 x\r\n\r\nHTTP/1.1 400 Bad Request\r\n\r\n", false, "does not speak TLS"),
    ] {
        let proxy = Proxy::that_says(says);
        let refused = through(&format!("http://me:{PASSWORD}@{}", proxy.address()));
        assert_eq!(refused.tried_again, tried_again, "{}", refused.words);
        let named = format!("https://model.invalid through the proxy {} (HTTPS_PROXY)", proxy.address());
        for words in [words, &named] {
            assert!(refused.words.contains(words), "{words:?} is not in {}", refused.words);
        }
    }
}

#[test]
fn a_proxy_that_is_not_there_is_not_taken_for_the_model() {
    let dead = nobody_listens();
    let refused = through(&format!("http://me:{PASSWORD}@{dead}"));
    assert!(refused.tried_again && refused.words.contains("refused"), "{}", refused.words);
    assert!(refused.words.contains(&format!("through the proxy {dead} (HTTPS_PROXY)")), "{}", refused.words);
    let nowhere = "a".repeat(64); // no name is as long: no server has to be asked for it
    let refused = through(&format!("http://me:{PASSWORD}@{nowhere}:3128"));
    let named = format!("through the proxy {nowhere}:3128 (HTTPS_PROXY): failed to lookup address");
    assert!(refused.tried_again && refused.words.contains(&named), "{}", refused.words);
    for (address, words) in [
        (format!("socks5://me:{PASSWORD}@{dead}"), "HTTPS_PROXY names a SOCKS proxy"),
        (format!("http://me:{PASSWORD}@"), "HTTPS_PROXY holds no address of a proxy"),
        (format!("http:// {PASSWORD}"), "HTTPS_PROXY holds no address of a proxy"),
        (format!("ftp://me:{PASSWORD}@{dead}"), "HTTPS_PROXY holds no address of a proxy"),
    ] {
        let refused = through(&address);
        assert!(!refused.tried_again && refused.words.contains(words), "{}", refused.words);
    }
}
