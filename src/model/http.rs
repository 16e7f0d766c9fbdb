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
mod tls;
mod trust;

use crate::cancel::{CancelToken, HookGuard};
use crate::logging::carried;
use crate::model::{Flusher, proxy};
use crate::settings::Environment;
use crate::settings::config::Net;
use address::{is_https, origin, plain_url, redirected, same_origin};
use crossbeam_channel::{bounded, select};
use limit::{Limiting, ReadLimit};
use names::Names;
use refusal::{Route, refusal};
use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tls::Tls;
use trust::Trust;
use ureq::config::Config;
use ureq::http::StatusCode;
use ureq::http::header::{AsHeaderName, CONTENT_ENCODING, LOCATION, RETRY_AFTER};
// Not under semver: Cargo.toml pins the minor version.
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, TcpConnector};
use ureq::{Agent, BodyReader, Proxy, ProxyProtocol, RequestBuilder};

/// Response headers, in bytes.
const HEADERS_LIMIT: usize = 64 << 10;
/// The part of an error's body that is read, in bytes.
const ERROR_BODY_LIMIT: usize = 64 << 10;
/// How long the body of an error may take: its words are worth no longer wait.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);
/// How long the end of a body may take when all that matters has come.
const LAST_BYTES: Duration = Duration::from_millis(50);
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
        let config = Config::builder()
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
            .build();
        let read_limit = Arc::new(ReadLimit::new(self.net.first_byte));
        let to_host = ().chain(ConnectProxyConnector::default()).chain(TcpConnector::default());
        let connector = to_host.chain(Tls(tls)).chain(Limiting(read_limit.clone()));
        let agent = Agent::with_parts(config, connector, Names::default());
        let route = Arc::new(Route { proxy: named, extra });
        Ok(Line { agent, read_limit, shut: Arc::default(), route })
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
    let compressed = compression(&answer).map(str::to_owned);
    if let Some(coding) = compressed.as_ref().filter(|_| answer.status().is_success()) {
        let place = line.route.to(url);
        let what = format!("the answer of {place} is compressed ({coding}), though nobody asked for that");
        return Err(HttpError::Unusable(what));
    }
    Ok(Response {
        status: answer.status().as_u16(),
        retry_after: retry_after(&answer, SystemTime::now()),
        location: header(&answer, LOCATION).map(str::to_owned),
        readable: compressed.is_none(),
        body: answer.into_body().into_reader(),
        read_limit: line.read_limit.clone(),
        idle: net.idle,
        wait: net.first_byte,
        end: None,
        begun: false,
        cancel: cancel.clone(),
        _hook: hook,
    })
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

fn header(answer: &Answer, name: impl AsHeaderName) -> Option<&str> {
    answer.headers().get(name)?.to_str().ok()
}

/// How the body is compressed, if it is. Nothing here asks for that.
fn compression(answer: &Answer) -> Option<&str> {
    header(answer, CONTENT_ENCODING).filter(|coding| !["", "identity"].contains(coding))
}

/// `Retry-After` in seconds or as a date, `retry-after-ms` before it.
fn retry_after(answer: &Answer, now: SystemTime) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number >= 0.0);
    let duration = |seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if let Some(milliseconds) = header(answer, "retry-after-ms").and_then(number) {
        return Some(duration(milliseconds / 1000.0));
    }
    let value = header(answer, RETRY_AFTER)?;
    if let Some(seconds) = number(value) {
        return Some(duration(seconds));
    }
    let date = httpdate::parse_http_date(value.trim()).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// An answer whose body is read bit by bit.
pub(super) struct Response {
    pub(super) status: u16,
    /// What it says about the time of the next try.
    pub(super) retry_after: Option<Duration>,
    /// Where it says that the thing is.
    location: Option<String>,
    /// Its body is not compressed.
    readable: bool,
    body: BodyReader<'static>,
    read_limit: Arc<ReadLimit>,
    idle: Duration,
    /// How long the next byte of the body may take. What is no part of it (chunks' sizes, trailers) does not count.
    wait: Duration,
    /// When all of it has to be over.
    end: Option<Instant>,
    /// A byte of the body has come.
    begun: bool,
    cancel: CancelToken,
    _hook: HookGuard,
}

