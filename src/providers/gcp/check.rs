//! The check: can this provider still list its VMs, and how much room is left?

use super::{GcpProvider, classify::Refusal, list::filter};
use actors::provider::contract::TargetCheck;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// What a project may use, in all regions together.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Project {
    quotas: Vec<Quota>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Quota {
    metric: String,
    usage: f64,
    limit: f64,
}

impl GcpProvider {
    /// The verdict on the project. It lists with the filter, the scope and the credentials of `list`, but one
    /// VM at most.
    pub(super) async fn check_project(&self, within: Duration) -> TargetCheck {
        let started = Instant::now();
        let listed = async {
            let filter = match filter(&self.installation) {
                Ok(filter) => filter,
                Err(fault) => return Err(("APIError", fault)),
            };
            let page = self.page(&filter, "1", "").await;
            page.map_err(|refusal| (refusal.check_reason(), refusal.message))
        };
        let quotas = timeout(within, self.quotas());
        let (listed, quotas) = tokio::join!(timeout(within, listed), quotas);
        let (ready, reason, message) = match listed {
            Ok(Ok(_)) => (true, "Reachable", "VMs can be listed".to_owned()),
            Ok(Err((reason, message))) => (false, reason, message),
            Err(_) => {
                let refusal = Refusal::timeout(within);
                (false, refusal.check_reason(), refusal.message)
            }
        };
        // Quotas that are kept from us are no reason to fail: nothing is made of them.
        let tightest = quotas.ok().and_then(Result::ok);
        let tightest = tightest.and_then(|project| tightest_of(&project));
        TargetCheck {
            name: self.config.project.clone(),
            address: self.config.endpoint().to_owned(),
            ready,
            reason,
            message,
            latency: started.elapsed(),
            details: tightest
                .map(|quota| BTreeMap::from([("quota".to_owned(), quota)]))
                .unwrap_or_default(),
        }
    }

    async fn quotas(&self) -> Result<Project, Refusal> {
        self.api
            .read("projects.get", "", &[("fields", "quotas")])
            .await
    }
}

/// The quota in use of which the greatest part is used up, `CPUS_ALL_REGIONS: 30 of 32`.
fn tightest_of(project: &Project) -> Option<String> {
    let in_use = project
        .quotas
        .iter()
        .filter(|quota| quota.limit > 0.0 && quota.usage > 0.0);
    let part = |quota: &Quota| quota.usage / quota.limit;
    let tightest = in_use.max_by(|one, other| part(one).total_cmp(&part(other)))?;
    Some(format!(
        "{}: {} of {}",
        tightest.metric, tightest.usage, tightest.limit
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_quota_in_use_is_told() {
        let project: Project = serde_json::from_str(
            r#"{"quotas": [
                {"metric": "NETWORKS", "usage": 1.0, "limit": 5.0},
                {"metric": "CPUS_ALL_REGIONS", "usage": 30.5, "limit": 32.0, "owner": "x"},
                {"metric": "IMAGES", "usage": 0.0, "limit": 1.0},
                {"metric": "ODD", "usage": 1.0, "limit": 0.0},
                {"metric": "BARE"}
            ]}"#,
        )
        .expect("a project");
        let told = tightest_of(&project);
        assert_eq!(told.as_deref(), Some("CPUS_ALL_REGIONS: 30.5 of 32"));
        assert_eq!(tightest_of(&Project::default()), None);
    }
}
