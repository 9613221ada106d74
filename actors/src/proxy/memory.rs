//! What a proxy actor knows beyond its object. Pure: [`Memory::absorb`] is told what happened.
//!
//! All of it may be lost at any moment: [`Memory::of`] starts again from the object, and the next
//! look at the backend restores the rest.

mod absorb;

pub use absorb::Event;

use super::pace::Pace;
use crate::{
    events::EventReason,
    provider::contract::{ErrorClass, Operation},
};
use crds::{
    Mode, Proxy,
    conditions::{self, ConditionType, Reason},
};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::IpAddr,
};
use tokio::time::Instant;

/// What is known of the user-data, and with it of the hash of what the instance should be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Not asked yet, or the spec or the Secret changed since: an answer on its way may be out of date.
    Unresolved,
    /// Asked, and nothing changed since.
    Asked,
    /// The hash of placement, port and user-data.
    Hash(Box<str>),
    /// The user-data cannot be had until the Secret changes, and why.
    Unavailable(Box<str>),
    /// The user-data could not be read, why, and when to try again.
    Unread(Box<str>, Instant),
}

/// What the backend said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Nothing yet.
    Unknown,
    /// The instance is on its way up.
    Booting,
    /// The instance runs at this address.
    Running(IpAddr),
    /// The instance is there but of no use: it has to go.
    Stopped,
    /// The instance was told to go.
    Leaving,
    /// There is no instance.
    Gone,
}

/// An error that stands until a call succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its class.
    pub class: ErrorClass,
    /// Which call.
    pub operation: Operation,
    /// For a person.
    pub message: Box<str>,
}

/// The prober's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the proxy egresses.
    pub healthy: bool,
    /// Of the probe that this verdict or latency change rests on.
    pub latency_millis: Option<u32>,
    /// The last probe's error when unhealthy.
    pub error: Option<Box<str>>,
}

/// What is to be told to the user as a Kubernetes Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// Why.
    pub reason: EventReason,
    /// For a person.
    pub message: String,
}

impl Note {
    /// Something went as it should.
    pub fn normal(reason: EventReason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            warning: false,
            reason,
            message,
        }
    }

    /// Something a person should look at.
    pub fn warning(reason: EventReason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            warning: true,
            reason,
            message,
        }
    }
}

/// What surrounds an event.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The object as it is now.
    pub object: &'a Proxy,
    /// The fingerprint of the provider's config; `None` when it has none.
    pub config: Option<u64>,
    /// Monotonic time.
    pub now: Instant,
    /// A random number in 0..1, for jitter.
    pub chance: f64,
    /// The intervals.
    pub pace: &'a Pace,
}

/// What a proxy actor knows beyond its object.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that are true or not, each without regard to the others"
)]
pub struct Memory {
    /// The object's UID: another one is another proxy.
    pub uid: Box<str>,
    /// The hash of what is wanted.
    pub wanted: Wanted,
    /// What the backend said last.
    pub backend: Backend,
    /// A key that `create` gave and the status does not have yet.
    pub created: Option<Box<str>>,
    /// The operation of that creation.
    pub operation: Option<Box<str>>,
    /// What stands in the way.
    pub problem: Option<Box<Problem>>,
    /// No call to the backend before this.
    pub due: Option<Instant>,
    /// The prober's word on the instance that runs.
    pub verdict: Option<Box<Verdict>>,
    /// The prober fails over and over, and why.
    pub prober_error: Option<Box<str>>,
    /// An instance was told to go; nothing it says makes it usable again.
    pub leaving: bool,
    /// A `create` may have left an instance whose key nobody has.
    pub in_doubt: bool,
    /// Since when that is so, as far as this memory goes.
    pub doubted: Option<Instant>,
    /// The backend has answered since this memory began: what the status says of it may be out of date.
    pub answered: bool,
    /// `get` cannot converge: deletion may go on all the same.
    pub blind: bool,
    /// No call to the API server before this.
    pub api_due: Option<Instant>,
    /// No provider calls until something changes. Not taken over from the status by a restart, which
    /// may have brought another config: one try more is harmless, a proxy stuck for ever is not.
    pub latched: bool,
    generation: Option<i64>,
    config: Option<u64>,
    /// Of the endpoint that the verdict is about.
    address: u64,
    deleting: bool,
    failures: u32,
    api_failures: u32,
    /// Instances created in a row that never showed up.
    lost: u32,
}

