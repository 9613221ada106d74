//! A Managed proxy whose user-data is away, late or new.

use super::machine::*;
use crate::proxy::{memory::Event, next::Next};
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

#[test]
fn user_data_that_cannot_be_had_is_waited_for() {
    let mut m = managed();
    m.run();
    m.hear(Event::Resolved(Err("there is no Secret \"boot\"".into())));
    assert_eq!(m.run(), Next::Rest);
    let reason = "!CloudInitError";
    assert_eq!(told(&m), words(Phase::Pending, reason, reason));
    assert_eq!(m.message(Provisioned), "there is no Secret \"boot\"");
    assert_eq!(m.events(), ["!CloudInitError"]);
    m.hear(Event::SecretChanged);
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Resolved(Ok("h1".into())));
    assert_eq!(m.run(), next_create("h1"));
}

#[test]
fn what_runs_goes_on_while_its_secret_is_away() {
    let mut m = ready();
    m.hear(Event::SecretChanged);
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Resolved(Err("gone".into())));
    assert_eq!(m.wakes(), next_get());
    assert_eq!(told(&m), words(Phase::Ready, "Running", "!CloudInitError"));
    // Once it is lost, nothing can be made in its place.
    m.hear(not_found());
    assert_eq!(m.run(), Next::Rest);
    assert_eq!(m.says(Provisioned), "!CloudInitError");
    assert_eq!(m.recorded_id(), None);
}

#[test]
fn user_data_that_could_not_be_read_is_tried_again_and_the_object_says_why() {
    let mut m = managed();
    m.run();
    for _ in 0..10 {
        m.hear(Event::Unread("forbidden".into()));
        assert!(m.sleeps() <= 15 * SECOND);
        let reason = "!TransientError";
        assert_eq!(told(&m), words(Phase::Pending, reason, reason));
        assert_eq!(m.message(Synced), "forbidden");
        m.forget();
        assert_eq!(m.wakes(), Next::Resolve);
        assert_eq!(m.writes, [""; 0]);
    }
    m.hear(Event::Resolved(Ok("h1".into())));
    assert_eq!(m.run(), next_create("h1"));
    // What runs is looked after all the while.
    let mut m = ready();
    m.hear(Event::SecretChanged);
    m.run();
    m.hear(Event::Unread("forbidden".into()));
    assert_eq!(m.wakes(), Next::Resolve);
    assert_eq!(told(&m), words(Phase::Ready, "Running", "!TransientError"));
    m.hear(Event::Unread("forbidden".into()));
    m.pass(2 * MINUTE);
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Unread("forbidden".into()));
    assert_eq!(m.run(), next_get());
}

#[test]
fn an_answer_that_the_secret_or_the_spec_overtook_is_asked_for_again() {
    for change in [
        |m: Machine| m.edited(),
        |mut m: Machine| {
            m.hear(Event::SecretChanged);
            m
        },
    ] {
        let mut m = ready();
        m.hear(Event::SecretChanged);
        assert_eq!(m.run(), Next::Resolve);
        let mut m = change(m);
        m.hear(Event::Resolved(Ok("h1".into())));
        assert_eq!(m.run(), Next::Resolve, "the older answer was believed");
        m.hear(Event::Resolved(Ok("h2".into())));
        assert!(m.memory.is_replacing(&m.object));
    }
}

#[test]
fn user_data_that_changed_before_create_is_resolved_again() {
    let mut m = creating();
    m.hear(Event::Outdated);
    assert_eq!(m.run(), Next::Resolve);
}
