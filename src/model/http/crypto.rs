//! What TLS is made of: ring's all but signing. No client certificates are sent, so nobody ever signs, and that half
//! of ring stays out of the binary.
use rustls::crypto::{CryptoProvider, KeyProvider, ring};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use std::sync::Arc;

/// For a client that shows no certificate of its own.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider { key_provider: &NoKeys, ..ring::default_provider() }
}

#[derive(Debug)]
struct NoKeys;

impl KeyProvider for NoKeys {
    fn load_private_key(&self, _: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, rustls::Error> {
        Err(rustls::Error::General("client certificates are not supported".to_owned()))
    }
}
