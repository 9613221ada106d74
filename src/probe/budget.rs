//! The one time budget that all steps of a probe share.

use super::stage::Stage;
use actors::prober::probe::{FailureKind, ProbeFailure};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Time that is running out.
pub(super) struct Budget {
    whole: Duration,
    begun: Instant,
}

impl Budget {
    /// Starts the clock.
    pub(super) fn start(whole: Duration) -> Self {
        Self {
            whole,
            begun: Instant::now(),
        }
    }

    /// What is left of it.
    pub(super) fn left(&self) -> Duration {
        self.whole.saturating_sub(self.begun.elapsed())
    }

    /// Runs one step in what is left.
    ///
    /// # Errors
    /// [`FailureKind::Timeout`] at `stage`, saying what was `missing`.
    pub(super) async fn spend<T>(
        &self,
        stage: Stage<'_>,
        missing: &str,
        step: impl Future<Output = T>,
    ) -> Result<T, ProbeFailure> {
        timeout(self.left(), step)
            .await
            .map_err(|_| self.exhausted(stage, missing))
    }

    /// The failure of a probe that ran out of time at `stage`.
    pub(super) fn exhausted(&self, stage: Stage<'_>, missing: &str) -> ProbeFailure {
        stage.failed(
            FailureKind::Timeout,
            format_args!("{missing} within the {:?} of the probe", self.whole),
        )
    }
}
