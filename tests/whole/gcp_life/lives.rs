//! Whole lives.

use super::google::{AT_ONCE, Google, INSERT, USER_DATA, ZONE, id, operation};
use crate::lab::{
    Scene, eventually,
    operator::Operator,
    proxy::{Applied, PATIENCE, condition, ip},
};
use anyhow::{Context as _, ensure};
use crds::{Phase, conditions::ConditionType};
use serde_json::json;
use std::time::Duration;

/// From `apply` to a page that comes through the leased VM; then another VM takes its place, and nothing is
/// left in the end.
pub async fn a_vm_lives_and_goes(scene: Scene) -> anyhow::Result<()> {
    // Nothing happens before it is told to.
    let google = Google::new(&scene, 0.0).await?;
    let operator = google.operator()?.start().await?;
    let a = scene.apply(google.proxy("a", ZONE)).await?;

    let object = a.says(ConditionType::Provisioned, "Booting").await?;
    let first = operation(&object)?;
    ensure!(first.starts_with("operation-"), "{first}");
    google.gce.advance(Duration::from_mins(1));
    google.gce.set_speed(10.0);
    let object = a.becomes(Phase::Ready).await?;
    let made = google.instance(&a).await?;
    is_told(&scene, &google.provider, &object, &made.name).await?;
    ensure!(operation(&object)? == first, "another operation");
    let address = made.external.context("an address")?.to_string();
    ensure!(ip(&object)? == address, "{address}: {:?}", object.status);
    ensure!(made.metadata("user-data") == Some(USER_DATA), "{made:?}");
    ensure!(made.label("proxy-operator-installation") == Some(scene.namespace()));
    is_leased_and_used(&scene, &operator, &a, &address).await?;

    let other = format!("{USER_DATA}# another one\n");
    google.gce.set_speed(AT_ONCE);
    a.change(json!({"spec": {"cloudInit": {"inline": other}}}))
        .await?;
    a.event("Replacing").await?;
    operator.shows(&[]).await?;
    let all = google.makes(ZONE, 2).await?;
    ensure!(all[0].1 != all[1].1, "one request ID for two: {all:?}");
    let ready = |proxy: &crds::Proxy| {
        let phase = proxy.status.as_ref().and_then(|status| status.phase);
        phase == Some(Phase::Ready) && operation(proxy).is_ok_and(|now| now != first)
    };
    a.until("Ready by another operation", ready).await?;
    let next = google.instance(&a).await?;
    ensure!(next.id != made.id && next.name == made.name, "{next:?}");
    ensure!(next.metadata("user-data") == Some(&other), "{next:?}");
    let address = next.external.context("an address")?.to_string();
    is_leased_and_used(&scene, &operator, &a, &address).await?;

    a.delete().await?;
    a.is_gone().await?;
    for reason in ["Created", "Healthy", "Deleted"] {
        a.event(reason).await?;
    }
    ensure!(google.gce.count(INSERT) == 2, "{:?}", google.gce.counts());
    google.is_left_clean()
}

/// The same in a cluster whose pods have an identity, and no file.
pub async fn a_vm_lives_by_the_metadata_server(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    let launch = google.by_metadata(scene.operator());
    let _operator = launch.start().await?;
    let a = scene.apply(google.proxy("a", ZONE)).await?;
    a.becomes(Phase::Ready).await?;
    ensure!(
        google.gce.count("metadata") > 0,
        "{:?}",
        google.gce.counts()
    );
    a.delete().await?;
    a.is_gone().await?;
    google.is_left_clean()
}

/// The status and what kubectl makes of it.
async fn is_told(
    scene: &Scene,
    provider: &str,
    object: &crds::Proxy,
    name: &str,
) -> anyhow::Result<()> {
    for (type_, reason) in [
        (ConditionType::Provisioned, "Running"),
        (ConditionType::Healthy, "ProbeSucceeded"),
        (ConditionType::Synced, "Reconciled"),
        (ConditionType::Ready, "ProvisionedAndHealthy"),
    ] {
        let said = condition(object, type_).map(|(status, reason, _)| (status, reason));
        ensure!(said == Some(("True", reason)), "{type_:?}: {said:?}");
    }
    let key = format!("zones/{ZONE}/instances/{name}");
    ensure!(id(object) == Some(&key), "{:?}", object.status);
    let table = scene.kubectl(&["get", "px", "a"]).await?;
    let row = table.lines().last().unwrap_or_default();
    let row: Vec<_> = row.split_whitespace().collect();
    let ip = ip(object)?;
    let columns = ["a", "Managed", provider, "Ready", &ip, "True"];
    ensure!(row.starts_with(&columns), "{table}");
    let path = "{.status.operation} {.status.providerID}";
    let told = scene
        .kubectl(&["get", "px", "a", "-o", &format!("jsonpath={path}")])
        .await?;
    ensure!(told == format!("{} {key}", operation(object)?), "{told}");
    Ok(())
}

async fn is_leased_and_used(
    scene: &Scene,
    operator: &Operator,
    proxy: &Applied,
    address: &str,
) -> anyhow::Result<()> {
    // The status may be a moment ahead of the leases.
    operator.shows(&[proxy]).await?;
    let lease = eventually("a lease", PATIENCE, || async {
        let (status, lease) = operator.acquire(json!({"target": "shop.example"})).await?;
        Ok((status == 201).then_some(lease))
    })
    .await?;
    let view = &lease["proxy"];
    ensure!(view["ip"] == address && view["port"] == 3128, "{view}");
    let ca = reqwest::Certificate::from_pem(scene.lab().judge.ca_pem.as_bytes())?;
    let crawler = reqwest::Client::builder()
        .proxy(reqwest::Proxy::all(format!("http://{address}:3128"))?)
        .tls_certs_only([ca])
        .timeout(Duration::from_secs(30))
        .build()?;
    let page = format!("/ip/crawled/{}", proxy.id());
    let answer = crawler.get(scene.lab().url(&page)).send().await?;
    ensure!(answer.status() == 200, "{}", answer.status());
    operator.release(&lease).await
}
