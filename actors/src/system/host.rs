//! Runs an [`Actor`] on ractor.
//!
//! The host is between the two: it meters every message, turns a panic or an error of a handler into
//! the end of the actor with its cause noted, and answers supervision for the actor, which only has
//! to say which children it wants.
//!
//! Guarantees: a handler runs alone, from start to end; a child that ends although it is wanted is
//! started again as [`super::restart`] says; an actor that stops has stopped its children before.

use super::{
    addr::{Addr, Envelope, Message},
    children::{ChildSpec, Children},
    directory::{Directory, Path},
    meter::{KindMeter, Meters},
    restart::{Cause, Policy, Verdict},
    work::Epoch,
};
use dashmap::DashMap;
use ractor::{ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::{
    any::Any,
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

/// A handler's word that what the actor rests on no longer holds: it ends, and is made anew.
/// What can be recovered from is state, not this.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(pub String);

/// A struct that owns its state alone and changes it only by handling messages.
pub trait Actor: Send + Sized + 'static {
    /// What it understands.
    type Msg: Message;

    /// What it is, as the metric label `kind`.
    const KIND: &'static str;

    /// How patient it is with its children.
    const POLICY: Policy = Policy::PATIENT;

    /// The first thing it does: connect, ask for what it must know, start children.
    ///
    /// # Errors
    /// [`Broken`] ends the actor.
    fn started(&mut self, _cx: &mut Context<Self::Msg>) -> Result<(), Broken> {
        Ok(())
    }

    /// Handles one message, without waiting for anything.
    ///
    /// # Errors
    /// [`Broken`] ends the actor.
    fn handle(&mut self, message: Self::Msg, cx: &mut Context<Self::Msg>) -> Result<(), Broken>;

    /// A child failed for the `failures`th time in a row and will be started again.
    fn child_failed(
        &mut self,
        _path: &str,
        _failures: u32,
        _error: &str,
        _cx: &mut Context<Self::Msg>,
    ) {
    }

    /// The last thing it does when it is stopped; its children are still there. A kill skips it.
    fn stopping(&mut self, _cx: &mut Context<Self::Msg>) {}
}

/// What the actors of one system share.
pub(super) struct Shared {
    pub(super) directory: Arc<Directory>,
    meters: Meters,
    kinds: DashMap<&'static str, Arc<KindMeter>>,
    /// Why the root gave up.
    escalated: OnceLock<String>,
}

/// What an actor is handed with every message: itself and its children.
pub struct Context<M: Message> {
    me: Addr<M>,
    cell: ActorCell,
    path: Path,
    children: Option<Box<Children>>,
    policy: Policy,
    shared: Arc<Shared>,
    kind: Arc<KindMeter>,
}

impl<M: Message> Context<M> {
    /// The actor's own address.
    #[must_use]
    pub fn me(&self) -> &Addr<M> {
        &self.me
    }

    /// Where the actor stands in the tree.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a child and keeps it alive; nothing happens if one stands at this path already.
    pub fn start(&mut self, child: ChildSpec) {
        let children = self
            .children
            .get_or_insert_with(|| Box::new(Children::new(self.policy)));
        children.start(child, &self.me, &self.cell, &self.shared);
    }

    /// Lets the child at `path` go.
    pub fn stop_child(&mut self, path: &str) {
        if let Some(children) = &mut self.children {
            children.stop(path, &self.shared);
        }
    }

    /// Whether a child stands at `path`, alive or waiting to be started again.
    #[must_use]
    pub fn has_child(&self, path: &str) -> bool {
        self.children.as_ref().is_some_and(|all| all.has(path))
    }

    /// How many children there are.
    #[must_use]
    pub fn children(&self) -> usize {
        self.children.as_ref().map_or(0, |all| all.len())
    }
}

/// What a new actor is started with.
pub(super) struct Start<'a> {
    pub(super) supervisor: ActorCell,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) epoch: Epoch,
    /// Called if the actor dies before its supervisor is linked to it, since no event tells of that.
    pub(super) stillborn: Box<dyn FnOnce(String) + Send>,
}

/// The ractor behaviour of every actor of ours.
pub(super) struct Host<A>(PhantomData<fn() -> A>);

/// An actor and what it is handed.
pub(super) struct Hosted<A: Actor> {
    actor: A,
    context: Context<A::Msg>,
}

/// A kill drops the state without a word to the actor, so what must not be missed stands here.
impl<A: Actor> Drop for Hosted<A> {
    fn drop(&mut self) {
        self.context.kind.alive.dec();
    }
}

