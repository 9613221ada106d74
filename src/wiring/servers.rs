//! The servers: the lease API, metrics, health, and the admin server.
//!
//! To add a server: its listener in [`Listeners`], a line in [`serve`].

use super::services::Addresses;
use crate::{
    cli::{
        options::{AdminOptions, RunOptions},
        token::TokenSource,
    },
    http::{
        self, Auth, BindAddress, Limits, admin::Admin, auth, forward::Forward,
        ledger_desk::LedgerDesk, listener::HttpServer, ops,
    },
    telemetry::gauges::Gauges,
};
use actors::{
    fleet::FleetMsg,
    leader::{
        LeaderMsg,
        standing::{Role, Standing},
    },
    monkey::MonkeyActor,
    server::{self, Serve, ServerActor},
    system::{Addr, ChildSpec, directory::Directory},
};
use anyhow::Context;
use prometheus::Registry;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpListener;

/// How long `/healthz` and `/readyz` wait for the fleet.
const CHECK: Duration = Duration::from_secs(2);

/// Where the servers listen. Bound before anything starts, so that an address in use is a set-up error.
pub(super) struct Listeners {
    api: TcpListener,
    metrics: TcpListener,
    health: TcpListener,
    admin: Option<TcpListener>,
}

impl Listeners {
    /// Where the lease API listens.
    pub(super) fn api(&self) -> io::Result<SocketAddr> {
        self.api.local_addr()
    }

    pub(super) async fn bind(options: &RunOptions) -> anyhow::Result<Self> {
        let probes = &options.health_probe_bind_address;
        let admin = match &options.admin {
            Some(admin) => Some(listen(&admin.addr, "--admin-addr").await?),
            None => None,
        };
        Ok(Self {
            api: listen(&options.discovery_addr, "--discovery-addr").await?,
            metrics: listen(&options.metrics_bind_address, "--metrics-bind-address").await?,
            health: listen(probes, "--health-probe-bind-address").await?,
            admin,
        })
    }
}

async fn listen(at: &BindAddress, flag: &'static str) -> anyhow::Result<TcpListener> {
    at.listen().await.context(flag)
}

/// What serves, in two parts: one is of use as long as anything runs, the other only if somebody leads.
pub(super) struct Servers {
    pub(super) operations: Vec<ChildSpec>,
    pub(super) api: ChildSpec,
}

pub(super) async fn serve(
    options: &RunOptions,
    listeners: Listeners,
    registry: &Registry,
    gauges: Gauges,
    at: &Addresses,
    standing: &Standing,
) -> anyhow::Result<Servers> {
    let (token, file) = TokenSource::value_or_file(options.discovery_token.clone());
    let auth = Auth::new(token, file, auth::REREAD).await?;
    let settings = http::Settings {
        max_ttl: options.terms.max_ttl,
        ..http::Settings::default()
    };
    let desk = LedgerDesk::new(at.leases.clone(), standing.clone());
    let api = http::Api::new(desk, auth, registry, settings)?;
    let api = api.forwarding(Forward::new(standing.clone())?);
    let directory = Arc::clone(&gauges.directory);
    let registry = registry.clone();
    let gather = move || {
        let mut families = registry.gather();
        families.extend(gauges.read().unwrap_or_default());
        families
    };
    let probes = ops::probes(alive(at), ready(at, standing));
    let mut operations = match (&options.admin, listeners.admin) {
        (Some(options), Some(listener)) => admin(options, listener, directory).await?,
        _ => Vec::new(),
    };
    operations.extend([
        server::<server::Ops, _>("ops/metrics", listeners.metrics, ops::metrics(gather))?,
        server::<server::Ops, _>("ops/health", listeners.health, probes)?,
    ]);
    Ok(Servers {
        operations,
        api: server::<server::Api, _>("api", listeners.api, api.service())?,
    })
}

/// The admin server, and the monkey where chaos is enabled. The monkey spares the server, by which a
/// run is ended.
async fn admin(
    options: &AdminOptions,
    listener: TcpListener,
    directory: Arc<Directory>,
) -> anyhow::Result<Vec<ChildSpec>> {
    const PATH: &str = "ops/admin";
    let (token, file) = TokenSource::value_or_file(options.token.clone());
    let auth = Auth::of(&auth::ADMIN, token, file, auth::REREAD).await?;
    let monkey = options.chaos.then(Addr::default);
    let admin = Admin::new(Arc::clone(&directory), auth, monkey.clone());
    let mut children = vec![server::<server::Ops, _>(PATH, listener, admin.service())?];
    children.extend(monkey.map(|monkey| {
        ChildSpec::new("ops/monkey", monkey, move || {
            MonkeyActor::new(Arc::clone(&directory), &[PATH.into()])
        })
    }));
    Ok(children)
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

/// The tree is alive when the leader answers, and, where it leads, the fleet, which most of it hangs on.
fn alive(at: &Addresses) -> ops::Check {
    let at = at.clone();
    Arc::new(move || {
        let at = at.clone();
        Box::pin(async move {
            if serves(&at).await? {
                listed(&at).await?;
            }
            Ok(())
        })
    })
}

/// A leader is ready when it has seen every Proxy, a follower when it has read who leads; no backend has a
/// say in it.
fn ready(at: &Addresses, standing: &Standing) -> ops::Check {
    let (at, standing) = (at.clone(), standing.clone());
    Arc::new(move || {
        let (at, standing) = (at.clone(), standing.clone());
        Box::pin(async move {
            if serves(&at).await? {
                let missing = || "the Proxies are not listed yet".to_owned();
                return listed(&at).await?.then_some(()).ok_or_else(missing);
            }
            if standing.role() == Role::Unknown {
                return Err("the record of the election is not read yet".to_owned());
            }
            Ok(())
        })
    })
}

async fn serves(at: &Addresses) -> Result<bool, String> {
    let serves = at.leader.ask(CHECK, LeaderMsg::Serves).await;
    serves.map_err(|error| format!("leader: {error}"))
}

async fn listed(at: &Addresses) -> Result<bool, String> {
    let listed = at.fleet.ask(CHECK, FleetMsg::IsListed).await;
    listed.map_err(|error| format!("fleet: {error}"))
}
