//! What the conformance suite needs of Compute Engine.

use super::stand::{GET, Stand, ZONE, id_of};
use crate::{
    conformance::{Backend, Fault, Faults, Pose, Wired, eventually},
    lab::gce::{
        faults::{Act, On},
        line::{Line, Plan},
    },
};
use actors::provider::contract::{CreateRequest, Provider, ProviderId, instance_name};
use anyhow::{Context as _, ensure};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

fn name_of(id: &str) -> anyhow::Result<&str> {
    Ok(id.rsplit_once('/').context("an id")?.1)
}

impl Backend for Stand {
    fn provider(&self, installation: &str) -> Arc<dyn Provider> {
        match self.at(&self.gce.endpoint(), installation) {
            Ok(provider) => Arc::new(provider),
            #[expect(clippy::panic, reason = "the suite takes a provider for granted")]
            Err(error) => panic!("{error:#}"),
        }
    }

    fn wired(&self) -> BoxFuture<'_, anyhow::Result<Wired>> {
        Box::pin(async {
            let line = self.gce.line().await?;
            let provider = self.at(&line.endpoint, &self.installation)?;
            Ok((Arc::new(provider) as _, Box::new(line) as _))
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
            "zones/europe-west1-b",
            "zones/europe-west1-b/instances/",
            "zones//instances/a",
            "zones/europe-west1-b/instances/a/b",
            "zones/europe-west1-b/instances/A",
            "zones/europe-west1-b/instances/..",
            "zones/europe-west1-b/instances/a?alt=media",
            " zones/europe-west1-b/instances/a",
            "zones/europe-west1-b/disks/a",
            "projects/p/zones/europe-west1-b/instances/a",
        ]
        .map(str::to_owned)
        .into()
    }

    fn absent_id(&self) -> ProviderId {
        id_of("proxy-aaaaaaaaaaaaaaaa")
    }

    fn unmarked(&self) -> BoxFuture<'_, anyhow::Result<ProviderId>> {
        Box::pin(async {
            let name = format!("stray-{:08x}", rand::random::<u32>());
            let now = self.gce.now();
            self.gce.world().place(ZONE, &name, &json!({}), now);
            Ok(id_of(&name))
        })
    }

    fn posed(&self, pose: Pose) -> BoxFuture<'_, anyhow::Result<ProviderId>> {
        Box::pin(async move {
            let uid = format!("{:032x}", rand::random::<u128>());
            let (name, now) = (instance_name(&uid), self.gce.now());
            let mut world = self.gce.world();
            world.place(ZONE, &name, &self.marks(&uid), now);
            if pose == Pose::RunningWithoutAddress {
                world.named(&name).for_each(|one| one.external = None);
            }
            drop(world);
            if pose == Pose::Unheard {
                // The description has no such status, so the stand-in does not know it. It is told twice:
                // to whoever asks, and to the delete that follows.
                let mut told = self.resource(&name)?;
                told["status"] = "HIBERNATED".into();
                let act = Act::Raw(200, "application/json", told.to_string());
                self.gce.order(On::method(GET).with(&name), 2, act);
            }
            Ok(id_of(&name))
        })
    }

    fn hold<'a>(&'a self, _: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async {
            self.gce.world().pace.gone = Duration::from_hours(1);
            Ok(())
        })
    }

    fn let_go<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            let now = self.gce.now();
            let gone = self.gce.world().vanish(name_of(id)?, now);
            ensure!(gone, "{id} went by itself");
            Ok(())
        })
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            let name = name_of(id)?;
            // Google deletes nothing that it is still making.
            eventually("the instance runs", || async {
                Ok((self.resource(name)?["status"] == "RUNNING").then_some(()))
            })
            .await?;
            let now = self.gce.now();
            self.gce.world().vanish(name, now);
            Ok(())
        })
    }

    fn made<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Vec<String>>> {
        Box::pin(async move {
            let mut world = self.gce.world();
            Ok(world.named(name).map(|one| one.id.to_string()).collect())
        })
    }

    /// Without its metadata, which is where Google keeps user-data, for all who may read an instance.
    fn visible<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<String>> {
        Box::pin(async move {
            let mut resource = self.resource(name)?;
            let items = resource["metadata"]["items"].take();
            ensure!(items[0]["key"] == "user-data", "{items}");
            Ok(resource.to_string())
        })
    }

    fn boots(&self) -> bool {
        true
    }
}

impl Stand {
    /// The instance as Google shows it.
    fn resource(&self, name: &str) -> anyhow::Result<Value> {
        let all = self.gce.world().resources(self.gce.now());
        let found = all.into_iter().find(|one| one["name"] == name);
        found.with_context(|| format!("there is no {name}"))
    }
}

impl Faults for Line {
    fn break_at(&self, fault: Fault) {
        self.plan(match fault {
            Fault::None => Plan::Open,
            Fault::CutBefore(step) => Plan::ResetBefore(step),
            Fault::CutAfter(step) => Plan::ResetAfter(step),
            Fault::Silence => Plan::Silent,
            Fault::Late(step) => Plan::Late(step),
        });
    }

    fn steps(&self) -> usize {
        Line::steps(self)
    }
}
