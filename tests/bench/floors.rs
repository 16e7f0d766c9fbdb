//! The floors: programs that do the least of what Bob has to do, written plainly and without waste.
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A prompt's response.
const END: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"stopReason\":\"end_turn\"}}\n";

/// What a floor does for one line of input.
type Serve = Box<dyn FnMut(&mut dyn Write) -> io::Result<()>>;

/// Runs the floor of this name. Each serves one line of input at a time and ends with its input.
pub(crate) fn run(arguments: &[String]) {
    let serve: Serve = match arguments {
        [name] if name == "answer" => Box::new(|out| out.write_all(b"{\"id\":0,\"result\":{}}\n")),
        [name] if name == "fork" => Box::new(|out| {
            shell()?;
            out.write_all(END)
        }),
        [name, address] if name == "copy" => {
            let mut copy = Copy::connect(address).expect("the model server listens");
            Box::new(move |out| copy.one_answer(b"{}", out))
        }
        [name, address, request, session] if name == "step" => {
            let mut copy = Copy::connect(address).expect("the model server listens");
            let [request, saved] = [request, session].map(|path| fs::read(path).expect("it is there"));
            let file = PathBuf::from(session).with_extension("floor");
            Box::new(move |out| {
                write_and_rename(&file, &saved);
                copy.one_answer(&request, out)?;
                write_and_rename(&file, &saved);
                Ok(())
            })
        }
        [name, address, file] if name == "shell" => {
            let mut copy = Copy::connect(address).expect("the model server listens");
            let (request, file) = (vec![b'0'; 4096], PathBuf::from(file));
            Box::new(move |out| {
                write_and_rename(&file, &request[..1024]);
                copy.one_answer(&request, &mut io::sink())?;
                write_and_rename(&file, &request[..1024]);
                shell()?;
                write_and_rename(&file, &request[..1024]);
                copy.one_answer(&request, &mut io::sink())?;
                write_and_rename(&file, &request[..1024]);
                out.write_all(END)
            })
        }
        [name, file] if name == "tell" => {
            let lines = fs::read(file).expect("it is there");
            Box::new(move |out| {
                lines.chunks(1 << 16).try_for_each(|piece| out.write_all(piece))?;
                out.write_all(END)
            })
        }
        _ => panic!("no such floor: {arguments:?}"),
    };
    each_line(serve).expect("its pipes are open");
}

#[expect(clippy::disallowed_methods, reason = "this program's stdout is its own")]
fn each_line(mut serve: impl FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let mut stdout = io::stdout().lock();
    let mut line = String::new();
    while stdin.read_line(&mut line)? > 0 {
        serve(&mut stdout)?;
        stdout.flush()?;
        line.clear();
    }
    Ok(())
}

/// Writes a file as Bob saves a session.
pub(crate) fn write_and_rename(path: &Path, bytes: &[u8]) {
    let beside = path.with_extension("tmp");
    File::create(&beside).and_then(|mut file| file.write_all(bytes)).expect("there is room");
    fs::rename(&beside, path).expect("it is a name");
}

/// The shell, started and waited for; no model, no output to read, no bookkeeping.
#[expect(clippy::disallowed_methods, reason = "the floor is the bare call")]
fn shell() -> io::Result<()> {
    Command::new("bash").args(["-c", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).status().map(drop)
}

/// Asks the model server and copies each delta of its answer to a line like Bob's: one thread, one buffer, all that
/// one read brought goes out in one write.
struct Copy {
    socket: TcpStream,
    decoder: Chunked,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

impl Copy {
    fn connect(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, decoder: Chunked::default() })
    }

    fn one_answer(&mut self, request: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let length = request.len();
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
        self.socket.write_all(&[head.as_bytes(), request].concat())?;
        self.decoder = Chunked::default();
        let mut buffer = vec![0; 1 << 16];
        let (mut body, mut lines) = (Vec::new(), Vec::new());
        while !self.decoder.is_done {
            let count = self.socket.read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.decoder.feed(&buffer[..count], &mut body);
            copy_events(&mut body, &mut lines)?;
            out.write_all(&lines)?;
            out.flush()?;
            lines.clear();
        }
        out.write_all(END)
    }
}

/// Takes whole lines out of `body` and writes a notification for each that is a delta.
fn copy_events(body: &mut Vec<u8>, lines: &mut Vec<u8>) -> io::Result<()> {
    const HEAD: &[u8] = br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"20260101-000000-abcdefgh","update":{"sessionUpdate":"agent_message_chunk","content":"#;
    let whole = body.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    for line in body[..whole].split(|byte| *byte == b'\n') {
        let Some(data) = line.strip_prefix(b"data: ").filter(|data| data != b"[DONE]") else { continue };
        let chunk: Chunk<'_> = serde_json::from_slice(data)?;
        for text in chunk.choices.iter().filter_map(|choice| choice.delta.content.as_deref()) {
            lines.extend(HEAD);
            serde_json::to_writer(&mut *lines, &Text { r#type: "text", text })?;
            lines.extend(br#","messageId":"msg_1"}}}"#);
            lines.push(b'\n');
        }
    }
    body.drain(..whole);
    Ok(())
}

/// A response's head, then its chunks.
#[derive(Default)]
struct Chunked {
    raw: Vec<u8>,
    is_in_body: bool,
    is_done: bool,
}

impl Chunked {
    fn feed(&mut self, bytes: &[u8], body: &mut Vec<u8>) {
        self.raw.extend(bytes);
        let mut at = 0;
        if !self.is_in_body {
            let Some(end) = find(&self.raw, b"\r\n\r\n") else { return };
            self.is_in_body = true;
            at = end + 4;
        }
        while let Some(line) = find(&self.raw[at..], b"\r\n") {
            let digits = String::from_utf8_lossy(&self.raw[at..at + line]);
            let size = usize::from_str_radix(&digits, 16).expect("our own server's chunks");
            let (start, end) = (at + line + 2, at + line + 2 + size);
            if self.raw.len() < end + 2 {
                break;
            }
            self.is_done = size == 0;
            body.extend(&self.raw[start..end]);
            at = end + 2;
        }
        self.raw.drain(..at);
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}
