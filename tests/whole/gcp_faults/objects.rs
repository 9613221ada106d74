//! The Proxies, with the API server's manners: versions, generations, and finalizers that hold.

use crds::{Proxy, ProxySpec, ProxyStatus, names};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use std::collections::BTreeMap;

/// All of them, by name.
#[derive(Default)]
pub struct Objects {
    all: BTreeMap<String, Proxy>,
    version: u64,
}

impl Objects {
    /// Applies a new one.
    pub fn create(&mut self, name: &str, uid: &str, spec: ProxySpec) {
        let mut object = Proxy::new(name, spec);
        object.metadata.namespace = Some("crawl".into());
        object.metadata.uid = Some(uid.into());
        object.metadata.generation = Some(1);
        self.all.insert(name.to_owned(), object);
        self.change(name, |_| {});
    }

    pub fn get(&self, name: &str) -> Option<&Proxy> {
        self.all.get(name)
    }

    pub fn all(&self) -> impl Iterator<Item = &Proxy> {
        self.all.values()
    }

    pub fn names(&self) -> Vec<String> {
        self.all.keys().cloned().collect()
    }

    /// A user changes what is wanted.
    pub fn edit(&mut self, name: &str, edit: impl FnOnce(&mut ProxySpec)) {
        self.change(name, |object| {
            edit(&mut object.spec);
            *object.metadata.generation.get_or_insert_default() += 1;
        });
    }

    /// A user deletes it.
    pub fn delete(&mut self, name: &str) {
        self.change(name, |object| {
            let now = Time(Timestamp::UNIX_EPOCH);
            object.metadata.deletion_timestamp.get_or_insert(now);
        });
    }

    /// A write of the object's status, which overwrites whatever was there.
    pub fn write_status(&mut self, on: &Proxy, status: ProxyStatus) -> bool {
        let name = on.metadata.name.as_deref().unwrap_or_default();
        let same = self.get(name).is_some_and(|now| uid(now) == uid(on));
        if same {
            self.change(name, |object| object.status = Some(status));
        }
        same
    }

    /// A write of the object's metadata, which says which version it is about.
    pub fn write_metadata(&mut self, on: &Proxy, write: impl FnOnce(&mut Proxy)) -> bool {
        let name = on.metadata.name.as_deref().unwrap_or_default();
        let version = &on.metadata.resource_version;
        let same = self
            .get(name)
            .is_some_and(|now| now.metadata.resource_version == *version);
        if same {
            self.change(name, write);
        }
        same
    }

    /// What nobody holds any more is gone.
    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut Proxy)) {
        let Some(object) = self.all.get_mut(name) else {
            return;
        };
        change(object);
        self.version += 1;
        object.metadata.resource_version = Some(self.version.to_string());
        if object.is_deleting() && !object.has_finalizer() {
            self.all.remove(name);
        }
    }
}

pub fn uid(object: &Proxy) -> &str {
    object.metadata.uid.as_deref().unwrap_or_default()
}

pub fn hold(object: &mut Proxy) {
    object.metadata.finalizers = Some(vec![names::FINALIZER.into()]);
}

pub fn release(object: &mut Proxy) {
    object.metadata.finalizers = None;
}

pub fn annotate(object: &mut Proxy, key: &str, value: &str) {
    let all = object.metadata.annotations.get_or_insert_default();
    all.insert(key.into(), value.into());
}
