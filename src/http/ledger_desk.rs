//! The desk of the program: the address of the leases actor.

use super::desk::{Desk, Unavailable};
use actors::{
    key::ProxyKey,
    leases::{
        LeasesMsg,
        terms::{
            AcquireError, AcquireRequest, Grant, LeaseId, ReportResult, UnknownLease, View,
            ViewFilter,
        },
    },
    system::{Addr, AskError, Reply},
};
use std::{sync::Arc, time::Duration};

/// The ledger answers in microseconds; a client should not wait longer for a ledger that hangs.
const DEADLINE: Duration = Duration::from_secs(5);
/// A ledger that is being restarted is back in milliseconds.
const RETRY: Duration = Duration::from_millis(20);
const RETRIES: u32 = 100;

/// Asks the leases actor.
#[derive(Clone, Debug)]
pub struct LedgerDesk(pub Addr<LeasesMsg>);

impl LedgerDesk {
    async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<R>) -> LeasesMsg,
    ) -> Result<R, Unavailable> {
        // A question that never reached anybody can be asked again without harm.
        for _ in 0..RETRIES {
            if self.0.is_up() {
                break;
            }
            tokio::time::sleep(RETRY).await;
        }
        self.0
            .ask(DEADLINE, question)
            .await
            .map_err(|error| match error {
                AskError::Late(_) => Unavailable::TooLate,
                AskError::Down | AskError::Dropped => Unavailable::Dropped,
            })
    }
}

impl Desk for LedgerDesk {
    async fn acquire(
        &self,
        request: AcquireRequest,
        idempotency: Option<Box<str>>,
    ) -> Result<Result<Grant, AcquireError>, Unavailable> {
        self.ask(|reply| LeasesMsg::Acquire(request, idempotency, reply))
            .await
    }

    async fn renew(
        &self,
        id: LeaseId,
        ttl: Duration,
    ) -> Result<Result<Grant, UnknownLease>, Unavailable> {
        self.ask(|reply| LeasesMsg::Renew(id, ttl, reply)).await
    }

    async fn release(&self, id: LeaseId) -> Result<(), Unavailable> {
        self.ask(|reply| LeasesMsg::Release(id, reply)).await
    }

    async fn report(
        &self,
        id: LeaseId,
        result: ReportResult,
        target: Option<Arc<str>>,
    ) -> Result<Result<(), UnknownLease>, Unavailable> {
        self.ask(|reply| LeasesMsg::Report(id, result, target, reply))
            .await
    }

    async fn lease(&self, id: LeaseId) -> Result<Result<Grant, UnknownLease>, Unavailable> {
        self.ask(|reply| LeasesMsg::Lease(id, reply)).await
    }

    async fn views(&self, filter: ViewFilter) -> Result<Vec<View>, Unavailable> {
        self.ask(|reply| LeasesMsg::Views(filter, reply)).await
    }

    async fn view(&self, key: ProxyKey) -> Result<Option<View>, Unavailable> {
        self.ask(|reply| LeasesMsg::View(key, reply)).await
    }
}
