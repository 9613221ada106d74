//! A Managed proxy that lives: every step.

use super::machine::*;
use crate::{
    provider::contract::{ErrorClass::*, InstanceState, Operation},
    proxy::{
        memory::Event,
        next::{Next, UNCERTAIN},
    },
};
use crds::{Phase, conditions::ConditionType::*};

const MINUTE: std::time::Duration = std::time::Duration::from_mins(1);

fn next_create(hash: &str) -> Next {
    Next::Create(hash.into())
}
fn next_get() -> Next {
    Next::Get("x".into())
}
fn next_delete() -> Next {
    Next::Delete("x".into())
}
fn told(m: &Machine) -> (Phase, String, String) {
    m.told()
}
fn words(phase: Phase, provisioned: &str, synced: &str) -> (Phase, String, String) {
    (phase, provisioned.into(), synced.into())
}

#[test]
fn nothing_is_created_before_the_finalizer_and_the_hash_are_there() {
    let m = creating();
    assert_eq!(m.writes, ["status", "hold", "hash"]);
    assert_eq!(told(&m), words(Phase::Pending, "!Creating", "Reconciled"));
}

#[test]
fn foreign_finalizers_stay() {
    let mut m = managed().held_by_another();
    m.run();
    let finalizers = m.object.metadata.finalizers.clone().unwrap();
    assert_eq!(finalizers, ["example.org/other", crds::names::FINALIZER]);
}

#[test]
fn a_provider_that_is_not_configured_is_not_asked_until_it_is() {
    let mut m = managed();
    m.config = None;
    assert_eq!(m.run(), Next::Rest);
    let reason = "!ProviderNotConfigured";
    assert_eq!(told(&m), words(Phase::Failed, reason, reason));
    assert!(m.message(Provisioned).contains("\"lab\""));
    m.config = Some(1);
    assert_eq!(m.run(), Next::Resolve);
}

#[test]
fn a_provider_that_leaves_the_config_takes_its_proxies_out_of_service() {
    let mut m = ready();
    m.config = None;
    assert_eq!(m.run(), Next::Rest);
    let reason = "!ProviderNotConfigured";
    assert_eq!(told(&m), words(Phase::Failed, reason, reason));
    assert_eq!(m.says(Ready), reason);
    assert!(!m.memory.runs(&m.object));
    let before = m.object.clone();
    let mut again = Machine::of(m.object.clone());
    again.config = None;
    assert_eq!(again.run(), Next::Rest);
    assert_eq!(again.object, before, "a restart says something else");
    m.config = Some(1);
    assert_eq!(m.run(), next_get());
    m.hear(got(InstanceState::Running, Some("10.0.0.1")));
    m.run();
    assert_eq!(
        told(&m),
        words(Phase::Provisioning, "Running", "Reconciled")
    );
}

#[test]
fn a_created_instance_is_recorded_before_it_is_looked_at() {
    let mut m = creating();
    m.forget();
    m.hear(made("x"));
    assert_eq!(m.run(), next_get());
    assert_eq!(m.writes, ["status"]);
    assert_eq!(m.recorded_id(), Some("x"));
    assert_eq!(
        told(&m),
        words(Phase::Provisioning, "!Creating", "Reconciled")
    );
    assert_eq!(m.events(), ["Created"]);
}

#[test]
fn what_the_provider_notes_about_a_creation_reaches_the_user() {
    let mut m = creating();
    m.forget();
    let created = crate::provider::contract::Created {
        id: "x".into(),
        operation: None,
        notes: vec![(crate::events::EventReason::CloudInitIgnored, "zone".into())],
    };
    m.hear(Event::Created(Ok(created)));
    assert_eq!(m.events(), ["Created", "!CloudInitIgnored"]);
}

#[test]
fn an_instance_that_is_stuck_is_told_once_and_left_alone() {
    let mut m = created();
    m.forget();
    for _ in 0..3 {
        m.hear(stuck("its disk has no room"));
        assert_eq!(m.sleeps(), 10 * SECOND);
        assert_eq!(m.says(Synced), "!TransientError");
        assert_eq!(m.message(Synced), "its disk has no room");
        assert_eq!(m.wakes(), next_get());
    }
    assert_eq!(m.events(), ["!InstanceStuck"]);
    m.hear(got(InstanceState::Running, Some("10.0.0.1")));
    m.run();
    assert_eq!(m.says(Synced), "Reconciled");
}

