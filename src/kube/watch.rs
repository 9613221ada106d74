//! What the watches see: every Proxy as it is now, and which labelled Secrets changed.
//!
//! The fleet is told *that* an object changed and reads here *what* it is, so a burst of changes of
//! one object is one message. Objects are kept without what nobody reads (managed fields, kubectl's
//! copy of the manifest): with ten thousand of them that is most of their size.

use crate::telemetry::with_causes;
use actors::{fleet::FleetMsg, key::ProxyKey, system::Addr};
use crds::{Proxy, names};
use dashmap::{DashMap, DashSet};
use futures::{Stream, StreamExt};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use prometheus::IntCounter;
use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::Arc,
};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Every Proxy, as the watch saw it last.
pub(super) struct Seen {
    objects: DashMap<ProxyKey, Arc<Proxy>>,
    /// Changed, and the fleet was told, but has not looked yet.
    told: DashSet<ProxyKey>,
    undecodable: IntCounter,
}

impl Seen {
    pub(super) fn new(undecodable: IntCounter) -> Self {
        Self {
            objects: DashMap::new(),
            told: DashSet::new(),
            undecodable,
        }
    }

    pub(super) fn get(&self, key: &ProxyKey) -> Option<Arc<Proxy>> {
        self.objects.get(key).map(|object| Arc::clone(&object))
    }

    pub(super) fn list(&self) -> Vec<Arc<Proxy>> {
        self.objects
            .iter()
            .map(|object| Arc::clone(&object))
            .collect()
    }

    /// Forgets all that was seen. Nobody may follow at that time.
    pub(super) fn clear(&self) {
        self.objects.clear();
        self.told.clear();
    }

    pub(super) fn noticed(&self, key: &ProxyKey) {
        self.told.remove(key);
    }

    fn tell(&self, fleet: &Addr<FleetMsg>, key: ProxyKey) {
        if self.told.insert(key.clone()) {
            fleet.hint(FleetMsg::Changed(key));
        }
    }

    fn put(&self, mut object: Proxy, fleet: &Addr<FleetMsg>) -> ProxyKey {
        let key = key_of(&object.metadata);
        object.metadata.managed_fields = None;
        object.annotations_mut().remove(LAST_APPLIED);
        self.objects.insert(key.clone(), Arc::new(object));
        self.tell(fleet, key.clone());
        key
    }

    fn remove(&self, key: ProxyKey, fleet: &Addr<FleetMsg>) {
        if self.objects.remove(&key).is_some() {
            self.tell(fleet, key);
        }
    }

    /// Follows the Proxies in `api` for ever.
    pub(super) async fn follow(&self, api: Api<DeserializeGuard<Proxy>>, fleet: &Addr<FleetMsg>) {
        // A fleet that was started again knows of nothing.
        self.told.clear();
        let mut listed = HashSet::new();
        let mut events = pin!(watch(
            watcher::watcher(api, watcher::Config::default()),
            "Proxies"
        ));
        while let Some(event) = events.next().await {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(object) => {
                    listed.extend(self.decoded(object).map(|object| self.put(object, fleet)));
                }
                Event::InitDone => {
                    let gone = self.objects.iter().map(|object| object.key().clone());
                    let gone: Vec<_> = gone.filter(|key| !listed.contains(key)).collect();
                    for key in gone {
                        self.remove(key, fleet);
                    }
                    listed.clear();
                    fleet.hint(FleetMsg::Listed);
                }
                Event::Apply(object) => {
                    if let Some(object) = self.decoded(object) {
                        self.put(object, fleet);
                    }
                }
                Event::Delete(object) => {
                    // Its name is all that is needed of an object that is gone.
                    let key = match &object.0 {
                        Ok(object) => key_of(&object.metadata),
                        Err(invalid) => key_of(&invalid.metadata),
                    };
                    self.remove(key, fleet);
                }
            }
        }
    }

    fn decoded(&self, object: DeserializeGuard<Proxy>) -> Option<Proxy> {
        match object.0 {
            Ok(object) => Some(object),
            Err(invalid) => {
                self.undecodable.inc();
                let proxy = key_of(&invalid.metadata);
                let error = without_values(&invalid.error.clone());
                tracing::warn!(%proxy, error, "the object does not decode and is left alone");
                None
            }
        }
    }
}

/// Follows the labelled Secrets in `api` for ever; of each only the metadata is read.
pub(super) async fn follow_secrets(api: Api<PartialObjectMeta<Secret>>, fleet: &Addr<FleetMsg>) {
    let labelled =
        watcher::Config::default().labels(&format!("{}={}", names::CLOUD_INIT_LABEL, names::TRUE));
    let mut versions = HashMap::new();
    let mut listed = HashMap::new();
    let mut events = pin!(watch(watcher::watcher(api, labelled), "Secrets"));
    while let Some(event) = events.next().await {
        let mut changed = Vec::new();
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(secret) => {
                listed.insert(key_of(&secret.metadata), secret.resource_version());
            }
            Event::InitDone => {
                // A list says nothing of what happened meanwhile: compare.
                changed.extend(
                    listed
                        .iter()
                        .filter(|(k, v)| versions.get(*k) != Some(*v))
                        .map(|(k, _)| k.clone()),
                );
                changed.extend(
                    versions
                        .keys()
                        .filter(|key| !listed.contains_key(*key))
                        .cloned(),
                );
                versions = std::mem::take(&mut listed);
            }
            Event::Apply(secret) => {
                let key = key_of(&secret.metadata);
                versions.insert(key.clone(), secret.resource_version());
                changed.push(key);
            }
            Event::Delete(secret) => {
                let key = key_of(&secret.metadata);
                versions.remove(&key);
                changed.push(key);
            }
        }
        for key in changed {
            fleet.hint(FleetMsg::SecretChanged {
                namespace: key.namespace().to_owned(),
                name: key.name().into(),
            });
        }
    }
}

/// The events alone; what goes wrong is logged, and tried again with backoff.
fn watch<K>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send,
    what: &'static str,
) -> impl Stream<Item = Event<K>> {
    events
        .default_backoff()
        .filter_map(move |event| async move {
            event
                .inspect_err(|error| {
                    tracing::warn!(error = with_causes(error), "cannot watch {what}");
                })
                .ok()
        })
}

/// What does not decode may be user-data in the wrong place, and serde quotes it.
fn without_values(error: &str) -> String {
    match (error.find('"'), error.rfind('"')) {
        (Some(from), Some(to)) if from < to => format!("{}…{}", &error[..=from], &error[to..]),
        _ => error.to_owned(),
    }
}

fn key_of(meta: &ObjectMeta) -> ProxyKey {
    ProxyKey::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crds::ProxySpec;

    #[test]
    fn what_does_not_decode_is_not_repeated() {
        for cloud_init in ["hunter2", "a \"hunter2\" b"] {
            let spec = serde_json::json!({"mode": "Managed", "cloudInit": cloud_init});
            let error = serde_json::from_value::<ProxySpec>(spec).expect_err("no such spec");
            assert!(error.to_string().contains("hunter2"), "{error}");
            let told = without_values(&error.to_string());
            assert_eq!(
                told,
                "invalid type: string \"…\", expected struct CloudInit"
            );
        }
        let error = "missing field `mode`";
        assert_eq!(without_values(error), error);
    }
}
