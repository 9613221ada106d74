//! Provider checks: what `kubectl get ph`, Events and metrics tell of a provider.

use crate::lab::{
    Scene, eventually,
    gate::{Fate, Gate},
    operator::{Launch, Operator},
    proxy::{PATIENCE, proxy},
};
use anyhow::{Context as _, ensure};
use crds::{
    Phase, ProviderHealth, Target,
    conditions::{self, ConditionType},
};
use http::Request;
use k8s_openapi::{api::core::v1::Event, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    client::Body,
};
use serde_json::json;
use std::time::Duration;

/// Some rounds of ten seconds, on a busy machine.
const ROUNDS: Duration = Duration::from_secs(90);

/// A scenario's own provider, since these objects know no namespaces.
struct Provider<'a> {
    scene: &'a Scene,
    name: String,
}

impl<'a> Provider<'a> {
    fn new(scene: &'a Scene, name: &str) -> Self {
        let (_, unique) = scene.namespace().rsplit_once('-').unwrap_or_default();
        let name = format!("{name}-{unique}");
        Self { scene, name }
    }

    fn entry(&self) -> String {
        let name = &self.name;
        format!("{{name: {name}, type: kubernetes, kubernetes: {{image: 'lab.local/squid:1'}}}}")
    }

    /// Another operator has checked it at this time.
    async fn is_kept_by(&self, instance: &str, checked: Timestamp) -> anyhow::Result<()> {
        let all: Api<ProviderHealth> = Api::all(self.scene.lab().client.clone());
        let mut object = json!({
            "apiVersion": "crawl.example.com/v1alpha1",
            "kind": "ProviderHealth",
            "metadata": {"name": self.name, "labels": {
                "app.kubernetes.io/managed-by": "proxy-operator",
                "app.kubernetes.io/instance": instance,
            }},
        });
        let own = PatchParams::apply("another").force();
        all.patch(&self.name, &own, &Patch::Apply(&object)).await?;
        object["status"] = json!({"lastCheckTime": checked.to_string()});
        all.patch_status(&self.name, &own, &Patch::Apply(&object))
            .await?;
        Ok(())
    }

    async fn get(&self) -> anyhow::Result<Option<ProviderHealth>> {
        let all: Api<ProviderHealth> = Api::all(self.scene.lab().client.clone());
        Ok(all.get_opt(&self.name).await?)
    }

    async fn until(
        &self,
        what: &str,
        is: impl Fn(Option<&ProviderHealth>) -> bool,
    ) -> anyhow::Result<Option<ProviderHealth>> {
        eventually(&format!("{}: {what}", self.name), ROUNDS, || async {
            let health = self.get().await?;
            Ok(is(health.as_ref()).then_some(health))
        })
        .await
    }

    /// Waits until its one target says this.
    async fn says(&self, reason: &str) -> anyhow::Result<ProviderHealth> {
        let found = self.until(reason, |health| {
            target(health).is_some_and(|target| target.reason.as_deref() == Some(reason))
        });
        found.await?.context("an object")
    }

    /// Waits for a round that begins after this.
    async fn is_checked_again(&self) -> anyhow::Result<ProviderHealth> {
        let seen = last_check(self.get().await?.as_ref());
        let checked = |health: Option<&ProviderHealth>| last_check(health) > seen;
        let next = self.until("checked again", checked).await?;
        let seen = last_check(next.as_ref());
        let checked = |health: Option<&ProviderHealth>| last_check(health) > seen;
        let next = self.until("checked once more", checked).await?;
        next.context("an object")
    }

    async fn events(&self) -> anyhow::Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.scene.lab().client.clone(), "default");
        let about = format!(
            "involvedObject.kind=ProviderHealth,involvedObject.name={}",
            self.name
        );
        let events = events.list(&ListParams::default().fields(&about)).await?;
        let mut told: Vec<_> = events
            .into_iter()
            .map(|event| {
                let (reason, message) = (event.reason, event.message);
                format!(
                    "{} {}",
                    reason.unwrap_or_default(),
                    message.unwrap_or_default()
                )
            })
            .collect();
        told.sort();
        Ok(told)
    }

    async fn up(&self, operator: &Operator) -> anyhow::Result<Option<u64>> {
        let name = &self.name;
        let series = format!("proxy_operator_provider_target_up{{provider=\"{name}\",target=");
        let text = operator.scrape().await?;
        let line = text.lines().find(|line| line.starts_with(&series));
        let value = line.and_then(|line| line.rsplit(' ').next());
        Ok(value.map(str::parse).transpose()?)
    }
}

