//! Listing the VMs of this installation, in all zones.

use super::{GcpProvider, call::Call, classify::Refusal, id::VmId, names, state};
use crate::providers::{INSTALLATION_MARK, MANAGED_MARK, UID_MARK};
use actors::provider::contract::{ErrorClass, Instance, ProviderError};
use google_cloud_compute_v1::model::{
    InstanceAggregatedList, InstancesScopedList, instances_scoped_list::warning::Code,
};

/// VMs a page, the most that Google gives.
pub(super) const PAGE: &str = "500";
/// What is read of each VM: without its metadata, a page of them is some 300 KB and holds no user-data.
const FIELDS: &str = "nextPageToken,unreachables,items/*/warning/code,items/*/instances(id,name,status,\
     labels,creationTimestamp,networkInterfaces(networkIP,accessConfigs/natIP))";

impl GcpProvider {
    pub(super) async fn list_vms(&self, call: Call<'_>) -> Result<Vec<Instance>, ProviderError> {
        let filter = filter(&self.installation)
            .map_err(|fault| call.failed(ErrorClass::Permanent, fault))?;
        let begun = tokio::time::Instant::now();
        let (vms, unreachable) = self.all(&call, &filter).await?;
        if unreachable.is_empty() {
            let there = vms.iter().map(|vm: &Instance| vm.id.clone()).collect();
            self.deletions.keep(&there, begun);
        } else {
            let zones = unreachable.join(", ");
            tracing::warn!(
                provider = self.name,
                zones,
                "Google cannot reach zones now, so their VMs are not listed"
            );
        }
        Ok(vms)
    }

    /// The VM of the proxy with this UID, in whichever zone, or `None` when there is certainly none to be seen.
    pub(super) async fn elsewhere(
        &self,
        call: &Call<'_>,
        uid: &str,
    ) -> Result<Option<Instance>, ProviderError> {
        let filter = filter(&self.installation)
            .map_err(|fault| call.failed(ErrorClass::Permanent, fault))?;
        let filter = format!("{filter} AND (labels.{UID_MARK} = \"{uid}\")");
        let (vms, unreachable) = self.all(call, &filter).await?;
        if vms.is_empty() && !unreachable.is_empty() {
            let zones = unreachable.join(", ");
            let message = format!(
                "Google cannot reach {zones} now, where an earlier attempt may have left this proxy's VM"
            );
            return Err(call.failed(ErrorClass::Transient, message));
        }
        Ok(vms.into_iter().find(|vm| vm.uid == uid))
    }

    /// All VMs of ours that `filter` lets through, and the zones that Google could not ask.
    async fn all(
        &self,
        call: &Call<'_>,
        filter: &str,
    ) -> Result<(Vec<Instance>, Vec<String>), ProviderError> {
        let (mut vms, mut unreachable) = (Vec::new(), Vec::new());
        let mut token = String::new();
        loop {
            let page = self.page(filter, PAGE, &token).await;
            let page = page.map_err(|refusal| call.refused(refusal))?;
            unreachable.extend(page.unreachables);
            for (scope, zone) in page.items {
                if is_unreachable(&zone) {
                    unreachable.push(scope.clone());
                }
                vms.extend(self.ours(&scope, zone));
            }
            match page.next_page_token {
                Some(next) if next == token => {
                    return Err(call.failed(ErrorClass::Transient, "the list has no end"));
                }
                Some(next) if !next.is_empty() => token = next,
                _ => break,
            }
        }
        unreachable.sort();
        unreachable.dedup();
        Ok((vms, unreachable))
    }

    /// One page of the VMs that `filter` lets through.
    pub(super) async fn page(
        &self,
        filter: &str,
        size: &str,
        token: &str,
    ) -> Result<InstanceAggregatedList, Refusal> {
        let mut query = vec![
            ("filter", filter),
            ("maxResults", size),
            ("returnPartialSuccess", "true"),
            ("fields", FIELDS),
        ];
        if !token.is_empty() {
            query.push(("pageToken", token));
        }
        self.api
            .read("instances.aggregatedList", "/aggregated/instances", &query)
            .await
    }

    /// To leave one out is always safe: what is not listed is never collected.
    fn ours(&self, scope: &str, zone: InstancesScopedList) -> Vec<Instance> {
        let read = |vm: google_cloud_compute_v1::model::Instance| {
            if !state::is_of(&vm, &self.installation) {
                return None;
            }
            let name = vm.name.clone().unwrap_or_default();
            let Some(id) = scope.strip_prefix("zones/").and_then(|zone| {
                let good = names::is_name(zone) && names::is_name(&name);
                good.then(|| VmId {
                    zone: zone.to_owned(),
                    name: name.clone(),
                })
            }) else {
                tracing::warn!(
                    provider = self.name,
                    scope,
                    name,
                    "a VM whose place cannot be read is not listed"
                );
                return None;
            };
            Some(state::instance(&id, &vm, self.config.internal_ip))
        };
        zone.instances.into_iter().filter_map(read).collect()
    }
}

/// What lets through the VMs of this installation.
pub(super) fn filter(installation: &str) -> Result<String, String> {
    if installation.is_empty() || !names::is_label_value(installation) {
        return Err(format!(
            "installation {installation:?}: Google takes no such label (1 to 63 of a-z, 0-9, '_' and '-')"
        ));
    }
    Ok(format!(
        "(labels.{MANAGED_MARK} = \"true\") AND (labels.{INSTALLATION_MARK} = \"{installation}\")"
    ))
}

pub(super) fn is_unreachable(zone: &InstancesScopedList) -> bool {
    let warning = zone.warning.as_ref();
    warning.is_some_and(|warning| warning.code == Some(Code::Unreachable))
}
