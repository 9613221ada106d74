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

    /// Drops all records: somebody else granted leases meanwhile, and knew nothing of these.
    pub fn clear(&self) {
        self.records.clear();
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
        let mut records = Vec::with_capacity(self.records.len());
        records.extend(self.records.iter().map(|r| r.value().clone()));
        Box::pin(future::ready(Ok(records)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        key::ProxyKey,
        leases::{
            journal::Holder,
            now::{Deadline, Now},
            terms::LeaseId,
        },
    };
    use futures::FutureExt;
    use std::{
        sync::Arc,
        time::{Duration, SystemTime},
    };

    fn until(mono: u64) -> Deadline {
        let now = Now {
            life: 1,
            mono: Duration::from_secs(mono),
            wall: SystemTime::UNIX_EPOCH,
        };
        Deadline::after(now, Duration::ZERO)
    }

    fn of(name: &str) -> Arc<Holder> {
        Arc::new(Holder {
            key: ProxyKey::new("ns", name),
            uid: "1".into(),
        })
    }

    fn ended(id: u128, mono: u64) -> Record {
        Record::Ended {
            id: LeaseId(id),
            of: of("a"),
            target: None,
            until: until(mono),
        }
    }

    fn cooldown(name: &str, target: Option<&str>) -> Record {
        Record::Cooldown {
            of: of(name),
            target: target.map(Arc::from),
            until: until(1),
        }
    }

    #[test]
    fn the_last_record_under_each_key_is_kept_until_it_is_dropped() {
        let journal = MemoryJournal::default();
        for batch in [
            vec![ended(1, 1), ended(2, 1), ended(1, 9)],
            vec![
                cooldown("a", None),
                cooldown("a", Some("x")),
                cooldown("b", None),
            ],
        ] {
            let entries = batch.into_iter().map(Entry::Put).collect();
            journal.append(entries).now_or_never().unwrap().unwrap();
        }
        let dropped = [ended(2, 5), cooldown("a", Some("x")), ended(3, 1)];
        let entries = dropped
            .iter()
            .map(|record| Entry::Drop(record.key()))
            .collect();
        journal.append(entries).now_or_never().unwrap().unwrap();

        let loaded = journal.load().now_or_never().unwrap().unwrap();
        let kept = [ended(1, 9), cooldown("a", None), cooldown("b", None)];
        assert_eq!(loaded.len(), kept.len());
        assert!(kept.iter().all(|record| loaded.contains(record)));
    }
}
