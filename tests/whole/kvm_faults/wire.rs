//! A relay in front of libvirtd's socket that stops calls at chosen steps, so that a fault can strike
//! right there.
//!
//! A host's `socket` in the config leads here. Traps are laid; each catches the first call of its step
//! that comes by of something that no other trap has caught, and holds it until all is released.

use super::step::{Moment, Step, Trap};
use crate::lab::libvirt_packet::{Packet, accept};
use anyhow::ensure;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        UnixListener, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
    time::timeout,
};

/// From a trap that is laid to one that has sprung: what comes before its step, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(4);

/// What came by, by what it was about.
pub type Calls = BTreeMap<String, Vec<u32>>;

/// A relay, until it is dropped.
pub struct Wire {
    /// The socket that stands for libvirtd's.
    pub socket: PathBuf,
    shared: Arc<Shared>,
    _folder: TempDir,
    _listener: JoinSet<()>,
}

impl Wire {
    /// Puts a relay in front of `beyond`; it lets everything pass.
    pub fn start(beyond: PathBuf) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("libvirt-sock");
        let listener = UnixListener::bind(&socket)?;
        let shared = Arc::new(Shared {
            beyond,
            plan: Mutex::default(),
            news: watch::Sender::new(()),
            released: watch::Sender::new(0),
        });
        let mut task = JoinSet::new();
        let serving = Arc::clone(&shared);
        task.spawn(accept(listener, move |near| {
            carry(near, Arc::clone(&serving))
        }));
        Ok(Self {
            socket,
            shared,
            _folder: folder,
            _listener: task,
        })
    }

    /// From now on these are waited for.
    pub fn lay(&self, traps: Vec<Trap>) {
        *self.shared.plan() = Plan {
            laid: traps,
            ..Plan::default()
        };
    }

    /// Waits until every trap holds something, and says what: by trap, the domain or image.
    pub async fn all_sprung(&self) -> anyhow::Result<BTreeMap<String, Trap>> {
        let mut news = self.shared.news.subscribe();
        let sprung = news.wait_for(|()| {
            let plan = self.shared.plan();
            plan.laid.is_empty() && plan.sprung == plan.caught.len()
        });
        let sprung = timeout(PATIENCE, sprung).await.map(|ended| ended.is_ok());
        let plan = self.shared.plan();
        ensure!(
            sprung == Ok(true),
            "not sprung: {:?}; caught: {:?}; seen: {:?}",
            plan.laid,
            plan.caught,
            plan.calls
        );
        Ok(plan.caught.clone())
    }

    /// Lets everything pass, also what is held.
    pub fn release(&self) {
        self.shared.plan().clear();
        self.shared.released.send_modify(|times| *times += 1);
    }

    /// The procedures that came by since traps were laid last.
    pub fn calls(&self) -> Calls {
        self.shared.plan().calls.clone()
    }
}

struct Shared {
    beyond: PathBuf,
    plan: Mutex<Plan>,
    /// Something has sprung.
    news: watch::Sender<()>,
    /// How many times all was released.
    released: watch::Sender<u64>,
}

#[derive(Default)]
struct Plan {
    laid: Vec<Trap>,
    /// By what was caught.
    caught: BTreeMap<String, Trap>,
    sprung: usize,
    /// Of these nothing passes any more.
    stopped: BTreeSet<String>,
    calls: Calls,
}

impl Plan {
    fn clear(&mut self) {
        self.laid.clear();
        self.caught.clear();
        self.stopped.clear();
        self.sprung = 0;
    }

    /// What becomes of a call.
    fn judge(&mut self, packet: &Packet) -> Verdict {
        let Some(about) = about(packet) else {
            return Verdict::Pass;
        };
        let calls = self.calls.entry(about.clone()).or_default();
        calls.push(packet.procedure);
        let number = calls.len();
        if self.stopped.contains(&about) {
            return Verdict::Hold { sprung: false };
        }
        if self.caught.contains_key(&about) {
            return Verdict::Pass;
        }
        let fits = |trap: &Trap| match trap.step {
            Step::Nth(nth) => nth == number && about.starts_with("proxy-"),
            step => step.is(packet.procedure, &packet.bytes),
        };
        let Some(found) = self.laid.iter().position(fits) else {
            return Verdict::Pass;
        };
        let trap = self.laid.remove(found);
        self.caught.insert(about.clone(), trap);
        match trap.moment {
            Moment::Before => Verdict::Hold { sprung: true },
            Moment::During => Verdict::HoldReply,
            Moment::After => Verdict::HoldNext(about),
        }
    }
}

