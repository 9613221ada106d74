//! The providers of the config file, constructed; none is dialled.

use crate::{
    config::{ProviderEntry, ProvidersConfig, Settings},
    providers::{
        gcp::{self, GcpProvider},
        kubernetes::{Cluster, KubernetesProvider},
        kvm::{KvmProvider, Surroundings},
    },
};
use actors::{
    leader::standing::Standing,
    provider::{contract::Provider, fenced::Fenced},
    providers::{Entry, ProviderSet},
};
use kube::Client;
use prometheus::core::Collector;
use std::{collections::HashSet, sync::Arc};

/// A cluster that answers.
pub(super) struct Reached {
    /// For all calls of those who act.
    pub(super) client: Client,
    /// Where the API server is.
    pub(super) url: String,
    /// Whether this process may act.
    pub(super) standing: Standing,
}

/// What providers are constructed with, beside their entry in the file.
pub(super) struct Backends {
    pub(super) reached: Reached,
    /// The only namespace to watch.
    pub(super) namespace: Option<String>,
    pub(super) around: Surroundings,
    /// The same for those of type `gcp`.
    pub(super) google: gcp::Surroundings,
}

impl Backends {
    /// The providers of the file. An entry that is the same in `running` keeps the provider that it has
    /// there, and what that has under way; all others are constructed.
    pub(super) fn of(&self, config: ProvidersConfig, running: &ProviderSet) -> ProviderSet {
        self.forget_hosts(&config);
        let entry = |entry: ProviderEntry| {
            let (name, fingerprint) = (entry.name.clone(), entry.fingerprint());
            let same = running
                .get(&name)
                .filter(|running| running.fingerprint == fingerprint);
            let made = same.cloned().unwrap_or_else(|| Entry {
                provider: Arc::new(Fenced::new(
                    self.construct(entry),
                    self.reached.standing.clone(),
                )),
                fingerprint,
            });
            (name, made)
        };
        config.entries.into_iter().map(entry).collect()
    }

    /// What was counted of hosts that are not in the config any more is not told any more.
    fn forget_hosts(&self, config: &ProvidersConfig) {
        let mut hosts = HashSet::new();
        for entry in &config.entries {
            if let Settings::Kvm(settings) = &entry.settings {
                let named = settings.hosts.iter().map(|host| host.name.as_str());
                hosts.extend(named.map(|host| (entry.name.as_str(), host)));
            }
        }
        for family in self.around.downloaded.collect() {
            for series in family.get_metric() {
                let label = |name| {
                    let mut labels = series.get_label().iter();
                    labels
                        .find(|label| label.name() == name)
                        .map_or("", |label| label.value())
                };
                let (provider, host) = (label("provider"), label("host"));
                if !hosts.contains(&(provider, host)) {
                    self.around
                        .downloaded
                        .remove_label_values(&[provider, host])
                        .ok();
                }
            }
        }
    }

    fn construct(&self, entry: ProviderEntry) -> Arc<dyn Provider> {
        match entry.settings {
            Settings::Gcp(settings) => {
                Arc::new(GcpProvider::new(entry.name, settings, &self.google))
            }
            Settings::Kubernetes(settings) => {
                let cluster = Cluster {
                    client: self.reached.client.clone(),
                    url: self.reached.url.clone(),
                    installation: self.around.installation.clone(),
                    namespace: self.namespace.clone(),
                };
                Arc::new(KubernetesProvider::new(entry.name, settings, cluster))
            }
            Settings::Kvm(settings) => {
                Arc::new(KvmProvider::new(entry.name, settings, &self.around))
            }
        }
    }
}
