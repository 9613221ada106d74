//! Proxies: written, applied, waited for.

use super::{Scene, squid::Squid};
use anyhow::{Context as _, bail, ensure};
use crds::{
    Phase, Proxy,
    conditions::{self, ConditionType},
};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use std::time::Duration;

/// What is promised within 30 seconds, on a machine that does other things too.
pub const PATIENCE: Duration = Duration::from_mins(3);

/// A Proxy of this name, probed every second at a page of the judge that is its own.
pub fn proxy(name: &str) -> Draft {
    Draft {
        name: name.to_owned(),
        metadata: json!({}),
        spec: json!({}),
    }
}

/// A Proxy as it is going to be applied.
pub struct Draft {
    name: String,
    metadata: Value,
    spec: Value,
}

impl Draft {
    /// A Managed one.
    pub fn managed_by(self, provider: &str) -> Self {
        self.with(json!({"mode": "Managed", "provider": provider}))
    }

    /// An External one.
    pub fn at(self, host: &str, port: u16) -> Self {
        self.with(json!({"mode": "External", "endpoint": {"host": host, "port": port}}))
    }

    /// An External one that is this Squid.
    pub fn through(self, squid: &Squid) -> Self {
        self.at(&squid.address.ip().to_string(), squid.address.port())
    }

    /// With more of a spec, merged into what there is.
    pub fn with(mut self, spec: Value) -> Self {
        merge(&mut self.spec, spec);
        self
    }

    /// With more metadata, merged likewise.
    pub fn marked(mut self, metadata: Value) -> Self {
        merge(&mut self.metadata, metadata);
        self
    }

    /// With this user-data.
    pub fn cloud_init(self, user_data: &str) -> Self {
        self.with(json!({"cloudInit": {"inline": user_data}}))
    }

    /// With user-data from this Secret.
    pub fn cloud_init_from(self, secret: &str) -> Self {
        self.with(json!({"cloudInit": {"secretRef": {"name": secret}}}))
    }

    pub(super) fn object(self, scene: &Scene) -> Value {
        let page = scene.lab().url(&page(scene, &self.name));
        let mut spec = json!({"healthCheck": {"url": page, "periodSeconds": 1}});
        merge(&mut spec, self.spec);
        let mut metadata = self.metadata;
        merge(&mut metadata, json!({"name": self.name}));
        json!({
            "apiVersion": "crawl.example.com/v1alpha1", "kind": "Proxy",
            "metadata": metadata, "spec": spec,
        })
    }
}

