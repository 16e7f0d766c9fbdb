//! Whom Bob trusts when it talks to a model over TLS, and what it says when it does not.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
mod support;

use crossbeam_channel::{Receiver, unbounded};
use serde_json::json;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use support::client::{Client, Launch, Turn};
use support::command::User;
use support::model_server::{End, ModelServer};
use support::openai::{finish, say, stream, text};
use support::tls::{Authority, Flaw, TlsFront, self_signed};
use support::turns::works;
use support::{HANG, listen, pass_on, write_file};

/// A session with the model behind `front`.
struct Talk {
    client: Client,
    session: String,
}

impl Talk {
    fn with(front: &TlsFront, set_up: impl FnOnce(Launch) -> Launch) -> Self {
        let mut client = set_up(Launch::new().model(&front.base_url())).start();
        let session = client.open();
        Self { client, session }
    }

    fn prompt(&mut self) -> Turn {
        self.client.prompt(&self.session, "hi")
    }

    /// A prompt that fails at once; the error's words.
    #[track_caller]
    fn refused(&mut self) -> String {
        let turn = self.prompt();
        let message = turn.error().to_owned();
        assert_eq!(turn.thoughts(), "", "a certificate does not mend itself: there is no second try");
        assert_eq!(turn.text(), message, "it is shown");
        assert!(!message.trim().contains('\n'), "{message}");
        message
    }

    #[track_caller]
    fn works(&mut self, server: &ModelServer) {
        works(&mut self.client, &self.session, server);
    }
}

/// With `net.caFile` as the user's file has it.
fn ca_file(launch: Launch, pem: &str) -> Launch {
    let path = write_file(launch.home(), "ca.pem", pem);
    write_file(launch.home(), ".bob/config.json", json!({"net": {"caFile": path}}).to_string());
    launch
}

fn ssl_cert_file(launch: Launch, pem: &str) -> Launch {
    let path = write_file(launch.home(), "ssl.pem", pem);
    launch.env("SSL_CERT_FILE", path)
}

#[test]
fn a_server_that_is_mended_is_trusted_again_in_the_same_session() {
    let (authority, server) = (Authority::new(), ModelServer::start());
    let front = TlsFront::new(server.address(), Authority::new().signs(Flaw::None));
    let mut talk = Talk::with(&front, |launch| ca_file(launch, authority.pem()));
    talk.refused();
    front.present(authority.signs(Flaw::None));
    talk.works(&server);
    talk.client.finish();
}

#[test]
fn a_private_authority_counts_wherever_it_is_named() {
    let (authority, other, server) = (Authority::new(), Authority::new(), ModelServer::start());
    let front = TlsFront::new(server.address(), authority.signs(Flaw::None));
    let several = format!("text of a tool\n{}\n{}", other.pem(), authority.pem());
    let ways: [&dyn Fn(Launch) -> Launch; 4] = [
        &|launch| ca_file(launch, authority.pem()),
        &|launch| ssl_cert_file(launch, &several),
        &|launch| ssl_cert_file(ca_file(launch, other.pem()), authority.pem()),
        &|launch| ssl_cert_file(ca_file(launch, authority.pem()), other.pem()),
    ];
    for way in ways {
        let mut talk = Talk::with(&front, way);
        talk.works(&server);
        talk.works(&server);
        talk.client.finish();
    }
    let connections: Vec<_> = server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 0, 1, 1, 2, 2, 3, 3], "a connection is kept over TLS too");
}

