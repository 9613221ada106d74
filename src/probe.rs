//! The probe: a fetch through a proxy over real sockets.
//!
//! Talks to: the probers, which see it as [`Probe`]. One [`NetProbe`] serves all of them.
//!
//! Flow, all of it inside one budget (`Fetch::timeout`):
//! 1. resolve the proxy's name, if it is one, and dial: a new TCP connection every time;
//! 2. for an https URL, ask for a tunnel with `CONNECT` and shake hands with the target in it,
//!    never resuming an earlier TLS session; for an http URL there is nothing to do;
//! 3. `GET`, compare the status, read the body up to 64 KiB.
//!
//! Guarantees:
//! - every failure names the step it happened in and its [`FailureKind`]; no text carries the URL's
//!   credentials or query;
//! - dropping the future closes the socket; nothing outlives a probe but a name lookup that hangs,
//!   of which there is a bounded number;
//! - the request carries no tracing headers, whatever the caller's span is.
//!
//! The latency of a success runs from dialling to the end of the head of the target's answer. It
//! leaves out the DNS of the proxy (clients look it up once, a probe every time) and the body
//! (which says more about the page than about the proxy).

mod budget;
mod connect;
mod dial;
mod get;
mod stage;
mod target;
#[cfg(test)]
mod tests;
mod tls;

use actors::prober::probe::{FailureKind, Fetch, Outcome, Probe, ProbeFailure};
use budget::Budget;
use bytes::Bytes;
use dial::Resolver;
use futures::future::BoxFuture;
use stage::Stage;
use std::path::Path;
use target::Target;
use tokio::{io::AsyncReadExt, net::TcpStream, time::Instant};
use tokio_rustls::TlsConnector;

pub use tls::ProbeSetupError;

/// How probes name themselves to proxies and targets.
const USER_AGENT: &str = concat!("proxy-operator/", env!("CARGO_PKG_VERSION"));

/// Probes over the network of this machine.
pub struct NetProbe {
    tls: TlsConnector,
    resolver: Resolver,
}

impl NetProbe {
    /// Trusts the CAs of the system and those in `ca_file` (PEM, `--probe-ca-file`). A machine
    /// without a CA store is fine; when no CA is left at all, that is logged as a warning.
    ///
    /// # Errors
    /// [`ProbeSetupError`] when `ca_file` cannot be used.
    pub fn new(ca_file: Option<&Path>) -> Result<Self, ProbeSetupError> {
        Ok(Self {
            tls: tls::connector(ca_file)?,
            resolver: Resolver::default(),
        })
    }

    /// Fetches a page as a probe does, and returns as much of it as a probe reads.
    ///
    /// # Errors
    /// Those of a probe.
    pub async fn page(&self, fetch: &Fetch) -> Result<Vec<u8>, ProbeFailure> {
        let mut page = Vec::new();
        self.run(fetch, &mut page).await?;
        Ok(page.concat())
    }

    /// Whether a URL can be fetched at all.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_url(&self, url: &str) -> Result<(), ProbeFailure> {
        target_of(url).map(drop)
    }

    async fn run(&self, fetch: &Fetch, page: &mut impl Extend<Bytes>) -> Outcome {
        let budget = Budget::start(fetch.timeout);
        let proxy = dial::authority(&fetch.host, fetch.port);
        let target = target_of(&fetch.url)?;

        let addresses = self.resolver.resolve(fetch, &budget).await?;
        let dialled = Instant::now();
        let stream = dial::dial(&addresses, &budget).await?;
        let expected = fetch.expected_status;
        let answered = self.get(stream, &proxy, &target, expected, &budget, page);
        Ok(answered.await?.duration_since(dialled))
    }

    /// Sends the request the way its scheme wants it; see [`get::get`].
    async fn get(
        &self,
        mut stream: TcpStream,
        proxy: &str,
        target: &Target,
        expected: u16,
        budget: &Budget,
        page: &mut impl Extend<Bytes>,
    ) -> Result<Instant, ProbeFailure> {
        let Some(name) = &target.tls_name else {
            return get::get(stream, proxy, target, expected, budget, page).await;
        };
        let early = connect::tunnel(&mut stream, proxy, &target.authority, budget).await?;
        let (read, write) = stream.split();
        let tunnel = tokio::io::join(early.as_slice().chain(read), write);
        let stage = Stage::Tls {
            target: &target.authority,
            proxy,
        };
        let handshake = self.tls.connect(name.clone(), tunnel);
        let session = budget
            .spend(stage, "the handshake did not end", handshake)
            .await?
            .map_err(|error| stage.failed(FailureKind::Tls, error))?;
        get::get(session, proxy, target, expected, budget, page).await
    }
}

fn target_of(url: &str) -> Result<Target, ProbeFailure> {
    let stage = Stage::Prepare { url };
    Target::parse(url).map_err(|error| stage.failed(FailureKind::Protocol, error))
}

/// What a probe makes of the page.
struct Unread;

impl Extend<Bytes> for Unread {
    fn extend<T: IntoIterator<Item = Bytes>>(&mut self, page: T) {
        page.into_iter().for_each(drop);
    }
}

impl Probe for NetProbe {
    fn probe<'a>(&'a self, fetch: &'a Fetch) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.run(fetch, &mut Unread).await })
    }
}
