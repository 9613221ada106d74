//! Gauges that are read at the time of the scrape, from those who know: they cannot drift, and a gone
//! proxy is in none of them.

use actors::{
    leases::{Counts, LeasesMsg},
    store::ProxyStore,
    system::{Addr, directory::Directory},
};
use crds::Phase;
use prometheus::{IntGauge, IntGaugeVec, Opts, core::Collector, proto::MetricFamily};
use std::{sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// How long a scrape waits for the ledger; without its answer its gauges are left out.
const DEADLINE: Duration = Duration::from_millis(500);

/// Whom a scrape asks.
pub struct Gauges {
    /// Knows the proxies.
    pub store: Arc<dyn ProxyStore>,
    /// Knows the leases.
    pub leases: Addr<LeasesMsg>,
    /// Knows the actors.
    pub directory: Arc<Directory>,
    /// Where to wait for answers.
    pub runtime: Handle,
}

impl Gauges {
    /// Reads them all. Runs on a thread that may block.
    ///
    /// # Errors
    /// Never, as long as the names here are valid.
    pub fn read(&self) -> Result<Vec<MetricFamily>, prometheus::Error> {
        let mut families = self.proxies()?;
        families.extend(self.mailboxes()?);
        let counts = self
            .runtime
            .block_on(self.leases.ask(DEADLINE, LeasesMsg::Count));
        if let Ok(Counts { leases, cooldowns }) = counts {
            families.extend(gauge("leases_active", "Leases that are active.", leases)?);
            families.extend(gauge(
                "cooldowns_active",
                "Cooldowns that are under way.",
                cooldowns,
            )?);
        }
        Ok(families)
    }

    fn proxies(&self) -> Result<Vec<MetricFamily>, prometheus::Error> {
        let gauge = vec("proxies", "Proxy objects by phase.", "phase")?;
        for phase in [
            Phase::Pending,
            Phase::Provisioning,
            Phase::Ready,
            Phase::Unhealthy,
            Phase::Deleting,
            Phase::Failed,
        ] {
            gauge.with_label_values(&[format!("{phase:?}")]).set(0);
        }
        for object in self.store.list() {
            // The status of an object that only somebody else still holds is not written any more.
            let phase = match &object.status {
                _ if object.is_deleting() => Phase::Deleting,
                Some(status) => status.phase.unwrap_or(Phase::Pending),
                None => Phase::Pending,
            };
            gauge.with_label_values(&[format!("{phase:?}")]).inc();
        }
        Ok(gauge.collect())
    }

    fn mailboxes(&self) -> Result<Vec<MetricFamily>, prometheus::Error> {
        let sum = vec(
            "actor_mailbox_depth",
            "Messages waiting in mailboxes.",
            "kind",
        )?;
        let max = vec(
            "actor_mailbox_depth_max",
            "Messages waiting in the fullest mailbox.",
            "kind",
        )?;
        for (kind, (total, fullest)) in self.directory.mailbox_depths() {
            sum.with_label_values(&[kind])
                .set(total.try_into().unwrap_or(i64::MAX));
            max.with_label_values(&[kind]).set(fullest.into());
        }
        Ok([sum.collect(), max.collect()].concat())
    }
}

fn vec(name: &str, help: &str, label: &str) -> Result<IntGaugeVec, prometheus::Error> {
    IntGaugeVec::new(Opts::new(format!("proxy_operator_{name}"), help), &[label])
}

fn gauge(name: &str, help: &str, value: usize) -> Result<Vec<MetricFamily>, prometheus::Error> {
    let gauge = IntGauge::new(format!("proxy_operator_{name}"), help)?;
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    Ok(gauge.collect())
}
