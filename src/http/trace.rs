//! The span of a request: named by its route, so that names are few, and a part of the caller's trace
//! where the caller has one (W3C `traceparent`). Health checks have none.

use super::routes::{Endpoint, TABLE};
use crate::telemetry::traces::REQUEST;
use opentelemetry::{
    Context,
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::TraceContextExt,
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use std::sync::LazyLock;
use tracing::{Span, debug_span, field::Empty};
use warp::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// Of a request that no route takes: its method, if it is one of HTTP's own.
const METHODS: [Method; 7] = [
    Method::DELETE,
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::PATCH,
    Method::POST,
    Method::PUT,
];

/// In the order of [`Endpoint`].
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let name = |row: &super::routes::Row| format!("{} {}", row.method, row.template);
    TABLE.iter().map(name).collect()
});

/// The span of a request; none for a health check, nor for one that is not sampled.
pub(super) fn request(method: &Method, endpoint: Option<Endpoint>, headers: &HeaderMap) -> Span {
    if endpoint == Some(Endpoint::Healthz) {
        return Span::none();
    }
    let index = endpoint.map(|endpoint| endpoint as usize);
    let known = METHODS.contains(method);
    // For the moment in which the span is made, which may be a part of it.
    let _caller = headers.contains_key("traceparent").then(|| {
        TraceContextPropagator::new()
            .extract(&Headers(headers))
            .attach()
    });
    debug_span!(
        target: REQUEST,
        "request",
        otel.name = match index.and_then(|index| NAMES.get(index)) {
            Some(name) => name.as_str(),
            None if known => method.as_str(),
            None => "HTTP",
        },
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = if known { method.as_str() } else { "_OTHER" },
        http.route = index.and_then(|index| Some(TABLE.get(index)?.template)),
        http.response.status_code = Empty,
    )
}

/// Records on the span of a request how it was answered.
pub(super) fn answered(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", status.as_u16());
    if status.is_server_error() {
        span.record("otel.status_code", "error");
    }
}

/// Makes whoever is asked next a part of the trace that is under way, if there is one.
pub(super) fn pass_on(headers: &mut HeaderMap) {
    Context::map_current(|trace| {
        if trace.span().span_context().is_valid() {
            TraceContextPropagator::new().inject_context(trace, &mut HeadersMut(headers));
        }
    });
}

struct Headers<'a>(&'a HeaderMap);
struct HeadersMut<'a>(&'a mut HeaderMap);

impl Injector for HeadersMut<'_> {
    fn set(&mut self, name: &str, value: String) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.0.insert(name, value);
        }
    }
}

impl Extractor for Headers<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}
