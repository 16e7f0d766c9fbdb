//! A client: starts the real binary, speaks raw lines, checks every line it gets.
//!
//! Everything waits on an event with [`HANG`] as the only limit. When the test fails, all traffic and stderr are
//! printed. The process is ended, by its own id, when the client is dropped.
use super::checker::Checker;
use super::{HANG, spawn};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tempfile::TempDir;

/// What the client says when Bob asks for permission.
#[derive(Clone, Copy)]
pub enum Permission {
    /// Nothing: the test answers by itself.
    Test,
    /// `allow`, `reject`, … to every question.
    Select(&'static str),
    /// The whole result, made from the request's params.
    With(fn(&Value) -> Value),
}

/// How Bob is to be started.
pub struct Launch {
    command: Command,
    home: TempDir,
    cwd: TempDir,
    reads: bool,
    reads_stderr: bool,
    /// Where a copy of the program lies.
    program: Option<TempDir>,
}

impl Launch {
    /// `bob --acp` in an empty folder, with an empty home and nothing in its environment but `PATH`.
    pub fn new() -> Self {
        Self::with_args(["--acp"])
    }

    /// The same with other arguments.
    pub fn with_args(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self::program(env!("CARGO_BIN_EXE_bob").as_ref(), args)
    }

    /// A shell that does `script` with these words as `$0`, `$1`, …, and at its end becomes Bob.
    pub fn shell(script: &str, words: &[&str]) -> Self {
        Self::program("/bin/sh".as_ref(), ["-c", script].iter().chain(words))
    }

    /// As [`new`](Self::new), for a user whom the system refuses things: if the tests run as root, `nobody`, with a
    /// copy of the program where he can start it.
    pub fn without_rights() -> Self {
        use std::os::unix::{fs::chown, process::CommandExt};
        const NOBODY: u32 = 65_534;
        if !rustix::process::geteuid().is_root() {
            return Self::new();
        }
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("bob");
        std::fs::copy(env!("CARGO_BIN_EXE_bob"), &program).unwrap();
        let mut launch = Self::program(&program, ["--acp"]);
        for path in [place.path(), launch.home.path(), launch.cwd.path()] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        launch.command.uid(NOBODY).gid(NOBODY);
        launch.program = Some(place);
        launch
    }

    #[expect(clippy::disallowed_methods, reason = "the program under test is the test's child, not Bob's")]
    fn program(program: &Path, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let (home, cwd) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut command = Command::new(program);
        command.args(args).env_clear().current_dir(cwd.path());
        command.env("HOME", home.path()).env("BOB_HOME", home.path().join(".bob"));
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        Self { command, home, cwd, reads: true, reads_stderr: true, program: None }
    }

    /// With the built-in demo model.
    #[must_use]
    pub fn demo(self) -> Self {
        self.env("LLM_PROVIDER", "DEMO")
    }

    /// With the model behind `base_url`, without a key.
    #[must_use]
    pub fn model(self, base_url: &str) -> Self {
        self.env("LLM_PROVIDER", "LOCAL").env("LOCAL_BASE_URL", base_url).env("LOCAL_MODEL", "test-model")
    }

    /// One more variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Without a variable.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Bob's stdout is left unread until [`Client::start_reading`].
    #[must_use]
    pub fn unread(mut self) -> Self {
        self.reads = false;
        self
    }

    /// Bob's stderr is left unread until its end.
    #[must_use]
    pub fn unread_stderr(mut self) -> Self {
        self.reads_stderr = false;
        self
    }

    /// The folder Bob is started in and sessions are opened in.
    pub fn cwd(&self) -> &Path {
        self.cwd.path()
    }

