//! A proxy that is being deleted.

use super::machine::*;
use crate::{
    provider::contract::{ErrorClass::*, InstanceState, Operation},
    proxy::{memory::Event, next::Next},
};
use crds::{Phase, conditions::ConditionType::*};

fn next_get() -> Next {
    Next::Get("x".into())
}
fn next_delete() -> Next {
    Next::Delete("x".into())
}

#[track_caller]
fn releases(m: &mut Machine) {
    m.forget();
    assert_eq!(m.run(), Next::Rest);
    assert_eq!(m.writes.last(), Some(&"release"));
    m.forget();
    m.pass(1000 * SECOND);
    assert_eq!(m.run(), Next::Rest);
    assert_eq!(m.writes, [""; 0]);
}

#[test]
fn an_object_that_is_not_held_by_us_is_left_alone_once_it_says_that_it_goes() {
    for mut m in [managed(), external()] {
        m = m.held_by_another().deleted();
        assert_eq!(m.run(), Next::Rest);
        assert_eq!(m.told().0, Phase::Deleting);
        assert_eq!(m.writes, ["status"]);
        m.forget();
        assert_eq!(m.run(), Next::Rest);
        assert_eq!(m.writes, [""; 0]);
    }
}

#[test]
fn an_object_without_an_instance_is_released_at_once() {
    let mut m = creating().deleted();
    releases(&mut m);
}

#[test]
fn a_foreign_finalizer_stays_and_the_provider_is_not_asked_again() {
    let mut m = leaving().held_by_another();
    m.hear(not_found());
    releases(&mut m);
    let left = m.object.metadata.finalizers.clone().unwrap();
    assert_eq!(left, ["example.org/other"]);
    let mut again = Machine::of(m.object);
    assert_eq!(again.run(), Next::Rest);
}

#[test]
fn an_instance_is_told_to_go_at_every_look_until_it_is_gone() {
    let mut m = leaving();
    assert_eq!(m.told().0, Phase::Deleting);
    assert!(m.writes.is_empty());
    for state in [InstanceState::Running, InstanceState::Stopped] {
        m.hear(got(state, Some("10.0.0.1")));
        assert_eq!(m.run(), next_delete());
        m.hear(Event::Deleted(Ok(())));
        assert_eq!(m.sleeps(), 10 * SECOND);
        assert_eq!(m.wakes(), next_get());
    }
    m.hear(not_found());
    assert_eq!(m.events(), ["Deleted"]);
    releases(&mut m);
}

#[test]
fn skip_cleanup_abandons_the_instance_whatever_stands_in_the_way() {
    let mut unconfigured = leaving().skipping_cleanup();
    unconfigured.config = None;
    let mut failing = leaving();
    failing.hear(fails(Operation::Get, Transient));
    for mut m in [
        leaving().skipping_cleanup(),
        unconfigured,
        failing.skipping_cleanup(),
    ] {
        assert_eq!(m.run(), Next::Abandon("x".into()));
    }
    let mut nothing_there = creating().deleted().skipping_cleanup();
    releases(&mut nothing_there);
}

#[test]
fn skip_cleanup_means_nothing_while_it_lives() {
    assert!(matches!(ready().skipping_cleanup().run(), Next::Sleep(_)));
}

#[test]
fn a_provider_that_is_not_configured_holds_it_and_says_what_would_let_it_go() {
    let mut m = leaving();
    m.config = None;
    assert_eq!(m.run(), Next::Rest);
    assert_eq!(m.says(Synced), "!ProviderNotConfigured");
    for word in ["\"lab\"", "crawl.example.com/skip-cleanup=true"] {
        assert!(m.message(Synced).contains(word), "{}", m.message(Synced));
    }
    m.config = Some(1);
    assert_eq!(m.run(), next_get());
}

#[test]
fn where_get_cannot_converge_delete_may() {
    let mut m = leaving();
    m.hear(fails(Operation::Get, Permanent));
    assert_eq!(m.run(), next_delete());
    assert_eq!(m.says(Synced), "!PermanentError");
    m.hear(Event::Deleted(Ok(())));
    releases(&mut m);
}

#[test]
fn deletion_never_gives_up() {
    let mut m = leaving();
    m.hear(fails(Operation::Get, Permanent));
    m.run();
    for round in 1..12 {
        m.hear(fails(Operation::Delete, Permanent));
        assert!(m.sleeps() <= 300 * SECOND);
        assert_eq!(m.says(Synced), "!PermanentError");
        assert_eq!(m.wakes(), next_delete(), "round {round}");
    }
    assert!(m.object.has_finalizer());
    assert!(m.events().iter().all(|event| event == "!CleanupFailed"));
}

#[test]
fn each_class_of_error_while_it_is_deleted() {
    let backoff = SECOND.mul_f64(0.75);
    for (operation, class, pause, synced) in [
        (Operation::Get, Transient, backoff, "!TransientError"),
        (Operation::Get, QuotaExceeded, 300 * SECOND, "Reconciled"),
        (Operation::Delete, Transient, backoff, "!TransientError"),
        (Operation::Delete, QuotaExceeded, 300 * SECOND, "Reconciled"),
        (Operation::Delete, Permanent, backoff, "!PermanentError"),
        (
            Operation::Delete,
            AdoptionConflict,
            backoff,
            "!AdoptionConflict",
        ),
    ] {
        let mut m = leaving();
        if operation == Operation::Delete {
            m.hear(got(InstanceState::Running, Some("10.0.0.1")));
            m.run();
        }
        m.hear(fails(operation, class));
        assert_eq!(m.sleeps(), pause, "{operation} {class}");
        assert_eq!(m.says(Synced), synced, "{operation} {class}");
        assert_eq!(m.told().0, Phase::Deleting);
        assert!(m.object.has_finalizer());
    }
    for operation in [Operation::Get, Operation::Delete] {
        let mut m = leaving();
        m.hear(fails(operation, NotFound));
        releases(&mut m);
    }
}

#[test]
fn deletion_ends_a_latch_and_a_backoff_at_once() {
    for class in [Permanent, Transient, QuotaExceeded] {
        let mut m = ready();
        m.wakes();
        m.hear(fails(Operation::Get, class));
        m.run();
        let mut m = m.deleted();
        assert_eq!(m.run(), next_get(), "{class}");
    }
}

#[test]
fn deletion_during_create_takes_what_it_made_along() {
    let mut m = creating().deleted();
    m.hear(made("x"));
    assert_eq!(m.run(), next_get());
    assert_eq!(m.recorded_id(), Some("x"));
    m.hear(got(InstanceState::Provisioning, None));
    assert_eq!(m.run(), next_delete());
}

#[test]
fn deletion_during_a_replacement_creates_nothing() {
    let mut m = replacing();
    m.hear(Event::Deleted(Ok(())));
    let mut m = m.deleted();
    assert_eq!(m.run(), next_get());
    m.hear(not_found());
    releases(&mut m);
}

#[test]
fn an_external_proxy_has_nothing_to_clean_up() {
    let mut m = external();
    assert_eq!(m.run(), Next::Rest);
    assert_eq!(m.object.metadata.finalizers, None);
    // Somebody put our finalizer there.
    let mut m = m.deleted().with(|object| {
        object.metadata.finalizers = Some(vec![crds::names::FINALIZER.into()]);
    });
    releases(&mut m);
}
