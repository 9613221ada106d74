//! A backend, the network and Kubernetes Events, in memory.

use super::SECOND;
use crate::{
    events::{EventSink, Regarding},
    prober::probe::{Fetch, Outcome, Probe},
    provider::contract::{
        CreateRequest, Created, ErrorClass, Instance, InstanceState, Operation, Provider,
        ProviderError, TargetCheck, UserData,
    },
    proxy::memory::Note,
    system::ChildSpec,
};
use futures::future::BoxFuture;
use std::{
    collections::BTreeMap,
    future::pending,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{sync::Semaphore, time::Instant};

/// Permits as good as without end.
const MANY: usize = Semaphore::MAX_PERMITS / 2;

/// A backend whose instances run at once and go at once.
pub struct FakeProvider {
    /// By key: what each was built from.
    pub vms: Mutex<BTreeMap<String, String>>,
    /// Calls begun, in order.
    pub calls: Mutex<Vec<Operation>>,
    /// Calls that may end.
    pub gate: Semaphore,
    pub deadline: Duration,
    pub calls_at_once: usize,
    /// What it consists of beside its calls.
    pub children: fn() -> Vec<ChildSpec>,
    /// Its targets and what a check finds; `Reachable` is well.
    pub targets: Mutex<Vec<(&'static str, &'static str)>>,
    /// Checks that may end.
    pub checks: Semaphore,
    /// Checks under way.
    pub checking: AtomicUsize,
}

impl Default for FakeProvider {
    fn default() -> Self {
        Self {
            vms: Mutex::default(),
            calls: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            deadline: 60 * SECOND,
            calls_at_once: 32,
            children: Vec::new,
            targets: Mutex::default(),
            checks: Semaphore::new(MANY),
            checking: AtomicUsize::new(0),
        }
    }
}

impl FakeProvider {
    /// Calls hang from here on.
    pub fn hang(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    /// Checks hang from here on, or go on.
    pub fn hang_checks(&self, hang: bool) {
        if hang {
            self.checks.forget_permits(MANY);
        } else {
            self.checks.add_permits(MANY);
        }
    }

    pub fn calls(&self) -> Vec<Operation> {
        self.calls.lock().unwrap().clone()
    }

    pub fn vms(&self) -> BTreeMap<String, String> {
        self.vms.lock().unwrap().clone()
    }

    async fn begins(&self, operation: Operation) {
        self.calls.lock().unwrap().push(operation);
        drop(self.gate.acquire().await);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

impl Provider for FakeProvider {
    fn name(&self) -> &'static str {
        "lab"
    }
    fn kind(&self) -> &'static str {
        "fake"
    }
    fn deadline(&self, _: Operation) -> Duration {
        self.deadline
    }
    fn calls_at_once(&self) -> usize {
        self.calls_at_once
    }
    fn children(&self) -> Vec<ChildSpec> {
        (self.children)()
    }
    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<Created, ProviderError>> {
        Box::pin(async move {
            self.begins(Operation::Create).await;
            let data = request
                .user_data
                .as_ref()
                .map(UserData::bytes)
                .unwrap_or_default();
            let built = format!("{} {}", request.port, String::from_utf8_lossy(data));
            self.vms
                .lock()
                .unwrap()
                .entry(request.name.clone())
                .or_insert(built);
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(Created {
                id: request.name.clone(),
                operation: None,
                notes: vec![],
            })
        })
    }
    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        Box::pin(async move {
            self.begins(Operation::Get).await;
            if !self.vms.lock().unwrap().contains_key(id) {
                return Err(ProviderError {
                    class: ErrorClass::NotFound,
                    operation: Operation::Get,
                    provider: "lab".into(),
                    id: Some(id.into()),
                    heals: false,
                    message: "gone".into(),
                    source: None,
                });
            }
            Ok(Instance {
                id: id.into(),
                ip: Some([10, 0, 0, 1].into()),
                state: InstanceState::Running,
                uid: String::new(),
                installation: String::new(),
                created_at: 0,
                trouble: None,
            })
        })
    }
    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move {
            self.begins(Operation::Delete).await;
            self.vms.lock().unwrap().remove(id);
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(())
        })
    }
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>> {
        Box::pin(async { Ok(vec![]) })
    }
    fn check(&self, _: Duration) -> BoxFuture<'_, Vec<TargetCheck>> {
        Box::pin(async {
            self.checking.fetch_add(1, SeqCst);
            drop(self.checks.acquire().await);
            self.checking.fetch_sub(1, SeqCst);
            let targets = self.targets.lock().unwrap().clone().into_iter();
            let check = |(name, reason): (&str, &'static str)| TargetCheck {
                name: name.into(),
                address: format!("{name}:1"),
                ready: reason == "Reachable",
                reason,
                message: "as told".into(),
                latency: 5 * SECOND,
                details: BTreeMap::new(),
            };
            targets.map(check).collect()
        })
    }
}

/// The network: every fetch ends as it is told, after 10 ms.
pub struct FakeProbe {
    pub outcome: Mutex<Outcome>,
    pub log: Mutex<Vec<(Instant, Fetch)>>,
    /// Probes that may end.
    pub gate: Semaphore,
    /// The next probe panics.
    pub panics: AtomicBool,
}

impl Default for FakeProbe {
    fn default() -> Self {
        Self {
            outcome: Mutex::new(Ok(Duration::from_millis(7))),
            log: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            panics: AtomicBool::default(),
        }
    }
}

impl FakeProbe {
    pub fn count(&self) -> usize {
        self.log.lock().unwrap().len()
    }
    pub fn at(&self, n: usize) -> Instant {
        self.log.lock().unwrap()[n].0
    }
    pub fn answers(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap() = outcome;
    }
}

impl Probe for FakeProbe {
    fn probe<'a>(&'a self, fetch: &'a Fetch) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            self.log
                .lock()
                .unwrap()
                .push((Instant::now(), fetch.clone()));
            drop(self.gate.acquire().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(!self.panics.swap(false, SeqCst), "as told");
            self.outcome.lock().unwrap().clone()
        })
    }
}

/// Kubernetes Events.
#[derive(Default)]
pub struct FakeSink {
    pub notes: Mutex<Vec<(Regarding, Note)>>,
    pub hangs: AtomicBool,
}

impl EventSink for FakeSink {
    fn record(&self, regarding: Regarding, note: Note) -> BoxFuture<'static, ()> {
        self.notes.lock().unwrap().push((regarding, note));
        if self.hangs.load(SeqCst) {
            Box::pin(pending())
        } else {
            Box::pin(async {})
        }
    }
}
