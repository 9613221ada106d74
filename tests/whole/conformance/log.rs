//! What the whole process logs, at every level, and the spans that would be exported, whichever task or
//! thread does it.

use opentelemetry::Context;
use opentelemetry_sdk::{
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanProcessor},
};
use proxy_operator::telemetry::traces::Traces;
use std::{
    io,
    sync::{Mutex, Once, PoisonError, mpsc},
    time::Duration,
};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    filter::FilterFn, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// Everything that is logged and traced while this is there, by other tests, too.
pub struct Log(mpsc::Receiver<Heard>);

/// A line, or a span that ended.
#[derive(Clone)]
enum Heard {
    Line(Vec<u8>),
    Span(Box<SpanData>),
}

/// Where it is sent.
static TAPS: Mutex<Vec<mpsc::Sender<Heard>>> = Mutex::new(Vec::new());
static INSTALLED: Once = Once::new();

impl Log {
    /// From here on.
    pub fn tap() -> Self {
        INSTALLED.call_once(|| {
            // Nothing is even formatted unless somebody listens.
            let heard = FilterFn::new(|_| with_taps(|taps| !taps.is_empty()));
            let heard = heard.with_max_level_hint(LevelFilter::TRACE);
            let layer = fmt::layer().with_ansi(false).with_writer(|| Tee);
            let traces = Traces::to(Tee);
            let (layer_of_traces, filter) = (traces.layer(), traces.filter());
            tracing_subscriber::registry()
                .with(tracing_subscriber::Layer::with_filter(
                    layer_of_traces,
                    filter,
                ))
                .with(tracing_subscriber::Layer::with_filter(layer, heard))
                .init();
        });
        let (tap, log) = mpsc::channel();
        with_taps(|taps| taps.push(tap));
        Self(log)
    }

    /// All lines so far, and all spans as text.
    pub fn text(&self) -> String {
        let text = self.0.try_iter().map(|heard| match heard {
            Heard::Line(line) => String::from_utf8_lossy(&line).into_owned(),
            Heard::Span(span) => format!("{span:?}\n"),
        });
        text.collect()
    }

    /// The spans that ended so far.
    pub fn spans(&self) -> Vec<SpanData> {
        let spans = self.0.try_iter().filter_map(|heard| match heard {
            Heard::Line(_) => None,
            Heard::Span(span) => Some(*span),
        });
        spans.collect()
    }
}

fn with_taps<T>(act: impl FnOnce(&mut Vec<mpsc::Sender<Heard>>) -> T) -> T {
    act(&mut TAPS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whoever has stopped listening is forgotten.
fn tell(heard: &Heard) {
    with_taps(|taps| taps.retain(|tap| tap.send(heard.clone()).is_ok()));
}

#[derive(Debug)]
struct Tee;

impl io::Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        tell(&Heard::Line(bytes.to_vec()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpanProcessor for Tee {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        tell(&Heard::Span(Box::new(span)));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}
