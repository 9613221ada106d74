//! The rules, one by one.

use super::Ledger;
use crate::{
    key::ProxyKey,
    leases::{
        journal::{Entry, Record},
        now::Now,
        terms::{
            AcquireError::{KeyReused, NoMatch as Denied},
            AcquireRequest, Candidate, Grant, Granted, LeaseId, NoMatch,
            ReportResult::{self, Banned, Ok as Fine, RateLimited},
            Terms, UnknownLease, ViewFilter,
        },
    },
};
use crds::Phase;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

const TTL: u64 = 300;
const LIMITED: u64 = 100;
const BANNED: u64 = 400;

/// A ledger, a clock, and ids that count up.
struct Desk {
    ledger: Ledger,
    now: Now,
    last: u128,
}

fn terms() -> Terms {
    Terms {
        max_ttl: Duration::from_hours(1),
        lease_cooldown: Duration::from_secs(LIMITED),
        ban_cooldown: Duration::from_secs(BANNED),
    }
}

fn desk(proxies: impl IntoIterator<Item = Candidate>) -> Desk {
    let mut ledger = Ledger::new(terms());
    proxies.into_iter().for_each(|p| ledger.upsert(Arc::new(p)));
    Desk {
        ledger,
        now: Now {
            life: 1,
            mono: Duration::from_secs(7),
            wall: SystemTime::UNIX_EPOCH + Duration::from_hours(500_000),
        },
        last: 0,
    }
}

/// A healthy proxy with one slot, answering in 10 ms.
fn proxy(name: &str) -> Candidate {
    Candidate {
        key: ProxyKey::new("ns", name),
        uid: "1".into(),
        ip: "192.0.2.1".to_owned(),
        port: 3128,
        attributes: [("geo", "eu"), ("tier", name)]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into(),
        phase: Phase::Ready,
        healthy: true,
        latency_millis: Some(10),
        max_leases: 1,
    }
}

fn slots(n: u32, proxy: Candidate) -> Candidate {
    Candidate {
        max_leases: n,
        ..proxy
    }
}

fn latency(millis: Option<u32>, proxy: Candidate) -> Candidate {
    Candidate {
        latency_millis: millis,
        ..proxy
    }
}

fn sick(proxy: Candidate) -> Candidate {
    Candidate {
        healthy: false,
        ..proxy
    }
}

fn reborn(proxy: Candidate) -> Candidate {
    Candidate {
        uid: "2".into(),
        ..proxy
    }
}

fn any() -> AcquireRequest {
    AcquireRequest {
        selector: [].into(),
        ttl: Duration::from_secs(TTL),
        target: None,
    }
}

fn for_target(target: &str) -> AcquireRequest {
    AcquireRequest {
        target: Some(target.into()),
        ..any()
    }
}

fn with(pairs: &[(&str, &str)]) -> AcquireRequest {
    let selector = pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned()));
    AcquireRequest {
        selector: selector.collect(),
        ..any()
    }
}

fn denied(considered: usize, unhealthy: usize, at_capacity: usize, in_cooldown: usize) -> NoMatch {
    NoMatch {
        considered,
        unhealthy,
        at_capacity,
        in_cooldown,
    }
}

impl Desk {
    fn ask(
        &mut self,
        request: &AcquireRequest,
        key: Option<&str>,
    ) -> Result<(Grant, Granted), super::AcquireError> {
        self.last += 1;
        self.ledger
            .acquire(request, key, LeaseId(self.last), self.now)
    }

    /// The name of the proxy that a request gets.
    fn gets(&mut self, request: &AcquireRequest) -> String {
        self.lease(request).key.name().to_owned()
    }

    fn lease(&mut self, request: &AcquireRequest) -> Grant {
        self.ask(request, None).unwrap().0
    }

    fn denial(&mut self, request: &AcquireRequest) -> NoMatch {
        match self.ask(request, None) {
            Err(Denied(no)) => no,
            other => panic!("{other:?}"),
        }
    }

