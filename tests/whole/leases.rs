//! Leases on real proxies, over HTTP.

use crate::lab::{
    Scene, eventually, proxy,
    squid::{self, Squid},
};
use anyhow::{Context as _, ensure};
use crds::Phase;
use futures::future::try_join_all;
use serde_json::{Value, json};
use std::{collections::HashSet, time::Duration};

/// Long enough for a second's lease and a token file that is looked at every second.
const PATIENCE: Duration = Duration::from_mins(1);

/// Of two hundred at once exactly as many are served as there are slots, each with a lease of its own.
pub async fn capacity_is_never_exceeded(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene.operator().start().await?;
    let mut proxies = Vec::new();
    for (name, slots) in [("a", 7), ("b", 5), ("never", 0)] {
        let draft = proxy(name)
            .through(&squid)
            .with(json!({"maxLeases": slots}));
        proxies.push(scene.apply(draft).await?);
    }
    for proxy in &proxies {
        proxy.becomes(Phase::Ready).await?;
    }
    let answers = try_join_all((0..200).map(|_| operator.acquire(json!({})))).await?;
    let granted: Vec<_> = answers
        .iter()
        .filter(|(status, _)| *status == 201)
        .collect();
    let ids: HashSet<_> = granted
        .iter()
        .map(|(_, lease)| lease["leaseID"].as_str())
        .collect();
    ensure!((granted.len(), ids.len()) == (12, 12), "{granted:?}");
    for (name, slots) in [("a", 7), ("b", 5), ("never", 0)] {
        let id = format!("{}/{name}", scene.namespace());
        let on = granted
            .iter()
            .filter(|(_, lease)| lease["proxy"]["id"] == id.as_str());
        ensure!(on.count() == slots, "{name}: {granted:?}");
    }
    let refused = answers.iter().filter(|(status, _)| *status != 201);
    for (status, body) in refused {
        ensure!(*status == 409 && body["considered"] == 3, "{status} {body}");
    }
    let (_, full) = operator.acquire(json!({})).await?;
    ensure!(full["atCapacity"] == 3, "{full}");
    ensure!(operator.metric("proxy_operator_leases_active ").await? == 12);
    ensure!(
        operator
            .metric("proxy_operator_leases_granted_total ")
            .await?
            == 12
    );

    try_join_all(granted.iter().map(|(_, lease)| operator.release(lease))).await?;
    ensure!(operator.metric("proxy_operator_leases_active ").await? == 0);
    operator.lease(json!({})).await?;
    Ok(())
}

/// A lease that is not renewed ends by itself, and its slot is free again.
pub async fn a_lease_ends_by_itself(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene.operator().start().await?;
    let a = scene
        .apply(proxy("a").through(&squid).with(json!({"maxLeases": 1})))
        .await?;
    a.becomes(Phase::Ready).await?;
    let short = operator.lease(json!({"ttlSeconds": 1})).await?;
    let next = eventually("the slot is free again", PATIENCE, || async {
        let (status, lease) = operator.acquire(json!({})).await?;
        Ok((status == 201).then_some(lease))
    })
    .await?;
    let id = |lease: &Value| lease["leaseID"].as_str().unwrap_or_default().to_owned();
    ensure!(id(&next) != id(&short));
    let (status, body) = operator.get(&format!("/v1/leases/{}", id(&short))).await?;
    ensure!(
        status == 404 && body["error"] == "unknown_lease",
        "{status} {body}"
    );
    // It can still be told how it went.
    operator.report(&short, "rate_limited").await?;
    operator.release(&next).await?;
    let (status, body) = operator.acquire(json!({})).await?;
    ensure!(status == 409 && body["inCooldown"] == 1, "{status} {body}");
    Ok(())
}

/// Clients are given what matches their selector, and nothing else.
pub async fn a_selector_is_obeyed(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene.operator().start().await?;
    for (name, geo) in [("de", "de"), ("fr", "fr")] {
        let draft = proxy(name).through(&squid);
        let proxy = scene
            .apply(draft.with(json!({"attributes": {"geo": geo}})))
            .await?;
        proxy.becomes(Phase::Ready).await?;
    }
    for _ in 0..3 {
        let lease = operator.lease(json!({"selector": {"geo": "fr"}})).await?;
        ensure!(lease["proxy"]["attributes"]["geo"] == "fr", "{lease}");
    }
    let (status, body) = operator.acquire(json!({"selector": {"geo": "it"}})).await?;
    ensure!(status == 409 && body["considered"] == 0, "{status} {body}");
    let (_, list) = operator.get("/v1/proxies?attr.geo=de").await?;
    ensure!(list["count"] == 1, "{list}");
    Ok(())
}

/// Whoever has no token is refused; a token in a file is taken over when the file changes.
pub async fn a_token_is_asked_for_and_rotated(scene: Scene) -> anyhow::Result<()> {
    let file = scene.path("token");
    std::fs::write(&file, "first-token\n")?;
    let operator = scene
        .operator()
        .env("DISCOVERY_TOKEN_FILE", file.display().to_string())
        .start()
        .await?;
    let path = "/v1/proxies";
    for (token, expected) in [("first-token", 200), ("second-token", 401), ("", 401)] {
        let (status, body) = operator.ask_as(token, path).await?;
        ensure!(status == expected, "{token:?}: {status} {body}");
        ensure!(status == 200 || body["error"] == "unauthorized", "{body}");
    }
    let (status, _) = operator.get(path).await?;
    ensure!(status == 401, "{status}");

    std::fs::write(&file, "second-token\n")?;
    eventually("the new token is taken", PATIENCE, || async {
        let (status, _) = operator.ask_as("second-token", path).await?;
        Ok((status == 200).then_some(()))
    })
    .await?;
    let (status, _) = operator.ask_as("first-token", path).await?;
    ensure!(status == 401, "the old token still works: {status}");
    Ok(())
}

/// What is being deleted is in no answer, however long its object stays.
pub async fn a_deleted_proxy_is_in_no_answer(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene.operator().start().await?;
    let held = json!({"finalizers": ["lab.local/hold"]});
    let a = scene.apply(proxy("a").through(&squid).marked(held)).await?;
    a.becomes(Phase::Ready).await?;
    let lease = operator.lease(json!({})).await?;
    a.delete().await?;
    operator.shows(&[]).await?;
    let (status, body) = operator.acquire(json!({})).await?;
    ensure!(status == 409 && body["considered"] == 0, "{status} {body}");
    let (status, body) = operator.get(&format!("/v1/proxies/{}", a.id())).await?;
    ensure!(
        status == 404 && body["error"] == "unknown_proxy",
        "{status} {body}"
    );
    // Whoever has it may still give it back.
    operator.release(&lease).await?;
    let object = a.becomes(Phase::Deleting).await?;
    let finalizers = object.metadata.finalizers.context("the foreign one")?;
    ensure!(finalizers == ["lab.local/hold"], "{finalizers:?}");
    a.change(json!({"metadata": {"finalizers": null}})).await?;
    a.is_gone().await
}
