//! Spans on stdout, a line of JSON each: for somebody who wants to see them without a collector.

use opentelemetry::{KeyValue, trace::Status};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    trace::{SpanData, SpanExporter},
};
use serde_json::{Map, Value, json};
use std::{
    io::{self, Write},
    time::{Duration, SystemTime},
};

/// The exporter.
#[derive(Debug, Default)]
pub(super) struct Console {
    /// Of the process.
    resource: Map<String, Value>,
}

impl SpanExporter for Console {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let lines: Vec<_> = batch
            .iter()
            .map(|span| format!("{}\n", self.line(span)))
            .collect();
        io::stdout()
            .lock()
            .write_all(lines.concat().as_bytes())
            .map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
    }

    fn set_resource(&mut self, resource: &Resource) {
        let named =
            |(key, value): (_, &opentelemetry::Value)| (format!("{key}"), value.to_string().into());
        self.resource = resource.iter().map(named).collect();
    }
}

impl Console {
    fn line(&self, span: &SpanData) -> Value {
        let status = match &span.status {
            Status::Unset => "unset",
            Status::Ok => "ok",
            Status::Error { .. } => "error",
        };
        json!({
            "name": span.name,
            "kind": format!("{:?}", span.span_kind),
            "traceID": span.span_context.trace_id().to_string(),
            "spanID": span.span_context.span_id().to_string(),
            "parentSpanID": span.parent_span_id.to_string(),
            "start": time(span.start_time),
            "durationMillis": millis(span),
            "status": status,
            "attributes": attributes(&span.attributes),
            "resource": self.resource,
        })
    }
}

fn attributes(all: &[KeyValue]) -> Map<String, Value> {
    let named = |one: &KeyValue| (one.key.to_string(), one.value.to_string().into());
    all.iter().map(named).collect()
}

fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_micros(at).to_string()
}

fn millis(span: &SpanData) -> f64 {
    let took = span.end_time.duration_since(span.start_time);
    took.as_ref().map_or(0.0, Duration::as_secs_f64) * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceFlags, TraceId, TraceState};

    #[test]
    fn a_line_tells_all_of_a_span() {
        let begun = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let context = SpanContext::new(
            TraceId::from(0xab),
            SpanId::from(0xc),
            TraceFlags::SAMPLED,
            false,
            TraceState::default(),
        );
        let span = SpanData {
            span_context: context,
            parent_span_id: SpanId::from(1),
            parent_span_is_remote: false,
            span_kind: SpanKind::Client,
            name: "provider.get".into(),
            start_time: begun,
            end_time: begun + Duration::from_millis(20),
            attributes: vec![KeyValue::new("provider.id", "ns/a \"quoted\"")],
            dropped_attributes_count: 0,
            events: opentelemetry_sdk::trace::SpanEvents::default(),
            links: opentelemetry_sdk::trace::SpanLinks::default(),
            status: Status::error("gone"),
            instrumentation_scope: opentelemetry::InstrumentationScope::default(),
        };
        let mut console = Console::default();
        console.set_resource(&Resource::builder_empty().with_service_name("op").build());
        let line = json!({
            "name": "provider.get",
            "kind": "Client",
            "traceID": "000000000000000000000000000000ab",
            "spanID": "000000000000000c",
            "parentSpanID": "0000000000000001",
            "start": "1970-01-01T00:00:01.000000Z",
            "durationMillis": 20.0,
            "status": "error",
            "attributes": {"provider.id": "ns/a \"quoted\""},
            "resource": {"service.name": "op"},
        });
        assert_eq!(console.line(&span), line);
    }
}