    fn keyed(&mut self, request: &AcquireRequest) -> (Grant, Granted) {
        self.ask(request, Some("key")).unwrap()
    }

    fn release(&mut self, lease: &Grant) {
        self.ledger.release(lease.id, self.now);
    }

    fn report(
        &mut self,
        lease: &Grant,
        result: ReportResult,
        target: Option<&str>,
    ) -> Result<(), UnknownLease> {
        let target = target.map(Arc::from);
        self.ledger
            .report(lease.id, result, target.as_ref(), self.now)
    }

    fn is_live(&mut self, lease: &Grant) -> bool {
        self.ledger.get(lease.id, self.now).is_ok()
    }

    fn set(&mut self, proxy: Candidate) {
        self.ledger.upsert(Arc::new(proxy));
    }

    fn wait(&mut self, secs: u64) {
        self.now.mono += Duration::from_secs(secs);
        self.now.wall += Duration::from_secs(secs);
    }

    /// A new ledger from what was journalled, in the next process.
    fn restart(&mut self) {
        let mut records: Vec<Record> = Vec::new();
        for entry in self.ledger.take_entries() {
            let key = match &entry {
                Entry::Put(record) => record.key(),
                Entry::Drop(key) => key.clone(),
            };
            records.retain(|record| record.key() != key);
            if let Entry::Put(record) = entry {
                records.push(record);
            }
        }
        self.now.life += 1;
        self.now.mono = Duration::ZERO;
        self.ledger = Ledger::restore(terms(), records, self.now);
    }
}

#[test]
fn fewest_leases_then_lowest_latency_then_id() {
    let mut desk = desk([
        slots(2, latency(None, proxy("unmeasured"))),
        slots(2, latency(Some(20), proxy("slow"))),
        slots(2, latency(Some(5), proxy("quick-b"))),
        slots(2, latency(Some(5), proxy("quick-a"))),
    ]);
    let order = ["quick-a", "quick-b", "slow", "unmeasured"];
    for wanted in order.iter().chain(&order) {
        assert_eq!(desk.gets(&any()), *wanted);
    }
    assert_eq!(desk.denial(&any()), denied(4, 0, 4, 0));
}

#[test]
fn all_pairs_of_a_selector_must_match() {
    let mut desk = desk([proxy("a"), slots(9, proxy("b"))]);
    assert_eq!(desk.gets(&with(&[("geo", "eu"), ("tier", "b")])), "b");
    for selector in [
        &[("geo", "us")][..],
        &[("nope", "eu")],
        &[("geo", "eu"), ("tier", "c")],
    ] {
        assert_eq!(
            desk.denial(&with(selector)),
            denied(0, 0, 0, 0),
            "{selector:?}"
        );
    }
    let change = Candidate {
        attributes: [("geo".to_owned(), "us".to_owned())].into(),
        ..proxy("b")
    };
    desk.set(change);
    assert_eq!(desk.denial(&with(&[("tier", "b")])), denied(0, 0, 0, 0));
    assert_eq!(
        desk.denial(&with(&[("geo", "us")])),
        denied(1, 0, 1, 0),
        "its lease still counts"
    );
}

#[test]
fn a_refused_proxy_counts_once_by_the_first_reason() {
    let mut desk = desk([
        sick(slots(0, proxy("sick-and-full"))),
        slots(0, proxy("no-slots")),
        proxy("a"),
        proxy("b"),
    ]);
    let lease = desk.lease(&for_target("x.example"));
    desk.report(&lease, Banned, None).unwrap();
    assert_eq!(desk.gets(&for_target("x.example")), "b");
    assert_eq!(
        desk.denial(&for_target("x.example")),
        denied(4, 1, 3, 0),
        "full before cooling"
    );
    desk.release(&lease);
    assert_eq!(desk.denial(&for_target("x.example")), denied(4, 1, 2, 1));
    desk.set(sick(proxy("a")));
    assert_eq!(
        desk.denial(&for_target("x.example")),
        denied(4, 2, 2, 0),
        "unhealthy before cooling"
    );
}

