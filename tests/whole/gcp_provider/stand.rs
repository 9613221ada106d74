//! A stand-in for Google with credentials for it, and providers that use them.

use crate::lab::gce::{Gce, Options, life::Pace};
use actors::provider::contract::{CreateRequest, instance_name};
use crds::Placement;
use proxy_operator::providers::{
    INSTALLATION_MARK, MANAGED_MARK, UID_MARK,
    gcp::{
        GcpProvider, Surroundings,
        config::GcpConfig,
        credentials::{Adc, Source},
        wire::Wire,
    },
};
use serde_json::{Value, json};
use std::{io::Write as _, time::Duration};
use tempfile::NamedTempFile;

pub const PROJECT: &str = "lab-project";
pub const ZONE: &str = "europe-west1-b";
pub const IMAGE: &str = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts";
/// The method's names, as the stand-in has them.
pub const INSERT: &str = "compute.instances.insert";
pub const GET: &str = "compute.instances.get";
pub const DELETE: &str = "compute.instances.delete";
pub const LIST: &str = "compute.instances.aggregatedList";
/// A thousandth of the time that Google takes. The clock goes with the real one, for ages are compared with
/// it; and an instance is there as soon as it was accepted: the suite asks for it at once, and whoever asks
/// `get` and not `follow` is told the truth, which may be that it is not there yet.
const PACE: Pace = Pace {
    pending: Duration::from_millis(5),
    appears: Duration::ZERO,
    listed: Duration::ZERO,
    staging: Duration::from_millis(10),
    running: Duration::from_millis(30),
    addresses: Duration::ZERO,
    gone: Duration::from_millis(80),
    stopped: Duration::from_millis(60),
    failed: Duration::from_millis(20),
};

/// One project of Google's.
pub struct Stand {
    pub gce: Gce,
    pub installation: String,
    credentials: NamedTempFile,
}

impl Stand {
    pub async fn new() -> anyhow::Result<Self> {
        let gce = Gce::start(Options {
            project: PROJECT.into(),
            speed: 1.0,
            pace: PACE,
            ..Options::default()
        })
        .await?;
        let mut credentials = NamedTempFile::new()?;
        write!(credentials, "{}", gce.user())?;
        Ok(Self {
            gce,
            installation: format!("lab-{:08x}", rand::random::<u32>()),
            credentials,
        })
    }

    /// A provider of the installation here.
    pub fn ours(&self) -> anyhow::Result<GcpProvider> {
        self.at(&self.gce.endpoint(), &self.installation)
    }

    /// A provider that finds Google there.
    pub fn at(&self, endpoint: &str, installation: &str) -> anyhow::Result<GcpProvider> {
        let config = json!({ "project": PROJECT, "endpoint": endpoint });
        let config: GcpConfig = serde_yaml::from_str(&config.to_string())?;
        let around = Surroundings {
            installation: installation.to_owned(),
            credentials: Adc::new(Source::File(self.credentials.path().into())),
            wire: Wire::default(),
        };
        Ok(GcpProvider::new("gcp".into(), config, &around))
    }

    /// A request for an owner that no other request has.
    pub fn order(&self) -> CreateRequest {
        let uid = format!("{:032x}", rand::random::<u128>());
        CreateRequest {
            name: instance_name(&uid),
            uid,
            namespace: "crawl".into(),
            proxy_name: "a".into(),
            placement: Placement {
                region: None,
                zone: Some(ZONE.into()),
                machine_type: Some("e2-small".into()),
                image: Some(IMAGE.into()),
            },
            user_data: Some(b"#cloud-config\n".to_vec().into()),
            port: 3128,
            installation: self.installation.clone(),
            spec_hash: "hash".into(),
            after: None,
            elsewhere: false,
        }
    }

    /// The marks of an instance of this installation.
    pub fn marks(&self, uid: &str) -> Value {
        json!({
            MANAGED_MARK: "true", UID_MARK: uid, INSTALLATION_MARK: self.installation,
        })
    }

    /// How many instances were ever accepted under this name.
    pub fn ever_made(&self, name: &str) -> usize {
        let world = self.gce.world();
        let inserts = world.operations(Some(ZONE));
        let ended = format!("/{name}");
        inserts
            .filter(|one| one.kind == "insert" && one.target.ends_with(&ended))
            .count()
    }
}

/// The ID of the instance of this name.
pub fn id_of(name: &str) -> String {
    format!("zones/{ZONE}/instances/{name}")
}
