//! What is said of providers to people: the port to the `ProviderHealth` objects.

use crds::ProviderHealthStatus;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use std::{collections::BTreeMap, panic::AssertUnwindSafe, time::Duration};
use tokio::time::timeout;

/// Longer than the port needs for one object, or for all.
const OBJECTS: Duration = Duration::from_secs(30);
/// Objects written at once.
const AT_ONCE: usize = 8;

/// The port to the `ProviderHealth` objects that are this operator's. Every call ends by itself within 30 s.
pub trait HealthObjects: Send + Sync + 'static {
    /// What each says, by name; read from the API server itself.
    ///
    /// # Errors
    /// When not all could be read.
    fn read(&self) -> BoxFuture<'static, Result<BTreeMap<String, ProviderHealthStatus>, String>>;

    /// Has the object of this name say so, and makes it if there is none. Gives its UID.
    ///
    /// # Errors
    /// When it does not say so, as one of another operator never does.
    fn apply(
        &self,
        name: &str,
        status: ProviderHealthStatus,
    ) -> BoxFuture<'static, Result<String, String>>;

    /// Removes the object of this name, if there is one and it is this operator's.
    ///
    /// # Errors
    /// When it may still be there.
    fn delete(&self, name: &str) -> BoxFuture<'static, Result<(), String>>;
}

/// What became of one object.
pub struct Written {
    pub(super) provider: String,
    /// Its UID; none if it was removed.
    pub(super) how: Result<Option<String>, String>,
}

/// Has each object say so, or removes it.
pub(super) async fn write(
    objects: &dyn HealthObjects,
    writes: Vec<(String, Option<ProviderHealthStatus>)>,
) -> Vec<Written> {
    let writes = writes.into_iter().map(|(provider, says)| async move {
        let how = if let Some(status) = says {
            let applied = objects.apply(&provider, status);
            bounded("writing a ProviderHealth", applied).await.map(Some)
        } else {
            let deleted = bounded("deleting a ProviderHealth", objects.delete(&provider));
            deleted.await.map(|()| None)
        };
        Written { provider, how }
    });
    stream::iter(writes)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

/// What a round cannot be held up by.
pub(super) async fn bounded<T>(
    what: &str,
    call: BoxFuture<'static, Result<T, String>>,
) -> Result<T, String> {
    match timeout(OBJECTS, AssertUnwindSafe(call).catch_unwind()).await {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(error))) => Err(format!("{what}: {error}")),
        Ok(Err(_)) => Err(format!("{what}: it panicked")),
        Err(_) => Err(format!("{what}: no answer within {} s", OBJECTS.as_secs())),
    }
}
