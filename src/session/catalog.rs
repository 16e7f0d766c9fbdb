//! Which models a session knows of, and the one errand to its endpoint: `session/list_models`. The dispatcher has a
//! share in it, so that the list is told during a turn too.
use crate::cancel::CancelSource;
use crate::logging::carried;
use crate::model::{self, Failure};
use crate::settings::Environment;
use crate::settings::config::Net;
use crate::settings::llm::ModelConfig;
use crate::wire::config_option::ListModelsResponse;
use crate::wire::jsonrpc::RpcError;
use crate::wire::outbox::Reply;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an endpoint may take for its list.
const LIMIT: Duration = Duration::from_secs(5);
/// Models of an endpoint's list; they are all in each message about the options.
const LISTED: usize = 1000;
/// Models that were chosen.
const CHOSEN: usize = 100;
/// Requests that may wait for one list.
const ASKING: usize = 64;

/// The models of one session.
pub struct Catalog {
    /// The session's snapshot: where its models are.
    pub config: ModelConfig,
    net: Net,
    environment: Environment,
    cancel: CancelSource,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The one the session began with, then those chosen in it.
    chosen: Vec<String>,
    /// What the endpoint told, once it did.
    listed: Option<Vec<String>>,
    /// Who waits for the list. While there is anyone, a helper is at it.
    asking: Vec<Reply>,
    helpers: Vec<JoinHandle<()>>,
}

impl Catalog {
    /// Knows only the configured model. Asks nobody yet.
    pub fn new(config: ModelConfig, net: Net, environment: Environment) -> Self {
        let chosen = vec![config.model().to_owned()];
        let listed = matches!(config, ModelConfig::Demo { .. }).then(|| chosen.clone());
        let state = Mutex::new(State { chosen, listed, ..State::default() });
        Self { config, net, environment, cancel: CancelSource::new(), state }
    }

    /// A model is chosen, and so is known from now on.
    pub fn choose(&self, model: &str) {
        let chosen = &mut self.state.lock().chosen;
        if !chosen.iter().any(|known| known == model) {
            chosen.push(model.to_owned());
        }
        if chosen.len() > CHOSEN {
            chosen.remove(1);
        }
    }

    /// All that is known, each once: the one the session began with, those chosen, those listed.
    pub fn known(&self) -> Vec<String> {
        self.state.lock().known()
    }

    /// Answers `session/list_models`: at once if the endpoint has told its list, else from a helper, which asks it.
    /// Never waits.
    pub fn list(self: &Arc<Self>, reply: Reply) {
        let mut state = self.state.lock();
        if let Some(models) = state.listed.clone() {
            drop(state);
            return reply.ok(&ListModelsResponse { models, warning: None });
        }
        if state.asking.len() >= ASKING {
            drop(state);
            return reply.err(&RpcError::invalid_request("too many wait for the list of models: try again"));
        }
        state.asking.push(reply);
        if state.asking.len() > 1 {
            return; // the helper that is at it answers this one too
        }
        let (catalog, thread) = (self.clone(), std::thread::Builder::new().name("models".into()));
        match thread.spawn(carried(move || catalog.answer_all(catalog.ask()))) {
            Ok(helper) => {
                state.helpers.retain(|helper| !helper.is_finished());
                state.helpers.push(helper);
            }
            Err(error) => {
                drop(state);
                self.answer_all(Err(format!("no thread to ask with: {error}")));
            }
        }
    }

    /// The session ends: every request is answered when this returns, `in_full` or with what is known now.
    pub fn end(&self, in_full: bool) {
        if !in_full {
            self.cancel.cancel();
        }
        let helpers = std::mem::take(&mut self.state.lock().helpers);
        for helper in helpers {
            let _ = helper.join(); // it catches its panics
        }
    }

    /// The helper's errand.
    fn ask(&self) -> Result<Vec<String>, String> {
        let ModelConfig::Endpoint(endpoint) = &self.config else { return Ok(self.known()) };
        let cancel = self.cancel.token();
        let ask = || model::list_models(endpoint, &self.net, &self.environment, &cancel, LIMIT);
        match catch_unwind(AssertUnwindSafe(ask)) {
            Ok(Ok(mut models)) => {
                models.truncate(LISTED);
                Ok(models)
            }
            Ok(Err(Failure { message, .. })) => Err(message),
            Err(_) => Err("Bob broke; its log tells where".into()),
        }
    }

    fn answer_all(&self, listed: Result<Vec<String>, String>) {
        let mut state = self.state.lock();
        let asking = std::mem::take(&mut state.asking);
        let response = match listed {
            Ok(models) => {
                state.listed = Some(models.clone());
                ListModelsResponse { models, warning: None }
            }
            Err(why) => {
                let warning = Some(format!("The provider's models could not be listed: {why}"));
                ListModelsResponse { models: state.known(), warning }
            }
        };
        drop(state);
        asking.into_iter().for_each(|reply| reply.ok(&response));
    }
}

impl State {
    fn known(&self) -> Vec<String> {
        let listed = self.listed.iter().flatten().filter(|model| !self.chosen.contains(model));
        self.chosen.iter().chain(listed).cloned().collect()
    }
}
