//! What there should be on the hosts and in the status of Proxies, and how long that may take.

use super::{Stand, Target};
use crate::lab::{
    eventually,
    proxy::{Applied, condition},
};
use anyhow::{Context as _, ensure};
use crds::{Proxy, conditions::ConditionType};
use kube::api::ListParams;
use proxy_operator::providers::kvm::volume::{
    Marker, installation_mark, marker_name, overlay_name, seed_name,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// From a fault that is over until nothing is left of it: some pauses of the operator's and a poll, on
/// a busy machine.
const CONVERGES: Duration = Duration::from_mins(5);
/// Until a fault is told: the keepalive takes most of a minute, and so may a call.
const NOTICES: Duration = Duration::from_mins(4);

impl Stand {
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
                let Some(object) = applied.get_opt().await? else {
                    // Deleted in spite of all, which leaves nothing to say.
                    let lives = target.live().iter().any(|live| live.name == applied.name);
                    ensure!(!lives, "it is gone");
                    return Ok(Some(()));
                };
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
}
