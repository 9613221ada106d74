//! The port to the API server: what the actors read of Proxy objects and Secrets, and write back.

use crate::{fleet::FleetMsg, key::ProxyKey, provider::contract::UserData, system::Addr};
use crds::{Proxy, ProxyStatus, SecretRef};
use futures::future::BoxFuture;
use std::sync::Arc;

/// One change of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Replaces the operator's whole status of the object with this UID.
    Status {
        /// A new object of the same name must not get it.
        uid: String,
        /// What it says.
        status: Box<ProxyStatus>,
    },
    /// Changes metadata, if the object is still the one that was looked at.
    Metadata {
        /// Decided on this version.
        resource_version: String,
        /// What changes.
        change: MetadataChange,
    },
}

/// What changes in the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataChange {
    /// All finalizers from now on.
    Finalizers(Vec<String>),
    /// The hash of what the instance is built from.
    SpecHash(String),
}

/// Why a write was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object changed or is another one by now: look again, decide again.
    #[error("the object changed meanwhile")]
    Conflict,
    /// There is no such object.
    #[error("the object is gone")]
    Gone,
    /// The API server refused or could not be reached.
    #[error("{0}")]
    Failed(String),
}

/// Why user-data cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// The Secret is missing, unlabelled, or has no such key; says which.
    #[error("{0}")]
    Unavailable(String),
    /// The API server refused or could not be reached.
    #[error("{0}")]
    Failed(String),
}

/// Proxy objects and Secrets. Every call ends within its own deadline.
pub trait ProxyStore: Send + Sync + 'static {
    /// Watches Proxies and labelled Secrets for ever and tells the fleet what changed: at most one
    /// message is on its way for one object, however often it changes.
    fn watch(&self, fleet: Addr<FleetMsg>) -> BoxFuture<'static, ()>;

    /// The fleet is about to look at this object: it is told anew of changes from here on.
    fn noticed(&self, key: &ProxyKey);

    /// The object as the watch saw it last.
    fn get(&self, key: &ProxyKey) -> Option<Arc<Proxy>>;

    /// Every object as the watch saw it last.
    fn list(&self) -> Vec<Arc<Proxy>>;

    /// Writes, and gives back what the object became.
    ///
    /// # Errors
    /// [`WriteError`].
    fn write(
        &self,
        key: &ProxyKey,
        write: Write,
    ) -> BoxFuture<'static, Result<Arc<Proxy>, WriteError>>;

    /// Reads user-data from a labelled Secret, past any cache.
    ///
    /// # Errors
    /// [`UserDataError`].
    fn user_data(
        &self,
        namespace: &str,
        secret: &SecretRef,
    ) -> BoxFuture<'static, Result<UserData, UserDataError>>;
}
