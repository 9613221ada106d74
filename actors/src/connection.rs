//! A connection: one actor that owns a session with something far away and all that is under way on it.
//!
//! Talks to: whoever has requests for the far end (sends [`ConnectionMsg::Request`]), the tasks that
//! serve them (ask for transfers), its transfers, and the far end through [`link::Link`].
//!
//! Guarantees: it is dialled when somebody waits, by one dial at a time. Each request is served once, refused
//! once, or dropped because nobody waits for it or its session was lost; of those that share a key one
//! is under way. A cargo is on its way once, however many wait for it. Whatever ends a session (loss,
//! failure, kill) ends all that was under way on it. When the credentials change, requests from then on are
//! served on a new session that is dialled with them; the old one is closed when what is under way on it
//! has ended, or has taken longer than [`FAREWELL`].

mod backoff;
mod cargoes;
pub mod link;
mod open;
mod queue;
#[cfg(test)]
mod tests;
mod transfer;

use crate::system::{Actor, Addr, AskError, Broken, Context, Epoch, Reply, Work};
use backoff::Backoff;
use cargoes::Cargoes;
use futures::FutureExt;
use link::{Link, Refusal};
use open::Open;
use queue::Queue;
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument, Span};

/// Requests waiting and under way.
const QUEUE: usize = 1024;
/// How long one dial may take.
const DIAL: Duration = Duration::from_secs(30);
/// How long what is under way on a session with old credentials may take: a disk image, over a slow line.
const FAREWELL: Duration = Duration::from_hours(1);
/// No request waits longer than this, whatever its patience; it keeps clocks from overflowing.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// What a connection understands.
#[derive(strum::IntoStaticStr)]
pub enum ConnectionMsg<L: Link> {
    /// Serve this, when there is a session.
    Request(L::Request),
    /// Bring this across, or join the transfer that does so already.
    Transfer(L::Cargo, Reply<Result<(), L::Error>>),
    /// The dial started under this epoch ended; sent by its task.
    Dialled(Epoch, Result<L::Session, L::Error>),
    /// The pause before the next dial is over; sent by its timer.
    Rested(Epoch),
    /// A request has waited long enough; sent by a timer.
    Overdue(Epoch),
    /// The request with this ticket is served; sent by the task that did so.
    Served(Epoch),
    /// The session watched under this epoch is lost; sent by its watch.
    Lost(Epoch, L::Error),
    /// A dial would use other credentials than this session's did; sent by its look at them.
    Outdated(Epoch),
    /// Sessions with old credentials have had their time; sent by a timer.
    Farewell(Epoch),
    /// A transfer ended, without a result if it was killed or failed; sent by its actor.
    Transferred(L::Cargo, Epoch, Option<Result<(), L::Error>>),
    /// The work started under this epoch panicked; sent by its task.
    Panicked(Epoch),
}

/// How those who serve a request have something brought across.
pub struct Transfers<L: Link>(Addr<ConnectionMsg<L>>);

impl<L: Link> Transfers<L> {
    /// Waits until the cargo is across, for `patience` at most; the transfer goes on after that.
    ///
    /// # Errors
    /// [`AskError::Late`] while it is still under way; the inner error when the transfer failed.
    pub async fn bring(
        &self,
        cargo: L::Cargo,
        patience: Duration,
    ) -> Result<Result<(), L::Error>, AskError> {
        let ask = |reply| ConnectionMsg::Transfer(cargo, reply);
        self.0.ask(patience, ask).await
    }
}

/// A request, and the span of whoever asks.
struct Asked<R> {
    request: R,
    span: Span,
}

/// The actor.
pub struct ConnectionActor<L: Link> {
    link: Arc<L>,
    queue: Queue<Asked<L::Request>>,
    backoff: Backoff,
    dial: Work,
    pause: Work,
    alarm: Work,
    alarm_at: Option<Instant>,
    open: Option<Open<L>>,
    /// Sessions with old credentials, on which something is under way still.
    leaving: Vec<Open<L>>,
    farewell: Work,
    /// Why the last dial failed or the last session was lost, as long as there is none since.
    last_error: Option<L::Error>,
    /// The failure that was told last, so that the same is not told again and again.
    told: String,
    cargoes: Cargoes<L>,
}

impl<L: Link> ConnectionActor<L> {
    /// A connection over `link`, not dialled yet.
    #[must_use]
    pub fn new(link: Arc<L>) -> Self {
        Self {
            link,
            queue: Queue::new(QUEUE),
            backoff: Backoff::default(),
            dial: Work::default(),
            pause: Work::default(),
            alarm: Work::default(),
            alarm_at: None,
            open: None,
            leaving: Vec::new(),
            farewell: Work::default(),
            last_error: None,
            told: String::new(),
            cargoes: Cargoes::new(),
        }
    }

