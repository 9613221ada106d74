//! Puts the actors and their ports together, and takes them apart again.
//!
//! Everything that can go wrong with the set-up goes wrong here, before anything is touched: the
//! providers file, the cluster, the addresses. After that only the actor tree decides.

use crate::{
    cli::{Exit, options::RunOptions},
    config::{self, ProvidersConfig, Settings},
    http::{self, Auth, Limits, ledger_desk::LedgerDesk, listener::HttpServer, ops},
    kube::{
        cluster::{self, Reached},
        events::KubeEvents,
        store::KubeStore,
    },
    probe::NetProbe,
    providers::kubernetes::{Cluster, KubernetesProvider},
    telemetry::{self, gauges::Gauges},
};
use actors::{
    config::ConfigActor,
    events::EventsActor,
    fleet::{FleetActor, FleetMsg},
    health::HealthActor,
    leases::{LeaseDeps, LeasesActor, journal::memory::MemoryJournal, now::Clock},
    metrics::Metrics,
    prober::Prospect,
    provider::contract::Provider,
    providers::{Entry, ProviderSet, ProvidersActor},
    proxy::Deps,
    root::RootActor,
    server::{self, Serve, ServerActor},
    status::StatusActor,
    store::ProxyStore,
    system::{Actor, Addr, ChildSpec, Running, System, meter::Meters},
};
use anyhow::Context;
use prometheus::Registry;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    runtime::Handle,
    signal::unix::{SignalKind, signal},
    sync::{Semaphore, watch},
};

/// How long `/healthz` and `/readyz` wait for the fleet.
const CHECK: Duration = Duration::from_secs(2);
/// How often a token file is looked at.
const REREAD: Duration = Duration::from_secs(1);

/// Runs the operator until it is told to stop, or cannot go on.
///
/// # Errors
/// What is wrong with the set-up, in words for the terminal.
pub async fn run(options: RunOptions) -> anyhow::Result<Exit> {
    let providers = config::load(&options.providers_config)?;
    let probe = NetProbe::new(options.probe_ca_file.as_deref())?;
    let listeners = Listeners::bind(&options).await?;
    let reached = cluster::reach(options.proxy_namespace.as_deref()).await?;
    let installation = match &options.installation_id {
        Some(id) => id.clone(),
        None => cluster::installation_id(&reached.client).await?,
    };
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;

    let providers = set_of(providers, &reached, &options, &installation);
    let mut running = start(options, listeners, reached, providers, probe, installation).await?;
    let ended = tokio::select! {
        ended = running.ended() => ended,
        _ = terminate.recv() => stop(&mut running, "SIGTERM").await,
        _ = interrupt.recv() => stop(&mut running, "SIGINT").await,
    };
    Ok(match ended {
        Ok(()) => {
            tracing::info!("stopped");
            Exit::Stopped
        }
        Err(why) => {
            tracing::error!(error = %why, "the operator cannot go on");
            Exit::Escalated
        }
    })
}

async fn stop(running: &mut Running, signal: &str) -> Result<(), actors::system::Broken> {
    tracing::info!(signal, "stopping");
    running.stop();
    running.ended().await
}

/// Constructs every provider of the file; none is dialled.
fn set_of(
    config: ProvidersConfig,
    reached: &Reached,
    options: &RunOptions,
    installation: &str,
) -> ProviderSet {
    let entry = |entry: config::ProviderEntry| {
        let fingerprint = entry.fingerprint();
        let name = entry.name.clone();
        let provider: Arc<dyn Provider> = match entry.settings {
            Settings::Kubernetes(settings) => {
                let cluster = Cluster {
                    client: reached.client.clone(),
                    url: reached.url.clone(),
                    installation: installation.to_owned(),
                    namespace: options.proxy_namespace.clone(),
                };
                Arc::new(KubernetesProvider::new(entry.name, settings, cluster))
            }
        };
        (
            name,
            Entry {
                provider,
                fingerprint,
            },
        )
    };
    config.entries.into_iter().map(entry).collect()
}

