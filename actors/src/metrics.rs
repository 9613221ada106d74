//! The domain's metrics: made once, cloned into the actors that count.

use crate::{
    key::ProxyKey,
    leases::terms::ReportResult,
    prober::probe::{FailureKind, Outcome},
    provider::contract::{ErrorClass, Operation},
};
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, core::Collector,
};
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
}

impl Metrics {
    /// Makes the metrics and registers them.
    ///
    /// # Errors
    /// When `registry` has metrics of these names already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
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
    registry: &Registry,
    made: Result<C, prometheus::Error>,
) -> Result<C, prometheus::Error> {
    let collector = made?;
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
