//! What was asked so far.

use std::collections::{BTreeMap, VecDeque};

/// Requests that are kept; the oldest are forgotten, but still counted.
const MOST: usize = 20_000;

/// One request.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The method's ID, `token`, `metadata`, or nothing for what is none of them.
    pub method: String,
    /// GET, POST, …
    pub http: String,
    /// The whole path.
    pub path: String,
    /// The query as it came.
    pub query: String,
    /// The status of its answer; 0 if the connection was reset.
    pub status: u16,
    /// The body as it came, if it was short.
    pub body: String,
}

/// The log.
#[derive(Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    counts: BTreeMap<String, u64>,
}

impl Log {
    /// Notes an answered request.
    pub fn note(&mut self, entry: Entry) {
        *self.counts.entry(entry.method.clone()).or_default() += 1;
        self.entries.push_back(entry);
        if self.entries.len() > MOST {
            self.entries.pop_front();
        }
    }

    /// How often each method was asked for.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.clone()
    }

    /// The requests that are kept; the oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.iter().cloned().collect()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
