//! The port to the network: one fetch of a URL through a proxy.

use futures::future::BoxFuture;
use std::{sync::Arc, time::Duration};

/// One fetch: where the proxy is, what to fetch through it and what to expect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fetch {
    /// Where the proxy listens: an IP address or a DNS name, without brackets.
    pub host: Arc<str>,
    /// The proxy's port.
    pub port: u16,
    /// Absolute http or https URL.
    pub url: Arc<str>,
    /// The status that counts as success.
    pub expected_status: u16,
    /// Budget for the whole fetch, from TCP to the last byte read.
    pub timeout: Duration,
}

/// Why a probe failed, as the metric label spells it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    strum::Display,
    strum::EnumMessage,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "snake_case")]
pub enum FailureKind {
    /// No TCP connection to the proxy (or its name does not resolve).
    Connect,
    /// The proxy wants credentials (407).
    ProxyAuth,
    /// CONNECT answered with another status than 2xx.
    ConnectRefused,
    /// The TLS handshake with the target failed.
    Tls,
    /// The target answered with another status than expected.
    Status,
    /// The budget ran out.
    Timeout,
    /// Something that is not HTTP, or an early end.
    Protocol,
}

/// A probe that failed; the message is shown in the `Healthy` condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProbeFailure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// For a person, with the status where there was one.
    pub message: String,
}

/// How one probe ended: the latency of a success, or why not.
pub type Outcome = Result<Duration, ProbeFailure>;

/// Fetches through a proxy, on a fresh connection every time.
pub trait Probe: Send + Sync + 'static {
    /// Ends within `fetch.timeout`.
    fn probe<'a>(&'a self, fetch: &'a Fetch) -> BoxFuture<'a, Outcome>;
}