#[test]
fn a_cooling_proxy_that_others_fill_is_at_capacity() {
    // More than are passed over one by one, so that the target has a queue of its own.
    let mut desk = desk(["a", "b", "c", "d"].map(proxy));
    let held: Vec<Grant> = (0..4)
        .map(|_| desk.lease(&for_target("x.example")))
        .collect();
    for lease in &held {
        desk.report(lease, Banned, None).unwrap();
        desk.release(lease);
    }
    assert_eq!(desk.denial(&for_target("x.example")), denied(4, 0, 0, 4));
    let other = desk.lease(&for_target("y.example"));
    assert_eq!(desk.denial(&for_target("x.example")), denied(4, 0, 1, 3));
    desk.release(&other);
    assert_eq!(desk.denial(&for_target("x.example")), denied(4, 0, 0, 4));
    desk.wait(BANNED);
    assert_eq!(desk.gets(&for_target("x.example")), "a");
}

#[test]
fn changes_apply_to_the_next_request_and_end_no_lease() {
    let mut desk = desk([slots(2, proxy("a"))]);
    let lease = desk.lease(&any());
    desk.lease(&any());
    desk.set(slots(1, proxy("a")));
    assert_eq!(desk.denial(&any()), denied(1, 0, 1, 0));
    assert_eq!(desk.ledger.leases_active(), 2);
    desk.release(&lease);
    assert_eq!(
        desk.denial(&any()),
        denied(1, 0, 1, 0),
        "one is left of one slot"
    );
    desk.set(slots(2, sick(proxy("a"))));
    assert_eq!(desk.denial(&any()), denied(1, 1, 0, 0));
    desk.set(slots(2, proxy("a")));
    assert_eq!(desk.gets(&any()), "a");
}

#[test]
fn a_lease_ends_at_its_end() {
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&any());
    assert_eq!(lease.expires_at, desk.now.wall + Duration::from_secs(TTL));
    assert_eq!(
        desk.ledger.next_expiry(),
        Some(desk.now.mono + Duration::from_secs(TTL))
    );
    desk.wait(TTL - 1);
    assert!(desk.is_live(&lease));
    assert_eq!(desk.denial(&any()), denied(1, 0, 1, 0));
    desk.wait(1);
    assert!(!desk.is_live(&lease));
    assert_eq!(
        desk.ledger.renew(lease.id, lease.ttl, desk.now),
        Err(UnknownLease)
    );
    assert_eq!(desk.gets(&any()), "a");
}

#[test]
fn renewing_counts_from_now() {
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&any());
    desk.wait(TTL - 1);
    let renewed = desk
        .ledger
        .renew(lease.id, Duration::from_secs(10), desk.now)
        .unwrap();
    assert_eq!(renewed.expires_at, desk.now.wall + Duration::from_secs(10));
    assert_eq!((renewed.id, renewed.ttl.as_secs()), (lease.id, 10));
    desk.wait(9);
    assert!(desk.is_live(&lease));
    desk.wait(1);
    assert!(!desk.is_live(&lease));
}

#[test]
fn a_step_of_the_wall_clock_ends_and_prolongs_nothing() {
    let hour = Duration::from_hours(1);
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&for_target("x.example"));
    desk.report(&lease, Banned, None).unwrap();
    desk.now.wall += hour;
    assert!(desk.is_live(&lease));
    desk.now.wall -= hour * 2;
    desk.wait(TTL);
    assert!(!desk.is_live(&lease));
    assert_eq!(desk.denial(&for_target("x.example")), denied(1, 0, 0, 1));
    desk.wait(BANNED - TTL);
    assert_eq!(desk.gets(&for_target("x.example")), "a");
}

