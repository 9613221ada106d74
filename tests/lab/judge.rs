//! The judge: the server that probes fetch, so that a test knows what really came through a proxy.
//!
//! One value is four listeners with the same answers: HTTPS, plain HTTP, HTTPS with a certificate of
//! a CA that nobody trusts, and HTTPS with a certificate for another name. It makes its CA itself
//! and counts what it is asked by path and peer address.
//!
//! | path | answer |
//! |---|---|
//! | `/`, `/generate_204` | 204 |
//! | `/ip` | 200, the address that the request came from |
//! | `/status/N` | N |
//! | `/delay/MS` | 204 after MS milliseconds |
//! | `/cut` | the head and a part of the body, then the connection is closed |
//! | `/cut/early` | the connection is closed without an answer |
//! | `/large`, `/large/MIB` | 200 and 8 MiB, or MIB of them |
//! | `/redirect` | 302 to `/generate_204` |
//! | `/counts` | 200, the counts as JSON (`{path: {address: count}}`) |
//! | `PUT /divert/PATH`, `DELETE …` | from now on PATH is answered as the path in the body would be |
//!
//! What follows after a known path (`/generate_204/eu-1`) is ignored but counted apart, so that
//! tests that share a judge can tell their requests apart.
//!
//! Needs nothing of the program: it serves the tests, the benchmarks and, as an example, the demo.

// By path, so that this file can be a module of a test binary and of the example alike.
#[path = "judge/answer.rs"]
pub mod answer;
#[path = "judge/certificates.rs"]
mod certificates;

use answer::{Body, answer, empty, text};
use anyhow::Context as _;
use certificates::{acceptor, authority};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

/// Connections that may wait to be accepted; a load test opens thousands at once.
const BACKLOG: u32 = 4096;
/// How long a peer may take for its TLS handshake, so that silent ones do not pile up.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Where a judge listens and which names its certificate is for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address of all four listeners.
    pub address: IpAddr,
    /// Port of the HTTPS listener; 0 takes a free one, here and below.
    pub https_port: u16,
    /// Port of the plain HTTP listener.
    pub http_port: u16,
    /// Port of the listener whose certificate comes from another CA.
    pub untrusted_port: u16,
    /// Port of the listener whose certificate is for another name.
    pub misnamed_port: u16,
    /// Host names of the certificate, beside the lab's addresses, loopback and `localhost`.
    pub names: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            https_port: 0,
            http_port: 0,
            untrusted_port: 0,
            misnamed_port: 0,
            names: Vec::new(),
        }
    }
}

/// A running judge. Dropping it closes its listeners and every connection.
pub struct Judge {
    /// The HTTPS listener.
    pub https: SocketAddr,
    /// The plain HTTP listener.
    pub http: SocketAddr,
    /// HTTPS with the right names, from a CA that is not [`Judge::ca_pem`].
    pub untrusted: SocketAddr,
    /// HTTPS from the right CA, for a name that nobody asks for.
    pub misnamed: SocketAddr,
    /// The CA to trust, PEM.
    pub ca_pem: String,
    book: Arc<Book>,
    _listeners: JoinSet<()>,
}

impl Judge {
    /// Binds and serves until the value is dropped. Runs on the runtime of the caller.
    ///
    /// # Errors
    /// A port that cannot be bound, or a name that no certificate can be made for.
    pub fn start(options: &Options) -> anyhow::Result<Self> {
        let mut names: Vec<String> = ["10.76.0.1", "127.0.0.1", "::1", "localhost"]
            .map(Into::into)
            .into();
        names.push(options.address.to_string());
        names.extend(options.names.iter().cloned());
        names.sort();
        names.dedup();

        let (trusted, stranger) = (authority("lab judge")?, authority("lab stranger")?);
        let other_name = vec!["somebody-else.invalid".to_owned()];
        let book = Arc::new(Book::default());
        let mut listeners = JoinSet::new();
        let mut open = |port, tls| -> anyhow::Result<SocketAddr> {
            let listener = listen(SocketAddr::new(options.address, port))?;
            let address = listener.local_addr()?;
            listeners.spawn(accept(listener, tls, Arc::clone(&book)));
            Ok(address)
        };
        Ok(Self {
            https: open(options.https_port, Some(acceptor(&trusted, names.clone())?))?,
            http: open(options.http_port, None)?,
            untrusted: open(options.untrusted_port, Some(acceptor(&stranger, names)?))?,
            misnamed: open(options.misnamed_port, Some(acceptor(&trusted, other_name)?))?,
            ca_pem: trusted.pem(),
            book,
            _listeners: listeners,
        })
    }

