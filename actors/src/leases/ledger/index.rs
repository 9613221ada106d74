//! Who is next: a [`Queue`] for every selector that clients use, kept in order while proxies come, go and change.
//!
//! A queue is made when its selector is first asked for, at the price of one look at every proxy, and dropped when
//! the queues are too large together and this one was not asked for longest.

use super::{
    cooldowns::Cooldowns,
    names::{Numbers, Pairs, Scope},
    queue::{Queue, Standing},
    ranks,
    slots::{Seat, Slot, SlotId, Slots},
};
use crate::{
    key::ProxyKey,
    leases::{
        journal::Holder,
        terms::{Candidate, NoMatch},
    },
};
use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound::{Excluded, Unbounded},
    sync::Arc,
};

// The limits are small in tests, so that random lives of a dozen proxies cross them.

/// A seat costs about 50 bytes, so the queues take up to 25 MiB and 800 bytes a proxy.
const SEATS_AT_LEAST: usize = if cfg!(test) { 8 } else { 1 << 19 };
const SEATS_PER_PROXY: usize = if cfg!(test) { 2 } else { 16 };
/// Empty queues have no seats, but each is looked at when a proxy comes.
const QUEUES_AT_MOST: usize = if cfg!(test) { 5 } else { 1024 };
/// A target that more proxies than this cool down for gets queues of its own; with fewer, passing them over is cheap.
const PASSED_OVER_AT_MOST: u32 = if cfg!(test) { 2 } else { 32 };

/// The proxies, and the order of choice for each selector.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// All that the ledger knows of.
    pub slots: Slots,
    /// Those in the fleet, as the API sorts them.
    pub order: BTreeMap<ProxyKey, SlotId>,
    pairs: Pairs,
    queues: Vec<Queue>,
    numbers: Numbers,
    /// Number of a queue by its scope and selector.
    ids: HashMap<Box<[u32]>, u32>,
    seats: usize,
    asked: u64,
    /// The key that is looked up; kept for its memory.
    wanted: Vec<u32>,
}

impl Index {
    /// A proxy came or changed.
    pub fn upsert(&mut self, candidate: Arc<Candidate>, cooldowns: &Cooldowns) {
        let key = &candidate.key;
        if let Some(&id) = self.order.get(key) {
            let slot = &self.slots[id];
            if slot.holder.uid == candidate.uid {
                let same_pairs = slot
                    .candidate
                    .as_ref()
                    .is_some_and(|before| before.attributes == candidate.attributes);
                if same_pairs {
                    return self.change(id, candidate, cooldowns);
                }
            }
            self.remove(&candidate.key);
        }
        self.join(candidate, cooldowns);
    }

    /// The proxies of a fleet of which none came yet and nobody asked for one, each once, in the order of their keys.
    pub fn fill(&mut self, pool: Vec<Arc<Candidate>>) {
        let ranks = ranks::spread(pool.len() as u64);
        let mut order = Vec::with_capacity(pool.len());
        for (candidate, rank) in pool.into_iter().zip(ranks) {
            let id = self.enter(candidate, rank);
            order.push((self.slots[id].holder.key.clone(), id));
        }
        self.order = order.into_iter().collect();
    }

    /// Gives a proxy its slot.
    fn enter(&mut self, candidate: Arc<Candidate>, rank: u64) -> SlotId {
        let id = self.slots.of(&Holder {
            key: candidate.key.clone(),
            uid: candidate.uid.clone(),
        });
        let slot = &mut self.slots[id];
        slot.rank = rank;
        slot.pairs = self.pairs.hold(&candidate.attributes);
        slot.set(candidate);
        id
    }

    fn change(&mut self, id: SlotId, candidate: Arc<Candidate>, cooldowns: &Cooldowns) {
        let slot = &mut self.slots[id];
        let before = (slot.healthy, slot.max, slot.latency);
        if before == Slot::facts(&candidate) {
            slot.set(candidate);
            return;
        }
        for seat in &slot.seats {
            self.queues[seat.queue as usize].lift(id, slot, seat.standing);
        }
        slot.set(candidate);
        let mut seats = std::mem::take(&mut slot.seats);
        for seat in &mut seats {
            let queue = &mut self.queues[seat.queue as usize];
            seat.standing = standing(id, slot, queue.scope, cooldowns);
            queue.put(id, slot, seat.standing);
        }
        slot.seats = seats;
    }

    fn join(&mut self, candidate: Arc<Candidate>, cooldowns: &Cooldowns) {
        let (key, rank) = (candidate.key.clone(), self.rank(&candidate.key));
        let id = self.enter(candidate, rank);
        self.order.insert(key, id);
        let slot = &mut self.slots[id];
        for &number in self.ids.values() {
            let queue = &mut self.queues[number as usize];
            if queue.wants(&slot.pairs) {
                seat(number, queue, id, slot, cooldowns);
                self.seats += 1;
            }
        }
    }

