//! `ledger-restart`: how soon a killed ledger answers again, with 10 000 proxies and 50 000 leases in a
//! journal in memory.
//!
//! The whole tree runs, so that after each kill every one of the proxies says anew what may be leased,
//! as it does in the program. A kill's time ends when the successor has answered for a lease that was
//! granted before; the next comes when the mailbox is empty again. In the end every lease is counted.

use crate::{
    report::{Bar, Row, number, quantile},
    tree::{self, AtOnce, MemoryStore, Tree},
};
use actors::{
    leases::{
        Counts, LeasesMsg,
        terms::{AcquireRequest, LeaseId},
    },
    system::directory::End,
};
use anyhow::{Context as _, ensure};
use crds::HealthCheck;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const PROXIES: usize = 10_000;
const LEASES: usize = 50_000;
/// Twice the slots that the leases take.
const SLOTS: u32 = 10;
const KILLS: usize = 100;
const BAR_MILLIS: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(30);

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let lab = Lab::start().await?;
    let mut millis = Vec::new();
    for kill in 0..KILLS {
        millis.push(lab.kill(kill).await?);
    }
    let counts = lab.tree.leases.ask(PATIENCE, LeasesMsg::Count).await?;
    ensure!(counts.leases == LEASES, "{counts:?} after {KILLS} kills");
    let (p50, p99) = (quantile(millis.clone(), 0.5), quantile(millis, 0.99));
    eprintln!(
        "bench: ledger-restart: p50 {p50:.1} ms, p99 {p99:.1} ms of {KILLS} kills; {} leases are left",
        number(counts.leases)
    );
    let unit = "ms p99, baseline is the bar";
    let mut row = Row::new("ledger-restart", unit, p99, BAR_MILLIS, Bar::AtMost(1.0));
    row.bar = format!("<= {BAR_MILLIS}ms");
    Ok(vec![row])
}

struct Lab {
    tree: Tree,
    leases: Vec<LeaseId>,
}

impl Lab {
    async fn start() -> anyhow::Result<Self> {
        let store = Arc::new(MemoryStore::default());
        for at in 0..PROXIES {
            let mut object = tree::external(at, 3128, HealthCheck::default());
            object.spec.max_leases = SLOTS;
            store.put(object);
        }
        let tree = Tree::start(store, Arc::new(AtOnce)).await?;
        tree.all_are_probed(PROXIES).await?;
        let acquire = |_| {
            let request = AcquireRequest {
                selector: BTreeMap::new(),
                ttl: Duration::from_hours(1),
                target: None,
            };
            let leases = tree.leases.clone();
            async move {
                let acquire = |reply| LeasesMsg::Acquire(request, None, reply);
                let grant = leases.ask(PATIENCE, acquire).await??;
                anyhow::Ok(grant.id)
            }
        };
        let grants = stream::iter(0..LEASES).map(acquire).buffer_unordered(64);
        let leases = grants.try_collect().await?;
        Ok(Self { tree, leases })
    }

    /// Kills the ledger, and how long it took until it answered again, in milliseconds.
    async fn kill(&self, number: usize) -> anyhow::Result<f64> {
        let Tree {
            directory, leases, ..
        } = &self.tree;
        let before = directory.epoch("leases").context("a ledger")?;
        let id = self.leases[number * (LEASES / KILLS)];
        let killed = Instant::now();
        ensure!(directory.end("leases", End::Kill), "nobody to kill");
        let took = loop {
            let answer = leases
                .ask(PATIENCE, |reply| LeasesMsg::Lease(id, reply))
                .await;
            let is_new = directory
                .epoch("leases")
                .is_some_and(|epoch| epoch > before);
            match answer {
                Ok(lease) if is_new => {
                    ensure!(lease.is_ok(), "a lease was lost");
                    break killed.elapsed();
                }
                // The dead one's last words, or nobody there.
                _ => sleep(Duration::from_micros(100)).await,
            }
            ensure!(killed.elapsed() < PATIENCE, "no ledger after {PATIENCE:?}");
        };
        self.is_quiet().await?;
        Ok(took.as_secs_f64() * 1000.0)
    }

    /// Waits until all proxies have said what they had to say, and the dead ledger's memory is free.
    async fn is_quiet(&self) -> anyhow::Result<()> {
        sleep(Duration::from_millis(1500)).await;
        let begun = Instant::now();
        let mut quiet = 0;
        while quiet < 5 {
            sleep(Duration::from_millis(5)).await;
            let depths = self.tree.directory.mailbox_depths();
            let waiting: u64 = depths.values().map(|(sum, _)| sum).sum();
            quiet = if waiting == 0 { quiet + 1 } else { 0 };
            ensure!(begun.elapsed() < PATIENCE, "{waiting} messages wait");
        }
        let Counts { leases, .. } = self.tree.leases.ask(PATIENCE, LeasesMsg::Count).await?;
        ensure!(leases == LEASES, "{leases} leases are left");
        Ok(())
    }
}
