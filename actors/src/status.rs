//! Status: the one writer of statuses and metadata.
//!
//! Talks to: every proxy (asks [`StatusMsg::Write`]) and the API server through [`ProxyStore`].
//!
//! Guarantees: at most [`IN_FLIGHT`] writes are under way; a proxy has at most one, since it asks and
//! waits, so the queue is never longer than the fleet. A killed writer drops what is under way: the
//! proxies see their question dropped, look again and decide again, and every write is idempotent.

#[cfg(test)]
mod tests;

use crate::{
    key::ProxyKey,
    store::{ProxyStore, Write, WriteError},
    system::{Actor, Broken, Context, Reply},
    trace,
};
use crds::Proxy;
use std::sync::Arc;
use tokio::{sync::Semaphore, task::JoinSet};
use tracing::Instrument;

/// Enough to keep an API server busy, few enough not to trip its fairness limits.
const IN_FLIGHT: usize = 64;

/// What the writer understands.
#[derive(strum::IntoStaticStr)]
pub enum StatusMsg {
    /// Write this and say what the object became.
    Write(ProxyKey, Write, Reply<Result<Arc<Proxy>, WriteError>>),
}

/// The writer.
pub struct StatusActor {
    store: Arc<dyn ProxyStore>,
    slots: Arc<Semaphore>,
    writes: JoinSet<()>,
}

impl StatusActor {
    /// A writer to `store`.
    #[must_use]
    pub fn new(store: Arc<dyn ProxyStore>) -> Self {
        Self {
            store,
            slots: Arc::new(Semaphore::new(IN_FLIGHT)),
            writes: JoinSet::new(),
        }
    }
}

impl Actor for StatusActor {
    type Msg = StatusMsg;
    const KIND: &'static str = "status";

    fn handle(&mut self, message: StatusMsg, _: &mut Context<StatusMsg>) -> Result<(), Broken> {
        while self.writes.try_join_next().is_some() {}
        let StatusMsg::Write(key, write, reply) = message;
        let (store, slots) = (Arc::clone(&self.store), Arc::clone(&self.slots));
        let writing = async move {
            let Ok(_slot) = slots.acquire().await else {
                return;
            };
            // Whoever asked may have been killed while this waited for its turn.
            if !reply.is_closed() {
                let span = trace::write(&write);
                reply
                    .send(store.write(&key, write).instrument(span).await)
                    .ok();
            }
        };
        self.writes.spawn(writing.in_current_span());
        Ok(())
    }
}
