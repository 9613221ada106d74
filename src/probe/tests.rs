//! Whole probes against scripted proxies on loopback: real sockets, real TLS, every byte chosen.

mod answering;
mod connecting;
mod fetching;
mod timing;

use super::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        self,
        crypto::CryptoProvider,
        pki_types::PrivateKeyDer,
        server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
    },
    server::TlsStream,
};

/// Long enough that only a hang reaches it.
const AMPLE: Duration = Duration::from_secs(30);

/// The host of every https URL here; it exists only in certificates.
const TARGET: &str = "target.test";

/// What a usual proxy says.
const OPEN: &str = "HTTP/1.1 200 Connection established\r\n\r\n";

/// A probe that trusts a CA of its own, and a target with a certificate of that CA.
struct World {
    probe: NetProbe,
    target: TlsAcceptor,
}

fn world() -> World {
    world_with(|issuer| acceptor(issuer, TARGET))
}

/// One whose CA certifies whatever target that is.
fn world_with(target: impl FnOnce(&Issuer<'_, KeyPair>) -> TlsAcceptor) -> World {
    let (ca_pem, issuer) = authority();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, ca_pem).expect("written");
    World {
        probe: NetProbe::new(Some(&file)).expect("a probe"),
        target: target(&issuer),
    }
}

/// A new CA: its certificate as PEM, and what signs with it.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let pem = params.self_signed(&key).expect("a certificate").pem();
    (pem, Issuer::new(params, key))
}

fn acceptor(issuer: &Issuer<'_, KeyPair>, name: &str) -> TlsAcceptor {
    accepting(issuer, name, Arc::new(NoClientAuth))
}

fn acceptor_that_wants_certificates(issuer: &Issuer<'_, KeyPair>) -> TlsAcceptor {
    let mut roots = rustls::RootCertStore::empty();
    let root = CertificateParams::default().self_signed(issuer.key());
    roots
        .add(root.expect("a certificate").der().clone())
        .expect("a root");
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
    accepting(issuer, TARGET, verifier.build().expect("a verifier"))
}

fn accepting(
    issuer: &Issuer<'_, KeyPair>,
    name: &str,
    clients: Arc<dyn ClientCertVerifier>,
) -> TlsAcceptor {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, issuer).expect("a certificate");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a pair");
    TlsAcceptor::from(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Listens on loopback and does `script` with every connection.
async fn proxy<F, S>(script: F) -> SocketAddr
where
    F: Fn(TcpStream) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    proxy_on(Ipv4Addr::LOCALHOST.into(), script).await
}

async fn proxy_on<F, S>(ip: IpAddr, script: F) -> SocketAddr
where
    F: Fn(TcpStream) -> S + Send + 'static,
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((ip, 0)).await.expect("listens");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("a socket");
            tokio::spawn(script(stream));
        }
    });
    address
}

/// Reads the head of a request; less when the other side hangs up.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).expect("text")
}

/// Opens a tunnel as a usual proxy does, and is the target behind it.
async fn open_tunnel(mut stream: TcpStream, target: &TlsAcceptor) -> TlsStream<TcpStream> {
    head(&mut stream).await;
    stream.write_all(OPEN.as_bytes()).await.expect("sent");
    target.accept(stream).await.expect("a handshake")
}

/// Answers a request in the tunnel with `answer`, and hangs up as TLS wants it.
async fn answer(mut session: TlsStream<TcpStream>, answer: &[u8]) {
    head(&mut session).await;
    // A probe that has seen enough hangs up first.
    session.write_all(answer).await.ok();
    session.shutdown().await.ok();
}

/// Waits until the other side hangs up.
async fn hang(mut stream: impl AsyncRead + Unpin) {
    tokio::io::copy(&mut stream, &mut tokio::io::sink())
        .await
        .ok();
}

/// A fetch of the https target that expects 204.
fn through(proxy: SocketAddr) -> Fetch {
    Fetch {
        host: proxy.ip().to_string().into(),
        port: proxy.port(),
        url: format!("https://{TARGET}/check").into(),
        expected_status: 204,
        timeout: AMPLE,
    }
}

fn of(url: &str, fetch: Fetch) -> Fetch {
    let url = url.into();
    Fetch { url, ..fetch }
}

fn expecting(expected_status: u16, fetch: Fetch) -> Fetch {
    Fetch {
        expected_status,
        ..fetch
    }
}

#[track_caller]
fn assert_failed(outcome: &Outcome, kind: FailureKind, words: &str) {
    let failure = outcome.as_ref().expect_err("a failure");
    assert_eq!(failure.kind, kind, "{failure}");
    assert!(failure.message.contains(words), "{failure}: no {words:?}");
}
