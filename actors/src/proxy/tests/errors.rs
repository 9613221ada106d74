//! A Managed proxy that lives: what each class of error does.

use super::machine::*;
use crate::{
    provider::contract::{
        ErrorClass::{self, *},
        InstanceState, Operation,
    },
    proxy::{memory::Event, next::Next},
};
use crds::{Phase, conditions::ConditionType::*};

const MINUTE: std::time::Duration = std::time::Duration::from_mins(1);

fn next_create(hash: &str) -> Next {
    Next::Create(hash.into())
}
fn next_get() -> Next {
    Next::Get("x".into())
}
fn told(m: &Machine) -> (Phase, String, String) {
    m.told()
}
fn words(phase: Phase, provisioned: &str, synced: &str) -> (Phase, String, String) {
    (phase, provisioned.into(), synced.into())
}

/// Class, which call, then: how long it sleeps, what the object says.
#[test]
fn each_class_of_error_while_nothing_runs() {
    use Operation::{Create, Delete, Get};
    let at = |operation| match operation {
        Create => creating(),
        Get => created(),
        _ => {
            let mut m = created();
            m.hear(got(InstanceState::Stopped, None));
            m.run();
            m
        }
    };
    let backoff = SECOND.mul_f64(0.75);
    for (operation, class, pause, provisioned, synced) in [
        (
            Create,
            QuotaExceeded,
            5 * MINUTE,
            "!QuotaExceeded",
            "Reconciled",
        ),
        (
            Create,
            Transient,
            backoff,
            "!TransientError",
            "!TransientError",
        ),
        (
            Create,
            NotFound,
            backoff,
            "!TransientError",
            "!TransientError",
        ),
        (
            Get,
            QuotaExceeded,
            5 * MINUTE,
            "!QuotaExceeded",
            "Reconciled",
        ),
        (
            Get,
            Transient,
            backoff,
            "!TransientError",
            "!TransientError",
        ),
        (
            Delete,
            Transient,
            backoff,
            "!TransientError",
            "!TransientError",
        ),
        (
            Delete,
            NotFound,
            backoff,
            "!TransientError",
            "!TransientError",
        ),
    ] {
        let mut m = at(operation);
        let again = m.run();
        m.forget();
        m.hear(fails(operation, class));
        assert_eq!(m.sleeps(), pause, "{operation} {class}");
        assert_eq!(
            (&*told(&m).1, &*told(&m).2),
            (provisioned, synced),
            "{operation} {class}"
        );
        assert_eq!(m.message(Provisioned), format!("{operation} says {class}"));
        assert_eq!(m.events(), ["!ProvisioningFailed"]);
        let next = m.wakes();
        let looks_first = (operation, class) == (Delete, NotFound);
        assert_eq!(next, if looks_first { next_get() } else { again });
        // Said once.
        m.forget();
        m.hear(fails(operation, class));
        m.run();
        assert_eq!(m.events(), [""; 0]);
    }
}

#[test]
fn transient_errors_back_off_up_to_five_minutes_and_a_success_resets_them() {
    let mut m = created();
    let mut pauses = vec![];
    for _ in 0..11 {
        m.hear(fails(Operation::Get, Transient));
        pauses.push(m.sleeps().as_secs_f64() / 0.75);
        m.wakes();
    }
    assert_eq!(pauses[..4], [1.0, 2.0, 4.0, 8.0]);
    assert_eq!(pauses[8..], [256.0, 300.0, 300.0]);
    m.hear(got(InstanceState::Provisioning, None));
    assert_eq!(m.wakes(), next_get());
    assert_eq!(m.says(Synced), "Reconciled");
    m.hear(fails(Operation::Get, Transient));
    assert_eq!(m.sleeps(), SECOND.mul_f64(0.75));
}

#[test]
fn a_running_instance_keeps_its_verdict_when_the_backend_is_unreachable_or_full() {
    for (class, synced) in [
        (Transient, "!TransientError"),
        (QuotaExceeded, "Reconciled"),
    ] {
        let mut m = ready();
        m.wakes();
        m.hear(fails(Operation::Get, class));
        m.run();
        assert_eq!(told(&m), words(Phase::Ready, "Running", synced));
        assert_eq!(m.says(Healthy), "ProbeSucceeded");
    }
}