#[test]
fn a_released_lease_is_gone_and_releasing_again_is_nothing() {
    let mut desk = desk([slots(2, proxy("a"))]);
    let lease = desk.lease(&any());
    let other = desk.lease(&any());
    desk.release(&lease);
    desk.release(&lease);
    assert!(!desk.is_live(&lease) && desk.is_live(&other));
    assert_eq!(desk.ledger.view(&other.key).unwrap().active_leases, 1);
    assert_eq!(
        desk.ledger.renew(lease.id, lease.ttl, desk.now),
        Err(UnknownLease)
    );
}

#[test]
fn the_same_key_gets_the_same_lease_while_it_lives() {
    let mut desk = desk([slots(5, proxy("a"))]);
    let (lease, granted) = desk.keyed(&any());
    assert_eq!(granted, Granted::Fresh);
    desk.wait(5);
    let (again, granted) = desk.keyed(&any());
    assert_eq!(
        (again.id, again.expires_at, granted),
        (lease.id, lease.expires_at, Granted::Repeated)
    );
    let renewed = desk.ledger.renew(lease.id, lease.ttl, desk.now).unwrap();
    assert_eq!(
        desk.keyed(&any()).0.expires_at,
        renewed.expires_at,
        "as it is now"
    );
    for other in [
        for_target("x.example"),
        with(&[("geo", "eu")]),
        AcquireRequest {
            ttl: Duration::from_secs(1),
            ..any()
        },
    ] {
        assert_eq!(desk.ask(&other, Some("key")), Err(KeyReused), "{other:?}");
    }
    assert_eq!(desk.ledger.leases_active(), 1);
    desk.release(&lease);
    let (fresh, granted) = desk.keyed(&for_target("x.example"));
    assert_eq!(granted, Granted::Fresh, "released");
    desk.wait(TTL);
    assert_ne!(desk.keyed(&any()).0.id, fresh.id, "expired");
}

#[test]
fn a_repeated_acquire_is_not_told_of_a_proxy_that_left() {
    let mut desk = desk([latency(Some(1), proxy("a")), proxy("b")]);
    let (lease, _) = desk.keyed(&any());
    desk.ledger.remove(&lease.key);
    let held = desk.lease(&any());
    assert_eq!(
        desk.ask(&any(), Some("key")),
        Err(Denied(denied(1, 0, 1, 0)))
    );
    assert!(desk.is_live(&lease), "nothing better was found");
    desk.release(&held);
    let (other, granted) = desk.keyed(&any());
    assert_eq!((other.key.name(), granted), ("b", Granted::Fresh));
    assert!(!desk.is_live(&lease));
}

#[test]
fn a_report_cools_its_target_or_the_leases_or_everything() {
    let (x, y) = (for_target("x.example"), for_target("y.example"));
    for (taken_for, said, blocked, free) in [
        (any(), Some("x.example"), vec![&x], vec![y.clone(), any()]),
        (
            y.clone(),
            Some("x.example"),
            vec![&x],
            vec![y.clone(), any()],
        ),
        (x.clone(), None, vec![&x], vec![y.clone(), any()]),
        (any(), None, vec![&x, &y], vec![]),
    ] {
        let mut desk = desk([slots(9, proxy("a"))]);
        let lease = desk.lease(&taken_for);
        desk.report(&lease, RateLimited, said).unwrap();
        for request in blocked {
            assert_eq!(
                desk.denial(request),
                denied(1, 0, 0, 1),
                "{taken_for:?} {said:?} {request:?}"
            );
        }
        for request in free {
            assert_eq!(
                desk.gets(&request),
                "a",
                "{taken_for:?} {said:?} {request:?}"
            );
        }
    }
}

