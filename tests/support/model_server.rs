//! A model behind real HTTP on loopback that says what the test scripted, in the pieces the test scripted.
//!
//! The test waits on what happened (request N came, connection N was closed by the client) and lets go of what it
//! holds back; nothing here sleeps.
use super::{HANG, formats, openai, spawn};
use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::net::sockopt::set_socket_linger;
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// One scripted answer.
#[derive(Debug)]
pub struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    steps: Vec<Step>,
    end: End,
    /// Its pieces go out as they are, status line and all.
    raw: bool,
}

#[derive(Debug)]
enum Step {
    /// One write to the socket, one chunk of the body.
    Write(Vec<u8>),
    /// Disconnects when the test lets go.
    Hold(Receiver<()>),
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its end mark; the connection is kept.
    Clean,
    /// With a TCP reset in the middle of the body.
    Reset,
    /// With an orderly close in the middle of the body.
    Close,
    /// With its end mark, though the connection is closed behind it.
    CleanClose,
    /// Not at all: the connection stays open and silent.
    HangOpen,
}

/// Holds an answer back until it is dropped.
#[must_use]
pub struct Hold(#[expect(dead_code, reason = "to drop it is what it is for")] Sender<()>);

impl Answer {
    /// An empty answer of this status.
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), steps: Vec::new(), end: End::Clean, raw: false }
    }

    /// An answer byte for byte, with its status line and headers.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { raw: true, ..Self::status(0) }.write(bytes)
    }

    /// A 200 whose body is a stream of events, still empty.
    pub fn sse() -> Self {
        Self::status(200).header("content-type", "text/event-stream")
    }

    /// A JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::status(status).header("content-type", "application/json").write(body.to_string())
    }

    /// One more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// A piece of the body, in a write of its own.
    #[must_use]
    pub fn write(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.steps.push(Step::Write(bytes.into()));
        self
    }

    /// The bytes in writes of at most `size`.
    #[must_use]
    pub fn write_in_pieces(self, bytes: &[u8], size: usize) -> Self {
        bytes.chunks(size).fold(self, Self::write)
    }

    /// The bytes in writes that end at these offsets.
    #[must_use]
    pub fn write_split(self, bytes: &[u8], offsets: &[usize]) -> Self {
        let ends = offsets.iter().copied().chain([bytes.len()]);
        let starts = [0].into_iter().chain(offsets.iter().copied());
        starts.zip(ends).fold(self, |answer, (start, end)| answer.write(&bytes[start..end]))
    }

    /// From here on it waits for the test. Before the first piece this holds the headers back too.
    pub fn hold(mut self) -> (Self, Hold) {
        let (hold, held) = bounded(0);
        self.steps.push(Step::Hold(held));
        (self, Hold(hold))
    }

    /// How the body ends, if not cleanly.
    #[must_use]
    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

impl Hold {
    /// The answer goes on.
    pub fn release(self) {}
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Which connection, from 0.
    pub connection: usize,
    /// `POST`.
    pub method: String,
    /// `/v1/chat/completions`.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub raw: Vec<u8>,
    /// The body; null when it is no JSON.
    pub body: Value,
}

impl Recorded {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The conversation it carries.
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
    }
}

/// The server. It is gone when dropped.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stopped: AtomicBool,
    strict: AtomicBool,
    written: AtomicU64,
}

#[derive(Default)]
struct State {
    script: VecDeque<(Option<String>, Answer)>,
    requests: Vec<Recorded>,
    connections: usize,
    closed: BTreeSet<usize>,
    sockets: Vec<Arc<TcpStream>>,
    violations: Vec<String>,
}

