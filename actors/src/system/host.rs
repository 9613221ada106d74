//! Runs an [`Actor`] on ractor.
//!
//! The host is between the two: it meters every message, turns a panic or an error of a handler into
//! the end of the actor with its cause noted, and answers supervision for the actor, which only has
//! to say which children it wants.
//!
//! Guarantees: a handler runs alone, from start to end, and within the span of whoever sent the message; a child that ends although it is wanted is
//! started again as [`super::restart`] says, after the state of the one before it was dropped; an
//! actor that stops has stopped its children before.

use super::{
    actor::{Actor, Broken, Context, Own, Shared},
    addr::{Addr, Envelope, Message},
    directory::Path,
    meter::KindMeter,
    restart::{Cause, Policy, Verdict},
    work::Epoch,
};
use ractor::{ActorCell, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use std::{
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// What a new actor is started with.
pub(super) struct Start<'a> {
    pub(super) supervisor: ActorCell,
    /// Where the supervisor stands.
    pub(super) parent: &'a Path,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) epoch: Epoch,
    /// Whether this supervisor had started it before.
    pub(super) again: bool,
    /// Called if the actor dies before its supervisor is linked to it, since no event tells of that.
    pub(super) stillborn: Box<dyn FnOnce(Cause) + Send>,
}

/// The ractor behaviour of every actor of ours.
pub(super) struct Host<A>(PhantomData<fn() -> A>);

/// An actor and what it is handed.
pub(super) struct Hosted<A: Actor> {
    /// Dropped at its end, before its supervisor hears of it: nothing of it may meet its successor.
    living: Option<Living<A>>,
    context: Context<A::Msg>,
}

struct Living<A> {
    actor: A,
    kind: Alive,
}

/// Counts an actor as alive. A kill drops the state without a word to the actor, so this is a drop.
struct Alive(Arc<KindMeter>);

impl Alive {
    fn new(kind: Arc<KindMeter>) -> Self {
        kind.alive.inc();
        Self(kind)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.dec();
    }
}

pub(super) struct Arguments<A: Actor> {
    pub(super) actor: A,
    pub(super) me: Addr<A::Msg>,
    pub(super) epoch: Epoch,
    pub(super) path: Path,
    pub(super) kind: Arc<KindMeter>,
    pub(super) shared: Arc<Shared>,
}

impl<A: Actor> Host<A> {
    const POLICY: &'static Policy = &A::POLICY;

    pub(super) fn new() -> Self {
        Self(PhantomData)
    }

    /// Starts `actor` without waiting for it. Messages may be sent to `addr` from here on.
    pub(super) fn start(
        path: &Path,
        addr: &Addr<A::Msg>,
        actor: A,
        start: Start<'_>,
    ) -> Result<ActorCell, Cause> {
        let kind = start.shared.kind(A::KIND);
        let arguments = Arguments {
            actor,
            me: addr.clone(),
            epoch: start.epoch,
            path: Arc::clone(path),
            kind: Arc::clone(&kind),
            shared: Arc::clone(start.shared),
        };
        let (actor, started) = ractor::ActorRuntime::spawn_linked_instant(
            None,
            Self::new(),
            Box::new(arguments),
            start.supervisor,
        )
        .map_err(|error| Cause::Error(error.to_string()))?;
        let cell = actor.get_cell();
        addr.bind(start.epoch, actor);
        let directory = &start.shared.directory;
        if !start.again {
            directory.forget(path, start.epoch);
        }
        let parent = Some(Arc::clone(start.parent));
        directory.started(path, parent, &kind, start.epoch, addr.seat());
        let stillborn = start.stillborn;
        tokio::spawn(async move {
            if let Ok(Err(error)) = started.await {
                stillborn(before_birth(&error));
            }
        });
        Ok(cell)
    }
}

/// Why an actor died before its supervisor was linked to it. Nothing of ours runs so early: either
/// it was killed, or its supervisor is ending and will not care.
fn before_birth(error: &SpawnErr) -> Cause {
    tracing::debug!(%error, "died before its supervisor was linked to it");
    Cause::Killed
}

impl<A: Actor> ractor::Actor for Host<A> {
    type Msg = Envelope<A::Msg>;
    // Boxed, since ractor's futures hold several copies of both in line.
    type State = Box<Hosted<A>>;
    type Arguments = Box<Arguments<A>>;

    async fn pre_start(
        &self,
        me: ActorRef<Self::Msg>,
        with: Box<Arguments<A>>,
    ) -> Result<Self::State, ActorProcessingErr> {
        let kind = Alive::new(with.kind);
        let cell = me.get_cell();
        // Whoever started it does so too, but maybe later than this actor's first word to itself.
        with.me.bind(with.epoch, me);
        Ok(Box::new(Hosted {
            living: Some(Living {
                actor: with.actor,
                kind,
            }),
            context: Context {
                own: Own {
                    me: with.me,
                    cell,
                    path: with.path,
                    shared: with.shared,
                },
                policy: Self::POLICY,
                children: None,
            },
        }))
    }

    async fn post_start(
        &self,
        _: ActorRef<Self::Msg>,
        hosted: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        hosted.guarded(A::started)
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        envelope: Self::Msg,
        hosted: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match envelope {
            Envelope::Letter(message, ticket) => {
                let Some(living) = &hosted.living else {
                    return Ok(());
                };
                let (kind, me) = (Arc::clone(&living.kind.0), hosted.context.me().clone());
                let _taken = kind.taken(me.meter(), message.name(), ticket.sent);
                let _within = ticket.span.enter();
                hosted.guarded(|actor, cx| actor.handle(message, cx))
            }
            #[expect(clippy::panic, reason = "asked for, to see how it is survived")]
            Envelope::Panic => hosted.guarded(|_, _| panic!("asked to panic")),
            Envelope::Respawn(path, last) => {
                let cx = &mut hosted.context;
                if let Some(children) = &mut cx.children {
                    children.run(&path, last, &cx.own);
                }
                Ok(())
            }
            Envelope::Stillborn(path, epoch, cause) => hosted.lost(&path, epoch, &cause),
        }
    }

    /// ractor's own would stop the supervisor on any child's end.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        hosted: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, cause) = match event {
            SupervisionEvent::ActorTerminated(cell, state, _) => {
                // The dead one's work ends here, before a successor starts its own.
                drop(state);
                (cell, Cause::Killed)
            }
            SupervisionEvent::ActorFailed(cell, error) => (cell, cause_of(&error)),
            _ => return Ok(()),
        };
        let children = hosted.context.children.as_ref();
        match children.and_then(|all| all.by_cell(cell.get_id())) {
            Some((path, epoch)) => hosted.lost(&path, epoch, &cause),
            None => Ok(()),
        }
    }

    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        hosted: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let stopped = hosted.guarded(|actor, cx| {
            actor.stopping(cx);
            Ok(())
        });
        // Held here, where a kill that interrupts the wait drops it at once.
        let mut living = hosted.living.take();
        if let Some(work) = living.as_mut().and_then(|living| living.actor.last_work()) {
            work.await;
        }
        let mut gave_up = None;
        if let Some(mut children) = hosted.context.children.take() {
            children.stop_all().await;
            gave_up = children.gave_up.take();
        }
        if let Some(work) = living.as_mut().and_then(|living| living.actor.farewell()) {
            work.await;
        }
        drop(living);
        match gave_up {
            Some(why) => Err(Box::new(Ended(Cause::GaveUp(why)))),
            None => stopped,
        }
    }
}

