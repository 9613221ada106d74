//! Application Default Credentials of every kind, each against the stand-in's own servers.

use crate::lab::gce::{Gce, Options};
use actors::provider::contract::{CreateRequest, InstanceState, Provider, instance_name};
use anyhow::{Context as _, ensure};
use crds::Placement;
use proxy_operator::providers::gcp::{
    GcpProvider, Surroundings,
    config::GcpConfig,
    credentials::{Adc, Source},
    wire::Wire,
};
use serde_json::{Value, json};
use std::io::Write as _;
use tempfile::NamedTempFile;

const ZONE: &str = "europe-west1-b";
const EMAIL: &str = "operator@lab-project.iam.gserviceaccount.com";

/// A service account's key signs the token of each request.
pub async fn a_service_account_makes_an_instance() -> anyhow::Result<()> {
    let gce = Gce::start(Options::default()).await?;
    let key = gce.service_account(EMAIL)?;
    makes_an_instance(&gce, &key).await
}

/// What gcloud writes for a person gets a token for a refresh token.
pub async fn a_user_makes_an_instance() -> anyhow::Result<()> {
    let gce = Gce::start(Options::default()).await?;
    let user = gce.user();
    makes_an_instance(&gce, &user).await?;
    ensure!(gce.count("token") == 1, "{:?}", gce.counts());
    Ok(())
}

async fn makes_an_instance(gce: &Gce, credentials: &Value) -> anyhow::Result<()> {
    let mut file = NamedTempFile::new()?;
    write!(file, "{credentials}")?;
    let config = json!({ "project": "lab-project", "endpoint": gce.endpoint() });
    let config: GcpConfig = serde_yaml::from_str(&config.to_string())?;
    let around = Surroundings {
        installation: "here".into(),
        credentials: Adc::new(Source::File(file.path().into())),
        wire: Wire::default(),
    };
    let provider = GcpProvider::new("gcp".into(), config, &around);
    let uid = format!("{:032x}", rand::random::<u128>());
    let request = CreateRequest {
        name: instance_name(&uid),
        uid,
        namespace: "crawl".into(),
        proxy_name: "a".into(),
        placement: Placement {
            region: None,
            zone: Some(ZONE.into()),
            machine_type: Some("e2-small".into()),
            image: Some("projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts".into()),
        },
        user_data: Some(b"#cloud-config\n".to_vec().into()),
        port: 3128,
        installation: "here".into(),
        spec_hash: "hash".into(),
        after: None,
        elsewhere: false,
    };
    let created = provider.create(&request).await?;
    let operation = created.operation.context("no operation")?;
    gce.set_speed(200.0);
    let instance = loop {
        let instance = provider.follow(&created.id, &operation).await?;
        if instance.state == InstanceState::Running {
            break instance;
        }
        ensure!(
            instance.state == InstanceState::Provisioning,
            "{instance:?}"
        );
    };
    ensure!(
        instance.ip.is_some_and(|ip| ip.is_loopback()),
        "{instance:?}"
    );
    ensure!(instance.uid == request.uid, "{instance:?}");
    let listed = provider.list().await?;
    ensure!(listed == [instance], "{listed:?}");
    let checks = provider.check(provider.deadline(actors::provider::contract::Operation::Check));
    for check in checks.await {
        ensure!(check.ready, "{check:?}");
    }
    provider.delete(&created.id).await?;
    while provider.get(&created.id).await.is_ok() {}
    let wrongs = gce.take_wrongs();
    ensure!(wrongs.is_empty(), "{wrongs:#?}");
    Ok(())
}
