//! The lab and what scenarios say to it.
//!
//! | file | is |
//! |---|---|
//! | [`stage`] | starts the lab when it is first needed and ends it; makes trials of scenarios |
//! | [`cluster`] | the cluster of `cluster.sh`, with its faults |
//! | [`hypervisor`], [`hosts`] | hypervisors of `hypervisor.sh` with their faults; which there are in a lab |
//! | [`gce`] | the stand-in for Google's Compute Engine |
//! | [`guest`] | the inside of a guest, by its agent |
//! | [`image_server`] | where images for guests come from, with switches for every kind of trouble |
//! | [`scene`] | a namespace of its own for one scenario, and what is told when it fails |
//! | [`operator`] | a running operator |
//! | [`otlp`] | where traces go |
//! | [`proxy`] | Proxies: written, applied, waited for |
//! | [`forwarder`] | what stands between an operator and the API server, to break it |
//! | [`gate`] | a forwarder that is told what to refuse and what to lose |
//! | [`libvirt_packet`] | libvirt's protocol, for those who stand between |
//! | [`judge`], [`squid`] | what probes fetch, and what they fetch through |

pub mod cluster;
pub mod forwarder;
pub mod gate;
#[expect(dead_code, reason = "the rest is for the tests of the stand-in itself")]
pub mod gce;
pub mod guest;
pub mod hosts;
#[expect(dead_code, reason = "some of it is for the tests of the lab itself")]
pub mod hypervisor;
pub mod image_server;
pub mod judge;
pub mod libvirt_packet;
pub mod operator;
pub mod otlp;
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

/// Asks again and again until there is an answer; a question that fails is asked again, too.
///
/// # Errors
/// That there was no answer within `patience`, with the question's last error.
pub async fn eventually<T, F>(
    what: &str,
    patience: Duration,
    ask: impl Fn() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let mut failed = String::new();
    let asking = async {
        let mut again = tokio::time::interval(Duration::from_millis(50));
        loop {
            again.tick().await;
            match ask().await {
                Ok(Some(answer)) => return answer,
                Ok(None) => failed.clear(),
                Err(error) => failed = format!(" ({error:#})"),
            }
        }
    };
    let answered = tokio::time::timeout(patience, asking).await;
    answered.with_context(|| format!("not within {patience:?}: {what}{failed}"))
}
