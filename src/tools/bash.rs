//! The tool `bash`: a command line, run by the shell.
use super::output::{CLIENT_HEAD, CLIENT_TAIL, Printed};
use super::paths::Planned;
use super::shell_line::LONGEST_LINE;
use super::{Access, Action, Kind, Outcome, Plan, Run, Tool, Workspace};
use crate::model::ToolSpec;
use crate::process::{self, End, Finished, Left, ShellCommand, Sink, signal_name};
use serde_json::{Map, Value, json};
use std::io;
use std::time::{Duration, Instant};

/// The longest the model may ask for.
const LONGEST: Duration = Duration::from_secs(600);
/// Between two updates of the client.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

const DESCRIPTION: &str = "Runs a command line with `bash -c` and returns what it printed (stdout and stderr in the \
order they came; the middle of a long output is left out) and its exit code. Every command starts in the working \
directory: `cd` does not carry over to the next one. stdin is empty and there is no terminal: use flags instead of \
interactive programs. A process that shall go on in the background (`&`) must write to a file: writing to the \
command's output would end it.";

/// The tool `bash`.
pub struct Bash;

impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "bash".into(),
            description: DESCRIPTION.into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string"},
                    "timeoutSeconds": {"type": "number", "description": "At most 600."},
                    "description": {"type": "string", "description": "What it does, in a few words."},
                },
                "required": ["command"],
            }),
        }
    }

    fn plan(&self, arguments: &Map<String, Value>, workspace: &Workspace) -> Plan {
        let line = arguments.get("command").and_then(Value::as_str).unwrap_or_default();
        let (access, action): (_, Planned) = match Command::parse(arguments, workspace) {
            Ok(command) => (Access::Command(command.line.clone()), Ok(Box::new(command))),
            Err(expected) => (Access::Free, Err(expected.into())),
        };
        Plan {
            title: format!("bash: {line}"),
            kind: Kind::Execute,
            locations: Vec::new(),
            diff: None,
            access,
            action,
        }
    }
}

struct Command {
    line: String,
    timeout: Duration,
}

impl Command {
    /// The error says what was expected.
    fn parse(arguments: &Map<String, Value>, workspace: &Workspace) -> Result<Self, String> {
        let given = |name| arguments.get(name).filter(|value| !value.is_null());
        let line = match given("command") {
            Some(Value::String(line)) if line.len() > LONGEST_LINE => return Err(too_long(line)),
            Some(Value::String(line)) if !line.trim().is_empty() => line.clone(),
            Some(Value::String(_)) => return Err("`command` is empty; expected a command line".into()),
            Some(other) => return Err(format!("expected `command` to be a string, got {}", kind_of(other))),
            None => return Err("`command` is missing; expected {\"command\": \"a command line\"}".into()),
        };
        if let Some(other) = given("description").filter(|value| !value.is_string()) {
            return Err(format!("expected `description` to be a string, got {}", kind_of(other)));
        }
        let timeout = match given("timeoutSeconds") {
            None => workspace.bash_timeout,
            Some(value) => parse_timeout(value).ok_or_else(|| {
                format!("expected `timeoutSeconds` to be a number of seconds above 0, got {}", kind_of(value))
            })?,
        };
        Ok(Self { line, timeout })
    }
}

fn too_long(line: &str) -> String {
    format!(
        "`command` has {} bytes; a command line has at most {LONGEST_LINE}. Write a script to a file and run that",
        line.len()
    )
}

fn parse_timeout(value: &Value) -> Option<Duration> {
    let seconds = value.as_f64().filter(|seconds| *seconds > 0.0)?;
    Some(Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64())))
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(_) => "a boolean".into(),
        Value::Number(number) => number.to_string(),
        Value::String(_) => "a string".into(),
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}

