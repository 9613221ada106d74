//! The outside world for tests: every port, in memory, with switches for what goes wrong.

use crate::{
    events::{EventSink, EventsActor, Regarding},
    fleet::{FleetActor, FleetMsg},
    health::HealthActor,
    key::ProxyKey,
    leases::{LeaseDeps, LeasesActor, journal::memory::MemoryJournal, now::Clock, terms::Terms},
    metrics::Metrics,
    prober::{
        Prospect,
        probe::{Fetch, Outcome, Probe},
    },
    provider::contract::{
        CreateRequest, Created, ErrorClass, Instance, InstanceState, Operation, Provider,
        ProviderError, TargetCheck, UserData,
    },
    providers::{Entry, ProviderSet, ProvidersActor},
    proxy::{Deps, memory::Note},
    root::RootActor,
    status::StatusActor,
    store::{MetadataChange, ProxyStore, UserDataError, Write, WriteError},
    system::{
        Actor, Addr, ChildSpec, Running, System,
        directory::{Directory, End},
        meter::Meters,
    },
};
use crds::{Proxy, SecretRef, names};
use futures::future::{BoxFuture, FutureExt};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use prometheus::Registry;
use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};

pub const SECOND: Duration = Duration::from_secs(1);

pub fn key() -> ProxyKey {
    ProxyKey::new("ns", "px")
}

pub fn key_of(object: &Proxy) -> ProxyKey {
    let meta = &object.metadata;
    ProxyKey::new(
        meta.namespace.as_deref().unwrap(),
        meta.name.as_deref().unwrap(),
    )
}

pub fn metrics() -> Metrics {
    Metrics::new(&Registry::new()).expect("a new registry")
}

pub const TERMS: Terms = Terms {
    max_ttl: Duration::from_secs(3600),
    lease_cooldown: Duration::from_secs(900),
    ban_cooldown: Duration::from_secs(900),
};

