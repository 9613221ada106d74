//! The lease ledger: one actor that owns every lease and cooldown.
//!
//! Talks to: every proxy (hears what may be leased), the API (is asked for leases) and the journal.
//!
//! Guarantees: what was granted, released or reported is in the journal before it is answered; a
//! ledger that could not journal is made anew from the journal. Started again, it believes what the
//! fleet said last, or its objects, until every proxy has said anew what may be leased. Nobody waits behind a slow journal but
//! those whose change it has to keep: while it writes, further changes gather into the next batch.

#[cfg(test)]
mod actor_test;
mod batches;
pub mod journal;
pub mod ledger;
mod loading;
pub mod now;
pub mod terms;

use crate::{
    fleet::FleetMsg,
    key::ProxyKey,
    metrics::Metrics,
    store::ProxyStore,
    system::{Actor, Addr, Broken, Context, Epoch, Reply, Work},
};
use journal::{Entry, Journal, JournalError, Writer};
use ledger::Ledger;
use loading::load;
use now::Clock;
use std::{collections::HashSet, sync::Arc, time::Duration};
use terms::{
    AcquireError, AcquireRequest, Candidate, Grant, Granted, LeaseId, NoMatch, ReportResult, Terms,
    UnknownLease, View, ViewFilter,
};
use tokio::sync::watch;

/// How often ended leases and cooldowns are cleared out when nobody asks.
const SWEEP: Duration = Duration::from_secs(1);

/// Leases and cooldowns, as the gauges show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live leases.
    pub leases: usize,
    /// Cooldowns under way.
    pub cooldowns: usize,
}

/// What the ledger understands.
#[derive(strum::IntoStaticStr)]
pub enum LeasesMsg {
    /// This may be leased, as it is now.
    Offer(Arc<Candidate>),
    /// This must appear in no answer any more.
    Withdraw(ProxyKey),
    /// Only these exist.
    Retain(Arc<HashSet<ProxyKey>>),
    /// Grant a lease; with an idempotency key, the same one again.
    Acquire(
        AcquireRequest,
        Option<Box<str>>,
        Reply<Result<Grant, AcquireError>>,
    ),
    /// Make a lease end later, or sooner.
    Renew(LeaseId, Duration, Reply<Result<Grant, UnknownLease>>),
    /// End a lease.
    Release(LeaseId, Reply<()>),
    /// Take in what a client found.
    Report(
        LeaseId,
        ReportResult,
        Option<Arc<str>>,
        Reply<Result<(), UnknownLease>>,
    ),
    /// Show a live lease.
    Lease(LeaseId, Reply<Result<Grant, UnknownLease>>),
    /// Show proxies.
    Views(ViewFilter, Reply<Vec<View>>),
    /// Show a proxy.
    View(ProxyKey, Reply<Option<View>>),
    /// Count.
    Count(Reply<Counts>),
    /// The ledger is as its journal and the fleet's objects have it.
    Loaded(Epoch, Result<(Writer, Box<Ledger>), Broken>),
    /// The journal has the batch.
    Journalled(Epoch, Result<(), JournalError>),
    /// Clear out what has ended.
    Sweep(Epoch),
}

type Answer = Box<dyn FnOnce() + Send>;

/// What the ledger is made of at every start.
pub struct LeaseDeps {
    /// The durations that the flags set.
    pub terms: Terms,
    /// One for the whole process, so that what was journalled is resumed on the same monotonic clock.
    pub clock: Clock,
    /// What survives.
    pub journal: Arc<dyn Journal>,
    /// Where the pool is taken from until the fleet has spoken, by a ledger that has no predecessor.
    pub store: Arc<dyn ProxyStore>,
    /// What the fleet said last to the predecessor; of a large fleet that is quicker than to ask the objects.
    pub pool: watch::Sender<Vec<Arc<Candidate>>>,
    /// Asked to speak.
    pub fleet: Addr<FleetMsg>,
    /// What is counted.
    pub metrics: Metrics,
}

/// The actor.
pub struct LeasesActor {
    deps: Arc<LeaseDeps>,
    ledger: Ledger,
    writer: Writer,
    loading: Work,
    /// What came before the journal was read.
    early: Vec<LeasesMsg>,
    append: Work,
    /// Waits for the append under way.
    under_way: Vec<Answer>,
    /// Waits for the next.
    entries: Vec<Entry>,
    waiting: Vec<Answer>,
    sweep: Work,
}

impl LeasesActor {
    /// A ledger that reads its journal first.
    #[must_use]
    pub fn new(deps: Arc<LeaseDeps>) -> Self {
        Self {
            ledger: Ledger::new(deps.terms),
            deps,
            writer: Writer::default(),
            loading: Work::default(),
            early: Vec::new(),
            append: Work::default(),
            under_way: Vec::new(),
            entries: Vec::new(),
            waiting: Vec::new(),
            sweep: Work::default(),
        }
    }

    fn loaded(
        &mut self,
        loaded: Result<(Writer, Box<Ledger>), Broken>,
        cx: &mut Context<LeasesMsg>,
    ) -> Result<(), Broken> {
        let (writer, ledger) = loaded?;
        (self.writer, self.ledger) = (writer, *ledger);
        self.deps.fleet.hint(FleetMsg::Announce);
        for message in std::mem::take(&mut self.early) {
            self.handle(message, cx)?;
        }
        self.rearm(cx.me());
        Ok(())
    }

