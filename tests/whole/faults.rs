//! What goes wrong around the operator, and to it: it dies, the API server hangs, halts or is cut off, and
//! proxies are black holes. Afterwards everything is as if nothing had happened.
//!
//! | file | is |
//! |---|---|
//! | [`deaths`] | killed at every write of a proxy's life, and in the middle of a crowd |
//! | [`outages`] | the control plane is away; these need the cluster to themselves |
//! | [`hung`] | one call or some proxies hang, the rest goes on |
//! | [`killer`] | kills an operator at a write |
//! | [`census`] | what there should be in the end, and how many pods there ever were |

mod census;
mod crawler;
mod deaths;
mod hung;
mod killer;
mod outages;

pub use census::{Census, all_is_well};
pub use deaths::{killed_after_every_write, killed_amid_a_crowd, killed_at_every_write};
pub use hung::{a_hung_call_delays_one_object, black_holes_delay_nobody};
pub use killer::{Killer, Point};
pub use outages::{
    a_cut_network, a_frozen_api_server, a_frozen_etcd, a_frozen_kubelet, a_restarted_api_server,
};

use crate::lab::{Lab, Scene};
use anyhow::bail;
use futures::future::BoxFuture;
use std::sync::Arc;

/// One of many that run side by side, in a namespace of its own.
async fn in_a_scene<T: Send + 'static>(
    lab: Arc<Lab>,
    slug: &'static str,
    run: impl FnOnce(Scene) -> BoxFuture<'static, anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let scene = Scene::new(lab, slug).await?;
    let (outcome, value) = match run(scene.clone()).await {
        Ok(value) => (Ok(()), Some(value)),
        Err(error) => {
            // What those who died had to say; the scene tells what the last one said.
            let dead = scene.path("operator-0.old.log");
            let dead = std::fs::read_to_string(dead).unwrap_or_default();
            (Err(format!("{error:?}\n--- died\n{dead}")), None)
        }
    };
    match (scene.end(outcome).await, value) {
        (Ok(()), Some(value)) => Ok(value),
        (Err(told), _) => bail!(told),
        (Ok(()), None) => bail!("an error that ended well"),
    }
}
