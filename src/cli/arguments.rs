//! The command line as typed.
use crate::settings::config::Mode;
use crate::wire::acp::SessionId;
use log::LevelFilter;
use std::ffi::OsString;
use std::path::PathBuf;

/// Told on `--help`, and when something was not understood.
pub const USAGE: &str = "\
Bob, a coding agent for editors that speak the Agent Client Protocol.

usage: bob --acp [options]      serve one client on stdin and stdout
       bob --login              choose a model and keep its key, in ~/.bob/llm.json
       bob --check [-C DIR]     say which model would be used, from where, and whether it works
       bob --version | --help

  --acp, -acp       ACP: JSON-RPC, one message a line; --stdio may follow
  --script [ID]     for heredocs: the first session/new is called ID (default: script),
                    prompts line up, the end of input lets them finish
  --resume [ID]     the first session/new continues a saved session of its folder: the newest, or
                    the one whose id is ID or begins so
  --mode ID         permission mode of new sessions: ask (default), full-access
  --config FILE     read in place of ~/.bob/config.json
  -C DIR            change to DIR first
  --log-file FILE   write the log there too
  -v, -q            log more, log less

environment: LLM_PROVIDER (default OPENAI; DEMO needs nothing else), and of that provider
             <P>_API_KEY, <P>_BASE_URL, <P>_MODEL; what is set there comes before the login
";

/// What is to be done.
#[derive(Debug)]
pub enum Command {
    /// Be a server.
    Serve(Arguments),
    /// `--login`, whatever else is asked for.
    Login(Arguments),
    /// `--check`.
    Check(Arguments),
    /// `--help`.
    Help,
    /// `--version`.
    Version,
}

/// How to do it.
#[derive(Debug)]
pub struct Arguments {
    /// `--script [ID]`.
    pub script: Option<SessionId>,
    /// `--resume [ID]`.
    pub resume: Option<Option<String>>,
    /// `--mode ID`.
    pub mode: Option<Mode>,
    /// `--config FILE`.
    pub config_file: Option<PathBuf>,
    /// `-C DIR`.
    pub directory: Option<PathBuf>,
    /// `--log-file FILE`.
    pub log_file: Option<PathBuf>,
    /// `-v`, `-q`.
    pub log_level: LevelFilter,
}

/// Understands the arguments, the program's name first.
///
/// # Errors
/// A line that says what was not understood.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
    let mut typed = arguments.into_iter().skip(1).peekable();
    let (mut acp, mut stdio, mut login, mut check) = (false, false, false, false);
    let mut parsed = Arguments {
        script: None,
        resume: None,
        mode: None,
        config_file: None,
        directory: None,
        log_file: None,
        log_level: LevelFilter::Info,
    };
    while let Some(argument) = typed.next() {
        let (name, mut value) = split(&argument);
        let mut value_of =
            |name: &str| value.take().or_else(|| typed.next()).ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--mode" => parsed.mode = Some(mode(&value_of("--mode")?)?),
            "--config" => parsed.config_file = Some(value_of("--config")?.into()),
            "-C" => parsed.directory = Some(value_of("-C")?.into()),
            "--log-file" => parsed.log_file = Some(value_of("--log-file")?.into()),
            "--script" => {
                let id =
                    value.take().or_else(|| typed.next_if(|next| !next.as_encoded_bytes().starts_with(b"-")));
                parsed.script = Some(script_id(id)?);
            }
            "--resume" => {
                let id =
                    value.take().or_else(|| typed.next_if(|next| !next.as_encoded_bytes().starts_with(b"-")));
                parsed.resume = Some(id.map(|id| id.to_string_lossy().into_owned()));
            }
            "--acp" | "-acp" => acp = true,
            "--stdio" => stdio = true,
            "--login" => login = true,
            "--check" => check = true,
            "-v" => parsed.log_level = LevelFilter::Debug,
            "-q" => parsed.log_level = LevelFilter::Warn,
            "--help" | "-h" => return Ok(Command::Help),
            "--version" | "-V" => return Ok(Command::Version),
            other => return Err(format!("unknown argument: {other}")),
        }
        if value.is_some() {
            return Err(format!("{name} takes no value"));
        }
    }
    match (login, check, acp) {
        // A client may add it to the arguments it starts the server with.
        (true, ..) => Ok(Command::Login(parsed)),
        (_, true, false) if !stdio && parsed.script.is_none() && parsed.resume.is_none() => {
            Ok(Command::Check(parsed))
        }
        (_, true, _) => Err("--check does not go with a server's arguments".into()),
        (_, _, true) => Ok(Command::Serve(parsed)),
        _ if stdio => Err("--stdio goes with --acp".into()),
        _ if parsed.script.is_some() => Err("--script goes with --acp".into()),
        _ if parsed.resume.is_some() => Err("--resume goes with --acp".into()),
        _ => Err("nothing to do: --acp starts the server, --login chooses a model".into()),
    }
}

/// `--name=value` apart.
fn split(argument: &OsString) -> (String, Option<OsString>) {
    let text = argument.to_string_lossy();
    match text.split_once('=').filter(|(name, _)| name.starts_with("--")) {
        Some((name, value)) => (name.to_string(), Some(value.into())),
        None => (text.into_owned(), None),
    }
}

fn mode(id: &OsString) -> Result<Mode, String> {
    let id = id.to_string_lossy();
    id.parse().map_err(|error| format!("--mode {id}: {error}"))
}

fn script_id(id: Option<OsString>) -> Result<SessionId, String> {
    let id = id.unwrap_or_else(|| "script".into());
    let id = id.to_string_lossy();
    SessionId::parse(&id).ok_or_else(|| format!("--script {id}: must be 1 to 64 of A-Z a-z 0-9 _ -"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(std::iter::once("bob").chain(line.split_whitespace()).map(OsString::from))
    }

    fn served(line: &str) -> Arguments {
        match parsed(line) {
            Ok(Command::Serve(arguments)) => arguments,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_ways_to_start_a_server() {
        for line in
            ["--acp", "-acp", "--acp --stdio", "--stdio --acp", "--acp -C / --config=x -v --log-file y"]
        {
            served(line);
        }
        assert_eq!(served("--acp --script").script.unwrap().as_str(), "script");
        assert_eq!(served("--script a1 --acp").script.unwrap().as_str(), "a1");
        assert_eq!(served("--script --acp").script.unwrap().as_str(), "script");
        assert_eq!(served("--acp --mode full-access").mode, Some(Mode::FullAccess));
    }

    #[test]
    fn a_login_comes_before_all_else() {
        for line in
            ["--login", "--acp --login", "--login --acp", "--acp --stdio --login -v", "--login --check"]
        {
            assert!(matches!(parsed(line), Ok(Command::Login(_))), "{line}");
        }
        assert!(matches!(parsed("--check -C /"), Ok(Command::Check(_))));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (line, why) in [
            ("", "--acp"),
            ("--stdio", "--stdio goes with"),
            ("--script", "--script goes with"),
            ("--resume", "--resume goes with"),
            ("--acp --nonsense", "--nonsense"),
            ("--acp extra", "extra"),
            ("--acp --script a/b", "a/b"),
            ("--acp --mode wild", "wild"),
            ("--acp --config", "needs a value"),
            ("--acp=1", "takes no value"),
            ("--login extra", "extra"),
            ("--login=1", "takes no value"),
            ("--check --acp", "--check does not go"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