impl<A: Actor> Host<A> {
    /// Starts `actor` without waiting for it. Messages may be sent to `addr` from here on.
    pub(super) fn start(
        path: &Path,
        addr: &Addr<A::Msg>,
        actor: A,
        start: Start<'_>,
    ) -> Option<ActorCell> {
        let supervisor = start.supervisor.clone();
        let arguments = Self::arguments(path, addr, actor, start.shared);
        let spawned = ractor::ActorRuntime::spawn_linked_instant(
            None,
            Self(PhantomData),
            arguments,
            supervisor,
        );
        let (actor_ref, started) = match spawned {
            Ok(spawned) => spawned,
            Err(error) => {
                (start.stillborn)(error.to_string());
                return None;
            }
        };
        let cell = actor_ref.get_cell();
        addr.bind(actor_ref);
        start
            .shared
            .directory
            .started(path, A::KIND, start.epoch, addr.meter(), cell.clone());
        let stillborn = start.stillborn;
        tokio::spawn(async move {
            if let Ok(Err(error)) = started.await {
                stillborn(error.to_string());
            }
        });
        Some(cell)
    }

    fn arguments(path: &Path, addr: &Addr<A::Msg>, actor: A, shared: &Arc<Shared>) -> Arguments<A> {
        Arguments {
            actor,
            me: addr.clone(),
            path: Arc::clone(path),
            shared: Arc::clone(shared),
        }
    }
}

pub(super) struct Arguments<A: Actor> {
    actor: A,
    me: Addr<A::Msg>,
    path: Path,
    shared: Arc<Shared>,
}

impl<A: Actor> ractor::Actor for Host<A> {
    type Msg = Envelope<A::Msg>;
    type State = Hosted<A>;
    type Arguments = Arguments<A>;

    async fn pre_start(
        &self,
        me: ActorRef<Self::Msg>,
        with: Arguments<A>,
    ) -> Result<Hosted<A>, ActorProcessingErr> {
        let kind = with
            .shared
            .kinds
            .entry(A::KIND)
            .or_insert_with(|| Arc::new(with.shared.meters.of_kind(A::KIND)))
            .clone();
        kind.alive.inc();
        Ok(Hosted {
            actor: with.actor,
            context: Context {
                me: with.me,
                cell: me.get_cell(),
                path: with.path,
                children: None,
                policy: A::POLICY,
                shared: with.shared,
                kind,
            },
        })
    }

    async fn post_start(
        &self,
        _: ActorRef<Self::Msg>,
        hosted: &mut Hosted<A>,
    ) -> Result<(), ActorProcessingErr> {
        hosted.guarded(|actor, cx| actor.started(cx))
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        envelope: Self::Msg,
        hosted: &mut Hosted<A>,
    ) -> Result<(), ActorProcessingErr> {
        match envelope {
            Envelope::Letter(message, ticket) => {
                let kind = Arc::clone(&hosted.context.kind);
                let _taken = kind.taken(ticket);
                let meters = &hosted.context.shared.meters;
                meters.message(A::KIND, message.name()).inc();
                hosted.guarded(|actor, cx| actor.handle(message, cx))
            }
            Envelope::Respawn(id) => {
                let cx = &mut hosted.context;
                if let Some(children) = &mut cx.children {
                    children.run(id, &cx.me, &cx.cell, &cx.shared);
                }
                Ok(())
            }
            Envelope::Stillborn(id, why) => hosted.lost(id, Cause::Error(why)),
        }
    }

    /// ractor's own would stop the supervisor on any child's end.
    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        hosted: &mut Hosted<A>,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, cause) = match event {
            SupervisionEvent::ActorTerminated(cell, _, _) => (cell, Cause::Killed),
            SupervisionEvent::ActorFailed(cell, error) => (cell, cause_of(&error)),
            _ => return Ok(()),
        };
        let children = hosted.context.children.as_mut();
        match children.and_then(|all| all.by_cell(cell.get_id())) {
            Some(id) => hosted.lost(id, cause),
            None => Ok(()),
        }
    }

    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        hosted: &mut Hosted<A>,
    ) -> Result<(), ActorProcessingErr> {
        let stopped = hosted.guarded(|actor, cx| {
            actor.stopping(cx);
            Ok(())
        });
        let cx = &mut hosted.context;
        if let Some(children) = &mut cx.children {
            children.stop_all(&cx.shared).await;
        }
        stopped
    }
}

