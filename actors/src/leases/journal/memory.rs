//! A journal for a process without a volume: it outlives the ledger's actor, not the process.

use super::{Entry, Journal, JournalError, Record, RecordKey, Writer};
use dashmap::DashMap;
use futures::future::{self, BoxFuture};
use std::sync::{PoisonError, RwLock};

/// Records in memory, one for each live lease, ended lease and cooldown.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    records: DashMap<RecordKey, Record>,
    /// The last who loaded them. Held while a batch is written, so that none comes amid a load.
    writer: RwLock<u64>,
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

    /// Drops all records, and lets nobody write who has loaded them: somebody else granted leases meanwhile, and
    /// knew nothing of these.
    pub fn clear(&self) {
        let mut last = self.writer.write().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
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
    fn append(
        &self,
        Writer(writer): Writer,
        entries: Vec<Entry>,
    ) -> BoxFuture<'_, Result<(), JournalError>> {
        // Here and not in the future: a caller that is killed before it polls must not tear a batch.
        let last = self.writer.read().unwrap_or_else(PoisonError::into_inner);
        if *last != writer {
            return Box::pin(future::ready(Err(JournalError::Append {
                journal: "in memory".into(),
                source: "a later ledger has taken it over".into(),
            })));
        }
        self.apply(entries);
        Box::pin(future::ready(Ok(())))
    }

    fn load(&self) -> BoxFuture<'_, Result<(Writer, Vec<Record>), JournalError>> {
        let mut last = self.writer.write().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        let mut records = Vec::with_capacity(self.records.len());
        records.extend(self.records.iter().map(|r| r.value().clone()));
        Box::pin(future::ready(Ok((Writer(*last), records))))
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

    fn loaded(journal: &MemoryJournal) -> (Writer, Vec<Record>) {
        journal.load().now_or_never().unwrap().unwrap()
    }

    fn appended(
        journal: &MemoryJournal,
        writer: Writer,
        entries: Vec<Entry>,
    ) -> Result<(), JournalError> {
        journal.append(writer, entries).now_or_never().unwrap()
    }

    #[test]
    fn whoever_loaded_it_last_writes_it_alone() {
        let journal = MemoryJournal::default();
        let put = |id| vec![Entry::Put(ended(id, 1))];
        let (old, _) = loaded(&journal);
        appended(&journal, old, put(1)).unwrap();
        let (new, records) = loaded(&journal);
        assert_eq!(records, [ended(1, 1)]);
        appended(&journal, old, put(2)).unwrap_err();
        appended(&journal, new, put(3)).unwrap();
        let (_, records) = loaded(&journal);
        assert_eq!(records.len(), 2, "{records:?}");
        assert!(!records.contains(&ended(2, 1)));
        journal.clear();
        appended(&journal, new, put(4)).unwrap_err();
        assert!(journal.is_empty());
    }

    #[test]
    fn the_last_record_under_each_key_is_kept_until_it_is_dropped() {
        let journal = MemoryJournal::default();
        let (writer, _) = loaded(&journal);
        for batch in [
            vec![ended(1, 1), ended(2, 1), ended(1, 9)],
            vec![
                cooldown("a", None),
                cooldown("a", Some("x")),
                cooldown("b", None),
            ],
        ] {
            let entries = batch.into_iter().map(Entry::Put).collect();
            appended(&journal, writer, entries).unwrap();
        }
        let dropped = [ended(2, 5), cooldown("a", Some("x")), ended(3, 1)];
        let entries = dropped
            .iter()
            .map(|record| Entry::Drop(record.key()))
            .collect();
        appended(&journal, writer, entries).unwrap();

        let (_, loaded) = loaded(&journal);
        let kept = [ended(1, 9), cooldown("a", None), cooldown("b", None)];
        assert_eq!(loaded.len(), kept.len());
        assert!(kept.iter().all(|record| loaded.contains(record)));
    }
}
