//! What users do to proxies, and what happens at Google behind everybody's back.

use super::{
    objects::{Objects, annotate, uid},
    schedule::{OURS, Schedule},
    trouble,
    watch::Place,
};
use actors::provider::contract::instance_name;
use crds::{CloudInit, Placement, ProxySpec, names};
use rand::RngExt as _;
use serde_json::{Value, json};

const ZONES: [&str; 3] = ["europe-west1-b", "europe-west1-c", "us-east1-d"];
const TYPES: [&str; 2] = ["e2-small", "e2-medium"];
const IMAGE: &str = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts";

impl Schedule<'_> {
    /// What a user does to a proxy.
    pub fn user_act(&mut self, name: &str) {
        match self.dice.random_range(0..10) {
            0..5 => {
                let spec = self.spec();
                self.note(format!("{name}: edited: {:?}", spec.placement));
                self.objects.edit(name, |old| *old = spec);
            }
            5 | 6 => {
                self.note(format!("{name}: deleted"));
                self.objects.delete(name);
            }
            7 => {
                self.note(format!("{name}: abandoned"));
                self.objects
                    .change(name, |o| annotate(o, names::SKIP_CLEANUP, names::TRUE));
                self.objects.delete(name);
            }
            8 => {
                self.note("the config changes".into());
                self.config += 1;
            }
            _ if self.objects.names().len() < 4 => self.create(),
            _ => {}
        }
    }

    /// What happens at Google behind everybody's back.
    pub fn fate(&mut self, name: &str) {
        let Some(object) = self.objects.get(name) else {
            return;
        };
        let vm = instance_name(uid(object));
        let status = object.status.as_ref();
        let recorded = status.is_some_and(|status| status.provider_id.is_some());
        let now = self.desk.gce.now();
        let kind = self.dice.random_range(0..9);
        self.note(format!("{name}: fate {kind}"));
        let Some((place, _)) = self.vms(object_uid(&self.objects, name)).pop() else {
            // In store for what is yet to be made.
            let failure = trouble::late(&mut self.dice, "lab-project", ZONES[0]);
            self.desk.gce.world().failures.push_back((vm, failure));
            self.tally.late += 1;
            return;
        };
        match kind {
            0..4 => {
                let mut world = self.desk.gce.world();
                let takes = world.pace;
                if let Some(one) = world.instances.get_mut(&place) {
                    match kind {
                        0 | 1 => one.life.vanish(now),
                        2 => one.life.turn(now, "TERMINATED"),
                        _ => one.life.stop(now, &takes),
                    }
                }
            }
            4 => {
                self.desk.gce.world().forget_operations();
            }
            5 => {
                let zone = place.0;
                let mut world = self.desk.gce.world();
                if !world.unreachable.remove(&zone) {
                    world.unreachable.insert(zone);
                }
            }
            // Of one that nobody recorded yet, nobody could tell then whose it is.
            6 if recorded => self.strip(&place),
            6 | 7 => self.restore(),
            _ => {
                // Its deletion will be accepted, and fail.
                let failure = trouble::late(&mut self.dice, "lab-project", &place.0);
                self.desk.gce.world().failures.push_back((vm, failure));
                self.tally.late += 1;
            }
        }
    }

    fn strip(&mut self, place: &Place) {
        let mut world = self.desk.gce.world();
        if let Some(one) = world.instances.get_mut(place)
            && !self.stripped.contains_key(place)
            && let Some(labels) = one.given_mut().remove("labels")
        {
            self.stripped.insert(place.clone(), labels);
            self.watch.bare.insert(place.clone());
        }
    }

    pub fn restore(&mut self) {
        let mut world = self.desk.gce.world();
        for (place, labels) in std::mem::take(&mut self.stripped) {
            if let Some(one) = world.instances.get_mut(&place) {
                one.given_mut().entry("labels").or_insert(labels);
            }
        }
        self.watch.bare.clear();
    }

    pub fn create(&mut self) {
        self.births += 1;
        let (name, uid) = (
            format!("p{}", self.births),
            format!("{:08x}-0000-4000-8000-{:012x}", self.seed, self.births),
        );
        let spec = self.spec();
        self.note(format!("{name}: applied: {:?}", spec.placement));
        self.watch.uids.insert(uid.clone());
        if self.dice.random_range(0..12) == 0 {
            // Somebody else has the name already.
            let zone = spec.placement.as_ref().and_then(|p| p.zone.clone());
            let labels = json!({ "proxy-operator-managed": "true", "proxy-operator-installation": "theirs" });
            self.neighbour(&zone.unwrap_or_default(), &instance_name(&uid), &labels);
        }
        self.objects.create(&name, &uid, spec);
    }

    /// Something to want.
    pub fn spec(&mut self) -> ProxySpec {
        let number: u32 = self.dice.random_range(0..1_000_000);
        ProxySpec {
            provider: Some("gcp".into()),
            placement: Some(Placement {
                region: None,
                zone: Some(ZONES[self.dice.random_range(0..ZONES.len())].into()),
                machine_type: Some(TYPES[self.dice.random_range(0..TYPES.len())].into()),
                image: Some(IMAGE.into()),
            }),
            cloud_init: Some(CloudInit {
                inline: Some(format!("#cloud-config\n# {number}\n")),
                secret_ref: None,
            }),
            ..ProxySpec::default()
        }
    }

    /// Instances that are none of ours.
    pub fn neighbours(&mut self) {
        let (managed, installation) = ("proxy-operator-managed", "proxy-operator-installation");
        for (name, labels) in [
            ("a-database", json!({})),
            (
                "proxy-of-theirs",
                json!({ managed: "true", installation: "theirs" }),
            ),
            ("proxy-of-nobody", json!({ managed: "true" })),
            ("proxy-unmanaged", json!({ installation: OURS })),
        ] {
            let zone = ZONES[self.dice.random_range(0..ZONES.len())];
            self.neighbour(zone, name, &labels);
        }
    }

    fn neighbour(&mut self, zone: &str, name: &str, labels: &Value) {
        let place = (zone.to_owned(), name.to_owned());
        let now = self.desk.gce.now();
        let mut world = self.desk.gce.world();
        world.place(zone, name, labels, now);
        if let Some(one) = world.instances.get(&place) {
            self.watch.foreign.insert(place, one.id);
        }
    }
}

fn object_uid<'a>(objects: &'a Objects, name: &str) -> &'a str {
    objects.get(name).map_or("", uid)
}
