//! What happened, and what it changes of what is known. Pure.

mod answers;

use super::{Around, Backend, Memory, Note, Verdict, Wanted, address};
use crate::{
    events::EventReason,
    provider::contract::{Created, ErrorClass, Instance, Operation, ProviderError},
};
use crds::Mode;
use std::time::Duration;
use tokio::time::Instant;

/// An API server that came back should be noticed within this time.
const LONGEST_API_PAUSE: Duration = Duration::from_secs(15);

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// The object or the provider's config may have changed.
    Woken,
    /// The referenced Secret changed.
    SecretChanged,
    /// The hash of what is wanted, or why the user-data cannot be had.
    Resolved(Result<Box<str>, Box<str>>),
    /// The user-data could not be read, and why.
    Unread(Box<str>),
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

impl Memory {
    /// Takes `event` in and says what the user should be told.
    pub fn absorb(&mut self, event: Event, around: &Around<'_>) -> Vec<Note> {
        match event {
            Event::Woken => self.woken(around),
            Event::SecretChanged => {
                self.wanted = Wanted::Unresolved;
                self.release(around);
            }
            Event::Resolved(result) => return self.resolved(result, around),
            Event::Unread(why) => {
                let again = self.api_failed(around);
                if self.wanted == Wanted::Asked {
                    self.wanted = Wanted::Unread(why, again);
                }
            }
            Event::Outdated => self.wanted = Wanted::Unresolved,
            Event::Created(Ok(created)) => return self.created(created, around),
            Event::Got(Ok(instance)) => return self.got(&instance, around),
            Event::Deleted(Ok(())) => self.deleted(around),
            Event::Created(Err(error)) => return self.failed(error, around),
            Event::Got(Err(error)) if error.class == ErrorClass::NotFound => {
                return self.gone(around);
            }
            Event::Got(Err(error)) if error.operation == Operation::Create => {
                return self.never_came(error, around);
            }
            Event::Deleted(Err(error))
                if error.class == ErrorClass::NotFound && around.object.is_deleting() =>
            {
                return self.gone(around);
            }
            Event::Got(Err(error)) | Event::Deleted(Err(error)) => {
                return self.failed(error, around);
            }
            Event::Judged(verdict) => return self.judged(verdict, around),
            Event::ProberFailed(why) => self.prober_error = Some(why),
            Event::ApiFailed => self.api_due = Some(self.api_failed(around)),
            Event::ApiAnswered => (self.api_failures, self.api_due) = (0, None),
        }
        vec![]
    }

    /// Counts a failure of the API server and says when to ask it again.
    fn api_failed(&mut self, around: &Around<'_>) -> Instant {
        self.api_failures = self.api_failures.saturating_add(1);
        let pause = around.pace.backoff(self.api_failures, around.chance);
        around.now + pause.min(LONGEST_API_PAUSE)
    }

    /// Compares the object and the config with those that were seen last.
    fn woken(&mut self, around: &Around<'_>) {
        let object = around.object;
        if self.in_doubt {
            self.doubted.get_or_insert(around.now);
        }
        if object.metadata.generation != self.generation {
            self.generation = object.metadata.generation;
            self.wanted = Wanted::Unresolved;
            self.release(around);
        }
        if address(object) != self.address {
            self.address = address(object);
            (self.verdict, self.prober_error) = (None, None);
        }
        if around.config != self.config {
            // The first config that is seen is no change of it.
            if self.config.is_some() || self.problem.is_some() {
                self.release(around);
            }
            self.config = around.config;
        }
        if object.is_deleting() && !self.deleting {
            self.deleting = true;
            self.release(around);
        }
        if around.config.is_none() && object.spec.mode == Mode::Managed {
            self.lose_sight();
        }
        // The status has the key by now: from here on the object alone says which instance it is.
        let recorded = object
            .status
            .as_ref()
            .and_then(|s| s.provider_id.as_deref());
        if self.created.is_some() && self.created.as_deref() == recorded {
            self.created = None;
        }
    }

    /// Something changed that may mend what went wrong: try again now.
    fn release(&mut self, around: &Around<'_>) {
        self.failures = 0;
        self.lost = 0;
        if !matches!(self.backend, Backend::Running(_))
            || self.problem.is_some()
            || around.object.is_deleting()
        {
            self.due = None;
        }
        if std::mem::take(&mut self.latched) {
            // It was about what has changed now.
            self.problem = None;
        }
    }

    /// Nobody can say any more whether the instance runs: its provider is not asked.
    fn lose_sight(&mut self) {
        if matches!(self.backend, Backend::Running(_)) {
            (self.backend, self.verdict, self.due) = (Backend::Unknown, None, None);
        }
    }

    fn resolved(&mut self, result: Result<Box<str>, Box<str>>, around: &Around<'_>) -> Vec<Note> {
        if self.wanted == Wanted::Unresolved {
            // The spec or the Secret changed while it was read.
            return vec![];
        }
        match result {
            Ok(hash) => self.wanted = Wanted::Hash(hash),
            Err(why) => {
                let note = Note::warning(EventReason::CloudInitError, &*why);
                self.wanted = Wanted::Unavailable(why);
                return vec![note];
            }
        }
        if !self.is_replacing(around.object) {
            return vec![];
        }
        // The drift interval belongs to the instance that is wanted, not to this one.
        self.due = None;
        vec![Note::normal(
            EventReason::Replacing,
            "the spec changed, so the instance is replaced by a new one",
        )]
    }

    fn judged(&mut self, verdict: Verdict, around: &Around<'_>) -> Vec<Note> {
        if !self.runs(around.object) {
            return vec![];
        }
        self.prober_error = None;
        let before = self.verdict.as_ref().map(|v| v.healthy);
        let note = match (before, verdict.healthy) {
            (None | Some(false), true) => Some(Note::normal(
                EventReason::Healthy,
                "fetched the health check's URL through the proxy",
            )),
            (None | Some(true), false) => {
                let error = verdict.error.as_deref().unwrap_or("the probe failed");
                Some(Note::warning(EventReason::Unhealthy, error))
            }
            _ => None,
        };
        if before == Some(true) && !verdict.healthy && self.problem.is_none() {
            // The drift interval is for what egresses: this instance may be gone.
            self.due = None;
        }
        self.verdict = Some(Box::new(verdict));
        note.into_iter().collect()
    }
}