    fn rearm(&mut self, me: &Addr<LeasesMsg>) {
        let me = me.clone();
        self.sweep.start(|epoch| async move {
            tokio::time::sleep(SWEEP).await;
            me.hint(LeasesMsg::Sweep(epoch));
        });
    }

    fn acquire(
        &mut self,
        request: &AcquireRequest,
        key: Option<&str>,
    ) -> Result<Grant, AcquireError> {
        let (id, now) = (LeaseId(rand::random()), self.deps.clock.now());
        let acquired = self.ledger.acquire(request, key, id, now);
        match &acquired {
            Ok((_, Granted::Fresh)) => self.deps.metrics.granted(),
            Ok((_, Granted::Repeated)) => {}
            Err(error) => self.deps.metrics.denied(reason(error)),
        }
        acquired.map(|(grant, _)| grant)
    }
}

fn broken(error: &JournalError) -> Broken {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    Broken(format!("{error}: {}", cause.unwrap_or_default()))
}

/// The metric label: what stands in the way of most that matched comes last in the order of the checks.
fn reason(error: &AcquireError) -> &'static str {
    match error {
        AcquireError::KeyReused => "key_reused",
        AcquireError::NoMatch(NoMatch {
            in_cooldown: 1.., ..
        }) => "cooldown",
        AcquireError::NoMatch(NoMatch {
            at_capacity: 1.., ..
        }) => "capacity",
        AcquireError::NoMatch(NoMatch { unhealthy: 1.., .. }) => "unhealthy",
        AcquireError::NoMatch(_) => "no_candidate",
    }
}

impl Actor for LeasesActor {
    type Msg = LeasesMsg;
    const KIND: &'static str = "leases";

    fn started(&mut self, cx: &mut Context<LeasesMsg>) -> Result<(), Broken> {
        let (deps, me) = (Arc::clone(&self.deps), cx.me().clone());
        self.loading.start(|epoch| async move {
            let ledger = load(deps).await;
            me.hint(LeasesMsg::Loaded(epoch, ledger));
        });
        Ok(())
    }

    fn handle(&mut self, message: LeasesMsg, cx: &mut Context<LeasesMsg>) -> Result<(), Broken> {
        if self.loading.is_under_way() && !matches!(message, LeasesMsg::Loaded(..)) {
            // Bounded by the requests that the API lets in and by the size of the fleet.
            self.early.push(message);
            return Ok(());
        }
        let me = cx.me();
        match message {
            LeasesMsg::Offer(candidate) => self.ledger.upsert(candidate),
            LeasesMsg::Withdraw(key) => self.ledger.remove(&key),
            LeasesMsg::Retain(keys) => {
                for view in self.ledger.views(&ViewFilter::default()) {
                    if !keys.contains(&view.candidate.key) {
                        self.ledger.remove(&view.candidate.key);
                    }
                }
            }
            // Granted to nobody, it would keep a slot for as long as it lasts.
            LeasesMsg::Acquire(_, _, reply) if reply.is_closed() => {}
            LeasesMsg::Acquire(request, key, reply) => {
                let acquired = self.acquire(&request, key.as_deref());
                return self.answer(reply, acquired, me);
            }
            LeasesMsg::Renew(id, ttl, reply) => {
                let renewed = self.ledger.renew(id, ttl, self.deps.clock.now());
                return self.answer(reply, renewed, me);
            }
            LeasesMsg::Release(id, reply) => {
                self.ledger.release(id, self.deps.clock.now());
                return self.answer(reply, (), me);
            }
            LeasesMsg::Report(id, result, target, reply) => {
                let reported =
                    self.ledger
                        .report(id, result, target.as_ref(), self.deps.clock.now());
                if reported.is_ok() {
                    self.deps.metrics.reported(result);
                }
                return self.answer(reply, reported, me);
            }
            LeasesMsg::Lease(id, reply) => {
                reply.send(self.ledger.get(id, self.deps.clock.now())).ok();
            }
            LeasesMsg::Views(filter, reply) => {
                self.ledger.expire(self.deps.clock.now());
                reply.send(self.ledger.views(&filter)).ok();
            }
            LeasesMsg::View(key, reply) => {
                self.ledger.expire(self.deps.clock.now());
                reply.send(self.ledger.view(&key)).ok();
            }
            LeasesMsg::Count(reply) => {
                self.ledger.expire(self.deps.clock.now());
                let (leases, cooldowns) =
                    (self.ledger.leases_active(), self.ledger.cooldowns_active());
                reply.send(Counts { leases, cooldowns }).ok();
            }
            LeasesMsg::Loaded(epoch, ledger) => {
                if self.loading.finish(epoch) {
                    return self.loaded(ledger, cx);
                }
            }
            LeasesMsg::Journalled(epoch, result) => {
                if self.append.finish(epoch) {
                    return self.journalled(result, me);
                }
            }
            LeasesMsg::Sweep(epoch) => {
                if self.sweep.finish(epoch) {
                    self.ledger.expire(self.deps.clock.now());
                    self.rearm(me);
                    return self.settle(|| (), me);
                }
            }
        }
        Ok(())
    }
}
