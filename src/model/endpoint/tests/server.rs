//! The server's end of a connection, in the test's hand.
use crossbeam_channel::{Receiver, unbounded};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// A wait that long has failed.
pub(super) const HANG: Duration = Duration::from_secs(30);

/// Listens on loopback; each connection is handed to who calls `accept`.
pub(super) struct Server {
    address: SocketAddr,
    accepted: Receiver<TcpStream>,
    count: Arc<AtomicUsize>,
}

impl Server {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, accepted) = unbounded();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let accept = move || {
            for stream in listener.incoming() {
                counted.fetch_add(1, SeqCst);
                if sender.send(stream.unwrap()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("accept".into()).spawn(accept).unwrap();
        Self { address, accepted, count }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Connections made so far.
    pub(super) fn connections(&self) -> usize {
        self.count.load(SeqCst)
    }

    #[track_caller]
    pub(super) fn accept(&self) -> Peer {
        let stream = self.accepted.recv_timeout(HANG).expect("nobody connects");
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.set_write_timeout(Some(HANG)).unwrap();
        stream.set_nodelay(true).unwrap();
        let client = stream.peer_addr().unwrap();
        Peer { reader: BufReader::new(stream), client }
    }
}

/// One connection.
pub(super) struct Peer {
    reader: BufReader<TcpStream>,
    client: SocketAddr,
}

/// What a client sent.
pub(super) struct Received {
    pub(super) head: String,
    pub(super) body: Value,
}

impl Peer {
    /// The client's address.
    pub(super) fn client(&self) -> SocketAddr {
        self.client
    }

    /// Request line and headers, up to the blank line.
    #[track_caller]
    pub(super) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.reader.read_line(&mut head).unwrap(), 0, "the request breaks off: {head}");
        }
        head
    }

    #[track_caller]
    pub(super) fn request(&mut self) -> Received {
        let head = self.head();
        let length = head
            .lines()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        let mut body = vec![0; length.expect("a length")];
        self.reader.read_exact(&mut body).unwrap();
        Received { head, body: serde_json::from_slice(&body).unwrap() }
    }

    pub(super) fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Whether the client still takes it.
    pub(super) fn try_send(&mut self, text: &str) -> bool {
        self.reader.get_mut().write_all(text.as_bytes()).is_ok()
    }

    pub(super) fn send_chunk(&mut self, text: &str) {
        self.send_chunk_bytes(text.as_bytes());
    }

    pub(super) fn send_chunk_bytes(&mut self, bytes: &[u8]) {
        let head = format!("{:x}\r\n", bytes.len());
        self.send_bytes(&[head.as_bytes(), bytes, b"\r\n"].concat());
    }

    /// Takes a request, answers it and closes the connection.
    #[track_caller]
    pub(super) fn answer(mut self, answer: &str) {
        self.request();
        self.send(answer);
    }

    /// Waits until the client has closed the connection.
    #[track_caller]
    pub(super) fn expect_closed(&mut self) {
        match self.reader.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => panic!("the client sends more"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "not closed"),
        }
    }
}
