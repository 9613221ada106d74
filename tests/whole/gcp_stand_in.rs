//! That the stand-in for Compute Engine is one for others than us, too.

use crate::lab::gce::{Gce, Options};
use anyhow::{Context as _, ensure};
use std::time::Duration;
use tokio::{process::Command, time::timeout};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/google-client.sh");
/// The first time it is installed.
const PATIENCE: Duration = Duration::from_mins(5);

/// Google's own Python client creates, waits, reads, lists, stops and deletes.
pub async fn googles_python_client_takes_it_for_google() -> anyhow::Result<()> {
    let gce = Gce::start(Options {
        speed: 100.0,
        ..Options::default()
    })
    .await?;
    let run = Command::new(SCRIPT)
        .args([&gce.endpoint(), "lab-project"])
        .env("TOKEN", gce.token())
        .kill_on_drop(true)
        .output();
    let run = timeout(PATIENCE, run)
        .await
        .context("it takes too long")??;
    let (told, error) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    ensure!(
        run.status.success() && told.trim() == "all well",
        "{told}{error}"
    );
    // It really was the stand-in that it spoke to.
    for (method, least) in [
        ("compute.instances.insert", 6),
        ("compute.instances.aggregatedList", 3),
        ("compute.zoneOperations.wait", 10),
        ("compute.instances.delete", 6),
    ] {
        let count = gce.count(method);
        ensure!(count >= least, "{method}: only {count}");
    }
    let wrongs = gce.take_wrongs();
    ensure!(wrongs.is_empty(), "{wrongs:#?}");
    Ok(())
}
