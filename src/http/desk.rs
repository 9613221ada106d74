//! The desk: the lease ledger as the API sees it.
//!
//! Implemented for the address of the leases actor in the program, and over a bare ledger in tests.

use actors::{
    key::ProxyKey,
    leases::terms::{
        AcquireError, AcquireRequest, Grant, LeaseId, ReportResult, UnknownLease, View, ViewFilter,
    },
};
use std::{future::Future, sync::Arc, time::Duration};

/// Why the ledger gave no answer at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// This replica grants no leases; another one does, or soon will. Answered 503 `not_leader`.
    #[error("this replica is not the leader")]
    NotLeader,
    /// The deadline passed; the call may still take effect. Answered 503 `overloaded`.
    #[error("the lease ledger did not answer in time")]
    TooLate,
    /// The ledger went away with the call in hand; it is back in a moment. Answered 503 `not_leader`.
    #[error("the lease ledger dropped the call")]
    Dropped,
}

/// What the API asks of the ledger. Every call ends within a deadline of the implementation's.
///
/// # Errors
/// Each call fails with [`Unavailable`] where the ledger gives no answer; the inner results are the
/// ledger's own answers.
pub trait Desk: Clone + Send + Sync + 'static {
    /// Takes a slot on the best proxy that fits, or gives the lease that `idempotency` already got.
    fn acquire(
        &self,
        request: AcquireRequest,
        idempotency: Option<Box<str>>,
    ) -> impl Future<Output = Result<Result<Grant, AcquireError>, Unavailable>> + Send;

    /// Lets the lease end `ttl` from now.
    fn renew(
        &self,
        id: LeaseId,
        ttl: Duration,
    ) -> impl Future<Output = Result<Result<Grant, UnknownLease>, Unavailable>> + Send;

    /// Ends the lease; an unknown one is ended already.
    fn release(&self, id: LeaseId) -> impl Future<Output = Result<(), Unavailable>> + Send;

    /// Takes note of what a client found, at `target` or at the lease's own target.
    fn report(
        &self,
        id: LeaseId,
        result: ReportResult,
        target: Option<Arc<str>>,
    ) -> impl Future<Output = Result<Result<(), UnknownLease>, Unavailable>> + Send;

    /// The live lease with this identity.
    fn lease(
        &self,
        id: LeaseId,
    ) -> impl Future<Output = Result<Result<Grant, UnknownLease>, Unavailable>> + Send;

    /// The proxies that match, sorted by id.
    fn views(
        &self,
        filter: ViewFilter,
    ) -> impl Future<Output = Result<Vec<View>, Unavailable>> + Send;

    /// One proxy; `None` for one that does not exist or is going away.
    fn view(&self, key: ProxyKey)
    -> impl Future<Output = Result<Option<View>, Unavailable>> + Send;
}
