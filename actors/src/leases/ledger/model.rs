//! The rules again, as slow and plain as they can be: the ledger must give the same answers.

use crate::{
    key::ProxyKey,
    leases::{
        journal::Holder,
        now::Now,
        terms::{
            AcquireError, AcquireRequest, Candidate, LeaseId, NoMatch, ReportResult, Terms,
            UnknownLease,
        },
    },
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

#[derive(Clone, Debug)]
struct Lease {
    id: LeaseId,
    of: Holder,
    request: AcquireRequest,
    key: Option<String>,
    ends: Duration,
    /// Set by a release.
    forgotten: Option<Duration>,
}

#[derive(Debug)]
pub struct Model {
    pub terms: Terms,
    pub fleet: Vec<Arc<Candidate>>,
    leases: Vec<Lease>,
    cooldowns: BTreeMap<(ProxyKey, Arc<str>, Option<Arc<str>>), Duration>,
}

impl Model {
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            fleet: Vec::new(),
            leases: Vec::new(),
            cooldowns: BTreeMap::new(),
        }
    }

    pub fn upsert(&mut self, candidate: Arc<Candidate>) {
        self.remove(&candidate.key);
        self.fleet.push(candidate);
    }

    pub fn remove(&mut self, key: &ProxyKey) {
        self.fleet.retain(|other| other.key != *key);
    }

    fn is_live(lease: &Lease, now: Now) -> bool {
        lease.forgotten.is_none() && now.mono < lease.ends
    }

    fn live(&self, id: LeaseId, now: Now) -> Option<&Lease> {
        let found = self.leases.iter().find(|lease| lease.id == id);
        found.filter(|lease| Self::is_live(lease, now))
    }

    pub fn active(&self, candidate: &Candidate, now: Now) -> u32 {
        let holds = |lease: &&Lease| lease.of == holder(candidate) && Self::is_live(lease, now);
        u32::try_from(self.leases.iter().filter(holds).count()).unwrap()
    }

    fn cools(&self, candidate: &Candidate, target: Option<&Arc<str>>, now: Now) -> bool {
        let runs = |target: Option<&Arc<str>>| {
            let key = (
                candidate.key.clone(),
                candidate.uid.clone(),
                target.cloned(),
            );
            self.cooldowns
                .get(&key)
                .is_some_and(|until| now.mono < *until)
        };
        runs(None) || runs(target)
    }

    /// The id and proxy of the lease that must be given.
    pub fn acquire(
        &mut self,
        request: &AcquireRequest,
        key: Option<&str>,
        id: LeaseId,
        now: Now,
    ) -> Result<(LeaseId, ProxyKey), AcquireError> {
        let keyed = |lease: &&Lease| {
            key.is_some() && lease.key.as_deref() == key && Self::is_live(lease, now)
        };
        let held = self.leases.iter().find(keyed).cloned();
        if let Some(held) = &held {
            if held.request != *request {
                return Err(AcquireError::KeyReused);
            }
            if self
                .fleet
                .iter()
                .any(|candidate| holder(candidate) == held.of)
            {
                return Ok((held.id, held.of.key.clone()));
            }
        }
        let mut no = NoMatch::default();
        let mut fit: Vec<&Arc<Candidate>> = Vec::new();
        for candidate in &self.fleet {
            if !request
                .selector
                .iter()
                .all(|(k, v)| candidate.attributes.get(k) == Some(v))
            {
                continue;
            }
            no.considered += 1;
            if !candidate.healthy {
                no.unhealthy += 1;
            } else if self.active(candidate, now) >= candidate.max_leases {
                no.at_capacity += 1;
            } else if self.cools(candidate, request.target.as_ref(), now) {
                no.in_cooldown += 1;
            } else {
                fit.push(candidate);
            }
        }
        fit.sort_by_key(|c| {
            let latency = (c.latency_millis.is_none(), c.latency_millis);
            (self.active(c, now), latency, c.key.as_str().to_owned())
        });
        let chosen = (*fit.first().ok_or(AcquireError::NoMatch(no))?).clone();
        if let Some(held) = held {
            self.release(held.id, now);
        }
        self.leases.push(Lease {
            id,
            of: holder(&chosen),
            request: request.clone(),
            key: key.map(str::to_owned),
            ends: now.mono + request.ttl,
            forgotten: None,
        });
        Ok((id, chosen.key.clone()))
    }

    pub fn renew(&mut self, id: LeaseId, ttl: Duration, now: Now) -> Result<(), UnknownLease> {
        self.live(id, now).ok_or(UnknownLease)?;
        for lease in self.leases.iter_mut().filter(|lease| lease.id == id) {
            lease.ends = now.mono + ttl;
        }
        Ok(())
    }

    pub fn release(&mut self, id: LeaseId, now: Now) {
        let window = self.terms.report_window();
        for lease in self
            .leases
            .iter_mut()
            .filter(|l| l.id == id && Self::is_live(l, now))
        {
            lease.forgotten = Some(now.mono + window);
        }
    }

    pub fn report(
        &mut self,
        id: LeaseId,
        result: ReportResult,
        target: Option<&Arc<str>>,
        now: Now,
    ) -> Result<(), UnknownLease> {
        let lease = self
            .leases
            .iter()
            .find(|lease| lease.id == id)
            .ok_or(UnknownLease)?;
        if now.mono
            >= lease
                .forgotten
                .unwrap_or(lease.ends + self.terms.report_window())
        {
            return Err(UnknownLease);
        }
        let lasts = match result {
            ReportResult::Ok => return Ok(()),
            ReportResult::RateLimited => self.terms.lease_cooldown,
            ReportResult::Banned => self.terms.ban_cooldown,
        };
        let target = target.or(lease.request.target.as_ref()).cloned();
        let key = (lease.of.key.clone(), lease.of.uid.clone(), target);
        let until = self.cooldowns.entry(key).or_default();
        *until = (*until).max(now.mono + lasts);
        Ok(())
    }

    /// The end of a live lease, and its proxy.
    pub fn get(&self, id: LeaseId, now: Now) -> Result<(Duration, ProxyKey), UnknownLease> {
        let lease = self.live(id, now).ok_or(UnknownLease)?;
        Ok((lease.ends, lease.of.key.clone()))
    }

    pub fn leases_active(&self, now: Now) -> usize {
        self.leases
            .iter()
            .filter(|lease| Self::is_live(lease, now))
            .count()
    }

    pub fn cooldowns_active(&self, now: Now) -> usize {
        self.cooldowns
            .values()
            .filter(|until| now.mono < **until)
            .count()
    }

    /// Leases that can be reported on though they do not live.
    pub fn ended(&self, now: Now) -> usize {
        let window = self.terms.report_window();
        let known = self
            .leases
            .iter()
            .filter(|lease| now.mono < lease.forgotten.unwrap_or(lease.ends + window));
        known.count() - self.leases_active(now)
    }
}

fn holder(candidate: &Candidate) -> Holder {
    Holder {
        key: candidate.key.clone(),
        uid: candidate.uid.clone(),
    }
}
