//! An open connection: the session, what watches over it and what is under way on it.

use super::{Asked, ConnectionMsg, Transfers, link::Link, transfer::Load};
use crate::system::{Addr, Epoch, Work};
use futures::FutureExt;
use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, sleep, timeout},
};
use tracing::{Instrument, Span};

/// From one sign of life to the next, and how long each may take.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(15);
/// So many missing signs of life in a row are a loss.
const MISSED: u32 = 2;
/// Between two looks at the credentials.
pub(super) const LOOK: Duration = Duration::from_secs(5);
/// Transfers under way at once; others wait their turn.
pub(super) const TRANSFERS: usize = 4;

/// However it ends, dropping it closes the session and aborts all that is under way on it.
pub(super) struct Open<L: Link> {
    link: Arc<L>,
    session: L::Session,
    since: Instant,
    id: Epoch,
    watch: Work,
    outdated: Work,
    serving: JoinSet<()>,
    /// Of the requests that are served on it.
    tickets: HashSet<Epoch>,
    slots: Arc<Semaphore>,
}

impl<L: Link> Open<L> {
    /// Watches over `session` from here on; its loss is a message to `me`.
    pub fn new(link: &Arc<L>, session: L::Session, me: &Addr<ConnectionMsg<L>>) -> Self {
        let mut watch = Work::default();
        let mut outdated = Work::default();
        let (held, looked, told) = (Arc::clone(link), session.clone(), me.clone());
        outdated.start(|epoch| async move {
            loop {
                sleep(LOOK).await;
                if held.is_outdated(&looked).await {
                    break;
                }
            }
            told.hint(ConnectionMsg::Outdated(epoch));
        });
        let (held, watched, me) = (Arc::clone(link), session.clone(), me.clone());
        watch.start(|epoch| async move {
            let lost = AssertUnwindSafe(lost(&*held, &watched)).catch_unwind();
            me.hint(match lost.await {
                Ok(error) => ConnectionMsg::Lost(epoch, error),
                Err(_) => ConnectionMsg::Panicked(epoch),
            });
        });
        Self {
            link: Arc::clone(link),
            session,
            since: Instant::now(),
            id: Epoch::next(),
            watch,
            outdated,
            serving: JoinSet::new(),
            tickets: HashSet::new(),
            slots: Arc::new(Semaphore::new(TRANSFERS)),
        }
    }

    /// Whether its own watch, started under `epoch`, has ended; true once.
    pub fn ended(&mut self, epoch: Epoch) -> bool {
        self.watch.finish(epoch)
    }

    /// Whether its own look at the credentials, started under `epoch`, found new ones; true once.
    pub fn is_outdated(&mut self, epoch: Epoch) -> bool {
        self.outdated.finish(epoch)
    }

    /// Tells it from others.
    pub fn id(&self) -> Epoch {
        self.id
    }

    /// A request was served, on this session or another.
    pub fn served(&mut self, ticket: Epoch) {
        self.tickets.remove(&ticket);
    }

    /// The requests that are being served on it.
    pub fn tickets(&self) -> impl Iterator<Item = Epoch> {
        self.tickets.iter().copied()
    }

    /// How long it has been open.
    pub fn lived(&self) -> Duration {
        self.since.elapsed()
    }

    /// Serves a request beside all others; its end is a message to `me`.
    pub fn serve(&mut self, ticket: Epoch, asked: Asked<L::Request>, me: &Addr<ConnectionMsg<L>>) {
        while self.serving.try_join_next().is_some() {}
        self.tickets.insert(ticket);
        let (link, session, me) = (Arc::clone(&self.link), self.session.clone(), me.clone());
        self.serving.spawn(async move {
            let transfers = Transfers(me.clone());
            let Asked { request, span } = asked;
            let serve = async { link.serve(session, request, transfers).await }.instrument(span);
            // What is not caught here would keep its key for ever.
            if AssertUnwindSafe(serve).catch_unwind().await.is_err() {
                tracing::error!("serving a request panicked");
            }
            me.hint(ConnectionMsg::Served(ticket));
        });
    }

    /// What a transfer on this session is started with.
    pub fn load(&self) -> Load<L> {
        Load {
            link: Arc::clone(&self.link),
            session: self.session.clone(),
            on: self.id,
            slots: Arc::clone(&self.slots),
            span: Span::current(),
        }
    }
}

impl<L: Link> Drop for Open<L> {
    fn drop(&mut self) {
        self.link.close(&self.session);
    }
}

/// Ends when the session is known to be dead, or silent for too long.
async fn lost<L: Link>(link: &L, session: &L::Session) -> L::Error {
    tokio::select! {
        error = link.lost(session) => error,
        error = silence(link, session) => error,
    }
}

async fn silence<L: Link>(link: &L, session: &L::Session) -> L::Error {
    let mut ticks = interval_at(Instant::now() + KEEPALIVE, KEEPALIVE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut missed = 0;
    loop {
        ticks.tick().await;
        let error = match timeout(KEEPALIVE, link.ping(session)).await {
            Ok(Ok(())) => {
                missed = 0;
                continue;
            }
            Ok(Err(error)) => error,
            Err(_) => link.silent(KEEPALIVE * MISSED),
        };
        missed += 1;
        if missed == MISSED {
            return error;
        }
    }
}
