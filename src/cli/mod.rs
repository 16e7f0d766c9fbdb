//! The command line: what was typed, and what it means.
pub mod arguments;
mod check;
mod interrupt;
mod login;
mod probe;
mod terminal;

use crate::process;
use crate::server::{self, Options};
use crate::settings::Environment;
use crate::settings::config::{Config, ConfigError, Flags, load};
use arguments::{Arguments, Command, USAGE};
use rustix::fs::{OFlags, fcntl_setfl};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// 0: all went well.
    Success,
    /// 1: it could not be done.
    Failure,
    /// 2: it was not understood, names what is not there, or there is nothing to check.
    Usage,
    /// 130: a signal ended it.
    Interrupted,
    /// What the server says.
    Server(u8),
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(match code {
            ExitCode::Success => 0,
            ExitCode::Failure => 1,
            ExitCode::Usage => 2,
            ExitCode::Interrupted => 130,
            ExitCode::Server(code) => code,
        })
    }
}

/// Does what the command line says.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    process::share_heaps();
    process::survive_file_size_limit();
    match arguments::parse(arguments) {
        Err(why) => {
            say(&mut io::stderr(), &format!("bob: {why}\n\n{USAGE}"));
            ExitCode::Usage
        }
        Ok(Command::Help) => print(USAGE),
        Ok(Command::Version) => print(&format!("bob {}\n", env!("CARGO_PKG_VERSION"))),
        Ok(Command::Serve(arguments)) => or_told(serve(arguments)),
        Ok(Command::Login(arguments)) => {
            or_told(Setup::new(&arguments).and_then(|setup| Ok(login::run(&setup)?)))
        }
        Ok(Command::Check(arguments)) => {
            or_told(Setup::new(&arguments).and_then(|setup| Ok(check::run(&setup)?)))
        }
    }
}

/// Why a command did not begin.
struct Refusal {
    code: ExitCode,
    why: String,
}

impl Refusal {
    /// The argument names nothing that can be used.
    fn of_argument(why: String) -> Self {
        Self { code: ExitCode::Usage, why }
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self { code: ExitCode::Failure, why }
    }
}

fn or_told(result: Result<ExitCode, Refusal>) -> ExitCode {
    result.unwrap_or_else(|Refusal { code, why }| {
        say(&mut io::stderr(), &format!("bob: {why}\n"));
        code
    })
}

/// What a command without a server works with.
struct Setup {
    environment: Environment,
    /// Bob's folder of the user; `None` where there is no home.
    user_folder: Option<PathBuf>,
    cwd: PathBuf,
    config: Result<Config, ConfigError>,
}

impl Setup {
    fn new(arguments: &Arguments) -> Result<Self, Refusal> {
        arguments.directory.as_deref().map_or(Ok(()), enter)?;
        let environment = Environment::of_process();
        let user_folder = environment.user_folder();
        let named = arguments.config_file.as_deref().map(existing).transpose()?;
        let config_file = named.or_else(|| Some(user_folder.as_ref()?.join("config.json")));
        Ok(Self {
            cwd: std::env::current_dir().map_err(|error| format!("the working folder: {error}"))?,
            config: load(config_file.as_deref()),
            environment,
            user_folder,
        })
    }
}

/// A broken pipe is no error of ours.
fn say(to: &mut impl Write, text: &str) {
    let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

#[expect(clippy::disallowed_methods, reason = "no server runs: stdout is nobody's yet")]
fn print(text: &str) -> ExitCode {
    say(&mut io::stdout(), text);
    ExitCode::Success
}

fn serve(arguments: Arguments) -> Result<ExitCode, Refusal> {
    if let Some(directory) = &arguments.directory {
        enter(directory)?;
    }
    let options = Options {
        environment: Environment::of_process(),
        config_file: arguments.config_file.as_deref().map(existing).transpose()?,
        flags: Flags { mode: arguments.mode, script: arguments.script.is_some() },
        script: arguments.script,
        resume: arguments.resume,
        log_level: arguments.log_level,
        log_file: arguments.log_file.as_deref().map(open_log).transpose()?,
    };
    let code = server::run(options).map_err(|error| format!("the server can't start: {error}"))?;
    Ok(ExitCode::Server(code))
}

#[expect(clippy::disallowed_methods, reason = "the one place, before there is a second thread")]
fn enter(directory: &Path) -> Result<(), Refusal> {
    let entered = std::env::set_current_dir(directory);
    entered.map_err(|error| Refusal::of_argument(format!("-C {}: {error}", directory.display())))
}

/// The user's own file may be absent; one that was named may not.
fn existing(path: &Path) -> Result<PathBuf, Refusal> {
    let existing = path.metadata().and_then(|_| std::path::absolute(path));
    existing.map_err(|error| Refusal::of_argument(format!("--config {}: {error}", path.display())))
}

fn open_log(path: &Path) -> Result<File, String> {
    let failed = |error: io::Error| format!("--log-file {}: {error}", path.display());
    // Opening a pipe would wait for its reader, and writing to one for ever.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path);
    let file = file.map_err(failed)?;
    let kind = file.metadata().map_err(failed)?.file_type();
    if !kind.is_file() && !kind.is_char_device() {
        return Err(failed(io::Error::other("neither a file nor a character device")));
    }
    fcntl_setfl(&file, OFlags::APPEND).map_err(|error| failed(error.into()))?; // a terminal may be slow
    Ok(file)
}
