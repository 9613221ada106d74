//! What all proxies share, and what is said on behalf of a proxy that cannot speak.

use crate::{
    events::EventsMsg,
    health::HealthMsg,
    key::ProxyKey,
    leases::LeasesMsg,
    metrics::Metrics,
    providers::Listed,
    status::StatusMsg,
    store::{ProxyStore, Write},
    system::Addr,
};
use crds::conditions::{self, ConditionType, Reason, Status};
use k8s_openapi::jiff::Timestamp;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;

/// How long a write may take, its wait for a turn included: a fleet of thousands queues up behind an
/// API server that comes back.
pub(super) const WRITE_DEADLINE: Duration = Duration::from_mins(2);

/// Whom a proxy talks to.
pub struct Deps {
    /// The API server.
    pub store: Arc<dyn ProxyStore>,
    /// The one writer.
    pub status: Addr<StatusMsg>,
    /// For the user.
    pub events: Addr<EventsMsg>,
    /// The probers' parent.
    pub health: Addr<HealthMsg>,
    /// The ledger.
    pub leases: Addr<LeasesMsg>,
    /// The providers.
    pub roster: watch::Receiver<BTreeMap<String, Listed>>,
    /// What is counted.
    pub metrics: Metrics,
    /// Which installation of the operator this is.
    pub installation: String,
}

impl Deps {
    /// The fingerprint of a provider's config; `None` when it is not configured.
    pub(super) fn fingerprint(&self, provider: &str) -> Option<u64> {
        self.roster
            .borrow()
            .get(provider)
            .map(|listed| listed.fingerprint)
    }

    /// The object is gone.
    pub(crate) fn forget(&self, key: &ProxyKey) {
        self.health.hint(HealthMsg::Forget(key.clone()));
        self.leases.hint(LeasesMsg::Withdraw(key.clone()));
    }

    /// These and no others exist.
    pub(crate) fn retain(&self, keys: HashSet<ProxyKey>) {
        let keys = Arc::new(keys);
        self.health.hint(HealthMsg::Retain(Arc::clone(&keys)));
        self.leases.hint(LeasesMsg::Retain(keys));
    }

    /// A proxy actor fails over and over, so its object says so for it.
    pub(crate) fn proxy_failed(&self, key: &ProxyKey, failures: u32, error: &str) {
        let Some(object) = self.store.get(key).filter(|_| failures > 1) else {
            return;
        };
        let mut status = object.status.clone().unwrap_or_default();
        let message =
            format!("the operator failed {failures} times in a row on this object: {error}");
        let generation = object.metadata.generation;
        let (type_, reason) = (ConditionType::Synced, Reason::ActorFailed);
        conditions::set(
            &mut status.conditions,
            type_,
            Status::False,
            reason,
            message,
            generation,
            Timestamp::now(),
        );
        let write = Write::Status {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            status: Box::new(status),
        };
        let (writer, key) = (self.status.clone(), key.clone());
        tokio::spawn(async move {
            let written = writer
                .ask(WRITE_DEADLINE, |reply| {
                    StatusMsg::Write(key.clone(), write, reply)
                })
                .await;
            if !matches!(written, Ok(Ok(_))) {
                tracing::debug!(proxy = %key, "could not record that its actor fails");
            }
        });
    }
}