impl<A: Actor> Hosted<A> {
    /// Runs a piece of the actor; a panic in it ends the actor, not the process.
    fn guarded(
        &mut self,
        run: impl FnOnce(&mut A, &mut Context<A::Msg>) -> Result<(), Broken>,
    ) -> Result<(), ActorProcessingErr> {
        let (actor, cx) = (&mut self.actor, &mut self.context);
        let cause = match catch_unwind(AssertUnwindSafe(|| run(actor, cx))) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(Broken(why))) => Cause::Error(why),
            Err(panic) => Cause::Panic(panic_text(&*panic)),
        };
        Err(Box::new(Ended(cause)))
    }

    fn lost(
        &mut self,
        id: super::children::ChildId,
        cause: Cause,
    ) -> Result<(), ActorProcessingErr> {
        let cx = &mut self.context;
        let Some(lost) = cx
            .children
            .as_mut()
            .and_then(|all| all.ended(id, cause, &cx.me))
        else {
            return Ok(());
        };
        cx.shared.directory.failed(&lost.path, &lost.cause);
        let kind = lost.path.split('/').next().unwrap_or_default();
        cx.shared.meters.restarted(kind, lost.cause.reason());
        let Some(error) = lost.cause.message() else {
            tracing::info!(actor = &*lost.path, "killed from outside, started again");
            return Ok(());
        };
        if lost.verdict == Verdict::Escalate {
            tracing::error!(actor = &*lost.path, error, "fails over and over, giving up");
            let why = format!("{} fails over and over: {error}", lost.path);
            cx.cell.stop(Some(why.clone()));
            cx.shared.escalated.set(why).ok();
            return Ok(());
        }
        tracing::error!(
            actor = &*lost.path,
            error,
            failures = lost.failures,
            "failed, started again"
        );
        let (path, failures, error) = (Arc::clone(&lost.path), lost.failures, error.to_owned());
        self.guarded(|actor, cx| {
            actor.child_failed(&path, failures, &error, cx);
            Ok(())
        })
    }
}

/// Why an actor ended, as its supervisor is told.
#[derive(Debug, thiserror::Error)]
#[error("{0:?}")]
struct Ended(Cause);

fn cause_of(error: &ActorProcessingErr) -> Cause {
    match error.downcast_ref::<Ended>() {
        Some(Ended(cause)) => cause.clone(),
        None => Cause::Error(error.to_string()),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic".to_owned())
}

/// A whole tree of actors under one root.
pub struct System {
    shared: Arc<Shared>,
}

/// A root that runs.
pub struct Running {
    cell: ActorCell,
    ended: tokio::task::JoinHandle<()>,
    shared: Arc<Shared>,
}

impl System {
    /// A system whose actors are measured by `meters`.
    #[must_use]
    pub fn new(meters: Meters) -> Self {
        Self {
            shared: Arc::new(Shared {
                directory: Arc::default(),
                meters,
                kinds: DashMap::new(),
                escalated: OnceLock::new(),
            }),
        }
    }

    /// Who is alive in it.
    #[must_use]
    pub fn directory(&self) -> Arc<Directory> {
        Arc::clone(&self.shared.directory)
    }

    /// Starts `root` at `addr`.
    ///
    /// # Errors
    /// When the runtime cannot start it.
    pub async fn run<A: Actor>(&self, addr: &Addr<A::Msg>, root: A) -> Result<Running, Broken> {
        let path: Path = A::KIND.into();
        let arguments = Host::arguments(&path, addr, root, &self.shared);
        let (actor, ended) = ractor::Actor::spawn(None, Host::<A>(PhantomData), arguments)
            .await
            .map_err(|error| Broken(error.to_string()))?;
        let cell = actor.get_cell();
        addr.bind(actor);
        let directory = &self.shared.directory;
        directory.started(&path, A::KIND, Epoch::next(), addr.meter(), cell.clone());
        Ok(Running {
            cell,
            ended,
            shared: Arc::clone(&self.shared),
        })
    }
}

impl Running {
    /// Asks the root to stop everything in order.
    pub fn stop(&self) {
        self.cell.stop(None);
    }

    /// Waits until the root has ended.
    ///
    /// # Errors
    /// Why, when it gave up a child that it could not keep alive.
    pub async fn ended(&mut self) -> Result<(), Broken> {
        (&mut self.ended).await.ok();
        self.shared
            .escalated
            .get()
            .map_or(Ok(()), |why| Err(Broken(why.clone())))
    }
}
