//! What there is: one project with its zones, instances, firewalls and operations.

use super::{
    addresses::Addresses,
    clock::Time,
    firewall::Firewall,
    instance::Instance,
    life::Pace,
    operation::{Failure, Operation},
    refusal::Refusal,
    rules,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Zones that there are, of five regions.
const ZONES: [&str; 15] = [
    "asia-east1-a",
    "asia-east1-b",
    "asia-east1-c",
    "europe-west1-b",
    "europe-west1-c",
    "europe-west1-d",
    "europe-west4-a",
    "europe-west4-b",
    "europe-west4-c",
    "us-central1-a",
    "us-central1-b",
    "us-central1-c",
    "us-east1-b",
    "us-east1-c",
    "us-east1-d",
];
/// Operations on record; the oldest are forgotten.
const MOST_OPERATIONS: usize = 20_000;

/// How an unreachable zone is told of in an aggregated list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Telling {
    /// By the warning of its scope and in `unreachables`.
    #[default]
    Both,
    /// By the warning of its scope only.
    Warning,
    /// In `unreachables` only.
    List,
}

/// All of it.
pub struct World {
    /// The project's ID.
    pub project: String,
    /// Its number.
    pub number: u64,
    /// By name.
    pub zones: BTreeSet<String>,
    /// Of those, the ones that do not answer.
    pub unreachable: BTreeSet<String>,
    /// How that is told.
    pub telling: Telling,
    /// By zone and name.
    pub instances: BTreeMap<(String, String), Instance>,
    /// By name.
    pub firewalls: BTreeMap<String, Firewall>,
    /// By name.
    operations: HashMap<String, Operation>,
    order: VecDeque<String>,
    /// Names of operations by what was asked with which request ID.
    requests: HashMap<(String, String), String>,
    /// Images that there are not, by their path.
    pub missing_images: BTreeSet<String>,
    /// Networks that there are, by name.
    pub networks: BTreeSet<String>,
    /// Limits of quotas that hold in each region, by metric.
    pub quotas: BTreeMap<String, f64>,
    /// Failures of the next operations, with a part of the target's name.
    pub failures: VecDeque<(String, Failure)>,
    /// How long things take.
    pub pace: Pace,
    /// Whether a delete of what is being deleted is refused.
    pub refuse_second_delete: bool,
    /// Where instances get theirs.
    pub addresses: Addresses,
    last_id: u64,
}

/// What an operation is about.
pub struct Change<'a> {
    /// `insert`, `delete`, …
    pub kind: &'a str,
    /// The zone, or nothing for a global one.
    pub zone: Option<&'a str>,
    /// Path of what it changes.
    pub target: String,
    /// Number of what it changes.
    pub target_id: u64,
    /// The request's.
    pub request_id: Option<&'a str>,
    /// Who asked.
    pub user: &'a str,
    /// Why it will fail.
    pub failure: Option<Failure>,
}

impl World {
    /// An empty project; `addresses` are those that instances get.
    pub fn new(project: &str, pace: Pace, addresses: Addresses) -> Self {
        let quotas = [
            ("CPUS", 2400.0),
            ("DISKS_TOTAL_GB", 204_800.0),
            ("IN_USE_ADDRESSES", 2300.0),
            ("INSTANCES", 6000.0),
        ];
        Self {
            project: project.to_owned(),
            number: 415_104_041_262,
            zones: ZONES.map(Into::into).into(),
            unreachable: BTreeSet::new(),
            telling: Telling::default(),
            instances: BTreeMap::new(),
            firewalls: BTreeMap::new(),
            operations: HashMap::new(),
            order: VecDeque::new(),
            requests: HashMap::new(),
            missing_images: BTreeSet::new(),
            networks: ["default".into()].into(),
            quotas: quotas.map(|(name, limit)| (name.to_owned(), limit)).into(),
            failures: VecDeque::new(),
            pace,
            refuse_second_delete: false,
            addresses,
            last_id: 4_000_000_000_000_000_000,
        }
    }

