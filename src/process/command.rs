//! One shell command in a process session of its own: run, streamed, ended, left behind. One thread, one `poll`, no
//! helper threads, no tick.
use super::left::{Left, PATIENCE_ON_CANCEL, PATIENCE_ON_TIMEOUT, ProcessSession, TICK};
use super::pipe::{Pipe, Sink};
use super::shell::shell;
use super::system::{exit_fd, ignored_signals, reset_signal};
use crate::cancel::{CancelToken, HookGuard};
use rustix::process::{self, Pid, WaitId, WaitIdOptions, waitid};
use std::ffi::OsString;
use std::io::{self, PipeReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// How long a background child may hold the pipe after the shell ended.
const GRACE: Duration = Duration::from_millis(100);
/// How long who holds no pipe any more may take to end: files are closed some time before an exit is one.
const SETTLE: Duration = Duration::from_millis(10);

/// Nobody can answer: no pager, no editor (what there was stays), nobody who asks for a password.
const VARIABLES: [(&str, &str); 11] = [
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("EDITOR", "true"),
    ("VISUAL", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", ""),
    ("GCM_INTERACTIVE", "never"),
    ("SSH_ASKPASS_REQUIRE", "never"),
];

/// A command line for the shell: `bash -c`, or `sh -c` where there is no bash.
#[derive(Clone, Copy, Debug)]
pub struct ShellCommand<'a> {
    /// As the shell reads it.
    pub line: &'a str,
    /// Where it starts.
    pub cwd: &'a Path,
    /// Left out of its environment, which is ours otherwise.
    pub hidden_variables: &'a [OsString],
    /// How long it may take.
    pub timeout: Duration,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By itself, of this signal.
    Killed(i32),
    /// It took too long.
    TimedOut,
    /// Its token was cancelled.
    Cancelled,
}

/// A command that ended.
pub struct Finished {
    /// How.
    pub end: End,
    /// Who outlived the shell, or withstood being ended. To be kept until the session ends.
    pub left: Option<Left>,
}

impl ShellCommand<'_> {
    /// Runs it, handing each piece of output to `sink`, and returns when the shell has ended (and, for what still
    /// holds the pipe, a short grace), or when all of it has been ended.
    ///
    /// Only a thread that outlives the command and what it leaves may call this: the parent-death signal belongs to
    /// the calling *thread*, and the shell dies with it.
    ///
    /// # Errors
    /// It can't be started: no shell, no `cwd`, too long a line, a NUL in it, no descriptor, no process.
    pub fn run(&self, cancel: &CancelToken, sink: &mut dyn Sink) -> io::Result<Finished> {
        let waker = Waker::new(cancel)?;
        let (shell, read) = self.spawn()?;
        let session = ProcessSession(Pid::from_child(&shell));
        let mut pipe = Pipe::new(read, sink);
        let end = self.watch(session, &waker, cancel, &mut pipe);
        let left = match end {
            Ok(End::Exited(_) | End::Killed(_)) => {
                let until = Instant::now() + if pipe.is_closed() { SETTLE } else { Duration::ZERO };
                pipe.close();
                session.settle(until, &mut pipe)
            }
            Ok(End::TimedOut) => session.end(PATIENCE_ON_TIMEOUT, &mut pipe),
            Ok(End::Cancelled) | Err(_) => session.end(PATIENCE_ON_CANCEL, &mut pipe),
        };
        pipe.drain();
        let left = keep_or_reap(shell, session, left);
        Ok(Finished { end: end?, left })
    }

    /// Until it ends by itself, is cancelled or is out of time.
    fn watch(
        &self,
        session: ProcessSession,
        waker: &Waker,
        cancel: &CancelToken,
        pipe: &mut Pipe<'_>,
    ) -> io::Result<End> {
        let exit = exit_fd(session.0).ok();
        let deadline = Instant::now() + self.timeout;
        let mut ended: Option<(End, Instant)> = None;
        loop {
            if cancel.is_cancelled() {
                return Ok(End::Cancelled);
            }
            if ended.is_none() {
                ended = how_it_ended(session.0)?.map(|end| (end, Instant::now() + GRACE));
            }
            let now = Instant::now();
            match ended {
                Some((end, until)) if pipe.is_closed() || now >= until => return Ok(end),
                None if now >= deadline => return Ok(End::TimedOut),
                _ => {}
            }
            let until = match ended {
                Some((_, until)) => until,
                None if exit.is_none() => deadline.min(now + TICK),
                None => deadline,
            };
            // After the shell's end its descriptor would always be ready.
            let exit = exit.as_ref().filter(|_| ended.is_none()).map(AsFd::as_fd);
            pipe.wait(exit.into_iter().chain([waker.woken.as_fd()]), until);
        }
    }

    fn spawn(&self) -> io::Result<(Child, PipeReader)> {
        let (read, write) = io::pipe()?;
        rustix::fs::fcntl_setfl(&read, rustix::fs::OFlags::NONBLOCK)?;
        let shell = self.command(write.try_clone()?, write).spawn()?;
        Ok((shell, read))
    }

    /// To be dropped after spawning: it holds the write ends.
    fn command(&self, stdout: io::PipeWriter, stderr: io::PipeWriter) -> Command {
        #[expect(clippy::disallowed_methods, reason = "the place where children are made")]
        let mut command = Command::new(&shell().path);
        command.arg0(shell().name).arg("-c").arg(self.line).current_dir(self.cwd).envs(VARIABLES);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        for name in self.hidden_variables {
            command.env_remove(name);
        }
        let (parent, ignored) = (process::getpid(), ignored());
        #[expect(unsafe_code, reason = "a session and a death signal are set between fork and exec")]
        // SAFETY: only system calls, nothing is allocated and no lock is taken.
        unsafe {
            command.pre_exec(move || before_exec(parent, ignored))
        };
        command
    }
}