impl ModelServer {
    /// Listens on a free port.
    pub fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("loopback has a free port"))
    }

    /// Listens there.
    pub fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        spawn("model server", move || {
            for socket in listener.incoming() {
                match socket {
                    Ok(socket) if !accepting.stopped.load(SeqCst) => Shared::welcome(&accepting, socket),
                    _ => return,
                }
            }
        });
        Self { address, shared }
    }

    /// The same, with its answers.
    pub fn with(script: impl IntoIterator<Item = Answer>) -> Self {
        let server = Self::start();
        script.into_iter().for_each(|answer| server.push(answer));
        server
    }

    /// Refuses with 400 what a strict provider would refuse ([`formats::check_request`]).
    #[must_use]
    pub fn strict(self) -> Self {
        self.shared.strict.store(true, SeqCst);
        self
    }

    /// What stands in `…_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The answer to the next request that has none yet.
    pub fn push(&self, answer: Answer) {
        self.shared.state().script.push_back((None, answer));
    }

    /// The answer to the next request whose body holds this text; for sessions that work side by side.
    pub fn push_for(&self, text: &str, answer: Answer) {
        self.shared.state().script.push_back((Some(text.into()), answer));
    }

    /// Waits for the request number `index`, from 0.
    #[track_caller]
    pub fn wait_request(&self, index: usize) -> Recorded {
        self.shared.wait(&format!("request {index}"), |state| state.requests.get(index).cloned())
    }

    /// Waits until the client has closed a connection, by its number from 0.
    #[track_caller]
    pub fn wait_closed(&self, connection: usize) {
        self.shared.wait(&format!("the end of connection {connection}"), |state| {
            state.closed.contains(&connection).then_some(())
        });
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.state().requests.clone()
    }

    /// How many answers nobody has asked for.
    pub fn unused(&self) -> usize {
        self.shared.state().script.len()
    }

    /// Bytes of bodies that went into a socket so far.
    pub fn written(&self) -> u64 {
        self.shared.written.load(SeqCst)
    }

    /// Requests that had no answer, or were refused as [`strict`](Self::strict).
    pub fn violations(&self) -> Vec<String> {
        self.shared.state().violations.clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, SeqCst);
        for socket in self.shared.state().sockets.drain(..) {
            let _ = socket.shutdown(Shutdown::Both); // gone already: all the better
        }
        let _ = TcpStream::connect(self.address); // wakes the accepting thread
        let violations = self.violations();
        if !violations.is_empty() {
            eprintln!("--- model server\n{}\n---", violations.join("\n"));
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with it")
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, found: impl Fn(&State) -> Option<T>) -> T {
        let state = self.state();
        let (state, _) = self
            .changed
            .wait_timeout_while(state, HANG, |state| found(state).is_none())
            .expect("no thread panics with it");
        let found = found(&state);
        drop(state);
        found.unwrap_or_else(|| panic!("{what} did not come within {HANG:?}"))
    }

    /// Two threads a connection: one reads requests and so sees the client's close at once, one writes answers.
    fn welcome(shared: &Arc<Self>, socket: TcpStream) {
        let _ = socket.set_nodelay(true); // pieces leave as they are; without it they may be joined
        let socket = Arc::new(socket);
        let mut state = shared.state();
        let number = state.connections;
        state.connections += 1;
        state.sockets.push(socket.clone());
        drop(state);
        let (answers, to_write) = bounded(1);
        let (reading, writing) = (shared.clone(), shared.clone());
        let written = socket.clone();
        let (gone, client_gone) = bounded::<()>(0);
        spawn(&format!("model read {number}"), move || {
            let _gone = gone;
            reading.read(&socket, number, &answers);
            reading.state().closed.insert(number);
            reading.changed.notify_all();
        });
        spawn(&format!("model write {number}"), move || {
            writing.write(&written, &to_write, &client_gone);
            writing.state().sockets.retain(|socket| !Arc::ptr_eq(socket, &written));
        });
    }

    fn read(&self, socket: &TcpStream, connection: usize, answers: &Sender<Answer>) {
        let mut from = BufReader::new(socket);
        while let Ok(request) = read_request(&mut from, connection) {
            let answer = self.take_answer(request);
            if answers.send(answer).is_err() {
                return;
            }
        }
    }

    fn take_answer(&self, request: Recorded) -> Answer {
        let body = String::from_utf8_lossy(&request.raw).into_owned();
        let refused = match self.strict.load(SeqCst) {
            true => formats::check_request(&request).err(),
            false => None,
        };
        let mut state = self.state();
        let number = state.requests.len();
        state.requests.push(request);
        let fits =
            |(text, _): &(Option<String>, Answer)| text.as_ref().is_none_or(|text| body.contains(text));
        let found = state.script.iter().position(fits).and_then(|at| state.script.remove(at));
        self.changed.notify_all();
        let why = match (refused, found) {
            (None, Some((_, answer))) => return answer,
            (Some(refused), _) => refused,
            (None, None) => "the test has no answer for this request".into(),
        };
        state.violations.push(format!("request {number}: {why}"));
        openai::refuse(400, &why)
    }

    /// Writes answers until the client is gone or an answer ends the connection.
    fn write(&self, socket: &TcpStream, answers: &Receiver<Answer>, client_gone: &Receiver<()>) {
        for answer in answers {
            let end = answer.end;
            match self.write_answer(socket, answer, client_gone) {
                Ok(()) if end == End::Clean => {}
                Ok(()) if end == End::HangOpen => drop(client_gone.recv()),
                Ok(()) if end == End::Reset => {
                    let _ = set_socket_linger(socket, Some(Duration::ZERO));
                    let _ = socket.shutdown(Shutdown::Read); // wakes the reader; the last to go resets
                    return;
                }
                _ => return drop(socket.shutdown(Shutdown::Both)),
            }
        }
    }

    fn write_answer(&self, mut socket: &TcpStream, answer: Answer, gone: &Receiver<()>) -> io::Result<()> {
        let raw = answer.raw;
        let mut head = Some(head_of(&answer)).filter(|_| !raw);
        for step in answer.steps {
            match step {
                Step::Write(bytes) if bytes.is_empty() => {} // an empty chunk would be the end mark
                Step::Write(bytes) if raw => socket.write_all(&bytes)?,
                Step::Write(bytes) => {
                    let mut piece = head.take().unwrap_or_default();
                    piece.extend(format!("{:x}\r\n", bytes.len()).bytes());
                    piece.extend(&bytes);
                    piece.extend(b"\r\n");
                    socket.write_all(&piece)?;
                    self.written.fetch_add(bytes.len() as u64, SeqCst);
                }
                Step::Hold(held) => crossbeam_channel::select! {
                    recv(held) -> _ => {}
                    recv(gone) -> _ => return Err(io::ErrorKind::BrokenPipe.into()),
                },
            }
        }
        let mut rest = head.take().unwrap_or_default();
        if !raw && matches!(answer.end, End::Clean | End::CleanClose) {
            rest.extend(b"0\r\n\r\n");
        }
        socket.write_all(&rest)
    }
}

fn head_of(answer: &Answer) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {} {}\r\n", answer.status, reason(answer.status));
    for (name, value) in &answer.headers {
        write!(head, "{name}: {value}\r\n").expect("a string takes everything");
    }
    head.push_str("transfer-encoding: chunked\r\n\r\n");
    head.into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Other",
    }
}

fn read_request(from: &mut impl BufRead, connection: usize) -> io::Result<Recorded> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    let headers = read_headers(from)?;
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(Ok(0), |(_, value)| value.parse()).map_err(io::Error::other)?;
    let mut raw = vec![0; length];
    from.read_exact(&mut raw)?;
    let body = serde_json::from_slice(&raw).unwrap_or(json!(null));
    Ok(Recorded { connection, method, path, headers, raw, body })
}

fn read_headers(from: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().into())),
            None if line.trim_end().is_empty() => return Ok(headers),
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
