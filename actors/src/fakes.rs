//! The outside world for tests: every port, in memory, with switches for what goes wrong; and the
//! whole tree on them.

mod ports;
mod store;

pub use ports::{FakeProbe, FakeProvider, FakeSink};
pub use store::Store;

use crate::{
    events::EventsActor,
    fleet::FleetActor,
    health::HealthActor,
    key::ProxyKey,
    leader::{LeaderActor, LeaderDeps, Services, standing::Office},
    leases::{LeaseDeps, LeasesActor, journal::memory::MemoryJournal, now::Clock, terms::Terms},
    metrics::Metrics,
    prober::Prospect,
    provider::contract::Provider,
    providers::{Entry, ProviderSet, ProvidersActor},
    proxy::Deps,
    root::RootActor,
    status::StatusActor,
    store::ProxyStore,
    system::{
        Actor, Addr, ChildSpec, Running, System,
        directory::{Directory, End},
        meter::Meters,
    },
};
use crds::Proxy;
use prometheus::Registry;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, watch},
    time::Instant,
};

pub const SECOND: Duration = Duration::from_secs(1);

pub fn key() -> ProxyKey {
    ProxyKey::new("ns", "px")
}

pub fn key_of(object: &Proxy) -> ProxyKey {
    ProxyKey::of(object).expect("has a name")
}

pub fn metrics() -> Metrics {
    Metrics::new(&Registry::new()).expect("a new registry")
}

pub const TERMS: Terms = Terms {
    max_ttl: Duration::from_hours(1),
    lease_cooldown: Duration::from_mins(15),
    ban_cooldown: Duration::from_mins(15),
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

/// The whole tree on these ports.
pub struct Tree {
    pub stage: Stage,
    pub store: Store,
    pub provider: Arc<FakeProvider>,
    pub probe: Arc<FakeProbe>,
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
            pool: watch::Sender::default(),
            fleet: fleet.clone(),
            metrics: metrics.clone(),
        });
        let prospect = Arc::new(Prospect {
            probe: Arc::clone(&probe) as _,
            slots: Arc::new(Semaphore::new(256)),
            metrics: metrics.clone(),
            traced: false,
        });
        let (keeper, ledger) = (fleet.clone(), leases.clone());
        let services: Services = Arc::new(move |_| {
            let (port, sink, roster) = (Arc::clone(&port), Arc::clone(&sink), Arc::clone(&roster));
            let (lease_deps, prospect) = (Arc::clone(&lease_deps), Arc::clone(&prospect));
            let (set, metrics, deps) = (set.subscribe(), metrics.clone(), Arc::clone(&deps));
            let (keeper, chief) = (keeper.clone(), keeper.clone());
            vec![
                ChildSpec::new("status", status.clone(), move || {
                    StatusActor::new(Arc::clone(&port))
                }),
                ChildSpec::new("events", events.clone(), move || {
                    EventsActor::new(sink.clone() as _)
                }),
                ChildSpec::new("leases", leases.clone(), move || {
                    LeasesActor::new(Arc::clone(&lease_deps))
                }),
                ChildSpec::new("providers", providers.clone(), move || {
                    let (set, roster) = (set.clone(), Arc::clone(&roster));
                    ProvidersActor::new(set, roster, keeper.clone(), metrics.clone())
                }),
                ChildSpec::new("health", health.clone(), move || {
                    HealthActor::new(Arc::clone(&prospect), chief.clone())
                }),
                ChildSpec::new("fleet", fleet.clone(), move || {
                    FleetActor::new(Arc::clone(&deps))
                }),
            ]
        });
        let deps = Arc::new(LeaderDeps {
            office: Office::default(),
            services,
            candidacy: None,
        });
        let leader = ChildSpec::new("leader", Addr::default(), move || {
            LeaderActor::new(Arc::clone(&deps))
        });
        Self {
            stage: Stage::of(vec![leader]).await,
            store,
            provider,
            probe,
            leases: ledger,
        }
    }
}
