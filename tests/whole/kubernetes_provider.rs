//! The kubernetes provider on a real API server and, where there is one, a real node.
//!
//! Every scenario has a namespace and an installation id of its own, so that they may run together.

mod api;
mod lab;
mod node;
mod wire;

use crate::conformance::rows;
use futures::future::BoxFuture;
use lab::Lab;
use std::{path::Path, sync::Arc};

/// One scenario; see [`scenarios`].
pub struct Scenario {
    /// What is shown.
    pub name: String,
    run: Box<dyn Fn(Arc<Lab>) -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>,
}

impl Scenario {
    /// Runs it in a namespace of its own on the cluster of this kubeconfig.
    ///
    /// # Errors
    /// What was not as promised.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<()> {
        let lab = Arc::new(Lab::new(kubeconfig).await?);
        let outcome = (self.run)(Arc::clone(&lab)).await;
        let ended = lab.end().await;
        outcome.and(ended)
    }
}

/// The rows of the conformance suite, and what is promised of this provider alone.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let conformance = rows().into_iter().map(|row| Scenario {
        name: format!("conformance::{}", row.name),
        run: Box::new(move |lab| Box::pin(async move { (row.run)(&*lab).await })),
    });
    macro_rules! scenario {
        ($module:ident::$name:ident) => {
            Scenario {
                name: stringify!($name).to_owned(),
                run: Box::new(|lab| Box::pin($module::$name(lab))),
            }
        };
    }
    let own = [
        scenario!(node::a_restricted_pod_proxies),
        scenario!(node::a_privileged_port_is_served),
        scenario!(node::a_failed_pod_is_terminated),
        scenario!(node::a_full_quota_heals),
        scenario!(node::the_pod_follows_its_proxy),
        scenario!(api::a_new_namespace_is_no_failure),
        scenario!(api::the_documented_rights_suffice),
        scenario!(api::a_refused_pod_is_permanent),
        scenario!(api::a_late_delete_spares_the_successor),
        scenario!(api::a_list_spans_pages),
        scenario!(api::cloud_init_is_ignored_aloud),
        scenario!(api::every_check_has_its_reason),
    ];
    conformance.chain(own).collect()
}
