//! `kvm-upload-rss`: what an upload makes of the operator's memory.
//!
//! Each upload is done by a process of its own, which has the provider and nothing else, connected and
//! at rest. The growth is the most that the kernel saw resident since then (`VmHWM`, set back through
//! `/proc/self/clear_refs`) less what was resident before.

use super::{Backend, config, disk::Disk, hypervisor, request, upload, virsh};
use crate::{
    process::{self, Helper},
    report::{Bar, Row},
};
use std::{fs, time::Duration};

const BAR_MIB: f64 = 32.0;
const SMALL_MIB: usize = 64;
const KEY: &str = "disk";

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let host = hypervisor(0).await?;
    let mut grown = Vec::new();
    for mib in [SMALL_MIB, upload::MIB] {
        let disk = Disk::random(home.path(), mib).await?;
        let config = config(&[&host], &[(KEY, &disk)])?.to_string();
        let mut uploader = Helper::start(&["upload", &config])?;
        let growth: f64 = uploader.line_within(super::PATIENCE).await?.parse()?;
        eprintln!("bench: kvm-upload-rss: {growth:.1} MiB for an image of {mib} MiB");
        grown.push(growth);
        virsh::forget(&host, KEY, &disk).await?;
    }
    Ok(vec![
        Row::new(
            "kvm-upload-rss",
            "MiB for 1 GiB, baseline is the bar",
            grown[1],
            BAR_MIB,
            Bar::AtMost(1.0),
        ),
        Row::new(
            "kvm-upload-rss.size",
            "MiB for 1 GiB, against 64 MiB",
            grown[1],
            grown[0],
            Bar::None,
        ),
    ])
}

/// The role: brings the image across by making a domain, and says by how many MiB that made it grow.
pub async fn upload(config: &str) -> anyhow::Result<()> {
    let backend = Backend::start(serde_json::from_str(config)?).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let me = std::process::id();
    let before = process::rss_mib(me)?;
    fs::write("/proc/self/clear_refs", "5")?;
    let made = backend.create(request(0, 0, KEY)).await?;
    let growth = process::kib(me, "VmHWM:")? / 1024.0 - before;
    backend.delete(&made.id).await?;
    println!("{growth:.2}");
    Ok(())
}
