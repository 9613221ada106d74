//! The desk of the program: the address of the leases actor, and a gate before and behind it. What the ledger
//! answered is not passed on by a process that does not lead any more.

use super::desk::{Desk, Unavailable};
use actors::{
    key::ProxyKey,
    leader::standing::{NotLeader, Standing},
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
#[derive(Clone)]
pub struct LedgerDesk {
    leases: Addr<LeasesMsg>,
    standing: Standing,
}

impl LedgerDesk {
    /// A desk that is open while this process leads.
    #[must_use]
    pub fn new(leases: Addr<LeasesMsg>, standing: Standing) -> Self {
        Self { leases, standing }
    }

    async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<R>) -> LeasesMsg,
    ) -> Result<R, Unavailable> {
        let answer = self.standing.guard(self.answer(question)).await;
        let answer = answer.map_err(|NotLeader| Unavailable::NotLeader)?;
        // A tenure that ended while the ledger answered: the next leader may know nothing of it.
        if !self.standing.may_act() {
            return Err(Unavailable::NotLeader);
        }
        answer
    }

    async fn answer<R: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<R>) -> LeasesMsg,
    ) -> Result<R, Unavailable> {
        // A question that never reached anybody can be asked again without harm.
        for _ in 0..RETRIES {
            if self.leases.is_up() {
                break;
            }
            tokio::time::sleep(RETRY).await;
        }
        self.leases
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