#[test]
fn a_cooldown_lasts_as_long_as_its_reason_and_is_never_shortened() {
    for (reports, lasts) in [
        (&[Fine][..], 0),
        (&[RateLimited], LIMITED),
        (&[Banned], BANNED),
        (&[RateLimited, Banned], BANNED),
        (&[Banned, RateLimited, Fine], BANNED),
    ] {
        let mut desk = desk([slots(9, proxy("a"))]);
        let lease = desk.lease(&for_target("x.example"));
        for report in reports {
            desk.report(&lease, *report, None).unwrap();
        }
        assert_eq!(desk.ledger.cooldowns_active(), usize::from(lasts > 0));
        if lasts > 0 {
            desk.wait(lasts - 1);
            assert_eq!(
                desk.denial(&for_target("x.example")),
                denied(1, 0, 0, 1),
                "{reports:?}"
            );
            desk.wait(1);
        }
        assert_eq!(desk.gets(&for_target("x.example")), "a", "{reports:?}");
        assert_eq!(desk.ledger.cooldowns_active(), 0);
    }
}

#[test]
fn an_ended_lease_can_be_reported_on_for_one_window() {
    for released in [true, false] {
        let mut desk = desk([proxy("a")]);
        let lease = desk.lease(&for_target("x.example"));
        desk.wait(TTL - 1);
        if released {
            desk.release(&lease);
        } else {
            desk.wait(1);
        }
        desk.wait(BANNED - 1);
        assert_eq!(desk.report(&lease, RateLimited, None), Ok(()));
        assert_eq!(desk.denial(&for_target("x.example")), denied(1, 0, 0, 1));
        desk.wait(1);
        assert_eq!(desk.report(&lease, Fine, None), Err(UnknownLease));
    }
}

#[test]
fn many_targets_leave_no_memory_behind() {
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&any());
    for n in 0..10_000 {
        desk.report(&lease, Banned, Some(&format!("{n}.example")))
            .unwrap();
    }
    assert_eq!(desk.ledger.cooldowns_active(), 10_000);
    desk.wait(TTL + BANNED);
    desk.ledger.expire(desk.now);
    desk.ledger.remove(&lease.key);
    assert!(desk.ledger.is_blank());
}

#[test]
fn a_new_object_of_an_old_name_starts_afresh() {
    let mut desk = desk([proxy("a")]);
    let lease = desk.lease(&for_target("x.example"));
    desk.report(&lease, Banned, None).unwrap();
    desk.set(reborn(proxy("a")));
    assert_eq!(desk.gets(&for_target("x.example")), "a");
    let renewed = desk.ledger.renew(lease.id, lease.ttl, desk.now).unwrap();
    assert_eq!(renewed.proxy, None, "its own proxy is gone");
    desk.release(&lease);
    assert_eq!(desk.ledger.view(&lease.key).unwrap().active_leases, 1);
}

#[test]
fn a_proxy_that_comes_back_has_its_leases_and_cooldowns() {
    let mut desk = desk([slots(2, proxy("a"))]);
    let lease = desk.lease(&for_target("x.example"));
    desk.ledger.remove(&lease.key);
    assert_eq!(desk.denial(&any()), denied(0, 0, 0, 0));
    desk.report(&lease, Banned, None).unwrap();
    desk.set(slots(2, proxy("a")));
    assert_eq!(desk.ledger.view(&lease.key).unwrap().active_leases, 1);
    assert_eq!(desk.denial(&for_target("x.example")), denied(1, 0, 0, 1));
}

#[test]
fn a_restart_knows_what_was_granted_and_not_what_was_released() {
    let mut desk = desk([slots(2, proxy("a"))]);
    let released = desk.lease(&any());
    desk.release(&released);
    let (lease, _) = desk.keyed(&for_target("x.example"));
    desk.report(&lease, RateLimited, Some("y.example")).unwrap();
    desk.wait(50);
    desk.restart();
    assert!(desk.is_live(&lease), "before its proxy is");
    assert!(!desk.is_live(&released));
    desk.set(slots(2, proxy("a")));
    let (again, granted) = desk.keyed(&for_target("x.example"));
    assert_eq!(
        (again.id, again.expires_at, granted),
        (lease.id, lease.expires_at, Granted::Repeated)
    );
    assert_eq!(again.target.as_deref(), Some("x.example"));
    assert_eq!(desk.ask(&any(), Some("key")), Err(KeyReused));
    assert_eq!(desk.denial(&for_target("y.example")), denied(1, 0, 0, 1));
    assert_eq!(desk.gets(&any()), "a");
    assert_eq!(desk.denial(&any()), denied(1, 0, 1, 0), "capacity is right");
    assert_eq!(desk.report(&released, Fine, None), Ok(()));
    desk.wait(LIMITED - 50);
    assert_eq!(desk.ledger.cooldowns_active(), 1);
    desk.ledger.expire(desk.now);
    assert_eq!(desk.ledger.cooldowns_active(), 0);
    desk.wait(TTL - LIMITED);
    assert!(!desk.is_live(&lease));
}

