//! A namespace of its own for one scenario, and what is told when it fails.

use super::{
    Lab,
    operator::Launch,
    proxy::{Applied, Draft},
};
use anyhow::{Context as _, Error};
use crds::Proxy;
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, Secret, ServiceAccount};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;
use tokio::time::timeout;

/// What the control plane does is quick, but the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(3);
/// Lines of an operator's log that are shown when its scenario fails.
const TAIL: usize = 40;

/// A scenario's own place: a namespace that enforces the restricted Pod Security Standard, and a folder.
#[derive(Clone)]
pub struct Scene(Arc<Inner>);

struct Inner {
    lab: Arc<Lab>,
    namespace: String,
    files: TempDir,
    operators: AtomicU32,
}

impl Scene {
    /// A new one; `slug` shows in the namespace's name.
    ///
    /// # Errors
    /// The API server's, or that a namespace does not get what every namespace gets.
    pub async fn new(lab: Arc<Lab>, slug: &str) -> anyhow::Result<Self> {
        let slug: String = slug.replace('_', "-").chars().take(40).collect();
        let namespace = format!(
            "{}-{:06x}",
            slug.trim_matches('-'),
            rand::random::<u32>() >> 8
        );
        let scene = Self(Arc::new(Inner {
            lab,
            namespace,
            files: tempfile::tempdir()?,
            operators: AtomicU32::new(0),
        }));
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let namespace = json!({"metadata": {"name": scene.namespace(), "labels": labels}});
        let namespaces: Api<Namespace> = Api::all(scene.lab().client.clone());
        let namespace = serde_json::from_value(namespace)?;
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        // Pods are refused until there is one.
        let accounts: Api<ServiceAccount> = scene.api();
        let made = await_condition(accounts, "default", |it: Option<&ServiceAccount>| {
            it.is_some()
        });
        timeout(PATIENCE, made)
            .await
            .context("the default service account")??;
        Ok(scene)
    }

    /// Another place of the same scenario; somebody has to end it.
    ///
    /// # Errors
    /// As [`Scene::new`].
    pub async fn neighbour(&self, slug: &str) -> anyhow::Result<Self> {
        Self::new(Arc::clone(&self.0.lab), slug).await
    }

    /// The lab that it is in.
    pub fn lab(&self) -> &Lab {
        &self.0.lab
    }

    /// Its namespace.
    pub fn namespace(&self) -> &str {
        &self.0.namespace
    }