    /// A number that nothing has yet.
    pub fn next_id(&mut self) -> u64 {
        // Google's are not consecutive.
        self.last_id += 7_919;
        self.last_id
    }

    /// Forgets what is over.
    pub fn settle(&mut self, now: Time) {
        let addresses = &mut self.addresses;
        self.instances.retain(|_, instance| {
            let over = instance.life.is_over(now);
            if over {
                addresses.give_back(instance.external);
                addresses.give_back(Some(instance.internal));
            }
            !over
        });
    }

    /// The zone, if it is one and can be reached.
    pub fn zone(&self, zone: &str) -> Result<(), Refusal> {
        if !self.zones.contains(zone) {
            return Err(Refusal::invalid("zone", zone, "Unknown zone."));
        }
        if self.unreachable.contains(zone) {
            let message =
                format!("The zone '{zone}' is temporarily unavailable. Please try again.");
            return Err(Refusal::unavailable(&message));
        }
        Ok(())
    }

    /// The operation that the same request was answered with before.
    pub fn repeated(&self, what: &str, id: Option<&str>) -> Result<Option<&Operation>, Refusal> {
        let Some(id) = id else { return Ok(None) };
        rules::request_id(id)?;
        let key = (what.to_owned(), id.to_ascii_lowercase());
        let name = self.requests.get(&key);
        Ok(name.and_then(|name| self.operations.get(name)))
    }

    /// Puts an operation on record; `what` is the method that was asked for it.
    pub fn begin(&mut self, what: &str, change: Change<'_>, now: Time) -> Operation {
        let id = self.next_id();
        let name = format!("operation-{}-{:x}-{id:x}", now.as_millis(), id % 0xfff_ffff);
        if let Some(request_id) = change.request_id {
            let key = (what.to_owned(), request_id.to_ascii_lowercase());
            self.requests.insert(key, name.clone());
        }
        let operation = Operation {
            id,
            name: name.clone(),
            kind: change.kind.to_owned(),
            zone: change.zone.map(ToOwned::to_owned),
            target: change.target,
            target_id: change.target_id,
            request_id: change.request_id.map(ToOwned::to_owned),
            user: change.user.to_owned(),
            accepted: now,
            starts: now + self.pace.pending,
            ends: Operation::end(now, change.kind, change.failure.is_some(), &self.pace),
            failure: change.failure,
        };
        self.operations.insert(name.clone(), operation.clone());
        self.order.push_back(name);
        if self.order.len() > MOST_OPERATIONS {
            self.forget_operation();
        }
        operation
    }

    fn forget_operation(&mut self) {
        if let Some(name) = self.order.pop_front() {
            self.operations.remove(&name);
            self.requests.retain(|_, kept| *kept != name);
        }
    }

    /// Forgets all operations, as Google does after some days.
    pub fn forget_operations(&mut self) {
        self.order.clear();
        self.operations.clear();
        self.requests.clear();
    }

    /// The operation of this name or number in this zone, or a global one.
    pub fn operation(&self, zone: Option<&str>, name: &str) -> Option<&Operation> {
        let by_name = self.operations.get(name);
        let found = by_name.or_else(|| {
            let id = name.parse::<u64>().ok()?;
            self.operations.values().find(|one| one.id == id)
        });
        found.filter(|one| one.zone.as_deref() == zone)
    }

    /// Operations of a zone, or the global ones; the oldest first.
    pub fn operations(&self, zone: Option<&str>) -> impl Iterator<Item = &Operation> {
        let all = self
            .order
            .iter()
            .filter_map(|name| self.operations.get(name));
        all.filter(move |one| one.zone.as_deref() == zone)
    }

    /// The failure that is in store for an operation on `target`.
    pub fn next_failure(&mut self, target: &str) -> Option<Failure> {
        let index = self
            .failures
            .iter()
            .position(|(part, _)| target.contains(part.as_str()))?;
        self.failures.remove(index).map(|(_, failure)| failure)
    }
}

/// The region that a zone is in.
pub fn region(zone: &str) -> &str {
    zone.rsplit_once('-').map_or(zone, |(region, _)| region)
}
