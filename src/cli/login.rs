//! `bob --login`: asks for a model and its key, tries them out, keeps them in the login file.
use super::interrupt::Interrupt;
use super::probe::Probe;
use super::terminal::{Stop, Terminal};
use super::{ExitCode, Setup};
use crate::cancel::CancelToken;
use crate::model;
use crate::settings::config::{Config, Net};
use crate::settings::llm::{Endpoint, Format, ModelConfig};
use crate::settings::login_file::{self, Login};
use crate::settings::{self, Environment, Origin, Secret};
use serde_json::Map;
use std::io;
use std::path::Path;
use std::time::Duration;

/// How long the endpoint may take to list its models.
const LIST_WITHIN: Duration = Duration::from_secs(20);
/// The limit of the small request's reply; `openai-responses` takes no less.
const REPLY_TOKENS: u64 = 16;

/// A provider that is offered, with what is likely.
struct Offer {
    name: &'static str,
    about: &'static str,
    base_url: Option<&'static str>,
    model: Option<&'static str>,
    format: Format,
}

impl Offer {
    const fn new(name: &'static str, base_url: &'static str, model: &'static str) -> Self {
        let (base_url, model) = (Some(base_url), Some(model));
        Self { name, about: "", base_url, model, format: Format::OpenAiCompletions }
    }
}

