//! `kvm-upload`: how fast an image gets into the pool of a host.
//!
//! Measured: 1 GiB of bytes that cannot be compressed, from the moment that a domain is asked for whose
//! image the host has not, until its marker is written (as the file system of the pool says): looking for
//! it, fetching it from a server on loopback, hashing it, sending it through the tunnel, marking it as whole.
//! Baseline: `virsh vol-upload` of the same file over `qemu+ssh` into a volume made before, its
//! connection included. The two take turns; the ratio is the median of the rounds'.

use super::{
    Backend, config,
    disk::Disk,
    hypervisor, request,
    virsh::{self, Virsh},
};
use crate::{
    hypervisor::Hypervisor,
    process,
    report::{Bar, Row, median},
};
use anyhow::Context as _;
use sha2::{Digest, Sha256};
use std::{
    fs::File,
    io::Read as _,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

pub const MIB: usize = 1024;
const ROUNDS: usize = 5;
const KEY: &str = "big";
const VOLUME: &str = "by-virsh.raw";

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let disk = Disk::random(home.path(), MIB).await?;
    let host = hypervisor(0).await?;
    let backend = Backend::start(config(&[&host], &[(KEY, &disk)])?).await?;
    let virsh = Virsh::to(&host)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Whoever comes first finds the machine in another state than who comes second.
        if round % 2 == 0 {
            ours.push(by_us(&backend, &host, &disk, round).await?);
            theirs.push(by_virsh(&virsh, &host, &disk).await?);
        } else {
            theirs.push(by_virsh(&virsh, &host, &disk).await?);
            ours.push(by_us(&backend, &host, &disk, round).await?);
        }
        let (our, their) = (ours[round], theirs[round]);
        eprintln!("bench: kvm-upload: {our:.1?}, virsh {their:.1?}");
    }
    let connecting = virsh.time(&["version"]).await?;
    let (fetching, hashing) = (fetch(&disk).await?, hash(&disk)?);
    eprintln!(
        "bench: kvm-upload: fetching alone {fetching:.1?}, hashing alone {hashing:.1?}; \
         virsh's connection {connecting:.1?}"
    );
    let ratios = ours.iter().zip(&theirs);
    let ratio = median(ratios.map(|(our, their)| their.as_secs_f64() / our.as_secs_f64()));
    Ok(vec![Row::of_ratio(
        "kvm-upload",
        "MiB/s of 1 GiB",
        speed(&ours),
        speed(&theirs),
        ratio,
        Bar::AtLeast(0.9),
    )])
}

#[expect(clippy::cast_precision_loss, reason = "a small number")]
fn speed(times: &[Duration]) -> f64 {
    median(times.iter().map(|time| MIB as f64 / time.as_secs_f64()))
}

async fn by_us(
    backend: &Backend,
    host: &Hypervisor,
    disk: &Disk,
    round: usize,
) -> anyhow::Result<Duration> {
    let (begun, cpu) = (SystemTime::now(), process::cpu(std::process::id())?);
    let made = backend.create(request(round, 0, KEY)).await?;
    let cpu = process::cpu(std::process::id())?.saturating_sub(cpu);
    let stored = virsh::stored(host, KEY, disk).await?;
    let took = stored
        .checked_sub(begun.duration_since(UNIX_EPOCH)?)
        .context("the marker is older than the request")?;
    eprintln!("bench: kvm-upload: {cpu:.1?} of processor time");
    backend.delete(&made.id).await?;
    virsh::forget(host, KEY, disk).await?;
    Ok(took)
}

async fn by_virsh(virsh: &Virsh, host: &Hypervisor, disk: &Disk) -> anyhow::Result<Duration> {
    let (pool, file) = (&*host.pool, disk.file.to_str().context("UTF-8")?);
    host.virsh(&["vol-create-as", pool, VOLUME, "1", "--format", "raw"])
        .await?;
    let upload = ["vol-upload", "--pool", pool, VOLUME, file];
    let took = virsh.time(&upload).await?;
    host.virsh(&["vol-delete", "--pool", pool, VOLUME]).await?;
    virsh::settle(host).await?;
    Ok(took)
}

/// What fetching costs when nothing is done with what comes.
async fn fetch(disk: &Disk) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let mut response = reqwest::get(&disk.url).await?.error_for_status()?;
    while response.chunk().await?.is_some() {}
    Ok(begun.elapsed())
}

/// What hashing costs, beside reading what lies in memory.
fn hash(disk: &Disk) -> anyhow::Result<Duration> {
    let (mut file, mut hash) = (File::open(&disk.file)?, Sha256::new());
    let (mut piece, mut took) = (vec![0; 256 << 10], Duration::ZERO);
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(took);
        }
        let begun = Instant::now();
        hash.update(&piece[..read]);
        took += begun.elapsed();
    }
}
