//! What others do behind the operator's back: to domains and volumes, and to the files that it dials with.

use super::stand::Stand;
use crate::{
    lab::{Scene, eventually, proxy::Applied},
    whole::kvm_life::domain,
};
use anyhow::{Context as _, ensure};
use crds::conditions::ConditionType;
use std::{fs, time::Duration};

const PATIENCE: Duration = Duration::from_mins(3);

/// Stopped, paused, undefined, without a disk, without an image: everything is made whole again.
pub async fn what_happens_behind_its_back_is_mended(scene: Scene) -> anyhow::Result<()> {
    let stand = Stand::new(&scene, 1).await?;
    let [target] = &*stand.targets else {
        anyhow::bail!("one host");
    };
    let host = &target.host;
    let proxies = stand.apply(target, 4, 0).await?;
    stand.is_well(target).await?;
    let mut before = Vec::new();
    for applied in &proxies {
        let name = domain(applied).await?;
        before.push((name.clone(), host.virsh(&["domuuid", &name]).await?));
    }
    let [stopped, paused, undefined, diskless] = &*before else {
        anyhow::bail!("four domains");
    };
    host.virsh(&["destroy", &stopped.0]).await?;
    host.virsh(&["suspend", &paused.0]).await?;
    host.virsh(&["destroy", &undefined.0]).await?;
    host.virsh(&["undefine", &undefined.0]).await?;
    let mark = proxy_operator::providers::kvm::volume::installation_mark(scene.namespace());
    let overlay = proxy_operator::providers::kvm::volume::overlay_name(&diskless.0, &mark);
    host.virsh(&["vol-delete", &overlay, &host.pool]).await?;
    host.virsh(&["destroy", &diskless.0]).await?;
    for (name, uuid) in &before {
        eventually(&format!("{name} is another one"), PATIENCE, || async {
            let now = host.virsh(&["domuuid", name]).await?;
            Ok((now != *uuid).then_some(()))
        })
        .await?;
    }
    stand.is_well(target).await?;

    // Nobody needs the image any more, and somebody removes it without its marker.
    let all = proxies.len();
    stand.delete(target, all).await?;
    stand.is_well(target).await?;
    for name in host.volumes().await? {
        if proxy_operator::providers::kvm::volume::is_base(&name) {
            host.virsh(&["vol-delete", &name, &host.pool]).await?;
        }
    }
    stand.apply(target, 1, 0).await?;
    stand.is_well(target).await?;
    stand.end().await
}

/// A key that the host refuses, a host key that is not the one known: told, and mended by the files alone.
pub async fn a_refused_key_is_tried_again(scene: Scene) -> anyhow::Result<()> {
    let stand = Stand::new(&scene, 1).await?;
    let [target] = &*stand.targets else {
        anyhow::bail!("one host");
    };
    let host = &target.host;
    let (key, known_hosts) = (scene.path("key"), scene.path("known_hosts"));
    fs::copy(&host.key, &key)?;
    fs::copy(&host.known_hosts, &known_hosts)?;
    stand.kill().await?;
    stand
        .start(
            &key.display().to_string(),
            &known_hosts.display().to_string(),
        )
        .await?;
    stand.apply(target, 2, 0).await?;
    stand.is_well(target).await?;

    let other = scene.path("other");
    let made = tokio::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&other)
        .status()
        .await?;
    ensure!(made.success(), "ssh-keygen: {made}");
    let other_line = fs::read_to_string(other.with_extension("pub"))?;
    let changed = format!("{} {other_line}", host.address.ip());
    let right = (fs::read(&key)?, fs::read(&known_hosts)?);
    let rows: [(_, &[u8], &str); 3] = [
        (&key, &fs::read(&other)?, "refuse"),
        (&known_hosts, changed.as_bytes(), "key"),
        (&key, b"no key at all", "key"),
    ];
    for (file, wrong, word) in rows {
        fs::write(file, wrong)?;
        host.hang_up().await?;
        let coming = stand.apply(target, 1, 0).await?;
        let leaving = stand.delete(target, 1).await?;
        for proxies in [&coming, &leaving] {
            stand
                .say(target, proxies, ConditionType::Synced, &[word])
                .await?;
        }
        says(&coming, "PermanentError").await?;
        fs::write(&key, &right.0)?;
        fs::write(&known_hosts, &right.1)?;
        let well = stand.is_well(target).await;
        well.with_context(|| format!("after {}", file.display()))?;
    }
    stand.end().await
}

async fn says(proxies: &[Applied], reason: &str) -> anyhow::Result<()> {
    for applied in proxies {
        applied.says(ConditionType::Synced, reason).await?;
    }
    Ok(())
}
