//! Small numbers for attribute pairs and targets, so that the hot paths compare no strings. A number is counted by
//! what uses it and given to another name when the last user is gone.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Number of an attribute pair.
pub(super) type PairId = u32;

/// Every attribute pair that a present proxy has.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    ids: HashMap<String, HashMap<String, Pair>>,
    numbers: Numbers,
}

#[derive(Debug)]
struct Pair {
    id: PairId,
    proxies: u32,
}

impl Pairs {
    /// The numbers of all of `attributes`, ascending, counted once more.
    pub fn hold(&mut self, attributes: &BTreeMap<String, String>) -> Box<[PairId]> {
        let mut ids: Vec<PairId> = attributes
            .iter()
            .map(|(key, value)| {
                let known = self.ids.get_mut(key).and_then(|all| all.get_mut(value));
                if let Some(pair) = known {
                    pair.proxies += 1;
                    return pair.id;
                }
                let id = self.numbers.take();
                let values = self.ids.entry(key.clone()).or_default();
                values.insert(value.clone(), Pair { id, proxies: 1 });
                id
            })
            .collect();
        ids.sort_unstable();
        ids.into()
    }

    /// Takes back one [`Pairs::hold`].
    pub fn release(&mut self, attributes: &BTreeMap<String, String>) {
        for (key, value) in attributes {
            let Some(values) = self.ids.get_mut(key) else {
                continue;
            };
            if let Some(pair) = values.get_mut(value) {
                pair.proxies -= 1;
                if pair.proxies == 0 {
                    self.numbers.give_back(pair.id);
                    values.remove(value);
                }
            }
            if values.is_empty() {
                self.ids.remove(key);
            }
        }
    }

    /// Whether no pair is held.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Puts the numbers of `selector` into `found`, ascending; `false` when no proxy has one of the pairs.
    pub fn find(&self, selector: &BTreeMap<String, String>, found: &mut Vec<PairId>) -> bool {
        let from = found.len();
        for (key, value) in selector {
            match self.ids.get(key).and_then(|values| values.get(value)) {
                Some(pair) => found.push(pair.id),
                None => return false,
            }
        }
        found[from..].sort_unstable();
        true
    }
}

/// Whom a cooldown blocks, and what a request or lease is for: everybody and anything, or one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Scope(u32);

impl Scope {
    /// No target.
    pub const EVERYBODY: Self = Self(0);

    /// As part of a queue's key.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Every target that a lease or a cooldown names.
#[derive(Debug, Default)]
pub(super) struct Targets {
    ids: HashMap<Arc<str>, u32>,
    known: Vec<Target>,
    numbers: Numbers,
}

#[derive(Debug)]
struct Target {
    name: Arc<str>,
    users: u32,
    cooldowns: u32,
}

impl Targets {
    /// The scope of `target`, used once more.
    pub fn hold(&mut self, target: Option<&Arc<str>>) -> Scope {
        let Some(name) = target else {
            return Scope::EVERYBODY;
        };
        if let Some(&id) = self.ids.get(name) {
            self.known[id as usize].users += 1;
            return Scope(id + 1);
        }
        let id = self.numbers.take();
        let target = Target {
            name: name.clone(),
            users: 1,
            cooldowns: 0,
        };
        match self.known.get_mut(id as usize) {
            Some(vacant) => *vacant = target,
            None => self.known.push(target),
        }
        self.ids.insert(name.clone(), id);
        Scope(id + 1)
    }

    /// Uses `scope` once more.
    pub fn hold_again(&mut self, scope: Scope) -> Scope {
        if let Some(target) = self.get_mut(scope) {
            target.users += 1;
        }
        scope
    }

    /// Takes back one hold.
    pub fn release(&mut self, scope: Scope) {
        let Some(target) = self.get_mut(scope) else {
            return;
        };
        target.users -= 1;
        if target.users == 0 {
            // The vacant place must not keep the text alive.
            let name = std::mem::take(&mut target.name);
            self.ids.remove(&name);
            self.numbers.give_back(scope.0 - 1);
        }
    }

    /// The scope of `target` when something uses it.
    pub fn find(&self, target: Option<&Arc<str>>) -> Option<Scope> {
        match target {
            None => Some(Scope::EVERYBODY),
            Some(name) => self.ids.get(name).map(|id| Scope(id + 1)),
        }
    }

    /// The name behind `scope`.
    pub fn name(&self, scope: Scope) -> Option<Arc<str>> {
        let id = scope.0.checked_sub(1)?;
        self.known.get(id as usize).map(|t| t.name.clone())
    }

    /// How many proxies cool down for `scope` alone; 0 for everybody.
    pub fn cooldowns(&self, scope: Scope) -> u32 {
        let id = scope.0.checked_sub(1);
        id.map_or(0, |id| self.known[id as usize].cooldowns)
    }

    /// One more cooldown for `scope`.
    pub fn cooldown_started(&mut self, scope: Scope) {
        if let Some(target) = self.get_mut(scope) {
            target.cooldowns += 1;
        }
    }

    /// One less.
    pub fn cooldown_over(&mut self, scope: Scope) {
        if let Some(target) = self.get_mut(scope) {
            target.cooldowns -= 1;
        }
    }

    /// Whether no target is held.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn get_mut(&mut self, scope: Scope) -> Option<&mut Target> {
        let id = scope.0.checked_sub(1)?;
        self.known.get_mut(id as usize)
    }
}

/// Numbers from 0 up, the returned ones first.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: u32,
    free: Vec<u32>,
}

impl Numbers {
    /// A number that nobody has.
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let id = self.next;
            self.next += 1;
            id
        })
    }

    /// Makes it free for others.
    pub fn give_back(&mut self, id: u32) {
        self.free.push(id);
    }
}
