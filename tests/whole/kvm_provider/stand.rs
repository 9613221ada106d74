//! The kvm backend of the conformance suite: providers on a lab hypervisor.

mod behind;

use super::relay::{Relay, Steps};
use crate::{
    conformance::eventually,
    lab::{
        hypervisor::{Hypervisor, Image},
        image_server::ImageServer,
    },
};
use actors::{
    leader::standing::Standing,
    provider::contract::{CreateRequest, Provider, instance_name},
    root::RootActor,
    system::{Addr, Running, System, meter::Meters},
};
use anyhow::Context as _;
use data_encoding::HEXLOWER;
use prometheus::{IntCounterVec, Registry, opts};
use proxy_operator::providers::kvm::{
    KvmProvider, Pace, Surroundings, config::KvmConfig, volume::installation_mark,
};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use virt::connect::Connect;

/// The name of the host in the config.
pub const ZONE: &str = "lab-1";
/// One host, and an installation of its own on it.
pub struct Stand<'h> {
    /// The hypervisor.
    pub host: &'h Hypervisor,
    /// Another one.
    pub other: &'h Hypervisor,
    /// Where images come from; `/image` is the halting one.
    pub images: ImageServer,
    /// The file of the halting image.
    pub halting: PathBuf,
    /// Its digest.
    pub sha256: String,
    /// Whose instances are made.
    pub installation: String,
    connect: Mutex<Connect>,
    systems: Mutex<Vec<Running>>,
    names: Mutex<BTreeSet<String>>,
}

/// What a provider is made of; the default is one that works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `images:` of the config, as YAML.
    pub images: String,
    /// The `hosts:` of the config, as YAML.
    pub hosts: String,
    /// The size of disks, in GiB.
    pub disk: u32,
    /// How soon images are tidied away.
    pub pace: Pace,
}

impl<'h> Stand<'h> {
    /// A new installation on `host`.
    ///
    /// # Errors
    /// When there is no image, or libvirt does not answer.
    pub async fn new(host: &'h Hypervisor, other: &'h Hypervisor) -> anyhow::Result<Self> {
        let halting = Image::Halting.file().await?;
        let images = ImageServer::start(Ipv4Addr::LOCALHOST.into()).await?;
        images.give("/image", &halting);
        Ok(Self {
            connect: Mutex::new(behind::connect(host)?),
            sha256: digest(&halting)?,
            halting,
            images,
            host,
            other,
            installation: format!("conf-{:012x}", rand::random::<u64>() >> 16),
            systems: Mutex::default(),
            names: Mutex::default(),
        })
    }

    /// The key of the halting image, which is this installation's own, so that its base is, too.
    pub fn image(&self) -> &str {
        &self.installation
    }

    /// Settings that work.
    pub fn settings(&self) -> Settings {
        let (key, url, sha256) = (self.image(), self.images.url("/image"), &self.sha256);
        Settings {
            images: format!("  {key}: {{url: '{url}', sha256: {sha256}, firmware: bios}}\n"),
            hosts: host_entry(ZONE, self.host, ""),
            disk: 1,
            pace: Pace::DEFAULT,
        }
    }

    /// Settings whose host is reached through `relay`.
    pub fn over(&self, relay: &Relay) -> Settings {
        let socket = format!("socket: {}", relay.socket.display());
        Settings {
            hosts: host_entry(ZONE, self.host, &socket),
            ..self.settings()
        }
    }

    /// A relay in front of the host's libvirtd.
    ///
    /// # Errors
    /// When no socket can be made.
    pub fn relay(&self) -> anyhow::Result<Relay> {
        Relay::start(&self.host.libvirt_socket(), Steps::Work)
    }

    /// The config that the settings make.
    ///
    /// # Errors
    /// When it is none.
    pub fn config(&self, settings: &Settings) -> anyhow::Result<KvmConfig> {
        let Settings {
            images,
            hosts,
            disk,
            ..
        } = settings;
        let yaml = format!(
            "sshKeyFile: {}\nknownHostsFile: {}\ndiskSizeGb: {disk}\n\
             machineTypes:\n  small: {{vcpus: 1, memoryMiB: 16}}\n  huge: {{vcpus: 1, memoryMiB: 1000000}}\n\
             images:\n{images}hosts:\n{hosts}",
            self.host.key.display(),
            self.host.known_hosts.display(),
        );
        serde_yaml::from_str(&yaml).with_context(|| yaml.clone())
    }