    fn request(&mut self, request: L::Request) {
        if self.queue.is_full() {
            self.forget_unwanted();
        }
        let patience = self.link.patience(&request).min(LONGEST);
        let key = self.link.key(&request);
        let asked = Asked {
            request,
            span: Span::current(),
        };
        if let Err(asked) = self.queue.push(asked, key, Instant::now() + patience) {
            let full = Refusal::Full(self.queue.limit());
            self.link.refuse(asked.request, full);
        }
    }

    fn forget_unwanted(&mut self) {
        let link = &self.link;
        self.queue.retain(|asked| link.is_wanted(&asked.request));
    }

    /// What follows from the state as it is: serve what can be served, dial if that is of use, and
    /// see to it that nobody waits for too long.
    fn go_on(&mut self, me: &Addr<ConnectionMsg<L>>) {
        match &mut self.open {
            Some(open) => {
                while let Some((ticket, asked)) = self.queue.take() {
                    if self.link.is_wanted(&asked.request) {
                        open.serve(ticket, asked, me);
                    } else {
                        self.queue.done(ticket);
                    }
                }
            }
            None => self.dial(me),
        }
        self.watch_deadlines(me);
    }

    /// Dials, now or after the pause, unless nobody waits or it is on its way already.
    fn dial(&mut self, me: &Addr<ConnectionMsg<L>>) {
        if self.dial.is_under_way() || self.pause.is_under_way() {
            return;
        }
        let Some(first) = self.queue.first() else {
            return;
        };
        let span = first.span.clone();
        let (me, pause) = (me.clone(), self.backoff.pause(Instant::now()));
        if !pause.is_zero() {
            self.pause.start(|epoch| async move {
                sleep(pause).await;
                me.hint(ConnectionMsg::Rested(epoch));
            });
            return;
        }
        let link = Arc::clone(&self.link);
        self.dial.start(|epoch| async move {
            // On behalf of the one who has waited longest.
            let dial = async { timeout(DIAL, link.dial()).await }.instrument(span);
            me.hint(match AssertUnwindSafe(dial).catch_unwind().await {
                Ok(Ok(dialled)) => ConnectionMsg::Dialled(epoch, dialled),
                Ok(Err(_)) => ConnectionMsg::Dialled(epoch, Err(link.silent(DIAL))),
                Err(_) => ConnectionMsg::Panicked(epoch),
            });
        });
    }

    fn watch_deadlines(&mut self, me: &Addr<ConnectionMsg<L>>) {
        let first = self.queue.next_deadline();
        let in_time = |at| self.alarm_at.is_some_and(|alarm| alarm <= at);
        let Some(first) = first.filter(|first| !in_time(*first)) else {
            return;
        };
        let me = me.clone();
        self.alarm_at = Some(first);
        self.alarm.start(|epoch| async move {
            tokio::time::sleep_until(first).await;
            me.hint(ConnectionMsg::Overdue(epoch));
        });
    }

    fn refuse_overdue(&mut self) {
        self.alarm_at = None;
        let why = match self.open {
            Some(_) => Refusal::Busy,
            None => Refusal::Unreached(self.last_error.clone()),
        };
        for asked in self.queue.overdue(Instant::now()) {
            self.link.refuse(asked.request, why.clone());
        }
    }

    fn dialled(&mut self, dialled: Result<L::Session, L::Error>, cx: &Context<ConnectionMsg<L>>) {
        let connection = &**cx.path();
        let error = match dialled {
            Ok(session) => {
                tracing::info!(connection, "connected");
                self.backoff.reset();
                self.last_error = None;
                self.told.clear();
                self.open = Some(Open::new(&self.link, session, cx.me()));
                return;
            }
            Err(error) => error,
        };
        let text = error.to_string();
        if text == self.told {
            tracing::debug!(connection, error = text, "cannot connect");
        } else {
            tracing::warn!(connection, error = text, "cannot connect");
            self.told = text;
        }
        if self.link.is_final(&error) {
            self.backoff.reset();
            for asked in self.queue.drain() {
                let failed = Refusal::Failed(error.clone());
                self.link.refuse(asked.request, failed);
            }
        } else {
            self.backoff.failed(Instant::now(), rand::random());
        }
        self.last_error = Some(error);
    }

