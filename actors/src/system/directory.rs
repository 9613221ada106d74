//! Who is alive. An object made by the root, not a global: tests of one process do not meet in it.

use super::{meter::Meter, restart::Cause, work::Epoch};
use dashmap::DashMap;
use ractor::ActorCell;
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

/// Where an actor stands in the tree: `fleet`, `proxy/<namespace>/<name>`.
pub type Path = Arc<str>;

struct Entry {
    kind: &'static str,
    epoch: Epoch,
    since: SystemTime,
    restarts: u32,
    meter: Arc<Meter>,
    cell: ActorCell,
    last_error: Option<Box<str>>,
}

/// One actor, as it is seen from outside.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Where it stands in the tree.
    pub path: Path,
    /// What it is.
    pub kind: &'static str,
    /// Which incarnation.
    pub epoch: Epoch,
    /// When this incarnation was started.
    pub since: SystemTime,
    /// How often it was started again.
    pub restarts: u32,
    /// Messages sent and not yet handled.
    pub mailbox_depth: u32,
    /// Messages handled since the first start.
    pub handled: u64,
    /// Why an earlier incarnation failed.
    pub last_error: Option<String>,
}

/// How a living actor is to be ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At once; what it holds is dropped.
    Kill,
    /// After the message under way, with its children stopped in order.
    Stop,
}

/// All supervised actors of one system.
#[derive(Default)]
pub struct Directory(DashMap<Path, Entry>);

impl Directory {
    pub(super) fn started(
        &self,
        path: &Path,
        kind: &'static str,
        epoch: Epoch,
        meter: &Arc<Meter>,
        cell: ActorCell,
    ) {
        let before = self.0.remove(path).map(|(_, entry)| entry);
        let (restarts, last_error) = match before {
            Some(entry) => (entry.restarts + 1, entry.last_error),
            None => (0, None),
        };
        let entry = Entry {
            kind,
            epoch,
            since: SystemTime::now(),
            restarts,
            meter: Arc::clone(meter),
            cell,
            last_error,
        };
        self.0.insert(Arc::clone(path), entry);
    }

    pub(super) fn failed(&self, path: &Path, cause: &Cause) {
        if let (Some(mut entry), Some(message)) = (self.0.get_mut(path), cause.message()) {
            entry.last_error = Some(message.into());
        }
    }

    /// Forgets the actor at `path`, unless a newer incarnation stands there by now.
    pub(super) fn forget(&self, path: &Path, epoch: Epoch) {
        self.0.remove_if(path, |_, entry| entry.epoch <= epoch);
    }

    /// Every actor, sorted by path.
    #[must_use]
    pub fn list(&self) -> Vec<Seen> {
        let mut list: Vec<_> = self
            .0
            .iter()
            .map(|entry| Seen {
                path: Arc::clone(entry.key()),
                kind: entry.kind,
                epoch: entry.epoch,
                since: entry.since,
                restarts: entry.restarts,
                mailbox_depth: entry.meter.depth(),
                handled: entry.meter.handled(),
                last_error: entry.last_error.as_deref().map(Into::into),
            })
            .collect();
        list.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        list
    }

    /// Sum and maximum of the mailbox depths of each kind.
    #[must_use]
    pub fn mailbox_depths(&self) -> BTreeMap<&'static str, (u64, u32)> {
        let mut depths = BTreeMap::<_, (u64, u32)>::new();
        for entry in &self.0 {
            let (sum, max) = depths.entry(entry.kind).or_default();
            let depth = entry.meter.depth();
            *sum += u64::from(depth);
            *max = (*max).max(depth);
        }
        depths
    }

    /// Ends the actor at `path`; its supervisor starts it again. False when nobody is there.
    pub fn end(&self, path: &str, end: End) -> bool {
        let Some(entry) = self.0.get(path) else {
            return false;
        };
        match end {
            End::Kill => entry.cell.kill(),
            End::Stop => entry.cell.stop(None),
        }
        true
    }
}
