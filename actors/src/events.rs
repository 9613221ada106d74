//! Events: what `kubectl describe` tells of the life of Proxies, providers and the operator itself.
//!
//! Talks to: whoever has something to tell (sends [`EventsMsg::Record`]): proxies, the monitor, the config;
//! and the API server through [`EventSink`].
//!
//! Guarantees: never holds anybody up. One object may record a burst of [`BURST`] and then one in
//! [`REFILL`]; what is beyond that, and beyond [`QUEUE`] waiting, is dropped and counted in the log.

mod reason;

pub use reason::EventReason;

use crate::{
    key::ProxyKey,
    proxy::memory::Note,
    system::{Actor, Broken, Context},
};
use futures::future::BoxFuture;
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};
use tracing::Instrument;

/// Events at once for one object: a whole life with a replacement fits.
const BURST: u32 = 20;
/// One more after this long.
const REFILL: Duration = Duration::from_secs(30);
/// Events waiting for the API server.
const QUEUE: usize = 1000;
/// Writes under way at once.
const IN_FLIGHT: usize = 4;

/// Which object an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Regarding {
    /// A Proxy.
    Proxy {
        /// Which one.
        key: ProxyKey,
        /// Its UID.
        uid: String,
    },
    /// A `ProviderHealth`.
    ProviderHealth {
        /// Its name, which is the provider's.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// The operator itself: the pod that it runs in, if it runs in one.
    Operator,
}

/// For the log.
impl fmt::Display for Regarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proxy { key, .. } => write!(f, "proxy {key}"),
            Self::ProviderHealth { name, .. } => write!(f, "provider {name}"),
            Self::Operator => f.write_str("the operator"),
        }
    }
}

/// The port that Events leave by. Ends within its own deadline; a lost Event is logged there.
pub trait EventSink: Send + Sync + 'static {
    /// Records one.
    fn record(&self, regarding: Regarding, note: Note) -> BoxFuture<'static, ()>;
}

/// What the recorder understands.
#[derive(strum::IntoStaticStr)]
pub enum EventsMsg {
    /// Tell the user.
    Record(Regarding, Note),
}

/// The recorder.
pub struct EventsActor {
    sink: Arc<dyn EventSink>,
    slots: Arc<Semaphore>,
    writes: JoinSet<()>,
    budgets: HashMap<Regarding, Budget>,
    /// How many budgets there may be before those that are full are let go.
    room: usize,
}

#[derive(Clone, Copy)]
struct Budget {
    left: u32,
    since: Instant,
}

impl Budget {
    fn full(now: Instant) -> Self {
        Self {
            left: BURST,
            since: now,
        }
    }

    fn refill(&mut self, now: Instant) {
        while self.left < BURST && now - self.since >= REFILL {
            self.left += 1;
            self.since += REFILL;
        }
        if self.left == BURST {
            self.since = now;
        }
    }
}

impl EventsActor {
    /// A recorder to `sink`.
    #[must_use]
    pub fn new(sink: Arc<dyn EventSink>) -> Self {
        Self {
            sink,
            slots: Arc::new(Semaphore::new(IN_FLIGHT)),
            writes: JoinSet::new(),
            budgets: HashMap::new(),
            room: QUEUE,
        }
    }

    fn admits(&mut self, regarding: &Regarding) -> bool {
        let now = Instant::now();
        if self.budgets.len() >= self.room {
            // A full budget is what an unknown object has: only those in debt need to be remembered.
            self.budgets.retain(|_, budget| {
                budget.refill(now);
                budget.left < BURST
            });
            // Far enough away that it pays to look through them all.
            self.room = QUEUE.max(2 * self.budgets.len());
        }
        if self.writes.len() >= QUEUE {
            return false;
        }
        let budget = self
            .budgets
            .entry(regarding.clone())
            .or_insert_with(|| Budget::full(now));
        budget.refill(now);
        let admits = budget.left > 0;
        budget.left = budget.left.saturating_sub(1);
        admits
    }
}

impl Actor for EventsActor {
    type Msg = EventsMsg;
    const KIND: &'static str = "events";

    fn handle(&mut self, message: EventsMsg, _: &mut Context<EventsMsg>) -> Result<(), Broken> {
        while self.writes.try_join_next().is_some() {}
        let EventsMsg::Record(regarding, note) = message;
        if !self.admits(&regarding) {
            tracing::debug!(%regarding, reason = note.reason.as_str(), "event dropped, too many");
            return Ok(());
        }
        let (sink, slots) = (Arc::clone(&self.sink), Arc::clone(&self.slots));
        let recording = async move {
            if let Ok(_slot) = slots.acquire().await {
                sink.record(regarding, note).await;
            }
        };
        self.writes.spawn(recording.in_current_span());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
