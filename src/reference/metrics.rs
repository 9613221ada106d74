//! The metrics, asked of those who make them.

use super::{code, row, table};
use crate::{
    http::metrics::HttpMetrics,
    telemetry::{gauges, metrics},
};
use actors::{
    metrics::{Metrics, Register},
    system::meter::Meters,
};
use prometheus::{core::Collector, proto::MetricType};
use std::cell::RefCell;

/// What there is to say of a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Described {
    /// Its whole name.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// Its labels, in the order in which they are set.
    pub labels: Vec<String>,
    /// What it counts.
    pub help: String,
}

/// Every metric that the program can show, by name.
///
/// # Errors
/// Where one cannot be made.
pub fn catalogue() -> Result<Vec<Described>, prometheus::Error> {
    let notebook = Notebook::default();
    metrics::register_build_info(&notebook)?;
    metrics::image_downloads(&notebook)?;
    metrics::undecodable_objects(&notebook)?;
    Metrics::new(&notebook)?;
    Meters::new(&notebook)?;
    HttpMetrics::new(&notebook)?;
    gauges::describe(&notebook)?;
    let mut all = notebook.0.into_inner();
    all.sort();
    Ok(all)
}

/// Takes note of what is handed in.
#[derive(Default)]
struct Notebook(RefCell<Vec<Described>>);

impl Register for Notebook {
    fn register(&self, collector: Box<dyn Collector>) -> Result<(), prometheus::Error> {
        let families = collector.collect();
        for desc in collector.desc() {
            let family = families.iter().find(|family| family.name() == desc.fq_name);
            let kind = family.map(prometheus::proto::MetricFamily::get_field_type);
            let described = Described {
                name: desc.fq_name.clone(),
                kind: match kind {
                    Some(MetricType::COUNTER) => "counter",
                    Some(MetricType::GAUGE) => "gauge",
                    Some(MetricType::HISTOGRAM) => "histogram",
                    _ => "untyped",
                },
                labels: desc.variable_labels.clone(),
                help: desc.help.clone(),
            };
            let mut all = self.0.borrow_mut();
            if all.iter().any(|known| known.name == described.name) {
                return Err(prometheus::Error::AlreadyReg);
            }
            all.push(described);
        }
        Ok(())
    }
}

pub(super) fn chapter(all: &[Described]) -> String {
    let rows = all.iter().map(|metric| {
        let labels: Vec<_> = metric.labels.iter().map(|label| code(label)).collect();
        let labels = if labels.is_empty() {
            "-".to_owned()
        } else {
            labels.join(", ")
        };
        row([&code(&metric.name), metric.kind, &labels, &metric.help])
    });
    format!(
        "## Metrics\n\nOn `--metrics-bind-address`, at `/metrics`.\n\n{}",
        table(["metric", "type", "labels", "meaning"], rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and labels that dashboards and alerts rest on.
    const PROMISED: &[&str] = &[
        "proxies{phase}",
        "leases_active",
        "leases_granted_total",
        "lease_denials_total{reason}",
        "lease_reports_total{result}",
        "cooldowns_active",
        "healthcheck_duration_seconds{proxy}",
        "healthcheck_failures_total{proxy,kind}",
        "provider_requests_total{provider,op,result}",
        "provider_request_duration_seconds{provider,op}",
        "provider_target_up{provider,target}",
        "provider_check_duration_seconds{provider,target}",
        "provider_check_timestamp_seconds{provider,target}",
        "reconcile_duration_seconds{outcome}",
        "gc_orphans_deleted_total{provider}",
        "gc_sweep_failures_total{provider}",
        "image_download_bytes_total{provider,host}",
        "config_reload_failures_total",
        "is_leader",
        "build_info{version,commit}",
        "http_requests_total{route,status}",
        "http_request_duration_seconds{route}",
        "actors{kind}",
        "actor_restarts_total{kind,reason}",
        "actor_messages_total{kind,message}",
        "actor_message_duration_seconds{kind}",
        "actor_mailbox_wait_seconds{kind}",
        "actor_mailbox_depth{kind}",
        "actor_mailbox_depth_max{kind}",
    ];

    #[test]
    fn what_is_promised_is_there() {
        let all = catalogue().expect("a catalogue");
        let spelled = |metric: &Described| {
            let name = metric.name.trim_start_matches("proxy_operator_");
            match &metric.labels[..] {
                [] => name.to_owned(),
                labels => format!("{name}{{{}}}", labels.join(",")),
            }
        };
        let found: Vec<_> = all.iter().map(spelled).collect();
        for promised in PROMISED {
            assert!(
                found.iter().any(|name| name == promised),
                "{promised} is not in {found:#?}"
            );
        }
    }

    #[test]
    fn every_metric_is_ours_and_says_what_it_is() {
        let all = catalogue().expect("a catalogue");
        for metric in &all {
            assert!(metric.name.starts_with("proxy_operator_"), "{metric:?}");
            assert!(
                metric.kind != "untyped" && metric.help.ends_with('.'),
                "{metric:?}"
            );
        }
    }
}
