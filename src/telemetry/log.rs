//! Log lines: the message, and then the fields of the event and of the spans around it, each name once;
//! the innermost value wins. Inside of a trace, its id and that of the span are two of them.
//!
//! The subscriber's own formats have other names and nest spans, so this is a layer of ours. How a line
//! looks is for [`json`] and [`text`] to say.

pub(super) mod json;
pub(super) mod text;

use super::lines::Lines;
use k8s_openapi::jiff::Timestamp;
use opentelemetry::{Context as Trace, trace::TraceContextExt};
use serde_json::{Map, Value};
use std::{error::Error, fmt};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};

/// The names that every line has; a field that is called like one of them gets an underscore.
const RESERVED: [&str; 4] = ["ts", "level", "target", "msg"];

/// How a line looks, its end included.
pub(super) type Format = fn(&Line<'_>) -> Vec<u8>;

/// Writes each event as one line.
pub(super) struct LogLayer {
    lines: Lines,
    format: Format,
}

/// All that there is to say of one event.
pub(super) struct Line<'a> {
    at: Timestamp,
    level: &'a str,
    target: &'a str,
    message: &'a str,
    fields: &'a Map<String, Value>,
}

impl LogLayer {
    pub(super) fn new(lines: Lines, format: Format) -> Self {
        Self { lines, format }
    }
}

impl<S> Layer<S> for LogLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        let spans = context.event_scope(event).into_iter();
        for span in spans.flat_map(tracing_subscriber::registry::Scope::from_root) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.named.extend(of_span.named.clone());
            }
        }
        event.record(&mut fields);
        fields.identify();
        let line = Line {
            at: Timestamp::now(),
            level: event.metadata().level().as_str(),
            // Lines of the `log` crate carry their target as a field.
            target: fields
                .log_target
                .as_deref()
                .unwrap_or(event.metadata().target()),
            message: &fields.message,
            fields: &fields.named,
        };
        self.lines.send((self.format)(&line));
    }
}

/// The line that says how many others were lost.
fn dropped(count: u64, format: Format) -> String {
    let fields = Map::from_iter([("lines".to_owned(), count.into())]);
    let line = Line {
        at: Timestamp::now(),
        level: "WARN",
        target: module_path!(),
        message: "log lines were dropped: stderr is read too slowly",
        fields: &fields,
    };
    String::from_utf8_lossy(&format(&line)).into_owned()
}

/// What an event or a span carries.
#[derive(Default)]
struct Fields {
    message: String,
    log_target: Option<String>,
    named: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        if let Some(key) = key(field.name()) {
            self.named.insert(key, value.into());
        }
    }

    /// Adds the ids of the span that is under way, if it is one of a trace.
    fn identify(&mut self) {
        Trace::map_current(|trace| {
            let span = trace.span();
            let ids = span.span_context();
            if ids.is_valid() {
                let (trace, span) = (ids.trace_id(), ids.span_id());
                self.named
                    .insert("traceID".into(), trace.to_string().into());
                self.named.insert("spanID".into(), span.to_string().into());
            }
        });
    }

    fn put_text(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            "log.target" => self.log_target = Some(text),
            // Where in a dependency's source a line came from is noise here.
            name if name.starts_with("log.") => {}
            _ => self.put(field, text),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put_text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, value.to_owned());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if !field.name().starts_with("log.") {
            self.put(field, value);
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match serde_json::Number::from_f64(value) {
            Some(number) => self.put(field, number),
            // JSON knows neither NaN nor infinity.
            None => self.put(field, value.to_string()),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put_text(field, super::with_causes(value));
    }
}

/// `provider_id` and `provider.id` as lines have it: `providerID`; nothing for what is meant for traces
/// alone.
fn key(name: &str) -> Option<String> {
    let name = match name {
        "provider.name" => "provider",
        name if name.starts_with("otel.") => return None,
        name => name.strip_prefix("r#").unwrap_or(name),
    };
    let mut key = String::with_capacity(name.len() + 1);
    let words = name.split(['_', '.']).filter(|word| !word.is_empty());
    for (at, word) in words.enumerate() {
        match (at, word) {
            (0, word) => key.push_str(word),
            (_, "id") => key.push_str("ID"),
            (_, word) => {
                let mut letters = word.chars();
                key.extend(letters.next().map(|first| first.to_ascii_uppercase()));
                key.push_str(letters.as_str());
            }
        }
    }
    if RESERVED.contains(&key.as_str()) {
        key.push('_');
    }
    Some(key)
}

#[cfg(test)]
mod tests {
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
            let failure = anyhow::Error::new(io::Error::other("connection reset"))
                .context("cannot list pods");
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
}
