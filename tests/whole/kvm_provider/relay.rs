//! A relay in front of libvirtd's socket that reads libvirt's packets, so that any call can be cut off,
//! held up or left without an answer, and an upload be cut in the middle of its bytes.
//!
//! A host's `socket` in the config leads here; sshd opens it as it would open libvirtd's own.

use crate::{
    conformance::{Fault, Faults},
    lab::libvirt_packet::{HEADER, Packet, accept},
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
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
};

/// Calls that open and close a connection, and the sign of life that is asked for every 15 s: open,
/// close, type, host name, feature, authentication, URI.
const OPENING: [u32; 7] = [1, 2, 3, 59, 60, 66, 110];

/// Which calls are steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// Those that serve a request.
    Work,
    /// Those that open a connection.
    Opening,
}

/// A relay, until it is dropped.
pub struct Relay {
    /// The socket that stands for libvirtd's.
    pub socket: PathBuf,
    shared: Arc<Shared>,
    _folder: TempDir,
    _listener: JoinSet<()>,
}

struct Shared {
    beyond: PathBuf,
    steps_are: Steps,
    fault: watch::Sender<Fault>,
    steps: AtomicUsize,
    /// The step that libvirtd is made to refuse; 0 for none.
    refused: AtomicUsize,
    /// How many times everything was cut.
    cuts: watch::Sender<u64>,
    /// Data of streams, in bytes, that may pass before everything is cut.
    stream_left: AtomicU64,
    /// The procedures of all steps, for a failure's message.
    seen: Mutex<Vec<u32>>,
}

impl Relay {
    /// Puts a relay in front of `beyond`.
    ///
    /// # Errors
    /// When no socket can be made.
    pub fn start(beyond: &Path, steps_are: Steps) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("libvirt-sock");
        let listener = UnixListener::bind(&socket)?;
        let shared = Arc::new(Shared {
            beyond: beyond.to_owned(),
            steps_are,
            fault: watch::Sender::new(Fault::None),
            steps: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            cuts: watch::Sender::new(0),
            stream_left: AtomicU64::new(u64::MAX),
            seen: Mutex::default(),
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

    /// Cuts everything, once, when so many bytes of streams' data have passed: in the middle of a packet, or of
    /// the next one's header where they end with one. Headers do not count, since what a server sends comes in
    /// another number of packets each time.
    pub fn cut_in_stream(&self, bytes: u64) {
        self.shared.stream_left.store(bytes, Ordering::SeqCst);
    }

    /// From now on libvirtd answers this step with an error, and all others as ever; steps are counted
    /// from 1 again.
    pub fn refuse_at(&self, step: usize) {
        self.break_at(Fault::None);
        self.shared.refused.store(step, Ordering::SeqCst);
    }

    /// How many bytes of data are left until the cut of [`Self::cut_in_stream`]; none after it.
    pub fn stream_left(&self) -> Option<u64> {
        let left = self.shared.stream_left.load(Ordering::SeqCst);
        (left != u64::MAX).then_some(left)
    }

    /// The procedure numbers of the steps since the last [`Faults::break_at`].
    pub fn procedures(&self) -> Vec<u32> {
        self.shared.seen().clone()
    }
}

impl Faults for Relay {
    fn break_at(&self, fault: Fault) {
        self.shared.steps.store(0, Ordering::SeqCst);
        self.shared.refused.store(0, Ordering::SeqCst);
        self.shared.seen().clear();
        self.shared.fault.send_replace(fault);
    }

    fn steps(&self) -> usize {
        self.shared.steps.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Vec<u32>> {
        // Every write is complete in itself.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of this step, if the packet is one.
    fn step(&self, packet: &Packet) -> Option<usize> {
        let is_opening = OPENING.contains(&packet.procedure);
        let counts = packet.is_call() && is_opening == (self.steps_are == Steps::Opening);
        counts.then(|| {
            self.seen().push(packet.procedure);
            self.steps.fetch_add(1, Ordering::SeqCst) + 1
        })
    }

    async fn until(&self, over: impl Fn(&Fault) -> bool) {
        // The sender is here, so it does not end.
        self.fault.subscribe().wait_for(over).await.ok();
    }
}

async fn carry(near: UnixStream, shared: Arc<Shared>) -> anyhow::Result<()> {
    let shared = &*shared;
    let mut cuts = shared.cuts.subscribe();
    let far = UnixStream::connect(&shared.beyond).await?;
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    let marked = watch::Sender::new(Marked::default());
    tokio::select! {
        ended = there(from_near, to_far, shared, &marked) => ended,
        ended = back(from_far, to_near, shared, &marked) => ended,
        cut = cuts.changed() => Ok(cut?),
    }
}

/// Calls of a connection whose answers are not passed on as they are, by serial number.
#[derive(Clone, Copy, Default)]
struct Marked {
    /// After its answer everything is cut.
    last: Option<u32>,
    /// This one was made to be another procedure than this.
    refused: Option<(u32, u32)>,
}

async fn there(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    marked: &watch::Sender<Marked>,
) -> anyhow::Result<()> {
    while let Some(mut packet) = Packet::read(&mut from).await? {
        let step = shared.step(&packet);
        let fault = *shared.fault.borrow();
        match (fault, step) {
            (Fault::CutBefore(cut), Some(step)) if cut == step => {
                shared.cut();
                return Ok(());
            }
            (Fault::CutAfter(cut), Some(step)) if cut == step => {
                marked.send_modify(|marked| marked.last = Some(packet.serial));
            }
            (Fault::Late(late), Some(step)) if late == step => {
                shared.until(|fault| !matches!(fault, Fault::Late(_))).await;
            }
            (Fault::Silence, _) => shared.until(|fault| *fault != Fault::Silence).await,
            _ => {}
        }
        if step.is_some_and(|step| step == shared.refused.load(Ordering::SeqCst)) {
            let refused = Some((packet.serial, packet.procedure));
            marked.send_modify(|marked| marked.refused = refused);
            packet.be(NO_PROCEDURE);
        }
        let mut bytes = &packet.bytes[..];
        let left = shared.stream_left.load(Ordering::SeqCst);
        if packet.is_stream() && left != u64::MAX {
            let data = (bytes.len() - HEADER) as u64;
            if left < data.max(1) {
                let passed = usize::try_from(left)?;
                bytes = &bytes[..if passed == 0 {
                    HEADER / 2
                } else {
                    HEADER + passed
                }];
                to.write_all(bytes).await?;
                shared.stream_left.store(u64::MAX, Ordering::SeqCst);
                shared.cut();
                return Ok(());
            }
            shared.stream_left.store(left - data, Ordering::SeqCst);
        }
        to.write_all(bytes).await?;
    }
    Ok(())
}

async fn back(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    marked: &watch::Sender<Marked>,
) -> anyhow::Result<()> {
    while let Some(mut packet) = Packet::read(&mut from).await? {
        let Marked { last, refused } = *marked.borrow();
        if packet.is_reply() && last == Some(packet.serial) {
            shared.cut();
            return Ok(());
        }
        if let Some((serial, procedure)) = refused
            && packet.is_reply()
            && packet.serial == serial
        {
            packet.be(procedure);
        }
        to.write_all(&packet.bytes).await?;
    }
    Ok(())
}

/// One that no libvirt has.
const NO_PROCEDURE: u32 = 60_000;
