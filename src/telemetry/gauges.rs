//! Gauges that are read at the time of the scrape, from those who know: they cannot drift, and a gone
//! proxy is in none of them.

use actors::{
    leader::standing::Standing,
    leases::{Counts, LeasesMsg},
    metrics::Register,
    monitor::Board,
    store::ProxyStore,
    system::{Addr, directory::Directory},
};
use crds::Phase;
use prometheus::{GaugeVec, IntGaugeVec, Opts, core::Collector, proto::MetricFamily};
use std::{sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::watch};

/// How long a scrape waits for the ledger; without its answer its gauges are left out.
const DEADLINE: Duration = Duration::from_millis(500);

/// Whom a scrape asks.
pub struct Gauges {
    /// Whether this process leads. A follower knows of no proxies and leases.
    pub standing: Standing,
    /// Knows the proxies.
    pub store: Arc<dyn ProxyStore>,
    /// Knows the leases.
    pub leases: Addr<LeasesMsg>,
    /// What is known of the providers' targets.
    pub checks: watch::Receiver<Board>,
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
        let sheet = Sheet::new()?;
        let leads = self.standing.may_act();
        set(&sheet.is_leader, usize::from(leads));
        self.mailboxes(&sheet);
        if leads {
            self.proxies(&sheet);
            self.targets(&sheet);
            let asked = self.leases.ask(DEADLINE, LeasesMsg::Count);
            if let Ok(Counts { leases, cooldowns }) = self.runtime.block_on(asked) {
                set(&sheet.leases_active, leases);
                set(&sheet.cooldowns_active, cooldowns);
            }
        }
        let families = sheet.all().into_iter().flat_map(|gauge| gauge.collect());
        // A family without a series cannot be written as text.
        let told = families.filter(|family| !family.get_metric().is_empty());
        Ok(told.collect())
    }

    fn proxies(&self, sheet: &Sheet) {
        for phase in [
            Phase::Pending,
            Phase::Provisioning,
            Phase::Ready,
            Phase::Unhealthy,
            Phase::Deleting,
            Phase::Failed,
        ] {
            sheet.proxies.with_label_values(&[format!("{phase:?}")]);
        }
        for object in self.store.list() {
            // The status of an object that only somebody else still holds is not written any more.
            let phase = match &object.status {
                _ if object.is_deleting() => Phase::Deleting,
                Some(status) => status.phase.unwrap_or(Phase::Pending),
                None => Phase::Pending,
            };
            let phase = format!("{phase:?}");
            sheet.proxies.with_label_values(&[phase]).inc();
        }
    }

    fn targets(&self, sheet: &Sheet) {
        for row in &self.checks.borrow().rows {
            let labels = &[&row.provider, &row.target];
            let up = sheet.target_up.with_label_values(labels);
            up.set(f64::from(u8::from(row.up)));
            let took = sheet.check_duration.with_label_values(labels);
            took.set(row.took.as_secs_f64());
            sheet.check_timestamp.with_label_values(labels).set(row.at);
        }
    }

    fn mailboxes(&self, sheet: &Sheet) {
        for (kind, (total, fullest)) in self.directory.mailbox_depths() {
            let sum = sheet.mailbox_depth.with_label_values(&[kind]);
            sum.set(total.try_into().unwrap_or(i64::MAX));
            let max = sheet.mailbox_depth_max.with_label_values(&[kind]);
            max.set(fullest.into());
        }
    }
}

/// Hands in one of each gauge, without a value.
///
/// # Errors
/// Where there is one of its name already.
pub fn describe(registry: &impl Register) -> Result<(), prometheus::Error> {
    let gauges = Sheet::new()?.all();
    gauges
        .into_iter()
        .try_for_each(|gauge| registry.register(gauge))
}

/// The gauges of one scrape, empty at first.
struct Sheet {
    is_leader: IntGaugeVec,
    proxies: IntGaugeVec,
    leases_active: IntGaugeVec,
    cooldowns_active: IntGaugeVec,
    target_up: GaugeVec,
    check_duration: GaugeVec,
    check_timestamp: GaugeVec,
    mailbox_depth: IntGaugeVec,
    mailbox_depth_max: IntGaugeVec,
}

impl Sheet {
    fn new() -> Result<Self, prometheus::Error> {
        let options = |name: &str, help| Opts::new(format!("proxy_operator_{name}"), help);
        let gauge = |name, help, labels: &[&str]| IntGaugeVec::new(options(name, help), labels);
        let of_target = |name, help| GaugeVec::new(options(name, help), &["provider", "target"]);
        Ok(Self {
            is_leader: gauge("is_leader", "Whether this process leads: 1 or 0.", &[])?,
            proxies: gauge("proxies", "Proxy objects by phase.", &["phase"])?,
            leases_active: gauge("leases_active", "Leases that are active.", &[])?,
            cooldowns_active: gauge("cooldowns_active", "Cooldowns that are under way.", &[])?,
            target_up: of_target(
                "provider_target_up",
                "Whether a target of a provider passed its latest check (1) or not (0).",
            )?,
            check_duration: of_target(
                "provider_check_duration_seconds",
                "Duration of the latest check of a provider's target.",
            )?,
            check_timestamp: of_target(
                "provider_check_timestamp_seconds",
                "When the latest check of a provider's target ended, in seconds since 1970.",
            )?,
            mailbox_depth: gauge(
                "actor_mailbox_depth",
                "Messages waiting in mailboxes.",
                &["kind"],
            )?,
            mailbox_depth_max: gauge(
                "actor_mailbox_depth_max",
                "Messages waiting in the fullest mailbox.",
                &["kind"],
            )?,
        })
    }

    fn all(&self) -> [Box<dyn Collector>; 9] {
        [
            Box::new(self.is_leader.clone()),
            Box::new(self.proxies.clone()),
            Box::new(self.leases_active.clone()),
            Box::new(self.cooldowns_active.clone()),
            Box::new(self.target_up.clone()),
            Box::new(self.check_duration.clone()),
            Box::new(self.check_timestamp.clone()),
            Box::new(self.mailbox_depth.clone()),
            Box::new(self.mailbox_depth_max.clone()),
        ]
    }
}

/// One without labels has its series only once it is set.
fn set(gauge: &IntGaugeVec, value: usize) {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    gauge.with_label_values::<&str>(&[]).set(value);
}
