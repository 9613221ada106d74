//! What everybody has: `virsh` over `qemu+ssh`, and removing what a round leaves behind.

use super::Disk;
use crate::hypervisor::Hypervisor;
use anyhow::{Context as _, ensure};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::process::Command;

/// A way to one host for `virsh` on this machine.
pub struct Virsh {
    uri: String,
    _home: TempDir,
}

impl Virsh {
    pub fn to(host: &Hypervisor) -> anyhow::Result<Self> {
        // libvirt takes a file of known hosts only where it speaks SSH itself, which Debian's does not.
        let home = tempfile::tempdir()?;
        let ssh = home.path().join("ssh");
        let known = host.known_hosts.display();
        fs::write(
            &ssh,
            format!(
                "#!/bin/sh\nexec ssh -o UserKnownHostsFile={known} -o GlobalKnownHostsFile=/dev/null \"$@\"\n"
            ),
        )?;
        fs::set_permissions(&ssh, Permissions::from_mode(0o700))?;
        let (address, user) = (host.address.ip(), &host.user);
        let (key, ssh) = (host.key.display(), ssh.display());
        Ok(Self {
            uri: format!("qemu+ssh://{user}@{address}/system?keyfile={key}&command={ssh}"),
            _home: home,
        })
    }

    /// How long a call takes, with its connection.
    pub async fn time(&self, words: &[&str]) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        self.run(words).await?;
        Ok(begun.elapsed())
    }

    /// What it prints.
    pub async fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        let output = Command::new("virsh")
            .args(["-q", "-c", &self.uri])
            .args(words)
            .kill_on_drop(true)
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "virsh {words:?}: {}", said.trim());
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Removes the image `key` from the host, so that it is fetched again.
pub async fn forget(host: &Hypervisor, key: &str, disk: &Disk) -> anyhow::Result<()> {
    let volume = disk.volume(key);
    for name in [format!("{volume}.json"), volume] {
        host.virsh(&["vol-delete", "--pool", &host.pool, &name])
            .await?;
    }
    settle(host).await
}

/// Waits until all that was written is on its disk, so that no round pays for another.
pub async fn settle(host: &Hypervisor) -> anyhow::Result<()> {
    host.exec(&["sync"]).await.map(drop)
}

/// When the last byte of the image's marker was written, since 1970: then the image was there.
pub async fn stored(host: &Hypervisor, key: &str, disk: &Disk) -> anyhow::Result<Duration> {
    let marker = format!("{}.json", disk.volume(key));
    let path = host
        .virsh(&["vol-path", "--pool", &host.pool, &marker])
        .await?;
    let time = host.exec(&["stat", "-c", "%.9Y", path.trim()]).await?;
    let (seconds, nanos) = time.trim().split_once('.').context("a time")?;
    Ok(Duration::new(seconds.parse()?, nanos.parse()?))
}
