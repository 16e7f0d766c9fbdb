//! A program on the other end of two pipes: Bob, or a floor. No checks, no threads: what is timed is the program.
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;

/// A running program. It is ended when dropped.
pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    folder: TempDir,
    line: String,
    prompts: usize,
    requests: usize,
}

impl Peer {
    /// Bob, not yet spoken to, on the model behind `base_url`.
    pub(crate) fn bob(bob: &Path, base_url: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let mut command = command(bob);
        command.arg("--acp").args(args).env("BOB_HOME", folder.path().join("home"));
        command.envs([("LLM_PROVIDER", "LOCAL"), ("LOCAL_BASE_URL", base_url), ("LOCAL_MODEL", "m")]);
        Self::start(command, folder)
    }

    /// A floor program of `floors.rs`: this binary again.
    pub(crate) fn floor(args: &[&str]) -> Self {
        let this = std::env::current_exe().expect("this program has a path");
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let mut command = command(&this);
        command.arg("floor").args(args);
        Self::start(command, folder)
    }

    fn start(mut command: Command, folder: TempDir) -> Self {
        command.current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::with_capacity(1 << 16, child.stdout.take().expect("it is piped"));
        Self { child, stdin, stdout, folder, line: String::new(), prompts: 0, requests: 0 }
    }

    /// Writes a line.
    pub(crate) fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its input is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("it reads");
    }

    /// Reads up to and with the first line that holds `part`.
    pub(crate) fn until(&mut self, part: &str) -> &str {
        loop {
            self.line.clear();
            let count = self.stdout.read_line(&mut self.line).expect("it writes text");
            assert!(count > 0, "stdout ended before {part}");
            if self.line.contains(part) {
                return &self.line;
            }
        }
    }

    /// Reads so many lines that hold `part`, and those between.
    pub(crate) fn skip(&mut self, count: usize, part: &str) {
        for _ in 0..count {
            self.until(part);
        }
    }

    /// Where it works.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Bob's folder of the user.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// `initialize`, answered.
    pub(crate) fn initialize(&mut self) {
        self.send(INITIALIZE);
        self.until("\"id\":0");
    }

    /// Asks for a session; the answer has this id.
    pub(crate) fn ask_session(&mut self, id: usize) {
        let cwd = self.folder.path().display();
        let params = format!(r#"{{"cwd":"{cwd}","mcpServers":[]}}"#);
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/new","params":{params}}}"#));
    }

    /// A session's id, from the answer with this id.
    pub(crate) fn session(&mut self, id: usize) -> String {
        let answer = self.until(&format!("\"id\":{id},"));
        let id = answer.split("\"sessionId\":\"").nth(1).and_then(|rest| rest.split('"').next());
        id.unwrap_or_else(|| panic!("no session: {answer}")).into()
    }

    /// `initialize` and a session: its id.
    pub(crate) fn open(&mut self) -> String {
        self.initialize();
        self.ask_session(1);
        let session = self.session(1);
        self.until("available_commands_update");
        session
    }

    /// Sends a request and gives its result.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.requests += 1;
        let id = format!("r{}", self.requests);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        let answer = self.until(&format!("\"id\":\"{id}\""));
        let mut answer: Value = serde_json::from_str(answer).expect("it is JSON");
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    /// `session/load`; all that is said until its answer.
    pub(crate) fn load(&mut self, session: &str) -> String {
        let params = json!({"sessionId": session, "cwd": self.folder.path(), "mcpServers": []});
        self.send(
            &json!({"jsonrpc": "2.0", "id": "load", "method": "session/load", "params": params}).to_string(),
        );
        let mut said = String::with_capacity(1 << 21);
        loop {
            self.line.clear();
            self.stdout.read_line(&mut self.line).expect("it writes text");
            if self.line.contains("\"id\":\"load\"") {
                assert!(self.line.contains("\"result\""), "{}", self.line);
                return said;
            }
            said.push_str(&self.line);
        }
    }

    /// `session/close`, answered.
    pub(crate) fn close(&mut self, session: &str) {
        self.ask("session/close", &json!({"sessionId": session}));
    }

    /// `/new`, answered.
    pub(crate) fn forget(&mut self, session: &str) {
        let id = self.say(session, "/new");
        self.until(&id);
    }

    /// Sends a prompt; its id.
    pub(crate) fn prompt(&mut self, session: &str) -> String {
        self.say(session, "go")
    }

    fn say(&mut self, session: &str, text: &str) -> String {
        self.prompts += 1;
        let id = format!("\"id\":\"p{}\"", self.prompts);
        let params = format!(r#"{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}"#);
        self.send(&format!(r#"{{"jsonrpc":"2.0",{id},"method":"session/prompt","params":{params}}}"#));
        id
    }

    /// From a cancel to the response of a prompt of this session, which has to be `cancelled`.
    pub(crate) fn cancel(&mut self, session: &str, prompt: &str) -> Duration {
        let since = Instant::now();
        let params = format!(r#"{{"sessionId":"{session}"}}"#);
        self.send(&format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{params}}}"#));
        let answer = self.until(prompt);
        let took = since.elapsed();
        assert!(answer.contains("cancelled"), "{answer}");
        took
    }

    /// From the end of its input to its end.
    pub(crate) fn end(mut self) -> Duration {
        let since = Instant::now();
        self.stdin = None;
        let id = Pid::from_raw(self.child.id().cast_signed()).expect("a child has an id");
        waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("it can be waited for");
        since.elapsed()
    }

    /// Proportional set size in MB: its own memory, and its part of what it shares.
    pub(crate) fn pss(&self) -> f64 {
        let path = format!("/proc/{}/smaps_rollup", self.child.id());
        let rollup = std::fs::read_to_string(path).expect("Linux tells");
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).expect("it is told");
        let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("it is a number");
        kib / 1024.0
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill(); // gone already: all the better
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "what is measured is this program's child, not Bob's")]
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command
}
