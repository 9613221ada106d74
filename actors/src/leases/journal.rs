//! Where leases and cooldowns survive a crash: the port that the ledger's actor writes through.
//!
//! A journal is a set of [`Record`]s, each under its [`RecordKey`]; an [`Entry`] puts or drops one. The ledger names
//! every record that it no longer needs, so the set is as large as what is live. How a journal stores it, and when it
//! compacts, is its own affair.

pub mod memory;

use super::{
    now::Deadline,
    terms::{Idempotency, LeaseId},
};
use crate::key::ProxyKey;
use futures::future::BoxFuture;
use std::{error::Error, sync::Arc, time::Duration};

/// A journal that outlives the actor that writes it.
pub trait Journal: Send + Sync + 'static {
    /// Makes `entries` durable, all or none, in order; done only when a crash can no longer undo them.
    ///
    /// # Errors
    /// When that is in doubt, or another writer has come since. The ledger that made the entries is then ahead of
    /// its journal: drop it and restore.
    fn append(
        &self,
        writer: Writer,
        entries: Vec<Entry>,
    ) -> BoxFuture<'_, Result<(), JournalError>>;

    /// All records, in any order, and the right to append from here on, which whoever had it loses: a ledger that
    /// was killed amid an answer may still be about to write, and its successor would never know of that lease.
    ///
    /// # Errors
    /// When they cannot be read; never a part of them.
    fn load(&self) -> BoxFuture<'_, Result<(Writer, Vec<Record>), JournalError>>;
}

/// One who has loaded a journal, and writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writer(pub(super) u64);

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Sets the record, whether or not there is one under its key.
    Put(Record),
    /// Drops the record, if there is one.
    Drop(RecordKey),
}

/// What is known again after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A lease that was granted. Past its end it is an ended one.
    Lease {
        /// Its identity.
        id: LeaseId,
        /// Whose slot it takes.
        of: Arc<Holder>,
        /// The site it was taken for.
        target: Option<Arc<str>>,
        /// As asked for.
        ttl: Duration,
        /// When it ends.
        ends: Deadline,
        /// The request that must not be granted twice.
        idempotency: Option<Arc<Idempotency>>,
    },
    /// A lease that was released: it takes no slot, but can be reported on.
    Ended {
        /// Its identity.
        id: LeaseId,
        /// Whose slot it took.
        of: Arc<Holder>,
        /// The site it was taken for.
        target: Option<Arc<str>>,
        /// When it is forgotten.
        until: Deadline,
    },
    /// A proxy cools down.
    Cooldown {
        /// Which proxy.
        of: Arc<Holder>,
        /// For requests that name this target; `None` is for everybody.
        target: Option<Arc<str>>,
        /// When it is over.
        until: Deadline,
    },
}

/// One incarnation of a proxy: a new object under an old name has another `uid`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The object's name.
    pub key: ProxyKey,
    /// The object's UID.
    pub uid: Arc<str>,
}

/// What tells one record from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RecordKey {
    /// A lease, live or ended.
    Lease(LeaseId),
    /// A cooldown.
    Cooldown(Arc<Holder>, Option<Arc<str>>),
}

impl Record {
    /// The key it is stored under.
    #[must_use]
    pub fn key(&self) -> RecordKey {
        match self {
            Self::Lease { id, .. } | Self::Ended { id, .. } => RecordKey::Lease(*id),
            Self::Cooldown { of, target, .. } => RecordKey::Cooldown(of.clone(), target.clone()),
        }
    }
}

/// The journal failed. `journal` says which one, as a person would look for it (a path).
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Entries may or may not be durable.
    #[error("cannot append to the lease journal {journal}")]
    Append {
        /// Which journal.
        journal: String,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The records cannot be read.
    #[error("cannot read the lease journal {journal}")]
    Load {
        /// Which journal.
        journal: String,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
}