impl Action for Command {
    fn run(self: Box<Self>, run: &mut Run<'_>) -> Outcome {
        if run.cancel.is_cancelled() {
            return Outcome::failed("[cancelled]");
        }
        let half = run.workspace.bash_max_output / 2;
        let printed = Printed::new(half.max(CLIENT_HEAD), half.max(CLIENT_TAIL));
        let mut shown = Shown { printed, progress: &mut *run.progress, last: None, is_stale: false };
        let command = ShellCommand {
            line: &self.line,
            cwd: &run.workspace.cwd,
            hidden_variables: &run.workspace.hidden_variables,
            timeout: self.timeout,
        };
        let finished = command.run(run.cancel, &mut shown);
        shown.printed.finish();
        let output = shown.printed.view(half, half);
        match finished {
            Ok(finished) => self.outcome(output, finished, &mut run.workspace.left),
            Err(error) => Outcome::failed(cannot_run(&error, run.workspace)),
        }
    }
}

impl Command {
    fn outcome(&self, output: String, finished: Finished, all_left: &mut Vec<Left>) -> Outcome {
        let Finished { end, left } = finished;
        let count = left.as_ref().map_or(0, Left::count);
        let by_itself = matches!(end, End::Exited(_) | End::Killed(_));
        let how = match end {
            End::Exited(0) => None,
            End::Exited(code) => Some(format!("[exit code {code}]")),
            End::Killed(signal) => Some(format!("[killed by {}]", signal_name(signal))),
            End::TimedOut => Some(format!("[timed out after {} s]", self.timeout.as_secs_f64())),
            End::Cancelled => Some("[cancelled]".into()),
        };
        keep(left, all_left);
        Outcome {
            failed: !by_itself,
            exit_code: if let End::Exited(code) = end { Some(code) } else { None },
            ..Outcome::done(with_lines(output, [how, about_left(count, by_itself)]))
        }
    }
}

/// What the model is told about those that live on.
fn about_left(count: usize, by_itself: bool) -> Option<String> {
    let processes = if count == 1 { "1 process".into() } else { format!("{count} processes") };
    match (count, by_itself) {
        (0, _) => None,
        (_, true) => Some(format!("[{processes} left running in the background, until the session ends]")),
        (_, false) => Some(format!("[{processes} could not be ended]")),
    }
}

/// Those of earlier commands that ended meanwhile are let go.
fn keep(left: Option<Left>, all: &mut Vec<Left>) {
    if let Some(left) = left {
        all.retain(|left| left.count() > 0);
        all.push(left);
    }
}

fn with_lines(mut output: String, lines: [Option<String>; 2]) -> String {
    for line in lines.into_iter().flatten() {
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&line);
    }
    if output.is_empty() { "[no output]".into() } else { output }
}

fn cannot_run(error: &io::Error, workspace: &Workspace) -> String {
    if workspace.cwd.is_dir() {
        format!("the command could not be run: {}: {error}", process::shell().path.display())
    } else {
        format!("the command could not be run: `{}` is no directory any more", workspace.cwd.display())
    }
}

/// What was printed, shown to the client as it comes: the first at once, then at most 10 times a second.
struct Shown<'a> {
    printed: Printed,
    progress: &'a mut dyn FnMut(&str),
    last: Option<Instant>,
    is_stale: bool,
}