fn target(health: Option<&ProviderHealth>) -> Option<&Target> {
    health?.status.as_ref()?.targets.first()
}

fn last_check(health: Option<&ProviderHealth>) -> Option<Time> {
    health?.status.as_ref()?.last_check_time.clone()
}

fn ready(health: &ProviderHealth) -> anyhow::Result<(String, String, Time)> {
    let status = health.status.as_ref().context("a status")?;
    let ready = conditions::get(&status.conditions, ConditionType::Ready).context("Ready")?;
    let target = status.targets.first().context("a target")?;
    let since = target.last_transition_time.clone().context("a time")?;
    ensure!(ready.last_transition_time == since, "{status:?}");
    Ok((ready.status.clone(), ready.reason.clone(), since))
}

fn checking(launch: Launch) -> Launch {
    launch.env("PROXY_OPERATOR_PROVIDER_CHECK_INTERVAL", "10s")
}

/// The check's own question: one of this installation's pods.
fn is_check(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.uri().path().ends_with("/pods")
        && query.contains("limit=1&") | query.ends_with("limit=1")
}

/// Its rights are taken, and given back: object, Events, log and metrics tell it, once each.
pub async fn a_provider_goes_down_and_comes_back(scene: Scene) -> anyhow::Result<()> {
    let (gate, provider) = (Gate::new(&scene).await?, Provider::new(&scene, "down"));
    let providers = format!("providers: [{}]", provider.entry());
    let launch = checking(gate.operator(&scene)).with_providers(&providers);
    let operator = launch.start().await?;
    let health = provider.says("Reachable").await?;
    let (status, reason, up_since) = ready(&health)?;
    ensure!((&*status, &*reason) == ("True", "AllTargetsReady"));
    let labels = health.labels();
    ensure!(
        labels["app.kubernetes.io/managed-by"] == "proxy-operator"
            && labels["app.kubernetes.io/instance"] == scene.namespace(),
        "{labels:?}"
    );
    let table = scene.kubectl(&["get", "ph", &provider.name]).await?;
    let columns: Vec<_> = table.lines().map(str::split_whitespace).collect();
    let [heading, row] = &columns[..] else {
        anyhow::bail!("{table}")
    };
    let heading: Vec<_> = heading.clone().collect();
    ensure!(
        heading == ["NAME", "TYPE", "READY", "TARGETS", "LAST", "CHECK", "AGE"],
        "{table}"
    );
    let row: Vec<_> = row.clone().take(4).collect();
    ensure!(
        row == [&provider.name, "kubernetes", "True", "1/1"],
        "{table}"
    );
    ensure!(provider.up(&operator).await? == Some(1));

    gate.those(Fate::Refuse(403), is_check);
    let (status, reason, down_since) = ready(&provider.says("Forbidden").await?)?;
    ensure!((&*status, &*reason) == ("False", "TargetsNotReady"));
    ensure!(down_since > up_since);
    ensure!(provider.up(&operator).await? == Some(0));
    // Steady states are silent, and stay as old as they are.
    let (_, _, since) = ready(&provider.is_checked_again().await?)?;
    ensure!(since == down_since, "{since:?}");
    // So they are to the next operator.
    let operator = operator.again().await?;
    let (_, _, since) = ready(&provider.is_checked_again().await?)?;
    ensure!(since == down_since, "{since:?}");

    gate.open();
    let (_, _, since) = ready(&provider.says("Reachable").await?)?;
    ensure!(since > down_since);
    eventually("it is up", PATIENCE, || async {
        Ok((provider.up(&operator).await? == Some(1)).then_some(()))
    })
    .await?;
    let told = eventually("two Events", PATIENCE, || async {
        Ok(Some(provider.events().await?).filter(|told| told.len() == 2))
    })
    .await?;
    ensure!(
        told[0].starts_with("TargetNotReady apiserver (http://127.0.0.1:")
            && told[0].contains("): Forbidden: ")
            && told[1].starts_with("TargetReady apiserver (")
            && told[1].ends_with("): Reachable: pods can be listed"),
        "{told:#?}"
    );
    let requests = format!(
        "proxy_operator_provider_requests_total{{op=\"check\",provider=\"{}\"",
        provider.name
    );
    ensure!(
        operator.metric(&requests).await? == 0,
        "a check is no request"
    );
    Ok(())
}

