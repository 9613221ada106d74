//! Verdicts, and what the status says.

use super::machine::*;
use crate::{
    provider::contract::{ErrorClass, InstanceState, Operation},
    proxy::{memory::Event, next::Next},
};
use crds::{Phase, conditions::ConditionType::*};

#[test]
fn an_external_proxy_needs_two_writes_until_it_is_ready() {
    let mut m = external();
    assert_eq!(m.run(), Next::Rest);
    assert_eq!(m.says(Provisioned), "External");
    assert_eq!(
        (m.says(Healthy), m.says(Ready)),
        ("?NotProbedYet".into(), "!NotProbedYet".into())
    );
    assert_eq!(m.told().0, Phase::Provisioning);
    assert_eq!(m.observed_generation(), Some(1));
    m.hear(Event::Judged(healthy(7)));
    assert_eq!(m.run(), Next::Rest);
    assert_eq!(m.told().0, Phase::Ready);
    assert_eq!(m.writes, ["status", "status"]);
    let status = m.object.status.as_ref().unwrap();
    assert_eq!((&status.ip, &status.provider_id), (&None, &None));
    assert_eq!(status.latency_millis, Some(7));
}

#[test]
fn the_verdict_decides_between_ready_and_unhealthy() {
    for mut m in [external(), running()] {
        m.run();
        m.forget();
        for (verdict, phase, condition) in [
            (unhealthy("refused"), Phase::Unhealthy, "!ProbeFailed"),
            (healthy(7), Phase::Ready, "ProbeSucceeded"),
            (healthy(700), Phase::Ready, "ProbeSucceeded"),
            (unhealthy("timeout"), Phase::Unhealthy, "!ProbeFailed"),
        ] {
            m.hear(Event::Judged(verdict.clone()));
            m.run();
            assert_eq!((m.told().0, m.says(Healthy)), (phase, condition.into()));
            let ready = if verdict.healthy {
                "ProvisionedAndHealthy"
            } else {
                "!ProbeFailed"
            };
            assert_eq!(m.says(Ready), ready);
            if let Some(error) = &verdict.error {
                assert_eq!((m.message(Healthy), m.message(Ready)), (&**error, &**error));
            }
        }
        assert_eq!(m.writes, ["status"; 4]);
        assert_eq!(m.events(), ["!Unhealthy", "Healthy", "!Unhealthy"]);
    }
}

#[test]
fn the_same_verdict_again_writes_nothing() {
    let mut m = ready();
    m.hear(Event::Judged(healthy(7)));
    m.run();
    assert_eq!((m.writes.len(), m.notes.len()), (0, 0));
}

#[test]
fn a_verdict_about_an_instance_that_does_not_run_is_not_taken() {
    let mut left = replacing();
    left.hear(Event::Deleted(Ok(())));
    for mut m in [creating(), created(), replacing(), left] {
        m.hear(Event::Judged(healthy(7)));
        m.run();
        assert_eq!(m.says(Healthy), "?NotProbedYet");
        assert_ne!(m.says(Ready), "ProvisionedAndHealthy");
    }
}

#[test]
fn an_external_proxy_with_a_new_endpoint_has_no_verdict() {
    let judged = || {
        let mut m = external();
        m.run();
        m.hear(Event::Judged(healthy(7)));
        m.run();
        m
    };
    let moved = |m: Machine| {
        m.edited().with(|object| {
            let endpoint = object.spec.endpoint.as_mut().unwrap();
            endpoint.host = "other.example".into();
        })
    };
    for mut m in [moved(judged()), moved(judged()).restarted()] {
        m.run();
        assert_eq!(m.told().0, Phase::Provisioning);
        assert_eq!(m.says(Healthy), "?NotProbedYet");
    }
    let mut m = judged().edited().with(|object| object.spec.max_leases = 9);
    m.run();
    assert_eq!(m.told().0, Phase::Ready);
    assert_eq!(m.observed_generation(), Some(2));
}

#[test]
fn every_condition_says_which_generation_it_is_about() {
    let mut m = ready().edited();
    m.run();
    m.hear(Event::Resolved(Ok("h1".into())));
    m.run();
    for condition in m.object.conditions() {
        assert_eq!(
            condition.observed_generation,
            Some(2),
            "{}",
            condition.type_
        );
    }
    assert_eq!(m.object.conditions().len(), 4);
}

#[test]
fn a_prober_that_fails_shows_until_it_has_a_word_again() {
    let mut m = ready();
    m.hear(Event::ProberFailed("the prober failed 2 times".into()));
    m.run();
    assert_eq!(m.says(Synced), "!ActorFailed");
    assert_eq!(
        m.told().0,
        Phase::Ready,
        "a crash of ours makes nothing unhealthy"
    );
    m.hear(Event::Judged(healthy(7)));
    m.run();
    assert_eq!(m.says(Synced), "Reconciled");
}

#[test]
fn what_runs_is_not_called_ready_at_a_generation_that_nobody_has_looked_at() {
    let mut m = ready().with(|object| object.spec.port = 3129).edited();
    m.writes.clear();
    assert_eq!(m.run(), Next::Resolve);
    assert_eq!(m.writes, [""; 0], "said something of the new generation");
    m.hear(Event::Resolved(Ok("two".into())));
    m.run();
    assert_eq!(
        (m.says(Provisioned), m.says(Ready)),
        ("!Replacing".into(), "!Replacing".into())
    );
}

#[test]
fn an_edited_proxy_is_tried_before_it_is_called_failed() {
    let mut m = creating();
    m.hear(fails(Operation::Create, ErrorClass::Permanent));
    m.run();
    assert_eq!(m.told().0, Phase::Failed);
    let mut m = m.with(|object| object.spec.port = 3129).edited();
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Resolved(Ok("two".into())));
    assert_eq!(m.run(), Next::Create("two".into()));
    assert_eq!(m.says(Provisioned), "!Creating");
}

#[test]
fn what_is_edited_for_want_of_room_is_built_once() {
    let mut m = creating();
    m.hear(fails(Operation::Create, ErrorClass::QuotaExceeded));
    m.run();
    let mut m = m.with(|object| object.spec.port = 3129).edited();
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Resolved(Ok("two".into())));
    assert_eq!(m.run(), Next::Create("two".into()));
    m.hear(made("x"));
    m.run();
    m.hear(got(InstanceState::Running, Some("10.0.0.1")));
    assert!(matches!(m.run(), Next::Sleep(_)));
}
