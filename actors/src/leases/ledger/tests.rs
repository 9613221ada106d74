//! The rules, one by one, on a [`Desk`].

mod choice;
mod lives;
mod reports;
mod restarts;

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
        self.ledger = Ledger::restore(terms(), records, vec![], self.now);
    }
}
