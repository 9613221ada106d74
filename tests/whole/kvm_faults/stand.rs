//! An operator, hosts to break, and what there should be on them ([`well`]).

mod well;

use super::wire::Wire;
use crate::lab::{
    Scene, hosts::OwnHost, hypervisor::Image, image_server::ImageServer, operator::Operator, proxy,
    proxy::Applied,
};
use actors::provider::contract::instance_name;
use anyhow::{Context as _, ensure};
use data_encoding::HEXLOWER;
use futures::future::try_join_all;
use kube::ResourceExt as _;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{Mutex, PoisonError},
};

/// Names of hosts.
const NAMES: [&str; 3] = ["one", "two", "three"];
/// Images with the same content and keys of their own, each fetched once; the first is the usual one.
const IMAGES: usize = 32;

/// A host to break, with a wire in front of its libvirtd.
pub struct Target {
    /// Its name in the config.
    pub name: &'static str,
    /// The hypervisor.
    pub host: OwnHost,
    /// What calls go through.
    pub wire: Wire,
    /// The Proxies on it that are not to be deleted.
    live: Mutex<Vec<Applied>>,
}

/// All that a scenario needs.
pub struct Stand {
    /// Its namespace.
    pub scene: Scene,
    /// Its hosts.
    pub targets: Vec<Target>,
    /// Where images come from.
    pub images: ImageServer,
    /// The operator; none between two.
    pub operator: tokio::sync::Mutex<Option<Operator>>,
    /// Of every operator.
    environment: Vec<(&'static str, &'static str)>,
    sha256: String,
    made: Mutex<usize>,
}

impl Stand {
    /// An operator with so many hosts.
    pub async fn new(scene: &Scene, hosts: usize) -> anyhow::Result<Self> {
        Self::with(scene, hosts, Vec::new()).await
    }

    /// One with this in its environment.
    pub async fn with(
        scene: &Scene,
        hosts: usize,
        environment: Vec<(&'static str, &'static str)>,
    ) -> anyhow::Result<Self> {
        let file = Image::Halting.file().await?;
        let images = ImageServer::start(scene.lab().cluster.host().into()).await?;
        for number in 0..IMAGES {
            images.give(&path(number), &file);
        }
        let mut targets = Vec::new();
        for name in &NAMES[..hosts] {
            let host = scene.lab().hosts.own().await?;
            targets.push(Target {
                wire: Wire::start(host.libvirt_socket())?,
                live: Mutex::default(),
                name,
                host,
            });
        }
        let stand = Self {
            scene: scene.clone(),
            operator: tokio::sync::Mutex::default(),
            environment,
            sha256: HEXLOWER.encode(&Sha256::digest(tokio::fs::read(file).await?)),
            made: Mutex::default(),
            images,
            targets,
        };
        let [first, ..] = &*stand.targets else {
            anyhow::bail!("no host");
        };
        let files = (&first.host.key, &first.host.known_hosts);
        let files = (files.0.display().to_string(), files.1.display().to_string());
        stand.start(&files.0, &files.1).await?;
        Ok(stand)
    }

    /// Starts an operator, in place of another one, with these files.
    pub async fn start(&self, key: &str, known_hosts: &str) -> anyhow::Result<()> {
        let mut yaml = format!(
            "providers:\n- name: home\n  type: kvm\n  kvm:\n    diskSizeGb: 1\n    sshKeyFile: {key}\n    \
             knownHostsFile: {known_hosts}\n    machineTypes:\n      tiny: {{vcpus: 1, memoryMiB: 16}}\n    images:\n"
        );
        for number in 0..IMAGES {
            let url = self.images.url(&path(number));
            writeln!(
                yaml,
                "      {}: {{url: \"{url}\", firmware: bios}}",
                key_of(number)
            )?;
        }
        yaml += "    hosts:\n";
        for Target {
            name, host, wire, ..
        } in &self.targets
        {
            writeln!(
                yaml,
                "    - {{name: {name}, address: \"{}\", user: {}, bridge: {}, pool: {}, domainType: qemu, socket: {}}}",
                host.address,
                host.user,
                host.bridge,
                host.pool,
                wire.socket.display()
            )?;
        }
        let mut launch = self.scene.operator().with_providers(&yaml);
        for (name, value) in &self.environment {
            launch = launch.env(name, *value);
        }
        let operator = launch.start().await?;
        *self.operator.lock().await = Some(operator);
        Ok(())
    }

