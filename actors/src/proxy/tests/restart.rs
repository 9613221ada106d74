//! The actor, or the operator, is started again: what the object says is where it goes on.

use super::machine::*;
use crate::{
    provider::contract::{ErrorClass::*, InstanceState, Operation},
    proxy::{candidate_of, memory::Event, next::Next},
};
use crds::{Phase, conditions::ConditionType::*};

fn latched() -> Machine {
    let mut m = creating();
    m.hear(fails(Operation::Create, Permanent));
    m.run();
    m
}

fn full() -> Machine {
    let mut m = creating();
    m.hear(fails(Operation::Create, QuotaExceeded));
    m.run();
    m
}

fn unreachable() -> Machine {
    let mut m = ready();
    m.wakes();
    m.hear(fails(Operation::Get, Transient));
    m.run();
    m
}

fn booting() -> Machine {
    let mut m = created();
    m.hear(got(InstanceState::Provisioning, None));
    m.run();
    m
}

/// In whatever state: nothing is written before the backend was asked, which happens at once.
#[test]
fn a_restart_writes_nothing_and_asks_the_backend_once() {
    for (state, m) in [
        ("creating", creating()),
        ("created", created()),
        ("booting", booting()),
        ("ready", ready()),
        ("unreachable", unreachable()),
        ("latched", latched()),
        ("full", full()),
        ("replacing", replacing()),
        ("leaving", leaving()),
    ] {
        let hash = if state == "replacing" { "h2" } else { "h1" };
        let before = m.object.clone();
        let mut m = m.restarted();
        let mut next = m.run();
        if next == Next::Resolve {
            m.hear(Event::Resolved(Ok(hash.into())));
            next = m.run();
        }
        let asks = matches!(next, Next::Get(_) | Next::Create(_));
        assert!(asks, "{state}: {next:?}");
        let mut now = m.object.clone();
        // That a pass is under way may show.
        if let (Some(now), Some(before)) = (&mut now.status, &before.status) {
            now.observed_generation = before.observed_generation;
        }
        assert_eq!(now, before, "{state}");
        assert_eq!(m.writes, [""; 0], "{state}");
    }
}

#[test]
fn a_ready_proxy_stays_leasable() {
    let m = ready().restarted();
    let candidate = candidate_of(&m.object).expect("is offered");
    assert!(candidate.healthy);
    assert_eq!(
        (&*candidate.ip, candidate.phase),
        ("10.0.0.1", Phase::Ready)
    );
    assert_eq!(candidate.latency_millis, Some(7));
    for gone in [replacing(), leaving()] {
        assert_eq!(candidate_of(&gone.object), None);
    }
    for not_healthy in [running(), created(), latched()] {
        assert!(!candidate_of(&not_healthy.object).expect("is shown").healthy);
    }
}

#[test]
fn an_unhealthy_proxy_stays_unhealthy() {
    let mut m = ready();
    m.hear(Event::Judged(unhealthy("refused")));
    m.run();
    let mut m = m.restarted();
    assert_eq!(m.run(), Next::Resolve);
    assert_eq!(
        (m.told().0, m.message(Healthy)),
        (Phase::Unhealthy, "refused")
    );
    assert_eq!(m.memory.verdict.as_deref(), Some(&unhealthy("refused")));
}

#[test]
fn an_instance_that_went_meanwhile_is_found_out() {
    let mut m = ready().restarted();
    m.run();
    m.hear(Event::Resolved(Ok("h1".into())));
    assert_eq!(m.run(), Next::Get("x".into()));
    m.hear(not_found());
    assert_eq!(m.wakes(), Next::Create("h1".into()));
}

#[test]
fn a_latch_is_tried_once_and_holds_again() {
    let mut m = latched().restarted();
    m.run();
    m.hear(Event::Resolved(Ok("h1".into())));
    assert_eq!(m.run(), Next::Create("h1".into()));
    m.hear(fails(Operation::Create, Permanent));
    assert_eq!(m.run(), Next::Rest);
    assert_eq!(m.told().0, Phase::Failed);
}

#[test]
fn a_replacement_goes_on() {
    let mut m = replacing();
    m.hear(Event::Deleted(Ok(())));
    m.run();
    let mut m = m.restarted();
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Resolved(Ok("h2".into())));
    assert_eq!(m.run(), Next::Get("x".into()));
    m.hear(not_found());
    assert_eq!(m.run(), Next::Create("h2".into()));
}
