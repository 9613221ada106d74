//! What a parent knows of its children. Driven by the host: the parent's own code only starts and
//! stops them.

use super::{
    actor::{Actor, Own, Shared},
    addr::{Addr, Envelope, Message},
    directory::Path,
    host::{Host, Start},
    restart::{Cause, History, Policy, Verdict},
    work::{Epoch, Work},
};
use futures::future::BoxFuture;
use ractor::{ActorCell, ActorId, ActorStatus};
use std::{
    cmp::Reverse,
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// How long all children together may take to stop in order before they are killed; less than the
/// ten seconds in which the process has to be gone.
const STOP_DEADLINE: Duration = Duration::from_secs(7);

type StartFn = dyn Fn(&Path, Start<'_>) -> Result<ActorCell, Cause> + Send;

/// How to make a child: where it stands, under which address it is reached, and what it starts as.
pub struct ChildSpec {
    pub(super) path: Path,
    kind: &'static str,
    start: Box<StartFn>,
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
            kind: A::KIND,
            start: Box::new(move |path, start| {
                // What panics here is the child's fault, not its parent's.
                let actor = catch_unwind(AssertUnwindSafe(&make)).map_err(Cause::of_panic)?;
                Host::start(path, &addr, actor, start)
            }),
        }
    }
}

struct Child {
    spec: ChildSpec,
    /// Of its first start: tells the older of two siblings.
    first: Epoch,
    epoch: Epoch,
    born: Instant,
    /// None while it waits to be started again.
    cell: Option<ActorCell>,
    history: History,
    pause: Work,
}

/// A child that ended although it is wanted.
pub(super) struct Lost {
    pub(super) kind: &'static str,
    pub(super) failures: u32,
    pub(super) verdict: Verdict,
}

/// The children of one actor.
pub(super) struct Children {
    policy: &'static Policy,
    shared: Arc<Shared>,
    /// Boxed, since a table has room to spare in which only pointers should lie.
    all: HashMap<Path, Box<Child>>,
    by_cell: HashMap<ActorId, Path>,
    /// Which child could not be kept alive.
    pub(super) gave_up: Option<String>,
}

