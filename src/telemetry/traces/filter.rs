//! Which spans become part of a trace.

use super::sampler::Door;
use opentelemetry::{Context as Trace, trace::TraceContextExt};
use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter, subscriber::Interest};
use tracing_subscriber::layer::{Context, Filter};

/// The target of spans of requests to the lease API.
pub const REQUEST: &str = "proxy_operator::http::request";
/// The client's own span of each request to the API server.
const API_CALL: (&str, &str) = ("kube_client::client::builder", "HTTP");

/// Lets through those spans of ours, and of the Kubernetes client, that begin a unit of work or are
/// inside of one that is sampled. So there is no trace of what goes on for ever, as watches do, and one
/// that is not sampled costs no more than its first span. Of requests, of which there may be tens of
/// thousands a second, those that are not sampled have no span at all: see [`Door`]. Log lines are no part
/// of traces.
#[derive(Clone, Debug)]
pub struct SpanFilter(Door);

impl SpanFilter {
    /// A filter that asks `door` which requests are sampled.
    pub(super) fn new(door: Door) -> Self {
        Self(door)
    }
}

impl<S: Subscriber> Filter<S> for SpanFilter {
    fn enabled(&self, about: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        match kind(about) {
            Kind::Unit => true,
            Kind::Request => Trace::map_current(|trace| self.0.admits(trace)),
            Kind::Part => Trace::map_current(|trace| trace.span().span_context().is_sampled()),
            Kind::None => false,
        }
    }

    fn callsite_enabled(&self, about: &'static Metadata<'static>) -> Interest {
        match kind(about) {
            Kind::Unit => Interest::always(),
            Kind::Request | Kind::Part => Interest::sometimes(),
            Kind::None => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

enum Kind {
    Unit,
    Request,
    Part,
    None,
}

fn kind(about: &Metadata<'_>) -> Kind {
    let target = about.target();
    let ours = || {
        ["actors", "proxy_operator"]
            .iter()
            .any(|krate| target.starts_with(krate))
    };
    match target {
        _ if !about.is_span() || *about.level() > Level::DEBUG => Kind::None,
        actors::trace::UNIT => Kind::Unit,
        REQUEST => Kind::Request,
        _ if (target, about.name()) == API_CALL || ours() => Kind::Part,
        _ => Kind::None,
    }
}