    /// The home folder; Bob's own is `.bob` in it.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Starts it.
    pub fn start(mut self) -> Client {
        let has = |wanted: &str| self.command.get_args().any(|argument| argument == wanted);
        let checker = Checker::new(has("--resume"), has("--script"));
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the binary under test starts");
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (may_read, reads) = bounded(1);
        let ended = end_of(&child);
        let stderr_after = if self.reads_stderr { None } else { Some(ended.clone()) };
        let client = Client {
            stdin: child.stdin.take(),
            lines: lines_of(stdout.expect("it is piped"), reads),
            stderr: all_of(stderr.expect("it is piped"), stderr_after),
            ended,
            child,
            may_read: Some(may_read),
            checker,
            traffic: Vec::new(),
            inbox: VecDeque::new(),
            permission: Permission::Test,
            next_id: 0,
            home: self.home,
            cwd: self.cwd,
            _program: self.program,
        };
        if self.reads { client.reading() } else { client }
    }
}

/// A running Bob and the client it talks to.
pub struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    stderr: Output,
    ended: Receiver<()>,
    may_read: Option<Sender<()>>,
    checker: Checker,
    traffic: Vec<String>,
    inbox: VecDeque<Value>,
    permission: Permission,
    next_id: u64,
    home: TempDir,
    cwd: TempDir,
    _program: Option<TempDir>,
}

/// A prompt that was answered.
pub struct Turn {
    /// The whole response.
    pub response: Value,
    /// Every `update` of the session from the prompt to its response.
    pub updates: Vec<Value>,
}

