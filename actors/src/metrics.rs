//! The domain's metrics: made once, cloned into the actors that count.

mod register;

pub use register::Register;

use crate::{
    key::ProxyKey,
    leases::terms::ReportResult,
    prober::probe::{FailureKind, Outcome},
    provider::contract::{ErrorClass, Operation},
};
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, core::Collector};
use std::time::Duration;
use strum::VariantArray;

/// Handles of the metrics; cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    probe_duration: HistogramVec,
    probe_failures: IntCounterVec,
    provider_requests: IntCounterVec,
    provider_duration: HistogramVec,
    reconcile_duration: HistogramVec,
    granted: IntCounter,
    denied: IntCounterVec,
    reported: IntCounterVec,
    reload_failures: IntCounter,
    orphans_deleted: IntCounterVec,
    sweep_failures: IntCounterVec,
}

impl Metrics {
    /// Makes the metrics and registers them.
    ///
    /// # Errors
    /// When `registry` has metrics of these names already.
    pub fn new(registry: &impl Register) -> Result<Self, prometheus::Error> {
        let name = |what: &str| format!("proxy_operator_{what}");
        let counter = |what, help, labels| {
            register(
                registry,
                IntCounterVec::new(Opts::new(name(what), help), labels),
            )
        };
        let histogram = |what, help, buckets: &[f64], labels| {
            let options = HistogramOpts::new(name(what), help).buckets(buckets.into());
            register(registry, HistogramVec::new(options, labels))
        };
        Ok(Self {
            probe_duration: histogram(
                "healthcheck_duration_seconds",
                "Latency of successful probes through a proxy.",
                // Few: every proxy has a histogram of its own, and 10 000 of them have to fit.
                &[0.05, 0.2, 0.5, 1.0, 5.0],
                &["proxy"],
            )?,
            probe_failures: counter(
                "healthcheck_failures_total",
                "Failed probes through a proxy.",
                &["proxy", "kind"],
            )?,
            provider_requests: counter(
                "provider_requests_total",
                "Calls to providers by their result: ok or the error's class.",
                &["provider", "op", "result"],
            )?,
            provider_duration: histogram(
                "provider_request_duration_seconds",
                "Duration of calls to providers.",
                &[0.01, 0.1, 1.0, 10.0, 60.0, 300.0],
                &["provider", "op"],
            )?,
            reconcile_duration: histogram(
                "reconcile_duration_seconds",
                "Time from a wake-up of a Proxy until nothing was left to do, by outcome.",
                &[0.001, 0.01, 0.1, 1.0, 10.0, 60.0],
                &["outcome"],
            )?,
            granted: register(
                registry,
                IntCounter::new(name("leases_granted_total"), "Leases granted."),
            )?,
            denied: counter(
                "lease_denials_total",
                "Refused requests for a lease.",
                &["reason"],
            )?,
            reported: counter("lease_reports_total", "Reports on leases.", &["result"])?,
            reload_failures: register(
                registry,
                IntCounter::new(
                    name("config_reload_failures_total"),
                    "Contents of the providers file that were refused while running.",
                ),
            )?,
            orphans_deleted: counter(
                "gc_orphans_deleted_total",
                "Instances without a Proxy that were told to go.",
                &["provider"],
            )?,
            sweep_failures: counter(
                "gc_sweep_failures_total",
                "Sweeps for orphans that did not do all that they should.",
                &["provider"],
            )?,
        })
    }

    pub(crate) fn probed(&self, key: &ProxyKey, outcome: &Outcome) {
        match outcome {
            Ok(latency) => self
                .probe_duration
                .with_label_values(&[key.as_str()])
                .observe(latency.as_secs_f64()),
            Err(failure) => self
                .probe_failures
                .with_label_values(&[key.as_str(), failure.kind.into()])
                .inc(),
        }
    }

    /// A proxy is probed no more: its series go with it.
    pub(crate) fn forget(&self, key: &ProxyKey) {
        // Whether there was such a series does not matter.
        self.probe_duration
            .remove_label_values(&[key.as_str()])
            .ok();
        for kind in FailureKind::VARIANTS {
            self.probe_failures
                .remove_label_values(&[key.as_str(), kind.into()])
                .ok();
        }
    }

    pub(crate) fn provider_request(
        &self,
        provider: &str,
        op: Operation,
        error: Option<ErrorClass>,
        took: Duration,
    ) {
        let (op, result) = (op.into(), error.map_or("ok", Into::into));
        self.provider_requests
            .with_label_values(&[provider, op, result])
            .inc();
        self.provider_duration
            .with_label_values(&[provider, op])
            .observe(took.as_secs_f64());
    }

    /// A provider is configured no more: its series go with it.
    pub(crate) fn forget_provider(&self, provider: &str) {
        for op in Operation::VARIANTS {
            let op = op.into();
            // Whether there was such a series does not matter.
            self.provider_duration
                .remove_label_values(&[provider, op])
                .ok();
            let results = ErrorClass::VARIANTS.iter().map(Into::into);
            for result in results.chain(["ok"]) {
                self.provider_requests
                    .remove_label_values(&[provider, op, result])
                    .ok();
            }
        }
        for swept in [&self.orphans_deleted, &self.sweep_failures] {
            swept.remove_label_values(&[provider]).ok();
        }
    }

    /// The providers file was refused.
    pub(crate) fn config_reload_failed(&self) {
        self.reload_failures.inc();
    }

    /// A sweep of this provider ended: so many of its instances were told to go.
    pub(crate) fn swept(&self, provider: &str, deleted: u64, failed: bool) {
        // A series that is there from the first sweep on shows its first step.
        self.orphans_deleted
            .with_label_values(&[provider])
            .inc_by(deleted);
        self.sweep_failures
            .with_label_values(&[provider])
            .inc_by(failed.into());
    }

    pub(crate) fn reconciled(&self, outcome: &str, took: Duration) {
        self.reconcile_duration
            .with_label_values(&[outcome])
            .observe(took.as_secs_f64());
    }

    pub(crate) fn granted(&self) {
        self.granted.inc();
    }

    pub(crate) fn denied(&self, reason: &str) {
        self.denied.with_label_values(&[reason]).inc();
    }

    pub(crate) fn reported(&self, result: ReportResult) {
        let result: &str = result.into();
        self.reported.with_label_values(&[result]).inc();
    }
}

fn register<C: Collector + Clone + 'static>(
    registry: &impl Register,
    made: Result<C, prometheus::Error>,
) -> Result<C, prometheus::Error> {
    let collector = made?;
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
