//! What a proxy actor knows beyond its object. Pure: [`Memory::absorb`] is told what happened.
//!
//! All of it may be lost at any moment: [`Memory::of`] starts again from the object, and the next
//! look at the backend restores the rest.

use super::pace::Pace;
use crate::provider::contract::{
    Created, ErrorClass, Instance, InstanceState, Operation, ProviderError,
};
use crds::{
    Mode, Proxy,
    conditions::{self, ConditionType, Reason},
};
use std::{net::IpAddr, time::Duration};
use tokio::time::Instant;

/// What is known of the user-data, and with it of the hash of what the instance should be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Not asked yet, or the spec or the Secret changed since.
    Unresolved,
    /// The hash of placement, port and user-data.
    Hash(Box<str>),
    /// The user-data cannot be had, and why.
    Unavailable(Box<str>),
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

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The object, the provider's config or the Secret may have changed.
    Woken,
    /// The referenced Secret changed.
    SecretChanged,
    /// The hash of what is wanted, or why the user-data cannot be had.
    Resolved(Result<Box<str>, Box<str>>),
    /// A `create` ended.
    Created(Result<Created, ProviderError>),
    /// The user-data changed between resolving and creating; nothing was created.
    Outdated,
    /// A `get` ended.
    Got(Result<Instance, ProviderError>),
    /// A `delete` ended.
    Deleted(Result<(), ProviderError>),
    /// The prober's verdict.
    Judged(Verdict),
    /// The prober fails over and over, and why.
    ProberFailed(Box<str>),
    /// The API server did not do what it was asked.
    ApiFailed,
    /// The API server did.
    ApiAnswered,
}

/// What is to be told to the user as a Kubernetes Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// `Warning` rather than `Normal`.
    pub warning: bool,
    /// CamelCase.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
}

impl Note {
    /// Something went as it should.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            warning: false,
            reason,
            message,
        }
    }

    /// Something a person should look at.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
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
pub struct Memory {
    /// The object's UID: another one is another proxy.
    pub uid: Box<str>,
    /// The hash of what is wanted.
    pub wanted: Wanted,
    /// What the backend said last.
    pub backend: Backend,
    /// A key that `create` gave and the status does not have yet.
    pub created: Option<Box<str>>,
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
    /// `get` cannot converge: deletion may go on all the same.
    pub blind: bool,
    /// No call to the API server before this.
    pub api_due: Option<Instant>,
    /// No provider calls until something changes. Not taken over from the status by a restart, which
    /// may have brought another config: one try more is harmless, a proxy stuck for ever is not.
    pub latched: bool,
    generation: Option<i64>,
    config: Option<u64>,
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
            problem: None,
            due: None,
            verdict: running.then(|| verdict_of(object)).flatten().map(Box::new),
            prober_error: None,
            leaving: false,
            blind: false,
            api_due: None,
            latched: false,
            generation: object.metadata.generation,
            config: None,
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