fn page(scene: &Scene, name: &str) -> String {
    format!("/generate_204/{}/{name}", scene.namespace())
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// A Proxy that was applied.
#[derive(Clone)]
pub struct Applied {
    scene: Scene,
    /// Its name.
    pub name: String,
}

impl Applied {
    /// A handle of the Proxy of this name, which need not exist.
    pub fn new(scene: Scene, name: String) -> Self {
        Self { scene, name }
    }

    /// `namespace/name`, as the lease API calls it.
    pub fn id(&self) -> String {
        format!("{}/{}", self.scene.namespace(), self.name)
    }

    /// The page that it is probed with.
    pub fn page(&self) -> String {
        page(&self.scene, &self.name)
    }

    /// From now on the judge answers its probes as it would `path`; `None` takes that back.
    pub fn answers_like(&self, path: Option<&str>) {
        self.scene.lab().judge.divert(&self.page(), path);
    }

    /// How often the judge was asked for its page.
    pub fn probes(&self) -> u64 {
        self.scene.lab().judge.count(&self.page())
    }

    fn api(&self) -> Api<Proxy> {
        self.scene.api()
    }

    /// The object as it is.
    ///
    /// # Errors
    /// The API server's.
    pub async fn get(&self) -> anyhow::Result<Proxy> {
        Ok(self.api().get(&self.name).await?)
    }

    /// The object as it is, if it is there still.
    ///
    /// # Errors
    /// The API server's.
    pub async fn get_opt(&self) -> anyhow::Result<Option<Proxy>> {
        Ok(self.api().get_opt(&self.name).await?)
    }

    /// Waits until the judge was asked for its page so many times more.
    ///
    /// # Errors
    /// That it was not.
    pub async fn is_probed_again(&self, times: u64) -> anyhow::Result<()> {
        let goal = self.probes() + times;
        super::eventually(&format!("{goal} probes"), PATIENCE, || async move {
            Ok((self.probes() >= goal).then_some(()))
        })
        .await
    }

    /// Waits until it is in this phase.
    ///
    /// # Errors
    /// That it never was.
    pub async fn becomes(&self, phase: Phase) -> anyhow::Result<Proxy> {
        self.becomes_within(PATIENCE, phase).await
    }

    /// The same for what may take longer.
    ///
    /// # Errors
    /// That it never was.
    pub async fn becomes_within(&self, patience: Duration, phase: Phase) -> anyhow::Result<Proxy> {
        self.until_within(patience, &format!("{phase:?}"), move |proxy| {
            proxy.status.as_ref().and_then(|status| status.phase) == Some(phase)
        })
        .await
    }

    /// Waits until a condition has this reason.
    ///
    /// # Errors
    /// That it never had.
    pub async fn says(&self, type_: ConditionType, reason: &str) -> anyhow::Result<Proxy> {
        let what = format!("{}: {reason}", type_.as_str());
        let reason = reason.to_owned();
        self.until(&what, move |proxy| {
            condition(proxy, type_).is_some_and(|(_, said, _)| said == reason)
        })
        .await
    }

    /// Waits until this is true of it.
    ///
    /// # Errors
    /// That it never was.
    pub async fn until(
        &self,
        what: &str,
        is: impl Fn(&Proxy) -> bool + Send,
    ) -> anyhow::Result<Proxy> {
        self.until_within(PATIENCE, what, is).await
    }

    async fn until_within(
        &self,
        patience: Duration,
        what: &str,
        is: impl Fn(&Proxy) -> bool + Send,
    ) -> anyhow::Result<Proxy> {
        // A connection that the API server closes is no answer.
        let waiting = async {
            loop {
                let condition = |proxy: Option<&Proxy>| proxy.is_some_and(&is);
                match await_condition(self.api(), &self.name, condition).await {
                    Ok(proxy) => return proxy,
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
        };
        match tokio::time::timeout(patience, waiting).await {
            Ok(proxy) => proxy.with_context(|| format!("{} is gone: {what}", self.name)),
            Err(_) => bail!("{} is not within {patience:?}: {what}", self.name),
        }
    }

    /// Waits until there is no such object.
    ///
    /// # Errors
    /// That there still is one.
    pub async fn is_gone(&self) -> anyhow::Result<()> {
        let waiting = await_condition(self.api(), &self.name, |proxy: Option<&Proxy>| {
            proxy.is_none()
        });
        tokio::time::timeout(PATIENCE, waiting)
            .await
            .with_context(|| format!("{} is still there after {PATIENCE:?}", self.name))??;
        Ok(())
    }

    /// Changes it by a merge patch.
    ///
    /// # Errors
    /// The API server's.
    pub async fn change(&self, patch: Value) -> anyhow::Result<Proxy> {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        Ok(self.api().patch(&self.name, &params, &patch).await?)
    }

    /// Asks for its deletion.
    ///
    /// # Errors
    /// The API server's.
    pub async fn delete(&self) -> anyhow::Result<()> {
        self.api()
            .delete(&self.name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// The pods that are owned by it.
    ///
    /// # Errors
    /// The API server's.
    pub async fn pods(&self) -> anyhow::Result<Vec<Pod>> {
        let owned = |pod: &Pod| {
            pod.owner_references()
                .iter()
                .any(|owner| owner.kind == "Proxy" && owner.name == self.name)
        };
        let pods: Api<Pod> = self.scene.api();
        let pods = pods.list(&ListParams::default()).await?;
        Ok(pods.into_iter().filter(owned).collect())
    }

    /// Its one pod.
    ///
    /// # Errors
    /// That there is none, or more than one.
    pub async fn pod(&self) -> anyhow::Result<Pod> {
        let mut pods = self.pods().await?;
        let pod = pods
            .pop()
            .with_context(|| format!("{}: no pod", self.name))?;
        ensure!(pods.is_empty(), "{}: more pods than one", self.name);
        Ok(pod)
    }

    /// Waits until an Event of this reason was recorded for it, and gives its message.
    ///
    /// # Errors
    /// That there was none.
    pub async fn event(&self, reason: &str) -> anyhow::Result<String> {
        super::eventually(&format!("the event {reason}"), PATIENCE, || async {
            let events: Api<Event> = self.scene.api();
            let about = format!("involvedObject.name={},reason={reason}", self.name);
            let events = events.list(&ListParams::default().fields(&about)).await?;
            let first = events.items.into_iter().next();
            Ok(first.map(|event| event.message.unwrap_or_default()))
        })
        .await
    }
}

/// Status, reason and message of a condition.
pub fn condition(proxy: &Proxy, type_: ConditionType) -> Option<(&str, &str, &str)> {
    let conditions = &proxy.status.as_ref()?.conditions;
    let condition = conditions::get(conditions, type_)?;
    Some((&condition.status, &condition.reason, &condition.message))
}

/// The address that the status tells.
pub fn ip(proxy: &Proxy) -> anyhow::Result<String> {
    let status = proxy.status.as_ref().context("a status")?;
    status.ip.clone().context("an ip")
}