/// Binds the addresses and starts the tree.
async fn start(
    options: RunOptions,
    listeners: Listeners,
    reached: Reached,
    providers: ProviderSet,
    probe: NetProbe,
    installation: String,
) -> anyhow::Result<Running> {
    let registry = Registry::new();
    telemetry::metrics::register_build_info(&registry)?;
    let metrics = Metrics::new(&registry)?;
    let system = System::new(Meters::new(&registry)?);
    let store: Arc<dyn ProxyStore> = Arc::new(KubeStore::new(
        reached.client.clone(),
        options.proxy_namespace.clone(),
        &registry,
    )?);

    let (providers_addr, leases, health, fleet) = (
        Addr::default(),
        Addr::default(),
        Addr::default(),
        Addr::default(),
    );
    let (status, events) = (Addr::default(), Addr::default());
    let set = Arc::new(watch::Sender::new(Arc::new(providers)));
    let roster = Arc::new(watch::Sender::new(BTreeMap::new()));
    let deps = Arc::new(Deps {
        store: Arc::clone(&store),
        status: status.clone(),
        events: events.clone(),
        health: health.clone(),
        leases: leases.clone(),
        roster: roster.subscribe(),
        metrics: metrics.clone(),
        installation: installation.clone(),
    });
    let lease_deps = Arc::new(LeaseDeps {
        terms: options.terms,
        clock: Clock::start(),
        journal: Arc::new(MemoryJournal::default()),
        store: Arc::clone(&store),
        fleet: fleet.clone(),
        metrics: metrics.clone(),
    });
    let prospect = Arc::new(Prospect {
        probe: Arc::new(probe),
        slots: Arc::new(Semaphore::new(options.health_workers)),
        metrics: metrics.clone(),
    });
    let sink = Arc::new(KubeEvents::new(reached.client));
    let gauges = Gauges {
        store: Arc::clone(&store),
        leases: leases.clone(),
        directory: system.directory(),
        runtime: Handle::current(),
    };
    let servers = serve(&options, listeners, &registry, gauges, &leases, &fleet).await?;
    tracing::info!(
        version = telemetry::VERSION,
        commit = telemetry::COMMIT,
        cluster = reached.url,
        installation,
        providers = ?set.borrow().keys().collect::<Vec<_>>(),
        "starting; leases are kept in memory and are forgotten when the process ends"
    );

    let services = vec![
        child(Addr::default(), {
            let (set, providers) = (Arc::clone(&set), providers_addr.clone());
            move || ConfigActor::new(Arc::clone(&set), providers.clone())
        }),
        child(status, {
            let store = Arc::clone(&store);
            move || StatusActor::new(Arc::clone(&store))
        }),
        child(events, move || EventsActor::new(sink.clone())),
        child(leases, move || LeasesActor::new(Arc::clone(&lease_deps))),
        child(providers_addr, {
            let (fleet, set) = (fleet.clone(), set.subscribe());
            move || {
                ProvidersActor::new(
                    set.clone(),
                    Arc::clone(&roster),
                    fleet.clone(),
                    metrics.clone(),
                )
            }
        }),
        child(health, {
            let fleet = fleet.clone();
            move || HealthActor::new(Arc::clone(&prospect), fleet.clone())
        }),
        child(fleet, move || FleetActor::new(Arc::clone(&deps))),
    ];
    let root = RootActor::new(services.into_iter().chain(servers).collect());
    Ok(system.run(&Addr::default(), root).await?)
}

/// Where the servers listen.
struct Listeners {
    api: TcpListener,
    metrics: TcpListener,
    health: TcpListener,
}

impl Listeners {
    async fn bind(options: &RunOptions) -> anyhow::Result<Self> {
        Ok(Self {
            api: options
                .discovery_addr
                .listen()
                .await
                .context("--discovery-addr")?,
            metrics: options
                .metrics_bind_address
                .listen()
                .await
                .context("--metrics-bind-address")?,
            health: options
                .health_probe_bind_address
                .listen()
                .await
                .context("--health-probe-bind-address")?,
        })
    }
}

/// The servers: the lease API, metrics and health.
async fn serve(
    options: &RunOptions,
    listeners: Listeners,
    registry: &Registry,
    gauges: Gauges,
    leases: &Addr<actors::leases::LeasesMsg>,
    fleet: &Addr<FleetMsg>,
) -> anyhow::Result<Vec<ChildSpec>> {
    let (token, file) = options.token_or_file();
    let auth = Auth::new(token, file, REREAD).await?;
    let settings = http::Settings {
        max_ttl: options.terms.max_ttl,
        ..http::Settings::default()
    };
    let api = http::Api::new(LedgerDesk(leases.clone()), auth, registry, settings)?;
    let registry = registry.clone();
    let gather = move || {
        let mut families = registry.gather();
        families.extend(gauges.read().unwrap_or_default());
        families
    };
    let probes = ops::probes(alive(fleet.clone()), ready(fleet.clone()));
    Ok(vec![
        server::<server::Ops, _>("ops/metrics", listeners.metrics, ops::metrics(gather))?,
        server::<server::Ops, _>("ops/health", listeners.health, probes)?,
        server::<server::Api, _>("api", listeners.api, api.service())?,
    ])
}

fn server<P: server::Purpose, S>(
    path: &str,
    listener: TcpListener,
    service: S,
) -> anyhow::Result<ChildSpec>
where
    HttpServer<S>: Serve,
{
    tracing::info!(server = path, address = %listener.local_addr()?, "listening");
    let server = Arc::new(HttpServer::new(listener, service, Limits::default())?);
    Ok(ChildSpec::new(path, Addr::default(), move || {
        ServerActor::<P>::new(Arc::clone(&server) as Arc<dyn Serve>)
    }))
}

/// The tree is alive when the fleet, which most of it hangs on, answers at all.
fn alive(fleet: Addr<FleetMsg>) -> ops::Check {
    Arc::new(move || {
        let fleet = fleet.clone();
        Box::pin(async move {
            let answered = fleet.ask(CHECK, FleetMsg::IsListed).await;
            answered
                .map(drop)
                .map_err(|error| format!("fleet: {error}"))
        })
    })
}

/// The operator is ready when it has seen every Proxy; no backend has a say in it.
fn ready(fleet: Addr<FleetMsg>) -> ops::Check {
    Arc::new(move || {
        let fleet = fleet.clone();
        Box::pin(async move {
            match fleet.ask(CHECK, FleetMsg::IsListed).await {
                Ok(true) => Ok(()),
                Ok(false) => Err("the Proxies are not listed yet".to_owned()),
                Err(error) => Err(format!("fleet: {error}")),
            }
        })
    })
}

fn child<A: Actor>(addr: Addr<A::Msg>, make: impl Fn() -> A + Send + 'static) -> ChildSpec {
    ChildSpec::new(A::KIND, addr, make)
}
