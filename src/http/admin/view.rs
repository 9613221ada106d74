//! What the admin server shows, as JSON. The command line reads it back.

use actors::{
    monkey::Run,
    system::directory::{LastEnd, Path, Seen},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, SystemTime},
};

/// Every actor: parents before their children, those of one parent by path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActorList {
    /// The actors.
    pub actors: Vec<ActorView>,
    /// How many there are.
    pub count: usize,
}

/// One actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActorView {
    /// Where it stands in the tree, and what it is addressed by.
    pub path: String,
    /// What it is.
    pub kind: String,
    /// The path of its parent; null for the root.
    pub parent: Option<String>,
    /// Which incarnation: every start of anything in the process has a greater one.
    pub epoch: u64,
    /// When this incarnation was started: RFC 3339, UTC.
    pub since: String,
    /// How often the present parent has started it again.
    pub restarts: u32,
    /// Messages sent and not yet handled.
    pub mailbox_depth: u32,
    /// Messages handled since the first start.
    pub handled: u64,
    /// The message under way; null for none.
    pub handling: Option<Handling>,
    /// Why it failed last; null if it never did.
    pub last_error: Option<String>,
    /// How the incarnation before this one ended; null if it is the first.
    pub last_end: Option<LastEndView>,
}

/// A message under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handling {
    /// Which.
    pub message: String,
    /// For how long, in milliseconds.
    pub for_millis: u64,
}

/// An end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEndView {
    /// `killed`, `panic` or `error`.
    pub reason: String,
    /// When: RFC 3339, UTC.
    pub at: String,
}

/// An actor was told to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Which.
    pub path: String,
    /// The incarnation that it was; a greater one is its successor.
    pub epoch: u64,
}

/// A run of the monkey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// Whether it is under way.
    pub running: bool,
    /// Whom it may strike.
    pub r#match: String,
    /// From one strike to the next.
    pub every_millis: u64,
    /// When it ends by itself.
    pub duration_seconds: u64,
    /// What the choices follow from.
    pub seed: u64,
    /// When it began: RFC 3339, UTC.
    pub started_at: String,
    /// When it ended; null while it is under way.
    pub ended_at: Option<String>,
    /// Kills so far.
    pub kills: u64,
    /// The same by kind.
    pub kills_by_kind: BTreeMap<String, u64>,
}

impl ActorList {
    /// Of what the directory tells, sorted by path.
    #[must_use]
    pub fn new(seen: Vec<Seen>) -> Self {
        let actors: Vec<_> = as_tree(seen).iter().map(ActorView::from).collect();
        let count = actors.len();
        Self { actors, count }
    }
}

/// Parents before their children. One whose parent is gone by now stands at the end.
fn as_tree(seen: Vec<Seen>) -> Vec<Seen> {
    let mut children = HashMap::<Option<Path>, Vec<Seen>>::new();
    for seen in seen {
        children.entry(seen.parent.clone()).or_default().push(seen);
    }
    let mut tree = Vec::new();
    // The next one is taken from the end.
    let mut next = children.remove(&None).unwrap_or_default();
    next.reverse();
    while let Some(seen) = next.pop() {
        let below = children
            .remove(&Some(seen.path.clone()))
            .unwrap_or_default();
        next.extend(below.into_iter().rev());
        tree.push(seen);
    }
    let mut lost: Vec<_> = children.into_values().flatten().collect();
    lost.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    tree.extend(lost);
    tree
}

impl From<&Seen> for ActorView {
    fn from(seen: &Seen) -> Self {
        Self {
            path: seen.path.to_string(),
            kind: seen.kind.to_owned(),
            parent: seen.parent.as_ref().map(ToString::to_string),
            epoch: seen.epoch.number(),
            since: time(seen.since),
            restarts: seen.restarts,
            mailbox_depth: seen.mailbox_depth,
            handled: seen.handled,
            handling: seen.handling.map(|(message, took)| Handling {
                message: message.to_owned(),
                for_millis: millis(took),
            }),
            last_error: seen.last_error.clone(),
            last_end: seen.last_end.map(|LastEnd { reason, at }| LastEndView {
                reason: reason.to_owned(),
                at: time(at),
            }),
        }
    }
}

impl From<&Run> for RunView {
    fn from(run: &Run) -> Self {
        let kinds = run.kills.iter();
        Self {
            running: run.ended.is_none(),
            r#match: run.plan.pattern.to_string(),
            every_millis: millis(run.plan.every),
            duration_seconds: run.plan.lasts.as_secs(),
            seed: run.plan.seed,
            started_at: time(run.begun),
            ended_at: run.ended.map(time),
            kills: run.kills.values().sum(),
            kills_by_kind: kinds
                .map(|(kind, count)| ((*kind).to_owned(), *count))
                .collect(),
        }
    }
}

fn time(at: SystemTime) -> String {
    humantime::format_rfc3339_millis(at).to_string()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