#[test]
fn an_instance_is_polled_until_it_runs_with_an_address_and_then_rarely() {
    let mut m = created();
    for state in [InstanceState::Provisioning, InstanceState::Running] {
        m.hear(got(state, None));
        assert_eq!(m.sleeps(), 10 * SECOND);
        assert_eq!(
            told(&m),
            words(Phase::Provisioning, "!Booting", "Reconciled")
        );
        assert_eq!(m.wakes(), next_get());
    }
    m.hear(got(InstanceState::Running, Some("10.0.0.1")));
    assert_eq!(m.sleeps(), 2 * MINUTE);
    assert_eq!(
        told(&m),
        words(Phase::Provisioning, "Running", "Reconciled")
    );
    let status = m.object.status.clone().unwrap();
    assert_eq!(status.ip.as_deref(), Some("10.0.0.1"));
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn steady_looks_and_probes_write_nothing() {
    let mut m = ready();
    for _ in 0..5 {
        assert_eq!(m.wakes(), next_get());
        m.hear(got(InstanceState::Running, Some("10.0.0.1")));
        m.run();
    }
    assert_eq!(m.writes, [""; 0]);
    assert_eq!(m.events(), [""; 0]);
}

#[test]
fn a_proxy_that_stops_egressing_is_looked_at_at_once() {
    let mut m = ready();
    m.hear(Event::Judged(unhealthy("no route")));
    assert_eq!(m.run(), next_get());
    m.hear(got(InstanceState::Running, Some("10.0.0.1")));
    m.run();
    m.hear(Event::Judged(unhealthy("no route")));
    assert!(matches!(m.run(), Next::Sleep(_)), "once for each flip");
}

#[test]
fn a_new_address_has_no_verdict() {
    let mut m = ready();
    m.wakes();
    m.hear(got(InstanceState::Running, Some("10.0.0.2")));
    m.run();
    assert_eq!(
        told(&m),
        words(Phase::Provisioning, "Running", "Reconciled")
    );
    assert_eq!(m.says(Healthy), "?NotProbedYet");
}

#[test]
fn a_lost_instance_is_created_again_after_a_second() {
    let mut m = ready();
    m.wakes();
    m.hear(not_found());
    assert_eq!(m.sleeps(), SECOND);
    assert_eq!(m.recorded_id(), None);
    assert_eq!(
        told(&m),
        words(Phase::Provisioning, "!Creating", "Reconciled")
    );
    assert_eq!(m.events(), ["!Lost"]);
    assert_eq!(m.wakes(), next_create("h1"));
}

#[test]
fn instances_that_never_show_up_are_not_made_again_and_again() {
    let mut m = creating();
    for round in 1..=7 {
        m.hear(made("x"));
        assert_eq!(m.run(), next_get());
        let patient = round <= 5;
        assert_eq!(
            m.says(Synced),
            if patient {
                "Reconciled"
            } else {
                "!TransientError"
            }
        );
        m.hear(not_found());
        let pause = if round < 5 { SECOND } else { 5 * MINUTE };
        assert_eq!(m.sleeps(), pause, "round {round}");
        assert_eq!(m.wakes(), next_create("h1"));
    }
    assert!(
        m.message(Synced).starts_with("7 instances in a row"),
        "{}",
        m.message(Synced)
    );
    m.hear(made("x"));
    m.run();
    m.hear(got(InstanceState::Provisioning, None));
    m.run();
    assert_eq!(m.says(Synced), "Reconciled");
}

#[test]
fn a_stopped_instance_goes_and_is_made_anew() {
    for state in [InstanceState::Stopped, InstanceState::Terminated] {
        let mut m = ready();
        m.wakes();
        m.hear(got(state, None));
        assert_eq!(m.run(), next_delete());
        assert_eq!(
            told(&m),
            words(Phase::Provisioning, "!Stopped", "Reconciled")
        );
        assert_eq!(m.object.status.as_ref().unwrap().ip, None);
        m.hear(Event::Deleted(Ok(())));
        assert_eq!(m.sleeps(), 10 * SECOND);
        assert_eq!(m.recorded_id(), Some("x"));
        assert_eq!(m.wakes(), next_get());
        // It is not believed to run, whatever it says on its way out.
        m.hear(got(InstanceState::Running, Some("10.0.0.1")));
        assert_eq!(m.run(), next_delete());
        m.hear(Event::Deleted(Ok(())));
        assert_eq!(m.wakes(), next_get());
        m.hear(not_found());
        assert_eq!(m.run(), next_create("h1"));
        assert_eq!(m.events(), ["!Stopped", "Deleted"]);
    }
}

#[test]
fn a_changed_spec_replaces_the_instance() {
    let mut m = replacing();
    assert_eq!(
        told(&m),
        words(Phase::Provisioning, "!Replacing", "Reconciled")
    );
    assert!(!m.memory.runs(&m.object));
    m.hear(Event::Deleted(Ok(())));
    assert_eq!(m.sleeps(), 10 * SECOND);
    assert_eq!(
        m.object.spec_hash(),
        Some("h1"),
        "the old one is still there"
    );
    assert_eq!(m.wakes(), next_get());
    m.hear(not_found());
    m.forget();
    assert_eq!(m.run(), next_create("h2"));
    assert_eq!(m.writes, ["hash", "status"]);
    assert_eq!(m.recorded_id(), None);
}

#[test]
fn a_replacement_whose_instance_is_gone_already_creates_at_once() {
    let mut m = ready().edited();
    m.run();
    m.hear(Event::Resolved(Ok("h2".into())));
    assert_eq!(m.run(), next_get());
    m.hear(not_found());
    assert_eq!(m.run(), next_create("h2"));
    assert_eq!(m.events(), ["Replacing", "Deleted"]);
}

#[test]
fn a_change_that_leaves_the_instance_as_it_is_replaces_nothing() {
    let mut m = ready().edited();
    assert_eq!(m.run(), Next::Resolve);
    assert_eq!(m.observed_generation(), Some(1), "the pass is not over");
    m.hear(Event::Resolved(Ok("h1".into())));
    assert_eq!(m.sleeps(), 2 * MINUTE);
    assert_eq!(told(&m).0, Phase::Ready);
    assert_eq!(m.observed_generation(), Some(2));
}

#[test]
fn a_change_that_is_taken_back_before_the_instance_was_told_to_go_keeps_it() {
    let mut m = ready().edited();
    m.run();
    m.hear(Event::Resolved(Ok("h2".into())));
    assert_eq!(m.run(), next_get());
    let mut m = m.edited();
    m.hear(got(InstanceState::Running, Some("10.0.0.1")));
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Resolved(Ok("h1".into())));
    m.sleeps();
    assert_eq!(told(&m).1, "Running");
}

