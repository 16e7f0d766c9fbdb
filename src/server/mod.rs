//! The server: its threads, how they are wired, how they end. Read this page first.
//!
//! ```text
//! stdin → reader → dispatcher → session worker → outbox → writer → stdout
//! ```
pub mod dispatcher;
pub mod errands;
pub mod handshake;
pub mod inbox;
pub mod reader;
pub mod requests;
pub mod signals;
mod switching;
mod waiting;

use crate::logging::Log;
use crate::process;
use crate::session::gate::Gate;
use crate::session::{Context, Counter};
use crate::settings::Environment;
use crate::settings::config::{Config, Flags};
use crate::settings::login_file;
use crate::wire::acp::SessionId;
use crate::wire::outbox::Outbox;
use dispatcher::Dispatcher;
use errands::Errands;
use inbox::{Event, Inbox};
use log::LevelFilter;
use signals::Shutdown;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// How the server is to run.
pub struct Options {
    /// The environment as it was when the process started.
    pub environment: Environment,
    /// `--config`.
    pub config_file: Option<PathBuf>,
    /// `--mode`, `--script`.
    pub flags: Flags,
    /// `--script [ID]`.
    pub script: Option<SessionId>,
    /// `--resume [ID]`.
    pub resume: Option<Option<String>>,
    /// `-v`, `-q`.
    pub log_level: LevelFilter,
    /// `--log-file`, opened.
    pub log_file: Option<File>,
}

/// What the server's threads share.
pub struct Server {
    /// What the sessions know of it.
    pub context: Arc<Context>,
    /// The dispatcher's.
    pub inbox: Arc<Inbox>,
    /// The end.
    pub shutdown: Shutdown,
    /// The log.
    pub log: Log,
    /// `--script [ID]`.
    pub script: Option<SessionId>,
    /// `--resume [ID]`.
    pub resume: Option<Option<String>>,
}

/// Serves one client over stdin and stdout, until its input ends or a signal comes. Gives the exit code.
///
/// # Errors
/// The system gives no descriptors or threads.
pub fn run(options: Options) -> io::Result<u8> {
    let stdout = process::take_stdout()?;
    let (wake, waker) = UnixStream::pair()?;
    waker.set_nonblocking(true)?;
    process::signals_to(&waker)?;
    let (log, log_lines) = Log::new();
    log.install(options.log_level);
    log.take_panics();
    if let Err(error) = process::hide_environment() {
        log::warn!("the environment can't be hidden from commands: {error}");
    }
    log::info!("bob {}, ACP on stdin and stdout", env!("CARGO_PKG_VERSION"));
    let log_file = options.log_file.as_ref().map(File::try_clone).transpose()?;
    let server = assemble(options, waker, log);

    // Those on a message's way first: the editor waits for its first answer.
    let watched = stdout.try_clone()?;
    let writer = pillar("writer", &server, move |server| write(server, stdout))?;
    let (errands, given) = Errands::new();
    let dispatcher = pillar("dispatcher", &server, |server| Dispatcher::new(server.clone(), errands).run())?;
    // Never joined: it may sit in a read for ever.
    pillar("reader", &server, |server| reader::read(server, io::stdin()))?;
    let errands_thread = pillar("errands", &server, move |server| errands::run(&given, &server.context))?;
    pillar("log", &server, move |_| log_lines.write_all(log_file.as_ref()))?;
    pillar("signals", &server, move |server| {
        if let Err(error) = signals::watch(server, &wake, watched.as_fd()) {
            log::error!("signals: {error}");
            server.shut_down(1);
        }
    })?;

    let _ = dispatcher.join(); // every worker is gone, or the signals thread ends us
    let _ = errands_thread.join(); // the dispatcher was the last to give it any
    server.context.outbox.finish();
    let _ = writer.join();
    server.log.flush();
    Ok(server.shutdown.code())
}

fn assemble(options: Options, waker: UnixStream, log: Log) -> Arc<Server> {
    let Options { environment, config_file, flags, script, resume, .. } = options;
    let user_folder = environment.user_folder();
    let config_file = config_file.or_else(|| Some(user_folder.as_ref()?.join("config.json")));
    // A broken file is each session's error; the process goes on with the defaults.
    let process = crate::settings::config::load(config_file.as_deref())
        .unwrap_or_else(|error| {
            log::warn!("{error}");
            Config::default()
        })
        .with_flags(flags)
        .process;
    let inbox = Arc::new(Inbox::default());
    let events = inbox.clone();
    let context = Context {
        outbox: Outbox::new(process.outbox_bytes),
        gate: Gate::new(process.parallel),
        process,
        environment,
        program: std::env::current_exe().unwrap_or_else(|_| "bob".into()),
        keeps_logins: user_folder.as_deref().is_some_and(login_file::is_writable),
        user_folder,
        config_file,
        flags,
        tell: Box::new(move |event| events.event(Event::Session(event))),
        calls: Counter::default(),
        messages: Counter::default(),
    };
    let shutdown = Shutdown::new(waker);
    Arc::new(Server { context: Arc::new(context), inbox, shutdown, log, script, resume })
}

fn write(server: &Server, mut stdout: File) {
    if let Err(error) = server.context.outbox.write_all(&mut stdout) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            log::warn!("stdout: {error}");
        }
        server.context.outbox.dead();
        server.shut_down(0);
    }
}

/// A thread without which there is no server: its panic is the end.
fn pillar(
    name: &str,
    server: &Arc<Server>,
    body: impl FnOnce(&Arc<Server>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let server = server.clone();
    let edge = move || {
        if catch_unwind(AssertUnwindSafe(|| body(&server))).is_err() {
            server.shut_down(1);
        }
    };
    std::thread::Builder::new().name(name.into()).spawn(edge)
}
