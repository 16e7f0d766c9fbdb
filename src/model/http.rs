//! HTTP with a way to cancel it; only this file and those below it know `ureq`.
//!
//! Name resolution and connect can't be interrupted, sockets can (`Agent::shutdown`). So everything up to the
//! response's headers happens on a short-lived helper thread, which the caller leaves behind when it is
//! cancelled; the body is read by the caller itself. A cancelled request is not sent: an agent that was shut
//! down refuses the connection which the helper has just made.
mod address;
mod crypto;
mod limit;
mod names;
mod refusal;
mod response;
mod tls;
mod trust;

pub(super) use response::Response;

use crate::cancel::CancelToken;
use crate::logging::carried;
use crate::model::proxy;
use crate::settings::Environment;
use crate::settings::config::Net;
use address::{is_https, origin, plain_url, redirected, same_origin};
use crossbeam_channel::{bounded, select};
use limit::{Limiting, ReadLimit};
use names::Names;
use refusal::{Route, refusal};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use tls::Tls;
use trust::Trust;
use ureq::config::Config;
use ureq::http::StatusCode;
// Not under semver: Cargo.toml pins the minor version.
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, TcpConnector};
use ureq::{Agent, Proxy, ProxyProtocol, RequestBuilder};

/// Response headers, in bytes.
const HEADERS_LIMIT: usize = 64 << 10;
/// Redirects of a GET that are followed.
const REDIRECTS: usize = 5;

/// The status' standard words; empty for one that has none.
fn reason(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or_default()
}

/// Whether a try that was answered with `status` is worth another.
pub(super) fn is_retried(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529)
}

/// `502 Bad Gateway`.
pub(super) fn status_line(status: u16) -> String {
    format!("{status} {}", reason(status)).trim_end().to_owned()
}

/// An exchange that came to no end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HttpError {
    /// The token was cancelled.
    Cancelled,
    /// No answer: not resolved, not connected, refused by TLS, reset, or nothing within the limit.
    NoAnswer(String),
    /// Nothing came for so long in the middle of an answer.
    Silence(Duration),
    /// The connection broke in the middle of an answer.
    Broken(String),
    /// The request can't be made, or must not be answered like this: the user has to change something.
    Unusable(String),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("cancelled"),
            Self::NoAnswer(what) | Self::Unusable(what) => f.write_str(what),
            Self::Silence(limit) => {
                write!(f, "the model fell silent: nothing came for {} s", limit.as_secs())
            }
            Self::Broken(what) => write!(f, "the reply was cut off: {what}"),
        }
    }
}

/// Makes the requests of one session. Connections are kept alive between them.
pub(super) struct Client {
    net: Net,
    environment: Environment,
    /// Made with the first request.
    line: Option<Line>,
}

/// An agent with what belongs to it. After a shutdown it is of no more use.
#[derive(Clone)]
struct Line {
    agent: Agent,
    read_limit: Arc<ReadLimit>,
    shut: Arc<AtomicBool>,
    route: Arc<Route>,
}

/// What is sent.
pub(super) struct Post {
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Arc<Vec<u8>>,
}

