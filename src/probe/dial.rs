//! From the proxy's name to an open TCP connection.

use super::{budget::Budget, stage::Stage};
use actors::prober::probe::{FailureKind, Fetch, ProbeFailure};
use std::{
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    sync::Arc,
};
use tokio::{net::TcpStream, sync::Semaphore, task::spawn_blocking, time::timeout};

/// Name lookups at a time. The system resolver blocks a thread, and one that was given up on keeps
/// it until the name server's own timeouts (5 s twice, for each server) are over. tokio has 512
/// such threads for the whole process: a dead name server may take a quarter of them.
const LOOKUPS: usize = 128;

/// Looks up names of proxies, for every probe again.
pub(super) struct Resolver {
    lookups: Arc<Semaphore>,
}

impl Default for Resolver {
    fn default() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
        }
    }
}

impl Resolver {
    /// All addresses of the proxy, in the order in which the system wants them tried.
    ///
    /// # Errors
    /// [`FailureKind::Connect`] for a name without an address, or [`FailureKind::Timeout`].
    pub(super) async fn resolve(
        &self,
        fetch: &Fetch,
        budget: &Budget,
    ) -> Result<Vec<SocketAddr>, ProbeFailure> {
        if let Ok(ip) = fetch.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, fetch.port)]);
        }
        let stage = Stage::Resolve { host: &fetch.host };
        let lookup = self.lookup(Arc::clone(&fetch.host), fetch.port);
        let addresses = budget
            .spend(stage, "no answer", lookup)
            .await?
            .map_err(|error| stage.failed(FailureKind::Connect, error))?;
        if addresses.is_empty() {
            return Err(stage.failed(FailureKind::Connect, "the name has no address"));
        }
        Ok(addresses)
    }

    async fn lookup(&self, host: Arc<str>, port: u16) -> io::Result<Vec<SocketAddr>> {
        let permit = Arc::clone(&self.lookups)
            .acquire_owned()
            .await
            .map_err(io::Error::other)?;
        spawn_blocking(move || {
            // Held by the thread, not by the probe, which may give up before the thread can.
            let _permit = permit;
            Ok((&*host, port).to_socket_addrs()?.collect())
        })
        .await
        .map_err(io::Error::other)?
    }
}

/// Connects to the first of `addresses` that answers. Each may take an equal share of what is left
/// of the budget, so that one that swallows packets does not hide the ones after it.
///
/// # Errors
/// That of the last address: [`FailureKind::Connect`] or [`FailureKind::Timeout`].
pub(super) async fn dial(
    addresses: &[SocketAddr],
    budget: &Budget,
) -> Result<TcpStream, ProbeFailure> {
    let mut failure = None;
    for (&address, untried) in addresses.iter().zip((1..=addresses.len()).rev()) {
        let share = budget.left() / u32::try_from(untried).unwrap_or(u32::MAX);
        let stage = Stage::Dial { address };
        failure = Some(match timeout(share, connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => stage.failed(FailureKind::Connect, error),
            Err(_) => budget.exhausted(stage, "no connection"),
        });
    }
    Err(failure.unwrap_or_else(|| ProbeFailure {
        kind: FailureKind::Connect,
        message: "the proxy has no address".to_owned(),
    }))
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // A probe is a few small writes: delayed for an ACK, each would add 40 ms to the latency.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// `host:port`, an IPv6 address in brackets.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.parse::<Ipv6Addr>().is_ok() {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
