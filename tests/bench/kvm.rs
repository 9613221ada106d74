//! The kvm provider without the rest of the operator, on hypervisors of the lab.
//!
//! | row | file |
//! |---|---|
//! | `kvm-upload` | [`upload`] |
//! | `kvm-upload-rss` | [`weight`] |
//! | `kvm-create` | [`create`] |
//! | `kvm-isolation`, `kvm-mailbox` | [`isolation`] |
//! | `kvm-busy-host` | [`busy`] |
//!
//! Domains start from the lab's halting image, under BIOS and with tiny memory: they run, and cost no
//! processor time. The image server is a process of its own.

#[path = "kvm/busy.rs"]
pub mod busy;
#[path = "kvm/create.rs"]
pub mod create;
#[path = "kvm/disk.rs"]
mod disk;
#[path = "kvm/isolation.rs"]
pub mod isolation;
#[path = "kvm/upload.rs"]
pub mod upload;
#[path = "kvm/virsh.rs"]
mod virsh;
#[path = "kvm/weight.rs"]
pub mod weight;

use crate::{hypervisor::Hypervisor, image_server::ImageServer};
use actors::{
    leader::standing::Standing,
    metrics::Metrics,
    provider::{
        ProviderActor, ProviderMsg,
        contract::{CreateRequest, Created, Instance, Provider, ProviderId, instance_name},
    },
    root::RootActor,
    system::{Addr, ChildSpec, Reply, Running, System, meter::Meters},
};
use anyhow::{Context as _, anyhow, ensure};
use crds::Placement;
use disk::Disk;
use prometheus::{IntCounter, IntCounterVec, Registry, opts, proto::MetricFamily};
use proxy_operator::providers::kvm::{KvmProvider, Pace, Surroundings, config::KvmConfig};
use serde_json::{Value, json};
use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Hypervisors that are there for benchmarks, as many as a row needs.
const INDICES: [u8; 2] = [171, 172];
const INSTALLATION: &str = "bench";
const PROVIDER: &str = "lab";
/// Longer than any call may take.
const PATIENCE: Duration = Duration::from_mins(7);

fn folder() -> PathBuf {
    std::env::temp_dir().join("lab-bench-kvm")
}

/// One of them, by number.
async fn hypervisor(number: usize) -> anyhow::Result<Hypervisor> {
    let index = INDICES.get(number).context("so many hosts there are not")?;
    Hypervisor::start(&folder(), *index).await
}

/// The block of a config with these hosts, called `h0`, `h1` and so on, and these images.
fn config(hosts: &[&Hypervisor], images: &[(&str, &Disk)]) -> anyhow::Result<Value> {
    let first = hosts.first().context("no host")?;
    let host = |(number, host): (usize, &&Hypervisor)| {
        json!({
            "name": zone(number), "address": host.address.to_string(), "user": host.user,
            "bridge": host.bridge, "pool": host.pool, "domainType": "qemu",
        })
    };
    let image = |(key, disk): &(&str, &Disk)| {
        let image = json!({
            "url": disk.url, "sha256": disk.sha256, "format": disk.format, "firmware": "bios",
        });
        ((*key).to_owned(), image)
    };
    Ok(json!({
        "sshKeyFile": first.key,
        "knownHostsFile": first.known_hosts,
        "diskSizeGb": 1,
        "images": images.iter().map(image).collect::<serde_json::Map<_, _>>(),
        "machineTypes": {"tiny": {"vcpus": 1, "memoryMiB": 32}},
        "hosts": hosts.iter().enumerate().map(host).collect::<Vec<_>>(),
    }))
}

fn zone(number: usize) -> String {
    format!("h{number}")
}

/// The provider as it runs in the operator: its actor, and those of its hosts below that.
struct Backend {
    actor: Addr<ProviderMsg>,
    provider: Arc<dyn Provider>,
    registry: Registry,
    downloaded: IntCounterVec,
    _running: Running,
}

