//! A prober: one actor that keeps proving that one proxy egresses.
//!
//! Talks to: the health actor (is told what to probe), its proxy (says verdicts) and the network
//! through [`probe::Probe`].
//!
//! Guarantees: one probe at a time; no catching up after a pause; the first probe at once. A result
//! that belongs to another address or health check than the current one is dropped with its task.
//! Started again after a crash it knows nothing and asks its proxy, which answers with the verdict so
//! far, so that a crash of ours makes no healthy proxy unhealthy.

pub mod probe;
#[cfg(test)]
mod tests;
pub mod verdict;

use crate::{
    key::ProxyKey,
    metrics::Metrics,
    proxy::{ProxyMsg, memory::Verdict, pace::jitter},
    system::{Actor, Addr, Broken, Context, Epoch, Work},
    trace,
};
use futures::FutureExt;
use probe::{Fetch, Outcome, Probe};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tracing::{Instrument, Span};
use verdict::{Judge, Thresholds};

/// What to probe, how often, and whom to tell.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The fetch that proves it.
    pub fetch: Fetch,
    /// From one probe to the next, ± 10 %.
    pub period: Duration,
    /// What flips the verdict.
    pub thresholds: Thresholds,
    /// The verdict so far, for an address that was probed before.
    pub verdict: Option<Verdict>,
    /// Sent back with every verdict.
    pub epoch: Epoch,
}

impl Watch {
    pub(crate) fn same_proxy(&self, other: &Self) -> bool {
        (&self.fetch.host, self.fetch.port) == (&other.fetch.host, other.fetch.port)
    }
    pub(crate) fn same_check(&self, other: &Self) -> bool {
        (&self.fetch, self.period, self.thresholds)
            == (&other.fetch, other.period, other.thresholds)
    }
}

/// What a prober understands.
#[derive(strum::IntoStaticStr)]
pub enum ProberMsg {
    /// Probe this from now on.
    Watch(Box<Watch>),
    /// The probe started under this epoch ended; sent by its task.
    Probed(Epoch, Outcome),
    /// The probe started under this epoch panicked; sent by its task.
    Panicked(Epoch),
}

/// What all probers share.
pub struct Prospect {
    /// The network.
    pub probe: Arc<dyn Probe>,
    /// Probes in flight at once, over all proxies. Held in a pool, so that a killed prober gives its
    /// slot back with its task.
    pub slots: Arc<Semaphore>,
    /// Where every probe is counted.
    pub metrics: Metrics,
    /// Whether each probe is a trace.
    pub traced: bool,
}

/// The actor.
pub struct ProberActor {
    key: ProxyKey,
    proxy: Addr<ProxyMsg>,
    with: Arc<Prospect>,
    first: Option<Box<Watch>>,
    watch: Option<Box<Watch>>,
    judge: Judge,
    /// It was started again after a failure, and its proxy does not know yet that it works.
    recovering: bool,
    work: Work,
}

impl ProberActor {
    /// A prober for `key`; without a `first` watch it asks `proxy` for one.
    #[must_use]
    pub fn new(
        key: ProxyKey,
        proxy: Addr<ProxyMsg>,
        with: Arc<Prospect>,
        first: Option<Box<Watch>>,
    ) -> Self {
        Self {
            key,
            proxy,
            with,
            recovering: first.is_none(),
            first,
            watch: None,
            judge: Judge::default(),
            work: Work::default(),
        }
    }

    fn watch(&mut self, new: Box<Watch>, me: &Addr<ProberMsg>) {
        let same_proxy = self.watch.as_ref().is_some_and(|old| old.same_proxy(&new));
        let same_check = self.watch.as_ref().is_some_and(|old| old.same_check(&new));
        if !same_proxy {
            self.judge = Judge::of(new.verdict.clone());
        }
        // A proxy actor that was started again may not have heard of the latest verdict.
        if same_proxy
            && let Some(verdict) = self
                .judge
                .verdict()
                .filter(|v| new.verdict.as_ref() != Some(*v))
        {
            self.proxy
                .hint(ProxyMsg::Judged(new.epoch, verdict.clone()));
        }
        self.watch = Some(new);
        if !same_check {
            self.probe_after(Duration::ZERO, me);
        }
    }

    /// One task for the pause, the wait for a slot and the probe; its future is small until it probes.
    fn probe_after(&mut self, pause: Duration, me: &Addr<ProberMsg>) {
        let Some(watch) = &self.watch else { return };
        let (with, fetch, me) = (Arc::clone(&self.with), watch.fetch.clone(), me.clone());
        let traced = with.traced.then(|| self.key.clone());
        self.work.start(|epoch| async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let Ok(slot) = with.slots.acquire().await else {
                return;
            };
            let span = traced.map_or_else(Span::none, |key| trace::probe(&key));
            let probed = AssertUnwindSafe(with.probe.probe(&fetch)).catch_unwind();
            let probed = probed.instrument(span.clone()).await;
            drop(slot);
            if let Ok(outcome) = &probed {
                trace::probed(&span, outcome);
            }
            me.hint(match probed {
                Ok(outcome) => ProberMsg::Probed(epoch, outcome),
                Err(_) => ProberMsg::Panicked(epoch),
            });
        });
    }
}

impl Actor for ProberActor {
    type Msg = ProberMsg;
    const KIND: &'static str = "prober";

    fn started(&mut self, cx: &mut Context<ProberMsg>) -> Result<(), Broken> {
        match self.first.take() {
            Some(watch) => self.watch(watch, cx.me()),
            None => self.proxy.hint(ProxyMsg::Announce),
        }
        Ok(())
    }

    fn handle(&mut self, message: ProberMsg, cx: &mut Context<ProberMsg>) -> Result<(), Broken> {
        match message {
            ProberMsg::Watch(watch) => self.watch(watch, cx.me()),
            ProberMsg::Probed(epoch, outcome) => {
                let Some(watch) = self.watch.as_ref().filter(|_| self.work.finish(epoch)) else {
                    return Ok(());
                };
                self.with.metrics.probed(&self.key, &outcome);
                let news = self.judge.take(&outcome, watch.thresholds);
                let confirms = std::mem::take(&mut self.recovering);
                let known = || self.judge.verdict().filter(|_| confirms).cloned();
                if let Some(verdict) = news.or_else(known) {
                    self.proxy.hint(ProxyMsg::Judged(watch.epoch, verdict));
                }
                let pause = jitter(watch.period, rand::random());
                self.probe_after(pause, cx.me());
            }
            ProberMsg::Panicked(epoch) => {
                if self.work.finish(epoch) {
                    return Err(Broken("the probe panicked".into()));
                }
            }
        }
        Ok(())
    }
}

/// Also when it is killed: the series of a proxy that is probed again come back with its next probe.
impl Drop for ProberActor {
    fn drop(&mut self) {
        self.with.metrics.forget(&self.key);
    }
}
