//! One model call to see whether it works.
use crate::cancel::{CancelToken, Cancelled};
use crate::model::{self, Broken, Delta, Failure, Listener, Message, Part, Reply, Request, ToolSpec, Why};
use crate::settings::Environment;
use crate::settings::config::Net;
use crate::settings::llm::ModelConfig;
use std::time::Duration;

/// What is asked.
pub(super) struct Probe<'a> {
    pub(super) system: &'a str,
    pub(super) prompt: &'a str,
    pub(super) tools: &'a [ToolSpec],
}

impl Probe<'_> {
    /// Asks the model once, without another try: who waits for a verdict wants the first trouble told.
    ///
    /// # Errors
    /// [`Failure`], also for a cancel.
    pub(super) fn ask(
        &self,
        config: &ModelConfig,
        net: &Net,
        environment: &Environment,
        cancel: &CancelToken,
    ) -> Result<Reply, Failure> {
        let messages = [Message::User(vec![Part::Text(self.prompt.to_owned())])];
        let request = Request {
            model: config.model(),
            thinking: config.thinking(),
            system: self.system,
            messages: &messages,
            tools: self.tools,
        };
        let mut once = Once(None);
        let reply = model::connect(config, net, environment).complete(&request, cancel, &mut once);
        reply.map_err(|Broken { why, .. }| match (why, once.0) {
            (Why::Failed(failure), _) => failure,
            (Why::Cancelled, trouble) => {
                let message = trouble.unwrap_or_else(|| "cancelled".to_owned());
                Failure { status: None, message, too_long: false, unanswered: false }
            }
        })
    }
}

/// Hears nothing, waits for nothing: the trouble before which a wait was due.
struct Once(Option<String>);

impl Listener for Once {
    fn delta(&mut self, _: Delta<'_>) {}

    fn pause(&mut self, why: &str, _: Duration) -> Result<(), Cancelled> {
        self.0 = Some(why.to_owned());
        Err(Cancelled)
    }
}
