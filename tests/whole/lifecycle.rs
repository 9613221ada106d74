//! The main job: a Proxy is applied, proven, leased, used, and goes without a trace.

use crate::lab::{
    Scene, eventually,
    operator::Operator,
    proxy,
    proxy::{Applied, condition, ip},
    squid::{self, Squid},
};
use anyhow::{Context as _, ensure};
use crds::{
    Phase, Proxy,
    conditions::ConditionType,
    names::{FINALIZER, SPEC_HASH},
};
use futures::{StreamExt as _, future::try_join_all, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// What users are promised for a pod.
const READY: Duration = Duration::from_secs(30);

/// From `apply` to a page that comes through the leased pod, and to nothing at all.
pub async fn a_managed_proxy_lives_and_goes(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    let begun = Instant::now();
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    let object = a.becomes(Phase::Ready).await?;
    let took = begun.elapsed();
    ensure!(took < READY, "Ready after {took:?}");

    for (type_, reason) in [
        (ConditionType::Provisioned, "Running"),
        (ConditionType::Healthy, "ProbeSucceeded"),
        (ConditionType::Synced, "Reconciled"),
        (ConditionType::Ready, "ProvisionedAndHealthy"),
    ] {
        let said = condition(&object, type_).map(|(status, reason, _)| (status, reason));
        ensure!(said == Some(("True", reason)), "{type_:?}: {said:?}");
    }
    let ip = ip(&object)?;
    let pod = a.pod().await?;
    let (name, status) = (pod.name_any(), pod.status.context("a status")?);
    ensure!(status.pod_ip.as_ref() == Some(&ip), "{ip}: {status:?}");
    let status = object.status.as_ref().context("a status")?;
    let id = format!("{}/{name}", scene.namespace());
    ensure!(status.provider_id.as_ref() == Some(&id), "{status:?}");
    let table = scene.kubectl(&["get", "px", "a"]).await?;
    let row: Vec<_> = table
        .lines()
        .last()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let columns = ["a", "Managed", "kubernetes", "Ready", ip.as_str(), "True"];
    ensure!(row.starts_with(&columns), "{table}");

    is_leased_used_and_banned(&scene, &operator, &a, &ip, 3128).await?;

    a.delete().await?;
    a.is_gone().await?;
    ensure!(scene.pods().await?.is_empty(), "a pod is left");
    for reason in ["Created", "Healthy", "Deleted"] {
        a.event(reason).await?;
    }
    Ok(())
}

/// The same without a provider: the endpoint is there already, and stays.
pub async fn an_external_proxy_lives_and_goes(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene.operator().start().await?;
    let a = scene.apply(proxy("a").through(&squid)).await?;
    let object = a.becomes(Phase::Ready).await?;
    let said = condition(&object, ConditionType::Provisioned);
    ensure!(
        said.is_some_and(|said| (said.0, said.1) == ("True", "External")),
        "{said:?}"
    );
    ensure!(object.finalizers().is_empty(), "{:?}", object.metadata);
    let status = object.status.context("a status")?;
    ensure!(
        status.ip.is_none() && status.provider_id.is_none(),
        "{status:?}"
    );

    let host = squid.address.ip().to_string();
    is_leased_used_and_banned(&scene, &operator, &a, &host, squid.address.port()).await?;

    a.delete().await?;
    a.is_gone().await?;
    ensure!(scene.pods().await?.is_empty());
    Ok(())
}

/// A lease, a page through it that the judge sees come from there, and a ban for one target alone.
async fn is_leased_used_and_banned(
    scene: &Scene,
    operator: &Operator,
    proxy: &Applied,
    host: &str,
    port: u16,
) -> anyhow::Result<()> {
    let lease = operator.lease(json!({"target": "shop.example"})).await?;
    let view = &lease["proxy"];
    let expected =
        json!({"id": proxy.id(), "ip": host, "port": port, "phase": "Ready", "healthy": true});
    for (field, value) in expected.as_object().into_iter().flatten() {
        ensure!(view[field] == *value, "{field}: {lease}");
    }
    let ca = reqwest::Certificate::from_pem(scene.lab().judge.ca_pem.as_bytes())?;
    let crawler = reqwest::Client::builder()
        .proxy(reqwest::Proxy::all(format!("http://{host}:{port}"))?)
        .tls_certs_only([ca])
        .timeout(Duration::from_secs(30))
        .build()?;
    let page = format!("/ip/crawled/{}", proxy.id());
    let answer = crawler.get(scene.lab().url(&page)).send().await?;
    ensure!(answer.status() == 200, "{}", answer.status());
    if let Some(pod) = host.strip_prefix("10.79.").map(|_| host) {
        let seen = answer.text().await?;
        ensure!(seen.contains(pod), "the judge saw {seen}, not {pod}");
        let from = scene.lab().judge.count_from(&page, pod.parse()?);
        ensure!(from == 1, "{from} times from {pod}");
    }
    ensure!(scene.lab().judge.count(&page) == 1);

    operator.report(&lease, "banned").await?;
    let (status, body) = operator.acquire(json!({"target": "SHOP.example."})).await?;
    ensure!(status == 409, "{status} {body}");
    let expected = json!({"error": "no_match", "considered": 1, "atCapacity": 0, "inCooldown": 1, "unhealthy": 0});
    for (field, value) in expected.as_object().into_iter().flatten() {
        ensure!(body[field] == *value, "{field}: {body}");
    }
    let other = operator.lease(json!({"target": "other.example"})).await?;
    operator.release(&other).await?;
    operator.release(&lease).await
}

/// Ten applied at once are Ready together, each with a pod and an address of its own.
pub async fn ten_at_once(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    let drafts = (0..10).map(|n| proxy(&format!("p{n}")).managed_by("kubernetes"));
    let proxies = try_join_all(drafts.map(|draft| scene.apply(draft))).await?;
    let ready = try_join_all(proxies.iter().map(|proxy| proxy.becomes(Phase::Ready))).await?;
    let mut ips = ready.iter().map(ip).collect::<Result<Vec<_>, _>>()?;
    ips.sort();
    ips.dedup();
    ensure!(ips.len() == 10, "{ips:?}");
    ensure!(scene.pods().await?.len() == 10);
    ensure!(operator.shown().await?.len() == 10);

    try_join_all(proxies.iter().map(Applied::delete)).await?;
    try_join_all(proxies.iter().map(Applied::is_gone)).await?;
    ensure!(scene.pods().await?.is_empty(), "a pod is left");
    Ok(())
}

/// The object is held, and says what its instance is made of, before there is an instance.
pub async fn the_finalizer_comes_before_the_pod(scene: Scene) -> anyhow::Result<()> {
    let (proxies, pods): (Api<Proxy>, Api<Pod>) = (scene.api(), scene.api());
    let from_now_on = WatchParams::default();
    let proxies = proxies.watch(&from_now_on, "0").await?;
    let pods = pods.watch(&from_now_on, "0").await?;
    let proxies = proxies.filter_map(|event| async {
        match event {
            Ok(WatchEvent::Added(proxy) | WatchEvent::Modified(proxy)) => {
                let held = proxy.finalizers().iter().any(|name| name == FINALIZER);
                let held = held && proxy.annotations().contains_key(SPEC_HASH);
                held.then(|| ("held", proxy.resource_version()))
            }
            _ => None,
        }
    });
    let pods = pods.filter_map(|event| async {
        match event {
            Ok(WatchEvent::Added(pod)) => Some(("made", pod.resource_version())),
            _ => None,
        }
    });
    let _operator = scene.operator().start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;

    let mut seen = std::pin::pin!(stream::select(proxies, pods));
    let (mut held, mut made) = (None, None);
    while held.is_none() || made.is_none() {
        let next = tokio::time::timeout(READY, seen.next()).await?;
        let (what, version) = next.context("the watch goes on")?;
        let version: u64 = version.context("a resourceVersion")?.parse()?;
        match what {
            "held" => held.get_or_insert(version),
            _ => made.get_or_insert(version),
        };
    }
    ensure!(held < made, "held at {held:?}, made at {made:?}");
    Ok(())
}

/// What the instance is made of replaces it; nothing else does, and neither does a restart.
pub async fn only_what_it_is_made_of_replaces_it(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;
    let (first, hash) = (a.pod().await?.uid(), spec_hash(&a).await?);

    let check = json!({"periodSeconds": 2, "failureThreshold": 5});
    let beside = json!({"attributes": {"geo": "eu"}, "maxLeases": 2, "healthCheck": check});
    let changed = a.change(json!({"spec": beside})).await?;
    let generation = changed.metadata.generation;
    a.until("the change is acted on", |proxy| {
        let status = proxy.status.as_ref();
        status.is_some_and(|status| status.observed_generation == generation)
    })
    .await?;
    let path = format!("/v1/proxies/{}", a.id());
    let (_, view) = operator.get(&path).await?;
    ensure!(
        view["attributes"]["geo"] == "eu" && view["maxLeases"] == 2,
        "{view}"
    );
    ensure!((a.pod().await?.uid(), spec_hash(&a).await?) == (first.clone(), hash.clone()));

    let operator = operator.again().await?;
    a.becomes(Phase::Ready).await?;
    operator.shows(&[&a]).await?;
    ensure!(a.pod().await?.uid() == first, "replaced by a restart");

    a.change(json!({"spec": {"port": 8080}})).await?;
    operator.shows(&[]).await?;
    a.says(ConditionType::Provisioned, "Replacing").await?;
    a.event("Replacing").await?;
    let object = a.becomes(Phase::Ready).await?;
    let second = a.pod().await?;
    ensure!(second.uid() != first, "the same pod");
    ensure!(spec_hash(&a).await? != hash, "the same hash");
    ensure!(
        second.status.and_then(|status| status.pod_ip) == Some(ip(&object)?),
        "{object:?}"
    );
    operator.shows(&[&a]).await?;
    let (_, view) = operator.get(&path).await?;
    ensure!(view["port"] == 8080, "{view}");
    Ok(())
}

async fn spec_hash(proxy: &Applied) -> anyhow::Result<Option<String>> {
    Ok(proxy.get().await?.annotations().get(SPEC_HASH).cloned())
}

/// Steady probes write nothing, and neither does a restart of the operator.
pub async fn only_transitions_are_written(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene.operator().start().await?;
    let managed = scene
        .apply(proxy("managed").managed_by("kubernetes"))
        .await?;
    let external = scene.apply(proxy("external").through(&squid)).await?;
    let mut before = Vec::new();
    for proxy in [&managed, &external] {
        proxy.becomes(Phase::Ready).await?;
        before.push(proxy.get().await?);
    }
    for proxy in [&managed, &external] {
        proxy.is_probed_again(5).await?;
    }
    let operator = operator.again().await?;
    operator.shows(&[&external, &managed]).await?;
    for proxy in [&managed, &external] {
        proxy.is_probed_again(5).await?;
    }
    for (proxy, before) in [&managed, &external].into_iter().zip(before) {
        let after = proxy.get().await?;
        ensure!(
            after.resource_version() == before.resource_version() || only_slower(&before, &after)?,
            "written: {before:?}\n{after:?}"
        );
    }
    Ok(())
}

/// A busy machine may change the latency so much that it is worth a write; nothing else may have changed.
fn only_slower(before: &Proxy, after: &Proxy) -> anyhow::Result<bool> {
    let latency = |proxy: &Proxy| {
        let status = proxy.status.as_ref();
        status.and_then(|status| status.latency_millis)
    };
    let plain = |proxy: &Proxy| -> anyhow::Result<Value> {
        let mut value = serde_json::to_value(proxy)?;
        value["status"]["latencyMillis"] = Value::Null;
        value["metadata"]["resourceVersion"] = Value::Null;
        value["metadata"]["managedFields"] = Value::Null;
        Ok(value)
    };
    Ok(latency(before) != latency(after) && plain(before)? == plain(after)?)
}

/// A pod that is gone and one that failed while nobody looked are made anew by the next look.
pub async fn what_happened_meanwhile_is_mended(scene: Scene) -> anyhow::Result<()> {
    let mut operator = scene.operator().start().await?;
    let lost = scene.apply(proxy("lost").managed_by("kubernetes")).await?;
    let failed = scene
        .apply(proxy("failed").managed_by("kubernetes"))
        .await?;
    let mut pods = Vec::new();
    for proxy in [&lost, &failed] {
        proxy.becomes(Phase::Ready).await?;
        pods.push(proxy.pod().await?);
    }
    operator.kill().await?;
    scene.remove_pod(&pods[0].name_any()).await?;
    scene.fail_pod(&pods[1].name_any()).await?;
    let operator = operator.again().await?;
    for (proxy, reason, pod) in [(&lost, "Lost", &pods[0]), (&failed, "Stopped", &pods[1])] {
        proxy.event(reason).await?;
        proxy
            .until("Ready on another pod", |object| {
                let status = object.status.as_ref();
                status.is_some_and(|s| {
                    s.phase == Some(Phase::Ready)
                        && s.ip != pod.status.as_ref().and_then(|s| s.pod_ip.clone())
                })
            })
            .await?;
        ensure!(
            proxy.pod().await?.uid() != pod.uid(),
            "{reason}: the same pod"
        );
    }
    operator.shows(&[&failed, &lost]).await
}

/// The same while the operator runs: it looks every two minutes.
pub async fn drift_is_noticed(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;
    let pod = a.pod().await?;
    scene.remove_pod(&pod.name_any()).await?;
    // Its prober is quicker than that, and nobody is given what does not work. The phase says so for a
    // moment only: the instance is looked at at once.
    a.event("Unhealthy").await?;
    let drift = Duration::from_secs(132 + 60);
    eventually("there is another pod", drift, || async {
        let pods = a.pods().await?;
        Ok(pods
            .iter()
            .any(|other| other.uid() != pod.uid())
            .then_some(()))
    })
    .await?;
    a.becomes(Phase::Ready).await?;
    operator.shows(&[&a]).await
}