#[test]
fn a_change_that_is_taken_back_later_makes_the_same_instance_anew() {
    let mut m = replacing();
    m.hear(Event::Deleted(Ok(())));
    m.run();
    let mut m = m.edited();
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Resolved(Ok("h1".into())));
    assert!(!m.memory.runs(&m.object), "it was told to go");
    m.pass(10 * SECOND);
    assert_eq!(m.run(), next_get());
    m.hear(not_found());
    assert_eq!(m.run(), next_create("h1"));
}

#[test]
fn a_change_during_create_replaces_what_it_made() {
    let mut m = creating().edited();
    m.hear(made("x"));
    assert_eq!(m.run(), Next::Resolve);
    assert_eq!(m.recorded_id(), Some("x"));
    m.hear(Event::Resolved(Ok("h2".into())));
    assert_eq!(m.run(), next_get());
    assert_eq!(m.says(Provisioned), "!Replacing");
}

#[test]
fn what_a_cut_off_create_may_have_left_is_not_taken_for_the_new_spec() {
    let cut_off = |mut m: Machine| {
        m.hear(fails(Operation::Create, Transient));
        m.run();
        m
    };
    for doubt in [cut_off, Machine::restarted] {
        let mut m = doubt(creating()).edited();
        assert_eq!(m.run(), Next::Resolve);
        m.hear(Event::Resolved(Ok("h2".into())));
        m.pass(MINUTE);
        assert_eq!(m.run(), next_create("h2"));
        assert_eq!(m.object.spec_hash(), Some(UNCERTAIN), "it may be adopted");
        m.hear(made("x"));
        assert_eq!(m.run(), next_get());
        assert!(m.memory.is_replacing(&m.object));
    }
}

#[test]
fn a_create_that_was_refused_leaves_nothing_in_doubt() {
    let mut m = creating();
    m.hear(fails(Operation::Create, Permanent));
    assert_eq!(m.run(), Next::Rest);
    let mut m = m.edited();
    m.run();
    m.hear(Event::Resolved(Ok("h2".into())));
    assert_eq!(m.run(), next_create("h2"));
    assert_eq!(m.object.spec_hash(), Some("h2"));
}

#[test]
fn an_instance_that_nobody_recorded_has_time_to_show_before_it_is_looked_for() {
    let mut m = creating();
    m.hear(fails(Operation::Create, Transient));
    let mut m = m.edited();
    m.run();
    m.hear(Event::Resolved(Ok("h2".into())));
    assert!(matches!(m.run(), Next::Sleep(_)));
    assert_eq!(m.object.spec_hash(), Some(UNCERTAIN));
    m.pass(9 * SECOND);
    assert!(matches!(m.run(), Next::Sleep(_)));
    m.pass(SECOND);
    assert_eq!(m.run(), next_create("h2"));
}