/// What our launcher ignores (`nohup`, a shell's `&`), which a command would ignore too. Looked up once: 64 calls.
fn ignored() -> &'static [i32] {
    static IGNORED: LazyLock<Vec<i32>> = LazyLock::new(ignored_signals);
    &IGNORED
}

fn before_exec(parent: Pid, ignored: &[i32]) -> io::Result<()> {
    ignored.iter().copied().for_each(reset_signal); // std empties the mask
    process::setsid()?;
    #[cfg(target_os = "linux")]
    process::set_parent_process_death_signal(Some(process::Signal::KILL))?;
    // The parent may have died before the line above: then no signal comes.
    if process::getppid() != Some(parent) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Looks without reaping: the id must stay ours.
fn how_it_ended(shell: Pid) -> io::Result<Option<End>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(shell), options)?;
    Ok(status.and_then(|status| {
        let code = status.exit_status().map(End::Exited);
        code.or_else(|| status.terminating_signal().map(End::Killed))
    }))
}

fn keep_or_reap(mut shell: Child, session: ProcessSession, left: usize) -> Option<Left> {
    if left > 0 {
        return Some(Left::new(shell, session));
    }
    let _ = shell.try_wait(); // never waits: it has ended
    None
}

/// A cancel writes one byte, which is never read back: the pipe stays readable.
struct Waker {
    woken: PipeReader,
    _hook: HookGuard,
}

impl Waker {
    fn new(cancel: &CancelToken) -> io::Result<Self> {
        let (woken, mut wake) = io::pipe()?;
        let hook = move || drop(wake.write(&[1])); // has room: it is the only byte
        Ok(Self { woken, _hook: cancel.on_cancel(hook) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cancel::CancelSource;
    use crate::process::system::is_alive_by_name;
    use crate::process::{Watch, wait};
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::PathBuf;

    const LONG: Duration = Duration::from_secs(60);

    /// Keeps all, and does something once `ready` was printed.
    struct Seen<'a> {
        text: String,
        on_ready: Option<Box<dyn FnOnce() + 'a>>,
    }

    impl Sink for Seen<'_> {
        fn take(&mut self, bytes: &[u8]) {
            self.text.push_str(&String::from_utf8_lossy(bytes));
            if self.text.contains("ready")
                && let Some(on_ready) = self.on_ready.take()
            {
                on_ready();
            }
        }
    }

    fn command(line: &str, timeout: Duration) -> ShellCommand<'_> {
        ShellCommand { line, cwd: Path::new("/"), hidden_variables: &[], timeout }
    }

    fn run(line: &str, timeout: Duration) -> (Finished, String) {
        let mut seen = Seen { text: String::new(), on_ready: None };
        let finished = command(line, timeout).run(&CancelSource::new().token(), &mut seen).unwrap();
        (finished, seen.text)
    }

    /// Cancels it as soon as it says `ready`.
    fn run_cancelled(line: &str) -> (Finished, String) {
        let source = CancelSource::new();
        let mut seen = Seen { text: String::new(), on_ready: Some(Box::new(|| source.cancel())) };
        let finished = command(line, LONG).run(&source.token(), &mut seen).unwrap();
        (finished, seen.text)
    }

    #[track_caller]
    fn check(line: &str, end: End, output: &str) {
        let (finished, text) = run(line, LONG);
        assert_eq!((finished.end, text.as_str()), (end, output), "{line}");
        assert!(finished.left.is_none(), "{line}");
    }

