//! What a parent knows of its children. Driven by the host: the parent's own code only starts and
//! stops them.

use super::{
    addr::{Addr, Envelope},
    directory::Path,
    host::{Actor, Host, Shared, Start},
    restart::{Cause, History, Policy, Verdict},
    work::{Epoch, Work},
};
use futures::future::join_all;
use ractor::{ActorCell, ActorId};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// How long a child may take to stop in order before it is killed.
const STOP_DEADLINE: Duration = Duration::from_secs(8);

/// Names one child among its siblings, once: a later child at the same path has another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ChildId(u64);

/// How to make a child: where it stands, under which address it is reached, and what it starts as.
pub struct ChildSpec {
    pub(super) path: Path,
    start: Box<dyn Fn(&ChildSpec, Start<'_>) -> Option<ActorCell> + Send>,
}

impl ChildSpec {
    /// A child at `path`, reached at `addr`, made anew by `make` at every start.
    pub fn new<A: Actor>(
        path: impl Into<Path>,
        addr: Addr<A::Msg>,
        make: impl Fn() -> A + Send + 'static,
    ) -> Self {
        Self {
            path: path.into(),
            start: Box::new(move |spec, start| Host::start(&spec.path, &addr, make(), start)),
        }
    }

    pub(super) fn start(&self, start: Start<'_>) -> Option<ActorCell> {
        (self.start)(self, start)
    }
}

struct Child {
    spec: ChildSpec,
    epoch: Epoch,
    born: Instant,
    cell: Option<ActorCell>,
    history: History,
    pause: Work,
}

/// A child that ended although it is wanted.
pub(super) struct Lost {
    pub(super) path: Path,
    pub(super) cause: Cause,
    pub(super) failures: u32,
    pub(super) verdict: Verdict,
}

/// The children of one actor, in the order in which they were started.
pub(super) struct Children {
    policy: Policy,
    by_path: HashMap<Path, ChildId>,
    by_cell: HashMap<ActorId, ChildId>,
    all: HashMap<ChildId, Child>,
    order: VecDeque<ChildId>,
}

impl Children {
    pub(super) fn new(policy: Policy) -> Self {
        Self {
            policy,
            by_path: HashMap::new(),
            by_cell: HashMap::new(),
            all: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// Starts a child, unless one stands at its path already.
    pub(super) fn start<M: super::Message>(
        &mut self,
        spec: ChildSpec,
        me: &Addr<M>,
        cell: &ActorCell,
        shared: &Arc<Shared>,
    ) {
        if self.has(&spec.path) {
            return;
        }
        let id = ChildId(Epoch::next().number());
        self.by_path.insert(Arc::clone(&spec.path), id);
        self.order.push_back(id);
        let child = Child {
            spec,
            epoch: Epoch::next(),
            born: Instant::now(),
            cell: None,
            history: History::default(),
            pause: Work::default(),
        };
        self.all.insert(id, child);
        self.run(id, me, cell, shared);
    }

    /// Starts the child (again), under a new epoch.
    pub(super) fn run<M: super::Message>(
        &mut self,
        id: ChildId,
        me: &Addr<M>,
        cell: &ActorCell,
        shared: &Arc<Shared>,
    ) {
        let Some(child) = self.all.get_mut(&id) else {
            return;
        };
        child.pause.abort();
        child.epoch = Epoch::next();
        child.born = Instant::now();
        let me = me.clone();
        child.cell = child.spec.start(Start {
            supervisor: cell.clone(),
            shared,
            epoch: child.epoch,
            stillborn: Box::new(move |why| me.post(Envelope::Stillborn(id, why))),
        });
        if let Some(cell) = &child.cell {
            self.by_cell.insert(cell.get_id(), id);
        }
    }

    /// The path and id of the child that runs in `cell`; none if it was let go.
    pub(super) fn by_cell(&mut self, cell: ActorId) -> Option<ChildId> {
        self.by_cell.remove(&cell)
    }

    /// Takes in that a wanted child ended, and arms its restart.
    pub(super) fn ended<M: super::Message>(
        &mut self,
        id: ChildId,
        cause: Cause,
        me: &Addr<M>,
    ) -> Option<Lost> {
        let child = self.all.get_mut(&id)?;
        if let Some(cell) = child.cell.take() {
            self.by_cell.remove(&cell.get_id());
        }
        let verdict = child
            .history
            .ended(&self.policy, &cause, child.born, Instant::now());
        if let Verdict::Restart(pause) = verdict {
            let me = me.clone();
            if pause.is_zero() {
                me.post(Envelope::Respawn(id));
            } else {
                child.pause.start(|_| async move {
                    tokio::time::sleep(pause).await;
                    me.post(Envelope::Respawn(id));
                });
            }
        }
        Some(Lost {
            path: Arc::clone(&child.spec.path),
            failures: child.history.streak(),
            cause,
            verdict,
        })
    }

    /// Lets a child go: it is stopped and not started again.
    pub(super) fn stop(&mut self, path: &str, shared: &Shared) {
        let Some(id) = self.by_path.remove(path) else {
            return;
        };
        // Long-lived parents let children go all the time, so the order must not only grow.
        if self.order.len() > 2 * self.all.len() + 16 {
            let all = &self.all;
            self.order.retain(|id| all.contains_key(id));
        }
        if let Some(child) = self.all.remove(&id) {
            shared.directory.forget(&child.spec.path, child.epoch);
            if let Some(cell) = child.cell {
                self.by_cell.remove(&cell.get_id());
                cell.stop(None);
            }
        }
    }

    /// Stops all children, the youngest first under a policy that escalates (they may need the older
    /// ones), else all at once, and waits for them.
    pub(super) async fn stop_all(&mut self, shared: &Shared) {
        self.by_path.clear();
        self.by_cell.clear();
        let one_by_one = self.policy.escalate.is_some();
        let mut ends = Vec::new();
        while let Some(id) = self.order.pop_back() {
            let Some(child) = self.all.remove(&id) else {
                continue;
            };
            shared.directory.forget(&child.spec.path, child.epoch);
            let Some(cell) = child.cell else { continue };
            let path = Arc::clone(&child.spec.path);
            let end = async move {
                if cell.stop_and_wait(None, Some(STOP_DEADLINE)).await.is_err()
                    && cell.get_status() != ractor::ActorStatus::Stopped
                {
                    tracing::warn!(actor = &*path, "did not stop in time, killed");
                    cell.kill();
                }
            };
            if one_by_one {
                end.await;
            } else {
                ends.push(end);
            }
        }
        join_all(ends).await;
    }
}