    /// A proxy left. Its leases and cooldowns are still those of its slot.
    pub fn remove(&mut self, key: &ProxyKey) {
        let Some(id) = self.order.remove(key) else {
            return;
        };
        let slot = &mut self.slots[id];
        for seat in std::mem::take(&mut slot.seats) {
            let queue = &mut self.queues[seat.queue as usize];
            queue.lift(id, slot, seat.standing);
            queue.considered -= 1;
            self.seats -= 1;
        }
        if let Some(candidate) = slot.candidate.take() {
            self.pairs.release(&candidate.attributes);
        }
        self.slots.free_if_unused(id);
    }

    /// A rank between those of the neighbours; when they leave no room, everybody gets a new one.
    fn rank(&mut self, key: &ProxyKey) -> u64 {
        let below = self.order.range(..key).next_back();
        let above = self.order.range((Excluded(key), Unbounded)).next();
        let rank_of =
            |found: Option<(&ProxyKey, &SlotId)>| found.map(|(_, &id)| self.slots[id].rank);
        if let Some(rank) = ranks::between(rank_of(below), rank_of(above)) {
            return rank;
        }
        // Places hold ranks. Making the queues anew is no dearer than moving everybody in all of them.
        self.drop_queues();
        let count = self.order.len() as u64 + 1;
        let (before, after) = (
            self.order.range(..key),
            self.order.range((Excluded(key), Unbounded)),
        );
        let mut ranks = ranks::spread(count);
        for (&id, rank) in before.map(|(_, id)| id).zip(&mut ranks) {
            self.slots[id].rank = rank;
        }
        let own = ranks.next().unwrap_or_default();
        for (&id, rank) in after.map(|(_, id)| id).zip(&mut ranks) {
            self.slots[id].rank = rank;
        }
        own
    }

    /// The proxy for a request. `cooling` is how many proxies cool down for `scope` alone.
    pub fn choose(
        &mut self,
        selector: &BTreeMap<String, String>,
        scope: Scope,
        cooling: u32,
        cooldowns: &Cooldowns,
    ) -> Result<SlotId, NoMatch> {
        let own_queue = cooling > PASSED_OVER_AT_MOST;
        let queue_scope = if own_queue { scope } else { Scope::EVERYBODY };
        let pass_over = cooling > 0 && !own_queue;
        let Some(number) = self.queue(selector, queue_scope, cooldowns) else {
            return Err(NoMatch::default());
        };
        let mut passed = None;
        loop {
            let open = &self.queues[number as usize].open;
            let next = match passed {
                None => open.first(),
                Some(place) => open.range((Excluded(place), Unbounded)).next(),
            };
            let Some(&place) = next else {
                return Err(self.queues[number as usize].refusal());
            };
            let id = place.slot();
            if place.is_late(&self.slots[id]) {
                self.settle(id, cooldowns, |queue, _| queue == number);
            } else if pass_over && cooldowns.block(id, scope) {
                passed = Some(place);
            } else {
                return Ok(id);
            }
        }
    }

    /// One more lease on a chosen proxy.
    pub fn take(&mut self, id: SlotId, cooldowns: &Cooldowns) {
        let slot = &mut self.slots[id];
        slot.active = slot.active.saturating_add(1);
        // Open places may be late, but a full proxy is counted as that and not as cooling down.
        if slot.active >= slot.max {
            self.settle(id, cooldowns, |_, at| at == Standing::Cooling);
        }
    }

    /// One lease less.
    pub fn give_back(&mut self, id: SlotId, cooldowns: &Cooldowns) {
        let slot = &mut self.slots[id];
        slot.active = slot.active.saturating_sub(1);
        let active = slot.active;
        self.settle(id, cooldowns, |_, at| match at {
            Standing::Open(placed) => placed > active,
            Standing::Full => true,
            Standing::Unhealthy | Standing::Cooling => false,
        });
    }

    /// A cooldown of `scope` started or is over.
    pub fn cooldown_changed(&mut self, id: SlotId, scope: Scope, cooldowns: &Cooldowns) {
        let concerned: Vec<u32> = self.slots[id]
            .seats
            .iter()
            .map(|seat| seat.queue)
            .filter(|&number| {
                scope == Scope::EVERYBODY || self.queues[number as usize].scope == scope
            })
            .collect();
        if !concerned.is_empty() {
            self.settle(id, cooldowns, |number, _| concerned.contains(&number));
        }
    }