impl Children {
    pub(super) fn new(policy: &'static Policy, shared: &Arc<Shared>) -> Self {
        Self {
            policy,
            shared: Arc::clone(shared),
            all: HashMap::new(),
            by_cell: HashMap::new(),
            gave_up: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.all.contains_key(path)
    }

    /// Starts a child, unless one stands at its path already.
    pub(super) fn start<M: Message>(&mut self, spec: ChildSpec, own: &Own<M>) {
        if self.has(&spec.path) {
            return;
        }
        let path = Arc::clone(&spec.path);
        let epoch = Epoch::next();
        let child = Child {
            spec,
            first: epoch,
            epoch,
            born: Instant::now(),
            cell: None,
            history: History::default(),
            pause: Work::default(),
        };
        self.all.insert(Arc::clone(&path), Box::new(child));
        self.run(&path, epoch, own);
    }

    /// Starts the child whose last incarnation was `last` (again), under a new epoch. Nothing
    /// happens if it was let go or started meanwhile.
    pub(super) fn run<M: Message>(&mut self, path: &Path, last: Epoch, own: &Own<M>) {
        let Some(child) = self.all.get_mut(path) else {
            return;
        };
        if child.epoch != last || child.cell.is_some() {
            return;
        }
        let again = child.epoch != child.first;
        child.pause.abort();
        child.epoch = Epoch::next();
        child.born = Instant::now();
        let (me, place, epoch) = (own.me.clone(), Arc::clone(path), child.epoch);
        let stillborn = move |cause| me.post(Envelope::Stillborn(place, epoch, cause));
        let started = (child.spec.start)(
            path,
            Start {
                supervisor: own.cell.clone(),
                parent: &own.path,
                shared: &self.shared,
                epoch,
                again,
                stillborn: Box::new(stillborn.clone()),
            },
        );
        match started {
            Ok(cell) => {
                self.by_cell.insert(cell.get_id(), Arc::clone(path));
                child.cell = Some(cell);
            }
            Err(cause) => stillborn(cause),
        }
    }

    /// Where the child stands that ran in `cell`; none if it was let go.
    pub(super) fn by_cell(&self, cell: ActorId) -> Option<(Path, Epoch)> {
        let path = self.by_cell.get(&cell)?;
        let child = self.all.get(path)?;
        Some((Arc::clone(path), child.epoch))
    }

    /// Takes in that the incarnation `epoch` of a child ended; nothing if it was let go.
    pub(super) fn ended(&mut self, path: &Path, epoch: Epoch, cause: &Cause) -> Option<Lost> {
        let child = self.all.get_mut(path)?;
        if child.epoch != epoch {
            return None;
        }
        if let Some(cell) = child.cell.take() {
            self.by_cell.remove(&cell.get_id());
        }
        let verdict = child
            .history
            .ended(self.policy, cause, child.born, Instant::now());
        Some(Lost {
            kind: child.spec.kind,
            failures: child.history.streak(),
            verdict,
        })
    }

    /// Starts a child that ended again, when its pause is over.
    pub(super) fn run_after<M: Message>(
        &mut self,
        path: &Path,
        last: Epoch,
        pause: Duration,
        own: &Own<M>,
    ) {
        if pause.is_zero() {
            // Not by way of the mailbox, in which it would wait behind everything else.
            return self.run(path, last, own);
        }
        if let Some(child) = self.all.get_mut(path) {
            let (me, path) = (own.me.clone(), Arc::clone(path));
            child.pause.start(|_| async move {
                tokio::time::sleep(pause).await;
                me.post(Envelope::Respawn(path, last));
            });
        }
    }

    /// Lets a child go: it is stopped and not started again.
    pub(super) fn stop(&mut self, path: &str) {
        let Some(child) = self.all.remove(path) else {
            return;
        };
        self.shared.directory.forget(&child.spec.path, child.epoch);
        if let Some(cell) = child.cell {
            self.by_cell.remove(&cell.get_id());
            cell.stop(None);
        }
    }

    /// Stops all children and waits for them: under a policy that escalates the youngest first, one
    /// by one (they may need the older ones), else all at once.
    pub(super) async fn stop_all(&mut self) {
        self.by_cell.clear();
        let until = Instant::now() + STOP_DEADLINE;
        let mut youngest_first: Vec<_> = self
            .all
            .values_mut()
            .filter_map(|child| {
                child.pause.abort();
                let cell = child.cell.clone()?;
                Some((Reverse(child.first), Arc::clone(&child.spec.path), cell))
            })
            .collect();
        youngest_first.sort_unstable_by_key(|(first, ..)| *first);
        if self.policy.escalate.is_none() {
            end(&youngest_first, until - Instant::now()).await;
            return;
        }
        for child in youngest_first.chunks(1) {
            // Half of what is left, so that one that hangs does not take all time of the others.
            end(child, (until - Instant::now()) / 2).await;
            for (_, path, _) in child {
                self.forget(path);
            }
        }
    }

    /// Kills all children, and lets them go. Resolves when they have ended.
    pub(super) fn kill_all(&mut self) -> BoxFuture<'static, ()> {
        self.by_cell.clear();
        let mut dying = Vec::new();
        for (path, child) in self.all.drain() {
            self.shared.directory.forget(&path, child.epoch);
            if let Some(cell) = child.cell {
                cell.kill();
                dying.push(cell);
            }
        }
        Box::pin(async move {
            for cell in dying {
                // Without a bound of its own it cannot be late.
                cell.wait(None).await.ok();
            }
        })
    }

    fn forget(&mut self, path: &Path) {
        if let Some(child) = self.all.remove(path) {
            self.shared.directory.forget(path, child.epoch);
        }
    }
}

/// A parent that is killed takes its children along without a word.
impl Drop for Children {
    fn drop(&mut self) {
        for (path, child) in &self.all {
            self.shared.directory.forget(path, child.epoch);
        }
    }
}

/// Stops actors in order, and kills those that have not ended `within` that time.
async fn end<T>(actors: &[(T, Path, ActorCell)], within: Duration) {
    for (_, _, cell) in actors {
        cell.stop(None);
    }
    let ended = async {
        for (_, _, cell) in actors {
            // Without a bound of its own it cannot be late.
            cell.wait(None).await.ok();
        }
    };
    if timeout(within, ended).await.is_ok() {
        return;
    }
    for (_, path, cell) in actors {
        if cell.get_status() != ActorStatus::Stopped {
            tracing::warn!(actor = &**path, "did not stop in time, killed");
            cell.kill();
        }
    }
}

/// A child that hangs when it is stopped, as no actor of ours could.
#[cfg(test)]
pub(super) fn hanging(path: impl Into<Path>) -> ChildSpec {
    struct Hanging;

    impl ractor::Actor for Hanging {
        type Msg = ();
        type State = ();
        type Arguments = ();
        async fn pre_start(
            &self,
            _: ractor::ActorRef<()>,
            (): (),
        ) -> Result<(), ractor::ActorProcessingErr> {
            Ok(())
        }
        async fn post_stop(
            &self,
            _: ractor::ActorRef<()>,
            (): &mut (),
        ) -> Result<(), ractor::ActorProcessingErr> {
            std::future::pending().await
        }
    }

    ChildSpec {
        path: path.into(),
        kind: "hanging",
        start: Box::new(|_, start| {
            let spawned =
                ractor::ActorRuntime::spawn_linked_instant(None, Hanging, (), start.supervisor);
            Ok(spawned.expect("spawns").0.get_cell())
        }),
    }
}
