//! An operator, hosts to break, and what there should be on them.

use super::wire::Wire;
use crate::{
    lab::{
        Scene, eventually,
        hosts::OwnHost,
        hypervisor::Image,
        image_server::ImageServer,
        operator::Operator,
        proxy,
        proxy::{Applied, condition},
    },
    whole::kvm_life::domain,
};
use anyhow::{Context as _, ensure};
use crds::{Proxy, conditions::ConditionType};
use data_encoding::HEXLOWER;
use futures::future::try_join_all;
use kube::api::ListParams;
use proxy_operator::providers::kvm::volume::{
    Marker, installation_mark, marker_name, overlay_name, seed_name,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// From a fault that is over until nothing is left of it: some pauses of the operator's and a poll, on
/// a busy machine.
const CONVERGES: Duration = Duration::from_mins(2);
/// Until a fault is told: the keepalive takes most of a minute, and so may a call.
const NOTICES: Duration = Duration::from_secs(100);
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

    /// Waits until each of these says in a condition that something is wrong, in words that name the
    /// host and contain one of `words`.
    pub async fn say(
        &self,
        target: &Target,
        proxies: &[Applied],
        type_: ConditionType,
        words: &[&str],
    ) -> anyhow::Result<()> {
        let named = format!("host {}", target.name);
        for applied in proxies {
            let last = Mutex::new(None);
            let what = format!("{} says why", applied.name);
            let said = eventually(&what, NOTICES, || async {
                let object = applied.get().await?;
                let said = condition(&object, type_);
                let is_clear = said.is_some_and(|(status, _, message)| {
                    status == "False"
                        && message.contains(&named)
                        && (words.is_empty() || words.iter().any(|word| message.contains(word)))
                });
                let said = said.map(|said| format!("{said:?}"));
                *last.lock().unwrap_or_else(PoisonError::into_inner) = said;
                Ok(is_clear.then_some(()))
            });
            let said = said.await;
            said.with_context(|| format!("it says {last:?}"))?;
        }
        Ok(())
    }

    /// Waits until a host has, for each live Proxy, one domain that runs and its two volumes, and
    /// nothing else but base images; and until each Proxy knows.
    pub async fn is_well(&self, target: &Target) -> anyhow::Result<()> {
        let last = Mutex::new(String::new());
        let well = eventually("all is well", CONVERGES, || async {
            let found = self.look(target).await;
            Ok(match found {
                Ok(()) => Some(()),
                Err(error) => {
                    *last.lock().unwrap_or_else(PoisonError::into_inner) = format!("{error:#}");
                    // The machine has others to serve.
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    None
                }
            })
        });
        let well = well.await;
        let last = last.into_inner().unwrap_or_else(PoisonError::into_inner);
        well.with_context(|| format!("on host {} at last: {last}", target.name))?;
        self.images_are_whole(target).await
    }

    async fn look(&self, target: &Target) -> anyhow::Result<()> {
        let live = target.live().clone();
        let all = self
            .scene
            .api::<Proxy>()
            .list(&ListParams::default())
            .await?;
        let there: BTreeSet<_> = all
            .iter()
            .filter(|proxy| {
                proxy
                    .spec
                    .placement
                    .as_ref()
                    .and_then(|p| p.zone.as_deref())
                    == Some(target.name)
            })
            .filter_map(|proxy| proxy.metadata.name.clone())
            .collect();
        let named = live.iter().map(|applied| applied.name.clone()).collect();
        ensure!(
            there == named,
            "there are {there:?}, of which are live {named:?}"
        );
        let mark = installation_mark(self.scene.namespace());
        let (mut domains, mut volumes) = (BTreeMap::new(), BTreeSet::new());
        for proxy in all.iter().filter(|proxy| {
            proxy
                .metadata
                .name
                .as_ref()
                .is_some_and(|name| there.contains(name))
        }) {
            let name = proxy.metadata.name.as_deref().unwrap_or_default();
            let synced = condition(proxy, ConditionType::Synced);
            ensure!(
                synced.is_some_and(|(status, ..)| status == "True"),
                "{name}: {synced:?}"
            );
            let uid = proxy.metadata.uid.as_deref().context("a uid")?;
            let domain = actors::provider::contract::instance_name(uid);
            let id = format!("hosts/{}/domains/{domain}", target.name);
            let status = proxy.status.as_ref().context("a status")?;
            ensure!(
                status.provider_id.as_ref() == Some(&id),
                "{name}: {status:?}"
            );
            volumes.extend([overlay_name(&domain, &mark), seed_name(&domain, &mark)]);
            domains.insert(domain, "running".to_owned());
        }
        let found = target.host.domains().await?;
        ensure!(found == domains, "domains {found:?}, not {domains:?}");
        let mut found = target.host.volumes().await?;
        found.retain(|name| !name.starts_with("base-"));
        ensure!(found == volumes, "volumes {found:?}, not {volumes:?}");
        Ok(())
    }

    /// Every overlay is backed by a base image that is marked as whole and has the right bytes.
    pub async fn images_are_whole(&self, target: &Target) -> anyhow::Result<()> {
        let host = &target.host;
        let inspect = "cd $1; for overlay in proxy-*.qcow2; do \
            [ ! -e $overlay ] || qemu-img info -U --output=json $overlay; done";
        let pool = host.virsh(&["pool-dumpxml", &host.pool]).await?;
        let path = pool
            .split_once("<path>")
            .and_then(|(_, rest)| rest.split_once("</path>"));
        let (path, _) = path.with_context(|| pool.clone())?;
        let described = host.exec(&["sh", "-c", inspect, "sh", path]).await?;
        // Of a domain that there is already, the seed is full; others' may just be filled.
        let domains = host.domains().await?;
        let empty = host
            .exec(&[
                "sh",
                "-c",
                "cd $1; grep -La CD001 *-seed.iso || true",
                "sh",
                path,
            ])
            .await?;
        let empty: Vec<_> = empty
            .lines()
            .filter(|seed| domains.keys().any(|domain| seed.starts_with(&**domain)))
            .collect();
        ensure!(
            empty.is_empty(),
            "these seeds are no file systems: {empty:?}"
        );
        let mut bases = BTreeMap::new();
        for info in serde_json::Deserializer::from_str(&described).into_iter::<Value>() {
            let info = info?;
            let text = |key: &str| info[key].as_str().map(str::to_owned).context("a file");
            bases.insert(text("full-backing-filename")?, text("filename")?);
        }
        for (base, overlay) in bases {
            let marker = host.exec(&["cat", &marker_name(&base)]).await?;
            let marker: Marker = serde_json::from_str(&marker)?;
            ensure!(marker.sha256 == self.sha256, "{base}: {marker:?}");
            let summed = host.exec(&["sha256sum", &base]).await?;
            ensure!(
                summed.starts_with(&self.sha256),
                "{overlay} starts from {base}, which is {summed}"
            );
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

    /// Those of `proxies` whose domain is among `domains`.
    pub async fn of(
        &self,
        proxies: &[Applied],
        domains: &BTreeSet<&str>,
    ) -> anyhow::Result<Vec<Applied>> {
        let mut found = Vec::new();
        for applied in proxies {
            if domains.contains(&*domain(applied).await?) {
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
