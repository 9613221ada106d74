//! Lines as they are written, with the fields of events, spans and traces.

use super::*;
use crate::telemetry::traces::Traces;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};
use std::{
    io::{self, Write},
    sync::mpsc,
    time::Duration,
};
use tracing::{error, info, info_span, warn};
use tracing_subscriber::layer::SubscriberExt;

struct Sink(mpsc::Sender<Vec<u8>>);

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.send(line.to_vec()).ok();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ends with every span.
#[derive(Debug)]
struct Nowhere;

impl SpanProcessor for Nowhere {
    fn on_start(&self, _: &mut Span, _: &Trace) {}
    fn on_end(&self, _: SpanData) {}
    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The lines that `work` logs, as they are written.
fn logged(work: impl FnOnce()) -> Vec<String> {
    logged_as(json::line, work)
}

fn logged_as(format: Format, work: impl FnOnce()) -> Vec<String> {
    let (sink, written) = mpsc::channel();
    let (lines, flush) = Lines::start(Sink(sink), json::dropped).expect("a thread");
    let traces = Traces::to(Nowhere);
    let subscriber = tracing_subscriber::registry()
        .with(traces.layer().with_filter(traces.filter()))
        .with(LogLayer::new(lines, format));
    tracing::subscriber::with_default(subscriber, work);
    drop(flush);
    written
        .iter()
        .map(|line| String::from_utf8(line).expect("text"))
        .collect()
}

fn object(line: &str) -> Map<String, Value> {
    serde_json::from_str(line).expect(line)
}

#[test]
fn a_line_starts_with_the_four_names_and_carries_fields_in_lower_camel() {
    let lines = logged(|| {
        let latency_millis = 12_u64;
        info!(target: "fleet", provider_id = "ns/pod", latency_millis, ok = true, ratio = 0.5, left = -1, "instance runs");
    });
    assert_eq!(lines.len(), 1);
    let (ts, rest) = lines[0].split_at(r#"{"ts":"2026-01-01T00:00:00.000000Z","#.len());
    assert_eq!(
        rest,
        "\"level\":\"INFO\",\"target\":\"fleet\",\"msg\":\"instance runs\",\"latencyMillis\":12,\"left\":-1,\
         \"ok\":true,\"providerID\":\"ns/pod\",\"ratio\":0.5}\n"
    );
    let written = ts.trim_start_matches(r#"{"ts":""#).trim_end_matches("\",");
    let written: Timestamp = written.parse().expect("RFC 3339");
    assert!(Timestamp::now().duration_since(written).as_secs() < 60);
}

#[test]
fn fields_of_spans_appear_once_and_the_innermost_wins() {
    let lines = logged(|| {
        let outer = info_span!(
            "outer",
            proxy = "a/b",
            attempt = 1,
            late = tracing::field::Empty
        );
        let _outer = outer.enter();
        let inner = info_span!("inner", attempt = 2);
        let _inner = inner.enter();
        outer.record("late", "told");
        info!("in both");
        info!(attempt = 3, "said again");
    });
    let lines: Vec<_> = lines.iter().map(|line| object(line)).collect();
    assert_eq!(lines[0]["proxy"], "a/b");
    assert_eq!(lines[0]["late"], "told");
    assert_eq!(lines[0]["attempt"], 2);
    assert_eq!(lines[1]["attempt"], 3);
    assert_eq!(lines[1]["msg"], "said again");
}

#[test]
fn inside_of_a_trace_a_line_has_its_ids_once_in_either_format() {
    for format in [json::line as Format, text::line] {
        let mut ids = Vec::new();
        let lines = logged_as(format, || {
            info!("before");
            let outer = info_span!(target: actors::trace::UNIT, "outer", spanID = "forged");
            let _outer = outer.enter();
            info!("outside");
            let inner = info_span!(target: actors::trace::UNIT, "inner");
            let _inner = inner.enter();
            info!(traceID = "forged", "inside");
            let trace = Trace::current();
            let span = trace.span().span_context().clone();
            ids = vec![span.trace_id().to_string(), span.span_id().to_string()];
        });
        let [before, outside, inside] = &lines[..] else {
            panic!("{lines:?}")
        };
        assert!(!before.contains("traceID"), "{before}");
        assert!(
            outside.contains(&ids[0]) && !outside.contains(&ids[1]),
            "{outside}"
        );
        for part in [ids[0].as_str(), ids[1].as_str(), "traceID", "spanID"] {
            assert_eq!(inside.matches(part).count(), 1, "{part} in {inside}");
        }
        assert!(!inside.contains("forged"), "{inside}");
    }
}

#[test]
fn no_value_breaks_the_line_or_takes_a_reserved_name() {
    let lines = logged(|| {
        let target = "shop.example";
        warn!(
            target,
            msg = 1,
            r#type = "x",
            nan = f64::NAN,
            "two\nlines \"quoted\" \u{1b}[31m"
        );
    });
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].matches('\n').count(), 1);
    let line = object(&lines[0]);
    assert_eq!(line["msg"], "two\nlines \"quoted\" \u{1b}[31m");
    assert_eq!(line["target"], module_path!());
    assert_eq!(line["target_"], "shop.example");
    assert_eq!(line["msg_"], 1);
    assert_eq!(line["type"], "x");
    assert_eq!(line["nan"], "NaN");
}

#[test]
fn an_error_is_told_with_its_causes() {
    let lines = logged(|| {
        let failure =
            anyhow::Error::new(io::Error::other("connection reset")).context("cannot list pods");
        error!(error = failure.as_ref() as &dyn Error, "sweep ended");
    });
    assert_eq!(
        object(&lines[0])["error"],
        "cannot list pods: connection reset"
    );
}

#[test]
fn names_are_lower_camel() {
    for (field, name) in [
        ("proxy", "proxy"),
        ("provider_id", "providerID"),
        ("reconcile_id", "reconcileID"),
        ("latency_millis", "latencyMillis"),
        ("id", "id"),
        ("_private", "private"),
        ("traceID", "traceID"),
        ("provider.name", "provider"),
        ("provider.id", "providerID"),
        ("http.status_code", "httpStatusCode"),
        ("target", "target_"),
    ] {
        assert_eq!(key(field).as_deref(), Some(name));
    }
    assert_eq!(key("otel.name"), None);
}

#[test]
fn lost_lines_are_reported_in_the_same_shape() {
    let line = object(&json::dropped(7));
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["lines"], 7);
}
