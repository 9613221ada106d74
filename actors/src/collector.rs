//! The collector: deletes what the providers have and no Proxy accounts for.
//!
//! Talks to: every provider's actor (asks for its list, tells orphans to go) and the API server through
//! [`LiveProxies`].
//!
//! Guarantees: the Proxies are read after the list, past every cache, so whatever the list names had its
//! Proxy before they were read, or has none; a list or a reading that failed ends that sweep; what belongs
//! to another installation, or may belong to a Proxy that cannot be seen, is left alone. Providers are swept
//! beside each other, each once at a time, with [`AT_ONCE`] deletions under way: one that hangs delays no
//! other. Killed, it knows nothing and starts over, which at worst makes an orphan live longer.

pub mod orphans;
#[cfg(test)]
mod tests;

use crate::{
    metrics::Metrics,
    provider::{
        ProviderMsg,
        contract::{Instance, ProviderError, ProviderId},
    },
    providers::Listed,
    system::{Actor, Addr, AskError, Broken, Context, Epoch, Work},
    trace,
    wall::Wall,
};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use orphans::{Judge, Live, Orphans, Verdicts};
use std::{
    collections::{BTreeMap, HashMap},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

/// Deletions of one provider under way at once.
pub const AT_ONCE: usize = 4;
/// Longer than any provider's own deadline for a list, its wait for a turn included.
const LIST: Duration = Duration::from_mins(3);
/// Longer than any port needs to read all Proxies.
const READ: Duration = Duration::from_mins(2);
/// All deletions of a sweep together; the next sweep does the rest.
const DELETE: Duration = Duration::from_mins(10);
/// The first sweep does not wait for a long interval: an operator that is restarted often would never
/// come to it.
const FIRST: Duration = Duration::from_mins(1);

/// When instances are collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one sweep to the next.
    pub interval: Duration,
    /// Younger ones are left alone.
    pub min_age: Duration,
}

/// The port to the Proxies that exist.
pub trait LiveProxies: Send + Sync + 'static {
    /// All of them, read from the API server itself at some time after this was called; one that is being
    /// deleted exists. Ends within two minutes.
    ///
    /// # Errors
    /// When not all could be read.
    fn read(&self) -> BoxFuture<'static, Result<Live, String>>;
}

/// What a collector needs.
pub struct CollectorDeps {
    /// The providers.
    pub roster: watch::Receiver<BTreeMap<String, Listed>>,
    /// The Proxies.
    pub live: Arc<dyn LiveProxies>,
    /// Which installation of the operator this is.
    pub installation: String,
    /// When to collect.
    pub pace: Pace,
    /// What backends tell the age of instances by.
    pub wall: Wall,
    /// What is counted.
    pub metrics: Metrics,
}

/// What the collector understands.
#[derive(strum::IntoStaticStr)]
pub enum CollectorMsg {
    /// It is time for a sweep.
    Due(Epoch),
    /// What this provider has and which Proxies existed after that, or why that cannot be told.
    Listed(Epoch, String, Result<(Vec<Instance>, Live), String>),
    /// The deletions at this provider ended.
    Deleted(Epoch, String, Deletions),
}

/// How the deletions of a sweep ended.
#[derive(Debug, Default)]
pub struct Deletions {
    /// Those that were told to go.
    done: Vec<ProviderId>,
    /// How many could not be told, and what was said of one of them.
    failed: usize,
    error: Option<String>,
}

/// The actor.
pub struct CollectorActor {
    deps: Arc<CollectorDeps>,
    alarm: Work,
    /// By provider, as long as one is under way or orphans are known.
    sweeps: HashMap<String, Sweep>,
}

#[derive(Default)]
struct Sweep {
    /// Which content of the entry is swept.
    fingerprint: u64,
    work: Work,
    orphans: Orphans,
    verdicts: Verdicts,
    /// It was told that nothing can be collected here.
    blind: bool,
}

impl CollectorActor {
    /// One that has swept nothing yet.
    #[must_use]
    pub fn new(deps: Arc<CollectorDeps>) -> Self {
        Self {
            deps,
            alarm: Work::default(),
            sweeps: HashMap::new(),
        }
    }

    fn wake_in(&mut self, pause: Duration, me: &Addr<CollectorMsg>) {
        let me = me.clone();
        self.alarm.start(|epoch| async move {
            sleep(pause).await;
            me.hint(CollectorMsg::Due(epoch));
        });
    }

    fn sweep_all(&mut self, me: &Addr<CollectorMsg>) {
        let roster = self.deps.roster.borrow().clone();
        self.sweeps.retain(|name, _| roster.contains_key(name));
        for (name, listed) in roster {
            let sweep = self.sweeps.entry(name.clone()).or_default();
            if sweep.fingerprint != listed.fingerprint {
                // Another backend, maybe: nothing that was found before is true of it.
                *sweep = Sweep {
                    fingerprint: listed.fingerprint,
                    ..Sweep::default()
                };
            }
            if sweep.work.is_under_way() {
                continue;
            }
            let (live, me) = (Arc::clone(&self.deps.live), me.clone());
            let span = trace::sweep(&name);
            let looking = |epoch| async move {
                let look = AssertUnwindSafe(look(&listed.addr, &*live)).catch_unwind();
                let found = look.await.unwrap_or_else(|_| Err("it panicked".to_owned()));
                me.hint(CollectorMsg::Listed(epoch, name, found));
            };
            span.in_scope(|| sweep.work.start_within(looking));
        }
    }

