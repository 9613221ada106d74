//! Log lines: the message, and then the fields of the event and of the spans around it, each name once;
//! the innermost value wins. Inside of a trace, its id and that of the span are two of them.
//!
//! The subscriber's own formats have other names and nest spans, so this is a layer of ours. How a line
//! looks is for [`json`] and [`text`] to say.

pub(super) mod json;
#[cfg(test)]
mod tests;
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
