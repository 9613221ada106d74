//! Parts of the program without a cluster behind them: proxies, and a store that keeps them in memory.

use actors::{
    events::{EventSink, EventsActor, Regarding},
    fleet::{FleetActor, FleetMsg},
    health::HealthActor,
    key::ProxyKey,
    leases::{
        LeaseDeps, LeasesActor, LeasesMsg,
        journal::memory::MemoryJournal,
        now::Clock,
        terms::{Candidate, Terms},
    },
    metrics::Metrics,
    prober::{
        Prospect,
        probe::{Fetch, Outcome, Probe},
    },
    provider::contract::UserData,
    proxy::{Deps, memory::Note},
    root::RootActor,
    status::StatusActor,
    store::{MetadataChange, ProxyStore, UserDataError, Write, WriteError},
    system::{Actor, Addr, ChildSpec, Running, System, directory::Directory, meter::Meters},
};
use crds::{Endpoint, HealthCheck, Mode, Phase, Proxy, ProxySpec, SecretRef};
use dashmap::DashMap;
use futures::future::{self, BoxFuture};
use prometheus::Registry;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::{Semaphore, watch};

/// The program's defaults.
pub const TERMS: Terms = Terms {
    max_ttl: Duration::from_hours(1),
    lease_cooldown: Duration::from_mins(15),
    ban_cooldown: Duration::from_mins(15),
};

const NAMESPACE: &str = "crawlers";

fn attributes(number: usize) -> BTreeMap<String, String> {
    [
        ("shard", format!("s{}", number % 10)),
        ("geo", format!("g{}", number % 7)),
        ("kind", "residential".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// A healthy proxy; a tenth of them has `shard=s3`, and latencies differ.
pub fn candidate(number: usize) -> Candidate {
    let spread = u32::try_from(number % 1_000_000)
        .unwrap_or(0)
        .wrapping_mul(2_654_435_761);
    Candidate {
        key: ProxyKey::new(NAMESPACE, &name(number)),
        uid: format!("uid-{number}").into(),
        ip: "192.0.2.1".to_owned(),
        port: 3128,
        attributes: attributes(number),
        phase: Phase::Ready,
        healthy: true,
        latency_millis: Some(spread % 997),
        max_leases: 100,
    }
}

pub fn name(number: usize) -> String {
    format!("proxy-{number:07}")
}

/// An External proxy with an address of its own on loopback.
pub fn external(number: usize, port: u16, health_check: HealthCheck) -> Proxy {
    let bytes = u32::try_from(number).unwrap_or(0).to_be_bytes();
    let spec = ProxySpec {
        mode: Mode::External,
        endpoint: Some(Endpoint {
            host: format!("127.{}.{}.{}", 1 + bytes[1], bytes[2], bytes[3]),
            port: Some(port),
        }),
        attributes: attributes(number),
        health_check,
        ..ProxySpec::default()
    };
    let mut proxy = Proxy::new(&name(number), spec);
    proxy.metadata.namespace = Some(NAMESPACE.to_owned());
    proxy
}

/// Objects in memory, with the API server's manners as far as External proxies see them: each write
/// makes a version, and the fleet is told of it.
#[derive(Default)]
pub struct MemoryStore {
    objects: DashMap<ProxyKey, Arc<Proxy>>,
    version: AtomicU64,
    fleet: Arc<OnceLock<Addr<FleetMsg>>>,
}

impl MemoryStore {
    pub fn put(&self, mut object: Proxy) -> Arc<Proxy> {
        let metadata = &mut object.metadata;
        let version = self.version.fetch_add(1, Relaxed) + 1;
        metadata.resource_version = Some(version.to_string());
        metadata
            .uid
            .get_or_insert_with(|| format!("00000000-0000-4000-8000-{version:012}"));
        metadata.generation = Some(1);
        let key = key_of(&object);
        let object = Arc::new(object);
        self.objects.insert(key.clone(), Arc::clone(&object));
        if let Some(fleet) = self.fleet.get() {
            fleet.hint(FleetMsg::Changed(key));
        }
        object
    }
}

pub fn key_of(object: &Proxy) -> ProxyKey {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    ProxyKey::new(
        &part(&object.metadata.namespace),
        &part(&object.metadata.name),
    )
}

impl ProxyStore for MemoryStore {
    fn watch(&self, fleet: Addr<FleetMsg>) -> BoxFuture<'static, ()> {
        for object in &self.objects {
            fleet.hint(FleetMsg::Changed(object.key().clone()));
        }
        fleet.hint(FleetMsg::Listed);
        self.fleet.set(fleet).ok();
        Box::pin(future::pending())
    }

    fn noticed(&self, _: &ProxyKey) {}

    fn get(&self, key: &ProxyKey) -> Option<Arc<Proxy>> {
        self.objects.get(key).map(|object| Arc::clone(&object))
    }

    fn list(&self) -> Vec<Arc<Proxy>> {
        self.objects
            .iter()
            .map(|object| Arc::clone(&object))
            .collect()
    }

    fn write(
        &self,
        key: &ProxyKey,
        write: Write,
    ) -> BoxFuture<'static, Result<Arc<Proxy>, WriteError>> {
        let Some(object) = self.get(key) else {
            return Box::pin(future::ready(Err(WriteError::Gone)));
        };
        let mut object = (*object).clone();
        match write {
            Write::Status { status, .. } => object.status = Some(*status),
            Write::Metadata {
                change: MetadataChange::Finalizers(all),
                ..
            } => object.metadata.finalizers = Some(all),
            Write::Metadata { .. } => {}
        }
        Box::pin(future::ready(Ok(self.put(object))))
    }

    fn user_data(
        &self,
        _: &str,
        secret: &SecretRef,
    ) -> BoxFuture<'static, Result<UserData, UserDataError>> {
        let why = format!("there is no Secret {:?} here", secret.name);
        Box::pin(future::ready(Err(UserDataError::Unavailable(why))))
    }
}

