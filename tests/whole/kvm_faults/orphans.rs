//! What is left of Proxies that went without their finalizer.

use super::stand::Stand;
use crate::{lab::Scene, whole::kvm_life::domain};
use anyhow::ensure;

/// A VM, the volumes of one that is half gone, and a VM that lives: only the last one stays.
pub async fn what_no_proxy_accounts_for_is_collected(scene: Scene) -> anyhow::Result<()> {
    let environment = vec![
        ("PROXY_OPERATOR_GC_INTERVAL", "2s"),
        ("PROXY_OPERATOR_GC_MIN_AGE", "0"),
    ];
    let stand = Stand::with(&scene, 1, environment).await?;
    let [target] = &*stand.targets else {
        anyhow::bail!("one host");
    };
    let host = &target.host;
    let proxies = stand.apply(target, 3, 0).await?;
    stand.is_well(target).await?;
    let (half, kept) = (domain(&proxies[1]).await?, domain(&proxies[2]).await?);
    let before = host.virsh(&["domuuid", &kept]).await?;

    stand.kill().await?;
    stand.abandon(target, 2).await?;
    host.virsh(&["destroy", &half]).await?;
    host.virsh(&["undefine", &half]).await?;
    stand.start_again().await?;
    stand.is_well(target).await?;
    let after = host.virsh(&["domuuid", &kept]).await?;
    ensure!(after == before, "the live one is another");
    stand.end().await
}
