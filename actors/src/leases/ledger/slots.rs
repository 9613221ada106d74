//! Every proxy that the ledger knows of, by a small number: those in the fleet, and those that a lease or a cooldown
//! still speaks of.

use super::{
    names::{Numbers, PairId},
    queue::Standing,
};
use crate::leases::{
    journal::Holder,
    terms::{Candidate, View},
};
use std::{
    collections::HashMap,
    ops::{Index, IndexMut},
    sync::Arc,
};

/// Number of a proxy.
pub(super) type SlotId = u32;

/// One incarnation of a proxy.
#[derive(Debug)]
pub(super) struct Slot {
    /// Who it is, present or not.
    pub holder: Arc<Holder>,
    /// What the fleet says; `None` while it is not there: not yet after a restart, or no more.
    pub candidate: Option<Arc<Candidate>>,
    /// Live leases.
    pub active: u32,
    /// Copied from the candidate, to spare a jump through memory.
    pub max: u32,
    /// Copied; the unknown comes after every known one.
    pub latency: u64,
    /// Copied.
    pub healthy: bool,
    /// Place in the order of all present ids.
    pub rank: u64,
    /// Numbers of its attributes, ascending.
    pub pairs: Box<[PairId]>,
    /// Its place in each queue that it is in.
    pub seats: Vec<Seat>,
    /// Ended leases that can be reported on.
    pub ended: u32,
    /// Cooldowns, of any scope.
    pub cooldowns: u32,
}

/// A proxy's place in one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    /// Number of the queue.
    pub queue: u32,
    /// Where it is counted there.
    pub standing: Standing,
}

impl Slot {
    fn new(holder: Arc<Holder>) -> Self {
        Self {
            holder,
            candidate: None,
            active: 0,
            max: 0,
            latency: u64::MAX,
            healthy: false,
            rank: 0,
            pairs: Box::default(),
            seats: Vec::new(),
            ended: 0,
            cooldowns: 0,
        }
    }

    /// What a choice rests on: health, slots, latency.
    pub fn facts(candidate: &Candidate) -> (bool, u32, u64) {
        let latency = candidate.latency_millis.map_or(u64::MAX, u64::from);
        (candidate.healthy, candidate.max_leases, latency)
    }

    /// Takes over what the fleet says now.
    pub fn set(&mut self, candidate: Arc<Candidate>) {
        (self.healthy, self.max, self.latency) = Self::facts(&candidate);
        self.candidate = Some(candidate);
    }

    /// As the API shows it, if it is present.
    pub fn view(&self) -> Option<View> {
        self.candidate.as_ref().map(|candidate| View {
            candidate: candidate.clone(),
            active_leases: self.active,
        })
    }

    fn unused(&self) -> bool {
        self.candidate.is_none() && self.active == 0 && self.ended == 0 && self.cooldowns == 0
    }
}

/// All slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    numbers: Numbers,
    ids: HashMap<Arc<Holder>, SlotId>,
}

impl Slots {
    /// The slot of `holder`, a new one if it has none.
    pub fn of(&mut self, holder: &Holder) -> SlotId {
        match self.ids.get(holder) {
            Some(&id) => id,
            None => self.add(Arc::new(holder.clone())),
        }
    }

    /// The same of a holder that the slot may keep as it is.
    pub fn of_shared(&mut self, holder: &Arc<Holder>) -> SlotId {
        match self.ids.get(holder) {
            Some(&id) => id,
            None => self.add(Arc::clone(holder)),
        }
    }

    fn add(&mut self, holder: Arc<Holder>) -> SlotId {
        let id = self.numbers.take();
        let slot = Slot::new(holder.clone());
        match self.all.get_mut(id as usize) {
            Some(vacant) => *vacant = slot,
            None => self.all.push(slot),
        }
        self.ids.insert(holder, id);
        id
    }

    /// Gives the slot up if nothing speaks of it any more.
    pub fn free_if_unused(&mut self, id: SlotId) {
        if self[id].unused() && self.ids.remove(&self.all[id as usize].holder).is_some() {
            let slot = &mut self[id];
            (slot.pairs, slot.seats) = (Box::default(), Vec::new());
            self.numbers.give_back(id);
        }
    }

    /// All present proxies.
    pub fn present(&mut self) -> impl Iterator<Item = (SlotId, &mut Slot)> {
        (0..)
            .zip(&mut self.all)
            .filter(|(_, slot)| slot.candidate.is_some())
    }

    /// How many slots there are, present or not.
    pub fn len(&self) -> usize {
        self.ids.len()
    }
}

impl Index<SlotId> for Slots {
    type Output = Slot;
    fn index(&self, id: SlotId) -> &Slot {
        &self.all[id as usize]
    }
}

impl IndexMut<SlotId> for Slots {
    fn index_mut(&mut self, id: SlotId) -> &mut Slot {
        &mut self.all[id as usize]
    }
}
