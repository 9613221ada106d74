//! What the program says about itself: log lines on stderr, traces, and the metrics that belong to no
//! actor.
//!
//! A log line never holds the program up: it is handed to a thread of its own ([`lines`]), and what
//! that thread cannot get rid of is counted and dropped.

mod causes;
pub mod gauges;
pub mod lines;
mod log;
pub mod metrics;
pub mod traces;

pub use causes::with_causes;

use crate::cli::values::LogFilter;
use lines::{Flush, Lines};
use log::{Format, LogLayer, json, text};
use std::io::{self, IsTerminal};
use traces::Traces;
use tracing::Metadata;
use tracing_subscriber::{
    Layer,
    filter::{FilterExt, filter_fn},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// The program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that it was built from, or `unknown`.
pub const COMMIT: &str = env!("PROXY_OPERATOR_COMMIT");
/// Both, as `--version` shows them.
pub const VERSION_AND_COMMIT: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("PROXY_OPERATOR_COMMIT"),
    ")"
);

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people, in colour on a terminal.
    Text,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The filter does not parse.
    #[error("log filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The thread that writes could not be started.
    #[error("cannot start the thread that writes logs: {0}")]
    Thread(#[from] io::Error),
    /// Something else logs in this process already.
    #[error("logs: {0}")]
    Taken(#[from] tracing_subscriber::util::TryInitError),
}

/// Google's libraries can make whole requests fields of spans, user-data included. What is worth knowing of
/// them is said by the gcp provider, so nothing of theirs is logged, whatever the filter says.
fn may_be_logged(about: &Metadata<'_>) -> bool {
    !about.target().starts_with("google_cloud_")
}

/// Sends the log of the whole process to stderr, panics included, and its spans to `traces`. Keep what
/// it returns until the end: dropping it writes out what is still under way, for a second at most.
///
/// # Errors
/// [`InitError`]
pub fn init(
    format: LogFormat,
    filter: &LogFilter,
    traces: Option<&Traces>,
) -> Result<Flush, InitError> {
    let filter = filter.build()?;
    let notice = match format {
        LogFormat::Json => json::dropped,
        LogFormat::Text => text::dropped,
    };
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let line: Format = match format {
        LogFormat::Json => json::line,
        LogFormat::Text if colour => text::coloured,
        LogFormat::Text => text::line,
    };
    let (lines, flush) = Lines::start(io::stderr(), notice)?;
    tracing_subscriber::registry()
        .with(traces.map(|traces| traces.layer().with_filter(traces.filter())))
        .with(LogLayer::new(lines, line).with_filter(filter.and(filter_fn(may_be_logged))))
        .try_init()?;
    std::panic::set_hook(Box::new(|panic| {
        let what = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string);
        tracing::error!(target: "panic", place, "panicked: {what}");
    }));
    if let Some(traces) = traces {
        traces.remark();
    }
    Ok(flush)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };
    use tracing::{Event, Subscriber};
    use tracing_subscriber::layer::Context;

    /// Counts what it hears.
    struct Counter(Arc<AtomicUsize>);

    impl<S: Subscriber> Layer<S> for Counter {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn google_s_libraries_are_not_logged_even_when_asked_for() {
        let heard = Arc::new(AtomicUsize::new(0));
        let filter: LogFilter = "trace,google_cloud_compute_v1::tracing=trace"
            .parse()
            .expect("a filter");
        let filter = filter.build().expect("a filter");
        let layer = Counter(Arc::clone(&heard)).with_filter(filter.and(filter_fn(may_be_logged)));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::trace!(target: "google_cloud_compute_v1::tracing", "a request");
            tracing::error!(target: "google_cloud_gax_internal", "a request");
            assert_eq!(heard.load(SeqCst), 0);
            tracing::trace!(target: "hyper", "a byte");
            assert_eq!(heard.load(SeqCst), 1);
        });
    }
}
