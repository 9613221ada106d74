//! A backend and the Proxies that it works for, in which acts happen before and after each step of a sweep.

mod ports;
mod start;

pub use start::Start;

use crate::provider::contract::{
    ErrorClass, Instance, InstanceState, Operation, ProviderError, instance_name,
};
use k8s_openapi::jiff::Timestamp;
use std::{
    collections::{BTreeMap, VecDeque},
    mem::take,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::{Instant, sleep};

const OURS: &str = "ours";
const BEGINNING: i64 = 1_800_000_000;

/// What happens. A slot is the name of a Proxy, which has another UID each time that it is created.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// A Proxy is applied.
    Create(usize),
    /// Its instance is made.
    Provision(usize),
    /// An instance is made by an operator that does not know yet that the Proxy is gone.
    ProvisionLate(usize),
    /// What a create of this slot's Proxy, or of an earlier one, has left: a name, no UID, no age.
    LeftOver(usize),
    /// An instance of another installation.
    Foreign(usize),
    /// Its instance goes, and then the Proxy.
    Remove(usize),
    /// The Proxy goes and leaves its instance behind.
    Abandon(usize),
    /// The wall clock steps by so many seconds.
    Step(i64),
    /// So many seconds pass.
    Pass(u64),
    /// The next list, reading or deletion fails, or hangs.
    FailList,
    HangList,
    FailRead,
    FailDelete,
    /// Deletions take a second.
    SlowDeletes,
    /// Proxies of other namespaces cannot be seen.
    OwnNamespaceOnly,
    /// The collector is killed.
    Kill,
}

#[derive(Default)]
struct State {
    /// By slot: the UID of the Proxy that exists.
    proxies: BTreeMap<usize, String>,
    /// By slot: the UID of the last one that did.
    gone: BTreeMap<usize, String>,
    instances: BTreeMap<String, Instance>,
    births: u32,
    step: i64,
    fails: Vec<&'static str>,
    script: VecDeque<Act>,
    own_only: bool,
    slow: bool,
    deleting: usize,
    most: usize,
    kills: u32,
    /// What should never have been deleted.
    wrong: Vec<String>,
}

pub struct World {
    name: &'static str,
    began: Instant,
    state: Mutex<State>,
}

impl World {
    pub fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            name,
            began: Instant::now(),
            state: Mutex::default(),
        })
    }

    /// What is to happen between the steps of sweeps.
    pub fn script(&self, acts: Vec<Act>) {
        self.state.lock().unwrap().script = acts.into();
    }

    pub fn is_played(&self) -> bool {
        self.state.lock().unwrap().script.is_empty()
    }

    pub fn instances(&self) -> usize {
        self.state.lock().unwrap().instances.len()
    }

    pub fn most_deletions(&self) -> usize {
        self.state.lock().unwrap().most
    }

    pub fn kills(&self) -> u32 {
        take(&mut self.state.lock().unwrap().kills)
    }

    /// Nothing was deleted that should not have been.
    pub fn check(&self) {
        let state = self.state.lock().unwrap();
        assert!(state.wrong.is_empty(), "{:#?}", state.wrong);
    }

    /// Those of ours that no Proxy owns.
    pub fn orphans(&self) -> Vec<Instance> {
        let state = self.state.lock().unwrap();
        let all = state.instances.values();
        let orphans = all.filter(|one| one.installation == OURS && !state.owns(one));
        orphans.cloned().collect()
    }

    pub fn wall(&self) -> Timestamp {
        Timestamp::from_second(self.now()).expect("a time")
    }

    /// The wall clock, which steps, in seconds.
    fn now(&self) -> i64 {
        let passed = i64::try_from(self.began.elapsed().as_secs()).unwrap_or(i64::MAX);
        BEGINNING + passed + self.state.lock().unwrap().step
    }

    pub fn act(&self, act: Act) {
        let now = self.now();
        self.state.lock().unwrap().act(act, now);
    }

    /// Some of what is scripted happens.
    async fn goes_on(&self) {
        for _ in 0..2 {
            let act = self.state.lock().unwrap().script.pop_front();
            match act {
                Some(Act::Pass(seconds)) => {
                    sleep(Duration::from_secs(seconds)).await;
                }
                Some(act) => self.act(act),
                None => {}
            }
        }
        sleep(Duration::from_millis(10)).await;
    }

    fn fails(&self, what: &str) -> bool {
        let fails = &mut self.state.lock().unwrap().fails;
        let at = fails.iter().position(|failing| *failing == what);
        at.is_some_and(|at| {
            fails.remove(at);
            true
        })
    }

    fn error(&self, operation: Operation) -> ProviderError {
        ProviderError {
            class: ErrorClass::Transient,
            operation,
            provider: self.name.into(),
            id: None,
            heals: false,
            message: "as told".into(),
            source: None,
        }
    }
}

impl State {
    fn owns(&self, instance: &Instance) -> bool {
        let mut uids = self.proxies.values();
        uids.any(|uid| *uid == instance.uid || instance_name(uid) == instance.name())
    }

    fn instance(&mut self, uid: &str, owner: &str, installation: &str, created_at: i64) {
        let id = format!("{installation}/{}", instance_name(uid));
        let instance = Instance {
            id: id.clone(),
            ip: None,
            state: InstanceState::Provisioning,
            uid: owner.into(),
            installation: installation.into(),
            created_at,
            trouble: None,
        };
        self.instances.entry(id).or_insert(instance);
    }

    fn act(&mut self, act: Act, now: i64) {
        match act {
            Act::Create(slot) => {
                self.births += 1;
                let uid = format!("uid-{}", self.births);
                self.proxies.entry(slot).or_insert(uid);
            }
            Act::Provision(slot) => {
                if let Some(uid) = self.proxies.get(&slot).cloned() {
                    self.instance(&uid, &uid, OURS, now);
                }
            }
            Act::ProvisionLate(slot) => {
                if let Some(uid) = self.gone.get(&slot).cloned() {
                    self.instance(&uid, &uid, OURS, now);
                }
            }
            Act::LeftOver(slot) => {
                let uid = self.proxies.get(&slot).or(self.gone.get(&slot));
                let uid = uid.cloned().unwrap_or_else(|| format!("ancient-{slot}"));
                self.instance(&uid, "", OURS, 0);
            }
            Act::Foreign(slot) => {
                let uid = format!("foreign-{slot}");
                self.instance(&uid, &uid, "theirs", 0);
            }
            Act::Remove(slot) => {
                if let Some(uid) = self.proxies.remove(&slot) {
                    let name = instance_name(&uid);
                    self.instances.retain(|_, one| one.name() != name);
                    self.gone.insert(slot, uid);
                }
            }
            Act::Abandon(slot) => {
                if let Some(uid) = self.proxies.remove(&slot) {
                    self.gone.insert(slot, uid);
                }
            }
            Act::Step(seconds) => self.step += seconds,
            Act::FailList => self.fails.push("list"),
            Act::HangList => self.fails.push("hang"),
            Act::FailRead => self.fails.push("read"),
            Act::FailDelete => self.fails.push("delete"),
            Act::SlowDeletes => self.slow = true,
            Act::OwnNamespaceOnly => self.own_only = true,
            Act::Kill => self.kills += 1,
            Act::Pass(_) => {}
        }
    }
}
