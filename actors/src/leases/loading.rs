//! How a ledger is loaded, from its journal and what the fleet said last, and how it is dropped.

use super::{LeaseDeps, LeasesActor, broken, journal::Writer, ledger::Ledger, terms::Candidate};
use crate::{proxy, system::Broken};
use std::{sync::Arc, time::Duration};

/// How long the memory of a ledger that was killed is left alone.
const REST: Duration = Duration::from_secs(1);

/// The ledger that wrote the journal, with the pool. In a large fleet it takes tens of milliseconds, so it is not
/// made in the actor.
pub(super) async fn load(deps: Arc<LeaseDeps>) -> Result<(Writer, Box<Ledger>), Broken> {
    let (writer, records) = deps.journal.load().await.map_err(|error| broken(&error))?;
    let made = tokio::task::spawn_blocking(move || {
        Box::new(Ledger::restore(
            deps.terms,
            records,
            pool(&deps),
            deps.clock.now(),
        ))
    });
    let ledger = made
        .await
        .map_err(|error| Broken(format!("the ledger could not be made: {error}")))?;
    Ok((writer, ledger))
}

fn pool(deps: &LeaseDeps) -> Vec<Arc<Candidate>> {
    let left = deps.pool.send_replace(Vec::new());
    if !left.is_empty() {
        return left;
    }
    let objects = deps.store.list();
    let candidates = objects
        .iter()
        .filter_map(|object| proxy::candidate_of(object));
    candidates.map(Arc::new).collect()
}

/// A successor starts only when its predecessor is dropped, and to free tens of thousands of leases takes
/// milliseconds: somebody else does that, when the successor does not count the same holders any more.
impl Drop for LeasesActor {
    fn drop(&mut self) {
        let ledger = std::mem::replace(&mut self.ledger, Ledger::new(self.deps.terms));
        let pool = ledger.pool();
        if !pool.is_empty() {
            self.deps.pool.send_replace(pool);
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep(REST).await;
                tokio::task::spawn_blocking(move || drop(ledger));
            });
        }
    }
}
