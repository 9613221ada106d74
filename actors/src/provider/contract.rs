//! The port to a backend: what every provider promises, whatever it drives.
//!
//! A provider manages instances (pods, VMs) behind five calls and knows nothing of Proxy objects.
//! Implemented in the program, one folder a backend; called only by the provider actor.

use crate::{events::EventReason, system::ChildSpec};
use crds::Placement;
use futures::future::BoxFuture;
use std::{collections::BTreeMap, error::Error, fmt, net::IpAddr, sync::Arc, time::Duration};

/// The opaque key of an instance: all that [`Provider::get`] and [`Provider::delete`] are given.
pub type ProviderId = String;

/// What a backend calls the work that goes on after a `create` was accepted.
pub type OperationId = String;

/// User-data exactly as the guest must see it. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct UserData(Arc<[u8]>);

impl UserData {
    /// The bytes, unchanged.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for UserData {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for UserData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserData({} bytes)", self.0.len())
    }
}

/// What an instance is to be made of.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    /// The instance's name, a DNS label derived from the UID ([`instance_name`]).
    pub name: String,
    /// UID of the Proxy object: the owner mark.
    pub uid: String,
    /// Namespace of the Proxy object.
    pub namespace: String,
    /// Name of the Proxy object.
    pub proxy_name: String,
    /// Where and on what it runs.
    pub placement: Placement,
    /// Delivered byte for byte.
    pub user_data: Option<UserData>,
    /// The port that the proxy listens on.
    pub port: u16,
    /// Which installation of the operator owns the instance.
    pub installation: String,
    /// Hash of all that the instance is built from.
    pub spec_hash: String,
    /// The last operation on record for this Proxy, of an instance that did not come or is gone. With the
    /// UID and the hash it tells one creation from the next, also across a crash in between.
    pub after: Option<OperationId>,
    /// An earlier creation may have left an instance that nobody recorded, and the spec has changed since, so
    /// that it may be in another place. The one with this UID, wherever it is, is to be adopted as it is.
    pub elsewhere: bool,
}

/// What [`Provider::create`] gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Key of the instance, self-contained.
    pub id: ProviderId,
    /// What tells later whether the accepted creation failed; kept in the Proxy's status.
    pub operation: Option<OperationId>,
    /// What the user should be told about this creation, as `(reason, message)` of a Warning Event.
    pub notes: Vec<(EventReason, String)>,
}

/// How an instance is, in the provider-neutral words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
pub enum InstanceState {
    /// On its way up, or the backend cannot tell.
    Provisioning,
    /// Up, with an address.
    Running,
    /// There, but not running; it will be deleted and made anew.
    Stopped,
    /// Ended for good.
    Terminated,
}

/// One instance as the backend reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Key for `get` and `delete`. What follows its last `/` is the instance's name.
    pub id: ProviderId,
    /// Address that serves the proxy port; always there when `Running`.
    pub ip: Option<IpAddr>,
    /// How it is.
    pub state: InstanceState,
    /// The owner mark read back from the backend; empty when unreadable.
    pub uid: String,
    /// The installation mark read back from the backend; empty when unreadable.
    pub installation: String,
    /// Seconds since the Unix epoch; 0 (very old) when the backend does not say.
    pub created_at: i64,
    /// What keeps an instance that is `Provisioning` from running, where deleting it would not help.
    pub trouble: Option<String>,
}

impl Instance {
    /// What [`CreateRequest::name`] was.
    #[must_use]
    pub fn name(&self) -> &str {
        self.id.rsplit('/').next().unwrap_or_default()
    }
}

/// The five calls, as metric labels and span names spell them.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Operation {
    Create,
    Get,
    Delete,
    List,
    Check,
}

/// What kind of failure it was, which alone decides what happens next.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
pub enum ErrorClass {
    /// The instance does not exist, for certain.
    NotFound,
    /// The backend has no room; heals when quota or capacity grows.
    QuotaExceeded,
    /// May go away by itself.
    Transient,
    /// Only a change of the spec or the config mends it.
    Permanent,
    /// Permanent: an instance of this name belongs to somebody else.
    AdoptionConflict,
}

