//! The decisions against a model of the world: calls fail before or after they take effect, the
//! operator dies at any step, users and backends do what they like. When that stops, all must be well.

mod acts;
mod effects;

use super::machine::*;
use crate::{
    provider::contract::{ErrorClass, InstanceState, Operation},
    proxy::{
        decide::{Decision, decide},
        memory::{Event, Memory, Wanted},
        next::Next,
    },
};
use acts::{Act, End, any_act};
use crds::{
    Phase, Proxy,
    conditions::{ConditionType, is_true},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Vm {
    built: String,
    state: InstanceState,
    goes: bool,
}

/// What is under way: decided on this object.
struct Operation_ {
    decision: Decision,
    on: Proxy,
    secret: u8,
    after: Option<String>,
}

/// A creation that was accepted.
struct Accepted {
    /// What it was told from others by.
    request: (String, Option<String>),
    failed: bool,
}

struct World {
    /// The operator, with its copy of the object, its clock and its memory.
    m: Machine,
    /// What the API server has; none once it is released.
    object: Option<Proxy>,
    secret: u8,
    vm: Option<Vm>,
    /// A creation's place in this list is its operation.
    accepted: Vec<Accepted>,
    under_way: Option<Operation_>,
    writes: usize,
    gets: usize,
}

fn hash(object: &Proxy, secret: u8) -> String {
    format!("{}-{secret}", object.spec.port)
}

impl World {
    fn new() -> Self {
        let m = managed();
        Self {
            object: Some(m.object.clone()),
            m,
            secret: 0,
            vm: None,
            accepted: vec![],
            under_way: None,
            writes: 0,
            gets: 0,
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Step(end) => self.step(end),
            Act::Wait(seconds) => self.m.pass(SECOND * u32::try_from(seconds).unwrap()),
            Act::Backend => self.backend(),
            Act::Vanish => self.vm = None,
            Act::FailLate => {
                if let Some(Vm {
                    state: InstanceState::Provisioning,
                    goes: false,
                    ..
                }) = &self.vm
                    && let Some(last) = self.accepted.last_mut()
                {
                    (self.vm, last.failed) = (None, true);
                }
            }
            Act::Stop => {
                if let Some(vm) = &mut self.vm {
                    vm.state = InstanceState::Stopped;
                }
            }
            Act::Edit(port) => self.change(|object| {
                object.spec.port = port;
                *object.metadata.generation.get_or_insert_default() += 1;
            }),
            Act::Secret(version) => {
                self.secret = version;
                self.m.hear(Event::SecretChanged);
            }
            Act::Config(config) => self.m.config = config,
            Act::Touch => self.change(|_| {}),
            Act::Delete => self.change(|object| {
                let now = Time(Timestamp::UNIX_EPOCH);
                object.metadata.deletion_timestamp.get_or_insert(now);
            }),
        }
    }

    /// A write on the API server; what nobody holds any more is gone.
    fn change(&mut self, change: impl FnOnce(&mut Proxy)) {
        let Some(object) = &mut self.object else {
            return;
        };
        change(object);
        let version: u64 = object
            .metadata
            .resource_version
            .as_ref()
            .unwrap()
            .parse()
            .unwrap();
        object.metadata.resource_version = Some((version + 1).to_string());
        if object.is_deleting() && !object.has_finalizer() {
            self.object = None;
        }
    }

    fn backend(&mut self) {
        match &mut self.vm {
            Some(vm) if vm.goes => self.vm = None,
            Some(vm) if vm.state == InstanceState::Provisioning => {
                vm.state = InstanceState::Running;
            }
            _ => {}
        }
    }

    /// The operator hears of the object, decides and begins; or what it began ends.
    fn step(&mut self, end: End) {
        if let Some(operation) = self.under_way.take() {
            self.ends(&operation, end);
            return;
        }
        let Some(object) = self.object.clone() else {
            return;
        };
        self.m.object = object;
        self.m.hear(Event::Woken);
        let decision = decide(&self.m.memory, &self.m.around(), Timestamp::UNIX_EPOCH);
        if let Decision::Do(Next::Resolve) = decision {
            self.m.memory.wanted = Wanted::Asked;
        }
        let rests = match &decision {
            Decision::Do(next) => next.is_rest(),
            Decision::SpareApi(_) => true,
            Decision::WriteStatus(_) => false,
        };
        if rests {
            if let End::Crash(_) = end {
                self.crash();
            }
            return;
        }
        self.under_way = Some(Operation_ {
            decision,
            on: self.m.object.clone(),
            secret: self.secret,
            after: self.m.memory.operation(&self.m.object).map(str::to_owned),
        });
    }

    fn crash(&mut self) {
        if let Some(object) = &self.object {
            self.m.memory = Memory::of(object);
        }
    }

    fn ends(&mut self, operation: &Operation_, end: End) {
        let takes_effect = matches!(end, End::Done | End::Unheard | End::Crash(true));
        let result = takes_effect.then(|| self.takes_effect(operation));
        if let Some(object) = &self.object {
            self.m.object = object.clone();
        }
        let event = match (end, result) {
            (End::Done, Some(event)) => event,
            (End::Refused(class), _) => failure(&operation.decision, class),
            (End::Crash(_), _) => return self.crash(),
            _ => failure(&operation.decision, ErrorClass::Transient),
        };
        self.m.hear(event);
    }

    /// Goes on without faults until there is nothing to do but to look from time to time.
    fn settles(&mut self) {
        for _ in 0..200 {
            self.act(Act::Step(End::Done));
            if self.object.is_none() {
                return;
            }
            if self.under_way.is_none() {
                self.backend();
                if let Next::Sleep(until) = self.m.run_nothing() {
                    self.m.now = self.m.now.max(until);
                }
            }
        }
    }
}

impl Machine {
    /// What would be done next, without doing it; rests while the API server is spared.
    fn run_nothing(&self) -> Next {
        match decide(&self.memory, &self.around(), Timestamp::UNIX_EPOCH) {
            Decision::SpareApi(until) => Next::Sleep(until),
            Decision::Do(next) => next,
            Decision::WriteStatus(_) => Next::Rest,
        }
    }
}

fn failure(decision: &Decision, class: ErrorClass) -> Event {
    match decision {
        Decision::Do(Next::Create(_)) => fails(Operation::Create, class),
        Decision::Do(Next::Get(_)) if class == ErrorClass::NotFound => {
            fails(Operation::Get, ErrorClass::Transient)
        }
        Decision::Do(Next::Get(_)) => fails(Operation::Get, class),
        Decision::Do(Next::Delete(_)) if class == ErrorClass::NotFound => {
            fails(Operation::Delete, ErrorClass::Transient)
        }
        Decision::Do(Next::Delete(_)) => fails(Operation::Delete, class),
        _ => Event::ApiFailed,
    }
}

proptest! {
    #[test]
    fn whatever_happened_all_is_well_once_it_stops(
        acts in prop::collection::vec(any_act(), 0..120),
        deleted in any::<bool>(),
        late in prop::collection::vec(any_act(), 0..20),
    ) {
        let mut world = World::new();
        for act in acts {
            world.act(act);
        }
        if deleted {
            world.act(Act::Delete);
        }
        for act in late {
            world.act(act);
        }
        // What a person would do about a latch or a missing provider.
        world.act(Act::Config(Some(99)));
        world.settles();

        if deleted {
            prop_assert!(world.object.is_none(), "still held: {:?}", world.m.memory);
            return Ok(());
        }
        let object = world.object.clone().expect("lives");
        let vm = world.vm.clone().expect("has an instance");
        prop_assert_eq!(vm.built, hash(&object, world.secret));
        prop_assert_eq!(vm.state, InstanceState::Running);
        prop_assert!(!vm.goes, "it is on its way out");
        let status = object.status.clone().expect("has a status");
        prop_assert_eq!(status.provider_id.as_deref(), Some("x"));
        prop_assert_eq!(status.ip.as_deref(), Some("10.0.0.1"));
        prop_assert_eq!(status.phase, Some(Phase::Provisioning));
        prop_assert_eq!(status.observed_generation, object.metadata.generation);
        prop_assert!(is_true(&status.conditions, ConditionType::Synced));

        world.m.hear(Event::Judged(healthy(7)));
        world.settles();
        let ready = world.object.clone().and_then(|o| o.status).expect("has a status");
        prop_assert_eq!(ready.phase, Some(Phase::Ready));

        // From here on nothing is written, also not by a successor, and the backend is looked at.
        let (writes, gets) = (world.writes, world.gets);
        world.settles();
        world.crash();
        world.settles();
        prop_assert_eq!(world.writes, writes);
        prop_assert!(world.gets > gets);
    }
}