    /// The HTTPS URL of `path`, which starts with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.https)
    }

    /// What was asked so far: path, peer, how often.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, BTreeMap<IpAddr, u64>> {
        self.book.counts()
    }

    /// How often `path` was asked for, by anybody.
    #[must_use]
    pub fn count(&self, path: &str) -> u64 {
        self.book
            .counts()
            .get(path)
            .map_or(0, |by| by.values().sum())
    }

    /// How often `path` was asked for from `peer`.
    #[must_use]
    pub fn count_from(&self, path: &str, peer: IpAddr) -> u64 {
        let counts = self.book.counts();
        counts
            .get(path)
            .and_then(|by| by.get(&peer))
            .copied()
            .unwrap_or(0)
    }

    /// How many connections were accepted so far, on all listeners.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.book.open().connections
    }

    /// The header of the latest request for `path`.
    #[must_use]
    pub fn last_header(&self, path: &str) -> Option<HeaderMap> {
        self.book.open().headers.get(path).cloned()
    }

    /// From now on answers `path` as it would `like`; `None` takes that back.
    pub fn divert(&self, path: &str, like: Option<&str>) {
        self.book.divert(path, like);
    }
}

/// What was asked, and what is to be answered otherwise than usual.
#[derive(Default)]
struct Book(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    connections: u64,
    counts: BTreeMap<String, BTreeMap<IpAddr, u64>>,
    headers: HashMap<String, HeaderMap>,
    diversions: HashMap<String, String>,
}

impl Book {
    fn open(&self) -> MutexGuard<'_, Pages> {
        // Every write is complete in itself, so that a panic elsewhere leaves the pages in order.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> BTreeMap<String, BTreeMap<IpAddr, u64>> {
        self.open().counts.clone()
    }

    fn divert(&self, path: &str, like: Option<&str>) {
        let diversions = &mut self.open().diversions;
        match like {
            Some(like) => diversions.insert(path.to_owned(), like.to_owned()),
            None => diversions.remove(path),
        };
    }

    /// Notes a request and says which path it is to be answered as.
    fn note(&self, path: &str, peer: IpAddr, header: HeaderMap) -> String {
        let mut pages = self.open();
        *pages
            .counts
            .entry(path.to_owned())
            .or_default()
            .entry(peer)
            .or_default() += 1;
        pages.headers.insert(path.to_owned(), header);
        pages
            .diversions
            .get(path)
            .map_or(path, String::as_str)
            .to_owned()
    }
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bind = || {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bind().with_context(|| format!("listening on {address}"))
}

/// Serves one listener for ever. The connections end with it.
async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, book: Arc<Book>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    book.open().connections += 1;
                    connections.spawn(serve(stream, peer, tls.clone(), Arc::clone(&book)));
                }
                // Out of descriptors: some come back as connections end.
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, tls: Option<TlsAcceptor>, book: Arc<Book>) {
    let peer = peer.ip().to_canonical();
    // A peer that goes away or will not have our certificate is its own affair, here and below.
    stream.set_nodelay(true).ok();
    match tls {
        None => speak(stream, peer, book).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await {
                speak(stream, peer, book).await;
            }
        }
    }
}

async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin, peer: IpAddr, book: Arc<Book>) {
    let service = service_fn(|request| respond(request, peer, &book));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await
        .ok();
}

/// An error closes the connection without an answer.
async fn respond(
    request: Request<Incoming>,
    peer: IpAddr,
    book: &Book,
) -> io::Result<Response<Body>> {
    let path = request.uri().path().to_owned();
    if path == "/counts" {
        return Ok(text(
            "application/json",
            serde_json::to_vec(&book.counts())?,
        ));
    }
    if let Some(diverted) = path.strip_prefix("/divert") {
        return Ok(empty(divert(request, diverted, book).await));
    }
    let (head, _) = request.into_parts();
    answer(&book.note(&path, peer, head.headers))
        .give(peer)
        .await
}

async fn divert(request: Request<Incoming>, path: &str, book: &Book) -> StatusCode {
    let method = request.method().clone();
    let Ok(body) = Limited::new(request.into_body(), 1024).collect().await else {
        return StatusCode::BAD_REQUEST;
    };
    match (method, std::str::from_utf8(&body.to_bytes())) {
        (Method::DELETE, _) => book.divert(path, None),
        (Method::PUT, Ok(like)) if like.starts_with('/') => book.divert(path, Some(like.trim())),
        (Method::PUT, _) => return StatusCode::BAD_REQUEST,
        _ => return StatusCode::METHOD_NOT_ALLOWED,
    }
    StatusCode::NO_CONTENT
}
