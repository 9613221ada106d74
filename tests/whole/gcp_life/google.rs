//! A stand-in for Google, and an operator that uses it.

use crate::lab::{
    Scene, eventually,
    gce::{Gce, Options, instance::Instance, proxies},
    operator::Launch,
    proxy::{Applied, Draft, PATIENCE, proxy},
};
use actors::provider::contract::instance_name;
use anyhow::{Context as _, ensure};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};

pub const PROJECT: &str = "lab-project";
pub const ZONE: &str = "europe-west1-b";
pub const IMAGE: &str = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts";
pub const INSERT: &str = "compute.instances.insert";
/// So fast that an instance runs at the first look at it.
pub const AT_ONCE: f64 = 2000.0;
pub const USER_DATA: &str = "#cloud-config\npackages: [squid]\n";
/// Whose key it is.
pub const EMAIL: &str = "operator@lab-project.iam.gserviceaccount.com";

/// One project of Google's.
pub struct Google {
    pub gce: Arc<Gce>,
    scene: Scene,
    /// Of the provider: what is told of it is in no namespace.
    pub provider: String,
    /// The credentials file of operators.
    pub file: PathBuf,
}

impl Google {
    /// One with this speed, whose instances are proxies.
    pub async fn new(scene: &Scene, speed: f64) -> anyhow::Result<Self> {
        let gce = Gce::start(Options {
            project: PROJECT.into(),
            speed,
            proxies: Some(proxies::on_port(3128)),
            ..Options::default()
        })
        .await?;
        let (_, unique) = scene.namespace().rsplit_once('-').unwrap_or_default();
        Ok(Self {
            gce: Arc::new(gce),
            scene: scene.clone(),
            provider: format!("google-{unique}"),
            file: scene.path("google.json"),
        })
    }

    /// An operator with the key of a service account.
    pub fn operator(&self) -> anyhow::Result<Launch> {
        self.write_key()?;
        Ok(self.with_file(self.scene.operator()))
    }

    /// A new key of the service account in the credentials file; gives back what the file says.
    pub fn write_key(&self) -> anyhow::Result<Value> {
        let key = self.gce.service_account(EMAIL)?;
        fs::write(&self.file, key.to_string())?;
        Ok(key)
    }

    /// Has it use this Google, by the credentials file.
    pub fn with_file(&self, launch: Launch) -> Launch {
        let file = self.file.display().to_string();
        self.config(launch)
            .env("GOOGLE_APPLICATION_CREDENTIALS", file)
    }

    /// Has it use this Google, by the metadata server.
    pub fn by_metadata(&self, launch: Launch) -> Launch {
        let endpoint = self.gce.endpoint();
        let host = endpoint.trim_start_matches("http://");
        self.config(launch).env("GCE_METADATA_HOST", host)
    }

    fn config(&self, launch: Launch) -> Launch {
        let block = json!({ "project": PROJECT, "endpoint": self.gce.endpoint() });
        let file = json!({ "providers": [{ "name": self.provider, "type": "gcp", "gcp": block }] });
        launch.with_providers(&file.to_string())
    }

    /// A Proxy that is a VM in this zone.
    pub fn proxy(&self, name: &str, zone: &str) -> Draft {
        let placement = json!({ "zone": zone, "machineType": "e2-small", "image": IMAGE });
        let draft = proxy(name).managed_by(&self.provider).cloud_init(USER_DATA);
        draft.with(json!({ "placement": placement }))
    }

    /// The instances that were ever accepted in a zone, those that failed later included, as the inserts
    /// were repeated or not: number and request ID.
    pub fn ever_made(&self, zone: &str) -> Vec<(u64, String)> {
        let world = self.gce.world();
        let inserts = world
            .operations(Some(zone))
            .filter(|one| one.kind == "insert");
        inserts
            .map(|one| (one.target_id, one.request_id.clone().unwrap_or_default()))
            .collect()
    }

    /// The request IDs that inserts in a zone were asked with.
    pub fn asked_with(&self, zone: &str) -> BTreeSet<String> {
        let mut ids: BTreeSet<_> = self.ever_made(zone).into_iter().map(|one| one.1).collect();
        let path = format!("/zones/{zone}/");
        for asked in self.gce.requests() {
            if asked.method == INSERT && asked.path.contains(&path) {
                let query = url::form_urlencoded::parse(asked.query.as_bytes());
                let id = query.filter(|(name, _)| name == "requestId");
                ids.extend(id.map(|(_, id)| id.into_owned()));
            }
        }
        ids
    }

    /// Waits until so many were accepted in the zone.
    pub async fn makes(&self, zone: &str, times: usize) -> anyhow::Result<Vec<(u64, String)>> {
        eventually(&format!("{times} made"), PATIENCE, || async {
            let made = self.ever_made(zone);
            Ok((made.len() == times).then_some(made))
        })
        .await
    }

    /// The instance of a Proxy.
    pub async fn instance(&self, proxy: &Applied) -> anyhow::Result<Instance> {
        let name = instance_name(&proxy.get().await?.uid().context("a uid")?);
        let mut world = self.gce.world();
        let found = world.named(&name).next().map(|found| found.clone());
        found.with_context(|| format!("no {name}"))
    }

    /// That nothing is left, and that the stand-in was in order.
    pub fn is_left_clean(&self) -> anyhow::Result<()> {
        let left = self.gce.world().resources(self.gce.now());
        ensure!(left.is_empty(), "left behind: {left:#?}");
        let wrongs = self.gce.take_wrongs();
        ensure!(wrongs.is_empty(), "the stand-in's own faults: {wrongs:#?}");
        Ok(())
    }
}

/// The operation on record.
pub fn operation(proxy: &crds::Proxy) -> anyhow::Result<String> {
    let status = proxy.status.as_ref().context("a status")?;
    status.operation.clone().context("an operation")
}

/// The provider's key on record.
pub fn id(proxy: &crds::Proxy) -> Option<&str> {
    proxy.status.as_ref()?.provider_id.as_deref()
}