/// What is asked for.
pub(super) struct Get {
    pub(super) url: String,
    pub(super) headers: Vec<(&'static str, String)>,
    /// Headers for the origin of `url` alone: a redirect to another one goes without.
    pub(super) credentials: Vec<(&'static str, String)>,
    /// For all of it, from the first request to the last byte.
    pub(super) within: Duration,
}

impl Client {
    /// Opens nothing and reads nothing yet.
    pub(super) fn new(net: &Net, environment: &Environment) -> Self {
        Self { net: net.clone(), environment: environment.clone(), line: None }
    }

    /// Sends `post` and waits for the answer's headers, whatever its status.
    ///
    /// # Errors
    /// Any [`HttpError`] but those of a body. A redirect is [`HttpError::Unusable`]: it would send the conversation,
    /// and maybe the key, to somebody else.
    pub(super) fn post(&mut self, post: &Post, cancel: &CancelToken) -> Result<Response, HttpError> {
        let call = |agent: &Agent| {
            let (request, body) = (with_headers(agent.post(&post.url), &post.headers), post.body.clone());
            move || request.send(body.as_slice())
        };
        log::debug!("model: POST {}, {} bytes", plain_url(&post.url), post.body.len());
        let answer = self.exchange(&post.url, call, None, cancel)?;
        if answer.is_redirect() { Err(answer.not_followed("correct the base URL")) } else { Ok(answer) }
    }

    /// Asks for `get`, follows redirects, and waits for the headers of the last answer, whatever its status.
    ///
    /// # Errors
    /// Any [`HttpError`] but those of a body. A redirect that leads nowhere, or too many of them, is
    /// [`HttpError::Unusable`].
    pub(super) fn get(&mut self, get: &Get, cancel: &CancelToken) -> Result<Response, HttpError> {
        let (begun, mut url) = (Instant::now(), get.url.clone());
        for _ in 0..=REDIRECTS {
            let is_home = same_origin(&url, &get.url);
            if !is_home {
                self.line = None; // another host may have another proxy
            }
            let left = get.within.saturating_sub(begun.elapsed());
            let call = |agent: &Agent| {
                let request = agent.get(&url).config().timeout_global(Some(left)).build();
                let request = with_headers(request, &get.headers);
                let request = if is_home { with_headers(request, &get.credentials) } else { request };
                move || request.call()
            };
            log::debug!("model: GET {}", plain_url(&url));
            let answer = self.exchange(&url, call, Some(get.within), cancel)?;
            if !is_home {
                self.line = None;
            }
            if !answer.is_redirect() {
                return Ok(answer);
            }
            let Some(next) = answer.location.as_ref().and_then(|to| redirected(&url, to)) else {
                return Err(answer.not_followed("check the base URL"));
            };
            url = next;
        }
        Err(HttpError::Unusable(format!("{} redirects in circles; check the base URL", origin(&get.url))))
    }

    /// One request and the headers of its answer.
    fn exchange<F>(
        &mut self,
        url: &str,
        call: impl Fn(&Agent) -> F,
        within: Option<Duration>,
        cancel: &CancelToken,
    ) -> Result<Response, HttpError>
    where
        F: FnOnce() -> Result<Answer, ureq::Error> + Send + 'static,
    {
        let line = self.line(url)?;
        let first_byte = within.map_or(self.net.first_byte, |within| within.min(self.net.first_byte));
        let net = Net { first_byte, ..self.net.clone() };
        let answer = exchange(&line, url, call(&line.agent), cancel, &net);
        if matches!(answer, Err(HttpError::Unusable(_))) {
            self.line = None; // what the user mends counts with the next call
        }
        answer
    }

    fn line(&mut self, url: &str) -> Result<Line, HttpError> {
        match &self.line {
            Some(line) if !line.shut.load(Relaxed) => Ok(line.clone()),
            _ => Ok(self.line.insert(self.new_line(url)?).clone()),
        }
    }

    fn new_line(&self, url: &str) -> Result<Line, HttpError> {
        let proxy = proxy_for(url, &self.environment)?;
        // Who needs no TLS has no trouble with a file that can't be read: the variable may be meant for others.
        let proxy_speaks_tls =
            proxy.as_ref().is_some_and(|(proxy, _)| proxy.protocol() == ProxyProtocol::Https);
        let needs_tls = is_https(url) || proxy_speaks_tls;
        let files = if needs_tls { trust::extra_files(&self.net, &self.environment) } else { Vec::new() };
        let Trust { tls, extra } = Trust::read(&files)?;
        let (proxy, named) = proxy.unzip();
        let read_limit = Arc::new(ReadLimit::new(self.net.first_byte));
        let to_host = ().chain(ConnectProxyConnector::default()).chain(TcpConnector::default());
        let connector = to_host.chain(Tls(tls)).chain(Limiting(read_limit.clone()));
        let agent = Agent::with_parts(self.config(proxy), connector, Names::default());
        let route = Arc::new(Route { proxy: named, extra });
        Ok(Line { agent, read_limit, shut: Arc::default(), route })
    }

    fn config(&self, proxy: Option<Proxy>) -> Config {
        Config::builder()
            .http_status_as_error(false)
            .user_agent(concat!("bob/", env!("CARGO_PKG_VERSION")))
            .proxy(proxy)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_response_header_size(HEADERS_LIMIT)
            .timeout_resolve(Some(self.net.connect))
            .timeout_connect(Some(self.net.connect))
            .timeout_recv_response(Some(self.net.first_byte))
            .timeout_per_write(Some(self.net.idle))
            .build()
    }
}

/// The proxy on the way to `url`, and how to call it: without its password.
fn proxy_for(url: &str, environment: &Environment) -> Result<Option<(Proxy, String)>, HttpError> {
    let Some(named) = proxy::for_origin(&origin(url), environment) else { return Ok(None) };
    let unusable = |why: &str| HttpError::Unusable(format!("{} {why}", named.variable));
    // ureq panics on a SOCKS proxy that it was not built for.
    if named.address.to_ascii_lowercase().starts_with("socks") {
        return Err(unusable("names a SOCKS proxy, which is not supported"));
    }
    let proxy = Proxy::new(named.address).map_err(|_| unusable("holds no address of a proxy"))?;
    let shown = format!("{}:{} ({})", proxy.host(), proxy.port(), named.variable);
    Ok(Some((proxy, shown)))
}

fn exchange(
    line: &Line,
    url: &str,
    call: impl FnOnce() -> Result<Answer, ureq::Error> + Send + 'static,
    cancel: &CancelToken,
    net: &Net,
) -> Result<Response, HttpError> {
    cancel.check().map_err(|_| HttpError::Cancelled)?;
    line.read_limit.set(net.first_byte, None);
    line.read_limit.set_flusher(None); // the last answer's listener is gone
    let (agent, shut) = (line.agent.clone(), line.shut.clone());
    let hook = cancel.on_cancel(move || {
        shut.store(true, Relaxed);
        agent.shutdown();
    });
    let sent = Instant::now();
    let answer = on_helper(call, cancel).map_err(|error| refusal(error, url, &line.route, net, cancel))?;
    log::debug!("model: answer {} after {:.1?}", answer.status().as_u16(), sent.elapsed());
    if cancel.is_cancelled() {
        return Err(HttpError::Cancelled);
    }
    let response = Response::new(answer, line.read_limit.clone(), net, cancel.clone(), hook);
    match response.unasked_coding() {
        Some(coding) => Err(HttpError::Unusable(format!(
            "the answer of {} is compressed ({coding}), though nobody asked for that",
            line.route.to(url)
        ))),
        None => Ok(response),
    }
}

type Answer = ureq::http::Response<ureq::Body>;

fn with_headers<B>(request: RequestBuilder<B>, headers: &[(&'static str, String)]) -> RequestBuilder<B> {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, value))
}

/// Resolves, connects, sends and waits for the headers, on a helper thread. If it is cancelled meanwhile the
/// helper is left to its limits.
fn on_helper(
    call: impl FnOnce() -> Result<Answer, ureq::Error> + Send + 'static,
    cancel: &CancelToken,
) -> Result<Answer, ureq::Error> {
    let (sender, answer) = bounded(1);
    thread::Builder::new().name("connect".into()).spawn(carried(move || drop(sender.send(call()))))?;
    select! {
        recv(answer) -> answer => answer.unwrap_or_else(|_| Err(io::Error::other("the helper died").into())),
        recv(cancel.fired()) -> _ => Err(io::Error::from(io::ErrorKind::Interrupted).into()),
    }
}
