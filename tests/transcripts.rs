//! Plays every conversation in `fixtures/wire/`, each a result of its own. The form is in that folder's README.
mod support;

use serde_json::{Map, Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use support::client::{Client, Launch};
use support::matching::{How, Names, fill, glob, matches};
use support::model_server::{Answer, ModelServer};
use support::openai;

#[expect(clippy::print_stdout, reason = "the list of results is what it makes")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_listing = arguments.iter().any(|argument| argument == "--list");
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, Vec::new());
    for path in transcripts() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !filters.is_empty() && !filters.iter().any(|filter| name.contains(*filter)) {
            continue;
        }
        if is_listing {
            println!("{name}: test");
            continue;
        }
        let is_good = catch_unwind(AssertUnwindSafe(|| play(&path))).is_ok();
        println!("transcript {name} ... {}", if is_good { "ok" } else { "FAILED" });
        if is_good { passed += 1 } else { failed.push(name) }
    }
    println!("\ntranscripts: {passed} passed; {} failed {failed:?}\n", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn transcripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/wire");
    let entries = std::fs::read_dir(&folder).expect("the transcripts are there");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no transcript in {}", folder.display());
    paths
}

/// A line of a transcript.
enum Line<'a> {
    Args(&'a str),
    Env(&'a str),
    File(&'a str),
    Model(&'a str),
    Send(&'a str),
    Expect(How, &'a str),
    /// Notifications and requests that don't fit may come before it.
    Later(&'a str),
    ModelGot(&'a str),
    EndOfInput,
    Exit(&'a str),
    Stderr(&'a str),
}

fn parse(line: &str) -> Option<Line<'_>> {
    if line.trim().is_empty() || line.starts_with('#') {
        return None;
    }
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    Some(match word {
        "args" => Line::Args(rest),
        "env" => Line::Env(rest),
        "file" => Line::File(rest),
        "model" => Line::Model(rest),
        ">" => Line::Send(rest),
        "<" => Line::Expect(How::Exact, rest),
        "<~" => Line::Expect(How::Subset, rest),
        "<*" => Line::Later(rest),
        "model<" => Line::ModelGot(rest),
        "eof" => Line::EndOfInput,
        "exit" => Line::Exit(rest),
        "stderr" => Line::Stderr(rest),
        _ => panic!("a transcript has no {word:?} lines"),
    })
}

fn play(path: &Path) {
    let text = std::fs::read_to_string(path).expect("a transcript can be read");
    let lines: Vec<_> =
        text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, parse(line)?))).collect();
    let server = ModelServer::start();
    let mut player = Player::start(lines.iter().map(|(_, line)| line), &server);
    for (number, line) in &lines {
        if let Err(why) = player.step(line, &server) {
            panic!("{}:{number}: {why}", path.display());
        }
    }
    player.end(&server);
}

struct Player {
    client: Client,
    names: Names,
    model_requests: usize,
    is_input_open: bool,
    is_gone: bool,
}

impl Player {
    /// Does what has to be done before Bob starts.
    fn start<'a>(lines: impl Iterator<Item = &'a Line<'a>> + Clone, server: &ModelServer) -> Self {
        let args =
            lines.clone().find_map(|line| if let Line::Args(args) = line { Some(*args) } else { None });
        let mut launch = Launch::with_args(args.unwrap_or("--acp").split_ascii_whitespace());
        let is_scripted = lines.clone().any(|line| matches!(line, Line::Model(_)));
        launch = if is_scripted { launch.model(&server.base_url()) } else { launch.demo() };
        for line in lines {
            match line {
                Line::Env(variable) => {
                    let (name, value) = variable.split_once('=').expect("env NAME=VALUE");
                    launch = launch.env(name, value);
                }
                Line::File(file) => {
                    let (name, content) = file.split_once(' ').expect("file NAME \"CONTENT\"");
                    let content: String =
                        serde_json::from_str(content).expect("the content is a JSON string");
                    support::write_file(launch.cwd(), name, content);
                }
                Line::Model(answer) => server.push(answer_of(&json_of(answer).expect("an answer is JSON"))),
                _ => {}
            }
        }
        let client = launch.start();
        let cwd = client.cwd().to_str().expect("a temporary folder has a plain name").to_owned();
        let names = Names::from([("$CWD".into(), cwd)]);
        Self { client, names, model_requests: 0, is_input_open: true, is_gone: false }
    }

    fn step(&mut self, line: &Line<'_>, server: &ModelServer) -> Result<(), String> {
        match line {
            Line::Args(_) | Line::Env(_) | Line::File(_) | Line::Model(_) => Ok(()),
            Line::Send(text) => {
                let text = fill(text, &self.names);
                self.client.send_raw(format!("{text}\n").as_bytes());
                Ok(())
            }
            Line::Expect(how, expected) => self.expect(*how, expected),
            Line::Later(expected) => self.expect_later(expected),
            Line::ModelGot(expected) => {
                let request = server.wait_request(self.model_requests);
                self.model_requests += 1;
                matches(How::Subset, &json_of(expected)?, &request.body, &mut self.names)
            }
            Line::EndOfInput => {
                self.client.close_stdin();
                self.is_input_open = false;
                Ok(())
            }
            Line::Exit(code) => self.expect_exit(code),
            Line::Stderr(pattern) => {
                let stderr = self.client.wait_stderr();
                let pattern = fill(pattern, &self.names);
                let found = stderr.lines().any(|line| glob(&pattern, line));
                if found { Ok(()) } else { Err(format!("no such line on stderr: {pattern}")) }
            }
        }
    }

    fn expect(&mut self, how: How, expected: &str) -> Result<(), String> {
        let got = self.client.next().ok_or("stdout has ended")?;
        matches(how, &envelope(expected)?, &got, &mut self.names).map_err(|why| format!("{why} in {got}"))
    }

    fn expect_later(&mut self, expected: &str) -> Result<(), String> {
        let expected = envelope(expected)?;
        loop {
            let got = self.client.next().ok_or("stdout has ended")?;
            match matches(How::Subset, &expected, &got, &mut self.names) {
                Ok(()) => return Ok(()),
                Err(why) if got.get("method").is_none() => return Err(format!("{why} in {got}")),
                Err(_) => {}
            }
        }
    }

    fn expect_exit(&mut self, code: &str) -> Result<(), String> {
        let status = self.client.wait_exit();
        self.is_gone = true;
        if let Some(message) = self.client.next() {
            return Err(format!("there is more on stdout: {message}"));
        }
        match status.code().map(|code| code.to_string()) {
            Some(got) if got == code => Ok(()),
            _ => Err(format!("it ended with {status}")),
        }
    }

    /// What every transcript ends with, written or not: end of input, exit 0, nothing more on stdout, every
    /// request answered, every scripted answer asked for.
    fn end(mut self, server: &ModelServer) {
        if self.is_input_open && !self.is_gone {
            self.client.close_stdin();
        }
        if !self.is_gone {
            self.expect_exit("0").unwrap_or_else(|why| panic!("at the end: {why}"));
        }
        self.client.check_ended();
        assert_eq!(server.unused(), 0, "answers of the model that nobody asked for");
        assert_eq!(server.violations(), Vec::<String>::new());
    }
}

fn json_of(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON in the transcript: {error}: {text}"))
}

/// `jsonrpc` goes without saying in what is expected.
fn envelope(expected: &str) -> Result<Value, String> {
    let mut expected = json_of(expected)?;
    expected["jsonrpc"] = json!("2.0");
    Ok(expected)
}

/// An answer in the transcript's short form.
fn answer_of(short: &Value) -> Answer {
    let status = short["status"].as_u64().map_or(200, |status| u16::try_from(status).expect("a status"));
    if let Some(body) = short.get("body") {
        return Answer::json(status, body);
    }
    let items = |name: &str| short[name].as_array().cloned().unwrap_or_default();
    let text_of = |piece: &Value| piece.as_str().expect("a piece is a string").to_owned();
    let mut chunks: Vec<Value> =
        items("reasoning").iter().map(|piece| openai::reasoning(&text_of(piece))).collect();
    chunks.extend(items("text").iter().map(|piece| openai::text(&text_of(piece))));
    let calls = items("calls");
    chunks.extend(calls.iter().enumerate().map(|(index, call)| call_of(index, call)));
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    chunks.push(openai::finish(short["finish"].as_str().unwrap_or(finish)));
    if let (Some(input), Some(output)) = (short["usage"][0].as_u64(), short["usage"][1].as_u64()) {
        chunks.push(openai::usage(input, output));
    }
    openai::stream(chunks)
}

/// `{"NAME": {arguments}}`; arguments that are a string are sent as that text.
fn call_of(index: usize, call: &Value) -> Value {
    let call: &Map<String, Value> = call.as_object().expect("a call is {NAME: ARGUMENTS}");
    let (name, arguments) = call.iter().next().expect("a call has a name");
    let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), Into::into);
    openai::tool_call(index, &format!("model_{index}"), name, &arguments)
}
