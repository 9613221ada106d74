//! What must be so at any time: one VM for a proxy, and nothing of others touched.

use crate::lab::gce::{Gce, world::World};
use actors::provider::contract::instance_name;
use anyhow::ensure;
use std::collections::{BTreeMap, BTreeSet};

/// Zone and name of an instance.
pub type Place = (String, String);

/// What was seen so far.
#[derive(Default)]
pub struct Watch {
    /// Instances of others, with their numbers.
    pub foreign: BTreeMap<Place, u64>,
    /// Instances whose marks were taken off.
    pub bare: BTreeSet<Place>,
    /// All UIDs that there ever were.
    pub uids: BTreeSet<String>,
    /// Numbers of the instances that were made for each of them.
    pub made: BTreeMap<String, BTreeSet<u64>>,
    /// How often each method was asked for.
    pub counts: BTreeMap<String, u64>,
}

impl Watch {
    /// Looks at what there is and at what was asked since the last time.
    pub fn check(&mut self, gce: &Gce) -> anyhow::Result<()> {
        for (method, count) in gce.counts() {
            *self.counts.entry(method).or_default() += count;
        }
        let asked = gce.requests();
        gce.clear_requests();
        for one in asked.iter().filter(|one| one.http != "GET") {
            let mut untouchable = self.foreign.keys().chain(&self.bare);
            let touched = untouchable.find(|(zone, name)| {
                one.path
                    .contains(&format!("/zones/{zone}/instances/{name}"))
            });
            ensure!(touched.is_none(), "not ours, and touched: {one:?}");
        }
        let world = gce.world();
        for (place, number) in &self.foreign {
            let there = world.instances.get(place).map(|one| one.id);
            ensure!(there == Some(*number), "not ours, and gone: {place:?}");
        }
        for uid in &self.uids {
            let there = Self::of(&world, &self.foreign, uid);
            ensure!(there.len() <= 1, "more than one VM of {uid}: {there:?}");
            let made = self.made.entry(uid.clone()).or_default();
            made.extend(there.iter().map(|(_, number)| *number));
        }
        Ok(())
    }

    /// What there is of the proxy with this UID; an instance that is not to be seen yet counts.
    pub fn of(world: &World, foreign: &BTreeMap<Place, u64>, uid: &str) -> Vec<(Place, u64)> {
        let name = instance_name(uid);
        let all = world.instances.iter();
        let ours = all.filter(|(place, one)| {
            place.1 == name && foreign.get(*place).is_none_or(|number| *number != one.id)
        });
        ours.map(|(place, one)| (place.clone(), one.id)).collect()
    }
}
