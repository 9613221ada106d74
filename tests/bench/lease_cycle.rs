//! `lease-cycle`: acquire and release over HTTP, against the least that warp can do with such requests.
//!
//! Measured: the server as the program wires it, over the leases actor with its journal in memory and
//! 10 000 healthy proxies, of which the selector matches a tenth. Baseline: a `warp::serve` of a route
//! that parses the same JSON and echoes it, and of one that answers the release with 204. Clients,
//! connections and requests are the same, and all of it shares this process's threads.

use crate::{
    process,
    report::{Bar, Row, median, number, rate},
    tree::{self, MemoryStore},
    wire::Wire,
};
use actors::{
    leader::standing::Standing,
    leases::{LeaseDeps, LeasesActor, LeasesMsg, journal::memory::MemoryJournal, now::Clock},
    metrics::Metrics,
    root::RootActor,
    server::{self, Serve, ServerActor},
    system::{Addr, ChildSpec, Running, System, meter::Meters},
};
use anyhow::{Context as _, ensure};
use prometheus::Registry;
use proxy_operator::http::{self, Auth, Limits, ledger_desk::LedgerDesk, listener::HttpServer};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, task::JoinSet};
use warp::Filter as _;

const PROXIES: usize = 10_000;
const CONNECTIONS: usize = 64;
const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_secs(1);
/// What is released where the answer to an acquire names no lease.
const NO_LEASE: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAA";

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let registry = Registry::new();
    let (api, _running) = api(&registry, true).await?;
    let echo = echo().await?;
    // The first rounds find cold caches and unbuilt queues.
    for server in [api, echo] {
        round(server, ROUND / 2).await?;
    }
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(round(api, ROUND).await?);
        bare.push(round(echo, ROUND).await?);
    }
    let of = |number: fn(&Round) -> f64| {
        let ratios = ours.iter().zip(&bare).map(|(a, b)| number(a) / number(b));
        let middle = |all: &[Round]| median(all.iter().map(number));
        (middle(&ours), middle(&bare), median(ratios))
    };
    let (speed, cpu) = (of(Round::per_second), of(Round::cpu_micros));
    Ok(vec![
        Row::of_ratio(
            "lease-cycle",
            "requests/s",
            speed.0,
            speed.1,
            speed.2,
            Bar::AtLeast(0.7),
        ),
        Row::of_ratio(
            "lease-cpu",
            "us of CPU a request",
            cpu.0,
            cpu.1,
            cpu.2,
            Bar::None,
        ),
    ])
}

/// What all connections together did.
pub struct Round {
    pub requests: u64,
    took: Duration,
    cpu: Duration,
}

impl Round {
    pub fn per_second(&self) -> f64 {
        rate(self.requests, self.took)
    }

    /// Of server and client, which are one process.
    fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / number(self.requests)
    }
}

/// Loads `server` for so long.
pub async fn round(server: SocketAddr, lasts: Duration) -> anyhow::Result<Round> {
    let cpu = process::cpu(std::process::id())?;
    let begun = Instant::now();
    let until = begun + lasts;
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        clients.spawn(client(server, until));
    }
    let mut requests = 0;
    while let Some(client) = clients.join_next().await {
        requests += client??;
    }
    Ok(Round {
        requests,
        took: begun.elapsed(),
        cpu: process::cpu(std::process::id())?.saturating_sub(cpu),
    })
}

/// Takes and gives back leases until then; says how many requests that were.
async fn client(server: SocketAddr, until: Instant) -> anyhow::Result<u64> {
    let body = r#"{"selector":{"shard":"s3"},"ttlSeconds":300}"#;
    let acquire = format!(
        "POST /v1/leases HTTP/1.1\r\nHost: lab\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut release =
        format!("DELETE /v1/leases/{NO_LEASE} HTTP/1.1\r\nHost: lab\r\n\r\n").into_bytes();
    let id = "DELETE /v1/leases/".len()..;
    let mut wire = Wire::open(server).await?;
    let mut requests = 0;
    while Instant::now() < until {
        let (status, answer) = wire.call(acquire.as_bytes()).await?;
        ensure!(status == 201, "acquire: {answer}");
        let lease = answer
            .split_once("\"leaseID\":\"")
            .and_then(|(_, rest)| rest.get(..NO_LEASE.len()))
            .unwrap_or(NO_LEASE);
        release[id.clone()][..NO_LEASE.len()].copy_from_slice(lease.as_bytes());
        let (status, answer) = wire.call(&release).await?;
        ensure!(status == 204, "release: {answer}");
        requests += 2;
    }
    Ok(requests)
}

/// The lease API over its actor, as the program puts them together; unless it is `counted`, without the
/// metrics of messages and requests.
pub async fn api(registry: &Registry, counted: bool) -> anyhow::Result<(SocketAddr, Running)> {
    let metrics = Metrics::new(registry)?;
    let meters = Meters::new(registry)?;
    let system = System::new(if counted { meters } else { meters.off() });
    let leases = Addr::default();
    let deps = Arc::new(LeaseDeps {
        terms: tree::TERMS,
        clock: Clock::start(),
        journal: Arc::new(MemoryJournal::default()),
        store: Arc::new(MemoryStore::default()),
        pool: tokio::sync::watch::Sender::default(),
        fleet: Addr::default(),
        metrics,
    });
    let auth = Auth::new(None, None, http::auth::REREAD).await?;
    let settings = http::Settings::default();
    let api = http::Api::new(
        LedgerDesk::new(leases.clone(), Standing::unopposed()),
        auth,
        registry,
        settings,
    )?;
    let api = if counted { api } else { api.uncounted() };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Arc::new(HttpServer::new(listener, api.service(), Limits::default())?);
    let services = vec![
        ChildSpec::new("leases", leases.clone(), move || {
            LeasesActor::new(Arc::clone(&deps))
        }),
        ChildSpec::new("api", Addr::default(), move || {
            ServerActor::<server::Api>::new(Arc::clone(&server) as Arc<dyn Serve>)
        }),
    ];
    let running = system
        .run(&Addr::default(), RootActor::new(services))
        .await?;
    // Services start one after the other, and nothing is kept for one that is not there yet.
    while !leases.is_up() {
        tokio::task::yield_now().await;
    }
    for candidate in (0..PROXIES).map(tree::candidate) {
        leases.tell(LeasesMsg::Offer(Arc::new(candidate)))?;
    }
    let all = leases
        .ask(Duration::from_secs(10), |reply| {
            LeasesMsg::Views(actors::leases::terms::ViewFilter::default(), reply)
        })
        .await?;
    ensure!(all.len() == PROXIES, "{} proxies", all.len());
    Ok((address, running))
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Acquire {
    selector: BTreeMap<String, String>,
    ttl_seconds: u64,
}

async fn echo() -> anyhow::Result<SocketAddr> {
    let acquire = warp::path!("v1" / "leases")
        .and(warp::post())
        .and(warp::body::json())
        .map(|body: Acquire| {
            warp::reply::with_status(warp::reply::json(&body), warp::http::StatusCode::CREATED)
        });
    let release = warp::path!("v1" / "leases" / String)
        .and(warp::delete())
        .map(|_| warp::http::StatusCode::NO_CONTENT);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr().context("no address")?;
    tokio::spawn(warp::serve(acquire.or(release)).incoming(listener).run());
    Ok(address)
}
