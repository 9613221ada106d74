//! The words in which clients and the ledger speak of leases.

use crate::key::ProxyKey;
use crds::Phase;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// A lease's identity, which is all that it takes to use the lease: drawn at random, and long enough that guessing is
/// hopeless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u128);

/// What the fleet says of one proxy: what a client may see and what the choice rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// `namespace/name`.
    pub key: ProxyKey,
    /// The object's UID: leases and cooldowns of an earlier object of the same name are not this one's.
    pub uid: Arc<str>,
    /// Address to connect to; empty until there is one.
    pub ip: String,
    /// Effective port.
    pub port: u16,
    /// Free selection labels.
    pub attributes: BTreeMap<String, String>,
    /// The phase as shown by kubectl.
    pub phase: Phase,
    /// The verdict; only healthy proxies are leased.
    pub healthy: bool,
    /// Of the last probe that mattered.
    pub latency_millis: Option<u32>,
    /// Slots; 0 means never leasable.
    pub max_leases: u32,
}

/// One proxy as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// What the fleet says.
    pub candidate: Arc<Candidate>,
    /// Slots taken now.
    pub active_leases: u32,
}

/// A validated acquire. The target is normalised already.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AcquireRequest {
    /// All pairs must match exactly.
    pub selector: BTreeMap<String, String>,
    /// 1 s up to the configured maximum.
    pub ttl: Duration,
    /// The site to be crawled.
    pub target: Option<Arc<str>>,
}

/// An `Idempotency-Key` and what it was used for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Idempotency {
    /// As the client sent it.
    pub key: Arc<str>,
    /// Of the request, [`AcquireRequest::fingerprint`].
    pub fingerprint: u128,
}

impl AcquireRequest {
    /// Tells requests apart, across restarts and versions: the first half of a SHA-256 over every field, each preceded
    /// by its length so that no two requests run together to the same bytes.
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        let mut hash = Sha256::new();
        hash.update(self.ttl.as_nanos().to_be_bytes());
        let target = self.target.iter().map(|target| &**target);
        let pairs = self.selector.iter().flat_map(|(k, v)| [&**k, &**v]);
        hash.update([u8::from(self.target.is_some())]);
        for text in target.chain(pairs) {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
        hash.finalize()[..16]
            .iter()
            .fold(0, |sum, byte| sum << 8 | u128::from(*byte))
    }
}

/// Which proxies to list.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ViewFilter {
    /// Only the healthy, or only the others.
    pub healthy: Option<bool>,
    /// All pairs must match exactly.
    pub attributes: BTreeMap<String, String>,
}

/// Whether an acquire gave something new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granted {
    /// A lease that did not exist before.
    Fresh,
    /// The lease that the same `Idempotency-Key` was given before; nothing changed.
    Repeated,
}

/// A lease as given or renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its identity.
    pub id: LeaseId,
    /// The proxy it is for, as it is now; `None` when that proxy left the fleet meanwhile.
    pub proxy: Option<View>,
    /// The proxy's key.
    pub key: ProxyKey,
    /// The site it was taken for.
    pub target: Option<Arc<str>>,
    /// Wall-clock end, for display only.
    pub expires_at: SystemTime,
    /// As asked for.
    pub ttl: Duration,
}

/// Why nothing was granted. `unhealthy + at_capacity + in_cooldown` sum up to `considered`, as checked in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct NoMatch {
    pub considered: usize,
    pub unhealthy: usize,
    pub at_capacity: usize,
    pub in_cooldown: usize,
}

/// Why an acquire failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// Nothing fits now.
    #[error("no proxy fits")]
    NoMatch(NoMatch),
    /// The idempotency key was used with another request.
    #[error("the Idempotency-Key was used before with another body")]
    KeyReused,
}

/// What a client found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ReportResult {
    Ok,
    RateLimited,
    Banned,
}

/// No live (or, for a report, recently ended) lease has this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such lease")]
pub struct UnknownLease;

/// The durations that the flags set.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// `--max-lease-ttl`.
    pub max_ttl: Duration,
    /// `--lease-cooldown`, after `rate_limited`.
    pub lease_cooldown: Duration,
    /// `--ban-cooldown`, after `banned`.
    pub ban_cooldown: Duration,
}

impl Terms {
    /// How long a lease can be reported on after its end: as long as the longest cooldown.
    #[must_use]
    pub fn report_window(&self) -> Duration {
        self.lease_cooldown.max(self.ban_cooldown)
    }
}
