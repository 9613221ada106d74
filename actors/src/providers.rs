//! Providers: the parent of one provider actor for each entry of the config.
//!
//! Talks to: the config (hears of provider sets), its children, the fleet (says when the set changed)
//! and, through the [`Roster`], every proxy that looks for its provider.
//!
//! Guarantees: the roster names exactly the providers of the newest set; a provider whose entry did
//! not change keeps its actor and what it has under way.

#[cfg(test)]
pub(crate) mod tests;

use crate::{
    fleet::FleetMsg,
    metrics::Metrics,
    provider::{ProviderActor, ProviderMsg, contract::Provider},
    system::{Actor, Addr, Broken, ChildSpec, Context},
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// One configured provider.
#[derive(Clone)]
pub struct Entry {
    /// The backend.
    pub provider: Arc<dyn Provider>,
    /// Changes when the entry's content does.
    pub fingerprint: u64,
}

/// All configured providers, by name.
pub type ProviderSet = BTreeMap<String, Entry>;

/// Where a proxy finds its provider.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The actor.
    pub addr: Addr<ProviderMsg>,
    /// Changes when the entry's content does.
    pub fingerprint: u64,
    /// Whether it lists nothing of another namespace's Proxies: [`Provider::is_confined`].
    pub confined: bool,
}

/// The providers by name, as they are now.
pub type Roster = Arc<watch::Sender<BTreeMap<String, Listed>>>;

/// What the parent understands.
#[derive(strum::IntoStaticStr)]
pub enum ProvidersMsg {
    /// From now on these are the providers.
    Configure(Arc<ProviderSet>),
}

/// The parent.
pub struct ProvidersActor {
    set: watch::Receiver<Arc<ProviderSet>>,
    roster: Roster,
    fleet: Addr<FleetMsg>,
    metrics: Metrics,
}

impl ProvidersActor {
    /// A parent that starts from the newest set and keeps `roster`.
    #[must_use]
    pub fn new(
        set: watch::Receiver<Arc<ProviderSet>>,
        roster: Roster,
        fleet: Addr<FleetMsg>,
        metrics: Metrics,
    ) -> Self {
        Self {
            set,
            roster,
            fleet,
            metrics,
        }
    }

    fn configure(&mut self, set: &ProviderSet, cx: &mut Context<ProvidersMsg>) {
        // After a restart it names actors that ended with the parent before.
        let old = self.roster.borrow().clone();
        let mut listed = BTreeMap::new();
        for (name, entry) in set {
            let path = path(name);
            let kept = old
                .get(name)
                .filter(|old| old.fingerprint == entry.fingerprint && cx.has_child(&path));
            let listing = if let Some(kept) = kept {
                kept.clone()
            } else {
                cx.stop_child(&path);
                let (addr, metrics, provider) = (
                    Addr::default(),
                    self.metrics.clone(),
                    Arc::clone(&entry.provider),
                );
                cx.start(ChildSpec::new(path, addr.clone(), move || {
                    ProviderActor::new(Arc::clone(&provider), metrics.clone())
                }));
                Listed {
                    addr,
                    fingerprint: entry.fingerprint,
                    confined: entry.provider.is_confined(),
                }
            };
            listed.insert(name.clone(), listing);
        }
        let gone: Vec<_> = old.keys().filter(|name| !set.contains_key(*name)).collect();
        for name in &gone {
            cx.stop_child(&path(name));
        }
        self.roster.send_replace(listed);
        // Nobody counts for one that is not in the roster.
        for name in gone {
            self.metrics.forget_provider(name);
        }
        self.fleet.hint(FleetMsg::ProvidersChanged);
    }
}

fn path(name: &str) -> String {
    format!("provider/{name}")
}

impl Actor for ProvidersActor {
    type Msg = ProvidersMsg;
    const KIND: &'static str = "providers";

    fn started(&mut self, cx: &mut Context<ProvidersMsg>) -> Result<(), Broken> {
        let set = Arc::clone(&self.set.borrow());
        self.configure(&set, cx);
        Ok(())
    }

    fn handle(
        &mut self,
        message: ProvidersMsg,
        cx: &mut Context<ProvidersMsg>,
    ) -> Result<(), Broken> {
        let ProvidersMsg::Configure(set) = message;
        self.configure(&set, cx);
        Ok(())
    }
}