#[test]
fn an_authority_nobody_named_is_refused_with_the_setting_to_name_it() {
    let server = ModelServer::start();
    let front = TlsFront::new(server.address(), Authority::new().signs(Flaw::None));
    let mut talk = Talk::with(&front, |launch| launch);
    let message = talk.refused();
    for word in [&front.address().to_string(), "private CA", "net.caFile", "SSL_CERT_FILE"] {
        assert!(message.contains(word), "{word:?} is not in {message}");
    }
    talk.client.finish();
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn where_an_authority_is_named_and_is_the_wrong_one_nobody_is_told_to_name_it() {
    let (named, server) = (Authority::new(), ModelServer::start());
    let renewed = Authority::new().signs(Flaw::None); // of the same name
    let stranger = Authority::named("A Stranger").signs(Flaw::None);
    let front = TlsFront::new(server.address(), renewed.clone());
    let ways: [(&dyn Fn(Launch) -> Launch, &str); 3] = [
        (&|launch| ca_file(launch, named.pem()), "nor has one in net.caFile (`"),
        (&|launch| ssl_cert_file(launch, named.pem()), "nor has one in SSL_CERT_FILE (`"),
        (&|launch| ssl_cert_file(ca_file(launch, named.pem()), named.pem()), "ca.pem`) and SSL_CERT_FILE (`"),
    ];
    for (way, words) in ways {
        let mut talk = Talk::with(&front, way);
        for shown in [&renewed, &stranger] {
            front.present(shown.clone());
            let message = talk.refused();
            assert!(message.contains(words) && !message.contains("belongs in"), "{message}");
        }
        talk.client.finish();
    }
}

#[test]
fn what_is_wrong_with_a_certificate_is_told() {
    let (authority, server) = (Authority::new(), ModelServer::start());
    let front = TlsFront::new(server.address(), authority.signs(Flaw::None));
    let mut talk = Talk::with(&front, |launch| ca_file(launch, authority.pem()));
    for (flaw, words) in [
        (Flaw::Expired, "expired at 2020-02-03T00:00:00Z; is the clock right?"),
        (Flaw::NotYet, "begins at 4000-01-01T00:00:00Z; is the clock right?"),
        (Flaw::OtherHost, "is not for this host, but for DnsName(\"other.example\")"),
        (Flaw::NoHost, "names no host (subjectAltName)"),
    ] {
        front.present(authority.signs(flaw));
        let message = talk.refused();
        assert!(message.contains(words) && !message.contains("caFile"), "{message}");
    }
    front.present(authority.signs(Flaw::None));
    talk.works(&server);
    talk.client.finish();
}

#[test]
fn a_certificate_that_signed_itself_is_told_from_one_of_an_authority() {
    let server = ModelServer::start();
    let (config, pem) = self_signed();
    let front = TlsFront::new(server.address(), config);
    let mut talk = Talk::with(&front, |launch| ca_file(launch, &pem));
    let message = talk.refused();
    assert!(message.contains("certificate of a CA itself"), "{message}");
    talk.client.finish();
}

#[test]
fn a_file_that_is_of_no_use_is_named_until_it_is_mended() {
    let (authority, server) = (Authority::new(), ModelServer::start());
    let front = TlsFront::new(server.address(), authority.signs(Flaw::None));
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let cut = authority.pem().split("-----END").next().unwrap();
    let mut talk = Talk::with(&front, |launch| ca_file(launch, ""));
    let path = talk.client.home().join("ca.pem");
    for (content, words) in [
        (Some(""), "there is no certificate in"),
        (Some("no PEM"), "there is no certificate in"),
        (Some("\u{0}\u{1}\u{2}"), "there is no certificate in"),
        (Some(key), "there is no certificate in"),
        (Some(cut), "failed to read"),
        (Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "that can be read"),
        (None, "failed to read"),
    ] {
        match content {
            Some(content) => drop(write_file(talk.client.home(), "ca.pem", content)),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let message = talk.refused();
        for words in ["net.caFile: ", words, path.to_str().unwrap(), "has to name a file of PEM certificates"]
        {
            assert!(message.contains(words), "{words:?} is not in {message}");
        }
    }
    write_file(talk.client.home(), "ca.pem", authority.pem());
    talk.works(&server);
    talk.client.finish();
}

#[test]
fn a_file_of_no_use_is_no_trouble_to_who_speaks_no_tls() {
    let server = ModelServer::with([say("hello")]);
    let launch = Launch::new().model(&server.base_url()).env("SSL_CERT_FILE", "/nonexistent/ca.pem");
    let mut client = launch.start();
    let session = client.open();
    assert_eq!(client.prompt(&session, "hi").text(), "hello");
    client.finish();
}

#[test]
fn a_check_tells_of_a_certificate_too() {
    let server = ModelServer::start();
    let front = TlsFront::new(server.address(), Authority::new().signs(Flaw::None));
    let base_url = front.base_url();
    let variables = [("LLM_PROVIDER", "LOCAL"), ("LOCAL_BASE_URL", &base_url), ("LOCAL_MODEL", "m")];
    let ended = User::new().run(&["--check"], &variables, "");
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("net.caFile"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("does the server run"), "it does: {}", ended.stdout);
}

/// A handshake that breaks off may go better the next time.
#[test]
fn a_handshake_that_breaks_off_is_tried_again() {
    let (authority, server) = (Authority::new(), ModelServer::with([say("hello")]));
    let front = TlsFront::new(server.address(), authority.signs(Flaw::None));
    let connections = AtomicUsize::new(0);
    let broken = listen("breaks", move |client| {
        if connections.fetch_add(1, SeqCst) > 0 {
            pass_on(client, TcpStream::connect(front.address()).unwrap());
        }
    });
    let launch = Launch::new().model(&format!("https://{broken}/v1"));
    let mut client = ca_file(launch, authority.pem()).start();
    let session = client.open();
    let turn = client.prompt(&session, "hi");
    assert_eq!(turn.text(), "hello", "{}", turn.response);
    assert!(turn.thoughts().contains("trying again"), "{}", turn.thoughts());
    client.finish();
}

/// Who connects and is never answered; what the client does is in the test's hand.
fn silent() -> (String, Receiver<TcpStream>) {
    let (sender, accepted) = unbounded();
    let address = listen("silent", move |client| drop(sender.send(client)));
    (format!("https://{address}/v1"), accepted)
}

#[test]
fn a_handshake_without_an_end_has_the_limit_of_a_connect() {
    let (base_url, accepted) = silent();
    let launch = Launch::new().model(&base_url);
    write_file(launch.home(), ".bob/config.json", json!({"net": {"connectSeconds": 1}}).to_string());
    let mut client = launch.start();
    let session = client.open();
    let prompt = client.send_prompt(&session, "hi");
    let notice = client.wait_update(|update| update["sessionUpdate"] == "agent_thought_chunk");
    let words = notice["content"]["text"].as_str().unwrap();
    assert!(words.contains("no connection to https://127.0.0.1:") && words.contains("within 1 s"), "{words}");
    client.notify("session/cancel", json!({"sessionId": session}));
    client.wait_turn(&session, &prompt);
    client.finish();
    drop(accepted);
}

#[test]
fn a_cancel_reaches_a_handshake() {
    let (base_url, accepted) = silent();
    let mut client = Launch::new().model(&base_url).start();
    let session = client.open();
    let prompt = client.send_prompt(&session, "hi");
    let mut peer = accepted.recv_timeout(HANG).unwrap();
    peer.set_read_timeout(Some(HANG)).unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap(), 1, "the client has begun to speak");
    client.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(client.wait_turn(&session, &prompt).stop_reason(), "cancelled");
    // All that it had said, then its end.
    let ended = peer.read_to_end(&mut Vec::new());
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    client.finish();
}

#[test]
fn a_connection_that_was_closed_between_turns_is_made_anew_without_a_word() {
    let (authority, server) = (Authority::new(), ModelServer::start());
    let front = TlsFront::new(server.address(), authority.signs(Flaw::None));
    let mut talk = Talk::with(&front, |launch| ca_file(launch, authority.pem()));
    for _ in 0..3 {
        server.push(say("hello").end(End::CleanClose));
        let turn = talk.prompt();
        assert_eq!((turn.text().as_str(), turn.thoughts().as_str()), ("hello", ""), "{}", turn.response);
        front.wait_closed();
    }
    talk.client.finish();
}

#[test]
fn much_goes_either_way() {
    const MUCH: usize = 3 << 20;
    let (authority, server) = (Authority::new(), ModelServer::start());
    let front = TlsFront::new(server.address(), authority.signs(Flaw::None));
    let mut talk = Talk::with(&front, |launch| ca_file(launch, authority.pem()));
    server.push(stream([text(&"a".repeat(MUCH)), finish("stop")]));
    let turn = talk.client.prompt(&talk.session, &"b".repeat(MUCH));
    assert_eq!((turn.stop_reason(), turn.text().len()), ("end_turn", MUCH));
    assert!(server.wait_request(0).raw.len() > MUCH);
    talk.client.finish();
}

#[test]
fn a_server_may_be_an_ipv6_address() {
    // A container may have no IPv6 at all.
    let Ok(listener) = TcpListener::bind("[::1]:0") else { return };
    let (authority, server) = (Authority::new(), ModelServer::start());
    let front = TlsFront::on(listener, server.address(), authority.signs(Flaw::None));
    let mut talk = Talk::with(&front, |launch| ca_file(launch, authority.pem()));
    talk.works(&server);
    talk.client.finish();
}
