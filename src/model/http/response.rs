//! An answer: what its headers say, and its body, which is read bit by bit under limits that change on the way.
use super::address::plain_url;
use super::limit::ReadLimit;
use super::{Answer, HttpError, status_line};
use crate::cancel::{CancelToken, HookGuard};
use crate::model::Flusher;
use crate::settings::config::Net;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use ureq::BodyReader;
use ureq::http::header::{AsHeaderName, CONTENT_ENCODING, LOCATION, RETRY_AFTER};

/// The part of an error's body that is read, in bytes.
const ERROR_BODY_LIMIT: usize = 64 << 10;
/// How long the body of an error may take: its words are worth no longer wait.
const ERROR_BODY_TIME: Duration = Duration::from_secs(10);
/// How long the end of a body may take when all that matters has come.
const LAST_BYTES: Duration = Duration::from_millis(50);

/// An answer whose body is read bit by bit.
pub(in crate::model) struct Response {
    pub(in crate::model) status: u16,
    /// What it says about the time of the next try.
    pub(in crate::model) retry_after: Option<Duration>,
    /// Where it says that the thing is.
    pub(super) location: Option<String>,
    /// How the body is compressed, if it is: it can't be read then.
    compression: Option<String>,
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
    /// One whose headers have come. `hook` ends the connection when `cancel` fires.
    pub(super) fn new(
        answer: Answer,
        read_limit: Arc<ReadLimit>,
        net: &Net,
        cancel: CancelToken,
        hook: HookGuard,
    ) -> Self {
        Self {
            status: answer.status().as_u16(),
            retry_after: retry_after(&answer, SystemTime::now()),
            location: header(&answer, LOCATION).map(str::to_owned),
            compression: compression(&answer).map(str::to_owned),
            body: answer.into_body().into_reader(),
            read_limit,
            idle: net.idle,
            wait: net.first_byte,
            end: None,
            begun: false,
            cancel,
            _hook: hook,
        }
    }

    /// How a good answer is compressed, which nobody asked for and nobody here reads.
    pub(super) fn unasked_coding(&self) -> Option<&str> {
        self.compression.as_deref().filter(|_| (200..300).contains(&self.status))
    }

    /// It leads elsewhere.
    pub(super) fn is_redirect(&self) -> bool {
        (300..400).contains(&self.status)
    }

    /// Why a redirect is an error here, and what to do about it.
    pub(super) fn not_followed(&self, advice: &str) -> HttpError {
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
    pub(in crate::model) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, HttpError> {
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
            ureq::Error::Io(error) => HttpError::Broken(match error.kind() {
                io::ErrorKind::UnexpectedEof => "the connection ended before it was whole".into(),
                _ => error.to_string(),
            }),
            other => HttpError::Broken(other.to_string()),
        }
    }

    /// From now on `flusher` is called whenever what has come is used up and more has to be waited for.
    pub(in crate::model) fn flush_before_waiting(&self, flusher: Flusher) {
        self.read_limit.set_flusher(Some(flusher));
    }

    /// All that matters has come; what may still follow gets no longer than this, and the wait that this ends in.
    pub(in crate::model) fn expect_end_within(&mut self, limit: Duration) {
        self.wait = limit.min(self.idle);
        self.end = Instant::now().checked_add(self.wait);
    }

    /// It was not the end: what follows gets the time between two bytes.
    pub(in crate::model) fn expect_more(&mut self) {
        (self.wait, self.end) = (self.idle, None);
    }

    /// Reads what little may be left, so that the connection can be used again; else it is closed.
    pub(in crate::model) fn finish(mut self) {
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
    pub(in crate::model) fn error_body(mut self) -> Result<Vec<u8>, HttpError> {
        self.expect_end_within(ERROR_BODY_TIME);
        let mut body = Vec::new();
        match self.read_up_to(ERROR_BODY_LIMIT, &mut body) {
            Err(HttpError::Cancelled) => Err(HttpError::Cancelled),
            _ if self.compression.is_none() => Ok(body),
            _ => Ok(Vec::new()),
        }
    }

    /// The whole body; `None`: it is larger than `limit` bytes.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub(in crate::model) fn whole_body(mut self, limit: usize) -> Result<Option<Vec<u8>>, HttpError> {
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
