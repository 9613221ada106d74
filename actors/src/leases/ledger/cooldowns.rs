//! Which proxy rests, for whom and until when.

use super::{names::Scope, slots::SlotId};
use crate::leases::now::Deadline;
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

/// All cooldowns that are not over.
#[derive(Debug, Default)]
pub(super) struct Cooldowns {
    until: HashMap<(SlotId, Scope), Deadline>,
    ends: BTreeSet<(Duration, SlotId, Scope)>,
}

impl Cooldowns {
    /// Sets a cooldown, unless the one that runs is as long.
    pub fn prolong(&mut self, slot: SlotId, scope: Scope, until: Deadline) -> Prolonged {
        let before = self.until.get(&(slot, scope)).map(|before| before.mono);
        if before.is_some_and(|before| before >= until.mono) {
            return Prolonged::Unchanged;
        }
        if let Some(before) = before {
            self.ends.remove(&(before, slot, scope));
        }
        self.until.insert((slot, scope), until);
        self.ends.insert((until.mono, slot, scope));
        match before {
            Some(_) => Prolonged::Later,
            None => Prolonged::Started,
        }
    }

    /// Takes out one that is over at `mono`.
    pub fn pop_over(&mut self, mono: Duration) -> Option<(SlotId, Scope)> {
        let &(until, slot, scope) = self.ends.first()?;
        if until > mono {
            return None;
        }
        self.ends.pop_first();
        self.until.remove(&(slot, scope));
        Some((slot, scope))
    }

    /// Whether a request for `scope` must not be given `slot`.
    pub fn block(&self, slot: SlotId, scope: Scope) -> bool {
        self.until.contains_key(&(slot, Scope::EVERYBODY))
            || (scope != Scope::EVERYBODY && self.until.contains_key(&(slot, scope)))
    }

    /// When the first one is over.
    pub fn next_end(&self) -> Option<Duration> {
        self.ends.first().map(|(until, ..)| *until)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.until.len()
    }
}

/// What a report did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prolonged {
    /// A cooldown that was not there before.
    Started,
    /// One that ends later than it did.
    Later,
    /// The one that runs is as long.
    Unchanged,
}
