//! Addresses: how one actor reaches another, whatever restarts in between.

use super::{
    directory::{End, Path, Seat},
    meter::Meter,
    restart::Cause,
    work::Epoch,
};
use arc_swap::ArcSwapOption;
use ractor::{ActorRef, ActorStatus, RpcReplyPort};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};
use tracing::Span;

/// What can be sent. Derive `strum::IntoStaticStr` on the enum: the variant's name is the metric label.
pub trait Message: Send + 'static {
    /// The variant, in the words of the enum.
    fn name(&self) -> &'static str;
}

impl<M> Message for M
where
    M: Send + 'static,
    for<'a> &'a M: Into<&'static str>,
{
    fn name(&self) -> &'static str {
        self.into()
    }
}

/// Where an answer goes. Dropping it unused is an error at the asker, not a hang.
pub type Reply<R> = RpcReplyPort<R>;

/// What travels through a mailbox.
pub(super) enum Envelope<M> {
    /// A message and the ticket that counts it.
    Letter(M, Ticket<M>),
    /// Fail, as if by a defect.
    Panic,
    /// The pause of a child after its incarnation is over; sent by the host to itself.
    Respawn(Path, Epoch),
    /// A child's incarnation died before it was linked; sent by the host to itself.
    Stillborn(Path, Epoch, Cause),
}

/// Counts one message from sending until its handler ends. One that dies with its mailbox is
/// dropped with it, and so counted off.
pub(super) struct Ticket<M> {
    to: Addr<M>,
    pub(super) sent: Instant,
    /// Of the sender: its handler is a part of the same work.
    pub(super) span: Span,
}

impl<M> Ticket<M> {
    fn new(to: &Addr<M>) -> Self {
        to.0.meter.sent();
        Self {
            to: to.clone(),
            sent: Instant::now(),
            span: Span::current(),
        }
    }
}

impl<M> Drop for Ticket<M> {
    fn drop(&mut self) {
        self.to.0.meter.done();
    }
}

/// Nobody is at this address right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the actor is down")]
pub struct Down;

/// Why a question was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nobody is at this address right now.
    #[error("the actor is down")]
    Down,
    /// The actor ended, or dropped the question, before it answered.
    #[error("the actor dropped the question")]
    Dropped,
    /// No answer within the deadline.
    #[error("no answer within {0:?}")]
    Late(Duration),
}

/// The address of a supervised actor. It stays the same when the actor is restarted; while the actor
/// is down, what is sent is refused, never queued for the successor.
pub struct Addr<M>(Arc<Slot<M>>);

struct Slot<M> {
    current: ArcSwapOption<Incarnation<M>>,
    meter: Meter,
}

struct Incarnation<M> {
    epoch: Epoch,
    actor: ActorRef<Envelope<M>>,
}

impl<M> Clone for Addr<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for Addr<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Addr")
    }
}

impl<M> Default for Addr<M> {
    fn default() -> Self {
        Self(Arc::new(Slot {
            current: ArcSwapOption::empty(),
            meter: Meter::default(),
        }))
    }
}

impl<M: Message> Addr<M> {
    /// Whether both lead to the same actor, in all its incarnations.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Sends without waiting.
    ///
    /// # Errors
    /// [`Down`], and the message is gone.
    pub fn tell(&self, message: M) -> Result<(), Down> {
        let current = self.0.current.load();
        let current = current.as_ref().ok_or(Down)?;
        let letter = Envelope::Letter(message, Ticket::new(self));
        current.actor.cast(letter).map_err(|_| Down)
    }

    /// Whether somebody is at this address right now; by the time that something is sent it may have changed.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.0
            .current
            .load()
            .as_ref()
            .is_some_and(|at| at.actor.get_status() < ActorStatus::Stopping)
    }

    /// Sends what does not matter to an actor that is down, since it asks anew when it starts.
    pub fn hint(&self, message: M) {
        // Whoever restarts rebuilds from the truth, so a lost hint is not a lost fact.
        self.tell(message).ok();
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// [`AskError`]; the work that was asked for may still be done.
    pub async fn ask<R: Send + 'static>(
        &self,
        deadline: Duration,
        question: impl FnOnce(Reply<R>) -> M,
    ) -> Result<R, AskError> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.tell(question(answer.into()))
            .map_err(|Down| AskError::Down)?;
        match tokio::time::timeout(deadline, answered).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(AskError::Dropped),
            Err(_) => Err(AskError::Late(deadline)),
        }
    }

    /// Puts an envelope of the host's own into the mailbox.
    pub(super) fn post(&self, envelope: Envelope<M>) {
        self.0.post(envelope);
    }

    /// Leads to `actor` from here on, unless a newer incarnation is bound: one that is killed while
    /// it starts may be late.
    pub(super) fn bind(&self, epoch: Epoch, actor: ActorRef<Envelope<M>>) {
        let new = Arc::new(Incarnation { epoch, actor });
        self.0.current.rcu(|current| match current {
            Some(newer) if newer.epoch >= epoch => Some(Arc::clone(newer)),
            _ => Some(Arc::clone(&new)),
        });
    }

    #[cfg(test)]
    pub(super) fn actor(&self) -> Option<ActorRef<Envelope<M>>> {
        let current = self.0.current.load();
        current.as_ref().map(|current| current.actor.clone())
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.0.meter
    }

    pub(super) fn seat(&self) -> Arc<dyn Seat> {
        Arc::clone(&self.0) as _
    }
}

impl<M: Message> Slot<M> {
    fn post(&self, envelope: Envelope<M>) {
        if let Some(current) = &*self.current.load() {
            // An actor that has ended needs no word from itself.
            current.actor.cast(envelope).ok();
        }
    }
}

impl<M: Message> Seat for Slot<M> {
    fn meter(&self) -> &Meter {
        &self.meter
    }

    fn end(&self, how: End) {
        let Some(current) = &*self.current.load() else {
            return;
        };
        match how {
            End::Kill => current.actor.kill(),
            End::Stop => current.actor.stop(None),
            End::Panic => self.post(Envelope::Panic),
        }
    }
}

/// An address with an inbox behind it instead of an actor, so that a test sees what is sent.
#[cfg(test)]
pub(crate) mod probe {
    use super::*;
    use ractor::{Actor, ActorProcessingErr};
    use tokio::sync::mpsc;

    struct Inbox<M>(mpsc::UnboundedSender<M>);

    impl<M: Message> Actor for Inbox<M> {
        type Msg = Envelope<M>;
        type State = ();
        type Arguments = ();
        async fn pre_start(
            &self,
            _: ActorRef<Self::Msg>,
            (): (),
        ) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
        async fn handle(
            &self,
            _: ActorRef<Self::Msg>,
            envelope: Self::Msg,
            (): &mut (),
        ) -> Result<(), ActorProcessingErr> {
            if let Envelope::Letter(message, _) = envelope {
                self.0.send(message).ok();
            }
            Ok(())
        }
    }

    pub(crate) async fn inbox<M: Message>() -> (Addr<M>, mpsc::UnboundedReceiver<M>) {
        let (tx, rx) = mpsc::unbounded_channel();
        let (actor, _) = Actor::spawn(None, Inbox(tx), ()).await.expect("spawns");
        let addr = Addr::default();
        addr.bind(Epoch::next(), actor);
        (addr, rx)
    }
}