    fn listed(
        &mut self,
        name: String,
        found: Result<(Vec<Instance>, Live), String>,
        me: &Addr<CollectorMsg>,
    ) {
        let roster = self.deps.roster.borrow();
        let (Some(sweep), Some(listed)) = (self.sweeps.get_mut(&name), roster.get(&name)) else {
            return;
        };
        if sweep.fingerprint != listed.fingerprint {
            return;
        }
        let (instances, live) = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(provider = name, error, "the sweep for orphans ended early");
                return self.deps.metrics.swept(&name, 0, true);
            }
        };
        // Proxies that cannot be seen may own what this provider lists. Where it lists nothing, none were read.
        if !instances.is_empty() && !live.everywhere && !listed.confined {
            if !std::mem::replace(&mut sweep.blind, true) {
                tracing::warn!(
                    provider = name,
                    "no orphans are collected here: Proxies of other namespaces, which may own its \
                     instances, may not be listed"
                );
            }
            return self.deps.metrics.swept(&name, 0, false);
        }
        let judge = Judge {
            installation: &self.deps.installation,
            live: &live,
            min_age: self.deps.pace.min_age,
            wall: (self.deps.wall)().as_second(),
            now: Instant::now(),
        };
        sweep.verdicts = sweep.orphans.judge(&instances, &judge);
        let orphans = sweep.verdicts.orphans.clone();
        let (provider, me) = (listed.addr.clone(), me.clone());
        sweep.work.start_within(|epoch| async move {
            let deletions = delete(&provider, orphans).await;
            me.hint(CollectorMsg::Deleted(epoch, name, deletions));
        });
    }

    fn deleted(&mut self, name: &str, deletions: &Deletions) {
        // Held until it is counted: series are forgotten once the provider is not in it any more.
        let roster = self.deps.roster.borrow();
        let (Some(sweep), Some(listed)) = (self.sweeps.get_mut(name), roster.get(name)) else {
            return;
        };
        if sweep.fingerprint != listed.fingerprint {
            return;
        }
        let new = sweep.orphans.told(&deletions.done);
        self.deps
            .metrics
            .swept(name, new, deletions.error.is_some());
        let Verdicts {
            orphans,
            live,
            young,
            foreign,
        } = std::mem::take(&mut sweep.verdicts);
        let (orphans, deleted) = (orphans.len(), deletions.done.len());
        match &deletions.error {
            None => tracing::info!(
                provider = name,
                live,
                young,
                foreign,
                orphans,
                deleted,
                "swept for orphans"
            ),
            Some(error) => tracing::warn!(
                provider = name,
                live,
                young,
                foreign,
                orphans,
                deleted,
                failed = deletions.failed,
                error,
                "not all orphans could be deleted"
            ),
        }
    }

    fn finishes(&mut self, name: &str, epoch: Epoch) -> bool {
        let sweep = self.sweeps.get_mut(name);
        sweep.is_some_and(|sweep| sweep.work.finish(epoch))
    }
}

/// What the provider has, and the Proxies that exist after that.
async fn look(
    provider: &Addr<ProviderMsg>,
    live: &dyn LiveProxies,
) -> Result<(Vec<Instance>, Live), String> {
    let listed = provider.ask(LIST, ProviderMsg::List).await;
    let instances = answer(listed)?;
    if instances.is_empty() {
        return Ok((instances, Live::default()));
    }
    let read = timeout(READ, live.read()).await;
    let live = read.unwrap_or_else(|_| Err(format!("no answer within {} s", READ.as_secs())));
    live.map(|live| (instances, live))
        .map_err(|error| format!("reading the Proxies: {error}"))
}

async fn delete(provider: &Addr<ProviderMsg>, orphans: Vec<ProviderId>) -> Deletions {
    let until = Instant::now() + DELETE;
    let deletions = orphans.into_iter().map(|id| async move {
        let patience = until.saturating_duration_since(Instant::now());
        let asked = provider.ask(patience, |reply| ProviderMsg::Delete(id.clone(), reply));
        let deleted = answer(asked.await);
        if deleted.is_ok() {
            tracing::info!(providerID = id, "an orphan was told to go");
        }
        (id, deleted)
    });
    let mut ended = Deletions::default();
    let mut deletions = stream::iter(deletions).buffer_unordered(AT_ONCE);
    while let Some((id, deleted)) = deletions.next().await {
        match deleted {
            Ok(()) => ended.done.push(id),
            Err(error) => {
                ended.failed += 1;
                ended.error = Some(error);
            }
        }
    }
    ended
}

fn answer<T>(asked: Result<Result<T, ProviderError>, AskError>) -> Result<T, String> {
    match asked {
        Ok(answered) => answered.map_err(|error| error.to_string()),
        Err(error) => Err(format!("its provider: {error}")),
    }
}

impl Actor for CollectorActor {
    type Msg = CollectorMsg;
    const KIND: &'static str = "collector";

    fn started(&mut self, cx: &mut Context<CollectorMsg>) -> Result<(), Broken> {
        self.wake_in(self.deps.pace.interval.min(FIRST), cx.me());
        Ok(())
    }

    fn handle(
        &mut self,
        message: CollectorMsg,
        cx: &mut Context<CollectorMsg>,
    ) -> Result<(), Broken> {
        match message {
            CollectorMsg::Due(epoch) => {
                if self.alarm.finish(epoch) {
                    self.sweep_all(cx.me());
                    self.wake_in(self.deps.pace.interval, cx.me());
                }
            }
            CollectorMsg::Listed(epoch, name, found) => {
                if self.finishes(&name, epoch) {
                    self.listed(name, found, cx.me());
                }
            }
            CollectorMsg::Deleted(epoch, name, deletions) => {
                if self.finishes(&name, epoch) {
                    self.deleted(&name, &deletions);
                }
            }
        }
        Ok(())
    }
}
