//! A whole tree of actors: its root, and how it ended.

use super::{
    actor::{Actor, Broken, Shared},
    addr::Addr,
    directory::{Directory, Path},
    host::{Arguments, Host, cause_of},
    meter::Meters,
    work::Epoch,
};
use dashmap::DashMap;
use ractor::{ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use std::sync::Arc;
use tokio::sync::watch;

/// A whole tree of actors under one root.
pub struct System {
    shared: Arc<Shared>,
}

/// A root that runs.
pub struct Running {
    cell: ActorCell,
    ended: watch::Receiver<Outcome>,
}

/// None while the root runs.
type Outcome = Option<Result<(), Broken>>;

impl System {
    /// A system whose actors are measured by `meters`.
    #[must_use]
    pub fn new(meters: Meters) -> Self {
        Self {
            shared: Arc::new(Shared {
                directory: Arc::default(),
                meters,
                kinds: DashMap::new(),
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
        let unable = |error: ractor::SpawnErr| Broken(error.to_string());
        let (path, epoch): (Path, _) = (A::KIND.into(), Epoch::next());
        let (outcome, ended) = watch::channel(None);
        let witness = Witness {
            directory: self.directory(),
            path: Arc::clone(&path),
            epoch,
            outcome,
        };
        let (above, _) = ractor::Actor::spawn(None, Above, witness)
            .await
            .map_err(unable)?;
        let kind = self.shared.kind(A::KIND);
        let arguments = Arguments {
            actor: root,
            me: addr.clone(),
            epoch,
            path: Arc::clone(&path),
            kind: Arc::clone(&kind),
            shared: Arc::clone(&self.shared),
        };
        let (actor, _) = ractor::Actor::spawn_linked(
            None,
            Host::<A>::new(),
            Box::new(arguments),
            above.get_cell(),
        )
        .await
        .map_err(unable)?;
        let cell = actor.get_cell();
        let directory = &self.shared.directory;
        directory.started(&path, None, &kind, epoch, addr.seat());
        Ok(Running { cell, ended })
    }
}

impl Running {
    /// Asks the root to stop everything in order.
    pub fn stop(&self) {
        self.cell.stop(None);
    }

    /// Waits until the root has ended. May be asked again, and given up at any time.
    ///
    /// # Errors
    /// Why, when it did not end by being stopped: it could not keep a child alive, or failed or was
    /// killed itself.
    pub async fn ended(&mut self) -> Result<(), Broken> {
        match self.ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            Ok(None) | Err(_) => Err(Broken("the runtime ended before the root".into())),
        }
    }
}

/// Stands above a root and only takes note of its end, since nobody could start it again.
struct Above;

struct Witness {
    directory: Arc<Directory>,
    path: Path,
    epoch: Epoch,
    outcome: watch::Sender<Outcome>,
}

impl ractor::Actor for Above {
    type Msg = ();
    type State = Witness;
    type Arguments = Witness;

    async fn pre_start(
        &self,
        _: ActorRef<()>,
        witness: Witness,
    ) -> Result<Witness, ActorProcessingErr> {
        Ok(witness)
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<()>,
        event: SupervisionEvent,
        witness: &mut Witness,
    ) -> Result<(), ActorProcessingErr> {
        let path = &witness.path;
        let outcome = match event {
            SupervisionEvent::ActorTerminated(_, _, None) => Ok(()),
            SupervisionEvent::ActorTerminated(_, _, Some(how)) => {
                Err(Broken(format!("{path}: {how}")))
            }
            SupervisionEvent::ActorFailed(_, error) => Err(Broken(cause_of(&error).to_string())),
            _ => return Ok(()),
        };
        witness.directory.forget(path, witness.epoch);
        witness.outcome.send_replace(Some(outcome));
        me.stop(None);
        Ok(())
    }
}
