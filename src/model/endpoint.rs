//! A model behind HTTP: the wire format, the connection and the retries put together.
use crate::cancel::CancelToken;
use crate::model::anthropic::Anthropic;
use crate::model::complaint::Complaint;
use crate::model::dialect::{self, Dialect};
use crate::model::failure::{Ended, Trouble};
use crate::model::http::{Client, Post, Response};
use crate::model::openai::OpenAi;
use crate::model::reply::{Ear, ReplyStream};
use crate::model::responses::Responses;
use crate::model::retry::{self, Backoff};
use crate::model::{AssistantMessage, Broken, Listener, Provider, Reply, Request, Stop};
use crate::settings::llm::{Endpoint, Format};
use std::sync::Arc;
use std::time::Duration;

/// A whole reply, in bytes of its body.
const REPLY_LIMIT: usize = 64 << 20;
/// How long usage and `[DONE]` may follow the end of the reply itself.
const ENDING: Duration = Duration::from_secs(2);
/// The same where the end was announced before, and was none.
const LATER_ENDING: Duration = Duration::from_secs(30);

/// Talks any wire format.
pub(super) struct EndpointProvider {
    /// As the session was opened with it.
    configured: Endpoint,
    /// With the model and the thinking that were last asked for.
    endpoint: Endpoint,
    dialect: Box<dyn Dialect>,
    client: Client,
    backoff: Backoff,
}

/// The format an endpoint talks.
pub(super) fn dialect_of(endpoint: &Endpoint) -> Box<dyn Dialect> {
    match endpoint.format {
        Format::OpenAiCompletions => Box::new(OpenAi::new(endpoint)),
        Format::AnthropicMessages => Box::new(Anthropic::new(endpoint)),
        Format::OpenAiResponses => Box::new(Responses::new(endpoint)),
    }
}

impl EndpointProvider {
    /// Connects with the first call.
    pub(super) fn new(endpoint: &Endpoint, client: Client, backoff: Backoff) -> Self {
        let (configured, dialect) = (endpoint.clone(), dialect_of(endpoint));
        Self { endpoint: endpoint.clone(), configured, dialect, client, backoff }
    }

    /// What was learnt, was learnt of one model that thinks so much: for another it begins anew.
    fn turn_to(&mut self, request: &Request<'_>) {
        if self.endpoint.model != request.model || self.endpoint.thinking != request.thinking {
            self.endpoint = dialect::asked_for(&self.configured, request.model, request.thinking);
            self.dialect = dialect_of(&self.endpoint);
        }
    }

    /// One try: changes the request until the server takes it, then hears the reply.
    fn attempt(
        &mut self,
        request: &Request<'_>,
        cancel: &CancelToken,
        listener: &mut dyn Listener,
    ) -> Result<Reply, Ended> {
        let answer = self.answer(request, cancel).map_err(nothing_heard)?;
        hear(answer, self.dialect.reply(), Ear::new(listener, cancel))
    }

    /// The first answer with a good status.
    fn answer(&mut self, request: &Request<'_>, cancel: &CancelToken) -> Result<Response, Trouble> {
        loop {
            let response = self.client.post(&self.post(request), cancel)?;
            let (status, retry_after) = (response.status, response.retry_after);
            if (200..300).contains(&status) {
                return Ok(response);
            }
            let body = response.error_body()?;
            let mut complaint = Complaint::from_body(&body);
            if self.dialect.adapt(status, &complaint, request) {
                continue;
            }
            if complaint.refuses_tools() {
                complaint.words = format!(
                    "{} (Bob needs a model that can call tools; `{}` can't)",
                    complaint.words, request.model
                );
            }
            return Err(Trouble::Status { status, complaint, retry_after });
        }
    }

    fn post(&self, request: &Request<'_>) -> Post {
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.push(("accept", "text/event-stream, application/json".to_owned()));
        headers.extend(self.dialect.headers(self.endpoint.api_key.as_ref()));
        Post { url: self.dialect.url().to_owned(), headers, body: Arc::new(self.dialect.body(request)) }
    }
}

impl Provider for EndpointProvider {
    fn complete(
        &mut self,
        request: &Request<'_>,
        cancel: &CancelToken,
        listener: &mut dyn Listener,
    ) -> Result<Reply, Broken> {
        self.turn_to(request);
        let (backoff, key) = (self.backoff, self.endpoint.api_key.clone());
        let mut reply = retry::until_whole(backoff, key.as_ref(), cancel, listener, |listener| {
            self.attempt(request, cancel, listener)
        })?;
        if let (Stop::Unknown(reason), Some(key)) = (&mut reply.stop, &key) {
            *reason = key.masked_in(reason); // it is shown
        }
        Ok(reply)
    }
}

fn nothing_heard(trouble: Trouble) -> Ended {
    Ended { trouble, partial: AssistantMessage::default() }
}

/// Reads a reply to its end.
fn hear(mut response: Response, mut stream: ReplyStream, mut ear: Ear<'_>) -> Result<Reply, Ended> {
    let read = read_to_end(&mut response, &mut stream, &mut ear);
    let reply = match read {
        // However the connection ended, what counts is whether the reply had its own end mark.
        Ok(()) => stream.finish(&mut ear),
        Err(trouble @ (Trouble::Http(_) | Trouble::Damaged)) if stream.ends_told() > 0 => {
            stream.finish(&mut ear).map_err(|_| trouble)
        }
        Err(trouble) => Err(trouble),
    };
    if reply.is_ok() && stream.is_done() {
        response.finish();
    }
    reply.map_err(|trouble| Ended { trouble, partial: stream.partial() })
}

fn read_to_end(response: &mut Response, stream: &mut ReplyStream, ear: &mut Ear<'_>) -> Result<(), Trouble> {
    response.flush_before_waiting(ear.flusher());
    let mut buffer = vec![0; 16 << 10];
    let (mut received, mut ends_told) = (0, 0);
    while !stream.is_done() {
        let length = response.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        received += length;
        if received > REPLY_LIMIT {
            return Err(Trouble::TooLarge("64 MiB"));
        }
        stream.push(&buffer[..length], ear)?;
        if stream.went_on() {
            response.expect_more();
        } else if ends_told != stream.ends_told() {
            let limit = if ends_told == 0 { ENDING } else { LATER_ENDING };
            response.expect_end_within(limit);
        }
        ends_told = stream.ends_told();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