impl Memory {
    /// What can be known from the object alone. A running instance and its verdict are believed, so that
    /// a restart changes nothing for clients; the backend is asked at once whether it is still true.
    #[must_use]
    pub fn of(object: &Proxy) -> Self {
        let status = object.status.as_ref();
        let running = conditions::is_true(object.conditions(), ConditionType::Provisioned);
        let managed = object.spec.mode == Mode::Managed;
        let recorded = status.is_some_and(|s| s.provider_id.is_some());
        // An endpoint may have changed while nobody looked; an instance is asked for anyway.
        let current =
            managed || status.is_some_and(|s| s.observed_generation == object.metadata.generation);
        let ip = status
            .and_then(|s| s.ip.as_deref())
            .and_then(|ip| ip.parse().ok());
        let backend = match ip {
            Some(ip) if running => Backend::Running(ip),
            _ => Backend::Unknown,
        };
        Self {
            uid: object.metadata.uid.as_deref().unwrap_or_default().into(),
            wanted: Wanted::Unresolved,
            backend,
            created: None,
            operation: None,
            problem: None,
            due: None,
            verdict: verdict_of(object)
                .filter(|_| running && current)
                .map(Box::new),
            prober_error: None,
            leaving: false,
            in_doubt: managed && !recorded && object.spec_hash().is_some(),
            doubted: None,
            answered: false,
            blind: false,
            api_due: None,
            latched: false,
            generation: object.metadata.generation,
            config: None,
            address: address(object),
            deleting: false,
            failures: 0,
            api_failures: 0,
            lost: 0,
        }
    }

    /// The instance's key: the one just created, else the one on record unless it is known to be gone.
    #[must_use]
    pub fn id<'a>(&'a self, object: &'a Proxy) -> Option<&'a str> {
        if let Some(created) = &self.created {
            return Some(created);
        }
        let recorded = object.status.as_ref()?.provider_id.as_deref();
        recorded.filter(|_| self.backend != Backend::Gone)
    }

    /// The operation of the last creation that was accepted, whatever came of it.
    #[must_use]
    pub fn operation<'a>(&'a self, object: &'a Proxy) -> Option<&'a str> {
        let recorded = || object.status.as_ref()?.operation.as_deref();
        self.operation.as_deref().or_else(recorded)
    }

    /// Whether the wanted instance differs from the one that was built.
    #[must_use]
    pub fn is_replacing(&self, object: &Proxy) -> bool {
        match (&self.wanted, object.spec_hash()) {
            (Wanted::Hash(wanted), Some(built)) => &**wanted != built && self.id(object).is_some(),
            _ => false,
        }
    }

    /// Whether the instance (or the External endpoint) is there to be probed and leased.
    #[must_use]
    pub fn runs(&self, object: &Proxy) -> bool {
        match object.spec.mode {
            Mode::External => true,
            Mode::Managed => {
                matches!(self.backend, Backend::Running(_))
                    && !self.leaving
                    && !self.is_replacing(object)
            }
        }
    }
}

/// The verdict in the object's status, which a restarted prober starts from.
fn verdict_of(object: &Proxy) -> Option<Verdict> {
    let healthy = conditions::get(object.conditions(), ConditionType::Healthy)?;
    let verdict = |healthy, error| Verdict {
        healthy,
        latency_millis: object.status.as_ref().and_then(|s| s.latency_millis),
        error,
    };
    match healthy.reason.as_str() {
        reason if reason == Reason::ProbeSucceeded.as_str() => Some(verdict(true, None)),
        reason if reason == Reason::ProbeFailed.as_str() => {
            Some(verdict(false, Some(healthy.message.as_str().into())))
        }
        _ => None,
    }
}

/// An External proxy's endpoint as a number; a Managed one's address is the instance's own.
fn address(object: &Proxy) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Some(host) = object.endpoint_host() {
        (host, object.effective_port()).hash(&mut hasher);
    }
    hasher.finish()
}