/// In the order of their numbers.
const OFFERS: [Offer; 7] = [
    Offer::new("OPENAI", "https://api.openai.com/v1", "gpt-5"),
    Offer {
        format: Format::AnthropicMessages,
        ..Offer::new("ANTHROPIC", "https://api.anthropic.com/v1", "claude-sonnet-4-5")
    },
    Offer::new("DEEPSEEK", "https://api.deepseek.com/v1", "deepseek-chat"),
    Offer::new("GEMINI", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-flash-latest"),
    Offer::new("OPENROUTER", "https://openrouter.ai/api/v1", "openrouter/auto"),
    Offer {
        about: " (Ollama, llama.cpp, LM Studio, …)",
        model: None,
        ..Offer::new("LOCAL", "http://localhost:11434/v1", "")
    },
    Offer { about: " (any other)", base_url: None, model: None, ..Offer::new(CUSTOM, "", "") },
];
const CUSTOM: &str = "CUSTOM";

/// Asks, tries, saves. 0: saved; 1: end of input, declined, not to be saved; 130: a signal.
///
/// # Errors
/// It can't begin: no home, no descriptors.
#[expect(clippy::disallowed_methods, reason = "no server runs: stdout is nobody's yet")]
pub(super) fn run(setup: &Setup) -> Result<ExitCode, String> {
    let folder = setup.user_folder.as_deref();
    let folder = folder.ok_or("there is no home to keep a login in: set HOME or BOB_HOME")?;
    let interrupt = Interrupt::new().map_err(|error| format!("the login can't start: {error}"))?;
    let mut terminal = Terminal::new(rustix::stdio::stdin(), io::stdout(), &interrupt);
    let dialogue = Dialogue { setup, folder, cancel: interrupt.token() };
    let ended = dialogue.hold(&mut terminal);
    let kept = match login_file::path(folder) {
        path if path.exists() => format!("; {} is kept as it was", path.display()),
        _ => String::new(),
    };
    let (code, why) = match ended {
        Ok(()) => return Ok(ExitCode::Success),
        Err(End::Stopped(Stop::Interrupted)) => (ExitCode::Interrupted, "interrupted".to_owned()),
        Err(End::Stopped(Stop::EndOfInput)) => {
            (ExitCode::Failure, "the input ended before the login".to_owned())
        }
        Err(End::Stopped(Stop::Failed(error))) => {
            (ExitCode::Failure, format!("the answer can't be read: {error}"))
        }
        Err(End::Declined) => (ExitCode::Failure, "declined".to_owned()),
        Err(End::NotWritten(error)) => {
            let path = login_file::path(folder);
            (ExitCode::Failure, format!("failed to write `{}`: {error}", path.display()))
        }
    };
    super::say(&mut io::stderr(), &format!("bob: {why}: nothing was saved{kept}\n"));
    Ok(code)
}

/// Why nothing was saved.
enum End {
    Stopped(Stop),
    /// The person doesn't want it.
    Declined,
    NotWritten(io::Error),
}

impl From<Stop> for End {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

/// What the dialogue is about.
struct Dialogue<'a> {
    setup: &'a Setup,
    folder: &'a Path,
    cancel: &'a CancelToken,
}

impl Dialogue<'_> {
    /// All of it.
    fn hold(&self, terminal: &mut Terminal<'_>) -> Result<(), End> {
        let path = login_file::path(self.folder);
        if path.symlink_metadata().is_ok() {
            terminal.say(&format!("There is a login in {}.\n", path.display()));
            if !terminal.ask_whether("Replace it?", false)? {
                return Err(End::Declined);
            }
        }
        let login = questions(terminal)?;
        terminal.say("Trying it out …\n");
        match self.try_out(&login) {
            _ if self.cancel.is_cancelled() => return Err(Stop::Interrupted.into()),
            Ok(()) => terminal.say("It works.\n"),
            Err(why) => {
                terminal.say(&format!("It does not work: {why}\n"));
                if !terminal.ask_whether("Save anyway?", true)? {
                    return Err(End::Declined);
                }
            }
        }
        login_file::write(self.folder, &login).map_err(End::NotWritten)?;
        terminal.say(&format!("Saved in {}, for you alone to read.\n", path.display()));
        self.say_what_comes_before(terminal, &path);
        Ok(())
    }

    /// One real call, so that a typo shows now; in words what is wrong.
    fn try_out(&self, login: &Login) -> Result<(), String> {
        let Setup { environment, config, .. } = self.setup;
        let net = config
            .as_ref()
            .map_or_else(|_| Config::default().process.net, |config| config.process.net.clone());
        let endpoint = endpoint(login);
        match model::list_models(&endpoint, &net, environment, self.cancel, LIST_WITHIN) {
            // Everybody gets OpenRouter's list, with or without a key.
            Ok(models) if models.contains(&login.model) && login.provider != "OPENROUTER" => Ok(()),
            Err(failure) if matches!(failure.status, None | Some(401)) => Err(failure.message),
            // No list, or one without this name, which may be another name of one that is on it.
            Ok(_) | Err(_) => small_request(endpoint, &net, environment, self.cancel),
        }
    }

    /// A login that something else overrides here would look as if it had been forgotten.
    fn say_what_comes_before(&self, terminal: &mut Terminal<'_>, path: &Path) {
        let Setup { environment, cwd, .. } = self.setup;
        let Ok(origins) = settings::origins(environment, cwd, Some(self.folder)) else { return };
        let path = path.display().to_string();
        let of_login = |origin: &&Origin| !origin.what.starts_with("LLM_"); // the file has no others
        let before = origins.iter().filter(of_login);
        for origin in before.filter(|origin| origin.from != path && origin.from != "the default") {
            terminal.say(&format!(
                "Note: {} comes from {}, which counts before the login.\n",
                origin.what, origin.from
            ));
        }
    }
}

fn small_request(
    endpoint: Endpoint,
    net: &Net,
    environment: &Environment,
    cancel: &CancelToken,
) -> Result<(), String> {
    let config = ModelConfig::Endpoint(Endpoint { max_tokens: Some(REPLY_TOKENS), ..endpoint });
    let probe = Probe { system: "Answer with one word.", prompt: "Say OK.", tools: &[] };
    probe.ask(&config, net, environment, cancel).map(drop).map_err(|failure| failure.message)
}

