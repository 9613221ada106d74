//! The port to the record that an election is about: one object that all candidates read and replace.
//!
//! Its calls are single steps. Who may take the record over, and when, is decided in
//! [`super::elector`]; the port only promises that a replacement happens on the version that was read, or
//! not at all.

use futures::future::BoxFuture;
use std::time::Duration;

/// What stands in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Who leads; none after a leader that gave the leadership back.
    pub holder: Option<String>,
    /// Where the holder's lease API is reached, as `host:port`.
    pub address: Option<String>,
    /// How long others wait after the holder's last sign of life.
    pub duration: Duration,
    /// Rises by one with every change of the holder, from a beginning that no earlier record had.
    pub fence: u64,
}

/// Which state of the record it is; only ever compared for equality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

/// The record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Changes with every write, whoever writes.
    pub version: Version,
    /// What it says.
    pub record: Record,
}

/// A change of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it shall say.
    pub record: Record,
    /// The version that is replaced; none where there was no record.
    pub on: Option<Version>,
    /// Whether a tenure begins with it.
    pub begins: bool,
}

/// What became of a change that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was done, and this is the version since.
    Done(Version),
    /// The record was not on that version any more: nothing was done.
    Conflict,
}

/// There was no answer, or a refusal. A change may have been done or may yet be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unanswered(pub String);

/// Reads and replaces the record. Every call ends within a deadline of its own, of few seconds.
pub trait Election: Send + Sync + 'static {
    /// The record as it is now, past any cache; none where nobody made one yet.
    ///
    /// # Errors
    /// [`Unanswered`].
    fn read(&self) -> BoxFuture<'static, Result<Option<Seen>, Unanswered>>;

    /// Makes a change.
    ///
    /// # Errors
    /// [`Unanswered`].
    fn write(&self, change: Change) -> BoxFuture<'static, Result<Written, Unanswered>>;
}