#[test]
fn a_permanent_error_stops_everything_until_something_changes() {
    fn config(mut m: Machine) -> Machine {
        m.config = Some(2);
        m
    }
    fn secret(mut m: Machine) -> Machine {
        m.hear(Event::SecretChanged);
        m
    }
    let changes: [fn(Machine) -> Machine; 3] = [Machine::edited, config, secret];
    for class in [Permanent, AdoptionConflict] {
        for change in changes {
            let mut m = creating();
            m.hear(fails(Operation::Create, class));
            assert_eq!(m.run(), Next::Rest);
            m.pass(100 * MINUTE);
            assert_eq!(m.run(), Next::Rest);
            let reason = match class {
                ErrorClass::Permanent => "!PermanentError",
                _ => "!AdoptionConflict",
            };
            assert_eq!(told(&m), words(Phase::Failed, reason, reason));
            assert_eq!(m.message(Provisioned), format!("create says {class}"));
            let mut m = change(m);
            let mut next = m.run();
            if next == Next::Resolve {
                m.hear(Event::Resolved(Ok("h1".into())));
                next = m.run();
            }
            assert_eq!(next, next_create("h1"));
        }
    }
}

#[test]
fn a_permanent_error_that_nothing_watched_mends_is_tried_again() {
    let heals = |operation| {
        let mut error = error(Permanent, operation);
        error.heals = true;
        error
    };
    let mut m = creating();
    m.hear(Event::Created(Err(heals(Operation::Create))));
    assert_eq!(m.sleeps(), SECOND.mul_f64(0.75));
    let said = words(Phase::Failed, "!PermanentError", "!PermanentError");
    assert_eq!(told(&m), said);
    assert_eq!(m.wakes(), next_create("h1"));
    // What runs goes on running, as far as anybody knows.
    let mut m = ready();
    m.wakes();
    m.hear(Event::Got(Err(heals(Operation::Get))));
    assert_eq!(m.sleeps(), SECOND.mul_f64(0.75));
    let said = words(Phase::Ready, "Running", "!PermanentError");
    assert_eq!(told(&m), said);
    assert_eq!(m.wakes(), next_get());
}

#[test]
fn a_permanent_error_about_a_running_instance_takes_it_out_of_service() {
    let mut m = ready();
    m.wakes();
    m.hear(fails(Operation::Get, Permanent));
    assert_eq!(m.run(), Next::Rest);
    assert_eq!(
        told(&m),
        words(Phase::Failed, "!PermanentError", "!PermanentError")
    );
    assert_eq!(m.recorded_id(), Some("x"));
    m.config = Some(2);
    assert_eq!(m.run(), next_get());
}

#[test]
fn the_api_server_is_spared_after_a_failure_and_the_backend_is_not() {
    let mut m = managed();
    m.hear(Event::ApiFailed);
    assert_eq!(m.sleeps(), SECOND.mul_f64(0.75));
    for _ in 0..10 {
        m.hear(Event::ApiFailed);
    }
    assert_eq!(m.sleeps(), 15 * SECOND);
    let mut m = ready();
    m.pass(10 * MINUTE);
    m.hear(Event::ApiFailed);
    assert_eq!(m.run(), next_get());
}

/// A creation that was accepted and failed then.
fn never_came(class: ErrorClass) -> Event {
    Event::Got(Err(error(class, Operation::Create)))
}

fn accepted(operation: &str) -> Event {
    let mut event = made("x");
    if let Event::Created(Ok(created)) = &mut event {
        created.operation = Some(operation.into());
    }
    event
}

/// The class, then: what comes next, after how long, and what the object says.
#[test]
fn a_creation_that_fails_after_it_was_accepted_is_told_in_the_backends_words_and_tried_again() {
    for (class, pause, said) in [
        (QuotaExceeded, Some(5 * MINUTE), "!QuotaExceeded"),
        (Transient, Some(SECOND.mul_f64(0.75)), "!TransientError"),
        (Permanent, None, "!PermanentError"),
    ] {
        let mut m = creating();
        m.hear(accepted("operation-1"));
        assert!(matches!(m.run(), Next::Sleep(_)), "it has a moment to show");
        m.pass(SECOND);
        assert_eq!(m.run(), next_get());
        assert_eq!(m.recorded_operation(), Some("operation-1"));
        m.forget();
        m.hear(never_came(class));
        let next = m.run();
        assert_eq!(m.says(Provisioned), said, "{class}");
        assert_eq!(m.message(Provisioned), format!("create says {class}"));
        assert_eq!(m.events(), ["!ProvisioningFailed"]);
        // The next creation has to be told from this one, also by a successor.
        assert_eq!(m.recorded_id(), None);
        assert_eq!(m.recorded_operation(), Some("operation-1"));
        match pause {
            Some(pause) => {
                assert_eq!(m.sleeps(), pause, "{class}");
                assert_eq!(m.wakes(), next_create("h1"));
            }
            None => assert_eq!(next, Next::Rest),
        }
    }
}

#[test]
fn a_deleted_proxy_whose_creation_failed_late_is_let_go() {
    let mut m = creating();
    m.hear(accepted("operation-1"));
    m.run();
    let mut m = m.deleted();
    assert_eq!(m.run(), next_get());
    m.hear(never_came(QuotaExceeded));
    m.run();
    assert!(!m.object.has_finalizer());
}