    /// Takes `event` in and says what the user should be told.
    pub fn absorb(&mut self, event: Event, around: &Around<'_>) -> Vec<Note> {
        match event {
            Event::Woken => self.woken(around),
            Event::SecretChanged => {
                self.wanted = Wanted::Unresolved;
                self.release(around);
                vec![]
            }
            Event::Resolved(Ok(hash)) => {
                let replaces = around
                    .object
                    .spec_hash()
                    .is_some_and(|built| built != &*hash);
                self.wanted = Wanted::Hash(hash);
                if replaces && self.id(around.object).is_some() {
                    // The drift interval belongs to the instance that is wanted, not to this one.
                    self.due = None;
                    return vec![Note::normal(
                        "Replacing",
                        "the spec changed, so the instance is replaced by a new one",
                    )];
                }
                vec![]
            }
            Event::Resolved(Err(why)) => {
                let news = self.wanted != Wanted::Unavailable(why.clone());
                let note = Note::warning("CloudInitError", &*why);
                self.wanted = Wanted::Unavailable(why);
                if news { vec![note] } else { vec![] }
            }
            Event::Created(Ok(created)) => self.created(created, around),
            Event::Outdated => {
                self.wanted = Wanted::Unresolved;
                vec![]
            }
            Event::Got(Ok(instance)) => self.got(&instance, around),
            Event::Got(Err(error)) if error.class == ErrorClass::NotFound => self.gone(around),
            Event::Deleted(Ok(())) => self.deleted(around),
            Event::Created(Err(error)) | Event::Got(Err(error)) | Event::Deleted(Err(error)) => {
                self.failed(error, around)
            }
            Event::Judged(verdict) => self.judged(verdict, around),
            Event::ProberFailed(why) => {
                self.prober_error = Some(why);
                vec![]
            }
            Event::ApiFailed => {
                self.api_failures = self.api_failures.saturating_add(1);
                let pause = around.pace.backoff(self.api_failures, around.chance);
                // An API server that came back should be noticed within seconds.
                self.api_due = Some(around.now + pause.min(Duration::from_secs(15)));
                vec![]
            }
            Event::ApiAnswered => {
                (self.api_failures, self.api_due) = (0, None);
                vec![]
            }
        }
    }

    fn woken(&mut self, around: &Around<'_>) -> Vec<Note> {
        let generation = around.object.metadata.generation;
        if generation != self.generation {
            self.generation = generation;
            self.wanted = Wanted::Unresolved;
            self.release(around);
        }
        if around.config != self.config {
            // The first config that is seen is no change of it.
            if self.config.is_some() || self.problem.is_some() {
                self.release(around);
            }
            self.config = around.config;
        }
        if around.object.is_deleting() && !self.deleting {
            self.deleting = true;
            self.release(around);
        }
        // The status has the key by now: from here on the object alone says which instance it is.
        let recorded = around
            .object
            .status
            .as_ref()
            .and_then(|s| s.provider_id.as_deref());
        if self.created.is_some() && self.created.as_deref() == recorded {
            self.created = None;
        }
        vec![]
    }

    /// Something changed that may mend what went wrong: try again now.
    fn release(&mut self, around: &Around<'_>) {
        self.latched = false;
        self.failures = 0;
        self.lost = 0;
        if !matches!(self.backend, Backend::Running(_))
            || self.problem.is_some()
            || around.object.is_deleting()
        {
            self.due = None;
        }
    }

    fn succeeded(&mut self) {
        self.problem = None;
        self.failures = 0;
    }

    fn created(&mut self, created: Created, around: &Around<'_>) -> Vec<Note> {
        self.succeeded();
        self.backend = Backend::Unknown;
        self.leaving = false;
        self.due = Some(around.now);
        let mut notes = vec![Note::normal(
            "Created",
            format!("created instance {}", created.id),
        )];
        notes.extend(
            created
                .notes
                .into_iter()
                .map(|(reason, message)| Note::warning(reason, message)),
        );
        self.created = Some(created.id.into());
        notes
    }

    fn got(&mut self, instance: &Instance, around: &Around<'_>) -> Vec<Note> {
        self.succeeded();
        self.blind = false;
        self.lost = 0;
        if around.object.is_deleting() || self.is_replacing(around.object) {
            // It has to go in any case; `next` tells it so.
            self.backend = Backend::Stopped;
            self.due = None;
            return vec![];
        }
        let (backend, pause) = match (instance.state, instance.ip) {
            _ if self.leaving => (Backend::Leaving, around.pace.deletion),
            (InstanceState::Running, Some(ip)) => {
                (Backend::Running(ip), around.pace.drift(around.chance))
            }
            (InstanceState::Running | InstanceState::Provisioning, _) => {
                (Backend::Booting, around.pace.provisioning)
            }
            (InstanceState::Stopped | InstanceState::Terminated, _) => {
                (Backend::Stopped, Duration::ZERO)
            }
        };
        if !matches!((&self.backend, &backend), (Backend::Running(old), Backend::Running(new)) if old == new)
        {
            self.verdict = None;
        }
        let mut notes = vec![];
        if backend == Backend::Stopped && self.backend != Backend::Stopped {
            let message = format!(
                "instance {} was found stopped and is made anew",
                instance.id
            );
            notes.push(Note::warning("Stopped", message));
        }
        self.backend = backend;
        self.due = Some(around.now + pause);
        notes
    }