    /// A FIFO that every process of a command holds open for writing: at its end all of them have ended.
    struct Witness {
        _folder: tempfile::TempDir,
        path: PathBuf,
        fifo: File,
    }

    impl Witness {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("witness");
            run(&format!("mkfifo '{}'", path.display()), LONG);
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let fifo = File::options().read(true).custom_flags(flags).open(&path).unwrap();
            Self { _folder: folder, path, fifo }
        }

        fn line(&self, line: &str) -> String {
            format!("exec 9>'{}'; {line}", self.path.display())
        }

        fn all_are_gone(&self) -> bool {
            matches!((&self.fifo).read(&mut [0; 64]), Ok(0))
        }

        /// Something was written, or all are gone.
        fn next(&self) -> usize {
            let watched = [Some(Watch::Input(self.fifo.as_fd()))];
            assert_eq!(wait(watched, Some(LONG)).unwrap(), [true], "hangs");
            (&self.fifo).read(&mut [0; 64]).unwrap()
        }
    }

    #[test]
    fn both_streams_in_order_and_the_exit_code() {
        check("echo a; echo b >&2; echo c; exit 7", End::Exited(7), "a\nb\nc\n");
        check(":", End::Exited(0), "");
        check("kill -9 $$", End::Killed(9), "");
    }

    #[test]
    fn nobody_can_answer() {
        check("cat; read x; echo $?", End::Exited(0), "1\n");
        check("(: </dev/tty) 2>/dev/null || echo no terminal", End::Exited(0), "no terminal\n");
        check("echo $TERM $PAGER $GIT_TERMINAL_PROMPT", End::Exited(0), "dumb cat 0\n");
    }

    #[test]
    fn a_hidden_variable_is_in_no_environment() {
        let home = std::env::var("HOME").unwrap();
        let line = "echo \"$PATH\"; echo ${HOME-none}; tr '\\0' '\\n' </proc/self/environ | grep -c ^HOME=";
        let mut seen = Seen { text: String::new(), on_ready: None };
        let hidden = ["HOME".into()];
        let command = ShellCommand { hidden_variables: &hidden, ..command(line, LONG) };
        command.run(&CancelSource::new().token(), &mut seen).unwrap();
        assert_eq!(seen.text, format!("{}\nnone\n0\n", std::env::var("PATH").unwrap()));
        check("echo $HOME", End::Exited(0), &format!("{home}\n"));
    }

    #[test]
    fn sigpipe_has_its_default() {
        check("yes | head -1; echo ${PIPESTATUS[0]}", End::Exited(0), "y\n141\n");
    }

    /// Not a test: what [`in_another_process`] runs.
    #[test]
    fn another_process() {
        if let Ok(line) = std::env::var("TEST_LINE") {
            let (_read, write) = std::os::unix::net::UnixStream::pair().unwrap();
            crate::process::signals_to(&write).unwrap();
            let (_, text) = run(&line, LONG);
            println!("{text}");
        }
    }

    /// A shell line that runs `line` with the code under test, in a process of its own.
    fn in_another_process(line: &str) -> String {
        let me = std::env::current_exe().unwrap();
        let test = "process::command::tests::another_process";
        let line = line.replace('\'', "'\\''");
        format!("TEST_LINE='{line}' exec '{}' --exact {test} --nocapture", me.display())
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_the_launcher_ignores_is_not_ignored() {
        let inner = in_another_process("grep -E 'Sig(Ign|Blk)' /proc/self/status");
        let (_, text) = run(&format!("trap '' HUP INT QUIT USR1 CHLD; {inner}"), LONG);
        let masks: Vec<u64> = text
            .lines()
            .filter_map(|line| u64::from_str_radix(line.strip_prefix("Sig")?.get(5..)?, 16).ok())
            .map(|mask| mask & 0x7fff_ffff) // those behind are libc's own
            .collect();
        assert_eq!(masks, [0, 0], "{text}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_direct_child_dies_with_a_killed_process() {
        let witness = Witness::new();
        let inner = in_another_process(&witness.line("echo up >&9; exec sleep 300"));
        #[expect(clippy::disallowed_methods, reason = "plays an editor")]
        let mut other = Command::new("bash").args(["-c", &inner]).stdout(Stdio::null()).spawn().unwrap();
        assert!(witness.next() > 0, "it runs");
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(witness.next(), 0, "killed with its parent");
    }

    #[test]
    fn a_background_child_that_keeps_the_pipe_is_left_and_ended_later() {
        for line in ["sleep 300 & echo hi", "sleep 300 >/dev/null 2>&1 & echo hi"] {
            let witness = Witness::new();
            let (finished, text) = run(&witness.line(line), LONG);
            assert_eq!((finished.end, text.as_str()), (End::Exited(0), "hi\n"));
            let left = finished.left.unwrap();
            assert_eq!(left.count(), 1);
            assert!(!witness.all_are_gone());
            drop(left);
            assert!(witness.all_are_gone(), "{line}");
        }
    }

    #[test]
    fn with_nobody_left_the_shell_is_reaped() {
        let (_, text) = run("echo $$", LONG);
        let shell = Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        assert!(waitid(WaitId::Pid(shell), WaitIdOptions::EXITED | WaitIdOptions::NOHANG).is_err());
    }

    #[track_caller]
    fn check_cancel(line: &str) {
        let witness = Witness::new();
        let (finished, text) = run_cancelled(&witness.line(line));
        assert_eq!(finished.end, End::Cancelled, "{line}: {text}");
        assert!(finished.left.is_none(), "{line}");
        assert!(witness.all_are_gone(), "{line}");
    }

    const TREES: [&str; 10] = [
        "echo ready; exec sleep 300",
        "sleep 300 & echo ready; sleep 300",
        "trap '' TERM; (sleep 97; sleep 1) & (while :; do sleep 1; done) & echo ready; while :; do sleep 1; done",
        "trap '' TERM; timeout 100 bash -c 'echo ready; sleep 91; :'; echo",
        "set -m; trap '' TERM; sleep 60 & (while :; do sleep 1; done) & echo ready; wait",
        "for i in {1..60}; do sleep 77 & done; echo ready; wait",
        "sleep 88 & kill -STOP $!; echo ready; wait",
        "echo ready; kill -STOP $$",
        "echo ready; yes",
        "trap '' TERM; storm() { while :; do (sleep 5) & (:) ; done; }; storm & storm & echo ready; wait",
    ];

    #[test]
    fn a_cancel_ends_all_of_it() {
        TREES.into_iter().for_each(check_cancel);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn so_does_it_where_exits_have_no_descriptor() {
        crate::process::system::NO_PIDFD.set(true);
        check("echo out; exit 3", End::Exited(3), "out\n");
        TREES.into_iter().take(5).for_each(check_cancel);
    }

    #[test]
    fn a_cancel_in_the_grace_ends_who_holds_the_pipe() {
        check_cancel("(echo ready; exec sleep 300) &");
    }

    #[test]
    fn a_cancel_at_any_moment_leaves_nobody() {
        for step in 0..60 {
            let witness = Witness::new();
            let line = witness.line("sleep 300 & (sleep 300; :) & sleep 300");
            let source = CancelSource::new();
            let token = source.token();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _ = crossbeam_channel::after(Duration::from_micros(step * 150)).recv();
                    source.cancel();
                });
                let finished = command(&line, LONG).run(&token, &mut ()).unwrap();
                assert_eq!(finished.end, End::Cancelled);
                assert!(finished.left.is_none());
            });
            assert!(witness.all_are_gone(), "step {step}");
        }
    }

    #[test]
    fn a_timeout_ends_all_of_it_and_keeps_last_words() {
        for (line, words) in [
            ("trap 'echo bye; exit' TERM; sleep 300 & wait", "bye\n"),
            ("trap '' TERM; echo before; (sleep 300 &); sleep 300", "before\n"),
        ] {
            let witness = Witness::new();
            let (finished, text) = run(&witness.line(line), Duration::from_millis(1500));
            assert_eq!((finished.end, text.as_str()), (End::TimedOut, words), "{line}");
            assert!(finished.left.is_none() && witness.all_are_gone(), "{line}");
        }
    }

    #[test]
    fn a_session_of_its_own_is_outside_the_promise() {
        let (finished, text) = run_cancelled("setsid bash -c 'echo $$ ready; exec sleep 300' & wait");
        assert_eq!(finished.end, End::Cancelled);
        let pid = Pid::from_raw(text.split(' ').next().unwrap().parse().unwrap()).unwrap();
        assert!(is_alive_by_name(pid));
        process::kill_process(pid, process::Signal::KILL).unwrap();
    }

    #[test]
    fn what_can_not_be_started_is_an_error() {
        let gone = ShellCommand { cwd: Path::new("/no/such/folder"), ..command(":", LONG) };
        let long = ":".repeat(4 << 20);
        for command in [gone, command("echo \0", LONG), command(&long, LONG)] {
            assert!(command.run(&CancelSource::new().token(), &mut ()).is_err());
        }
    }
}
