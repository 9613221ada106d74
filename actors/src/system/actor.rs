//! What an actor is to those who write one: a struct with a handler, and what it is handed.

use super::{
    addr::{Addr, Message},
    children::{ChildSpec, Children},
    directory::{Directory, Path},
    meter::{KindMeter, Meters},
    restart::Policy,
};
use dashmap::DashMap;
use futures::future::BoxFuture;
use ractor::ActorCell;
use std::sync::Arc;

/// A handler's word that what the actor rests on no longer holds: it ends, and is made anew.
/// What can be recovered from is state, not this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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

    /// What has to end before it may, when it is stopped: awaited after [`Self::stopping`]. It ends by
    /// itself within seconds.
    fn last_work(&mut self) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// What is left to do once all its children have ended, when it is stopped. It ends by itself within
    /// seconds; a kill skips it.
    fn farewell(&mut self) -> Option<BoxFuture<'static, ()>> {
        None
    }
}

/// What the actors of one system share.
pub(super) struct Shared {
    pub(super) directory: Arc<Directory>,
    pub(super) meters: Meters,
    pub(super) kinds: DashMap<&'static str, Arc<KindMeter>>,
}

impl Shared {
    pub(super) fn kind(&self, kind: &'static str) -> Arc<KindMeter> {
        if let Some(known) = self.kinds.get(kind) {
            return Arc::clone(&known);
        }
        let of_kind = || Arc::new(self.meters.of_kind(kind));
        Arc::clone(&self.kinds.entry(kind).or_insert_with(of_kind))
    }
}

/// An actor's own place in the system.
pub(super) struct Own<M: Message> {
    pub(super) me: Addr<M>,
    pub(super) cell: ActorCell,
    pub(super) path: Path,
    pub(super) shared: Arc<Shared>,
}

/// What an actor is handed with every message: itself and its children.
pub struct Context<M: Message> {
    pub(super) own: Own<M>,
    pub(super) policy: &'static Policy,
    /// Most actors have none.
    pub(super) children: Option<Box<Children>>,
}

impl<M: Message> Context<M> {
    /// The actor's own address.
    #[must_use]
    pub fn me(&self) -> &Addr<M> {
        &self.own.me
    }

    /// Where the actor stands in the tree.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.own.path
    }

    /// Starts a child and keeps it alive; nothing happens if one stands at this path already.
    pub fn start(&mut self, child: ChildSpec) {
        let children = self
            .children
            .get_or_insert_with(|| Box::new(Children::new(self.policy, &self.own.shared)));
        children.start(child, &self.own);
    }

    /// Lets the child at `path` go.
    pub fn stop_child(&mut self, path: &str) {
        if let Some(children) = &mut self.children {
            children.stop(path);
        }
    }

    /// Kills all children at once, and theirs with them; what they hold is dropped. Resolves when they have
    /// ended, until when nobody else should be started in their places.
    pub fn kill_children(&mut self) -> BoxFuture<'static, ()> {
        match &mut self.children {
            Some(children) => children.kill_all(),
            None => Box::pin(std::future::ready(())),
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