    fn gone(&mut self, around: &Around<'_>) -> Vec<Note> {
        self.succeeded();
        let id = self.id(around.object).unwrap_or_default().to_owned();
        let expected = self.leaving || around.object.is_deleting();
        // Told to go, it went; otherwise it was lost, perhaps before it was ever seen.
        self.lost = if expected {
            0
        } else {
            self.lost.saturating_add(1)
        };
        let pause = match self.lost {
            _ if expected => Duration::ZERO,
            lost if lost >= around.pace.patience => around.pace.quota,
            _ => around.pace.recreate,
        };
        if self.lost >= around.pace.patience {
            let message = format!(
                "{} instances in a row were created and never showed up",
                self.lost
            );
            self.problem = Some(Box::new(Problem {
                class: ErrorClass::Transient,
                operation: Operation::Get,
                message: message.into(),
            }));
        }
        self.backend = Backend::Gone;
        self.created = None;
        self.leaving = false;
        self.verdict = None;
        self.due = Some(around.now + pause);
        if expected {
            vec![Note::normal("Deleted", format!("instance {id} is gone"))]
        } else {
            vec![Note::warning(
                "Lost",
                format!("instance {id} is gone and is created again"),
            )]
        }
    }

    fn deleted(&mut self, around: &Around<'_>) -> Vec<Note> {
        self.succeeded();
        self.leaving = true;
        self.verdict = None;
        if self.blind {
            // `get` cannot say when it is gone, and `delete` has done all that can be done.
            self.backend = Backend::Gone;
            self.created = None;
            return vec![];
        }
        self.backend = Backend::Leaving;
        self.due = Some(around.now + around.pace.deletion);
        vec![]
    }

    fn failed(&mut self, error: ProviderError, around: &Around<'_>) -> Vec<Note> {
        let permanent = matches!(
            error.class,
            ErrorClass::Permanent | ErrorClass::AdoptionConflict
        );
        let deleting = around.object.is_deleting();
        if permanent && deleting && error.operation == Operation::Get {
            self.blind = true;
        }
        let pause = if error.class == ErrorClass::QuotaExceeded {
            around.pace.quota
        } else {
            self.failures = self.failures.saturating_add(1);
            around.pace.backoff(self.failures, around.chance)
        };
        // Deletion goes on at once with `delete` where `get` is of no help.
        self.due =
            (!(self.blind && error.operation == Operation::Get)).then_some(around.now + pause);
        self.latched = permanent && !deleting;
        let known = self
            .problem
            .as_ref()
            .is_some_and(|p| *p.message == *error.message);
        let reason = if deleting {
            "CleanupFailed"
        } else {
            "ProvisioningFailed"
        };
        let note = Note::warning(reason, format!("{}: {}", error.class, error.message));
        self.problem = Some(Box::new(Problem {
            class: error.class,
            operation: error.operation,
            message: error.message.into(),
        }));
        if known { vec![] } else { vec![note] }
    }

    fn judged(&mut self, verdict: Verdict, around: &Around<'_>) -> Vec<Note> {
        if !self.runs(around.object) {
            return vec![];
        }
        let before = self.verdict.as_ref().map(|v| v.healthy);
        let note = match (before, verdict.healthy) {
            (None | Some(false), true) => Some(Note::normal(
                "Healthy",
                "fetched the health check's URL through the proxy",
            )),
            (None | Some(true), false) => {
                let error = verdict.error.as_deref().unwrap_or("the probe failed");
                Some(Note::warning("Unhealthy", error))
            }
            _ => None,
        };
        self.verdict = Some(Box::new(verdict));
        self.prober_error = None;
        note.into_iter().collect()
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