enum Verdict {
    Pass,
    /// The call does not reach libvirtd.
    Hold {
        sprung: bool,
    },
    /// libvirtd does it, and its answer does not come back.
    HoldReply,
    /// Its answer comes back, and then nothing passes.
    HoldNext(String),
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        // Every write is complete in itself.
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sprung(&self) {
        self.plan().sprung += 1;
        self.news.send_replace(());
    }

    /// Ends when all is released the next time.
    fn release(&self) -> impl Future<Output = ()> + use<> {
        let mut released = self.released.subscribe();
        async move {
            released.changed().await.ok();
        }
    }
}

type Writer = Arc<tokio::sync::Mutex<OwnedWriteHalf>>;

struct Connection<'a> {
    shared: &'a Shared,
    to_near: Writer,
    to_far: Writer,
    /// What becomes of the answers to some calls, by the calls' serial numbers.
    replies: Mutex<HashMap<u32, Verdict>>,
}

async fn carry(near: UnixStream, shared: Arc<Shared>) -> anyhow::Result<()> {
    let shared = &*shared;
    let far = UnixStream::connect(&shared.beyond).await?;
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    let writer = |half| Arc::new(tokio::sync::Mutex::new(half));
    let connection = Connection {
        shared,
        to_near: writer(to_near),
        to_far: writer(to_far),
        replies: Mutex::default(),
    };
    tokio::select! {
        ended = connection.there(from_near) => ended,
        ended = connection.back(from_far) => ended,
    }
}

impl Connection<'_> {
    async fn there(&self, mut from: OwnedReadHalf) -> anyhow::Result<()> {
        let mut held = JoinSet::new();
        while let Some(packet) = Packet::read(&mut from).await? {
            let release = self.shared.release();
            let verdict = if packet.is_call() {
                self.shared.plan().judge(&packet)
            } else {
                Verdict::Pass
            };
            if let Verdict::Hold { sprung } = verdict {
                let to = Arc::clone(&self.to_far);
                held.spawn(async move {
                    release.await;
                    to.lock().await.write_all(&packet.bytes).await.ok();
                });
                if sprung {
                    self.shared.sprung();
                }
                continue;
            }
            let holds_reply = matches!(verdict, Verdict::HoldReply);
            if !matches!(verdict, Verdict::Pass) {
                self.replies().insert(packet.serial, verdict);
            }
            self.to_far.lock().await.write_all(&packet.bytes).await?;
            if holds_reply {
                self.shared.sprung();
            }
        }
        Ok(())
    }

    async fn back(&self, mut from: OwnedReadHalf) -> anyhow::Result<()> {
        let mut held = JoinSet::new();
        while let Some(packet) = Packet::read(&mut from).await? {
            let release = self.shared.release();
            let verdict = if packet.is_reply() {
                self.replies().remove(&packet.serial)
            } else {
                None
            };
            let is_in_force = !self.shared.plan().caught.is_empty();
            match verdict.filter(|_| is_in_force) {
                Some(Verdict::HoldReply) => {
                    let to = Arc::clone(&self.to_near);
                    held.spawn(async move {
                        release.await;
                        to.lock().await.write_all(&packet.bytes).await.ok();
                    });
                }
                Some(Verdict::HoldNext(about)) => {
                    self.shared.plan().stopped.insert(about);
                    self.to_near.lock().await.write_all(&packet.bytes).await?;
                    self.shared.sprung();
                }
                _ => self.to_near.lock().await.write_all(&packet.bytes).await?,
            }
        }
        Ok(())
    }

    fn replies(&self) -> MutexGuard<'_, HashMap<u32, Verdict>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The domain that a packet is about, else the image; a dial stands for itself.
fn about(packet: &Packet) -> Option<String> {
    if Step::Dial.is(packet.procedure, &packet.bytes) {
        return Some("dial".to_owned());
    }
    // A domain is called so and by 16 letters; the images of these tests by two digits.
    [("proxy-", 16), ("base-img", 2)]
        .iter()
        .find_map(|(start, rest)| {
            let at = super::step::find(&packet.bytes, start)?;
            let name = packet.bytes.get(at..at + start.len() + rest)?;
            Some(String::from_utf8_lossy(name).into_owned())
        })
}
