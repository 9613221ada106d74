//! A collector of some worlds.

use super::{OURS, World, ports::Proxies};
use crate::{
    collector::{CollectorActor, CollectorDeps, Pace},
    fakes::Stage,
    metrics::Metrics,
    provider::{ProviderActor, contract::Provider},
    providers::Listed,
    system::{Addr, ChildSpec},
};
use prometheus::{Registry, TextEncoder};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::watch;

/// A collector of some worlds.
pub struct Start {
    pub stage: Stage,
    registry: Registry,
    pub roster: watch::Sender<BTreeMap<String, Listed>>,
}

impl Start {
    pub async fn of(names: &[&'static str], pace: Pace) -> (Self, Vec<Arc<World>>) {
        let worlds: Vec<_> = names.iter().map(|name| World::new(name)).collect();
        let registry = Registry::new();
        let metrics = Metrics::new(&registry).expect("a new registry");
        let mut services = Vec::new();
        let mut roster = BTreeMap::new();
        for world in &worlds {
            let (addr, provider) = (Addr::default(), Arc::clone(world));
            let listed = Listed {
                addr: addr.clone(),
                fingerprint: 1,
                confined: world.is_confined(),
            };
            roster.insert(world.name.to_owned(), listed);
            let path = format!("provider/{}", world.name);
            let metrics = metrics.clone();
            services.push(ChildSpec::new(path, addr, move || {
                ProviderActor::new(Arc::clone(&provider) as _, metrics.clone())
            }));
        }
        let roster = watch::Sender::new(roster);
        let clock = Arc::clone(&worlds[0]);
        let deps = Arc::new(CollectorDeps {
            roster: roster.subscribe(),
            live: Arc::new(Proxies(worlds.clone())),
            installation: OURS.into(),
            pace,
            wall: Arc::new(move || clock.wall()),
            metrics,
        });
        services.push(ChildSpec::new("collector", Addr::default(), move || {
            CollectorActor::new(Arc::clone(&deps))
        }));
        let start = Self {
            stage: Stage::of(services).await,
            registry,
            roster,
        };
        (start, worlds)
    }

    /// Whether any sweep of this provider was counted.
    pub fn counts(&self, provider: &str) -> bool {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather());
        let series = format!("gc_orphans_deleted_total{{provider=\"{provider}\"}}");
        text.expect("text").contains(&series)
    }

    pub fn metric(&self, name: &str, provider: &str) -> u64 {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("text");
        let series = format!("proxy_operator_{name}{{provider=\"{provider}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&series));
        value.map_or(0, |value| value.parse().expect("a number"))
    }
}
