//! Instances that no Proxy accounts for.

use super::google::{AT_ONCE, Google, PROJECT, ZONE};
use crate::lab::{Scene, eventually, proxy::PATIENCE};
use anyhow::{Context as _, ensure};
use crds::{Phase, ProviderHealth, conditions::ConditionType};
use kube::Api;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Where Google cannot look for a while.
const DARK: &str = "us-east1-b";

fn marks(installation: &str) -> Value {
    json!({
        "proxy-operator-managed": "true",
        "proxy-operator-uid": "gone",
        "proxy-operator-installation": installation,
    })
}

/// What has our marks and no Proxy goes; what is somebody else's, or nobody's, stays, and so does what is in a
/// zone that does not answer. What is checked is the project.
pub async fn what_is_not_ours_stays(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    let operator = google
        .operator()?
        .env("PROXY_OPERATOR_GC_INTERVAL", "1s")
        .env("PROXY_OPERATOR_GC_MIN_AGE", "5s")
        .start()
        .await?;
    let a = scene.apply(google.proxy("a", ZONE)).await?;
    let b = scene.apply(google.proxy("b", DARK)).await?;
    a.becomes(Phase::Ready).await?;
    b.becomes(Phase::Ready).await?;
    let live = [
        google.instance(&a).await?.name,
        google.instance(&b).await?.name,
    ];

    let ours = scene.namespace();
    for (zone, name, labels) in [
        (ZONE, "orphan", marks(ours)),
        ("asia-east1-a", "orphan-far", marks(ours)),
        (DARK, "orphan-dark", marks(ours)),
        (ZONE, "foreign", marks(&format!("{ours}-2"))),
        (
            ZONE,
            "half-marked",
            json!({"proxy-operator-managed": "true"}),
        ),
        (ZONE, "unmarked", json!({"app": "web"})),
    ] {
        let now = google.gce.now();
        let mut world = google.gce.world();
        world.unreachable.insert(DARK.to_owned());
        world.place(zone, name, &labels, now);
    }
    let names = || -> BTreeSet<String> {
        let all = google.gce.world().resources(google.gce.now());
        let names = all.iter().filter_map(|one| one["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let kept = ["foreign", "half-marked", "unmarked"].map(str::to_owned);
    let stay: BTreeSet<String> = kept.iter().chain(&live).cloned().collect();
    let mut dark = stay.clone();
    dark.insert("orphan-dark".to_owned());
    are(&names, &dark).await?;
    let swept = operator.said("swept for orphans")?.len();
    operator.says("swept for orphans", swept + 3).await?;
    ensure!(names() == dark, "{:?}", names());
    let unseen = "Google cannot reach zones now, so their VMs are not listed";
    ensure!(!operator.said(unseen)?.is_empty());
    operator.shows(&[&a, &b]).await?;

    google.gce.world().unreachable.clear();
    are(&names, &stay).await?;
    let swept = operator.said("swept for orphans")?.len();
    operator.says("swept for orphans", swept + 3).await?;
    ensure!(names() == stay, "{:?}", names());
    let deleted = "proxy_operator_gc_orphans_deleted_total";
    ensure!(operator.metric(deleted).await? == 3);
    is_checked(&scene, &google).await?;

    for name in kept {
        let now = google.gce.now();
        google.gce.world().vanish(&name, now);
    }
    for proxy in [&a, &b] {
        proxy.delete().await?;
    }
    for proxy in [&a, &b] {
        proxy.is_gone().await?;
    }
    google.is_left_clean()
}

/// Waits until there are these instances and no others.
async fn are(
    names: &impl Fn() -> BTreeSet<String>,
    expected: &BTreeSet<String>,
) -> anyhow::Result<()> {
    eventually(&format!("{expected:?} are left"), PATIENCE, || async {
        Ok((names() == *expected).then_some(()))
    })
    .await
}

/// The project is the target, and the tightest quota is told.
async fn is_checked(scene: &Scene, google: &Google) -> anyhow::Result<()> {
    let all: Api<ProviderHealth> = Api::all(scene.lab().client.clone());
    let health = eventually("it is checked", PATIENCE, || async {
        let found = all.get_opt(&google.provider).await?;
        Ok(found.filter(|health| health.status.is_some()))
    })
    .await?;
    let status = health.status.context("a status")?;
    let [target] = &status.targets[..] else {
        anyhow::bail!("not one target: {status:?}");
    };
    ensure!(target.name == PROJECT, "{target:?}");
    ensure!(target.reason.as_deref() == Some("Reachable"), "{target:?}");
    ensure!(
        target.address.as_deref() == Some(&google.gce.endpoint()),
        "{target:?}"
    );
    let quota = target.details.get("quota").map(String::as_str);
    ensure!(quota == Some("NETWORKS: 1 of 50"), "{target:?}");
    let ready = crds::conditions::get(&status.conditions, ConditionType::Ready);
    ensure!(
        ready.is_some_and(|ready| ready.status == "True"),
        "{status:?}"
    );
    Ok(())
}
