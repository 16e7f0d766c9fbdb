//! `bob --check`: which model would be used here, where each value comes from, and whether it works.
use super::interrupt::Interrupt;
use super::probe::Probe;
use super::{ExitCode, Setup};
use crate::cancel::CancelToken;
use crate::model::{self, Arguments, Failure, Reply, ToolSpec};
use crate::settings::config::{Config, Net};
use crate::settings::llm::{Endpoint, LlmError, ModelConfig, Resolved};
use crate::settings::{self, Origin};
use crate::text::{clean, clean_to};
use crate::tools;
use std::io::{self, Write};
use std::time::Duration;

/// How long the endpoint may take to list its models.
const LIST_WITHIN: Duration = Duration::from_secs(20);
/// Models that are told by name.
const MODELS_TOLD: usize = 20;
/// Statuses of an endpoint that has no list; Bob works without.
const NO_LIST: [u16; 3] = [404, 405, 501];

/// Tells what it finds. 0: all works; 1: something doesn't; 2: nothing is configured.
///
/// # Errors
/// It can't begin: no descriptors.
#[expect(clippy::disallowed_methods, reason = "no server runs: stdout is nobody's yet")]
pub(super) fn run(setup: &Setup) -> Result<ExitCode, String> {
    let interrupt = Interrupt::new().map_err(|error| format!("the check can't start: {error}"))?;
    let mut check = Check { setup, cancel: interrupt.token(), out: io::stdout(), failures: 0 };
    let code = check.all();
    Ok(if interrupt.token().is_cancelled() { ExitCode::Interrupted } else { code })
}

struct Check<'a, W: Write> {
    setup: &'a Setup,
    cancel: &'a CancelToken,
    out: W,
    /// What did not work so far.
    failures: usize,
}

impl<W: Write> Check<'_, W> {
    fn all(&mut self) -> ExitCode {
        let cwd = self.setup.cwd.display();
        self.line(&format!(
            "bob {}, the model for {}",
            env!("CARGO_PKG_VERSION"),
            clean_to(&cwd.to_string(), 4096)
        ));
        let net = self.net();
        match self.configuration() {
            Err(code) => return code,
            Ok(resolved) => {
                if let ModelConfig::Endpoint(endpoint) = &resolved.config {
                    self.list(endpoint, &net);
                }
                self.prompt(&resolved.config, &net);
            }
        }
        if self.failures == 0 {
            self.line("All works.");
            ExitCode::Success
        } else {
            self.line("Not all works. Correct what is named above (bob --login asks for all of it), then check again.");
            ExitCode::Failure
        }
    }

    fn line(&mut self, text: &str) {
        super::say(&mut self.out, &format!("{text}\n"));
    }

    fn row(&mut self, name: &str, text: &str) {
        self.line(&format!("  {name:<15} {text}"));
    }

    fn failed(&mut self, name: &str, text: &str) {
        self.failures += 1;
        self.row(name, text);
    }

    /// The settings files, as a session here would read them. Gives what counts of them even where one is broken.
    fn net(&mut self) -> Net {
        let Setup { cwd, user_folder, config, .. } = self.setup;
        match config.clone().and_then(|config| config.with_project(cwd, user_folder.as_deref())) {
            Ok(config) => config.warnings.iter().for_each(|warning| self.row("warning", warning)),
            Err(error) => {
                self.failed("settings", &format!("{error} (until it is corrected no session can begin)"));
            }
        }
        config.as_ref().map_or_else(|_| Config::default().process.net, |config| config.process.net.clone())
    }

    /// Where each value comes from, and what they are together.
    fn configuration(&mut self) -> Result<Resolved, ExitCode> {
        let Setup { environment, cwd, user_folder, .. } = self.setup;
        let origins = settings::origins(environment, cwd, user_folder.as_deref()).unwrap_or_default();
        for Origin { what, value, from } in &origins {
            let value = value.as_deref().map_or("(set, not shown)".into(), |value| clean(value));
            self.row(what, &format!("{value}  from {}", clean_to(from, 4096)));
        }
        let mut warnings = Vec::new();
        let resolved = settings::resolve_model(environment, cwd, user_folder.as_deref(), &mut warnings);
        warnings.iter().for_each(|warning| self.row("warning", warning));
        resolved.map_err(|error| self.unusable(&error))
    }

    fn unusable(&mut self, error: &LlmError) -> ExitCode {
        match error {
            LlmError::Missing { provider, missing, .. } => {
                for name in missing {
                    let variable = format!("{provider}_{}", name.to_ascii_uppercase());
                    self.row(name, &format!("missing ({variable} in the environment or .env)"));
                }
                let needed = if provider == "LOCAL" { 2 } else { 3 };
                self.line("No model can be used: run bob --login, or set what is missing. LLM_PROVIDER=DEMO needs nothing.");
                if missing.len() == needed { ExitCode::Usage } else { ExitCode::Failure }
            }
            LlmError::Broken(_) => {
                self.line(&format!("{error}. No session can begin until it is corrected."));
                ExitCode::Failure
            }
        }
    }

    fn list(&mut self, endpoint: &Endpoint, net: &Net) {
        match model::list_models(endpoint, net, &self.setup.environment, self.cancel, LIST_WITHIN) {
            Ok(models) if models.contains(&endpoint.model) => {
                self.row("models", &format!("{} listed, the chosen one among them", models.len()));
            }
            Ok(models) => {
                self.row("models", &format!("{} listed: {}", models.len(), told(&models)));
                let model = clean(&endpoint.model);
                self.row(
                    "",
                    &format!("{model} is not among them; the prompt shows whether it is known all the same"),
                );
            }
            Err(Failure { status: Some(status), .. }) if NO_LIST.contains(&status) => {
                self.row(
                    "models",
                    &format!("the endpoint has no list of them ({status}); Bob works without"),
                );
            }
            Err(failure) => {
                self.failed("models", &format!("can't be listed: {}", failure.message));
                if failure.unanswered {
                    self.row(
                        "",
                        "does the server run, is the base URL right, is a proxy needed (HTTPS_PROXY)?",
                    );
                }
            }
        }
    }

    /// The prompt is a command of the demo model's too. Nothing is run.
    fn prompt(&mut self, config: &ModelConfig, net: &Net) {
        let tools: Vec<ToolSpec> =
            tools::built_in().iter().map(|tool| tool.spec()).filter(|tool| tool.name == "bash").collect();
        let probe = Probe {
            system: "This is a check of tool calls. Call the tool bash once, with the command you are given.",
            prompt: "run `echo works`",
            tools: &tools,
        };
        match probe.ask(config, net, &self.setup.environment, self.cancel) {
            Ok(reply) if calls_bash(&reply) => self.row("prompt", "answered, with a tool call as it should be"),
            Ok(_) if matches!(config, ModelConfig::Demo { script: Some(_), .. }) => {
                self.row("prompt", "answered by the script");
            }
            Ok(_) => self.failed(
                "prompt",
                "answered, but without a tool call: Bob needs a model that can call tools (a local server may need \
                 an option for that)",
            ),
            Err(failure) => self.failed("prompt", &format!("failed: {}", failure.message)),
        }
    }
}

fn calls_bash(reply: &Reply) -> bool {
    reply
        .message
        .calls
        .iter()
        .any(|call| call.name == "bash" && matches!(call.arguments, Arguments::Object(_)))
}

fn told(models: &[String]) -> String {
    let names: Vec<_> = models.iter().take(MODELS_TOLD).map(|name| clean(name)).collect();
    let more = models.len().saturating_sub(MODELS_TOLD);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}
