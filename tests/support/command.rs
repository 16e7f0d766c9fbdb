//! Bob's commands for a person: started with answers on stdin, or in a terminal of their own.
use super::{HANG, spawn};
use crossbeam_channel::{Receiver, unbounded};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A user with a home and a project, both empty, and nothing in the environment but `PATH`.
pub struct User {
    place: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// The exit code.
    pub code: Option<i32>,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl User {
    /// A new one, in a temporary folder.
    pub fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("home")).unwrap();
        std::fs::create_dir(place.path().join("project")).unwrap();
        Self { place }
    }

    /// Both are below it.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    /// Where commands are started.
    pub fn project(&self) -> PathBuf {
        self.place().join("project")
    }

    /// Where the login is kept.
    pub fn login_file(&self) -> PathBuf {
        self.place().join("home/.bob/llm.json")
    }

    /// `bob` with these arguments and variables, not yet started.
    #[expect(clippy::disallowed_methods, reason = "the program under test is the test's child, not Bob's")]
    pub fn command(&self, args: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bob"));
        command.args(args).env_clear().current_dir(self.project()).env("HOME", self.place().join("home"));
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.envs(variables.iter().copied());
        command
    }

    /// Runs a command to its end with all its input at once.
    pub fn run(&self, args: &[&str], variables: &[(&str, &str)], input: &str) -> Ended {
        let mut command = self.command(args, variables);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("the binary under test starts");
        // It may be gone before it has read all of it.
        let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
        ended(child.wait_with_output().expect("a child can be waited for"))
    }
}

fn ended(output: Output) -> Ended {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A command in a terminal.
pub struct InTerminal {
    child: Child,
    /// The person's side.
    screen: File,
    /// The command's side, held open to look at it.
    tty: OwnedFd,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl InTerminal {
    /// Starts it, with the terminal as stdin, stdout and stderr.
    pub fn start(mut command: Command) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap();
        let path = OsStr::new(name.to_str().unwrap()).to_owned();
        let open = || {
            let flags = rustix::fs::OFlags::NOCTTY.bits().cast_signed();
            OwnedFd::from(OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path).unwrap())
        };
        let tty = open();
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().expect("it starts");
        drop(command); // its copies of the terminal
        let screen = File::from(screen);
        let output = bytes_of(screen.try_clone().unwrap());
        Self { child, screen, tty, output, seen: String::new() }
    }

    /// Waits until this stands on the screen, behind what was waited for before. Gives what stands before it.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            match self.output.recv_timeout(HANG) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} does not come, but {:?}", self.seen),
            }
        }
    }

    /// Types.
    pub fn type_in(&mut self, text: &str) {
        self.screen.write_all(text.as_bytes()).unwrap();
    }

    /// Whether what is typed is shown.
    pub fn echoes(&self) -> bool {
        tcgetattr(&self.tty).unwrap().local_modes.contains(LocalModes::ECHO)
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end; its exit code.
    pub fn wait_exit(&mut self) -> Option<i32> {
        self.child.wait().expect("a child can be waited for").code()
    }
}

impl Drop for InTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill(); // gone already: all the better
        let _ = self.child.wait();
    }
}

fn bytes_of(mut screen: File) -> Receiver<Vec<u8>> {
    let (bytes, received) = unbounded();
    spawn("screen", move || {
        let mut some = [0; 4096];
        // An error is the end of the terminal.
        while let Ok(count @ 1..) = screen.read(&mut some) {
            if bytes.send(some[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    received
}
