//! Log lines for machines: `{"ts":…,"level":…,"target":…,"msg":…,` and then the fields of the event
//! and of the spans around it, each name once; the innermost value wins.
//!
//! The subscriber's own JSON format has other names and nests spans, so this is a layer of ours.

use super::lines::Lines;
use k8s_openapi::jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap, Serializer};
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

/// Writes each event as one line of JSON.
pub(super) struct JsonLayer(Lines);

impl JsonLayer {
    pub(super) fn new(lines: Lines) -> Self {
        Self(lines)
    }
}

impl<S> Layer<S> for JsonLayer
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
        let line = Line {
            level: event.metadata().level().as_str(),
            // Lines of the `log` crate carry their target as a field.
            target: fields
                .log_target
                .as_deref()
                .unwrap_or(event.metadata().target()),
            message: &fields.message,
            fields: &fields.named,
        };
        self.0.send(line.to_bytes());
    }
}

/// The line that says how many others were lost.
pub(super) fn dropped(count: u64) -> String {
    let fields = Map::from_iter([("lines".to_owned(), count.into())]);
    let line = Line {
        level: "WARN",
        target: module_path!(),
        message: "log lines were dropped: stderr is read too slowly",
        fields: &fields,
    };
    String::from_utf8_lossy(&line.to_bytes()).into_owned()
}

struct Line<'a> {
    level: &'a str,
    target: &'a str,
    message: &'a str,
    fields: &'a Map<String, Value>,
}

impl Line<'_> {
    fn to_bytes(&self) -> Vec<u8> {
        // Strings, numbers and string keys always serialize.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("ts", &format_args!("{:.6}", Timestamp::now()))?;
        line.serialize_entry("level", self.level)?;
        line.serialize_entry("target", self.target)?;
        line.serialize_entry("msg", self.message)?;
        for (name, value) in self.fields {
            line.serialize_entry(name, value)?;
        }
        line.end()
    }
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
        self.named.insert(key(field.name()), value.into());
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
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            let error_text = error.to_string();
            // Many errors print their cause themselves.
            if !text.ends_with(&error_text) {
                text = format!("{text}: {error_text}");
            }
            cause = error.source();
        }
        self.put_text(field, text);
    }
}

/// `provider_id` as lines have it: `providerID`.
fn key(name: &str) -> String {
    let name = name.strip_prefix("r#").unwrap_or(name);
    let mut key = String::with_capacity(name.len() + 1);
    for (at, word) in name.split('_').filter(|word| !word.is_empty()).enumerate() {
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
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{self, Write},
        sync::mpsc,
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

    /// The lines that `work` logs, as they are written.
    fn logged(work: impl FnOnce()) -> Vec<String> {
        let (sink, written) = mpsc::channel();
        let (lines, flush) = Lines::start(Sink(sink), dropped).expect("a thread");
        let subscriber = tracing_subscriber::registry().with(JsonLayer::new(lines));
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
    fn an_error_is_told_with_its_causes_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot list pods")]
        struct Listing(#[source] io::Error);

        let lines = logged(|| {
            let failure = Listing(io::Error::other("connection reset"));
            let failure: &(dyn Error + 'static) = &failure;
            error!(error = failure, "sweep ended");
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
            ("otel.name", "otel.name"),
            ("target", "target_"),
        ] {
            assert_eq!(key(field), name);
        }
    }

    #[test]
    fn lost_lines_are_reported_in_the_same_shape() {
        let line = object(&dropped(7));
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["lines"], 7);
    }
}