    fn lost(&mut self, epoch: Epoch, error: L::Error, cx: &mut Context<ConnectionMsg<L>>) {
        if self.open.as_mut().is_some_and(|open| open.ended(epoch)) {
            let Some(open) = self.open.take() else { return };
            let (connection, lived) = (&**cx.path(), open.lived());
            tracing::warn!(connection, %error, seconds = lived.as_secs(), "connection lost");
            self.close(open, &error, cx);
            self.backoff.lost(lived, Instant::now(), rand::random());
            self.last_error = Some(error);
        } else if let Some(at) = self.leaving.iter_mut().position(|open| open.ended(epoch)) {
            let open = self.leaving.swap_remove(at);
            self.close(open, &error, cx);
        }
    }

    /// Ends a session and all that is under way on it.
    fn close(&mut self, open: Open<L>, why: &L::Error, cx: &mut Context<ConnectionMsg<L>>) {
        self.cargoes.fail(open.id(), why, cx);
        for ticket in open.tickets() {
            self.queue.done(ticket);
        }
        drop(open);
    }

    /// What is asked from here on goes over a session with the credentials that there are now.
    fn outdated(&mut self, epoch: Epoch, cx: &Context<ConnectionMsg<L>>) {
        if !self
            .open
            .as_mut()
            .is_some_and(|open| open.is_outdated(epoch))
        {
            return;
        }
        let connection = &**cx.path();
        tracing::info!(connection, "the credentials changed, it is connected anew");
        self.leaving.extend(self.open.take());
        let me = cx.me().clone();
        self.farewell.start(|epoch| async move {
            sleep(FAREWELL).await;
            me.hint(ConnectionMsg::Farewell(epoch));
        });
    }

    /// Closes sessions with old credentials on which nothing is under way any more.
    fn let_go(&mut self) {
        let cargoes = &self.cargoes;
        self.leaving
            .retain(|open| open.tickets().next().is_some() || cargoes.any_on(open.id()));
        if self.leaving.is_empty() {
            self.farewell.abort();
        }
    }

    fn transfer(
        &mut self,
        cargo: L::Cargo,
        reply: Reply<Result<(), L::Error>>,
        cx: &mut Context<ConnectionMsg<L>>,
    ) {
        if reply.is_closed() {
            return;
        }
        let Some(reply) = self.cargoes.join(&cargo, reply) else {
            return;
        };
        // Who was served on a session with old credentials, and nobody has dialled anew since.
        let open = self.open.as_ref().or(self.leaving.last());
        match (open, &self.last_error) {
            (Some(open), _) => self.cargoes.start(cargo, reply, open.load(), cx),
            // Only who was served on a session asks, and that one is lost.
            (None, Some(error)) => {
                reply.send(Err(error.clone())).ok();
            }
            (None, None) => {}
        }
    }
}

impl<L: Link> Actor for ConnectionActor<L> {
    type Msg = ConnectionMsg<L>;
    const KIND: &'static str = "host";

    fn handle(
        &mut self,
        message: ConnectionMsg<L>,
        cx: &mut Context<ConnectionMsg<L>>,
    ) -> Result<(), Broken> {
        match message {
            ConnectionMsg::Request(request) => self.request(request),
            ConnectionMsg::Transfer(cargo, reply) => self.transfer(cargo, reply, cx),
            ConnectionMsg::Transferred(cargo, id, how) => {
                self.cargoes.ended(&cargo, id, how.as_ref(), cx);
            }
            ConnectionMsg::Served(ticket) => {
                for open in self.open.iter_mut().chain(&mut self.leaving) {
                    open.served(ticket);
                }
                self.queue.done(ticket);
            }
            ConnectionMsg::Dialled(epoch, dialled) => {
                if self.dial.finish(epoch) {
                    self.dialled(dialled, cx);
                }
            }
            ConnectionMsg::Rested(epoch) => {
                self.pause.finish(epoch);
                self.forget_unwanted();
            }
            ConnectionMsg::Overdue(epoch) => {
                if self.alarm.finish(epoch) {
                    self.refuse_overdue();
                }
            }
            ConnectionMsg::Lost(epoch, error) => self.lost(epoch, error, cx),
            ConnectionMsg::Outdated(epoch) => self.outdated(epoch, cx),
            ConnectionMsg::Farewell(epoch) => {
                if self.farewell.finish(epoch) {
                    let why = self.link.silent(FAREWELL);
                    for open in std::mem::take(&mut self.leaving) {
                        self.close(open, &why, cx);
                    }
                }
            }
            ConnectionMsg::Panicked(epoch) => {
                let mut sessions = self.open.iter_mut().chain(&mut self.leaving);
                let of_session = sessions.any(|open| open.ended(epoch));
                if of_session || self.dial.finish(epoch) {
                    return Err(Broken("a dial or the watch over a session panicked".into()));
                }
            }
        }
        self.let_go();
        self.go_on(cx.me());
        Ok(())
    }
}