    /// A file in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.files.path().join(name)
    }

    /// The objects of a kind in its namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.lab().client.clone(), self.namespace())
    }

    /// An operator to be started, for this namespace alone unless told otherwise.
    pub fn operator(&self) -> Launch {
        let number = self.0.operators.fetch_add(1, Ordering::Relaxed);
        Launch::new(self.clone(), number)
    }

    /// Creates a Proxy.
    ///
    /// # Errors
    /// The API server's.
    pub async fn apply(&self, draft: Draft) -> anyhow::Result<Applied> {
        let object = draft.object(self);
        let made: Proxy = self.create(object).await?;
        Ok(Applied::new(self.clone(), made.name_any()))
    }

    /// Creates an object of any kind in the namespace.
    ///
    /// # Errors
    /// The API server's.
    pub async fn create<K>(&self, object: Value) -> anyhow::Result<K>
    where
        K: kube::Resource<Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Serialize
            + Clone
            + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let object = serde_json::from_value(object)?;
        Ok(self.api().create(&PostParams::default(), &object).await?)
    }

    /// Creates a Secret with the label that makes it user-data.
    ///
    /// # Errors
    /// The API server's.
    pub async fn secret(&self, name: &str, user_data: &str) -> anyhow::Result<Secret> {
        let labels = json!({"crawl.example.com/cloud-init": "true"});
        self.create(json!({
            "metadata": {"name": name, "labels": labels},
            "stringData": {"user-data": user_data},
        }))
        .await
    }

    /// The pods of the namespace.
    ///
    /// # Errors
    /// The API server's.
    pub async fn pods(&self) -> anyhow::Result<Vec<Pod>> {
        let pods: Api<Pod> = self.api();
        Ok(pods.list(&ListParams::default()).await?.items)
    }

    /// Deletes a pod behind the operator's back and waits until it is gone.
    ///
    /// # Errors
    /// The API server's, or that it stays.
    pub async fn remove_pod(&self, name: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = self.api();
        pods.delete(name, &DeleteParams::default()).await?;
        let gone = await_condition(pods, name, |pod: Option<&Pod>| pod.is_none());
        timeout(PATIENCE, gone).await.context("the pod goes")??;
        Ok(())
    }

    /// Has the kubelet end a pod as failed, and waits until it says so.
    ///
    /// # Errors
    /// The API server's, or that it never fails.
    pub async fn fail_pod(&self, name: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = self.api();
        let soon = Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 1}}));
        pods.patch(name, &PatchParams::default(), &soon).await?;
        let failed = await_condition(pods, name, |pod: Option<&Pod>| {
            let phase = pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref());
            phase == Some("Failed")
        });
        timeout(PATIENCE, failed).await.context("the pod fails")??;
        Ok(())
    }

    /// What `kubectl` prints.
    ///
    /// # Errors
    /// What it complains about.
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let kubectl = self.lab().cluster.kubectl();
        kubectl
            .run(self.namespace(), arguments)
            .await
            .map_err(Error::msg)
    }

    /// Ends it; a failure is told together with all that may explain it.
    ///
    /// # Errors
    /// The outcome's own.
    pub async fn end(&self, outcome: Result<(), String>) -> Result<(), String> {
        let outcome = match outcome {
            Ok(()) => Ok(()),
            Err(error) => Err(format!("{error}\n{}", self.describe().await)),
        };
        let cleaned = self.clean().await;
        outcome.and_then(|()| cleaned.map_err(|error| format!("cleaning up: {error:#}")))
    }

    /// Nobody finalizes any more by now.
    async fn clean(&self) -> anyhow::Result<()> {
        let proxies: Api<Proxy> = self.api();
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        for proxy in proxies.list(&ListParams::default()).await? {
            if !proxy.finalizers().is_empty() {
                let (name, params) = (proxy.name_any(), PatchParams::default());
                ignore_gone(proxies.patch(&name, &params, &free).await)?;
            }
        }
        let namespaces: Api<Namespace> = Api::all(self.lab().client.clone());
        ignore_gone(
            namespaces
                .delete(self.namespace(), &DeleteParams::default())
                .await,
        )
    }

    async fn describe(&self) -> String {
        let mut text = format!("--- namespace {}\n", self.namespace());
        match self.api::<Proxy>().list(&ListParams::default()).await {
            Err(error) => writeln!(text, "no Proxies: {error}").unwrap_or_default(),
            Ok(proxies) => {
                for mut proxy in proxies {
                    proxy.metadata.managed_fields = None;
                    let yaml = serde_yaml::to_string(&proxy).unwrap_or_default();
                    writeln!(text, "{yaml}").unwrap_or_default();
                }
            }
        }
        for event in self.events().await.unwrap_or_default() {
            let about = event.involved_object.name.unwrap_or_default();
            let reason = event.reason.unwrap_or_default();
            let message = event.message.unwrap_or_default();
            writeln!(text, "event {about} {reason}: {message}").unwrap_or_default();
        }
        for pod in self.pods().await.unwrap_or_default() {
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
            writeln!(text, "pod {} {phase:?}", pod.name_any()).unwrap_or_default();
        }
        for number in 0..self.0.operators.load(Ordering::Relaxed) {
            let log = fs::read_to_string(self.path(&format!("operator-{number}.log")));
            let log = log.unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(TAIL)..];
            writeln!(text, "--- operator {number}\n{}", tail.join("\n")).unwrap_or_default();
        }
        text
    }

    /// The Events of the namespace.
    ///
    /// # Errors
    /// The API server's.
    pub async fn events(&self) -> anyhow::Result<Vec<Event>> {
        let events: Api<Event> = self.api();
        Ok(events.list(&ListParams::default()).await?.items)
    }
}

fn ignore_gone<T>(answer: Result<T, kube::Error>) -> anyhow::Result<()> {
    match answer {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}