    /// No proxy cools down for this target any more: its own queues are of no use.
    pub fn forget_scope(&mut self, scope: Scope) {
        let own: Vec<u32> = self
            .ids
            .values()
            .copied()
            .filter(|&number| self.queues[number as usize].scope == scope)
            .collect();
        for number in own {
            self.drop_queue(number);
        }
    }

    /// Puts a proxy where it belongs now, in the queues that `which` names by number and standing.
    fn settle(&mut self, id: SlotId, cooldowns: &Cooldowns, which: impl Fn(u32, Standing) -> bool) {
        let slot = &mut self.slots[id];
        for n in 0..slot.seats.len() {
            let Seat {
                queue,
                standing: before,
            } = slot.seats[n];
            if !which(queue, before) {
                continue;
            }
            let at = &mut self.queues[queue as usize];
            let after = standing(id, slot, at.scope, cooldowns);
            if after != before {
                at.lift(id, slot, before);
                at.put(id, slot, after);
                slot.seats[n].standing = after;
            }
        }
    }

    /// The queue for a selector, made if there is none; `None` when some pair is on no proxy at all.
    fn queue(
        &mut self,
        selector: &BTreeMap<String, String>,
        scope: Scope,
        cooldowns: &Cooldowns,
    ) -> Option<u32> {
        self.asked += 1;
        self.wanted.clear();
        self.wanted.push(scope.number());
        if !self.pairs.find(selector, &mut self.wanted) {
            return None;
        }
        let number = match self.ids.get(&self.wanted[..]) {
            Some(&number) => number,
            None => self.make_queue(scope, cooldowns),
        };
        self.queues[number as usize].asked = self.asked;
        Some(number)
    }

    fn make_queue(&mut self, scope: Scope, cooldowns: &Cooldowns) -> u32 {
        let number = self.numbers.take();
        let mut queue = Queue::new(scope, &self.wanted[1..]);
        queue.asked = self.asked;
        for (id, slot) in self.slots.present() {
            if queue.wants(&slot.pairs) {
                seat(number, &mut queue, id, slot, cooldowns);
                self.seats += 1;
            }
        }
        self.ids.insert(self.wanted[..].into(), number);
        match self.queues.get_mut(number as usize) {
            Some(vacant) => *vacant = queue,
            None => self.queues.push(queue),
        }
        self.make_room(number);
        number
    }

    /// Drops the queues that were not asked for longest, never `keep`.
    fn make_room(&mut self, keep: u32) {
        let most = SEATS_AT_LEAST + SEATS_PER_PROXY * self.slots.len();
        while self.seats > most || self.ids.len() > QUEUES_AT_MOST {
            let others = self.ids.values().copied().filter(|&number| number != keep);
            let Some(oldest) = others.min_by_key(|&number| self.queues[number as usize].asked)
            else {
                return;
            };
            self.drop_queue(oldest);
        }
    }

    fn drop_queue(&mut self, number: u32) {
        let queue = std::mem::replace(
            &mut self.queues[number as usize],
            Queue::new(Scope::EVERYBODY, &[]),
        );
        let key: Vec<u32> = std::iter::once(queue.scope.number())
            .chain(queue.pairs)
            .collect();
        self.ids.remove(&key[..]);
        self.numbers.give_back(number);
        if queue.considered == 0 {
            return;
        }
        self.seats -= queue.considered;
        for (_, slot) in self.slots.present() {
            slot.seats.retain(|seat| seat.queue != number);
        }
    }

    /// Whether no proxy is known, and no queue of a target is kept.
    #[cfg(test)]
    pub fn is_blank(&self) -> bool {
        self.slots.len() == 0
            && self.order.is_empty()
            && self.pairs.is_empty()
            && self.seats == 0
            && self
                .ids
                .keys()
                .all(|key| key[0] == Scope::EVERYBODY.number())
    }

    fn drop_queues(&mut self) {
        for (_, slot) in self.slots.present() {
            slot.seats.clear();
        }
        self.ids.clear();
        self.queues.clear();
        self.numbers = Numbers::default();
        self.seats = 0;
    }
}

fn seat(number: u32, queue: &mut Queue, id: SlotId, slot: &mut Slot, cooldowns: &Cooldowns) {
    let standing = standing(id, slot, queue.scope, cooldowns);
    queue.put(id, slot, standing);
    queue.considered += 1;
    slot.seats.push(Seat {
        queue: number,
        standing,
    });
}

/// Where a proxy belongs in a queue of `scope`, checked in the order in which a refusal counts.
fn standing(id: SlotId, slot: &Slot, scope: Scope, cooldowns: &Cooldowns) -> Standing {
    if !slot.healthy {
        Standing::Unhealthy
    } else if slot.active >= slot.max {
        Standing::Full
    } else if slot.cooldowns > 0 && cooldowns.block(id, scope) {
        Standing::Cooling
    } else {
        Standing::Open(slot.active)
    }
}
