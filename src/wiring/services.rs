//! What only a leader runs, and what it is made of.
//!
//! To add a service: its address in [`Addresses`], what it needs in [`Services`], a line in
//! [`Services::plan`].

use crate::{
    kube::{events::KubeEvents, live::KubeProxies, provider_health::KubeHealth, store::KubeStore},
    probe::NetProbe,
};
use actors::{
    collector::{self, CollectorActor, CollectorDeps},
    events::{EventsActor, EventsMsg},
    fleet::{FleetActor, FleetMsg},
    health::{HealthActor, HealthMsg},
    leader::{LeaderMsg, standing::Past},
    leases::{
        LeaseDeps, LeasesActor, LeasesMsg, journal::memory::MemoryJournal, now::Clock, terms::Terms,
    },
    metrics::Metrics,
    monitor::{self, Board, MonitorActor, MonitorDeps},
    prober::Prospect,
    providers::{ProviderSet, ProvidersActor, ProvidersMsg, Roster},
    proxy::Deps,
    status::{StatusActor, StatusMsg},
    store::ProxyStore,
    system::{Actor, Addr, ChildSpec},
    wall,
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::{Semaphore, watch};

/// Where the leader and its services are reached, whether or not they run.
#[derive(Clone, Default)]
pub(super) struct Addresses {
    pub(super) leader: Addr<LeaderMsg>,
    pub(super) status: Addr<StatusMsg>,
    pub(super) events: Addr<EventsMsg>,
    pub(super) leases: Addr<LeasesMsg>,
    pub(super) providers: Addr<ProvidersMsg>,
    pub(super) health: Addr<HealthMsg>,
    pub(super) fleet: Addr<FleetMsg>,
}

/// What the services are made of, at every start.
pub(super) struct Services {
    at: Addresses,
    store: Arc<KubeStore>,
    journal: Arc<MemoryJournal>,
    sink: Arc<KubeEvents>,
    ledger: Arc<LeaseDeps>,
    set: watch::Receiver<Arc<ProviderSet>>,
    roster: Roster,
    prospect: Arc<Prospect>,
    fleet: Arc<Deps>,
    /// None if nothing is ever collected.
    collector: Option<Arc<CollectorDeps>>,
    monitor: Arc<MonitorDeps>,
    metrics: Metrics,
}

/// What the services get from outside.
pub(super) struct Outside {
    pub(super) store: Arc<KubeStore>,
    pub(super) sink: KubeEvents,
    pub(super) set: watch::Receiver<Arc<ProviderSet>>,
    pub(super) live: KubeProxies,
    pub(super) health_objects: KubeHealth,
    pub(super) board: Arc<watch::Sender<Board>>,
    pub(super) collection: Option<collector::Pace>,
    pub(super) checks: Option<monitor::Pace>,
    pub(super) probe: NetProbe,
    pub(super) health_workers: usize,
    pub(super) trace_health_probes: bool,
    pub(super) terms: Terms,
    pub(super) installation: String,
    pub(super) metrics: Metrics,
}

impl Services {
    pub(super) fn new(at: &Addresses, outside: Outside) -> Self {
        let Outside { store, metrics, .. } = outside;
        let roster: Roster = Arc::new(watch::Sender::new(BTreeMap::new()));
        let journal = Arc::new(MemoryJournal::default());
        let port: Arc<dyn ProxyStore> = store.clone();
        let fleet = Arc::new(Deps {
            store: Arc::clone(&port),
            status: at.status.clone(),
            events: at.events.clone(),
            health: at.health.clone(),
            leases: at.leases.clone(),
            roster: roster.subscribe(),
            metrics: metrics.clone(),
            installation: outside.installation.clone(),
        });
        let collector = outside.collection.map(|pace| CollectorDeps {
            roster: roster.subscribe(),
            live: Arc::new(outside.live),
            installation: outside.installation,
            pace,
            wall: wall::system(),
            metrics: metrics.clone(),
        });
        let monitor = Arc::new(MonitorDeps {
            set: outside.set.clone(),
            roster: roster.subscribe(),
            objects: Arc::new(outside.health_objects),
            events: at.events.clone(),
            board: outside.board,
            pace: outside.checks,
            wall: wall::system(),
        });
        let ledger = Arc::new(LeaseDeps {
            terms: outside.terms,
            clock: Clock::start(),
            journal: journal.clone(),
            store: port,
            pool: watch::Sender::default(),
            fleet: at.fleet.clone(),
            metrics: metrics.clone(),
        });
        let prospect = Arc::new(Prospect {
            probe: Arc::new(outside.probe),
            slots: Arc::new(Semaphore::new(outside.health_workers)),
            metrics: metrics.clone(),
            traced: outside.trace_health_probes,
        });
        Self {
            at: at.clone(),
            store,
            journal,
            sink: Arc::new(outside.sink),
            ledger,
            set: outside.set,
            roster,
            prospect,
            fleet,
            collector: collector.map(Arc::new),
            monitor,
            metrics,
        }
    }

    /// The services in the order in which they start; they stop in the reverse.
    pub(super) fn plan(self: &Arc<Self>, past: Past) -> Vec<ChildSpec> {
        if past != Past::Unbroken {
            self.store.forget();
            self.ledger.pool.send_replace(Vec::new());
        }
        if past == Past::Over {
            self.journal.clear();
        }
        let at = &self.at;
        let mut services = vec![
            self.one(&at.status, |with| StatusActor::new(with.store.clone())),
            self.one(&at.events, |with| EventsActor::new(with.sink.clone())),
            self.one(&at.leases, |with| LeasesActor::new(with.ledger.clone())),
            self.one(&at.providers, Self::providers),
            self.one(&at.health, |with| {
                HealthActor::new(with.prospect.clone(), with.at.fleet.clone())
            }),
            self.one(&at.fleet, |with| FleetActor::new(with.fleet.clone())),
            self.one(&Addr::default(), |with| {
                MonitorActor::new(with.monitor.clone())
            }),
        ];
        if let Some(deps) = self.collector.clone() {
            services.push(ChildSpec::new(
                CollectorActor::KIND,
                Addr::default(),
                move || CollectorActor::new(deps.clone()),
            ));
        }
        services
    }

    fn providers(&self) -> ProvidersActor {
        ProvidersActor::new(
            self.set.clone(),
            self.roster.clone(),
            self.at.fleet.clone(),
            self.metrics.clone(),
        )
    }

    /// A service that stands at its kind's name.
    fn one<A: Actor>(self: &Arc<Self>, at: &Addr<A::Msg>, make: fn(&Self) -> A) -> ChildSpec {
        let with = Arc::clone(self);
        ChildSpec::new(A::KIND, at.clone(), move || make(&with))
    }
}
