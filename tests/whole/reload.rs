//! The providers file changes while the operator runs.

use crate::lab::{
    Scene, eventually,
    gate::{Fate, Gate},
    proxy::{PATIENCE, proxy},
};
use anyhow::{Context as _, ensure};
use crds::{Phase, conditions::ConditionType};
use http::{Method, Request};
use k8s_openapi::api::core::v1::Event;
use kube::{Api, ResourceExt, api::ListParams, client::Body};
use std::{fs, os::unix::fs::symlink, path::Path};

const CHANGED: &str = "the providers file changed";
const REFUSED: &str = "the providers file cannot be used; nothing changes";
const FAILURES: &str = "proxy_operator_config_reload_failures_total";

/// A file with these providers: a name, and a port that its proxies CONNECT to.
fn providers(entries: &[(&str, u16)]) -> String {
    let entry = |(name, port): &(&str, u16)| {
        format!(
            "- {{name: {name}, type: kubernetes, \
             kubernetes: {{image: 'lab.local/squid:1', connectPorts: [443, {port}]}}}}\n"
        )
    };
    let entries: String = entries.iter().map(entry).collect();
    format!("providers:\n{entries}")
}

/// Providers come, change and go; what runs goes on, and nothing is deleted with its provider.
pub async fn a_changed_file_is_taken_up(scene: Scene) -> anyhow::Result<()> {
    let launch = scene.operator();
    let mut operator = launch
        .with_providers(&providers(&[("first", 1)]))
        .start()
        .await?;
    let (a, b) = (
        proxy("a").managed_by("first"),
        proxy("b").managed_by("second"),
    );
    let (a, b) = (scene.apply(a).await?, scene.apply(b).await?);
    a.becomes(Phase::Ready).await?;
    b.says(ConditionType::Provisioned, "ProviderNotConfigured")
        .await?;

    operator.configure(&providers(&[("first", 1), ("second", 1)]))?;
    b.becomes(Phase::Ready).await?;
    let pod = b.pod().await?;
    let said = operator.says(CHANGED, 1).await?;
    ensure!(
        said[0]["added"] == "[\"second\"]"
            && said[0]["changed"] == "[]"
            && said[0]["removed"] == "[]",
        "{said:?}"
    );

    operator.configure(&providers(&[("first", 1)]))?;
    b.says(ConditionType::Provisioned, "ProviderNotConfigured")
        .await?;
    b.becomes(Phase::Failed).await?;
    operator.shows(&[&a, &b]).await?;
    ensure!(b.pod().await?.uid() == pod.uid(), "another pod");

    operator.configure(&providers(&[("first", 2), ("second", 2)]))?;
    b.becomes(Phase::Ready).await?;
    a.is_probed_again(2).await?;
    a.becomes(Phase::Ready).await?;
    ensure!(b.pod().await?.uid() == pod.uid(), "another pod");
    let said = operator.says(CHANGED, 3).await?;
    ensure!(said.len() == 3, "{said:?}");
    ensure!(said[2]["changed"] == "[\"first\"]", "{said:?}");
    ensure!(operator.metric(FAILURES).await? == 0);
    Ok(())
}

