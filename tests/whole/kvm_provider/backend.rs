//! What the conformance suite needs of a kvm backend.

use super::stand::{Stand, ZONE};
use crate::conformance::{Backend, Pose, Wired};
use actors::provider::contract::{CreateRequest, Provider, ProviderId};
use anyhow::{Context as _, ensure};
use futures::future::BoxFuture;
use proxy_operator::providers::kvm::volume::{overlay_name, seed_name};
use std::sync::Arc;
use tokio::{runtime::Handle, task::block_in_place};
use virt::domain::Domain;

fn name_of(id: &str) -> anyhow::Result<&str> {
    Ok(id.rsplit_once('/').context("an id")?.1)
}

impl Backend for Stand<'_> {
    fn provider(&self, installation: &str) -> Arc<dyn Provider> {
        let settings = self.settings();
        let made = self.provider_of(installation, &settings);
        match block_in_place(|| Handle::current().block_on(made)) {
            Ok(provider) => provider,
            #[expect(clippy::panic, reason = "the suite takes a provider for granted")]
            Err(error) => panic!("{error:#}"),
        }
    }

    fn wired(&self) -> BoxFuture<'_, anyhow::Result<Wired>> {
        Box::pin(async {
            let relay = self.relay()?;
            let provider = self.with(&self.over(&relay)).await?;
            // The image is in the pool and the connection is open: every create has the same steps.
            let request = self.order();
            let id = provider.create(&request).await?.id;
            provider.delete(&id).await?;
            Ok((provider as _, Box::new(relay) as _))
        })
    }

    fn installation(&self) -> &str {
        &self.installation
    }

    fn request(&self) -> BoxFuture<'_, anyhow::Result<CreateRequest>> {
        Box::pin(async { Ok(self.order()) })
    }

    fn malformed_ids(&self) -> Vec<String> {
        [
            "",
            "a",
            "hosts/lab-1",
            "hosts/lab-1/domains/",
            "hosts//domains/a",
            "hosts/lab-1/domains/a/b",
            "hosts/lab-1/domains/A",
            "hosts/lab-1/domains/..",
            " hosts/lab-1/domains/a",
            "hosts/lab-1/pools/a",
        ]
        .map(str::to_owned)
        .into()
    }

    fn absent_id(&self) -> ProviderId {
        format!("hosts/{ZONE}/domains/proxy-aaaaaaaaaaaaaaaa")
    }

    fn unmarked(&self) -> BoxFuture<'_, anyhow::Result<ProviderId>> {
        Box::pin(async {
            let name = format!("stray-{:08x}", rand::random::<u32>());
            self.define(&name, None)?;
            Ok(format!("hosts/{ZONE}/domains/{name}"))
        })
    }

    fn posed(&self, pose: Pose) -> BoxFuture<'_, anyhow::Result<ProviderId>> {
        Box::pin(async move {
            let request = self.order();
            let (name, marks) = (&request.name, self.marks(&request.uid));
            if pose == Pose::Running {
                self.addressed(name, marks).await?;
            } else {
                let domain = self.define(name, Some(marks))?;
                self.libvirt(|_| {
                    domain.create()?;
                    if pose == Pose::Unheard {
                        // libvirt's states are all known; this one is never entered by our doing.
                        domain.suspend()?;
                    }
                    Ok(())
                })?;
            }
            Ok(format!("hosts/{ZONE}/domains/{}", request.name))
        })
    }

    // A delete ends when the domain has: libvirt has no state in between.
    fn hold<'a>(&'a self, _: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async { anyhow::bail!("libvirt holds nothing") })
    }

    fn let_go<'a>(&'a self, _: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async { anyhow::bail!("libvirt holds nothing") })
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            let name = name_of(id)?;
            self.remove_domain(name)?;
            let pool = self.pool()?;
            for volume in self.volumes(&format!("{name}."))? {
                self.libvirt(|_| Ok(pool.lookup_storage_vol_by_name(&volume)?.delete(0)?))?;
            }
            Ok(())
        })
    }

    /// A domain with exactly its two volumes is one; each volume beside that is one more.
    fn made<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Vec<String>>> {
        Box::pin(async move {
            let domain = self.libvirt(|connect| {
                let all = connect.list_all_domains(0)?;
                let named = all
                    .iter()
                    .find(|domain| domain.name().is_ok_and(|n| n == name));
                Ok(named.map(Domain::uuid_string).transpose()?)
            })?;
            let mut volumes = self.volumes(&format!("{name}."))?;
            if domain.is_some() {
                let mark = self.mark();
                for own in [overlay_name(name, &mark), seed_name(name, &mark)] {
                    ensure!(volumes.remove(&own), "the domain {name} has lost {own}");
                }
            }
            Ok(domain.into_iter().chain(volumes).collect())
        })
    }

    fn visible<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<String>> {
        Box::pin(async move {
            let pool = self.pool()?;
            let volumes = self.volumes(&format!("{name}."))?;
            self.libvirt(|connect| {
                let mut seen = connect.lookup_domain_by_name(name)?.xml_desc(0)?;
                for volume in volumes {
                    seen += &pool.lookup_storage_vol_by_name(&volume)?.xml_desc(0)?;
                }
                Ok(seen)
            })
        })
    }

    fn boots(&self) -> bool {
        false
    }
}
