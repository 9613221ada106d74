//! The API server, in memory.

use super::key_of;
use crate::{
    fleet::FleetMsg,
    key::ProxyKey,
    provider::contract::UserData,
    store::{MetadataChange, ProxyStore, UserDataError, Write, WriteError},
    system::Addr,
};
use crds::{Proxy, SecretRef, names};
use futures::future::{BoxFuture, FutureExt};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use std::{
    collections::HashMap,
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// The API server.
#[derive(Default)]
pub struct FakeStore {
    api: Mutex<Api>,
    /// Every write fails, and no watch begins.
    pub down: AtomicBool,
    /// Writes hang.
    pub hangs: AtomicBool,
    /// The watch tells of nothing.
    pub blind: AtomicBool,
    pub in_flight: AtomicUsize,
    pub most_in_flight: AtomicUsize,
}

#[derive(Default)]
struct Api {
    objects: HashMap<ProxyKey, Arc<Proxy>>,
    seen: HashMap<ProxyKey, Arc<Proxy>>,
    secrets: HashMap<String, Vec<u8>>,
    fleet: Option<Addr<FleetMsg>>,
    version: u64,
    writes: Vec<(ProxyKey, &'static str)>,
}

impl FakeStore {
    fn api(&self) -> MutexGuard<'_, Api> {
        self.api.lock().unwrap()
    }

    /// What the user sees.
    pub fn object(&self, key: &ProxyKey) -> Option<Arc<Proxy>> {
        self.api().objects.get(key).cloned()
    }

    pub fn writes(&self) -> usize {
        self.api().writes.len()
    }

    pub fn secret(&self, name: &str, data: &str) {
        let mut api = self.api();
        api.secrets.insert(name.into(), data.into());
        let message = FleetMsg::SecretChanged {
            namespace: "ns".into(),
            name: name.into(),
        };
        if let Some(fleet) = &api.fleet {
            fleet.hint(message);
        }
    }

    /// Applies an object, as a user would.
    pub fn apply(&self, object: Proxy) {
        self.put(&key_of(&object), Some(object));
    }

    pub fn change(&self, key: &ProxyKey, change: impl FnOnce(&mut Proxy)) {
        let mut object = Proxy::clone(&self.object(key).expect("exists"));
        change(&mut object);
        self.put(key, Some(object));
    }

    pub fn edit(&self, key: &ProxyKey, change: impl FnOnce(&mut Proxy)) {
        self.change(key, |object| {
            *object.metadata.generation.get_or_insert_default() += 1;
            change(object);
        });
    }

    pub fn delete(&self, key: &ProxyKey) {
        self.change(key, |object| {
            object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        });
    }

    fn put(&self, key: &ProxyKey, object: Option<Proxy>) {
        let mut api = self.api();
        api.version += 1;
        let version = api.version.to_string();
        let held = |o: &Proxy| {
            o.metadata
                .finalizers
                .as_ref()
                .is_some_and(|f| !f.is_empty())
        };
        match object.filter(|o| !o.is_deleting() || held(o)) {
            Some(mut object) => {
                object.metadata.resource_version = Some(version);
                api.objects.insert(key.clone(), Arc::new(object));
            }
            None => {
                api.objects.remove(key);
            }
        }
        drop(api);
        if !self.blind.load(SeqCst) {
            self.catch_up(key);
        }
    }

    /// The watch sees the object as it is.
    pub fn catch_up(&self, key: &ProxyKey) {
        let mut api = self.api();
        match api.objects.get(key).cloned() {
            Some(object) => api.seen.insert(key.clone(), object),
            None => api.seen.remove(key),
        };
        if let Some(fleet) = &api.fleet {
            fleet.hint(FleetMsg::Changed(key.clone()));
        }
    }

    fn written(&self, key: &ProxyKey, write: Write) -> Result<Arc<Proxy>, WriteError> {
        if self.down.load(SeqCst) {
            return Err(WriteError::Failed("the API server is down".into()));
        }
        let object = self.object(key).ok_or(WriteError::Gone)?;
        let mut object = Proxy::clone(&object);
        let what = match write {
            Write::Status { uid, status } => {
                if object.metadata.uid != Some(uid) {
                    return Err(WriteError::Conflict);
                }
                object.status = Some(*status);
                "status"
            }
            Write::Metadata {
                resource_version,
                change,
            } => {
                if object.metadata.resource_version != Some(resource_version) {
                    return Err(WriteError::Conflict);
                }
                match change {
                    MetadataChange::Finalizers(all) => object.metadata.finalizers = Some(all),
                    MetadataChange::SpecHash(hash) => {
                        let all = object.metadata.annotations.get_or_insert_default();
                        all.insert(names::SPEC_HASH.into(), hash);
                    }
                }
                "metadata"
            }
        };
        self.api().writes.push((key.clone(), what));
        self.put(key, Some(object.clone()));
        object.metadata.resource_version = Some(self.api().version.to_string());
        Ok(Arc::new(object))
    }
}

/// A store that is shared, since its futures outlive the call.
#[derive(Clone, Default)]
pub struct Store(pub Arc<FakeStore>);

impl ProxyStore for Store {
    fn watch(&self, fleet: Addr<FleetMsg>) -> BoxFuture<'static, ()> {
        let store = Arc::clone(&self.0);
        Box::pin(async move {
            if store.down.load(SeqCst) {
                pending::<()>().await;
            }
            let keys: Vec<_> = {
                let mut api = store.api();
                api.fleet = Some(fleet.clone());
                let now = api.objects.clone();
                let before = std::mem::replace(&mut api.seen, now);
                // What is gone is named, too.
                before
                    .into_keys()
                    .chain(api.objects.keys().cloned())
                    .collect()
            };
            for key in keys {
                fleet.hint(FleetMsg::Changed(key));
            }
            fleet.hint(FleetMsg::Listed);
            pending::<()>().await;
        })
    }

    fn noticed(&self, _: &ProxyKey) {}

    fn get(&self, key: &ProxyKey) -> Option<Arc<Proxy>> {
        self.0.api().seen.get(key).cloned()
    }

    fn list(&self) -> Vec<Arc<Proxy>> {
        self.0.api().seen.values().cloned().collect()
    }

    fn write(
        &self,
        key: &ProxyKey,
        write: Write,
    ) -> BoxFuture<'static, Result<Arc<Proxy>, WriteError>> {
        let (store, key) = (Arc::clone(&self.0), key.clone());
        Box::pin(async move {
            let now = store.in_flight.fetch_add(1, SeqCst) + 1;
            store.most_in_flight.fetch_max(now, SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            if store.hangs.load(SeqCst) {
                pending::<()>().await;
            }
            let written = store.written(&key, write);
            tokio::time::sleep(Duration::from_millis(5)).await;
            store.in_flight.fetch_sub(1, SeqCst);
            written
        })
    }

    fn user_data(
        &self,
        _: &str,
        secret: &SecretRef,
    ) -> BoxFuture<'static, Result<UserData, UserDataError>> {
        let data = self.0.api().secrets.get(&secret.name).cloned();
        let missing = format!("there is no Secret {:?}", secret.name);
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            data.map(UserData::from)
                .ok_or(UserDataError::Unavailable(missing))
        }
        .boxed()
    }
}
