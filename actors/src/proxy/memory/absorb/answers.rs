//! What the provider answered, and what that changes of what is known. Pure.

use crate::{
    events::EventReason,
    provider::contract::{Created, ErrorClass, Instance, InstanceState, Operation, ProviderError},
    proxy::memory::{Around, Backend, Memory, Note, Problem},
};
use std::time::Duration;

impl Memory {
    /// An answer of the backend that is no error.
    fn succeeded(&mut self) {
        self.answered = true;
        self.problem = None;
        self.failures = 0;
    }

    pub(super) fn created(&mut self, created: Created, around: &Around<'_>) -> Vec<Note> {
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

    pub(super) fn got(&mut self, instance: &Instance, around: &Around<'_>) -> Vec<Note> {
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
    pub(super) fn never_came(&mut self, error: ProviderError, around: &Around<'_>) -> Vec<Note> {
        if self.leaving || around.object.is_deleting() || self.is_replacing(around.object) {
            return self.gone(around);
        }
        let notes = self.failed(error, around);
        (self.backend, self.created, self.verdict) = (Backend::Gone, None, None);
        self.in_doubt = false;
        notes
    }

    pub(super) fn gone(&mut self, around: &Around<'_>) -> Vec<Note> {
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

    pub(super) fn deleted(&mut self, around: &Around<'_>) {
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

    pub(super) fn failed(&mut self, error: ProviderError, around: &Around<'_>) -> Vec<Note> {
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
}
