//! Whose signatures count: the built-in certificates and the user's own. And what is wrong with a server's.
use super::{HttpError, crypto};
use crate::settings::Environment;
use crate::settings::config::Net;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{ALL_VERSIONS, CertificateError, ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Whom TLS trusts.
pub(super) struct Trust {
    pub(super) tls: Arc<ClientConfig>,
    /// The settings that name certificates of the user's, with their files; in words, empty if there are none.
    pub(super) extra: String,
}

impl Trust {
    /// The built-in certificates, and those of `files`: each with the setting that names it.
    ///
    /// # Errors
    /// [`HttpError::Unusable`]: a file can't be read, or holds no certificate.
    pub(super) fn read(files: &[(&'static str, PathBuf)]) -> Result<Self, HttpError> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        for (setting, path) in files {
            add(&mut roots, path).map_err(|why| {
                HttpError::Unusable(format!("{setting}: {why}; it has to name a file of PEM certificates"))
            })?;
        }
        let tls = ClientConfig::builder_with_provider(Arc::new(crypto::provider()))
            .with_protocol_versions(ALL_VERSIONS)
            .expect("ring knows all versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let extra: Vec<_> =
            files.iter().map(|(setting, path)| format!("{setting} (`{}`)", path.display())).collect();
        Ok(Self { tls: Arc::new(tls), extra: extra.join(" and ") })
    }
}

/// The files of certificates that the user names.
pub(super) fn extra_files(net: &Net, environment: &Environment) -> Vec<(&'static str, PathBuf)> {
    let configured = net.ca_file.as_ref().map(|path| ("net.caFile", path.clone()));
    let inherited = environment.get("SSL_CERT_FILE").map(|path| ("SSL_CERT_FILE", path.into()));
    configured.into_iter().chain(inherited).collect()
}

/// Adds the certificates of a file. Of many in it some may be of a form that nobody reads any more.
fn add(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let shown = path.display();
    let pem = std::fs::read(path).map_err(|error| format!("failed to read `{shown}`: {error}"))?;
    let certificates: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let certificates = certificates.map_err(|error| format!("failed to read `{shown}`: {error}"))?;
    match roots.add_parsable_certificates(certificates) {
        (0, 0) => Err(format!("there is no certificate in `{shown}`")),
        (0, _) => Err(format!("there is no certificate in `{shown}` that can be read")),
        _ => Ok(()),
    }
}

/// What is wrong with the certificate that a server showed, as the rest of a sentence, and what to do about it.
/// `extra` as [`Trust::extra`].
pub(super) fn complaint(error: &CertificateError, extra: &str) -> String {
    use CertificateError::{BadSignature, UnknownIssuer};
    match error {
        // A bad signature is how another CA of the same name shows, as after a CA was renewed.
        UnknownIssuer | BadSignature if extra.is_empty() => {
            "no CA that Bob trusts has signed the server's certificate; the certificate of a private CA belongs in \
             net.caFile (config.json) or SSL_CERT_FILE"
                .into()
        }
        UnknownIssuer | BadSignature => format!(
            "no CA that Bob trusts has signed the server's certificate, nor has one in {extra}; is it another CA, or \
             does the server leave out certificates in between?"
        ),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the server's certificate expired at {}; is the clock right?", moment(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("the server's certificate begins at {}; is the clock right?", moment(*not_before))
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "the server's certificate names no host (subjectAltName); a common name does not count".into()
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            format!("the server's certificate is not for this host, but for {}", presented.join(", "))
        }
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            "the server shows the certificate of a CA itself; it needs one of its own, signed by that CA".into()
        }
        other => format!("the server's certificate can't be used: {other}"),
    }
}

fn moment(time: UnixTime) -> String {
    // Past the year 9999 there is no such text.
    let seconds = time.as_secs().min(253_402_300_799);
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file(content: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content.as_bytes()).unwrap();
        file
    }

    fn certificate() -> String {
        rcgen::generate_simple_self_signed([]).unwrap().cert.pem()
    }

    #[test]
    fn the_built_in_certificates_hold_beside_the_users() {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let built_in = roots.len();
        assert!(built_in > 50, "{built_in}");
        add(&mut roots, file(&format!("# ours\n{}\n{}", certificate(), certificate())).path()).unwrap();
        assert_eq!(roots.len(), built_in + 2);
    }

    #[test]
    fn one_good_certificate_among_others_is_enough() {
        let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        add(&mut RootCertStore::empty(), file(&format!("{odd}{}", certificate())).path()).unwrap();
        let why = add(&mut RootCertStore::empty(), file(odd).path()).unwrap_err();
        assert!(why.contains("that can be read"), "{why}");
    }

    #[test]
    fn a_time_past_all_calendars_is_told() {
        let year_one_million = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
        assert_eq!(moment(year_one_million), "9999-12-31T23:59:59Z");
    }
}