impl Sink for Shown<'_> {
    fn take(&mut self, bytes: &[u8]) {
        self.printed.push(bytes);
        self.is_stale = true;
        if self.due().is_some_and(|due| due <= Instant::now()) {
            self.flush();
        }
    }

    fn due(&self) -> Option<Instant> {
        let next = self.last.map_or_else(Instant::now, |last| last + PROGRESS_INTERVAL);
        self.is_stale.then_some(next)
    }

    fn flush(&mut self) {
        (self.progress)(&self.printed.view(CLIENT_HEAD, CLIENT_TAIL));
        self.last = Some(Instant::now());
        self.is_stale = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelSource;

    fn workspace() -> Workspace {
        Workspace {
            cwd: "/".into(),
            roots: vec!["/".into()],
            home: None,
            user_folder: None,
            bash_timeout: Duration::from_secs(60),
            bash_max_output: 30_000,
            hidden_variables: vec!["BOB_TEST_SECRET".into()],
            seen: Default::default(),
            left: Vec::new(),
        }
    }

    fn plan(arguments: Value) -> Plan {
        let Value::Object(arguments) = arguments else { panic!("no object") };
        Bash.plan(&arguments, &workspace())
    }

    /// Outcome and updates; `on_progress` is called with each update.
    fn run(
        arguments: Value,
        workspace: &mut Workspace,
        mut on_progress: impl FnMut(&CancelSource, &str),
    ) -> (Outcome, Vec<String>) {
        let source = CancelSource::new();
        let mut updates = Vec::new();
        let mut progress = |text: &str| {
            on_progress(&source, text);
            updates.push(text.to_owned());
        };
        let mut run = Run { cancel: &source.token(), progress: &mut progress, workspace };
        let action = plan(arguments).action.unwrap();
        (action.run(&mut run), updates)
    }

    fn simple(command: &str) -> Outcome {
        run(json!({ "command": command }), &mut workspace(), |_, _| ()).0
    }

    #[test]
    fn the_first_request_stays_small() {
        let spec = Bash.spec();
        assert!(spec.description.len() + spec.schema.to_string().len() < 1024);
    }

    #[test]
    fn a_plan_shows_the_whole_command() {
        let plan = plan(json!({"command": "echo a\necho b", "timeoutSeconds": 1.5, "description": null}));
        assert_eq!(plan.title, "bash: echo a\necho b");
        assert_eq!(plan.access, Access::Command("echo a\necho b".into()));
        assert_eq!(plan.kind, Kind::Execute);
        assert!(plan.action.is_ok());
    }

    #[test]
    fn bad_arguments_say_what_was_expected() {
        for (arguments, expected) in [
            (json!({}), "`command` is missing"),
            (json!({"cmd": "ls"}), "`command` is missing"),
            (json!({"command": 5}), "`command` to be a string, got 5"),
            (json!({"command": ["ls"]}), "got an array"),
            (json!({"command": " \n"}), "`command` is empty"),
            (
                json!({"command": "a ".repeat(64 * 1024)}),
                "has 131072 bytes; a command line has at most 131071",
            ),
            (json!({"command": "ls", "timeoutSeconds": "9"}), "a number of seconds above 0, got a string"),
            (json!({"command": "ls", "timeoutSeconds": 0}), "above 0, got 0"),
            (json!({"command": "ls", "timeoutSeconds": -1}), "above 0, got -1"),
            (json!({"command": "ls", "description": {}}), "`description` to be a string, got an object"),
        ] {
            let plan = plan(arguments.clone());
            let error = plan.action.err().unwrap().text;
            assert!(error.contains(expected), "{arguments}: {error}");
            assert_eq!(plan.access, Access::Free);
        }
    }

    #[test]
    fn no_timeout_is_longer_than_the_longest() {
        assert_eq!(parse_timeout(&json!(1e300)), Some(LONGEST));
        assert_eq!(parse_timeout(&json!(0.25)), Some(Duration::from_millis(250)));
    }

    #[test]
    fn the_model_reads_how_it_ended() {
        for (command, output, exit_code) in [
            ("echo a; echo b >&2", "a\nb\n", Some(0)),
            ("echo a; echo b >&2; exit 7", "a\nb\n[exit code 7]", Some(7)),
            ("printf a; exit 1", "a\n[exit code 1]", Some(1)),
            (":", "[no output]", Some(0)),
            ("exit 3", "[exit code 3]", Some(3)),
            ("echo a; kill -SEGV $$", "a\n[killed by SIGSEGV]", None),
            ("printf '\\033[1mbold\\033[0m 1%%\\r2%%\\n'", "2%\n", Some(0)),
            ("cat", "[no output]", Some(0)),
        ] {
            let outcome = simple(command);
            assert_eq!((outcome.output.as_str(), outcome.exit_code), (output, exit_code), "{command}");
            assert!(!outcome.failed, "{command}");
        }
    }

    #[test]
    fn each_command_starts_in_cwd_without_the_hidden_variables() {
        assert_eq!(simple("cd /tmp; pwd").output, "/tmp\n");
        assert_eq!(simple("pwd").output, "/\n");
        let mut other = workspace();
        other.hidden_variables = vec!["HOME".into()];
        let (outcome, _) = run(json!({"command": "echo ${HOME-none}"}), &mut other, |_, _| ());
        assert_eq!(outcome.output, "none\n");
    }

    #[test]
    fn a_folder_that_is_gone_is_told() {
        let mut gone = workspace();
        gone.cwd = "/no/such/folder".into();
        let (outcome, _) = run(json!({"command": "ls"}), &mut gone, |_, _| ());
        assert!(
            outcome.failed && outcome.output.contains("`/no/such/folder` is no directory"),
            "{outcome:?}"
        );
        let unusable = simple("echo \0");
        let shell = process::shell().path.display().to_string();
        assert!(
            unusable.failed && unusable.output.contains(&shell),
            "it says what could not be started: {unusable:?}"
        );
    }

    #[test]
    fn a_timeout_is_a_failure_with_the_output_so_far() {
        let arguments = json!({"command": "echo before; sleep 300", "timeoutSeconds": 1.5});
        let (outcome, updates) = run(arguments, &mut workspace(), |_, _| ());
        assert_eq!(outcome.output, "before\n[timed out after 1.5 s]");
        assert!(outcome.failed && outcome.exit_code.is_none());
        assert_eq!(updates, ["before\n"]);
    }

    #[test]
    fn a_cancel_is_a_failure_with_the_output_so_far() {
        let arguments = json!({"command": "echo before; sleep 300 & sleep 300"});
        let mut workspace = workspace();
        let (outcome, _) = run(arguments, &mut workspace, |source, _| source.cancel());
        assert_eq!(outcome, Outcome::failed("before\n[cancelled]"));
        assert!(workspace.left.is_empty());
    }

    #[test]
    fn a_cancelled_call_starts_nothing() {
        let source = CancelSource::new();
        source.cancel();
        let mut workspace = workspace();
        let mut run = Run { cancel: &source.token(), progress: &mut |_| (), workspace: &mut workspace };
        let action = plan(json!({"command": "echo started"})).action.unwrap();
        assert_eq!(action.run(&mut run), Outcome::failed("[cancelled]"));
    }

    #[test]
    fn what_is_left_is_counted_and_kept() {
        let mut workspace = workspace();
        let (outcome, _) = run(json!({"command": "sleep 300 & echo hi"}), &mut workspace, |_, _| ());
        assert_eq!(outcome.output, "hi\n[1 process left running in the background, until the session ends]");
        assert_eq!((workspace.left.len(), workspace.left[0].count()), (1, 1));
        let (outcome, _) = run(json!({"command": "sleep 300 & sleep 300 &"}), &mut workspace, |_, _| ());
        assert!(outcome.output.contains("[2 processes left"), "{}", outcome.output);
    }

    #[test]
    fn a_flood_is_cut_and_shown_at_most_ten_times_a_second() {
        let started = Instant::now();
        let arguments = json!({"command": "yes", "timeoutSeconds": 0.5});
        let (outcome, updates) = run(arguments, &mut workspace(), |_, _| ());
        let most = started.elapsed().as_millis() / PROGRESS_INTERVAL.as_millis() + 1;
        assert!(updates.len() as u128 <= most, "{} updates", updates.len());
        assert!(updates.iter().all(|text| text.chars().count() < CLIENT_HEAD + CLIENT_TAIL + 60));
        assert!(outcome.output.chars().count() < 30_100);
        assert!(outcome.output.contains(" characters elided ...]\n"));
        assert!(outcome.output.ends_with("y\n[timed out after 0.5 s]"));
    }

    #[test]
    fn the_last_of_a_burst_is_shown_while_the_command_waits() {
        let arguments = json!({"command": "echo one; sleep 0.02; echo two; sleep 300"});
        let (_, updates) = run(arguments, &mut workspace(), |source, text| {
            if text.contains("two") {
                source.cancel();
            }
        });
        assert_eq!(updates.last().unwrap(), "one\ntwo\n");
    }

    #[test]
    fn binary_output_is_text() {
        let outcome = simple("head -c 100000 /dev/urandom; printf '\\0'");
        assert!(!outcome.output.contains('\0') && outcome.exit_code == Some(0));
    }
}
