//! The leases themselves: the live ones, and those that ended but can still be reported on.

use super::{names::Scope, slots::SlotId};
use crate::leases::{
    now::Deadline,
    terms::{Idempotency, LeaseId},
};
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

/// So many ended leases are kept. Each costs about 100 bytes here and 300 in a journal in memory, 52 MiB in all. A
/// fleet that ends more within a report window (145 a second with the default of 15 min) can report on the last ones.
const ENDED_AT_MOST: usize = 1 << 17;

/// A live lease.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    /// Whose slot it takes.
    pub slot: SlotId,
    /// Its target.
    pub scope: Scope,
    /// As asked for.
    pub ttl: Duration,
    /// When it ends, on the monotonic clock.
    pub ends: Duration,
    /// When it ends, as the client was told.
    pub expires_at: SystemTime,
    /// The request that must not be granted twice.
    pub idempotency: Option<Arc<Idempotency>>,
}

/// A lease that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// Whose slot it took.
    pub slot: SlotId,
    /// Its target.
    pub scope: Scope,
}

/// All leases.
#[derive(Debug, Default)]
pub(super) struct Book {
    live: HashMap<LeaseId, Lease>,
    ends: BTreeSet<(Duration, LeaseId)>,
    keys: HashMap<Arc<str>, LeaseId>,
    ended: HashMap<LeaseId, Ended>,
    /// In the order of ending, which is that of being forgotten: the window is the same for all.
    forget: VecDeque<(Duration, LeaseId)>,
}

impl Book {
    /// A lease was granted.
    pub fn open(&mut self, id: LeaseId, lease: Lease) {
        if let Some(idempotency) = &lease.idempotency {
            self.keys.insert(idempotency.key.clone(), id);
        }
        self.ends.insert((lease.ends, id));
        self.live.insert(id, lease);
    }

    /// A book of these leases: sorted once, and not as they come.
    pub fn of(leases: Vec<(LeaseId, Lease)>) -> Self {
        let ends = leases.iter().map(|(id, lease)| (lease.ends, *id)).collect();
        let keyed = leases.iter().filter_map(|(id, lease)| {
            let idempotency = lease.idempotency.as_ref()?;
            Some((idempotency.key.clone(), *id))
        });
        Self {
            ends,
            keys: keyed.collect(),
            live: leases.into_iter().collect(),
            ..Self::default()
        }
    }

    /// The live lease.
    pub fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.live.get(&id)
    }

    /// All live leases.
    pub fn live(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.live.iter().map(|(id, lease)| (*id, lease))
    }

    /// The live lease that was granted under an idempotency key.
    pub fn keyed(&self, key: &str) -> Option<(LeaseId, &Lease)> {
        let id = *self.keys.get(key)?;
        self.live.get(&id).map(|lease| (id, lease))
    }

    /// Gives a live lease another end.
    pub fn renew(&mut self, id: LeaseId, ttl: Duration, ends: Deadline) -> Option<&Lease> {
        let lease = self.live.get_mut(&id)?;
        self.ends.remove(&(lease.ends, id));
        self.ends.insert((ends.mono, id));
        (lease.ttl, lease.ends, lease.expires_at) = (ttl, ends.mono, ends.wall);
        Some(lease)
    }

    /// A live lease lives no more.
    pub fn close(&mut self, id: LeaseId) -> Option<Lease> {
        let lease = self.live.remove(&id)?;
        self.ends.remove(&(lease.ends, id));
        if let Some(idempotency) = &lease.idempotency {
            self.keys.remove(&idempotency.key);
        }
        Some(lease)
    }

    /// The first live lease whose end has come at `mono`.
    pub fn due(&self, mono: Duration) -> Option<LeaseId> {
        let (ends, id) = self.ends.first()?;
        (*ends <= mono).then_some(*id)
    }

    /// Keeps an ended lease until then.
    pub fn keep(&mut self, id: LeaseId, ended: Ended, until: Duration) {
        self.ended.insert(id, ended);
        self.forget.push_back((until, id));
    }

    /// The ended lease.
    pub fn ended(&self, id: LeaseId) -> Option<Ended> {
        self.ended.get(&id).copied()
    }

    /// Takes out an ended lease that need not be kept at `mono`, or for which there is no room.
    pub fn forget(&mut self, mono: Duration) -> Option<(LeaseId, Ended)> {
        let &(until, id) = self.forget.front()?;
        if until > mono && self.ended.len() <= ENDED_AT_MOST {
            return None;
        }
        self.forget.pop_front();
        self.ended.remove(&id).map(|ended| (id, ended))
    }

    /// When the next lease ends or is forgotten.
    pub fn next_end(&self) -> Option<Duration> {
        let ends = self.ends.first().map(|(ends, _)| *ends);
        let forget = self.forget.front().map(|(until, _)| *until);
        ends.into_iter().chain(forget).min()
    }

    /// How many leases live.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether no lease is known, live or ended.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
            && self.ends.is_empty()
            && self.keys.is_empty()
            && self.ended.is_empty()
            && self.forget.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_ended_leases_the_first_is_forgotten() {
        let mut book = Book::default();
        let ended = Ended {
            slot: 0,
            scope: Scope::EVERYBODY,
        };
        for n in 0..=ENDED_AT_MOST as u128 {
            book.keep(LeaseId(n), ended, Duration::from_secs(1));
        }
        let forgotten = book.forget(Duration::ZERO).map(|(id, _)| id);
        assert_eq!(forgotten, Some(LeaseId(0)));
        assert!(book.forget(Duration::ZERO).is_none());
    }
}