    /// The operator dies.
    pub async fn kill(&self) -> anyhow::Result<()> {
        let mut operator = self.operator.lock().await;
        operator.as_mut().context("an operator")?.kill().await
    }

    /// Another one takes its place.
    pub async fn start_again(&self) -> anyhow::Result<()> {
        let mut operator = self.operator.lock().await;
        let dead = operator.take().context("an operator")?;
        *operator = Some(dead.again().await?);
        Ok(())
    }

    /// Applies so many Proxies to a host, with the image of this number.
    pub async fn apply(
        &self,
        target: &Target,
        count: usize,
        image: usize,
    ) -> anyhow::Result<Vec<Applied>> {
        let mut names = Vec::new();
        for _ in 0..count {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            names.push(format!("p-{made:03}"));
            *made += 1;
        }
        let applied = try_join_all(names.iter().map(|name| {
            self.scene.apply(proxy(name).managed_by("home").with(json!({
                "placement": {"zone": target.name, "machineType": "tiny", "image": key_of(image)},
            })))
        }))
        .await?;
        target.live().extend(applied.iter().cloned());
        Ok(applied)
    }

    /// Deletes the oldest Proxies of a host.
    pub async fn delete(&self, target: &Target, count: usize) -> anyhow::Result<Vec<Applied>> {
        let leaving: Vec<_> = {
            let mut live = target.live();
            ensure!(live.len() >= count, "only {} to delete", live.len());
            live.drain(..count).collect()
        };
        try_join_all(leaving.iter().map(Applied::delete)).await?;
        Ok(leaving)
    }

    /// Removes the oldest Proxies of a host past all finalizers, as no operator would.
    pub async fn abandon(&self, target: &Target, count: usize) -> anyhow::Result<()> {
        let abandoned: Vec<_> = target.live().drain(..count).collect();
        for applied in abandoned {
            let free = json!({"metadata": {"finalizers": null}});
            applied.change(free).await?;
            applied.delete().await?;
            applied.is_gone().await?;
        }
        Ok(())
    }

    /// Deletes all that is left, and sees that all is gone.
    pub async fn end(&self) -> anyhow::Result<()> {
        for target in &self.targets {
            let left = target.live().len();
            self.delete(target, left).await?;
        }
        try_join_all(self.targets.iter().map(|target| self.is_well(target))).await?;
        Ok(())
    }

    /// Those of `proxies` whose domain is among `domains`, and those that are gone: what is held for long is tried
    /// again past the trap.
    pub async fn of(
        &self,
        proxies: &[Applied],
        domains: &BTreeSet<&str>,
    ) -> anyhow::Result<Vec<Applied>> {
        let mut found = Vec::new();
        for applied in proxies {
            let named = match applied.get_opt().await? {
                Some(object) => instance_name(&object.uid().context("a uid")?),
                None => String::new(),
            };
            if named.is_empty() || domains.contains(&*named) {
                found.push(applied.clone());
            }
        }
        Ok(found)
    }
}

impl Target {
    /// The Proxies on it that are not to be deleted.
    pub fn live(&self) -> std::sync::MutexGuard<'_, Vec<Applied>> {
        // Every write is complete in itself.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of an image in the config.
fn key_of(number: usize) -> String {
    format!("img{number:02}")
}

/// Its path at the server.
pub fn path(number: usize) -> String {
    format!("/{}", key_of(number))
}
