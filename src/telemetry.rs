//! What the program says about itself: log lines on stderr and the metrics that belong to no actor.
//!
//! A log line never holds the program up: it is handed to a thread of its own ([`lines`]), and what
//! that thread cannot get rid of is counted and dropped.

mod json;
pub mod lines;
pub mod metrics;

use crate::cli::values::LogFilter;
use lines::{Flush, Lines};
use std::io::{self, IsTerminal};
use tracing_subscriber::{Layer, layer::SubscriberExt, util::SubscriberInitExt};

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

/// Sends the log of the whole process to stderr, panics included. Keep what it returns until the
/// end: dropping it writes out what is still under way, for a second at most.
///
/// # Errors
/// [`InitError`]
pub fn init(format: LogFormat, filter: &LogFilter) -> Result<Flush, InitError> {
    let filter = filter.build()?;
    let notice = match format {
        LogFormat::Json => json::dropped,
        LogFormat::Text => |count| format!("{count} log lines were dropped\n"),
    };
    let (lines, flush) = Lines::start(io::stderr(), notice)?;
    let layer = match format {
        LogFormat::Json => json::JsonLayer::new(lines).boxed(),
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            // It would print to stderr by a macro that panics when stderr is closed.
            .log_internal_errors(false)
            .with_writer(lines)
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(layer.with_filter(filter))
        .try_init()?;
    std::panic::set_hook(Box::new(|panic| {
        let what = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string);
        tracing::error!(target: "panic", place, "panicked: {what}");
    }));
    Ok(flush)
}
