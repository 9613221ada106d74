//! The rules of leasing, without a clock, a runtime or chance: everything follows from what the ledger is told.
//!
//! One actor owns it and asks; it answers at once. Guarantees:
//!
//! * Never more than `max_leases` live leases of one proxy are granted. Lowering it ends none.
//! * Each call sees the world as of its `now`: what ended until then is ended, without waiting for [`Ledger::expire`].
//! * What a call changed is in [`Ledger::take_entries`] afterwards. Journal that before the call is answered; a ledger
//!   whose entries could not be journalled is ahead of its journal, so drop it and [`Ledger::restore`].
//! * Choosing looks at the head of a queue, whatever the number of proxies: see the `index` module.
//!
//! A proxy that leaves the fleet ends no lease: the lease can be renewed, reported on and released, and counts again
//! when the same object comes back (after a restart everything comes back). A new object of the same name (another
//! UID) starts without leases and cooldowns. Only a repeated acquire is not told of a proxy that left: it is chosen
//! for anew, and the old lease is released.

mod book;
mod cooldowns;
mod index;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_test;
mod names;
mod queue;
mod ranks;
mod restore;
mod slots;
#[cfg(test)]
mod tests;

use self::{
    book::{Book, Ended, Lease},
    cooldowns::{Cooldowns, Prolonged},
    index::Index,
    names::{Scope, Targets},
    slots::SlotId,
};
use super::{
    journal::{Entry, Record, RecordKey},
    now::{Deadline, Now},
    terms::{
        AcquireError, AcquireRequest, Candidate, Grant, Granted, Idempotency, LeaseId,
        ReportResult, Terms, UnknownLease, View, ViewFilter,
    },
};
use crate::key::ProxyKey;
use std::{sync::Arc, time::Duration};

/// Every lease and cooldown.
#[derive(Debug)]
pub struct Ledger {
    terms: Terms,
    index: Index,
    book: Book,
    cooldowns: Cooldowns,
    targets: Targets,
    entries: Vec<Entry>,
}

