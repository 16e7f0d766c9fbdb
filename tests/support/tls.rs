//! TLS in front of the model server: authorities that a test makes, what they sign, and a relay that ends TLS.
use super::{HANG, listen_on, spawn};
use crossbeam_channel::{Receiver, Sender, unbounded};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// Who signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// How a server's certificate is.
#[derive(Clone, Copy, Debug)]
pub enum Flaw {
    /// Nothing is wrong with it.
    None,
    /// Its time is over.
    Expired,
    /// Its time is to come.
    NotYet,
    /// It is for `other.example`.
    OtherHost,
    /// It is for nobody: it has a common name and no other.
    NoHost,
}

impl Authority {
    /// A new one, of which nobody knows.
    pub fn new() -> Self {
        Self::named("An Authority")
    }

    /// One that calls itself so.
    pub fn named(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Its own certificate, as `net.caFile` holds it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// What a server on loopback needs for a certificate of this authority.
    pub fn signs(&self, flaw: Flaw) -> Arc<ServerConfig> {
        let hosts: &[&str] = match flaw {
            Flaw::OtherHost => &["other.example"],
            Flaw::NoHost => &[],
            _ => &["127.0.0.1", "::1"],
        };
        let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        match flaw {
            Flaw::Expired => params.not_after = date_time_ymd(2020, 2, 3),
            Flaw::NotYet => params.not_before = date_time_ymd(4000, 1, 1),
            Flaw::None | Flaw::OtherHost | Flaw::NoHost => {}
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        server_config(certificate.der().clone(), &key)
    }
}

/// What a server needs whose certificate is an authority's own, as `openssl req -x509` makes them.
/// Its PEM comes with it.
pub fn self_signed() -> (Arc<ServerConfig>, String) {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (server_config(certificate.der().clone(), &key), certificate.pem())
}

fn server_config(
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: &KeyPair,
) -> Arc<ServerConfig> {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Arc::new(config.unwrap())
}

/// Ends TLS and passes on to a server that speaks none.
pub struct TlsFront {
    address: SocketAddr,
    config: Arc<Mutex<Arc<ServerConfig>>>,
    closed: Receiver<()>,
}

impl TlsFront {
    /// In front of the server at `behind`.
    pub fn new(behind: SocketAddr, config: Arc<ServerConfig>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), behind, config)
    }

    /// The same, there.
    pub fn on(listener: TcpListener, behind: SocketAddr, config: Arc<ServerConfig>) -> Self {
        let config = Arc::new(Mutex::new(config));
        let current = config.clone();
        let (ended, closed) = unbounded();
        let address = listen_on(listener, "TLS", move |client| {
            let config = current.lock().unwrap().clone();
            if let Ok(server) = TcpStream::connect(behind) {
                relay(client, server, ServerConnection::new(config).unwrap(), ended.clone());
            }
        });
        Self { address, config, closed }
    }

    /// Waits until a connection is closed because the server behind closed it.
    #[track_caller]
    pub fn wait_closed(&self) {
        self.closed.recv_timeout(HANG).expect("no connection is closed");
    }

    /// What stands in `…_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("https://{}/v1", self.address)
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it shows from now on.
    pub fn present(&self, config: Arc<ServerConfig>) {
        *self.config.lock().unwrap() = config;
    }
}

/// One connection: this thread reads what the client says, another what the server says.
fn relay(client: TcpStream, server: TcpStream, tls: ServerConnection, ended: Sender<()>) {
    let tls = Arc::new(Mutex::new(tls));
    let (to_client, from_server, writing) =
        (client.try_clone().unwrap(), server.try_clone().unwrap(), tls.clone());
    spawn("TLS out", move || {
        let _ = outward(&writing, &to_client, &from_server); // the client is gone
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = ended.send(()); // the test may be over
    });
    let _ = inward(&tls, &client, &server); // it trusts us not, or is gone
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

type Shared = Arc<Mutex<ServerConnection>>;

fn inward(tls: &Shared, mut client: &TcpStream, mut server: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let length = client.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let (mut piece, mut clear) = (&buffer[..length], Vec::new());
        let mut tls = tls.lock().unwrap();
        while !piece.is_empty() {
            tls.read_tls(&mut piece)?;
            let state = tls.process_new_packets();
            flush(&mut tls, client)?;
            state.map_err(io::Error::other)?;
            let _ = tls.reader().read_to_end(&mut clear); // it ends in "no more yet"
        }
        drop(tls);
        server.write_all(&clear)?;
    }
}

fn outward(tls: &Shared, client: &TcpStream, mut server: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; 16 << 10];
    loop {
        let length = server.read(&mut buffer)?;
        let mut tls = tls.lock().unwrap();
        match length {
            0 => tls.send_close_notify(),
            _ => tls.writer().write_all(&buffer[..length])?,
        }
        flush(&mut tls, client)?;
        if length == 0 {
            return Ok(());
        }
    }
}

fn flush(tls: &mut MutexGuard<'_, ServerConnection>, mut client: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut client)?;
    }
    Ok(())
}
