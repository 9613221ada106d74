//! Puts the actors and their ports together, and takes them apart again.
//!
//! Everything that can go wrong with the set-up goes wrong here, before anything is touched: the
//! providers file, the cluster, the addresses. After that only the actor tree decides.
//!
//! | file | is |
//! |---|---|
//! | here | the process: its set-up, the root's children, its end |
//! | [`services`] | what only a leader runs |
//! | [`servers`] | what listens |
//! | [`signals`] | what ends it |
//! | [`backends`] | the providers of the config file |
//! | [`election`] | its part in the election |

mod backends;
mod election;
mod servers;
mod services;
mod signals;

use crate::{
    cli::{Exit, options::RunOptions},
    config::{self, source::ProvidersFile},
    kube::{
        client::Gateway, cluster, events::KubeEvents, live::KubeProxies,
        provider_health::KubeHealth, store::KubeStore,
    },
    probe::NetProbe,
    providers::{
        gcp::{
            self,
            credentials::{Adc, Source},
            wire::Wire,
        },
        kvm::{Pace, Surroundings},
    },
    telemetry::{self, gauges::Gauges},
};
use actors::{
    config::{ConfigActor, ConfigDeps},
    leader::{Candidacy, LeaderActor, LeaderDeps, standing::Office},
    metrics::Metrics,
    providers::ProviderSet,
    root::RootActor,
    system::{Actor, Addr, ChildSpec, Running, System, meter::Meters},
};
use backends::{Backends, Reached};
use prometheus::Registry;
use servers::{Listeners, serve};
use services::{Addresses, Outside, Services};
use signals::Signals;
use std::sync::Arc;
use tokio::{runtime::Handle, sync::watch};

/// Runs the operator until it is told to stop, or cannot go on.
///
/// # Errors
/// What is wrong with the set-up, in words for the terminal.
pub async fn run(options: RunOptions) -> anyhow::Result<Exit> {
    let file = config::load(&options.providers_config)?;
    let probe = NetProbe::new(options.probe_ca_file.as_deref())?;
    let listeners = Listeners::bind(&options).await?;
    let identity = election::identity();
    let api = listeners.api()?;
    let terms = options.leader_election.as_ref();
    let terms = terms.map(|told| election::Terms::of(told, &identity, api));
    let terms = terms.transpose()?;
    let agent = format!("proxy-operator/{} ({identity})", env!("CARGO_PKG_VERSION"));
    let gateway = Gateway::infer(&agent).await?;
    let (open, url) = (gateway.open()?, gateway.url());
    cluster::answers(&open, &url, options.proxy_namespace.as_deref()).await?;
    let installation = match &options.installation_id {
        Some(id) => id.clone(),
        None => cluster::installation_id(&open).await?,
    };
    tracing::info!(
        identity,
        leaseNamespace = terms.as_ref().map(|terms| &*terms.namespace),
        advertised = terms.as_ref().map(election::Terms::address),
        "this process"
    );
    let candidacy = terms.map(|terms| terms.candidacy(open));
    let office = Office::default();
    let reached = Reached {
        client: gateway.gated(office.standing())?,
        url,
        standing: office.standing(),
    };
    let mut signals = Signals::listen()?;

    let registry = Registry::new();
    let google = gcp::Surroundings {
        installation: installation.clone(),
        credentials: Adc::new(Source::from_env()),
        wire: Wire {
            full: options.gcp_wire_log_full_payloads,
        },
    };
    let around = Surroundings {
        installation,
        downloaded: telemetry::metrics::image_downloads(&registry)?,
        tidy: Pace::DEFAULT,
        standing: office.standing(),
    };
    let backends = Backends {
        reached,
        namespace: options.proxy_namespace.clone(),
        around,
        google,
    };
    let providers = backends.of(file, &ProviderSet::new());
    let started = start(
        options,
        listeners,
        (office, candidacy),
        backends,
        providers,
        probe,
        registry,
    );
    let mut running = started.await?;
    let ended = tokio::select! {
        ended = running.ended() => ended,
        signal = signals.next() => {
            tracing::info!(signal, "stopping");
            signals.exit_at_next();
            running.stop();
            running.ended().await
        }
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

/// Starts the tree.
async fn start(
    options: RunOptions,
    listeners: Listeners,
    (office, candidacy): (Office, Option<Candidacy>),
    backends: Backends,
    providers: ProviderSet,
    probe: NetProbe,
    registry: Registry,
) -> anyhow::Result<Running> {
    telemetry::metrics::register_build_info(&registry)?;
    let metrics = Metrics::new(&registry)?;
    let system = System::new(Meters::new(&registry)?);
    let backends = Arc::new(backends);
    let (client, installation) = (&backends.reached.client, &backends.around.installation);
    let namespace = options.proxy_namespace.clone();
    let store = Arc::new(KubeStore::new(
        client.clone(),
        namespace.clone(),
        telemetry::metrics::undecodable_objects(&registry)?,
    ));
    let set = Arc::new(watch::Sender::new(Arc::new(providers)));

    let at = Addresses::default();
    let board = Arc::new(watch::Sender::default());
    let owner = namespace.clone().unwrap_or_else(|| installation.clone());
    let outside = Outside {
        store: Arc::clone(&store),
        sink: KubeEvents::new(client.clone()),
        live: KubeProxies::new(client.clone(), namespace),
        health_objects: KubeHealth::new(client.clone(), owner),
        set: set.subscribe(),
        board: Arc::clone(&board),
        collection: options.collection,
        checks: options.checks,
        probe,
        health_workers: options.health_workers,
        trace_health_probes: options.trace_health_probes,
        terms: options.terms,
        installation: installation.clone(),
        metrics: metrics.clone(),
    };
    let services = Arc::new(Services::new(&at, outside));
    let gauges = Gauges {
        standing: office.standing(),
        store,
        leases: at.leases.clone(),
        checks: board.subscribe(),
        directory: system.directory(),
        runtime: Handle::current(),
    };
    let standing = office.standing();
    let servers = serve(&options, listeners, &registry, gauges, &at, &standing).await?;
    tracing::info!(
        version = telemetry::VERSION,
        commit = telemetry::COMMIT,
        cluster = backends.reached.url,
        installation,
        providers = ?set.borrow().keys().collect::<Vec<_>>(),
        "starting; leases are kept in memory and are forgotten when the process ends"
    );

    let leader = Arc::new(LeaderDeps {
        office,
        services: Arc::new(move |past| services.plan(past)),
        candidacy,
    });
    let construct = Arc::clone(&backends);
    let config = Arc::new(ConfigDeps {
        source: Arc::new(ProvidersFile {
            path: options.providers_config,
            construct: Arc::new(move |config, running| construct.of(config, running)),
        }),
        set,
        providers: at.providers.clone(),
        events: at.events.clone(),
        metrics,
    });

    // They start in this order and stop in the reverse: first no more requests, then no more deeds.
    let mut children = vec![child(Addr::default(), move || {
        ConfigActor::new(Arc::clone(&config))
    })];
    children.extend(servers.operations);
    children.push(child(at.leader, move || {
        LeaderActor::new(Arc::clone(&leader))
    }));
    children.push(servers.api);
    Ok(system
        .run(&Addr::default(), RootActor::new(children))
        .await?)
}

/// A child of the root at its kind's name.
fn child<A: Actor>(at: Addr<A::Msg>, make: impl Fn() -> A + Send + 'static) -> ChildSpec {
    ChildSpec::new(A::KIND, at, make)
}