impl Response {
    fn is_redirect(&self) -> bool {
        (300..400).contains(&self.status)
    }

    fn not_followed(&self, advice: &str) -> HttpError {
        let target = self.location.as_deref().map_or("nowhere".into(), plain_url);
        let status = status_line(self.status);
        HttpError::Unusable(format!(
            "{status}: the endpoint redirects to {target}, which is not followed; {advice}"
        ))
    }

    /// Waits for more of the body; 0 is its end. After a cancel it is never 0.
    ///
    /// # Errors
    /// [`HttpError::Cancelled`]; [`HttpError::Silence`] or, before its first byte, [`HttpError::NoAnswer`];
    /// [`HttpError::Broken`].
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, HttpError> {
        let deadline = self.end.or_else(|| Instant::now().checked_add(self.wait));
        self.read_limit.set(self.wait, deadline);
        let result = self.body.read(buffer);
        if self.cancel.is_cancelled() {
            return Err(HttpError::Cancelled);
        }
        let length = result.map_err(|error| self.broken(error))?;
        if !std::mem::replace(&mut self.begun, true) {
            self.wait = self.wait.min(self.idle);
        }
        Ok(length)
    }

    fn broken(&self, error: io::Error) -> HttpError {
        match ureq::Error::from(error) {
            ureq::Error::Timeout(ureq::Timeout::Global) => {
                HttpError::Broken("it was not whole in time".into())
            }
            ureq::Error::Timeout(_) if self.begun => HttpError::Silence(self.wait),
            ureq::Error::Timeout(_) => {
                HttpError::NoAnswer(format!("nothing came within {} s", self.wait.as_secs()))
            }
            other => HttpError::Broken(other.to_string()),
        }
    }

    /// From now on `flusher` is called whenever what has come is used up and more has to be waited for.
    pub(super) fn flush_before_waiting(&self, flusher: Flusher) {
        self.read_limit.set_flusher(Some(flusher));
    }

    /// All that matters has come; what may still follow gets no longer than this, and the wait that this ends in.
    pub(super) fn expect_end_within(&mut self, limit: Duration) {
        self.wait = limit.min(self.idle);
        self.end = Instant::now().checked_add(self.wait);
    }

    /// It was not the end: what follows gets the time between two bytes.
    pub(super) fn expect_more(&mut self) {
        (self.wait, self.end) = (self.idle, None);
    }

    /// Reads what little may be left, so that the connection can be used again; else it is closed.
    pub(super) fn finish(mut self) {
        self.expect_end_within(LAST_BYTES);
        let mut rest = [0; 1024];
        for _ in 0..16 {
            if !matches!(self.read(&mut rest), Ok(1..)) {
                return;
            }
        }
    }

    /// The beginning of the body of an error; where it breaks off, what came; nothing of a compressed one.
    ///
    /// # Errors
    /// [`HttpError::Cancelled`].
    pub(super) fn error_body(mut self) -> Result<Vec<u8>, HttpError> {
        self.expect_end_within(ERROR_BODY_TIME);
        let mut body = Vec::new();
        match self.read_up_to(ERROR_BODY_LIMIT, &mut body) {
            Err(HttpError::Cancelled) => Err(HttpError::Cancelled),
            _ if self.readable => Ok(body),
            _ => Ok(Vec::new()),
        }
    }

    /// The whole body; `None`: it is larger than `limit` bytes.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub(super) fn whole_body(mut self, limit: usize) -> Result<Option<Vec<u8>>, HttpError> {
        let mut body = Vec::new();
        self.read_up_to(limit + 1, &mut body)?;
        Ok((body.len() <= limit).then_some(body))
    }

    fn read_up_to(&mut self, limit: usize, body: &mut Vec<u8>) -> Result<(), HttpError> {
        let mut buffer = [0; 8192];
        while body.len() < limit {
            let room = buffer.len().min(limit - body.len());
            match self.read(&mut buffer[..room])? {
                0 => break,
                length => body.extend_from_slice(&buffer[..length]),
            }
        }
        Ok(())
    }
}
