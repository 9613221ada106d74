//! Who is alive. An object made by the root, not a global: tests of one process do not meet in it.

use super::{
    meter::{KindMeter, Meter},
    restart::Cause,
    work::Epoch,
};
use dashmap::{DashMap, Entry as Slot};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Where an actor stands in the tree: `fleet`, `proxy/<namespace>/<name>`.
pub type Path = Arc<str>;

/// Where an actor sits, whatever it understands: what is behind an address.
pub(super) trait Seat: Send + Sync {
    fn meter(&self) -> &Meter;
    /// Ends who sits there, if anyone does.
    fn end(&self, how: End);
}

struct Entry {
    parent: Option<Path>,
    kind: Arc<KindMeter>,
    epoch: Epoch,
    since: SystemTime,
    restarts: u32,
    seat: Arc<dyn Seat>,
    last_error: Option<Box<str>>,
    last_end: Option<LastEnd>,
}

/// How the incarnation before the present one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastEnd {
    /// `killed`, `panic` or `error`.
    pub reason: &'static str,
    /// When its supervisor heard of it.
    pub at: SystemTime,
}

/// One actor, as it is seen from outside.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Where it stands in the tree.
    pub path: Path,
    /// Whose child it is; the root is nobody's.
    pub parent: Option<Path>,
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
    /// The message that is being handled, and for how long.
    pub handling: Option<(&'static str, Duration)>,
    /// Why an earlier incarnation failed.
    pub last_error: Option<String>,
    /// How the incarnation before this one ended, if the present parent has seen it end.
    pub last_end: Option<LastEnd>,
}

/// How a living actor is to be ended from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At once; what it holds is dropped.
    Kill,
    /// After the message under way, with its children stopped in order.
    Stop,
    /// By a panic in its handler, in turn with its messages, as if by a defect.
    Panic,
}

/// All supervised actors of one system.
#[derive(Default)]
pub struct Directory(DashMap<Path, Entry>);

impl Directory {
    pub(super) fn started(
        &self,
        path: &Path,
        parent: Option<Path>,
        kind: &Arc<KindMeter>,
        epoch: Epoch,
        seat: Arc<dyn Seat>,
    ) {
        let mut entry = Entry {
            parent,
            kind: Arc::clone(kind),
            epoch,
            since: SystemTime::now(),
            restarts: 0,
            seat,
            last_error: None,
            last_end: None,
        };
        match self.0.entry(Arc::clone(path)) {
            Slot::Occupied(mut slot) => {
                let before = slot.get_mut();
                entry.restarts = before.restarts + 1;
                entry.last_error = before.last_error.take();
                entry.last_end = before.last_end;
                slot.insert(entry);
            }
            Slot::Vacant(slot) => {
                slot.insert(entry);
            }
        }
    }

    pub(super) fn ended(&self, path: &Path, cause: &Cause) {
        let Some(mut entry) = self.0.get_mut(path) else {
            return;
        };
        entry.last_end = Some(LastEnd {
            reason: cause.reason(),
            at: SystemTime::now(),
        });
        if let Some(message) = cause.message() {
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
                parent: entry.parent.clone(),
                kind: entry.kind.name(),
                epoch: entry.epoch,
                since: entry.since,
                restarts: entry.restarts,
                mailbox_depth: entry.seat.meter().depth(),
                handled: entry.seat.meter().handled(),
                handling: entry.kind.handling(entry.seat.meter()),
                last_error: entry.last_error.as_deref().map(Into::into),
                last_end: entry.last_end,
            })
            .collect();
        list.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        list
    }

    /// The path and the kind of every actor, sorted by path: all that is needed to choose one.
    #[must_use]
    pub fn who(&self) -> Vec<(Path, &'static str)> {
        let mut who: Vec<_> = self
            .0
            .iter()
            .map(|entry| (Arc::clone(entry.key()), entry.kind.name()))
            .collect();
        who.sort_unstable();
        who
    }

    /// Which incarnation is at `path`.
    #[must_use]
    pub fn epoch(&self, path: &str) -> Option<Epoch> {
        self.0.get(path).map(|entry| entry.epoch)
    }

    /// Sum and maximum of the mailbox depths of each kind.
    #[must_use]
    pub fn mailbox_depths(&self) -> BTreeMap<&'static str, (u64, u32)> {
        let mut depths = BTreeMap::<_, (u64, u32)>::new();
        for entry in &self.0 {
            let (sum, max) = depths.entry(entry.kind.name()).or_default();
            let depth = entry.seat.meter().depth();
            *sum += u64::from(depth);
            *max = (*max).max(depth);
        }
        depths
    }

    /// Ends the actor at `path`; its supervisor starts it again. False when nobody is there.
    #[must_use = "nobody may be there"]
    pub fn end(&self, path: &str, end: End) -> bool {
        let entry = self.0.get(path);
        if let Some(entry) = &entry {
            entry.seat.end(end);
        }
        entry.is_some()
    }
}
