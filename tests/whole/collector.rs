//! Instances that no Proxy accounts for.

use crate::{
    lab::{
        Scene, eventually,
        gate::{Fate, Gate},
        operator::Launch,
        proxy::{Applied, PATIENCE, proxy},
    },
    whole::faults::{Killer, Point},
};
use anyhow::{Context as _, ensure};
use crds::Phase;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const DELETED: &str = "proxy_operator_gc_orphans_deleted_total";
const FAILED: &str = "proxy_operator_gc_sweep_failures_total";
const MIN_AGE: Duration = Duration::from_secs(8);

trait Collects {
    fn collecting(self) -> Self;
}

impl Collects for Launch {
    /// Every second, what is some seconds old.
    fn collecting(self) -> Self {
        let min_age = format!("{}s", MIN_AGE.as_secs());
        self.env("PROXY_OPERATOR_GC_INTERVAL", "1s")
            .env("PROXY_OPERATOR_GC_MIN_AGE", min_age)
    }
}

/// A pod with these marks, which no node ever runs.
async fn pod(scene: &Scene, name: &str, labels: Value) -> anyhow::Result<Pod> {
    let security = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": true, "runAsUser": 13, "seccompProfile": {"type": "RuntimeDefault"}});
    let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": {
        "schedulerName": "nobody",
        "containers": [{"name": "c", "image": "lab.local/squid:1", "securityContext": security}],
    }});
    scene.create(pod).await
}

fn marks(uid: &str, installation: &str) -> Value {
    json!({
        "proxy-operator-managed": "true",
        "proxy-operator-uid": uid,
        "proxy-operator-installation": installation,
    })
}

/// A pod that was a proxy's once.
pub async fn orphan(scene: &Scene, name: &str) -> anyhow::Result<Pod> {
    pod(
        scene,
        name,
        marks(&format!("gone-{name}"), scene.namespace()),
    )
    .await
}

async fn pods(scene: &Scene) -> anyhow::Result<BTreeSet<String>> {
    Ok(scene
        .pods()
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect())
}

/// Waits until there is no such pod.
pub async fn is_gone(scene: &Scene, name: &str) -> anyhow::Result<()> {
    eventually(&format!("{name} is gone"), PATIENCE, || async {
        Ok((!pods(scene).await?.contains(name)).then_some(()))
    })
    .await
}

/// Removes a Proxy's object and leaves its pod behind, as no operator would.
async fn abandon(scene: &Scene, applied: &Applied) -> anyhow::Result<String> {
    let pod = applied.pod().await?.name_any();
    let (pods, params): (Api<Pod>, _) = (scene.api(), PatchParams::default());
    let unowned = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    pods.patch(&pod, &params, &unowned).await?;
    applied
        .change(json!({"metadata": {"finalizers": null}}))
        .await?;
    applied.delete().await?;
    applied.is_gone().await?;
    Ok(pod)
}

/// What is ours, old and nobody's goes; what belongs to a Proxy, to another installation, or to nobody that we
/// know stays.
pub async fn orphans_go_and_all_else_stays(scene: Scene) -> anyhow::Result<()> {
    let mut operator = scene.operator().collecting().start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    let b = scene.apply(proxy("b").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;
    b.becomes(Phase::Ready).await?;
    let kept = a.pod().await?.name_any();
    operator.stop().await?;

    let abandoned = abandon(&scene, &b).await?;
    pod(&scene, "foreign", marks("gone", "another")).await?;
    pod(&scene, "unmarked", json!({"app": "squid"})).await?;
    let begun = Instant::now();
    orphan(&scene, "orphan").await?;
    let operator = operator.again().await?;
    is_gone(&scene, &abandoned).await?;
    is_gone(&scene, "orphan").await?;
    let age = begun.elapsed();
    ensure!(age + Duration::from_secs(1) > MIN_AGE, "gone after {age:?}");

    let stay = BTreeSet::from([kept, "foreign".to_owned(), "unmarked".to_owned()]);
    operator.says("swept for orphans", 3).await?;
    ensure!(pods(&scene).await? == stay, "{:?}", scene.pods().await?);
    a.becomes(Phase::Ready).await?;
    ensure!(
        operator.metric(DELETED).await? == 2,
        "{}",
        operator.scrape().await?
    );
    ensure!(operator.metric(FAILED).await? == 0);
    let lists = "proxy_operator_provider_requests_total{op=\"list\"";
    ensure!(operator.metric(lists).await? >= 3);
    Ok(())
}

/// `kill -9` between two deletions of a sweep; the next operator does the rest, and no more.
pub async fn killed_amid_a_sweep(scene: Scene) -> anyhow::Result<()> {
    const ORPHANS: usize = 12;
    let killer = Killer::new(&scene).await?;
    let operator = killer.operator(&scene).collecting().start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;
    let kept = a.pod().await?.name_any();
    killer.aim(&operator, Some(Point::After(3)))?;
    for number in 0..ORPHANS {
        orphan(&scene, &format!("orphan-{number}")).await?;
    }
    killer.strikes().await?;
    let left = pods(&scene).await?;
    ensure!(left.len() > 1, "the sweep was over: {left:?}");
    let _operator = operator.again().await?;
    eventually("only what lives is left", PATIENCE, || async {
        let left = pods(&scene).await?;
        ensure!(left.contains(&kept), "the live one was deleted");
        Ok((left.len() == 1).then_some(()))
    })
    .await?;
    a.becomes(Phase::Ready).await?;
    Ok(())
}

/// As long as it cannot be read which Proxies exist, nothing goes. To be forbidden those of other namespaces
/// is no hindrance where pods are all in the operator's own.
pub async fn without_the_proxies_nothing_is_collected(scene: Scene) -> anyhow::Result<()> {
    let gate = Gate::new(&scene).await?;
    let operator = gate.operator(&scene).collecting().start().await?;
    let everywhere = |request: &http::Request<kube::client::Body>| {
        request.uri().path() == "/apis/crawl.example.com/v1alpha1/proxies"
    };
    gate.those(Fate::Refuse(500), everywhere);
    let orphan = orphan(&scene, "orphan").await?.name_any();
    let age = Instant::now();
    eventually("sweeps fail", PATIENCE, || async {
        let failed = operator.metric(FAILED).await?;
        Ok((failed >= 3 && age.elapsed() > MIN_AGE + Duration::from_secs(3)).then_some(()))
    })
    .await?;
    ensure!(pods(&scene).await?.contains(&orphan), "it was collected");
    let said = operator.said("the sweep for orphans ended early")?;
    let error = said.last().and_then(|line| line["error"].as_str());
    ensure!(
        error.context("an error")?.contains("the gate is closed"),
        "{error:?}"
    );

    gate.those(Fate::Refuse(403), everywhere);
    is_gone(&scene, &orphan).await
}
