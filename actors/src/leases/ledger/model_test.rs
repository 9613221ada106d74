//! Random lives of a ledger, compared call by call with the [`Model`].

use super::{Ledger, model::Model};
use crate::{
    key::ProxyKey,
    leases::{
        journal::{Journal, Writer, memory::MemoryJournal},
        now::Now,
        terms::{
            AcquireError, AcquireRequest, Candidate, Granted, LeaseId, ReportResult, Terms,
            ViewFilter,
        },
    },
};
use crds::Phase;
use futures::FutureExt;
use proptest::{collection::vec, prelude::*, sample::select};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

#[derive(Clone, Debug)]
enum Step {
    Upsert(Candidate),
    Remove(ProxyKey),
    Acquire(AcquireRequest, Option<&'static str>),
    /// The lease is the n-th last that was asked for.
    Renew(usize, Duration),
    Release(usize),
    Report(usize, ReportResult, Option<Arc<str>>),
    Wait(Duration),
    TurnClock(i32),
    /// The actor dies, the process goes on.
    Crash,
    /// The process dies; the clock goes on meanwhile.
    Restart(Duration),
}

fn keys() -> impl Strategy<Value = ProxyKey> {
    (select(vec!["a", "b"]), 0..6).prop_map(|(space, n)| ProxyKey::new(space, &format!("p{n}")))
}

fn attributes() -> impl Strategy<Value = BTreeMap<String, String>> {
    let pair = (select(vec!["geo", "kind", "tier"]), select(vec!["x", "y"]));
    vec(pair, 0..3).prop_map(|pairs| {
        pairs
            .into_iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    })
}

fn candidates() -> impl Strategy<Value = Candidate> {
    let uid = prop_oneof![6 => Just("1"), 1 => Just("2")];
    let latency = prop_oneof![Just(None), (0..3u32).prop_map(Some), Just(Some(u32::MAX))];
    (
        keys(),
        uid,
        attributes(),
        prop::bool::weighted(0.85),
        latency,
        0..4u32,
    )
        .prop_map(
            |(key, uid, attributes, healthy, latency_millis, max_leases)| Candidate {
                key,
                uid: uid.into(),
                ip: "192.0.2.1".to_owned(),
                port: 3128,
                attributes,
                phase: Phase::Ready,
                healthy,
                latency_millis,
                max_leases,
            },
        )
}

fn targets() -> impl Strategy<Value = Option<Arc<str>>> {
    select(vec![
        None,
        Some("x.example"),
        Some("y.example"),
        Some("z.example"),
    ])
    .prop_map(|t| t.map(Arc::from))
}

fn seconds(most: u64) -> impl Strategy<Value = Duration> {
    (1..=most).prop_map(Duration::from_secs)
}

fn steps() -> impl Strategy<Value = Step> {
    let results = select(vec![
        ReportResult::Ok,
        ReportResult::RateLimited,
        ReportResult::Banned,
    ]);
    let idempotency = select(vec![None, None, None, Some("k1"), Some("k2")]);
    let request =
        (attributes(), seconds(40), targets()).prop_map(|(selector, ttl, target)| AcquireRequest {
            // Few lengths, so that a key sometimes comes with the same request.
            selector: if ttl < Duration::from_secs(20) {
                BTreeMap::new()
            } else {
                selector
            },
            ttl: Duration::from_secs(ttl.as_secs() / 10 * 10 + 1),
            target,
        });
    prop_oneof![
        8 => candidates().prop_map(Step::Upsert),
        1 => keys().prop_map(Step::Remove),
        16 => (request, idempotency).prop_map(|(request, key)| Step::Acquire(request, key)),
        2 => (0..8usize, seconds(60)).prop_map(|(n, ttl)| Step::Renew(n, ttl)),
        4 => (0..8usize).prop_map(Step::Release),
        4 => (0..12usize, results, targets()).prop_map(|(n, result, target)| Step::Report(n, result, target)),
        3 => seconds(15).prop_map(Step::Wait),
        1 => (-9999..9999i32).prop_map(Step::TurnClock),
        1 => Just(Step::Crash),
        1 => seconds(5).prop_map(Step::Restart),
    ]
}

struct Life {
    ledger: Ledger,
    model: Model,
    journal: MemoryJournal,
    writer: Writer,
    now: Now,
    asked: Vec<LeaseId>,
    /// A clock that is stepped misleads the next process, so a life has either steps or restarts.
    steady: bool,
}

impl Life {
    fn new(steady: bool) -> Self {
        let terms = Terms {
            max_ttl: Duration::from_mins(1),
            lease_cooldown: Duration::from_secs(20),
            ban_cooldown: Duration::from_secs(45),
        };
        Self {
            ledger: Ledger::new(terms),
            model: Model::new(terms),
            journal: MemoryJournal::default(),
            writer: Writer::default(),
            now: Now {
                life: 1,
                mono: Duration::from_secs(100),
                wall: SystemTime::UNIX_EPOCH + Duration::from_hours(500_000),
            },
            asked: Vec::new(),
            steady,
        }
    }

