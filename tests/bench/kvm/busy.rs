//! `kvm-busy-host`: what else is asked of a host that an image of 1 GiB is on its way to.
//!
//! Measured while bytes flow: `get` of a domain, `check`, `delete` of a domain that is not there and of one
//! whose guest has stopped, one after the other. The row is the slowest of the four. Uploads follow each
//! other until enough of each were seen; those that are deleted were made before.
//!
//! How long the `delete` of a running domain takes is told beside it, against `virsh destroy` on the host
//! itself: libvirtd looks only every 200 ms whether QEMU has gone (seen with strace), so that no bar below
//! that can be met.

use super::{Backend, absent, config, disk::Disk, hypervisor, millis, request, upload, virsh};
use crate::report::{Bar, Row, median, quantile};
use actors::provider::contract::ProviderId;
use anyhow::ensure;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const TINY: &str = "halting";
const BIG: &str = "big";
/// As many are deleted; of everything else there are three times as many.
const DOMAINS: usize = 35;
const EACH: usize = 3;
/// As many running ones are deleted, and destroyed.
const RUNNING: usize = 6;
/// More than enough on a slow machine.
const UPLOADS: usize = 20;
const BAR_MILLIS: f64 = 250.0;
const WORDS: [&str; 4] = ["get", "check", "delete (absent)", "delete (stopped)"];
/// What is left of an upload when it counts as over.
const LEFT: u64 = 8 << 20;

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let (tiny, big) = (
        Disk::halting().await?,
        Disk::random(home.path(), upload::MIB).await?,
    );
    let host = hypervisor(0).await?;
    let config = config(&[&host], &[(TINY, &tiny), (BIG, &big)])?;
    let backend = Arc::new(Backend::start(config).await?);
    let stays = backend.create(request(0, 0, TINY)).await?.id;
    let (mut going, mut running) = (Vec::new(), Vec::new());
    for number in 1..=DOMAINS {
        let (id, name) = make(&backend, number).await?;
        going.push(id);
        host.virsh(&["destroy", &name]).await?;
    }
    for number in 0..2 * RUNNING {
        running.push(make(&backend, 500 + number).await?);
    }
    let (mut deleted, mut destroyed) = (Vec::new(), Vec::new());
    let mut times: [Vec<f64>; 4] = Default::default();
    let downloaded = backend.downloaded(0);
    let mut uploads = 0;
    while !(going.is_empty() && running.is_empty()) {
        ensure!(uploads < UPLOADS, "{} domains are left", going.len());
        uploads += 1;
        let from = downloaded.get();
        let uploading = tokio::spawn({
            let backend = Arc::clone(&backend);
            async move { backend.create(request(1000 + uploads, 0, BIG)).await }
        });
        while downloaded.get() == from && !uploading.is_finished() {
            sleep(Duration::from_millis(1)).await;
        }
        let end = from + ((upload::MIB as u64) << 20) - LEFT;
        while downloaded.get() < end && !uploading.is_finished() {
            for _ in 0..EACH {
                let begun = Instant::now();
                backend.get(&stays).await?;
                times[0].push(millis(begun.elapsed()));
                let begun = Instant::now();
                backend.check().await?;
                times[1].push(millis(begun.elapsed()));
                let begun = Instant::now();
                backend.delete(&absent(0)).await?;
                times[2].push(millis(begun.elapsed()));
            }
            if let Some(id) = going.pop() {
                let begun = Instant::now();
                backend.delete(&id).await?;
                times[3].push(millis(begun.elapsed()));
            }
            let Some((id, name)) = running.pop() else {
                continue;
            };
            let begun = Instant::now();
            if running.len() % 2 == 0 {
                backend.delete(&id).await?;
                deleted.push(millis(begun.elapsed()));
            } else {
                host.virsh(&["destroy", &name]).await?;
                destroyed.push(millis(begun.elapsed()));
                backend.delete(&id).await?;
            }
        }
        let made = uploading.await??;
        backend.delete(&made.id).await?;
        virsh::forget(&host, BIG, &big).await?;
    }
    Ok(rows(times, median(deleted), median(destroyed)))
}

/// Makes a tiny domain; its key and its name.
async fn make(backend: &Backend, number: usize) -> anyhow::Result<(ProviderId, String)> {
    let order = request(number, 0, TINY);
    let name = order.name.clone();
    Ok((backend.create(order).await?.id, name))
}

fn rows(times: [Vec<f64>; 4], deleted: f64, destroyed: f64) -> Vec<Row> {
    let mut worst = 0.0;
    for (word, times) in WORDS.iter().zip(times) {
        let (count, half) = (times.len(), quantile(times.iter().copied(), 0.5));
        let most = quantile(times, 0.99);
        eprintln!("bench: kvm-busy-host: {word}: p50 {half:.1} ms, p99 {most:.1} ms of {count}");
        worst = f64::max(worst, most);
    }
    eprintln!(
        "bench: kvm-busy-host: delete (running): p50 {deleted:.1} ms, virsh destroy {destroyed:.1} ms"
    );
    let bar = Bar::AtMost(1.0);
    vec![
        Row::new(
            "kvm-busy-host",
            "ms p99 of the slowest, baseline is the bar",
            worst,
            BAR_MILLIS,
            bar,
        ),
        Row::new(
            "kvm-busy-host.run",
            "ms p50 of deleting a running one, and virsh destroy",
            deleted,
            destroyed,
            Bar::None,
        ),
    ]
}