/// As kubelet mounts a `ConfigMap`: the file is a link through `..data`, which is swapped as a whole.
pub async fn a_mounted_file_is_swapped(scene: Scene) -> anyhow::Result<()> {
    let folder = scene.path("mounted");
    fs::create_dir(&folder)?;
    mount(&folder, "1", &providers(&[("first", 1)]))?;
    let file = folder.join("providers.yaml");
    symlink("..data/providers.yaml", &file)?;
    let launch = scene.operator().with_providers_at(file);
    let operator = launch
        .env("POD_NAME", "operator-0")
        .env("POD_NAMESPACE", scene.namespace())
        .start()
        .await?;

    mount(&folder, "2", &providers(&[("first", 1), ("second", 1)]))?;
    let a = scene.apply(proxy("a").managed_by("second")).await?;
    a.becomes(Phase::Ready).await?;

    // A bad one is refused whole, the good entry in it included.
    let bad = "- {name: third, type: kubernetes, kubernetes: {image: 'a b'}}\n";
    mount(&folder, "3", &(providers(&[("fourth", 1)]) + bad))?;
    let said = operator.says(REFUSED, 1).await?;
    let error = said[0]["error"].as_str().context("an error")?;
    ensure!(
        error.contains("providers[1] (third): kubernetes.image: \"a b\""),
        "{error}"
    );
    let b = scene.apply(proxy("b").managed_by("second")).await?;
    b.becomes(Phase::Ready).await?;
    let told = eventually("an Event about the operator", PATIENCE, || async {
        let about = "involvedObject.kind=Pod,involvedObject.name=operator-0";
        let events: Api<Event> = scene.api();
        let mut all = events.list(&ListParams::default().fields(about)).await?;
        Ok(all.items.pop())
    })
    .await?;
    ensure!(
        told.reason.as_deref() == Some("InvalidProvidersConfig")
            && told.type_.as_deref() == Some("Warning")
            && told.message.as_deref() == Some(error),
        "{told:?}"
    );
    ensure!(operator.metric(FAILURES).await? == 1);

    // One that is gone is as bad, and so is one that is back with the same mistake.
    fs::remove_file(folder.join("..data"))?;
    operator.says(REFUSED, 2).await?;
    mount(&folder, "4", &providers(&[("second", 1)]))?;
    operator.says(CHANGED, 2).await?;
    ensure!(operator.said(REFUSED)?.len() == 2);
    ensure!(operator.metric(FAILURES).await? == 2);
    Ok(())
}

/// Writes `text` into a new version of the folder and has `..data` point to it.
fn mount(folder: &Path, version: &str, text: &str) -> anyhow::Result<()> {
    fs::create_dir(folder.join(version))?;
    fs::write(folder.join(version).join("providers.yaml"), text)?;
    let next = folder.join("..data_tmp");
    symlink(version, &next)?;
    Ok(fs::rename(next, folder.join("..data"))?)
}

/// The call that makes a pod is under way when its provider changes, or leaves for a while: the next one goes
/// on from what the first has made.
pub async fn a_provider_changed_amid_a_create_makes_one_instance(
    scene: Scene,
) -> anyhow::Result<()> {
    let gate = Gate::new(&scene).await?;
    let launch = gate.operator(&scene);
    let mut operator = launch
        .with_providers(&providers(&[("first", 1)]))
        .start()
        .await?;
    let makes = |request: &Request<Body>| {
        request.method() == Method::POST && request.uri().path().ends_with("/pods")
    };
    gate.those(Fate::LoseAnswer, makes);
    let a = scene.apply(proxy("a").managed_by("first")).await?;
    gate.stops(1).await?;
    let pod = a.pod().await?;
    operator.configure(&providers(&[("first", 2)]))?;
    a.becomes(Phase::Ready).await?;
    ensure!(a.pod().await?.uid() == pod.uid(), "another pod");
    ensure!(gate.stopped().len() == 1, "{:?}", gate.stopped());

    gate.those(Fate::LoseAnswer, makes);
    let b = scene.apply(proxy("b").managed_by("first")).await?;
    gate.stops(2).await?;
    let pod = b.pod().await?;
    operator.configure(&providers(&[("second", 1)]))?;
    b.says(ConditionType::Provisioned, "ProviderNotConfigured")
        .await?;
    ensure!(b.pod().await?.uid() == pod.uid(), "it was deleted");
    gate.open();
    operator.configure(&providers(&[("first", 3), ("second", 1)]))?;
    b.becomes(Phase::Ready).await?;
    ensure!(b.pod().await?.uid() == pod.uid(), "another pod");
    a.becomes(Phase::Ready).await?;
    // Nobody waited until the first call was given up.
    let late = "proxy_operator_provider_requests_total{op=\"create\",provider=\"first\",result=\"Transient\"}";
    ensure!(
        operator.metric(late).await? == 0,
        "{}",
        operator.scrape().await?
    );
    Ok(())
}
