//! One waiting list: the proxies that match one selector, those that can be leased in the order of choice, the others
//! counted by the reason.
//!
//! A place in the order may be *late*: taking a slot moves a proxy in no queue, since it only moves backwards. Whoever
//! meets such a proxy at the head moves it then. A proxy never stands further back than it should, so the first one
//! whose place is up to date is the right choice, and a busy proxy costs nothing in the queues that nobody asks.

use super::{
    names::{PairId, Scope},
    slots::{Slot, SlotId},
};
use crate::leases::terms::NoMatch;
use std::collections::BTreeSet;

/// Where a proxy is counted in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may be leased; placed as having this many active leases.
    Open(u32),
    /// It must not be used.
    Unhealthy,
    /// All of its slots are taken.
    Full,
    /// It cools down for everybody, or for the queue's target.
    Cooling,
}

/// A place in the order of choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    active: u32,
    latency: u64,
    rank: u64,
    slot: SlotId,
}

impl Place {
    /// Whose it is.
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Whether the proxy was taken since it was placed.
    pub fn is_late(&self, slot: &Slot) -> bool {
        slot.active != self.active
    }
}

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    /// The target whose cooldowns count here, beside those for everybody.
    pub scope: Scope,
    /// The selector, ascending.
    pub pairs: Box<[PairId]>,
    /// Those that can be leased.
    pub open: BTreeSet<Place>,
    /// When it was last asked, in requests.
    pub asked: u64,
    /// How many match.
    pub considered: usize,
    unhealthy: usize,
    full: usize,
    cooling: usize,
}

impl Queue {
    /// Nobody in it yet.
    pub fn new(scope: Scope, pairs: &[PairId]) -> Self {
        Self {
            scope,
            pairs: pairs.into(),
            open: BTreeSet::new(),
            asked: 0,
            considered: 0,
            unhealthy: 0,
            full: 0,
            cooling: 0,
        }
    }

    /// Whether a proxy with these attributes belongs in it.
    pub fn wants(&self, pairs: &[PairId]) -> bool {
        self.pairs
            .iter()
            .all(|pair| pairs.binary_search(pair).is_ok())
    }

    /// Counts `slot` where it stands.
    pub fn put(&mut self, id: SlotId, slot: &Slot, standing: Standing) {
        match standing {
            Standing::Open(active) => {
                self.open.insert(place(id, slot, active));
            }
            Standing::Unhealthy => self.unhealthy += 1,
            Standing::Full => self.full += 1,
            Standing::Cooling => self.cooling += 1,
        }
    }

    /// Takes back [`Queue::put`]; the slot must still have the latency and rank that it had then.
    pub fn lift(&mut self, id: SlotId, slot: &Slot, standing: Standing) {
        match standing {
            Standing::Open(active) => {
                self.open.remove(&place(id, slot, active));
            }
            Standing::Unhealthy => self.unhealthy -= 1,
            Standing::Full => self.full -= 1,
            Standing::Cooling => self.cooling -= 1,
        }
    }

    /// Why nothing was found after all of `open` was looked at: what is in there still is up to date, and was passed
    /// over for a cooldown.
    pub fn refusal(&self) -> NoMatch {
        NoMatch {
            considered: self.considered,
            unhealthy: self.unhealthy,
            at_capacity: self.full,
            in_cooldown: self.cooling + self.open.len(),
        }
    }
}

fn place(id: SlotId, slot: &Slot, active: u32) -> Place {
    Place {
        active,
        latency: slot.latency,
        rank: slot.rank,
        slot: id,
    }
}
