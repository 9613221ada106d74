//! The wall clock, which tells people and backends the time and nobody how long to wait.

use k8s_openapi::jiff::Timestamp;
use std::sync::Arc;

/// Reads the wall clock, which may step.
pub type Wall = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// This machine's.
#[must_use]
pub fn system() -> Wall {
    Arc::new(Timestamp::now)
}
