//! Why there is no response, in words for the user.
use super::{HEADERS_LIMIT, HttpError, address::origin};
use crate::cancel::CancelToken;
use crate::settings::config::Net;
use std::io;
use ureq::http::Uri;

/// It, and whether other certificates may help.
pub(super) enum Refusal {
    /// TLS does not trust the server.
    Certificate(HttpError),
    Other(HttpError),
}

impl Refusal {
    /// It, in words.
    pub(super) fn into_error(self) -> HttpError {
        let (Self::Certificate(error) | Self::Other(error)) = self;
        error
    }
}

/// What `error` says of a call of `url`.
pub(super) fn refusal(error: ureq::Error, url: &str, net: &Net, cancel: &CancelToken) -> Refusal {
    use ureq::{Error, Timeout};
    if cancel.is_cancelled() {
        return Refusal::Other(HttpError::Cancelled);
    }
    let place = origin(url);
    let no_answer = |what: String| HttpError::NoAnswer(what);
    Refusal::Other(match error {
        Error::Io(error) => return broken_off(&error, &place),
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
        Error::ConnectProxyFailed(why) => {
            no_answer(format!("the proxy gives no connection to {place}: {why}"))
        }
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
    })
}

/// The connection broke, or TLS did not come about. Whom TLS does not trust, or who does not speak it, is not asked again.
fn broken_off(error: &io::Error, place: &str) -> Refusal {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(_)) => Refusal::Certificate(HttpError::Unusable(format!(
            "no secure connection to {place}: {error} (a private CA belongs in net.caFile)"
        ))),
        Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => {
            Refusal::Other(HttpError::Unusable(format!(
                "no secure connection to {place}: the server does not speak TLS; is this an http address?"
            )))
        }
        _ => Refusal::Other(HttpError::NoAnswer(format!("no answer from {place}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

    #[test]
    fn of_tls_only_what_may_pass_is_tried_again() {
        let corrupt = InvalidMessage::InvalidContentType;
        for (error, certificate, passing) in [
            (Error::InvalidCertificate(CertificateError::UnknownIssuer), true, false),
            (Error::InvalidMessage(corrupt), false, false),
            (Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon), false, true),
            (Error::AlertReceived(AlertDescription::HandshakeFailure), false, true),
        ] {
            let refusal = broken_off(&io::Error::new(io::ErrorKind::InvalidData, error.clone()), "https://h");
            assert_eq!(matches!(refusal, Refusal::Certificate(_)), certificate, "{error:?}");
            let told = refusal.into_error();
            assert_eq!(matches!(told, HttpError::NoAnswer(_)), passing, "{told}");
        }
    }
}