impl Ledger {
    /// No proxies, no leases.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            index: Index::default(),
            book: Book::default(),
            cooldowns: Cooldowns::default(),
            targets: Targets::default(),
            entries: Vec::new(),
        }
    }

    /// The proxies of the fleet, by id.
    #[must_use]
    pub fn pool(&self) -> Vec<Arc<Candidate>> {
        let candidate = |id: &SlotId| self.index.slots[*id].candidate.clone();
        self.index.order.values().filter_map(candidate).collect()
    }

    /// A proxy came or changed; from the next request on.
    pub fn upsert(&mut self, candidate: Arc<Candidate>) {
        self.index.upsert(candidate, &self.cooldowns);
    }

    /// A proxy left, or must appear in no answer for a while.
    pub fn remove(&mut self, key: &ProxyKey) {
        self.index.remove(key);
    }

    /// The proxies that pass `filter`, by id.
    #[must_use]
    pub fn views(&self, filter: &ViewFilter) -> Vec<View> {
        let views = self.index.order.values().filter_map(|&id| {
            let candidate = self.index.slots[id].candidate.as_ref()?;
            let health = filter
                .healthy
                .is_none_or(|wanted| wanted == candidate.healthy);
            let pairs = &mut filter.attributes.iter();
            let passes = health && pairs.all(|(k, v)| candidate.attributes.get(k) == Some(v));
            passes.then(|| self.index.slots[id].view())?
        });
        views.collect()
    }

    /// One proxy.
    #[must_use]
    pub fn view(&self, key: &ProxyKey) -> Option<View> {
        let id = self.index.order.get(key)?;
        self.index.slots[*id].view()
    }

    /// Grants a lease under `id`, which was never used before.
    ///
    /// # Errors
    /// When no proxy fits, or `idempotency_key` belongs to another request whose lease lives.
    pub fn acquire(
        &mut self,
        request: &AcquireRequest,
        idempotency_key: Option<&str>,
        id: LeaseId,
        now: Now,
    ) -> Result<(Grant, Granted), AcquireError> {
        self.expire(now);
        let idempotency = idempotency_key.map(|key| {
            Arc::new(Idempotency {
                key: key.into(),
                fingerprint: request.fingerprint(),
            })
        });
        let mut superseded = None;
        if let Some(asked) = &idempotency
            && let Some((held, lease)) = self.book.keyed(&asked.key)
        {
            if lease.idempotency.as_ref() != Some(asked) {
                return Err(AcquireError::KeyReused);
            }
            if self.index.slots[lease.slot].candidate.is_some() {
                return Ok((self.grant(held, lease), Granted::Repeated));
            }
            superseded = Some(held);
        }

        // A target that nobody speaks of has no cooldowns.
        let scope = self
            .targets
            .find(request.target.as_ref())
            .unwrap_or_default();
        let cooling = self.targets.cooldowns(scope);
        let slot = self
            .index
            .choose(&request.selector, scope, cooling, &self.cooldowns)
            .map_err(AcquireError::NoMatch)?;
        if let Some(held) = superseded {
            self.release(held, now);
        }
        let ends = Deadline::after(now, request.ttl);
        let lease = Lease {
            slot,
            scope: self.targets.hold(request.target.as_ref()),
            ttl: request.ttl,
            ends: ends.mono,
            expires_at: ends.wall,
            idempotency,
        };
        self.index.take(slot, &self.cooldowns);
        self.record(id, &lease, ends);
        let grant = self.grant(id, &lease);
        self.book.open(id, lease);
        Ok((grant, Granted::Fresh))
    }

    /// Makes a live lease end `ttl` from now.
    ///
    /// # Errors
    /// When it does not live.
    pub fn renew(&mut self, id: LeaseId, ttl: Duration, now: Now) -> Result<Grant, UnknownLease> {
        self.expire(now);
        let ends = Deadline::after(now, ttl);
        let lease = self.book.renew(id, ttl, ends).ok_or(UnknownLease)?.clone();
        self.record(id, &lease, ends);
        Ok(self.grant(id, &lease))
    }

    /// Ends a lease; nothing to do when it does not live.
    pub fn release(&mut self, id: LeaseId, now: Now) {
        self.expire(now);
        let Some(lease) = self.book.close(id) else {
            return;
        };
        let until = Deadline::after(now, self.terms.report_window());
        self.entries.push(Entry::Put(Record::Ended {
            id,
            of: self.index.slots[lease.slot].holder.clone(),
            target: self.targets.name(lease.scope),
            until,
        }));
        self.end(id, &lease, until.mono);
    }

    /// Takes in what the holder of a lease found, at `target` or else at the lease's own.
    ///
    /// # Errors
    /// When the lease neither lives nor ended within the report window.
    pub fn report(
        &mut self,
        id: LeaseId,
        result: ReportResult,
        target: Option<&Arc<str>>,
        now: Now,
    ) -> Result<(), UnknownLease> {
        self.expire(now);
        let live = self.book.get(id).map(|lease| (lease.slot, lease.scope));
        let ended = || self.book.ended(id).map(|ended| (ended.slot, ended.scope));
        let (slot, own) = live.or_else(ended).ok_or(UnknownLease)?;
        let lasts = match result {
            ReportResult::Ok => return Ok(()),
            ReportResult::RateLimited => self.terms.lease_cooldown,
            ReportResult::Banned => self.terms.ban_cooldown,
        };
        let scope = match target {
            Some(_) => self.targets.hold(target),
            None => self.targets.hold_again(own),
        };
        self.cool_down(slot, scope, lasts, now);
        Ok(())
    }

    /// The live lease.
    ///
    /// # Errors
    /// When it does not live.
    pub fn get(&mut self, id: LeaseId, now: Now) -> Result<Grant, UnknownLease> {
        self.expire(now);
        let lease = self.book.get(id).ok_or(UnknownLease)?;
        Ok(self.grant(id, lease))
    }

    /// All live leases, by id.
    pub fn leases(&mut self, now: Now) -> Vec<Grant> {
        self.expire(now);
        let mut leases: Vec<Grant> = self
            .book
            .live()
            .map(|(id, lease)| self.grant(id, lease))
            .collect();
        leases.sort_unstable_by_key(|grant| grant.id);
        leases
    }

    /// Ends what has come to its end. Every call does that first; the actor calls it so that memory is given back, and
    /// the gauges fall, when nobody asks.
    pub fn expire(&mut self, now: Now) {
        while let Some(id) = self.book.due(now.mono) {
            if let Some(lease) = self.book.close(id) {
                let until = lease.ends.saturating_add(self.terms.report_window());
                self.end(id, &lease, until);
            }
        }
        while let Some((id, ended)) = self.book.forget(now.mono) {
            self.entries.push(Entry::Drop(RecordKey::Lease(id)));
            self.targets.release(ended.scope);
            self.index.slots[ended.slot].ended -= 1;
            self.index.slots.free_if_unused(ended.slot);
        }
        while let Some((slot, scope)) = self.cooldowns.pop_over(now.mono) {
            self.warm_up(slot, scope);
        }
    }

    /// When [`Ledger::expire`] will have something to do, on the monotonic clock.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Duration> {
        let ends = [self.book.next_end(), self.cooldowns.next_end()];
        ends.into_iter().flatten().min()
    }

    /// What changed since the last time, for the journal.
    pub fn take_entries(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    /// How many leases live, as of the last call.
    #[must_use]
    pub fn leases_active(&self) -> usize {
        self.book.len()
    }

    /// How many cooldowns run, as of the last call.
    #[must_use]
    pub fn cooldowns_active(&self) -> usize {
        self.cooldowns.len()
    }

    /// A closed lease gives its slot back, and is kept for reports.
    fn end(&mut self, id: LeaseId, lease: &Lease, until: Duration) {
        let (slot, scope) = (lease.slot, lease.scope);
        self.index.slots[slot].ended += 1;
        self.index.give_back(slot, &self.cooldowns);
        self.book.keep(id, Ended { slot, scope }, until);
    }

    /// A cooldown that a report asks for. `scope` is held for it.
    fn cool_down(&mut self, slot: SlotId, scope: Scope, lasts: Duration, now: Now) {
        if lasts.is_zero() {
            return self.targets.release(scope);
        }
        let until = Deadline::after(now, lasts);
        let entry = Entry::Put(Record::Cooldown {
            of: self.index.slots[slot].holder.clone(),
            target: self.targets.name(scope),
            until,
        });
        if self.rest(slot, scope, until) != Prolonged::Unchanged {
            self.entries.push(entry);
        }
    }

    /// Sets a cooldown. `scope` is held for it, once for all the times that it is prolonged.
    fn rest(&mut self, slot: SlotId, scope: Scope, until: Deadline) -> Prolonged {
        let prolonged = self.cooldowns.prolong(slot, scope, until);
        if prolonged == Prolonged::Started {
            self.targets.cooldown_started(scope);
            self.index.slots[slot].cooldowns += 1;
            self.index.cooldown_changed(slot, scope, &self.cooldowns);
        } else {
            self.targets.release(scope);
        }
        prolonged
    }

    /// A cooldown is over.
    fn warm_up(&mut self, slot: SlotId, scope: Scope) {
        let of = self.index.slots[slot].holder.clone();
        self.entries.push(Entry::Drop(RecordKey::Cooldown(
            of,
            self.targets.name(scope),
        )));
        self.index.slots[slot].cooldowns -= 1;
        self.index.cooldown_changed(slot, scope, &self.cooldowns);
        self.targets.cooldown_over(scope);
        if scope != Scope::EVERYBODY && self.targets.cooldowns(scope) == 0 {
            self.index.forget_scope(scope);
        }
        self.targets.release(scope);
        self.index.slots.free_if_unused(slot);
    }

    fn record(&mut self, id: LeaseId, lease: &Lease, ends: Deadline) {
        self.entries.push(Entry::Put(Record::Lease {
            id,
            of: self.index.slots[lease.slot].holder.clone(),
            target: self.targets.name(lease.scope),
            ttl: lease.ttl,
            ends,
            idempotency: lease.idempotency.clone(),
        }));
    }

    fn grant(&self, id: LeaseId, lease: &Lease) -> Grant {
        let slot = &self.index.slots[lease.slot];
        Grant {
            id,
            proxy: slot.view(),
            key: slot.holder.key.clone(),
            target: self.targets.name(lease.scope),
            expires_at: lease.expires_at,
            ttl: lease.ttl,
        }
    }
}

#[cfg(test)]
impl Ledger {
    /// Whether nothing is known of any proxy, lease, pair or target.
    fn is_blank(&self) -> bool {
        self.index.is_blank()
            && self.targets.is_empty()
            && self.book.is_empty()
            && self.cooldowns.len() == 0
    }
}