#[test]
fn what_ended_while_nothing_ran_is_ended() {
    for (away, live, reportable, cooling, records) in [
        (TTL - 1, true, true, 1, 0),
        (TTL, false, true, 1, 0),
        (BANNED, false, true, 0, 1),
        (TTL + BANNED - 1, false, true, 0, 1),
        (TTL + BANNED, false, false, 0, 2),
    ] {
        let mut desk = desk([proxy("a")]);
        let lease = desk.lease(&for_target("x.example"));
        desk.report(&lease, Banned, None).unwrap();
        desk.wait(away);
        desk.restart();
        assert_eq!(
            desk.ledger.take_entries().len(),
            records,
            "records dropped after {away} s"
        );
        assert_eq!(desk.ledger.cooldowns_active(), cooling, "after {away} s");
        assert_eq!(desk.is_live(&lease), live, "after {away} s");
        assert_eq!(
            desk.report(&lease, Fine, None).is_ok(),
            reportable,
            "after {away} s"
        );
    }
}

#[test]
fn no_duration_overflows() {
    let endless = AcquireRequest {
        ttl: Duration::MAX,
        ..any()
    };
    let mut desk = desk([proxy("a")]);
    desk.ledger.terms.ban_cooldown = Duration::MAX;
    let lease = desk.lease(&endless);
    desk.report(&lease, Banned, Some("x.example")).unwrap();
    desk.wait(1_000_000);
    assert!(desk.is_live(&lease));
    assert!(
        desk.ledger
            .renew(lease.id, Duration::from_secs(u64::MAX), desk.now)
            .is_ok()
    );
    desk.restart();
    assert!(desk.is_live(&lease));
    assert_eq!(desk.ledger.cooldowns_active(), 1);
    desk.release(&lease);
}

#[test]
fn proxies_are_listed_by_id_and_filter() {
    let mut desk = desk([proxy("c"), sick(proxy("b")), proxy("a")]);
    desk.lease(&with(&[("tier", "c")]));
    for (healthy, attributes, wanted) in [
        (None, any(), vec![("a", 0), ("b", 0), ("c", 1)]),
        (Some(true), any(), vec![("a", 0), ("c", 1)]),
        (Some(false), any(), vec![("b", 0)]),
        (None, with(&[("geo", "eu"), ("tier", "c")]), vec![("c", 1)]),
        (None, with(&[("geo", "us")]), vec![]),
    ] {
        let attributes = attributes.selector;
        let views = desk.ledger.views(&ViewFilter {
            healthy,
            attributes,
        });
        let got: Vec<(&str, u32)> = views
            .iter()
            .map(|v| (v.candidate.key.name(), v.active_leases))
            .collect();
        assert_eq!(got, wanted);
    }
    assert_eq!(desk.ledger.view(&ProxyKey::new("ns", "d")), None);
}

#[test]
fn live_leases_are_listed() {
    let mut desk = desk([slots(3, proxy("a"))]);
    let leases = [(); 3].map(|()| desk.lease(&any()));
    desk.release(&leases[1]);
    let listed: Vec<LeaseId> = desk
        .ledger
        .leases(desk.now)
        .iter()
        .map(|grant| grant.id)
        .collect();
    assert_eq!(listed, [leases[0].id, leases[2].id]);
}