impl Backend {
    /// Starts one, connected to all its hosts.
    async fn start(config: Value) -> anyhow::Result<Self> {
        let config: KvmConfig = serde_json::from_value(config)?;
        let registry = Registry::new();
        let around = Surroundings {
            installation: INSTALLATION.to_owned(),
            downloaded: IntCounterVec::new(
                opts!("downloaded", "Bytes of images"),
                &["provider", "host"],
            )?,
            tidy: Pace::DEFAULT,
            standing: Standing::unopposed(),
        };
        let kvm = KvmProvider::new(PROVIDER.to_owned(), config, &around);
        let provider: Arc<dyn Provider> = Arc::new(kvm);
        let system = System::new(Meters::new(&registry)?);
        let (actor, metrics) = (Addr::default(), Metrics::new(&registry)?);
        let served = Arc::clone(&provider);
        let child = ChildSpec::new(format!("provider/{PROVIDER}"), actor.clone(), move || {
            ProviderActor::new(Arc::clone(&served), metrics.clone())
        });
        let root = RootActor::new(vec![child]);
        let backend = Self {
            _running: system.run(&Addr::default(), root).await?,
            downloaded: around.downloaded,
            actor,
            provider,
            registry,
        };
        let begun = Instant::now();
        // The actors of the hosts are only just being started.
        while let Err(error) = backend.check().await {
            if begun.elapsed() > Duration::from_secs(30) {
                return Err(error);
            }
            sleep(Duration::from_millis(10)).await;
        }
        Ok(backend)
    }

    async fn ask<T: Send + 'static, E: std::error::Error + Send + Sync + 'static>(
        &self,
        ask: impl FnOnce(Reply<Result<T, E>>) -> ProviderMsg,
    ) -> anyhow::Result<T> {
        let asked = self.actor.ask(PATIENCE, ask).await;
        Ok(asked.map_err(|error| anyhow!("{error:?}"))??)
    }

    async fn create(&self, request: CreateRequest) -> anyhow::Result<Created> {
        let request = Box::new(request);
        self.ask(|reply| ProviderMsg::Create(request, reply)).await
    }

    async fn get(&self, id: &ProviderId) -> anyhow::Result<Instance> {
        self.ask(|reply| ProviderMsg::Get(id.clone(), None, reply))
            .await
    }

    async fn delete(&self, id: &ProviderId) -> anyhow::Result<()> {
        self.ask(|reply| ProviderMsg::Delete(id.clone(), reply))
            .await
    }

    /// Sees that all hosts are ready. The operator's checks do not go through the actor either.
    async fn check(&self) -> anyhow::Result<()> {
        for target in self.provider.check(PATIENCE).await {
            ensure!(target.ready, "{}: {}", target.name, target.message);
        }
        Ok(())
    }

    /// What was fetched for a host so far, in bytes.
    fn downloaded(&self, host: usize) -> IntCounter {
        self.downloaded.with_label_values(&[PROVIDER, &zone(host)])
    }

    fn metrics(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}

/// What asks for the tiny domain of this number.
fn request(number: usize, host: usize, image: &str) -> CreateRequest {
    let uid = format!("00000000-0000-4000-8000-{number:012}");
    CreateRequest {
        name: instance_name(&uid),
        uid,
        namespace: "crawlers".to_owned(),
        proxy_name: format!("proxy-{number}"),
        placement: Placement {
            zone: Some(zone(host)),
            machine_type: Some("tiny".to_owned()),
            image: Some(image.to_owned()),
            ..Placement::default()
        },
        user_data: Some(b"#cloud-config\n".to_vec().into()),
        port: 3128,
        installation: INSTALLATION.to_owned(),
        spec_hash: "hash".to_owned(),
        after: None,
        elsewhere: false,
    }
}

/// The key of a domain that is not there.
fn absent(host: usize) -> ProviderId {
    format!("hosts/{}/domains/not-there", zone(host))
}

/// Gives a file over HTTP: the role of what stands behind a [`Disk`].
pub async fn serve(file: &str) -> anyhow::Result<()> {
    let server = ImageServer::start(IpAddr::V4(Ipv4Addr::LOCALHOST)).await?;
    server.give("/disk", file);
    println!("{}", server.url("/disk"));
    std::future::pending().await
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