impl Client {
    /// Writes a message.
    pub fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    /// Writes bytes as they are: whole lines, or the checker does not see them.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.checker.sent(line);
            self.traffic.push(format!("> {}", shown(line)));
        }
        self.write(bytes);
    }

    /// Writes a line in two pieces, the second when Bob has read the first.
    #[track_caller]
    pub fn send_cut(&mut self, line: &[u8], cut: usize) {
        self.checker.sent(line.trim_ascii_end());
        self.traffic.push(format!("> {}", shown(line)));
        self.write(&line[..cut]);
        let since = Instant::now();
        // No event tells when a pipe is empty; this asks, and gives its time slice away in between.
        while self.unread_input() > 0 {
            assert!(since.elapsed() < HANG, "Bob does not read");
            std::thread::yield_now();
        }
        self.write(&line[cut..]);
    }

    fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin was closed by the test");
        if let Err(error) = stdin.write_all(bytes) {
            self.traffic.push(format!("# stdin: {error}"));
        }
    }

    fn unread_input(&self) -> u64 {
        let stdin = self.stdin.as_ref().expect("stdin was closed by the test");
        rustix::io::ioctl_fionread(stdin).expect("a pipe can be asked")
    }

    /// Sends a request; its id is a number that was not used before.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Answers a request of Bob's.
    pub fn answer(&mut self, id: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Answers a request of Bob's with an error.
    pub fn answer_error(&mut self, id: &Value, code: i64, message: &str) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}));
    }

    /// How permission is answered from now on.
    pub fn permission(&mut self, permission: Permission) {
        self.permission = permission;
    }

    /// Takes the next message, in the order they came; `None` at the end of stdout.
    pub fn next(&mut self) -> Option<Value> {
        if self.inbox.is_empty() && !self.receive() {
            return None;
        }
        self.inbox.pop_front()
    }

    /// Waits for the first message that fits and takes it; those before it stay.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut seen = 0;
        loop {
            if let Some(at) = self.inbox.iter().skip(seen).position(&fits) {
                return self.inbox.remove(seen + at).expect("it was just found");
            }
            seen = self.inbox.len();
            assert!(self.receive(), "stdout ended before {what}");
        }
    }

    /// Waits for the response to a request and takes it.
    #[track_caller]
    pub fn wait_response(&mut self, id: &Value) -> Value {
        self.wait_for(&format!("the response to {id}"), |message| {
            message.get("method").is_none() && message["id"] == *id
        })
    }

    /// Waits for an update that fits (of any session) and takes it: the `update` object.
    #[track_caller]
    pub fn wait_update(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let message = self.wait_for("such an update", |message| {
            message["method"] == "session/update" && fits(&message["params"]["update"])
        });
        message["params"]["update"].clone()
    }

    /// Waits for a request of Bob's by its method and takes it.
    #[track_caller]
    pub fn wait_request(&mut self, method: &str) -> Value {
        self.wait_for(method, |message| message["method"] == method && message.get("id").is_some())
    }

    /// Takes those of Bob's requests of this method that have come by now: after a turn, all it sent.
    pub fn take_requests(&mut self, method: &str) -> Vec<Value> {
        let (taken, rest) = self.inbox.drain(..).partition(|message| message["method"] == method);
        self.inbox = rest;
        Vec::from(taken)
    }

    /// Sends a request and waits for its whole response.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.wait_response(&id)
    }

    /// `initialize` without capabilities; the result.
    #[track_caller]
    pub fn initialize(&mut self) -> Value {
        self.initialize_with(json!({}))
    }

    /// `initialize` with these capabilities; the result.
    #[track_caller]
    pub fn initialize_with(&mut self, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        self.call("initialize", params)["result"].take()
    }

    /// Opens a session in `cwd` and takes the commands that are announced with it; its id.
    #[track_caller]
    pub fn new_session(&mut self, cwd: &Path) -> String {
        let response = self.call("session/new", json!({"cwd": cwd, "mcpServers": []}));
        let id = response["result"]["sessionId"].as_str();
        let id = id.unwrap_or_else(|| panic!("no session: {response}")).to_owned();
        self.wait_for("the commands", |message| {
            message["params"]["sessionId"] == *id
                && message["params"]["update"]["sessionUpdate"] == "available_commands_update"
        });
        id
    }

    /// `initialize`, then a session in the client's own folder; its id.
    #[track_caller]
    pub fn open(&mut self) -> String {
        self.initialize();
        let cwd = self.cwd();
        self.new_session(&cwd)
    }

    /// Sends a prompt of one text; its id.
    pub fn send_prompt(&mut self, session: &str, text: &str) -> Value {
        let prompt = json!([{"type": "text", "text": text}]);
        self.request("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Sends a prompt of one text and waits until it is answered.
    #[track_caller]
    pub fn prompt(&mut self, session: &str, text: &str) -> Turn {
        let id = self.send_prompt(session, text);
        self.wait_turn(session, &id)
    }

    /// Waits for a prompt's response; takes it and the session's updates so far.
    #[track_caller]
    pub fn wait_turn(&mut self, session: &str, prompt: &Value) -> Turn {
        let response = self.wait_response(prompt);
        let of_turn = |message: &Value| {
            message["method"] == "session/update" && message["params"]["sessionId"] == session
        };
        let (of_turn, rest): (Vec<_>, Vec<_>) = self.inbox.drain(..).partition(of_turn);
        self.inbox.extend(rest);
        Turn { response, updates: of_turn.into_iter().map(|mut m| m["params"]["update"].take()).collect() }
    }

    /// Lets the reader of an [`unread`](Launch::unread) stdout begin.
    pub fn start_reading(&mut self) {
        self.may_read = None;
    }

    /// Ends Bob's input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
        self.traffic.push("> (end of input)".into());
    }

    /// Waits until the process is gone, with its input as it is; what it still wrote can be taken afterwards.
    #[track_caller]
    pub fn wait_exit(&mut self) -> ExitStatus {
        while self.receive() {}
        self.ended.recv_timeout(HANG).expect_err("nothing is ever sent");
        let gone = self.child.try_wait().expect("a child can be waited for");
        gone.unwrap_or_else(|| panic!("the process is still there after {HANG:?}"))
    }

    /// Ends the input, waits for exit 0, and checks that no request is left without an answer.
    #[track_caller]
    pub fn finish(&mut self) {
        self.close_stdin();
        let status = self.wait_exit();
        assert!(status.success(), "{status}");
        self.check_ended();
    }

    /// Checks that no request is left without an answer.
    #[track_caller]
    pub fn check_ended(&self) {
        self.checker.ended().unwrap_or_else(|broken| panic!("{broken}"));
    }

    /// The folder Bob was started in, as the kernel spells it.
    pub fn cwd(&self) -> PathBuf {
        self.cwd.path().canonicalize().unwrap()
    }

    /// The home folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What is on stderr by now; all of it after [`wait_exit`](Self::wait_exit).
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.bytes.lock().unwrap()).into_owned()
    }

    /// Waits for the end of stderr: nobody who had it is left.
    pub fn wait_stderr(&self) -> String {
        self.stderr.ended.recv_timeout(HANG).expect_err("nothing is ever sent");
        self.stderr()
    }

    /// Takes one line from stdout into the inbox. False at its end.
    #[track_caller]
    fn receive(&mut self) -> bool {
        use crossbeam_channel::RecvTimeoutError::{Disconnected, Timeout};
        let line = match self.lines.recv_timeout(HANG) {
            Ok(line) => line,
            Err(Disconnected) => return false,
            Err(Timeout) => panic!("nothing on stdout for {HANG:?}"),
        };
        self.traffic.push(format!("< {}", shown(&line)));
        let message = match line.strip_suffix(b"\n") {
            Some(line) => self.checker.received(line).unwrap_or_else(|broken| panic!("{broken}")),
            None => panic!("stdout ended in the middle of a line"),
        };
        self.answer_permission(&message);
        self.inbox.push_back(message);
        true
    }

    fn answer_permission(&mut self, message: &Value) {
        if message["method"] != "session/request_permission" {
            return;
        }
        match self.permission {
            Permission::Test => {}
            Permission::Select(option) => {
                self.answer(&message["id"], json!({"outcome": {"outcome": "selected", "optionId": option}}));
            }
            Permission::With(result) => self.answer(&message["id"], result(&message["params"])),
        }
    }

    fn reading(mut self) -> Self {
        self.start_reading();
        self
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // An error means that it is gone already; `wait` reaps it in either case.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- traffic\n{}\n--- stderr\n{}---", self.traffic.join("\n"), self.stderr());
        }
    }
}

