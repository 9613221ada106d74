//! `actor-restart`: how soon a killed actor's successor answers, while all of them are busy.
//!
//! 1 000 External proxies, each probed over real connections once a second (the proxy is the lean one of
//! [`crate::forward`], a process of its own), and leased meanwhile. Proxy and prober actors are killed
//! through the directory, a few at a time; the time ends when the successor has *handled* a message
//! that reached it, which the directory counts. A proxy is sent one by way of the fleet; a prober asks
//! its proxy for its watch and handles the answer.

use crate::{
    process::Helper,
    report::{Bar, Row, quantile},
    tree::{self, MemoryStore, Tree},
};
use actors::{
    fleet::FleetMsg,
    key::ProxyKey,
    leases::{LeasesMsg, terms::AcquireRequest},
    system::{Addr, Epoch, directory::End},
};
use anyhow::ensure;
use crds::HealthCheck;
use proxy_operator::probe::NetProbe;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

const PROXIES: usize = 1_000;
/// Killed together.
const BATCH: usize = 10;
const BATCHES: usize = 100;
/// Clients that take and give back leases.
const CLIENTS: usize = 8;
const BAR_MILLIS: f64 = 200.0;

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let mut proxy = Helper::start(&["forward"])?;
    let port = proxy.line().await?.parse()?;
    let lab = Lab::start(port).await?;
    let mut load = JoinSet::new();
    for _ in 0..CLIENTS {
        load.spawn(lease(lab.0.leases.clone()));
    }
    let mut millis = Vec::new();
    for _ in 0..BATCHES {
        millis.extend(lab.kill_some().await?);
    }
    ensure!(!load.is_empty(), "the clients ended");
    let (p50, p99) = (quantile(millis.clone(), 0.5), quantile(millis, 0.99));
    eprintln!(
        "bench: actor-restart: p50 {p50:.1} ms, p99 {p99:.1} ms of {} kills",
        BATCH * BATCHES
    );
    let bar = Bar::AtMost(1.0);
    let mut row = Row::new(
        "actor-restart",
        "ms p99, baseline is the bar",
        p99,
        BAR_MILLIS,
        bar,
    );
    row.bar = format!("<= {BAR_MILLIS}ms");
    Ok(vec![row])
}

async fn lease(leases: Addr<LeasesMsg>) {
    let request = AcquireRequest {
        selector: BTreeMap::new(),
        ttl: Duration::from_mins(1),
        target: None,
    };
    let second = Duration::from_secs(1);
    loop {
        let acquire = |reply| LeasesMsg::Acquire(request.clone(), None, reply);
        if let Ok(Ok(grant)) = leases.ask(second, acquire).await {
            leases
                .ask(second, |reply| LeasesMsg::Release(grant.id, reply))
                .await
                .ok();
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// What is known of a victim after its kill.
struct Waiting {
    killed: Instant,
    epoch: Epoch,
    /// By all incarnations until then.
    handled: u64,
}

struct Lab(Tree);

impl Lab {
    async fn start(port: u16) -> anyhow::Result<Self> {
        let check = HealthCheck {
            url: "http://judge.test/generate_204".to_owned(),
            period_seconds: 1,
            ..HealthCheck::default()
        };
        let store = Arc::new(MemoryStore::default());
        for number in 0..PROXIES {
            store.put(tree::external(number, port, check.clone()));
        }
        let lab = Self(Tree::start(store, Arc::new(NetProbe::new(None)?)).await?);
        let all = Instant::now();
        while !lab.is_up() {
            ensure!(
                all.elapsed() < Duration::from_secs(30),
                "not all proxies are probed"
            );
            sleep(Duration::from_millis(50)).await;
        }
        Ok(lab)
    }

    /// Whether every prober has had a result.
    fn is_up(&self) -> bool {
        let list = self.0.directory.list();
        let probers = list
            .iter()
            .filter(|seen| seen.kind == "prober" && seen.handled > 0);
        probers.count() == PROXIES
    }

    /// Kills some and waits for their successors; how long each took, in milliseconds.
    async fn kill_some(&self) -> anyhow::Result<Vec<f64>> {
        let list = self.0.directory.list();
        let actors: Vec<_> = list
            .iter()
            .filter(|seen| matches!(seen.kind, "proxy" | "prober"))
            .collect();
        let mut waiting = HashMap::new();
        while waiting.len() < BATCH {
            let seen = actors[rand::random_range(0..actors.len())];
            if waiting.contains_key(&seen.path) {
                continue;
            }
            let (killed, epoch) = (Instant::now(), seen.epoch);
            ensure!(
                self.0.directory.end(&seen.path, End::Kill),
                "nobody at {}",
                seen.path
            );
            waiting.insert(
                Arc::clone(&seen.path),
                Waiting {
                    killed,
                    epoch,
                    handled: seen.handled,
                },
            );
        }
        let mut millis = Vec::new();
        while !waiting.is_empty() {
            for path in waiting.keys() {
                if let Some((namespace, name)) = path
                    .strip_prefix("proxy/")
                    .and_then(|key| key.split_once('/'))
                {
                    self.0
                        .fleet
                        .hint(FleetMsg::Changed(ProxyKey::new(namespace, name)));
                }
            }
            sleep(Duration::from_millis(1)).await;
            for seen in self.0.directory.list() {
                let Some(victim) = waiting.get(&seen.path) else {
                    continue;
                };
                if victim.epoch < seen.epoch && victim.handled < seen.handled {
                    millis.push(victim.killed.elapsed().as_secs_f64() * 1000.0);
                    waiting.remove(&seen.path);
                }
            }
            let late = waiting
                .iter()
                .find(|(_, victim)| victim.killed.elapsed() > Duration::from_secs(10));
            ensure!(
                late.is_none(),
                "no successor at {:?} within 10 s",
                late.map(|(path, _)| path)
            );
        }
        Ok(millis)
    }
}
