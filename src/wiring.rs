//! Puts the actors and their ports together.

use crate::cli::{Exit, options::RunOptions};

/// Runs the operator until it is told to stop.
///
/// # Errors
/// What went wrong at set-up.
#[expect(clippy::unused_async, reason = "the whole program runs in here")]
pub async fn run(options: RunOptions) -> anyhow::Result<Exit> {
    crate::config::load(&options.providers_config)?;
    Ok(Exit::Stopped)
}
