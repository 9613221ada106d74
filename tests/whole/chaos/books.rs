//! Who holds what, as the crawlers know it, and what they saw.
//!
//! A lease is entered when its grant was *received* and struck out before its release is *sent*: what is
//! in the books at any instant is live at the ledger, so that more than the slots there are is a fault.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// So many faults are kept; more of them say nothing new.
const MOST: usize = 20;

/// The crawlers' common books.
pub struct Books {
    max_leases: u64,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    held: HashMap<String, u64>,
    tally: Tally,
    wrong: Vec<String>,
}

/// What was seen in a while.
#[derive(Default)]
pub struct Tally {
    acquires: Vec<Duration>,
    answers: BTreeMap<u16, u64>,
}

impl Books {
    pub fn new(max_leases: u64) -> Self {
        Self {
            max_leases,
            pages: Mutex::default(),
        }
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease on this proxy was received.
    pub fn enter(&self, proxy: &str) {
        let mut pages = self.pages();
        let held = pages.held.entry(proxy.to_owned()).or_default();
        *held += 1;
        let held = *held;
        drop(pages);
        if held > self.max_leases {
            self.fault(format!("{held} leases at once on {proxy}"));
        }
    }

    /// A lease on this proxy is given up from here on.
    pub fn strike_out(&self, proxy: &str) {
        if let Some(held) = self.pages().held.get_mut(proxy) {
            *held -= 1;
        }
    }

    /// An answer was received.
    pub fn answered(&self, status: u16) {
        *self.pages().tally.answers.entry(status).or_default() += 1;
    }

    /// A lease was granted after so long, all tries included.
    pub fn acquired(&self, took: Duration) {
        self.pages().tally.acquires.push(took);
    }

    /// Something happened that must not.
    pub fn fault(&self, what: String) {
        let mut pages = self.pages();
        if pages.wrong.len() < MOST {
            pages.wrong.push(what);
        }
    }

    /// What was seen since the last turn.
    pub fn turn(&self) -> Tally {
        std::mem::take(&mut self.pages().tally)
    }

    /// What must not have happened.
    pub fn wrong(&self) -> Vec<String> {
        self.pages().wrong.clone()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut took = self.acquires.clone();
        took.sort_unstable();
        let at = |percent: usize| {
            let place = (took.len() * percent / 100).min(took.len().saturating_sub(1));
            took.get(place).copied().unwrap_or_default()
        };
        let all: u64 = self.answers.values().sum();
        let refused = self.answers.get(&503).copied().unwrap_or_default();
        write!(
            f,
            "{} grants, p50 {:.1?}, p99 {:.1?}; {all} answers {:?}, {}.{:02} % of them 503",
            took.len(),
            at(50),
            at(99),
            self.answers,
            refused * 100 / all.max(1),
            refused * 10_000 / all.max(1) % 100,
        )
    }
}