fn endpoint(login: &Login) -> Endpoint {
    Endpoint {
        provider: login.provider.clone(),
        format: login.format,
        api_key: login.api_key.clone(),
        base_url: login.base_url.clone(),
        model: login.model.clone(),
        temperature: None,
        max_tokens: None,
        thinking: None,
        extra_body: Map::new(),
    }
}

/// The questions, in the order of `settings.md`.
fn questions(terminal: &mut Terminal<'_>) -> Result<Login, Stop> {
    terminal.say("Which provider?\n");
    for (at, offer) in OFFERS.iter().enumerate() {
        terminal.say(&format!("  {}  {}{}\n", at + 1, offer.name, offer.about));
    }
    let offer = terminal.ask("Provider, number or name", Some("1"), offer)?;
    let provider = match offer.name {
        CUSTOM => terminal.ask("Its name", None, custom_name)?,
        name => name.to_owned(),
    };
    let offer = OFFERS.iter().find(|offer| offer.name == provider).unwrap_or(offer);
    let api_key = api_key(terminal, provider == "LOCAL")?;
    // Who pastes the key once more is asked again: both are shown later.
    let checked = |text: &str, check: fn(&str) -> Result<String, &'static str>| {
        let holds_key = api_key.as_ref().is_some_and(|key| key.is_in(text));
        let checked = if holds_key { Err("holds the API key") } else { check(needed(text)?) };
        checked.map_err(|why| format!("That {why}."))
    };
    let base_url = |text: &str| checked(text, settings::check_base_url);
    let model = |text: &str| checked(text, settings::check_model);
    Ok(Login {
        base_url: terminal.ask("Base URL", offer.base_url, base_url)?,
        model: terminal.ask("Model", offer.model, model)?,
        format: ask_format(terminal, offer.format)?,
        api_key,
        provider,
    })
}

fn offer(answer: &str) -> Result<&'static Offer, String> {
    let named = |(at, offer): &(usize, &Offer)| {
        answer == (at + 1).to_string() || answer.eq_ignore_ascii_case(offer.name)
    };
    let found = OFFERS.iter().enumerate().find(named);
    found.map(|(_, offer)| offer).ok_or_else(|| {
        format!(
            "That is none of them: a number from 1 to {} or a name. {CUSTOM} is for all others.",
            OFFERS.len()
        )
    })
}

fn custom_name(answer: &str) -> Result<String, String> {
    match settings::provider_name(needed(answer)?).as_deref() {
        None => Err("A name is a letter, then letters, digits and _.".into()),
        Some("DEMO") => Err("DEMO is the built-in model and needs no login: set LLM_PROVIDER=DEMO.".into()),
        Some(name) => Ok(name.to_owned()),
    }
}

fn api_key(terminal: &mut Terminal<'_>, may_be_empty: bool) -> Result<Option<Secret>, Stop> {
    let question = match may_be_empty {
        true => "API key (not shown; empty if it needs none)",
        false => "API key (not shown)",
    };
    terminal.ask_hidden(question, |answer| match answer {
        "" if may_be_empty => Ok(None),
        answer => settings::check_api_key(needed(answer)?).map(Some).map_err(|why| format!("That {why}.")),
    })
}

fn ask_format(terminal: &mut Terminal<'_>, default: Format) -> Result<Format, Stop> {
    for (at, format) in Format::ALL.iter().enumerate() {
        terminal.say(&format!("  {}  {}\n", at + 1, format.name()));
    }
    terminal.ask("Format, number or name", Some(default.name()), |answer| {
        let named = |(at, format): &(usize, &Format)| {
            answer == (at + 1).to_string() || answer.eq_ignore_ascii_case(format.name())
        };
        let found = Format::ALL.iter().enumerate().find(named);
        found
            .map(|(_, format)| *format)
            .ok_or_else(|| "That is none of the three: a number or a name.".into())
    })
}

fn needed(answer: &str) -> Result<&str, String> {
    if answer.is_empty() { Err("An answer is needed here.".into()) } else { Ok(answer) }
}
