//! Why there is no response, in words for the user.
use super::{HEADERS_LIMIT, HttpError, address::origin, is_retried, status_line, trust};
use crate::cancel::CancelToken;
use crate::settings::config::Net;
use std::io;
use ureq::http::Uri;

/// What stands between Bob and a server, in words.
pub(super) struct Route {
    /// The proxy, with the variable that names it.
    pub(super) proxy: Option<String>,
    /// As `Trust::extra`.
    pub(super) extra: String,
}

impl Route {
    /// The server at `url`, with the way to it.
    pub(super) fn to(&self, url: &str) -> String {
        match &self.proxy {
            Some(proxy) => format!("{} through the proxy {proxy}", origin(url)),
            None => origin(url),
        }
    }
}

/// What `error` says of a call of `url`.
pub(super) fn refusal(
    error: ureq::Error,
    url: &str,
    route: &Route,
    net: &Net,
    cancel: &CancelToken,
) -> HttpError {
    use ureq::{Error, Timeout};
    if cancel.is_cancelled() {
        return HttpError::Cancelled;
    }
    let place = route.to(url);
    let no_answer = HttpError::NoAnswer;
    match error {
        Error::Io(error) => broken_off(&error, &place, &route.extra),
        Error::Protocol(error) => {
            HttpError::Unusable(format!("{place} does not answer as HTTP has it: {error}"))
        }
        Error::HostNotFound => no_answer(format!("no answer from {place}: there is no such host")),
        Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            no_answer(format!("no connection to {place} within {} s", net.connect.as_secs()))
        }
        Error::Timeout(_) => {
            no_answer(format!("no answer from {place} within {} s", net.first_byte.as_secs()))
        }
        Error::ConnectProxyFailed(why) => proxy_refused(&why, &place),
        Error::Http(_) if url.parse::<Uri>().is_ok() => {
            HttpError::Unusable("the API key holds characters that no HTTP header can carry".into())
        }
        // Not shown: where a URL can't be taken apart, nobody knows where its password is.
        Error::BadUri(_) | Error::Http(_) => {
            HttpError::Unusable("the base URL is no address that can be called".into())
        }
        Error::LargeResponseHeader(..) => HttpError::Unusable(format!(
            "{place} answers with more than {} KiB of headers",
            HEADERS_LIMIT >> 10
        )),
        other => no_answer(format!("no answer from {place}: {other}")),
    }
}

/// The connection broke, or TLS did not come about. Whom TLS does not trust, or who does not speak it, is not asked again.
fn broken_off(error: &io::Error, place: &str, extra: &str) -> HttpError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(error)) => HttpError::Unusable(format!(
            "no secure connection to {place}: {}",
            trust::complaint(error, extra)
        )),
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            HttpError::Unusable(format!(
                "no secure connection to {place}: the server does not speak TLS; is this an http address?"
            ))
        }
        Some(error) => HttpError::NoAnswer(format!("no secure connection to {place}: {error}")),
        None => HttpError::NoAnswer(format!("no answer from {place}: {error}")),
    }
}

/// A proxy lets nothing through. `why` are ureq's words: "proxy server responded 407/407".
fn proxy_refused(why: &str, place: &str) -> HttpError {
    let Some(status) = why.rsplit('/').next().and_then(|status| status.parse().ok()) else {
        return HttpError::NoAnswer(format!("no answer from {place}: {why}"));
    };
    let said = format!("no connection to {place}, which says {}", status_line(status));
    match status {
        407 => HttpError::Unusable(format!(
            "{said}; it wants a user name and password (http://NAME:PASSWORD@HOST)"
        )),
        _ if is_retried(status) => HttpError::NoAnswer(said),
        _ => HttpError::Unusable(format!("{said}; hosts that need no proxy belong in NO_PROXY")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

    #[test]
    fn of_tls_only_what_may_pass_is_tried_again() {
        let corrupt = InvalidMessage::InvalidContentType;
        for (error, passing) in [
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), false),
            (Error::InvalidMessage(corrupt), false),
            (Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon), true),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), true),
        ] {
            let told = broken_off(&io::Error::new(io::ErrorKind::InvalidData, error), "https://h", "");
            assert_eq!(matches!(told, HttpError::NoAnswer(_)), passing, "{told}");
        }
    }

    #[test]
    fn of_a_proxys_refusals_only_what_may_pass_is_tried_again() {
        for (why, passing, words) in [
            (
                "proxy server responded 407/407",
                false,
                "which says 407 Proxy Authentication Required; it wants",
            ),
            ("proxy server responded 403/403", false, "which says 403 Forbidden; hosts that"),
            ("proxy server responded 503/503", true, "which says 503 Service Unavailable"),
            ("proxy server did not respond", true, "no answer from P: proxy server did not respond"),
        ] {
            let told = proxy_refused(why, "P");
            assert_eq!(matches!(told, HttpError::NoAnswer(_)), passing, "{told}");
            assert!(told.to_string().contains(words), "{told}");
        }
    }
}