    /// A provider whose actors run.
    ///
    /// # Errors
    /// When the settings are wrong.
    pub async fn provider_of(
        &self,
        installation: &str,
        settings: &Settings,
    ) -> anyhow::Result<Arc<KvmProvider>> {
        let config = self.config(settings)?;
        self.run(installation, config, settings.pace).await
    }

    /// A provider of this installation with this config.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn made_of(&self, config: KvmConfig, pace: Pace) -> anyhow::Result<Arc<KvmProvider>> {
        self.run(&self.installation, config, pace).await
    }

    async fn run(
        &self,
        installation: &str,
        config: KvmConfig,
        tidy: Pace,
    ) -> anyhow::Result<Arc<KvmProvider>> {
        let around = Surroundings {
            installation: installation.to_owned(),
            downloaded: IntCounterVec::new(opts!("fetched", "bytes"), &["provider", "host"])?,
            tidy,
            standing: Standing::unopposed(),
        };
        let expected = config.hosts.len();
        let provider = Arc::new(KvmProvider::new("kvm".to_owned(), config, &around));
        let system = System::new(Meters::new(&Registry::new())?);
        let root = RootActor::new(provider.children());
        let running = system.run(&Addr::default(), root).await?;
        locked(&self.systems).push(running);
        eventually("the hosts' connections are there", || async {
            let directory = system.directory();
            let hosts = directory.list().into_iter();
            let hosts = hosts.filter(|seen| seen.path.starts_with("host/")).count();
            Ok((hosts == expected).then_some(()))
        })
        .await?;
        Ok(provider)
    }

    /// A provider of this installation.
    ///
    /// # Errors
    /// When the settings are wrong.
    pub async fn with(&self, settings: &Settings) -> anyhow::Result<Arc<KvmProvider>> {
        self.provider_of(&self.installation, settings).await
    }

    /// A provider of this installation, with settings that work.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn ours(&self) -> anyhow::Result<Arc<KvmProvider>> {
        self.with(&self.settings()).await
    }

    /// A request that can be satisfied.
    pub fn order(&self) -> CreateRequest {
        let uid = format!("{:032x}", rand::random::<u128>());
        let name = instance_name(&uid);
        locked(&self.names).insert(name.clone());
        CreateRequest {
            name,
            uid,
            namespace: "default".to_owned(),
            proxy_name: "p".to_owned(),
            placement: crds::Placement {
                machine_type: Some("small".to_owned()),
                image: Some(self.image().to_owned()),
                ..crds::Placement::default()
            },
            user_data: None,
            port: 3128,
            installation: self.installation.clone(),
            spec_hash: "hash".to_owned(),
            after: None,
            elsewhere: false,
        }
    }

    /// The mark of this installation in names of volumes.
    pub fn mark(&self) -> String {
        installation_mark(&self.installation)
    }

    /// Stops the actors of all providers, with all that they have under way.
    pub fn stop(&self) {
        locked(&self.systems).drain(..).for_each(|it| it.stop());
    }
}

/// An entry of `hosts:`.
pub fn host_entry(name: &str, host: &Hypervisor, more: &str) -> String {
    let Hypervisor {
        address,
        user,
        bridge,
        pool,
        ..
    } = host;
    let mut entry = format!(
        "- name: {name}\n  address: {address}\n  user: {user}\n  bridge: {bridge}\n  pool: {pool}\n  \
         cpuMode: maximum\n  domainType: qemu\n"
    );
    for line in more.lines() {
        writeln!(entry, "  {line}").ok();
    }
    entry
}

/// The SHA-256 of a file, in hex.
///
/// # Errors
/// When it cannot be read.
pub fn digest(file: &Path) -> anyhow::Result<String> {
    Ok(HEXLOWER.encode(&Sha256::digest(std::fs::read(file)?)))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every write is complete in itself.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a volume says that a base image is whole.
pub fn is_marker(volume: &str) -> bool {
    volume.strip_suffix(".json").is_some()
}
