//! The record of the election: a `coordination.k8s.io` Lease, as Kubernetes' own components use it.
//!
//! `leaseTransitions` is the fence, which begins high (see `actors::leader`) and fits for decades. The
//! times in it are for people; nobody here compares them.

use crate::telemetry::with_causes;
use actors::leader::election::{Change, Election, Record, Seen, Unanswered, Version, Written};
use crds::names;
use futures::future::BoxFuture;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use std::time::Duration;

/// The name of the Lease.
const NAME: &str = "proxy-operator";
/// One call: three of them fail before the tenure of a leader ends.
const DEADLINE: Duration = Duration::from_secs(3);
/// Where a holder says nothing of it.
const DURATION: Duration = Duration::from_secs(15);

/// The Lease `proxy-operator` of one namespace.
pub struct LeaseElection(Api<Lease>);

impl LeaseElection {
    /// The Lease in `namespace`, by a client that works whether or not this process leads.
    #[must_use]
    pub fn new(client: Client, namespace: &str) -> Self {
        Self(Api::namespaced(client, namespace))
    }
}

impl Election for LeaseElection {
    fn read(&self) -> BoxFuture<'static, Result<Option<Seen>, Unanswered>> {
        let api = self.0.clone();
        Box::pin(async move {
            let lease = within(api.get_opt(NAME)).await?;
            Ok(lease.map(|lease| Seen {
                version: version(&lease),
                record: record(&lease),
            }))
        })
    }

    fn write(&self, change: Change) -> BoxFuture<'static, Result<Written, Unanswered>> {
        let api = self.0.clone();
        Box::pin(async move {
            let ours = Some(names::FIELD_MANAGER.to_owned());
            let lease = lease(&change);
            let written = if change.on.is_some() {
                // With the version in it, it is refused on any other. All else in the object stays.
                let params = PatchParams {
                    field_manager: ours,
                    ..PatchParams::default()
                };
                let patch = Patch::Merge(&lease);
                within(conflicts(api.patch(NAME, &params, &patch), &[404, 409])).await?
            } else {
                let params = PostParams {
                    field_manager: ours,
                    ..PostParams::default()
                };
                // That its namespace is not there is no conflict: nobody would ever lead, and nobody say why.
                within(conflicts(api.create(&params, &lease), &[409])).await?
            };
            Ok(match written {
                Some(lease) => Written::Done(version(&lease)),
                None => Written::Conflict,
            })
        })
    }
}

async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Unanswered> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(answer) => answer.map_err(|error| Unanswered(with_causes(&error))),
        Err(_) => Err(Unanswered(format!(
            "no answer from the API server within {} s",
            DEADLINE.as_secs()
        ))),
    }
}

/// None where the object is not as it was read: changed, made or deleted meanwhile.
async fn conflicts<T>(
    call: impl Future<Output = kube::Result<T>>,
    codes: &[u16],
) -> kube::Result<Option<T>> {
    match call.await {
        Err(kube::Error::Api(status)) if codes.contains(&status.code) => Ok(None),
        answer => answer.map(Some),
    }
}

fn version(lease: &Lease) -> Version {
    Version(lease.resource_version().unwrap_or_default())
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|s| s.try_into().ok());
    let transitions = spec.lease_transitions.unwrap_or_default();
    Record {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        address: lease
            .annotations()
            .get(names::LEADER_ADDRESS)
            .filter(|address| !address.is_empty())
            .cloned(),
        duration: seconds.map_or(DURATION, Duration::from_secs),
        fence: transitions.try_into().unwrap_or_default(),
    }
}

fn lease(change: &Change) -> Lease {
    let (record, now) = (&change.record, MicroTime(Timestamp::now()));
    let annotation = record.address.clone().unwrap_or_default();
    Lease {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            annotations: Some([(names::LEADER_ADDRESS.to_owned(), annotation)].into()),
            resource_version: change.on.as_ref().map(|Version(on)| on.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(record.holder.clone().unwrap_or_default()),
            lease_duration_seconds: record.duration.as_secs().try_into().ok(),
            lease_transitions: record.fence.try_into().ok(),
            acquire_time: change.begins.then(|| now.clone()),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for (holder, address) in [(Some("a"), Some("10.0.0.1:8090")), (None, None)] {
            let record = Record {
                holder: holder.map(str::to_owned),
                address: address.map(str::to_owned),
                duration: DURATION,
                fence: 2_147_483_647,
            };
            let change = Change {
                record: record.clone(),
                on: Some(Version("3".into())),
                begins: false,
            };
            let lease = lease(&change);
            assert_eq!(super::record(&lease), record);
            assert_eq!(version(&lease), Version("3".into()));
            let spec = serde_json::to_value(&lease).expect("is JSON")["spec"].take();
            assert!(spec["renewTime"].is_string(), "{spec}");
            // Left out of a merge patch it stays as it was.
            assert!(spec.get("acquireTime").is_none(), "{spec}");
        }
    }

    #[test]
    fn what_others_leave_out_has_a_meaning() {
        let record = record(&Lease::default());
        let free = Record {
            holder: None,
            address: None,
            duration: DURATION,
            fence: 0,
        };
        assert_eq!(record, free);
    }
}
