//! What a test does behind everybody's back: instances that are there already, that go, that change.

use super::{
    clock::Time,
    instance::{Instance, Made},
    life::Life,
    world::World,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, time::Duration};

impl World {
    /// Puts `count` running instances into the zones, one after the other, with these labels; their
    /// names begin with `prefix`.
    pub fn stock(&mut self, count: usize, prefix: &str, labels: &[(&str, &str)], now: Time) {
        let zones: Vec<String> = self.zones.iter().cloned().collect();
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        for (number, zone) in (0..count).zip(zones.iter().cycle()) {
            let name = format!("{prefix}-{number:05}");
            self.place(zone, &name, &json!(labels), now);
        }
    }

    /// Puts one running instance there.
    pub fn place(&mut self, zone: &str, name: &str, labels: &Value, now: Time) {
        let since = now.saturating_sub(Duration::from_hours(1));
        let made = Made {
            id: self.next_id(),
            internal: self.addresses.take_shared(),
            external: Some(self.addresses.take_shared()),
            created: since,
            life: Life::running(since),
        };
        let body = json!({
            "name": name,
            "machineType": format!("zones/{zone}/machineTypes/e2-small"),
            "labels": labels,
            "disks": [{ "boot": true, "autoDelete": true }],
            "networkInterfaces": [{ "accessConfigs": [{}] }],
        });
        let body: Map<String, Value> = body.as_object().cloned().unwrap_or_default();
        let instance = Instance::new(&self.project, zone, body, made);
        let key = (zone.to_owned(), name.to_owned());
        self.instances.insert(key, instance);
    }

    /// The instances of this name, in whichever zone.
    pub fn named(&mut self, name: &str) -> impl Iterator<Item = &mut Instance> {
        let all = self.instances.values_mut();
        all.filter(move |instance| instance.name == name)
    }

    /// Takes the instances of this name away; says whether there was one.
    pub fn vanish(&mut self, name: &str, now: Time) -> bool {
        let mut any = false;
        for instance in self.named(name) {
            instance.life.vanish(now);
            any = true;
        }
        self.settle(now);
        any
    }

    /// From now on the instances of this name are in `status`.
    pub fn turn(&mut self, name: &str, status: &str, now: Time) {
        for instance in self.named(name) {
            instance.life.turn(now, status);
        }
    }

    /// The instances that there are, as `get` shows them.
    pub fn resources(&self, now: Time) -> Vec<Value> {
        let there = self.instances.values().filter(|one| one.life.is_there(now));
        there.map(|one| one.resource(&self.project, now)).collect()
    }
}