    fn id(&self, back: usize) -> LeaseId {
        self.asked
            .iter()
            .rev()
            .nth(back)
            .copied()
            .unwrap_or(LeaseId(0))
    }

    fn journal(&mut self) {
        let entries = self.ledger.take_entries();
        self.journal
            .append(self.writer, entries)
            .now_or_never()
            .unwrap()
            .unwrap();
    }

    fn restore(&mut self) {
        let (writer, records) = self.journal.load().now_or_never().unwrap().unwrap();
        self.writer = writer;
        let pool = self.model.fleet.clone();
        self.ledger = Ledger::restore(self.model.terms, records, pool, self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now.mono += time;
        self.now.wall += time;
    }

    fn acquire(&mut self, request: &AcquireRequest, key: Option<&str>) {
        let id = LeaseId(self.asked.len() as u128 + 1);
        self.asked.push(id);
        let wanted = self.model.acquire(request, key, id, self.now);
        let got = self.ledger.acquire(request, key, id, self.now);
        match (&got, &wanted) {
            (Ok((grant, granted)), Ok((id_wanted, proxy))) => {
                assert_eq!((&grant.id, &grant.key), (id_wanted, proxy));
                assert_eq!(*granted == Granted::Fresh, *id_wanted == id);
                let view = grant.proxy.as_ref().unwrap();
                assert_eq!(
                    view.active_leases,
                    self.model.active(&view.candidate, self.now)
                );
                assert!(
                    *granted == Granted::Repeated
                        || view.active_leases <= view.candidate.max_leases
                );
            }
            (Err(got), Err(wanted)) => {
                assert_eq!(got, wanted);
                if let AcquireError::NoMatch(no) = got {
                    assert_eq!(
                        no.unhealthy + no.at_capacity + no.in_cooldown,
                        no.considered
                    );
                }
            }
            _ => panic!("got {got:?}, wanted {wanted:?}"),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Upsert(candidate) => {
                let candidate = Arc::new(candidate);
                self.model.upsert(candidate.clone());
                self.ledger.upsert(candidate);
            }
            Step::Remove(key) => {
                self.model.remove(&key);
                self.ledger.remove(&key);
            }
            Step::Acquire(request, key) => self.acquire(&request, key),
            Step::Renew(n, ttl) => {
                let wanted = self.model.renew(self.id(n), ttl, self.now);
                let got = self.ledger.renew(self.id(n), ttl, self.now);
                assert_eq!(
                    got.map(|grant| assert_eq!(grant.expires_at, self.now.wall + ttl)),
                    wanted
                );
            }
            Step::Release(n) => {
                self.model.release(self.id(n), self.now);
                self.ledger.release(self.id(n), self.now);
            }
            Step::Report(n, result, target) => {
                let wanted = self
                    .model
                    .report(self.id(n), result, target.as_ref(), self.now);
                let got = self
                    .ledger
                    .report(self.id(n), result, target.as_ref(), self.now);
                assert_eq!(got, wanted);
            }
            Step::Wait(time) => self.pass(time),
            Step::TurnClock(by) if !self.steady => self.step_wall(by),
            Step::Restart(time) if self.steady => {
                self.pass(time);
                self.now.life += 1;
                self.restore();
            }
            Step::TurnClock(_) => {}
            Step::Crash | Step::Restart(_) => self.restore(),
        }
        self.journal();
        self.compare();
    }

    fn step_wall(&mut self, by: i32) {
        let length = Duration::from_secs(by.unsigned_abs().into());
        self.now.wall = if by < 0 {
            self.now.wall - length
        } else {
            self.now.wall + length
        };
    }

    fn compare(&mut self) {
        let (ledger, model, now) = (&mut self.ledger, &self.model, self.now);
        ledger.expire(now);
        assert_eq!(ledger.leases_active(), model.leases_active(now));
        assert_eq!(ledger.cooldowns_active(), model.cooldowns_active(now));
        for view in ledger.views(&ViewFilter::default()) {
            assert_eq!(view.active_leases, model.active(&view.candidate, now));
        }
        for id in &self.asked {
            let got = ledger.get(*id, now);
            let wanted = model.get(*id, now);
            assert_eq!(got.map(|grant| grant.key), wanted.map(|(_, key)| key));
        }
        assert!(ledger.next_expiry().is_none_or(|next| next > now.mono));
        self.journal();
        let records = self.model.leases_active(now)
            + self.model.cooldowns_active(now)
            + self.model.ended(now);
        assert_eq!(
            self.journal.len(),
            records,
            "the journal is as large as what is live"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn answers_as_the_plain_rules_do(steady: bool, steps in vec(steps(), 1..120)) {
        let mut life = Life::new(steady);
        for step in steps {
            life.step(step);
        }
        // All memory is given back with what it was for.
        life.pass(Duration::from_secs(1000));
        life.ledger.expire(life.now);
        life.journal();
        prop_assert!(life.journal.is_empty());
        prop_assert_eq!(life.ledger.next_expiry(), None);
        let keys: Vec<ProxyKey> = life.model.fleet.iter().map(|c| c.key.clone()).collect();
        for key in keys {
            life.ledger.remove(&key);
        }
        prop_assert!(life.ledger.is_blank());
    }
}