/// Answers at once, for which nothing has to be kept.
pub struct AtOnce;

impl Probe for AtOnce {
    fn probe<'a>(&'a self, _: &'a Fetch) -> BoxFuture<'a, Outcome> {
        Box::pin(async { Ok(Duration::from_millis(5)) })
    }
}

/// Takes no note of anything.
struct NoEvents;

impl EventSink for NoEvents {
    fn record(&self, _: Regarding, _: Note) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

fn child<A: Actor>(addr: Addr<A::Msg>, make: impl Fn() -> A + Send + 'static) -> ChildSpec {
    ChildSpec::new(A::KIND, addr, make)
}

/// The tree of the program, without what serves and without providers.
pub struct Tree {
    pub directory: Arc<Directory>,
    pub fleet: Addr<FleetMsg>,
    pub leases: Addr<LeasesMsg>,
    pub registry: Registry,
    _running: Running,
}

impl Tree {
    pub async fn start(store: Arc<MemoryStore>, probe: Arc<dyn Probe>) -> anyhow::Result<Self> {
        let registry = Registry::new();
        let metrics = Metrics::new(&registry)?;
        let system = System::new(Meters::new(&registry)?);
        let store: Arc<dyn ProxyStore> = store;
        let (fleet, health, leases) = (Addr::default(), Addr::default(), Addr::default());
        let (status, events) = (Addr::default(), Addr::default());
        let (_, roster) = watch::channel(BTreeMap::new());
        let deps = Arc::new(Deps {
            store: Arc::clone(&store),
            status: status.clone(),
            events: events.clone(),
            health: health.clone(),
            leases: leases.clone(),
            roster,
            metrics: metrics.clone(),
            installation: "bench".to_owned(),
        });
        let lease_deps = Arc::new(LeaseDeps {
            terms: TERMS,
            clock: Clock::start(),
            journal: Arc::new(MemoryJournal::default()),
            store: Arc::clone(&store),
            pool: watch::Sender::default(),
            fleet: fleet.clone(),
            metrics: metrics.clone(),
        });
        let prospect = Arc::new(Prospect {
            probe,
            slots: Arc::new(Semaphore::new(256)),
            metrics,
            traced: false,
        });
        let to_fleet = fleet.clone();
        let services = vec![
            child(status, move || StatusActor::new(Arc::clone(&store))),
            child(events, move || EventsActor::new(Arc::new(NoEvents))),
            child(leases.clone(), move || {
                LeasesActor::new(Arc::clone(&lease_deps))
            }),
            child(health, move || {
                HealthActor::new(Arc::clone(&prospect), to_fleet.clone())
            }),
            child(fleet.clone(), move || FleetActor::new(Arc::clone(&deps))),
        ];
        let running = system
            .run(&Addr::default(), RootActor::new(services))
            .await?;
        Ok(Self {
            directory: system.directory(),
            fleet,
            leases,
            registry,
            _running: running,
        })
    }

    /// Waits until every one of so many probers has had a result.
    pub async fn all_are_probed(&self, count: usize) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let list = self.directory.list();
            let probers = list
                .iter()
                .filter(|seen| seen.kind == "prober" && seen.handled > 0);
            if probers.count() == count {
                return Ok(());
            }
            let soon = begun.elapsed() < Duration::from_mins(1);
            anyhow::ensure!(soon, "not all are probed");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
