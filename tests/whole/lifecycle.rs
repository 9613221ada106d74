//! The main job: a Proxy is applied, proven, leased, used, and goes without a trace.

use crate::lab::{
    Scene, proxy,
    proxy::{condition, ip},
};
use anyhow::{Context as _, ensure};
use crds::{Phase, conditions::ConditionType};
use serde_json::json;
use std::time::{Duration, Instant};

pub async fn a_managed_proxy_lives_and_goes(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    let begun = Instant::now();
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    let object = a.becomes(Phase::Ready).await?;
    let took = begun.elapsed();
    ensure!(took < Duration::from_secs(30), "Ready after {took:?}");
    ensure!(
        condition(&object, ConditionType::Provisioned).map(|said| said.1) == Some("Running"),
        "{object:?}"
    );
    let ip = ip(&object)?;
    let pod = a.pod().await?;
    ensure!(pod.status.and_then(|status| status.pod_ip).as_ref() == Some(&ip));

    let lease = operator.lease(json!({"target": "shop.example"})).await?;
    ensure!(lease["proxy"]["ip"] == ip.as_str(), "{lease}");
    let peer = ip.parse().context("an address")?;
    ensure!(scene.lab().judge.count_from(&a.page(), peer) > 0);

    a.delete().await?;
    a.is_gone().await?;
    ensure!(scene.pods().await?.is_empty(), "a pod is left");
    ensure!(operator.shown().await?.is_empty());
    Ok(())
}
