//! What happened, and what it changes of what is known. Pure.

use super::{Around, Backend, Memory, Note, Problem, Verdict, Wanted, address};
use crate::{
    events::EventReason,
    provider::contract::{Created, ErrorClass, Instance, InstanceState, Operation, ProviderError},
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

    /// An answer of the backend that is no error.
    fn succeeded(&mut self) {
        self.answered = true;
        self.problem = None;
        self.failures = 0;
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

    fn created(&mut self, created: Created, around: &Around<'_>) -> Vec<Note> {
        (self.answered, self.failures) = (true, 0);
        if self.lost < around.pace.patience {
            // Past it, only an instance that shows up settles it.
            self.problem = None;
        }
        self.backend = Backend::Unknown;
        (self.leaving, self.in_doubt) = (false, false);
        // It shows a moment later. Until then a look would take two requests, and tell nothing.
        self.due = Some(match created.operation {
            Some(_) => around.now + around.pace.accepted,
            None => around.now,
        });
        let mut notes = vec![Note::normal(
            EventReason::Created,
            format!("created instance {}", created.id),
        )];
        let told = created.notes.into_iter();
        notes.extend(told.map(|(reason, message)| Note::warning(reason, message)));
        self.created = Some(created.id.into());
        self.operation = created.operation.map(Into::into);
        notes
    }

    fn got(&mut self, instance: &Instance, around: &Around<'_>) -> Vec<Note> {
        let before = self.problem.take();
        self.succeeded();
        self.blind = false;
        self.lost = 0;
        let has_to_go =
            self.leaving || around.object.is_deleting() || self.is_replacing(around.object);
        let (backend, pause) = match (instance.state, instance.ip) {
            // Told so at every look, for as long as it is there.
            _ if has_to_go => (Backend::Stopped, Duration::ZERO),
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
        let mut notes = vec![];
        if backend == Backend::Stopped && !has_to_go {
            notes.push(Note::warning(
                EventReason::Stopped,
                format!(
                    "instance {} was found stopped and is made anew",
                    instance.id
                ),
            ));
        }
        if !matches!(backend, Backend::Running(_)) || backend != self.backend {
            self.verdict = None;
        }
        if let (Backend::Booting, Some(trouble)) = (&backend, &instance.trouble) {
            if before.is_none_or(|before| *before.message != **trouble) {
                notes.push(Note::warning(EventReason::InstanceStuck, trouble));
            }
            self.problem = Some(Box::new(Problem {
                class: ErrorClass::Transient,
                operation: Operation::Get,
                message: trouble.as_str().into(),
            }));
        }
        self.backend = backend;
        self.due = Some(around.now + pause);
        notes
    }

    /// The creation failed after it was accepted.
    fn never_came(&mut self, error: ProviderError, around: &Around<'_>) -> Vec<Note> {
        if self.leaving || around.object.is_deleting() || self.is_replacing(around.object) {
            return self.gone(around);
        }
        let notes = self.failed(error, around);
        (self.backend, self.created, self.verdict) = (Backend::Gone, None, None);
        self.in_doubt = false;
        notes
    }

    fn gone(&mut self, around: &Around<'_>) -> Vec<Note> {
        let id = self.id(around.object).unwrap_or_default().to_owned();
        let expected =
            self.leaving || around.object.is_deleting() || self.is_replacing(around.object);
        self.succeeded();
        self.backend = Backend::Gone;
        self.created = None;
        (self.leaving, self.in_doubt) = (false, false);
        self.verdict = None;
        if expected {
            self.lost = 0;
            self.due = None;
            return vec![Note::normal(
                EventReason::Deleted,
                format!("instance {id} is gone"),
            )];
        }
        self.lost = self.lost.saturating_add(1);
        let pause = if self.lost < around.pace.patience {
            around.pace.recreate
        } else {
            let message = format!(
                "{} instances in a row were created and never showed up",
                self.lost
            );
            self.problem = Some(Box::new(Problem {
                class: ErrorClass::Transient,
                operation: Operation::Get,
                message: message.into(),
            }));
            around.pace.quota
        };
        self.due = Some(around.now + pause);
        vec![Note::warning(
            EventReason::Lost,
            format!("instance {id} is gone and is created again"),
        )]
    }

    fn deleted(&mut self, around: &Around<'_>) {
        self.succeeded();
        self.leaving = true;
        self.verdict = None;
        if self.blind {
            // `get` cannot say when it is gone, and `delete` has done all that can be done.
            self.backend = Backend::Gone;
            self.created = None;
        } else {
            self.backend = Backend::Leaving;
            self.due = Some(around.now + around.pace.deletion);
        }
    }

    fn failed(&mut self, error: ProviderError, around: &Around<'_>) -> Vec<Note> {
        let deleting = around.object.is_deleting();
        let permanent = matches!(
            error.class,
            ErrorClass::Permanent | ErrorClass::AdoptionConflict
        );
        let permanent = permanent && !error.heals;
        self.answered = true;
        let pause = if error.class == ErrorClass::QuotaExceeded {
            around.pace.quota
        } else {
            self.failures = self.failures.saturating_add(1);
            around.pace.backoff(self.failures, around.chance)
        };
        self.due = Some(around.now + pause);
        match error.operation {
            // Refused whole, or cut off who knows where.
            Operation::Create => {
                if matches!(error.class, ErrorClass::Transient | ErrorClass::NotFound) {
                    (self.in_doubt, self.doubted) = (true, Some(around.now));
                }
            }
            Operation::Get if permanent && deleting => {
                // Deletion goes on at once with `delete`, for `get` is of no help.
                (self.blind, self.due) = (true, None);
            }
            // Gone, it seems: look before telling it again.
            Operation::Delete if error.class == ErrorClass::NotFound => {
                self.backend = Backend::Leaving;
            }
            _ => {}
        }
        if permanent && !deleting {
            self.latched = true;
            self.lose_sight();
        }
        let known = self
            .problem
            .as_ref()
            .is_some_and(|p| *p.message == *error.message);
        let reason = if deleting {
            EventReason::CleanupFailed
        } else {
            EventReason::ProvisioningFailed
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
