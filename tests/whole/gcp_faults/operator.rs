//! One step of a proxy: the program decides, and what it decided is done at the real provider.

use super::{
    objects::{self, uid},
    schedule::{OURS, Schedule},
    trouble::{self, End, Write},
};
use actors::{
    provider::contract::{
        CreateRequest, ErrorClass, Operation, Provider as _, ProviderError, UserData, instance_name,
    },
    proxy::{
        decide::{Decision, decide},
        memory::{Around, Event, Memory, Wanted},
        next::{Next, UNCERTAIN},
        pace,
        user_data::spec_hash,
    },
};
use anyhow::bail;
use crds::{Proxy, ProxySpec, names};
use k8s_openapi::jiff::Timestamp;
use rand::RngExt as _;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Something was done.
    Of,
    /// Nothing is to be done before this time.
    Until(Instant),
    /// Nothing is to be done until something happens.
    Rest,
}

pub fn user_data(spec: &ProxySpec) -> Option<UserData> {
    let inline = spec.cloud_init.as_ref()?.inline.as_ref()?;
    Some(inline.as_bytes().to_vec().into())
}

impl Schedule<'_> {
    /// What is decided about this proxy now, without anything being done.
    pub fn decided(&mut self, object: &Proxy) -> Decision {
        let name = object.metadata.name.clone().unwrap_or_default();
        let mut memory = self.remembered(&name, object);
        self.absorb(&mut memory, Event::Woken, object);
        let decision = decide(&memory, &self.around(object, 0.5), Timestamp::UNIX_EPOCH);
        self.memories.insert(name, memory);
        decision
    }

    /// Decides and does.
    pub async fn step(&mut self, name: &str) -> anyhow::Result<Came> {
        let Some(object) = self.objects.get(name).cloned() else {
            return Ok(Came::Rest);
        };
        let decision = self.decided(&object);
        match decision {
            Decision::SpareApi(until) | Decision::Do(Next::Sleep(until)) => {
                return Ok(Came::Until(until));
            }
            Decision::Do(Next::Rest) => return Ok(Came::Rest),
            Decision::Do(Next::Resolve) => {
                if let Some(memory) = self.memories.get_mut(name) {
                    memory.wanted = Wanted::Asked;
                }
                let hash = spec_hash(&object.spec, user_data(&object.spec).as_ref());
                self.hear(name, Event::Resolved(Ok(hash.into())));
            }
            Decision::Do(Next::Create(hash)) => {
                let request = self.request(&object, &hash);
                let provider = self.desk.provider.clone();
                self.call(
                    name,
                    "create",
                    Operation::Create,
                    provider.create(&request),
                    Event::Created,
                )
                .await;
            }
            Decision::Do(Next::Get(id)) => {
                let memory = self.memories.get(name);
                let creation = memory.and_then(|memory| memory.operation(&object));
                let creation = creation.map(str::to_owned);
                let provider = self.desk.provider.clone();
                let got = match &creation {
                    Some(creation) => provider.follow(&id, creation),
                    None => provider.get(&id),
                };
                self.call(name, "get", Operation::Get, got, Event::Got)
                    .await;
            }
            Decision::Do(Next::Delete(id)) => {
                let provider = self.desk.provider.clone();
                self.call(
                    name,
                    "delete",
                    Operation::Delete,
                    provider.delete(&id),
                    Event::Deleted,
                )
                .await;
            }
            Decision::WriteStatus(status) => {
                self.write(name, "status", |all| all.write_status(&object, *status));
            }
            Decision::Do(Next::AddFinalizer) => {
                self.write(name, "hold", |all| {
                    all.write_metadata(&object, objects::hold)
                });
            }
            Decision::Do(Next::ReleaseFinalizer | Next::Abandon(_)) => {
                self.write(name, "release", |all| {
                    all.write_metadata(&object, objects::release)
                });
            }
            Decision::Do(Next::WriteHash(hash)) => {
                self.write(name, "hash", |all| {
                    all.write_metadata(&object, |o| objects::annotate(o, names::SPEC_HASH, &hash))
                });
            }
        }
        if !object.has_finalizer() && self.made_anything(&object) {
            bail!("{name}: made for an object that nobody holds");
        }
        Ok(Came::Of)
    }

    fn request(&self, object: &Proxy, hash: &str) -> CreateRequest {
        let name = object.metadata.name.clone().unwrap_or_default();
        let memory = self.memories.get(&name);
        let after = memory.and_then(|memory| memory.operation(object));
        CreateRequest {
            name: instance_name(uid(object)),
            uid: uid(object).into(),
            namespace: "crawl".into(),
            proxy_name: name,
            placement: object.spec.placement.clone().unwrap_or_default(),
            user_data: user_data(&object.spec),
            port: object.spec.port,
            installation: OURS.into(),
            spec_hash: hash.into(),
            after: after.map(str::to_owned),
            elsewhere: object.spec_hash() == Some(UNCERTAIN),
        }
    }

    async fn call<T: std::fmt::Debug>(
        &mut self,
        name: &str,
        what: &str,
        operation: Operation,
        asked: impl Future<Output = Result<T, ProviderError>>,
        event: impl FnOnce(Result<T, ProviderError>) -> Event,
    ) {
        let (end, trouble) = if self.calm {
            (End::Heard, None)
        } else {
            let trouble = trouble::order(&self.desk.gce, &mut self.dice);
            (trouble::end(&mut self.dice), trouble)
        };
        if end == End::DiesBefore {
            self.note(format!("{name}: {what}: dies before"));
            return self.crash();
        }
        let result = tokio::select! {
            result = asked => result,
            () = self.hangs() => Err(ProviderError {
                class: ErrorClass::Transient,
                operation,
                provider: "gcp".into(),
                id: None,
                heals: false,
                message: "nobody waits any longer".into(),
                source: None,
            }),
        };
        let words = match &result {
            Ok(answer) => format!("{answer:?}"),
            Err(error) => format!("{} {error}", error.class),
        };
        self.tally.calls += 1;
        self.tally.failed += u64::from(result.is_err());
        let trouble = trouble.unwrap_or_default();
        self.note(format!("{name}: {what} ({trouble}) {end:?}: {words}"));
        if end == End::DiesAfter {
            return self.crash();
        }
        if !self.calm && self.dice.random_range(0..12) == 0 {
            self.user_act(name);
        }
        self.hear(name, event(result));
    }

    /// Ends once a request has begun to wait for ever: by then it has done whatever it does.
    async fn hangs(&self) {
        let before = self.desk.gce.hung();
        while self.desk.gce.hung() == before {
            sleep(Duration::from_millis(5)).await;
        }
    }

    fn write(&mut self, name: &str, what: &str, write: impl FnOnce(&mut objects::Objects) -> bool) {
        let end = if self.calm {
            Write::Done
        } else {
            trouble::write(&mut self.dice)
        };
        let takes_effect = matches!(end, Write::Done | Write::Unheard | Write::DiesAfter);
        let done = takes_effect && write(&mut self.objects);
        self.note(format!("{name}: writes {what}: {end:?}"));
        match end {
            Write::DiesBefore | Write::DiesAfter => self.crash(),
            Write::Done if done => self.hear(name, Event::ApiAnswered),
            _ => self.hear(name, Event::ApiFailed),
        }
    }

    fn hear(&mut self, name: &str, event: Event) {
        // Another process may be there by now, or the object gone.
        let Some(object) = self.objects.get(name).cloned() else {
            return;
        };
        let mut memory = self.remembered(name, &object);
        self.absorb(&mut memory, Event::Woken, &object);
        self.absorb(&mut memory, event, &object);
        self.memories.insert(name.to_owned(), memory);
    }

    fn remembered(&mut self, name: &str, object: &Proxy) -> Memory {
        let known = self.memories.remove(name);
        known
            .filter(|memory| &*memory.uid == uid(object))
            .unwrap_or_else(|| Memory::of(object))
    }

    fn absorb(&mut self, memory: &mut Memory, event: Event, object: &Proxy) {
        let chance = self.dice.random_range(0.0..1.0);
        memory.absorb(event, &self.around(object, chance));
    }

    fn around<'a>(&self, object: &'a Proxy, chance: f64) -> Around<'a> {
        Around {
            object,
            config: Some(self.config),
            now: self.now,
            chance,
            pace: pace::DEFAULT,
        }
    }
}
