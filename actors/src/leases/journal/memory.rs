//! A journal for a process without a volume: it outlives the ledger's actor, not the process.

use super::{Entry, Journal, JournalError, Record, RecordKey};
use dashmap::DashMap;
use futures::future::{self, BoxFuture};

/// Records in memory, one for each live lease, ended lease and cooldown.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    records: DashMap<RecordKey, Record>,
}

impl MemoryJournal {
    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn apply(&self, entries: Vec<Entry>) {
        for entry in entries {
            match entry {
                Entry::Put(record) => {
                    self.records.insert(record.key(), record);
                }
                Entry::Drop(key) => {
                    self.records.remove(&key);
                }
            }
        }
    }
}

impl Journal for MemoryJournal {
    fn append(&self, entries: Vec<Entry>) -> BoxFuture<'_, Result<(), JournalError>> {
        // Here and not in the future: a caller that is killed before it polls must not tear a batch.
        self.apply(entries);
        Box::pin(future::ready(Ok(())))
    }

    fn load(&self) -> BoxFuture<'_, Result<Vec<Record>, JournalError>> {
        let records = self.records.iter().map(|r| r.value().clone()).collect();
        Box::pin(future::ready(Ok(records)))
    }
}
