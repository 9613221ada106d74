//! A host is away for longer than the keepalive waits.

use super::stand::{Stand, Target};
use crate::lab::{Scene, hypervisor::Daemon};
use anyhow::ensure;
use crds::conditions::ConditionType;
use std::time::{Duration, Instant};

/// A VM comes or goes within this time if nothing stands in its way: a poll of ten seconds and some
/// calls, on a busy machine.
const PROMPT: Duration = Duration::from_secs(45);

/// One of two hosts is cut off: on the other one VMs come and go as ever.
pub async fn a_host_that_is_away_delays_nobody(scene: Scene) -> anyhow::Result<()> {
    let stand = Stand::new(&scene, 2).await?;
    let [cut, other] = &*stand.targets else {
        anyhow::bail!("two hosts");
    };
    for target in [cut, other] {
        stand.apply(target, 2, 0).await?;
        stand.is_well(target).await?;
    }
    cut.host.cut().await?;
    let leaving = stand.delete(cut, 1).await?;
    let coming = stand.apply(cut, 1, 0).await?;
    let begun = Instant::now();
    // The keepalive gives the connection up after 45 s; then it is dialled in vain, for 30 s each time.
    while begun.elapsed() < Duration::from_secs(80) {
        comes_and_goes(&stand, other).await?;
    }
    for proxies in [&leaving, &coming] {
        stand.say(cut, proxies, ConditionType::Synced, &[]).await?;
    }
    cut.host.mend().await?;
    stand.is_well(cut).await?;
    stand.end().await
}

async fn comes_and_goes(stand: &Stand, target: &Target) -> anyhow::Result<()> {
    let begun = Instant::now();
    stand.apply(target, 1, 0).await?;
    stand.is_well(target).await?;
    let came = begun.elapsed();
    stand.delete(target, 1).await?;
    stand.is_well(target).await?;
    let gone = begun.elapsed();
    ensure!(
        came < PROMPT && gone < 2 * PROMPT,
        "came in {came:?}, gone in {gone:?}"
    );
    Ok(())
}

/// libvirtd stands still: SSH is fine, and nothing is answered.
pub async fn a_frozen_libvirtd_is_noticed(scene: Scene) -> anyhow::Result<()> {
    let stand = Stand::new(&scene, 1).await?;
    let [target] = &*stand.targets else {
        anyhow::bail!("one host");
    };
    stand.apply(target, 2, 0).await?;
    stand.is_well(target).await?;
    target.host.freeze(Daemon::Libvirtd).await?;
    let leaving = stand.delete(target, 1).await?;
    let coming = stand.apply(target, 1, 0).await?;
    for proxies in [&leaving, &coming] {
        stand
            .say(target, proxies, ConditionType::Synced, &[])
            .await?;
    }
    target.host.thaw(Daemon::Libvirtd).await?;
    stand.is_well(target).await?;
    stand.end().await
}