/// A check that is never answered is a `Timeout`, and all else goes on.
pub async fn a_hung_check_is_noticed_by_nobody_else(scene: Scene) -> anyhow::Result<()> {
    let (gate, hung) = (Gate::new(&scene).await?, Provider::new(&scene, "hung"));
    let providers = format!("providers: [{}]", hung.entry());
    let launch = checking(gate.operator(&scene)).with_providers(&providers);
    let operator = launch.start().await?;
    hung.says("Reachable").await?;
    gate.those(Fate::Lose, is_check);
    gate.stops(1).await?;
    let a = scene.apply(proxy("a").managed_by(&hung.name)).await?;
    a.becomes(Phase::Ready).await?;
    let (status, _, _) = ready(&hung.says("Timeout").await?)?;
    ensure!(status == "False");
    operator.shows(&[&a]).await?;
    a.delete().await?;
    a.is_gone().await?;
    gate.open();
    hung.says("Reachable").await?;
    Ok(())
}

/// An object for each provider that is configured, also for one that nobody answers for; none for others, and
/// none at all with the checks off.
pub async fn objects_come_and_go_with_the_config(scene: Scene) -> anyhow::Result<()> {
    let (one, other) = (Provider::new(&scene, "one"), Provider::new(&scene, "other"));
    let hosts = format!(
        "{{name: {}, type: kvm, kvm: {{sshKeyFile: /nowhere/key, insecureIgnoreHostKey: true, \
         machineTypes: {{s: {{vcpus: 1, memoryMiB: 64}}}}, \
         hosts: [{{name: h1, address: '127.0.0.1:1', user: u, bridge: b}}]}}}}",
        other.name
    );
    let taken = Provider::new(&scene, "taken");
    taken.is_kept_by("another", Timestamp::now()).await?;
    let both = format!("providers: [{}, {hosts}, {}]", one.entry(), taken.entry());
    let alone = format!("providers: [{}]", one.entry());
    let strays = ["proxy-operator", "somebody"].map(|by| {
        let stray = Provider::new(&scene, &format!("stray-{by}"));
        (stray, json!({"app.kubernetes.io/managed-by": by}))
    });
    let all: Api<ProviderHealth> = Api::all(scene.lab().client.clone());
    for (stray, labels) in &strays {
        let object = json!({"metadata": {"name": stray.name, "labels": labels}});
        let object = serde_json::from_value(object)?;
        all.create(&PostParams::default(), &object).await?;
    }
    let launch = checking(scene.operator()).with_providers(&alone);
    let mut operator = launch.start().await?;
    one.says("Reachable").await?;
    let [(ours, _), (theirs, _)] = &strays;
    ours.until("gone", |health| health.is_none()).await?;
    ensure!(theirs.get().await?.is_some(), "it was somebody else's");
    all.delete(&theirs.name, &DeleteParams::default()).await?;
    operator.configure(&both)?;
    let health = other.says("SSHMaterialUnavailable").await?;
    let status = health.status.context("a status")?;
    ensure!(status.targets_ready.as_deref() == Some("0/1"), "{status:?}");
    ensure!(status.targets[0].address.as_deref() == Some("127.0.0.1:1"));
    ensure!(other.up(&operator).await? == Some(0));
    let counted = format!("provider=\"{}\"", other.name);
    ensure!(operator.scrape().await?.contains(&counted));
    // Two may have chosen the same name. Only one keeps the object, as long as it is there.
    eventually("that is told", ROUNDS, || async {
        let log = operator.log()?;
        Ok(log
            .contains("kept by another operator, another")
            .then_some(()))
    })
    .await?;
    let kept = taken.get().await?.context("an object")?;
    ensure!(kept.labels()["app.kubernetes.io/instance"] == "another");
    ensure!(target(Some(&kept)).is_none(), "{:?}", kept.status);
    let long_ago = Timestamp::now() - Duration::from_mins(11);
    taken.is_kept_by("another", long_ago).await?;
    let ours = taken.says("Reachable").await?;
    ensure!(ours.labels()["app.kubernetes.io/instance"] == scene.namespace());
    taken.is_kept_by("another", Timestamp::now()).await?;

    operator.configure(&alone)?;
    other.until("gone", |health| health.is_none()).await?;
    let scrape = operator.scrape().await?;
    ensure!(!scrape.contains(&counted), "{scrape}");
    ensure!(other.up(&operator).await?.is_none());
    ensure!(one.up(&operator).await? == Some(1));
    ensure!(taken.get().await?.is_some(), "it was somebody else's");
    all.delete(&taken.name, &DeleteParams::default()).await?;

    operator.stop().await?;
    let off = scene.operator().with_providers(&alone);
    let off = off.env("PROXY_OPERATOR_PROVIDER_CHECK_INTERVAL", "0");
    let operator = off.start().await?;
    one.until("gone", |health| health.is_none()).await?;
    ensure!(one.up(&operator).await?.is_none());
    Ok(())
}
