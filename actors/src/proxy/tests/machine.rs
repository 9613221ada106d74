//! A proxy without a runtime: its object, its memory, and an API server that does what it is told.

use crate::{
    provider::contract::{Created, ErrorClass, Instance, InstanceState, Operation, ProviderError},
    proxy::{
        decide::{Decision, decide},
        memory::{Around, Event, Memory, Note, Verdict, Wanted},
        next::Next,
        pace,
    },
};
use crds::{
    Endpoint, Mode, Phase, Proxy, ProxySpec,
    conditions::{self, ConditionType},
    names,
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use std::time::Duration;
use tokio::time::Instant;

pub const SECOND: Duration = Duration::from_secs(1);

pub struct Machine {
    pub object: Proxy,
    pub memory: Memory,
    pub config: Option<u64>,
    pub now: Instant,
    /// What was written, in order.
    pub writes: Vec<&'static str>,
    /// What the user was told, in order.
    pub notes: Vec<Note>,
}

pub fn object(spec: ProxySpec) -> Proxy {
    let mut object = Proxy::new("px", spec);
    object.metadata.namespace = Some("ns".into());
    object.metadata.uid = Some("uid-1".into());
    object.metadata.generation = Some(1);
    object.metadata.resource_version = Some("1".into());
    object
}

/// A Managed proxy that was just applied.
pub fn managed() -> Machine {
    Machine::of(object(ProxySpec {
        provider: Some("lab".into()),
        ..ProxySpec::default()
    }))
}

/// An External proxy that was just applied.
pub fn external() -> Machine {
    Machine::of(object(ProxySpec {
        mode: Mode::External,
        endpoint: Some(Endpoint {
            host: "proxy.example".into(),
            port: None,
        }),
        ..ProxySpec::default()
    }))
}

/// A Managed proxy whose `create` is due, built from `h1`.
pub fn creating() -> Machine {
    let mut m = managed();
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Resolved(Ok("h1".into())));
    assert_eq!(m.run(), Next::Create("h1".into()));
    m
}

/// A Managed proxy with the instance `x`, at which it is time to look.
pub fn created() -> Machine {
    let mut m = creating();
    m.hear(made("x"));
    assert_eq!(m.run(), Next::Get("x".into()));
    m
}

/// A Managed proxy whose instance `x` runs at 10.0.0.1.
pub fn running() -> Machine {
    let mut m = created();
    m.hear(got(InstanceState::Running, Some("10.0.0.1")));
    assert!(matches!(m.run(), Next::Sleep(_)));
    m
}

/// The same, and a probe went through.
pub fn ready() -> Machine {
    let mut m = running();
    m.hear(Event::Judged(healthy(7)));
    assert!(matches!(m.run(), Next::Sleep(_)));
    m.forget();
    m
}

/// A Ready proxy whose spec changed, whose old instance is to be told to go.
pub fn replacing() -> Machine {
    let mut m = ready().edited();
    assert_eq!(m.run(), Next::Resolve);
    m.hear(Event::Resolved(Ok("h2".into())));
    assert_eq!(m.run(), Next::Get("x".into()));
    m.hear(got(InstanceState::Running, Some("10.0.0.1")));
    assert_eq!(m.run(), Next::Delete("x".into()));
    m
}

/// A Ready proxy whose deletion was asked for.
pub fn leaving() -> Machine {
    let mut m = ready().deleted();
    assert_eq!(m.run(), Next::Get("x".into()));
    m.forget();
    m
}

pub fn healthy(latency: u32) -> Verdict {
    Verdict {
        healthy: true,
        latency_millis: Some(latency),
        error: None,
    }
}

pub fn unhealthy(error: &str) -> Verdict {
    Verdict {
        healthy: false,
        latency_millis: Some(7),
        error: Some(error.into()),
    }
}

pub fn made(id: &str) -> Event {
    Event::Created(Ok(Created {
        id: id.into(),
        operation: None,
        notes: vec![],
    }))
}

pub fn got(state: InstanceState, ip: Option<&str>) -> Event {
    Event::Got(Ok(Instance {
        id: "x".into(),
        ip: ip.map(|ip| ip.parse().expect("an address")),
        state,
        uid: "uid-1".into(),
        installation: "i".into(),
        created_at: 0,
        trouble: None,
    }))
}

/// An instance that cannot go on by itself.
pub fn stuck(trouble: &str) -> Event {
    let mut event = got(InstanceState::Provisioning, None);
    if let Event::Got(Ok(instance)) = &mut event {
        instance.trouble = Some(trouble.into());
    }
    event
}

pub fn error(class: ErrorClass, operation: Operation) -> ProviderError {
    ProviderError {
        class,
        operation,
        provider: "lab".into(),
        id: None,
        heals: false,
        message: format!("{operation} says {class}"),
        source: None,
    }
}

/// The operation ended with an error of this class.
pub fn fails(operation: Operation, class: ErrorClass) -> Event {
    let error = error(class, operation);
    match operation {
        Operation::Create => Event::Created(Err(error)),
        Operation::Get => Event::Got(Err(error)),
        Operation::Delete => Event::Deleted(Err(error)),
        other => panic!("no proxy asks for {other}"),
    }
}

pub fn not_found() -> Event {
    fails(Operation::Get, ErrorClass::NotFound)
}

