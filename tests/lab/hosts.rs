//! The hypervisors of a lab: two that scenarios share, and some to break.

use super::hypervisor::{Hypervisor, is_kept};
use anyhow::{Context as _, anyhow, ensure};
use std::{
    collections::BTreeSet,
    ops::Deref,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};
use tokio::{
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

/// So many hosts belong to one lab, so that labs with other indices have theirs on the same machine.
const HOSTS: u8 = 8;
/// Of them, those that are shared.
const SHARED: u8 = 2;
/// The highest index that `hypervisor.sh` takes.
const HIGHEST: u8 = 200;

/// All hypervisors of a lab. None is started before it is asked for.
pub struct Hosts {
    folder: PathBuf,
    lab_index: u8,
    begun: Mutex<BTreeSet<u8>>,
    cleared: OnceCell<()>,
    shared: OnceCell<Result<[Hypervisor; SHARED as usize], String>>,
    seats: Arc<Seats>,
}

impl Hosts {
    /// Those of the lab with this index, none of them started.
    pub fn new(folder: PathBuf, lab_index: u8) -> Self {
        let seats = Seats {
            free: Mutex::new((SHARED..HOSTS).collect()),
            permits: Arc::new(Semaphore::new(usize::from(HOSTS - SHARED))),
        };
        Self {
            folder,
            lab_index,
            begun: Mutex::default(),
            cleared: OnceCell::new(),
            shared: OnceCell::new(),
            seats: Arc::new(seats),
        }
    }

    /// Two hosts, the same for all; whoever asks must leave them as they were.
    ///
    /// # Errors
    /// That they do not start, to everybody who asks.
    pub async fn shared(&self) -> anyhow::Result<&[Hypervisor; SHARED as usize]> {
        let start = async || {
            let both = tokio::try_join!(self.start(0), self.start(1));
            both.map(Into::into).map_err(|error| format!("{error:#}"))
        };
        let hosts = self.shared.get_or_init(start).await.as_ref();
        hosts.map_err(|error| anyhow!("{error}"))
    }

    /// A host of one's own, to break; it ends when it is dropped. Waits while there are too many.
    ///
    /// # Errors
    /// That it does not start.
    pub async fn own(&self) -> anyhow::Result<OwnHost> {
        let seat = Seat::take(&self.seats).await?;
        let host = self.start(seat.number).await?;
        Ok(OwnHost { host, _seat: seat })
    }

    async fn start(&self, number: u8) -> anyhow::Result<Hypervisor> {
        let index = self.index(number)?;
        self.cleared.get_or_try_init(|| self.clear()).await?;
        lock(&self.begun).insert(index);
        Hypervisor::start(&self.folder, index).await
    }

    /// Removes what a run that was killed left behind, also where this one starts nothing.
    async fn clear(&self) -> anyhow::Result<()> {
        let folder = self.folder.clone();
        spawn_blocking(move || down(&folder, Hypervisor::left_in(&folder))).await?
    }

    /// Among all hosts on the machine.
    fn index(&self, number: u8) -> anyhow::Result<u8> {
        let highest = HIGHEST / HOSTS;
        ensure!(
            (1..=highest).contains(&self.lab_index),
            "LAB_INDEX={}: labs with hypervisors have 1 to {highest}",
            self.lab_index
        );
        Ok((self.lab_index - 1) * HOSTS + number + 1)
    }

    /// Ends all that were begun, unless they are to stay up: then says how to reach them.
    pub fn end(&self) {
        let begun: Vec<u8> = lock(&self.begun).iter().copied().collect();
        if is_kept() {
            let folder = self.folder.display();
            for index in begun {
                eprintln!(
                    "whole: a hypervisor stays up:\n  tests/lab/hypervisor.sh exec {folder} {index} virsh list --all\n  \
                     tests/lab/hypervisor.sh down {folder} {index}    ends it"
                );
            }
        } else if let Err(error) = down(&self.folder, begun) {
            eprintln!("whole: {error:#}");
        }
    }
}

/// Ends them side by side.
fn down(folder: &std::path::Path, indices: Vec<u8>) -> anyhow::Result<()> {
    let ends: Vec<_> = indices
        .into_iter()
        .map(|index| {
            let folder = folder.to_owned();
            thread::spawn(move || Hypervisor::down(&folder, index))
        })
        .collect();
    for end in ends {
        end.join()
            .map_err(|_| anyhow!("ending a hypervisor panicked"))??;
    }
    Ok(())
}

/// A hypervisor that nobody else uses.
pub struct OwnHost {
    // It has to be gone before its place is free.
    host: Hypervisor,
    _seat: Seat,
}

impl Deref for OwnHost {
    type Target = Hypervisor;

    fn deref(&self) -> &Hypervisor {
        &self.host
    }
}

struct Seats {
    free: Mutex<BTreeSet<u8>>,
    permits: Arc<Semaphore>,
}

struct Seat {
    number: u8,
    seats: Arc<Seats>,
    _permit: OwnedSemaphorePermit,
}

impl Seat {
    async fn take(seats: &Arc<Seats>) -> anyhow::Result<Self> {
        let permit = Arc::clone(&seats.permits).acquire_owned().await?;
        let number = lock(&seats.free).pop_first();
        Ok(Self {
            number: number.context("as many seats as permits")?,
            seats: Arc::clone(seats),
            _permit: permit,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        // Before the permit, which is dropped after this.
        lock(&self.seats.free).insert(self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every write is complete in itself.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