/// Waits until `done`, for up to ten (paused) minutes.
#[track_caller]
pub fn until(what: &'static str, done: impl Fn() -> bool) -> impl Future<Output = ()> {
    let at = std::panic::Location::caller();
    async move {
        let end = Instant::now() + 600 * SECOND;
        while !done() {
            assert!(Instant::now() < end, "{at}: never {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Actors that run under a root.
pub struct Stage {
    pub running: Running,
    pub directory: Arc<Directory>,
}

impl Stage {
    pub async fn of(services: Vec<ChildSpec>) -> Self {
        let system = System::new(Meters::new(&Registry::new()).expect("a new registry"));
        let root = RootActor::new(services);
        Self {
            running: system.run(&Addr::default(), root).await.expect("runs"),
            directory: system.directory(),
        }
    }

    /// One actor at `path`.
    pub async fn one<A: Actor>(
        path: &str,
        addr: &Addr<A::Msg>,
        make: impl Fn() -> A + Send + 'static,
    ) -> Self {
        let stage = Self::of(vec![ChildSpec::new(path, addr.clone(), make)]).await;
        until("starts", || addr.is_up()).await;
        stage
    }

    pub fn kill(&self, path: &str) {
        assert!(self.directory.end(path, End::Kill), "nobody at {path}");
    }

    pub fn has(&self, path: &str) -> bool {
        self.directory.list().iter().any(|seen| &*seen.path == path)
    }
}

/// The API server.
#[derive(Default)]
pub struct FakeStore {
    api: Mutex<Api>,
    /// Every write fails.
    pub down: AtomicBool,
    /// Writes hang.
    pub hangs: AtomicBool,
    /// The watch tells of nothing.
    pub blind: AtomicBool,
    pub in_flight: AtomicUsize,
    pub most_in_flight: AtomicUsize,
}

#[derive(Default)]
struct Api {
    objects: HashMap<ProxyKey, Arc<Proxy>>,
    seen: HashMap<ProxyKey, Arc<Proxy>>,
    secrets: HashMap<String, Vec<u8>>,
    fleet: Option<Addr<FleetMsg>>,
    version: u64,
    writes: Vec<(ProxyKey, &'static str)>,
}

impl FakeStore {
    fn api(&self) -> MutexGuard<'_, Api> {
        self.api.lock().unwrap()
    }

    /// What the user sees.
    pub fn object(&self, key: &ProxyKey) -> Option<Arc<Proxy>> {
        self.api().objects.get(key).cloned()
    }

    pub fn writes(&self) -> usize {
        self.api().writes.len()
    }

    pub fn secret(&self, name: &str, data: &str) {
        let mut api = self.api();
        api.secrets.insert(name.into(), data.into());
        let message = FleetMsg::SecretChanged {
            namespace: "ns".into(),
            name: name.into(),
        };
        if let Some(fleet) = &api.fleet {
            fleet.hint(message);
        }
    }

    /// Applies an object, as a user would.
    pub fn apply(&self, object: Proxy) {
        self.put(&key_of(&object), Some(object));
    }

    pub fn change(&self, key: &ProxyKey, change: impl FnOnce(&mut Proxy)) {
        let mut object = Proxy::clone(&self.object(key).expect("exists"));
        change(&mut object);
        self.put(key, Some(object));
    }

    pub fn edit(&self, key: &ProxyKey, change: impl FnOnce(&mut Proxy)) {
        self.change(key, |object| {
            *object.metadata.generation.get_or_insert_default() += 1;
            change(object);
        });
    }

    pub fn delete(&self, key: &ProxyKey) {
        self.change(key, |object| {
            object.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        });
    }

    fn put(&self, key: &ProxyKey, object: Option<Proxy>) {
        let mut api = self.api();
        api.version += 1;
        let version = api.version.to_string();
        let held = |o: &Proxy| {
            o.metadata
                .finalizers
                .as_ref()
                .is_some_and(|f| !f.is_empty())
        };
        match object.filter(|o| !o.is_deleting() || held(o)) {
            Some(mut object) => {
                object.metadata.resource_version = Some(version);
                api.objects.insert(key.clone(), Arc::new(object));
            }
            None => {
                api.objects.remove(key);
            }
        }
        drop(api);
        if !self.blind.load(SeqCst) {
            self.catch_up(key);
        }
    }

    /// The watch sees the object as it is.
    pub fn catch_up(&self, key: &ProxyKey) {
        let mut api = self.api();
        match api.objects.get(key).cloned() {
            Some(object) => api.seen.insert(key.clone(), object),
            None => api.seen.remove(key),
        };
        if let Some(fleet) = &api.fleet {
            fleet.hint(FleetMsg::Changed(key.clone()));
        }
    }

    fn written(&self, key: &ProxyKey, write: Write) -> Result<Arc<Proxy>, WriteError> {
        if self.down.load(SeqCst) {
            return Err(WriteError::Failed("the API server is down".into()));
        }
        let object = self.object(key).ok_or(WriteError::Gone)?;
        let mut object = Proxy::clone(&object);
        let what = match write {
            Write::Status { uid, status } => {
                if object.metadata.uid != Some(uid) {
                    return Err(WriteError::Conflict);
                }
                object.status = Some(*status);
                "status"
            }
            Write::Metadata {
                resource_version,
                change,
            } => {
                if object.metadata.resource_version != Some(resource_version) {
                    return Err(WriteError::Conflict);
                }
                match change {
                    MetadataChange::Finalizers(all) => object.metadata.finalizers = Some(all),
                    MetadataChange::SpecHash(hash) => {
                        let all = object.metadata.annotations.get_or_insert_default();
                        all.insert(names::SPEC_HASH.into(), hash);
                    }
                }
                "metadata"
            }
        };
        self.api().writes.push((key.clone(), what));
        self.put(key, Some(object.clone()));
        object.metadata.resource_version = Some(self.api().version.to_string());
        Ok(Arc::new(object))
    }
}

/// A store that is shared, since its futures outlive the call.
#[derive(Clone, Default)]
pub struct Store(pub Arc<FakeStore>);

impl ProxyStore for Store {
    fn watch(&self, fleet: Addr<FleetMsg>) -> BoxFuture<'static, ()> {
        let store = Arc::clone(&self.0);
        Box::pin(async move {
            let keys: Vec<_> = {
                let mut api = store.api();
                api.fleet = Some(fleet.clone());
                api.seen = api.objects.clone();
                api.seen.keys().cloned().collect()
            };
            for key in keys {
                fleet.hint(FleetMsg::Changed(key));
            }
            fleet.hint(FleetMsg::Listed);
            pending().await
        })
    }

    fn noticed(&self, _: &ProxyKey) {}

    fn get(&self, key: &ProxyKey) -> Option<Arc<Proxy>> {
        self.0.api().seen.get(key).cloned()
    }

    fn list(&self) -> Vec<Arc<Proxy>> {
        self.0.api().seen.values().cloned().collect()
    }

    fn write(
        &self,
        key: &ProxyKey,
        write: Write,
    ) -> BoxFuture<'static, Result<Arc<Proxy>, WriteError>> {
        let (store, key) = (Arc::clone(&self.0), key.clone());
        Box::pin(async move {
            let now = store.in_flight.fetch_add(1, SeqCst) + 1;
            store.most_in_flight.fetch_max(now, SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            if store.hangs.load(SeqCst) {
                pending::<()>().await;
            }
            let written = store.written(&key, write);
            tokio::time::sleep(Duration::from_millis(5)).await;
            store.in_flight.fetch_sub(1, SeqCst);
            written
        })
    }

    fn user_data(
        &self,
        _: &str,
        secret: &SecretRef,
    ) -> BoxFuture<'static, Result<UserData, UserDataError>> {
        let data = self.0.api().secrets.get(&secret.name).cloned();
        let missing = format!("there is no Secret {:?}", secret.name);
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            data.map(UserData::from)
                .ok_or(UserDataError::Unavailable(missing))
        }
        .boxed()
    }
}

/// A backend whose instances run at once and go at once.
pub struct FakeProvider {
    /// By key: what each was built from.
    pub vms: Mutex<BTreeMap<String, String>>,
    /// Calls begun, in order.
    pub calls: Mutex<Vec<Operation>>,
    /// Calls that may end.
    pub gate: Semaphore,
    pub deadline: Duration,
}

impl Default for FakeProvider {
    fn default() -> Self {
        Self {
            vms: Mutex::default(),
            calls: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            deadline: 60 * SECOND,
        }
    }
}

impl FakeProvider {
    /// Calls hang from here on.
    pub fn hang(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
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
    fn check(&self) -> BoxFuture<'_, Vec<TargetCheck>> {
        Box::pin(async { vec![] })
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

/// The whole tree on these ports.
pub struct Tree {
    pub stage: Stage,
    pub store: Store,
    pub provider: Arc<FakeProvider>,
    pub probe: Arc<FakeProbe>,
    pub sink: Arc<FakeSink>,
    pub leases: Addr<crate::leases::LeasesMsg>,
}

impl Tree {
    pub async fn start() -> Self {
        let (store, provider) = (Store::default(), Arc::new(FakeProvider::default()));
        let (probe, sink) = (
            Arc::new(FakeProbe::default()),
            Arc::new(FakeSink::default()),
        );
        let (status, events, health) = (Addr::default(), Addr::default(), Addr::default());
        let (leases, fleet, providers) = (Addr::default(), Addr::default(), Addr::default());
        let metrics = metrics();
        let backend = Entry {
            provider: Arc::clone(&provider) as Arc<dyn Provider>,
            fingerprint: 1,
        };
        let set = watch::Sender::new(Arc::new(ProviderSet::from([("lab".into(), backend)])));
        let roster = Arc::new(watch::Sender::new(BTreeMap::new()));
        let port: Arc<dyn ProxyStore> = Arc::new(store.clone());
        let deps = Arc::new(Deps {
            store: Arc::clone(&port),
            status: status.clone(),
            events: events.clone(),
            health: health.clone(),
            leases: leases.clone(),
            roster: roster.subscribe(),
            metrics: metrics.clone(),
            installation: "i".into(),
        });
        let lease_deps = Arc::new(LeaseDeps {
            terms: TERMS,
            clock: Clock::start(),
            journal: Arc::new(MemoryJournal::default()),
            store: Arc::clone(&port),
            fleet: fleet.clone(),
            metrics: metrics.clone(),
        });
        let prospect = Arc::new(Prospect {
            probe: Arc::clone(&probe) as _,
            slots: Arc::new(Semaphore::new(256)),
            metrics: metrics.clone(),
        });
        let (recorder, keeper) = (Arc::clone(&sink), fleet.clone());
        let services = vec![
            ChildSpec::new("status", status, move || {
                StatusActor::new(Arc::clone(&port))
            }),
            ChildSpec::new("events", events, move || {
                EventsActor::new(recorder.clone() as _)
            }),
            ChildSpec::new("leases", leases.clone(), move || {
                LeasesActor::new(Arc::clone(&lease_deps))
            }),
            ChildSpec::new("providers", providers, move || {
                let (set, roster) = (set.subscribe(), Arc::clone(&roster));
                ProvidersActor::new(set, roster, keeper.clone(), metrics.clone())
            }),
            ChildSpec::new("health", health, {
                let fleet = fleet.clone();
                move || HealthActor::new(Arc::clone(&prospect), fleet.clone())
            }),
            ChildSpec::new("fleet", fleet, move || FleetActor::new(Arc::clone(&deps))),
        ];
        Self {
            stage: Stage::of(services).await,
            store,
            provider,
            probe,
            sink,
            leases,
        }
    }
}
