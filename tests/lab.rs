//! The lab and what scenarios say to it.
//!
//! | file | is |
//! |---|---|
//! | [`stage`] | starts the lab when it is first needed and ends it; makes trials of scenarios |
//! | [`cluster`] | the cluster of `cluster.sh`, with its faults |
//! | [`scene`] | a namespace of its own for one scenario, and what is told when it fails |
//! | [`operator`] | a running operator |
//! | [`proxy`] | Proxies: written, applied, waited for |
//! | [`forwarder`] | what stands between an operator and the API server, to break it |
//! | [`judge`], [`squid`] | what probes fetch, and what they fetch through |

pub mod cluster;
pub mod forwarder;
pub mod judge;
pub mod operator;
pub mod proxy;
pub mod scene;
#[expect(dead_code, reason = "the rest is for the tests of the lab itself")]
pub mod squid;
pub mod stage;

pub use proxy::proxy;
pub use scene::Scene;
pub use stage::{Lab, Stage};

use anyhow::Context as _;
use std::time::Duration;

/// Asks again and again until there is an answer.
///
/// # Errors
/// The question's own, or that there was no answer within `patience`.
pub async fn eventually<T, F>(
    what: &str,
    patience: Duration,
    ask: impl Fn() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let asking = async {
        let mut again = tokio::time::interval(Duration::from_millis(50));
        loop {
            again.tick().await;
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
        }
    };
    tokio::time::timeout(patience, asking)
        .await
        .with_context(|| format!("not within {patience:?}: {what}"))?
}