impl Turn {
    /// The result's stop reason; empty after an error.
    pub fn stop_reason(&self) -> &str {
        self.response["result"]["stopReason"].as_str().unwrap_or_default()
    }

    /// The message of the error it was answered with.
    #[track_caller]
    pub fn error(&self) -> &str {
        let message = self.response["error"]["message"].as_str();
        message.unwrap_or_else(|| panic!("no error: {}", self.response))
    }

    /// What the agent said, joined.
    pub fn text(&self) -> String {
        self.chunks("agent_message_chunk").collect()
    }

    /// What the agent thought, joined.
    pub fn thoughts(&self) -> String {
        self.chunks("agent_thought_chunk").collect()
    }

    /// The updates of one kind, in order.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.updates.iter().filter(move |update| update["sessionUpdate"] == kind)
    }

    /// The last status told for a call.
    pub fn status(&self, call: &str) -> Option<&str> {
        self.updates
            .iter()
            .rev()
            .filter(|update| update["toolCallId"] == call)
            .find_map(|u| u["status"].as_str())
    }

    fn chunks(&self, kind: &str) -> impl Iterator<Item = &str> {
        self.of_kind(kind).filter_map(|update| update["content"]["text"].as_str())
    }
}

/// Everything that came on a pipe, and a channel that disconnects at its end.
struct Output {
    bytes: Arc<Mutex<Vec<u8>>>,
    ended: Receiver<()>,
}

fn lines_of(stdout: impl Read + Send + 'static, may_read: Receiver<()>) -> Receiver<Vec<u8>> {
    let (lines, received) = unbounded();
    spawn("client stdout", move || {
        // Disconnects when reading may begin.
        let _ = may_read.recv();
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut line = Vec::new();
            match stdout.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if lines.send(line).is_err() => return,
                Ok(_) => {}
            }
        }
    });
    received
}

/// Reading begins when `after` disconnects.
fn all_of(mut stderr: impl Read + Send + 'static, after: Option<Receiver<()>>) -> Output {
    let bytes = Arc::new(Mutex::new(Vec::new()));
    let (end, ended) = bounded::<()>(0);
    let into = bytes.clone();
    spawn("client stderr", move || {
        let _end = end;
        let _ = after.map(|after| after.recv());
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut some) {
            into.lock().unwrap().extend_from_slice(&some[..count]);
        }
    });
    Output { bytes, ended }
}

/// Disconnects when the process has ended. It is left unreaped, so that its id stays its own until `wait`.
fn end_of(child: &Child) -> Receiver<()> {
    let id = Pid::from_raw(child.id().cast_signed()).expect("a child has an id");
    let (end, ended) = bounded(0);
    spawn("client wait", move || {
        let _end: Sender<()> = end;
        while waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
            .is_err_and(|error| error == rustix::io::Errno::INTR)
        {}
    });
    ended
}

/// A line as it is printed: cut, since some are megabytes.
fn shown(line: &[u8]) -> String {
    const MOST: usize = 4000;
    let text = String::from_utf8_lossy(&line[..line.len().min(MOST)]);
    let cut = if line.len() > MOST { format!("… (+{} bytes)", line.len() - MOST) } else { String::new() };
    format!("{}{cut}", text.trim_end())
}
