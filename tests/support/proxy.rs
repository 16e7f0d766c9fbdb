//! A proxy that `CONNECT`s, or says something else.
use super::{HANG, listen, pass_on};
use crossbeam_channel::{Receiver, unbounded};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// The proxy.
pub struct Proxy {
    address: SocketAddr,
    heads: Receiver<String>,
}

impl Proxy {
    /// Leads every tunnel to `target`.
    pub fn to(target: SocketAddr) -> Self {
        Self::new(move |mut client| {
            client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n").unwrap();
            pass_on(client, TcpStream::connect(target).unwrap());
        })
    }

    /// Answers every client so and ends the connection.
    pub fn that_says(words: &'static str) -> Self {
        Self::new(move |mut client| client.write_all(words.as_bytes()).unwrap())
    }

    fn new(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let (sender, heads) = unbounded();
        let address = listen("proxy", move |mut client| {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(client.read(&mut byte), Ok(1)) {
                head.extend(byte);
            }
            let _ = sender.send(String::from_utf8_lossy(&head).into_owned()); // the test may be over
            serve(client);
        });
        Self { address, heads }
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the next client said: its request line and headers.
    #[track_caller]
    pub fn asked(&self) -> String {
        self.heads.recv_timeout(HANG).expect("nobody asks the proxy")
    }

    /// How many clients have come whose words were not taken.
    pub fn unasked(&self) -> usize {
        self.heads.len()
    }
}