/// A provider call that failed. Its text may be shown to users: it names field and value, and never
/// holds a credential or user-data.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{provider}: {operation}: {message}")]
pub struct ProviderError {
    /// What kind of failure.
    pub class: ErrorClass,
    /// Which call.
    pub operation: Operation,
    /// The provider's configured name.
    pub provider: String,
    /// Which instance, where one is known.
    pub id: Option<ProviderId>,
    /// Of a permanent one: what mends it is nothing that is watched, a key file on disk say. So it is
    /// tried again instead of waiting for a change, and what runs is believed to run.
    pub heals: bool,
    /// What a person should read.
    pub message: String,
    /// The cause, for the log.
    #[source]
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The verdict on one target (an API server, a project, a host).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetCheck {
    /// Stable name within the provider.
    pub name: String,
    /// What was dialled.
    pub address: String,
    /// Whether the target passed.
    pub ready: bool,
    /// `Reachable`, `Timeout`, `Unreachable`, `Unauthorized`, `Forbidden`, `APIError`, or a backend's own.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
    /// How long the check took.
    pub latency: Duration,
    /// Backend facts, e.g. a server version.
    pub details: BTreeMap<String, String>,
}

/// A backend. Every call ends by itself within its deadline, may be cancelled at any await without
/// harm to others, and may run concurrently with any other, for the same name too.
pub trait Provider: Send + Sync + 'static {
    /// The name in the config.
    fn name(&self) -> &str;

    /// The backend type: `kubernetes`, `gcp`, `kvm`.
    fn kind(&self) -> &'static str;

    /// How long one call may take; the caller gives up a little later.
    fn deadline(&self, operation: Operation) -> Duration;

    /// How many calls may be under way at once. A backend of several parts, of which one may hang
    /// while the others go on, lets all in and bounds each part by itself.
    fn calls_at_once(&self) -> usize {
        32
    }

    /// Whether all that it lists lies in the one namespace that the operator is bound to, where it is bound
    /// to one: then Proxies of other namespaces own nothing of it.
    fn is_confined(&self) -> bool {
        false
    }

    /// The actors that this backend consists of beside the calls, to run below the provider's own:
    /// connections, say. Asked anew whenever that one starts.
    fn children(&self) -> Vec<ChildSpec> {
        Vec::new()
    }

    /// Makes the instance, or adopts the one of this name that carries our UID.
    ///
    /// # Errors
    /// `Permanent` for what no retry can satisfy, before the backend is touched; `AdoptionConflict`.
    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<Created, ProviderError>>;

    /// Reads the instance.
    ///
    /// # Errors
    /// `NotFound` only when the backend vouches that there is no such instance; whatever leaves room for doubt is
    /// another class.
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>>;

    /// Reads the instance whose creation the backend calls `operation`.
    ///
    /// # Errors
    /// As [`Self::get`]; of [`Operation::Create`] when the creation failed after it was accepted, so that there
    /// is no such instance and there will be none.
    fn follow<'a>(
        &'a self,
        id: &'a str,
        _operation: &'a str,
    ) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        self.get(id)
    }

    /// Starts deleting the instance and all that `create` made; fine when it is gone already.
    ///
    /// # Errors
    /// Anything but `NotFound`.
    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// Every instance of this installation, wherever this provider may have made one.
    ///
    /// # Errors
    /// When the list cannot be vouched for.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>>;

    /// What each target is like now; always the same targets in the same order. What is not known `within`
    /// that time is told as `Timeout`.
    fn check(&self, within: Duration) -> BoxFuture<'_, Vec<TargetCheck>>;
}

/// The name of the instance behind the object with this UID: `proxy-` and 80 bits of its SHA-256 in
/// lower-case base32. By always being the same it lets a second `create` find what the first one made.
#[must_use]
pub fn instance_name(uid: &str) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(uid.as_bytes());
    format!(
        "proxy-{}",
        data_encoding::BASE32_NOPAD
            .encode(&hash[..10])
            .to_lowercase()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_name_is_a_stable_dns_label_of_22_characters() {
        let name = instance_name("2b1f0a52-6d0c-4f5e-9f6b-0c7f2a9d1e11");
        assert_eq!(name, instance_name("2b1f0a52-6d0c-4f5e-9f6b-0c7f2a9d1e11"));
        assert_ne!(name, instance_name("2b1f0a52-6d0c-4f5e-9f6b-0c7f2a9d1e12"));
        assert_eq!(name.len(), 22);
        assert!(
            name.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        );
    }

    #[test]
    fn user_data_is_never_printed() {
        let secret = UserData::from(b"#cloud-config sentinel".to_vec());
        assert_eq!(format!("{secret:?}"), "UserData(22 bytes)");
    }
}
