//! Counts and times of requests, by route template and status. The children are looked up once.

use super::routes::{Endpoint, TABLE};
use actors::metrics::Register;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts};
use std::{sync::OnceLock, time::Duration};
use warp::http::StatusCode;

/// Every status that the API answers with.
pub const STATUSES: [StatusCode; 10] = [
    StatusCode::OK,
    StatusCode::CREATED,
    StatusCode::NO_CONTENT,
    StatusCode::BAD_REQUEST,
    StatusCode::UNAUTHORIZED,
    StatusCode::NOT_FOUND,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::CONFLICT,
    StatusCode::INTERNAL_SERVER_ERROR,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// The label of requests that no route takes; their paths would be labels without end.
const UNMATCHED: &str = "unmatched";

/// A lease takes well under a millisecond, a list of 10 000 proxies some ten milliseconds.
const BUCKETS: [f64; 12] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0,
];

struct RouteMetrics {
    label: &'static str,
    seconds: Histogram,
    // Filled when first needed, so that a scrape shows no combination that never was.
    answers: [OnceLock<IntCounter>; STATUSES.len()],
}

/// The API's own metrics.
pub struct HttpMetrics {
    requests: IntCounterVec,
    routes: Vec<RouteMetrics>,
}

impl HttpMetrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// Where the registry holds such names already.
    pub fn new(registry: &impl Register) -> Result<Self, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new(
                "proxy_operator_http_requests_total",
                "Requests that the lease API answered, by route template and status.",
            ),
            &["route", "status"],
        )?;
        let seconds = HistogramVec::new(
            HistogramOpts::new(
                "proxy_operator_http_request_duration_seconds",
                "Time from a request's header to its answer, by route template.",
            )
            .buckets(BUCKETS.to_vec()),
            &["route"],
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        let labels = TABLE.iter().map(|row| row.template).chain([UNMATCHED]);
        let routes = labels
            .map(|label| RouteMetrics {
                label,
                seconds: seconds.with_label_values(&[label]),
                answers: std::array::from_fn(|_| OnceLock::new()),
            })
            .collect();
        Ok(Self { requests, routes })
    }

    /// Counts nothing from here on.
    pub fn switch_off(&mut self) {
        self.routes.clear();
    }

    /// Counts one answer.
    pub fn answered(&self, endpoint: Option<Endpoint>, status: StatusCode, took: Duration) {
        let index = endpoint.map_or(TABLE.len(), |endpoint| endpoint as usize);
        let Some(route) = self.routes.get(index) else {
            return;
        };
        route.seconds.observe(took.as_secs_f64());
        let Some(index) = STATUSES.iter().position(|known| *known == status) else {
            return;
        };
        route.answers[index]
            .get_or_init(|| {
                self.requests
                    .with_label_values(&[route.label, status.as_str()])
            })
            .inc();
    }
}