impl Machine {
    pub fn of(object: Proxy) -> Self {
        Self {
            memory: Memory::of(&object),
            object,
            config: Some(1),
            now: Instant::now(),
            writes: vec![],
            notes: vec![],
        }
    }

    pub fn with(mut self, change: impl FnOnce(&mut Proxy)) -> Self {
        change(&mut self.object);
        self
    }

    /// The user changed the spec.
    pub fn edited(self) -> Self {
        self.with(|object| {
            let generation = object.metadata.generation.get_or_insert_default();
            *generation += 1;
        })
    }

    /// The user deleted the object, which something still holds.
    pub fn deleted(self) -> Self {
        self.with(|object| object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH)))
    }

    pub fn skipping_cleanup(self) -> Self {
        self.with(|object| {
            let annotations = object.metadata.annotations.get_or_insert_default();
            annotations.insert(names::SKIP_CLEANUP.into(), names::TRUE.into());
        })
    }

    pub fn held_by_another(self) -> Self {
        self.with(|object| {
            let finalizers = object.metadata.finalizers.get_or_insert_default();
            finalizers.push("example.org/other".into());
        })
    }

    /// The operator, or the actor, was started again.
    pub fn restarted(mut self) -> Self {
        self.memory = Memory::of(&self.object);
        self.forget();
        self
    }

    pub fn forget(&mut self) {
        self.writes.clear();
        self.notes.clear();
    }

    pub fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub fn around(&self) -> Around<'_> {
        Around {
            object: &self.object,
            config: self.config,
            now: self.now,
            chance: 0.5,
            pace: pace::DEFAULT,
        }
    }

    pub fn hear(&mut self, event: Event) {
        let around = Around {
            object: &self.object,
            config: self.config,
            now: self.now,
            chance: 0.5,
            pace: pace::DEFAULT,
        };
        let mut notes = self.memory.absorb(Event::Woken, &around);
        notes.extend(self.memory.absorb(event, &around));
        self.notes.extend(notes);
    }

    /// Writes what is to be written, until something else is to be done.
    pub fn run(&mut self) -> Next {
        self.hear(Event::Woken);
        for _ in 0..20 {
            let next = match decide(&self.memory, &self.around(), Timestamp::UNIX_EPOCH) {
                Decision::SpareApi(until) => return Next::Sleep(until),
                Decision::WriteStatus(status) => {
                    self.object.status = Some(*status);
                    self.wrote("status");
                    continue;
                }
                Decision::Do(next) => next,
            };
            match next {
                Next::AddFinalizer => {
                    assert!(!self.object.is_deleting(), "held although it is deleted");
                    let all = self.object.metadata.finalizers.get_or_insert_default();
                    all.push(names::FINALIZER.into());
                    self.wrote("hold");
                }
                Next::ReleaseFinalizer => {
                    let all = self.object.metadata.finalizers.get_or_insert_default();
                    all.retain(|name| name != names::FINALIZER);
                    self.wrote("release");
                }
                Next::WriteHash(hash) => {
                    let all = self.object.metadata.annotations.get_or_insert_default();
                    all.insert(names::SPEC_HASH.into(), hash.into());
                    self.wrote("hash");
                }
                Next::Resolve => {
                    self.memory.wanted = Wanted::Asked;
                    return Next::Resolve;
                }
                other => return other,
            }
        }
        panic!("writes for ever: {:?}", self.writes);
    }

    fn wrote(&mut self, what: &'static str) {
        self.writes.push(what);
        self.hear(Event::ApiAnswered);
    }

    /// How long it sleeps.
    pub fn sleeps(&mut self) -> Duration {
        match self.run() {
            Next::Sleep(until) => until - self.now,
            other => panic!("does not sleep but {other:?}"),
        }
    }

    /// Sleeps for as long as it wants to.
    pub fn wakes(&mut self) -> Next {
        let pause = self.sleeps();
        self.pass(pause);
        self.run()
    }

    /// `Reason` of a condition, with a `!` before it when it is False and a `?` when it is Unknown.
    pub fn says(&self, type_: ConditionType) -> String {
        let condition = conditions::get(self.object.conditions(), type_).expect("is set");
        let sign = match condition.status.as_str() {
            "True" => "",
            "False" => "!",
            _ => "?",
        };
        format!("{sign}{}", condition.reason)
    }

    pub fn message(&self, type_: ConditionType) -> &str {
        let condition = conditions::get(self.object.conditions(), type_);
        &condition.expect("is set").message
    }

    /// Phase, Provisioned, Synced.
    pub fn told(&self) -> (Phase, String, String) {
        let phase = self.object.status.as_ref().and_then(|s| s.phase);
        (
            phase.expect("is set"),
            self.says(ConditionType::Provisioned),
            self.says(ConditionType::Synced),
        )
    }

    pub fn recorded_operation(&self) -> Option<&str> {
        self.object.status.as_ref()?.operation.as_deref()
    }

    pub fn recorded_id(&self) -> Option<&str> {
        self.object.status.as_ref()?.provider_id.as_deref()
    }

    pub fn observed_generation(&self) -> Option<i64> {
        self.object.status.as_ref()?.observed_generation
    }

    /// The reasons of the Events, a `!` before those that warn.
    pub fn events(&self) -> Vec<String> {
        let word = |note: &Note| {
            format!(
                "{}{}",
                if note.warning { "!" } else { "" },
                note.reason.as_str()
            )
        };
        self.notes.iter().map(word).collect()
    }
}