impl<A: Actor> Hosted<A> {
    /// Runs a piece of the actor; a panic in it ends the actor, not the process.
    fn guarded(
        &mut self,
        run: impl FnOnce(&mut A, &mut Context<A::Msg>) -> Result<(), Broken>,
    ) -> Result<(), ActorProcessingErr> {
        let (Some(living), cx) = (&mut self.living, &mut self.context) else {
            return Ok(());
        };
        let cause = match catch_unwind(AssertUnwindSafe(|| run(&mut living.actor, cx))) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(Broken(why))) => Cause::Error(why),
            Err(panic) => Cause::of_panic(panic),
        };
        self.living = None;
        Err(Box::new(Ended(cause)))
    }

    /// A child that is wanted has ended.
    fn lost(&mut self, path: &Path, epoch: Epoch, cause: &Cause) -> Result<(), ActorProcessingErr> {
        let Context { own, children, .. } = &mut self.context;
        let Some(children) = children else {
            return Ok(());
        };
        let Some(lost) = children.ended(path, epoch, cause) else {
            return Ok(());
        };
        own.shared.directory.ended(path, cause);
        let actor = &**path;
        let pause = match lost.verdict {
            Verdict::Restart(pause) => pause,
            Verdict::Escalate => {
                tracing::error!(actor, %cause, "fails over and over, giving up");
                children.gave_up = Some(match cause {
                    Cause::GaveUp(why) => why.clone(),
                    _ => format!("{path} fails over and over: {cause}"),
                });
                own.cell.stop(None);
                return Ok(());
            }
        };
        own.shared.meters.restarted(lost.kind, cause.reason());
        children.run_after(path, epoch, pause, own);
        let Some(error) = cause.message() else {
            tracing::info!(actor, "ended from outside, started again");
            return Ok(());
        };
        let failures = lost.failures;
        tracing::error!(actor, error, failures, ?pause, "failed, starts again");
        self.guarded(|actor, cx| {
            actor.child_failed(path, failures, error, cx);
            Ok(())
        })
    }
}

/// Why an actor ended, as its supervisor is told.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Ended(Cause);

/// Why an actor failed, of which ractor only passes on an error.
pub(super) fn cause_of(error: &ActorProcessingErr) -> Cause {
    match error.downcast_ref::<Ended>() {
        Some(Ended(cause)) => cause.clone(),
        None => Cause::Error(error.to_string()),
    }
}
