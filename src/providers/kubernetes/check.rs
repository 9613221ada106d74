//! The check: can this provider still list its pods?

use super::{KubernetesProvider, classify};
use actors::provider::contract::TargetCheck;
use kube::api::ListParams;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};
use tokio::time::timeout;

impl KubernetesProvider {
    /// The verdict on the API server. It lists with the selector, the scope and the credentials of
    /// `list`, but one pod at most.
    pub(super) async fn check_api_server(&self, within: Duration) -> TargetCheck {
        let started = Instant::now();
        let one = ListParams::default().labels(&self.ours()).limit(1);
        let pods = self.all_pods();
        let listed = timeout(within, pods.list(&one));
        let version = timeout(within, self.cluster.client.apiserver_version());
        let (listed, version) = tokio::join!(listed, version);
        let (ready, reason, message) = match listed {
            Ok(Ok(_)) => (true, "Reachable", "pods can be listed".to_owned()),
            Ok(Err(error)) => (
                false,
                classify::check_reason(&error),
                classify::message(&error),
            ),
            Err(_) => {
                let seconds = within.as_secs();
                (false, "Timeout", format!("no answer within {seconds} s"))
            }
        };
        TargetCheck {
            name: "apiserver".to_owned(),
            address: self.cluster.url.clone(),
            ready,
            reason,
            message,
            latency: started.elapsed(),
            // A version that is kept from us is no reason to fail: nothing is made of it.
            details: version
                .ok()
                .and_then(Result::ok)
                .map_or_else(BTreeMap::new, |version| {
                    BTreeMap::from([("version".to_owned(), version.git_version)])
                }),
        }
    }
}
