//! When the troubles are over: what goes on by itself, and what must be so in the end.

use super::{
    objects::uid,
    operator::{Came, user_data},
    schedule::Schedule,
};
use actors::provider::contract::instance_name;
use anyhow::{Context as _, ensure};
use crds::{
    Proxy,
    conditions::{ConditionType, is_true},
};
use rand::RngExt as _;
use std::time::Duration;

/// Rounds within which all must be well.
const ROUNDS: usize = 150;

impl Schedule<'_> {
    /// No more troubles; a person mends what only people can.
    pub fn calms_down(&mut self) {
        self.note("calm".into());
        self.calm = true;
        self.desk.gce.calm();
        self.desk.gce.world().unreachable.clear();
        self.restore();
        for name in self.objects.names() {
            if self.dice.random_range(0..3) == 0 {
                self.note(format!("{name}: deleted"));
                self.objects.delete(&name);
            }
        }
        self.config += 1;
        // What was begun shows by then.
        self.pass(Duration::from_mins(1));
    }

    /// Goes on until there is nothing to do but to look from time to time.
    pub async fn settle(&mut self) -> anyhow::Result<()> {
        for round in 1..=ROUNDS {
            if round % 25 == 0 {
                // What only a person can mend is mended now and then.
                self.config += 1;
            }
            let mut due = None;
            for name in self.objects.names() {
                let until = loop {
                    match self.step(&name).await? {
                        Came::Of => self.watch.check(&self.desk.gce)?,
                        Came::Until(until) => break Some(until),
                        Came::Rest => break None,
                    }
                };
                due = [due, until].into_iter().flatten().min();
            }
            if self.is_well().is_ok() {
                return Ok(());
            }
            let pause = due.map(|due| due.saturating_duration_since(self.now));
            self.pass(pause.unwrap_or_default().max(Duration::from_secs(1)));
        }
        self.is_well()
    }

    /// Whether each object that is left has its VM, and says so.
    pub fn is_well(&self) -> anyhow::Result<()> {
        for object in self.objects.all() {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            ensure!(!object.is_deleting(), "{name}: still there: {object:?}");
            let spec = &object.spec;
            let zone = spec.placement.as_ref().and_then(|p| p.zone.clone());
            let place = (zone.unwrap_or_default(), instance_name(uid(object)));
            if self.watch.foreign.contains_key(&place) {
                continue;
            }
            let world = self.desk.gce.world();
            let vm = world.instances.get(&place);
            let vm = vm.with_context(|| format!("{name}: no VM: {object:?}"))?;
            // What its own operator has not noticed yet comes to light at its next look.
            let now = vm.life.status(self.desk.gce.now());
            ensure!(now == "RUNNING" && !vm.life.is_ending(), "{name}: {now}");
            let built = vm
                .metadata("user-data")
                .map(|text| text.as_bytes().to_vec().into());
            ensure!(
                built == user_data(spec),
                "{name}: built from something else"
            );
            let status = object.status.clone().unwrap_or_default();
            let id = format!("zones/{}/instances/{}", place.0, place.1);
            let (ip, there) = (status.ip.as_deref(), vm.external.map(|ip| ip.to_string()));
            ensure!(status.provider_id == Some(id), "{name}: {status:?}");
            ensure!(ip == there.as_deref() && ip.is_some(), "{name}: {status:?}");
            ensure!(
                status.observed_generation == object.metadata.generation,
                "{name}: {status:?}"
            );
            ensure!(
                is_true(&status.conditions, ConditionType::Provisioned),
                "{name}: {status:?}"
            );
            ensure!(
                is_true(&status.conditions, ConditionType::Synced),
                "{name}: {status:?}"
            );
        }
        Ok(())
    }

    /// How many VMs there are of proxies that there are not.
    fn orphans(&self) -> usize {
        let live = |uid: &str| self.objects.all().any(|object| object_is(object, uid));
        let dead = self.watch.uids.iter().filter(|uid| !live(uid));
        dead.map(|uid| self.vms(uid).len()).sum()
    }

    /// After the collector has swept there is nothing of those that were deleted.
    pub async fn collect(&mut self) -> anyhow::Result<()> {
        if self.orphans() > 0 {
            self.tally.swept += 1;
            self.sweep(|me| {
                // Its clock goes on while the collector waits.
                me.desk.gce.advance(Duration::from_secs(1));
                me.orphans() == 0
            })
            .await?;
            self.watch.check(&self.desk.gce)?;
        }
        ensure!(self.orphans() == 0, "left behind, and not collected");
        Ok(())
    }
}

fn object_is(object: &Proxy, other: &str) -> bool {
    uid(object) == other
}
