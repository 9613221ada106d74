//! The signals that end the process: the first in order, the second at once.

use crate::cli::EXIT_HURRIED;
use std::{io, process::exit};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT, which no longer end the process by themselves.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from here on.
    ///
    /// # Errors
    /// As the operating system has it.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one, by its name.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Ends the process at the next one, whatever it is about to do.
    pub(super) fn exit_at_next(mut self) {
        tokio::spawn(async move {
            let signal = self.next().await;
            tracing::warn!(signal, "told a second time: ending at once");
            exit(i32::from(EXIT_HURRIED));
        });
    }
}
