//! The lab's API server, full of External proxies.

use anyhow::{Context as _, bail, ensure};
use crds::{Proxy, names};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/cluster.sh");
const INDEX: &str = "71";
/// Tells cluster.sh whose the cluster is: nobody else may take it down.
const OWNER: &str = "LAB_OWNER";
const NAMESPACE: &str = "crawlers";
/// Requests under way at once, which is what the operator allows itself too.
const IN_FLIGHT: usize = 64;
const PATIENCE: Duration = Duration::from_mins(1);

/// A control plane that is there for this benchmark, with the definitions installed. Dropping it takes
/// it down.
pub struct Cluster {
    pub client: Client,
    pub kubeconfig: PathBuf,
}

fn folder() -> PathBuf {
    std::env::temp_dir().join("lab-bench")
}

impl Cluster {
    pub async fn up() -> anyhow::Result<Self> {
        let up = tokio::process::Command::new(SCRIPT)
            .arg("up")
            .arg(folder())
            .arg(INDEX)
            .env(OWNER, std::process::id().to_string())
            .output()
            .await?;
        ensure!(
            up.status.success(),
            "{}",
            String::from_utf8_lossy(&up.stderr).trim()
        );
        let said = String::from_utf8(up.stdout)?;
        let kubeconfig = said
            .lines()
            .find_map(|line| line.strip_prefix("kubeconfig="));
        let kubeconfig = PathBuf::from(kubeconfig.context("cluster.sh names no kubeconfig")?);
        let config = Config::from_custom_kubeconfig(
            Kubeconfig::read_from(&kubeconfig)?,
            &KubeConfigOptions::default(),
        )
        .await?;
        let cluster = Self {
            client: Client::try_from(config)?,
            kubeconfig,
        };
        cluster.prepare().await?;
        Ok(cluster)
    }

    async fn prepare(&self) -> anyhow::Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for text in [
            include_str!("../../crds/proxies.crawl.example.com.yaml"),
            include_str!("../../crds/providerhealths.crawl.example.com.yaml"),
        ] {
            let definition: CustomResourceDefinition = serde_yaml::from_str(text)?;
            definitions
                .create(&PostParams::default(), &definition)
                .await?;
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.to_owned());
        namespaces
            .create(&PostParams::default(), &namespace)
            .await?;
        let begun = Instant::now();
        while self
            .proxies()
            .list(&ListParams::default().limit(1))
            .await
            .is_err()
        {
            ensure!(
                begun.elapsed() < PATIENCE,
                "the definitions are never served"
            );
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    pub fn proxies(&self) -> Api<Proxy> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates them all; each is then written a status so many times, in turn with its creation.
    pub async fn create(&self, objects: Vec<Proxy>, writes: u32) -> anyhow::Result<()> {
        let proxies = self.proxies();
        stream::iter(objects)
            .map(|object| {
                let proxies = proxies.clone();
                async move {
                    let made = proxies.create(&PostParams::default(), &object).await?;
                    for number in 1..=writes {
                        write_status(&proxies, &made, number).await?;
                    }
                    anyhow::Ok(())
                }
            })
            .buffer_unordered(IN_FLIGHT)
            .try_collect()
            .await
    }

    /// Deletes all proxies, and waits until they are gone.
    pub async fn clear(&self) -> anyhow::Result<()> {
        let proxies = self.proxies();
        let begun = Instant::now();
        while proxies
            .list_metadata(&ListParams::default().limit(1))
            .await?
            .items
            .pop()
            .is_some()
        {
            ensure!(begun.elapsed() < PATIENCE, "the proxies are never gone");
            proxies
                .delete_collection(&DeleteParams::default(), &ListParams::default())
                .await?;
        }
        Ok(())
    }

    /// Patches of Proxy objects that the API server has answered so far, as it counts them itself.
    pub async fn patches(&self) -> anyhow::Result<u64> {
        let text = self
            .client
            .request_text(hyper::Request::get("/metrics").body(Vec::new())?)
            .await?;
        let mut sum = 0.0;
        for line in text
            .lines()
            .filter(|line| line.starts_with("apiserver_request_total{"))
        {
            let has = |label: &str| line.contains(label);
            if has("resource=\"proxies\"") && (has("verb=\"APPLY\"") || has("verb=\"PATCH\"")) {
                sum += line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?;
            }
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count"
        )]
        Ok(sum as u64)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // What is left is cleared away by the next `up`.
        Command::new(SCRIPT)
            .arg("down")
            .arg(folder())
            .arg(INDEX)
            .env(OWNER, std::process::id().to_string())
            .status()
            .ok();
    }
}

/// A status like the operator's, as it writes it. Each is another one, or the server would not write.
async fn write_status(proxies: &Api<Proxy>, object: &Proxy, number: u32) -> anyhow::Result<()> {
    let name = object.name_any();
    let body = json!({
        "apiVersion": "crawl.example.com/v1alpha1",
        "kind": "Proxy",
        "metadata": {"name": name, "uid": object.metadata.uid},
        "status": status(number),
    });
    let ours = PatchParams::apply(names::FIELD_MANAGER).force();
    let written = proxies
        .patch_status(&name, &ours, &Patch::Apply(body))
        .await?;
    if written.status.is_none() {
        bail!("{name} has no status");
    }
    Ok(())
}

/// What the operator says of a proxy that was probed, and nearly that before.
pub fn status(number: u32) -> Value {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    json!({
        "observedGeneration": 1, "phase": "Ready", "latencyMillis": number,
        "conditions": [
            condition("Provisioned", "External", "the endpoint is taken as it is"),
            condition("Healthy", "ProbeSucceeded", "the last probe succeeded"),
            condition("Synced", "Synced", "the object says what is"),
            condition("Ready", "Ready", "the proxy egresses"),
        ],
    })
}
