//! `scrape-10k`: a scrape with 10 000 proxies, and whether anybody has to wait for it.
//!
//! The whole tree runs, with its real metrics and gauges behind the real server; the scrape is a request
//! over loopback. Meanwhile somebody asks the ledger without a pause: `scrape-wait` sets the p99 of that
//! with scrapes one after another against that without.

use crate::{
    report::{Bar, Row, quantile},
    tree::{self, AtOnce, MemoryStore, Tree},
};
use actors::{
    key::ProxyKey, leader::standing::Standing, leases::LeasesMsg, monitor::Board, system::Addr,
};
use anyhow::ensure;
use crds::HealthCheck;
use proxy_operator::{
    http::{Limits, ops, serve},
    telemetry::gauges::Gauges,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{net::TcpListener, runtime::Handle, sync::watch, task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

const PROXIES: usize = 10_000;
const SCRAPES: usize = 40;
const BAR_MILLIS: f64 = 100.0;
/// A question may take so long while a scrape runs. On two cores the scrape takes one of them.
const WAIT_MILLIS: f64 = 5.0;
const DEADLINE: Duration = Duration::from_secs(5);

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let store = Arc::new(MemoryStore::default());
    for at in 0..PROXIES {
        store.put(tree::external(at, 3128, HealthCheck::default()));
    }
    let tree = Tree::start(Arc::clone(&store), Arc::new(AtOnce)).await?;
    tree.all_are_probed(PROXIES).await?;
    let url = serve_metrics(store, &tree).await?;
    let http = reqwest::Client::builder().no_proxy().build()?;

    let asker = Asker::begin(&tree.leases);
    sleep(Duration::from_secs(3)).await;
    let quiet = asker.end().await?;
    let asker = Asker::begin(&tree.leases);
    let (mut millis, mut bytes) = (Vec::new(), 0);
    for _ in 0..SCRAPES {
        let begun = Instant::now();
        let answer = http.get(&url).send().await?;
        ensure!(answer.status() == 200, "{}", answer.status());
        let text = answer.text().await?;
        millis.push(begun.elapsed().as_secs_f64() * 1000.0);
        bytes = text.len();
        let series = "proxy_operator_healthcheck_duration_seconds_count";
        let found = text.matches(series).count();
        ensure!(found == PROXIES, "{found} proxies in a scrape");
    }
    let busy = asker.end().await?;
    let (p50, p99) = (quantile(millis.clone(), 0.5), quantile(millis, 0.99));
    eprintln!(
        "bench: scrape-10k: {} KiB, p50 {p50:.1} ms, p99 {p99:.1} ms; a question to the ledger meanwhile \
         p50 {:.3} ms, p99 {:.3} ms",
        bytes / 1024,
        quantile(busy.clone(), 0.5),
        quantile(busy.clone(), 0.99),
    );
    let unit = "ms p50, baseline is the bar";
    let mut scrape = Row::new("scrape-10k", unit, p50, BAR_MILLIS, Bar::AtMost(1.0));
    scrape.bar = format!("<= {BAR_MILLIS}ms");
    let (busy, quiet) = (quantile(busy, 0.99), quantile(quiet, 0.99));
    let mut wait = Row::new(
        "scrape-wait",
        "ms p99 of a question",
        busy,
        quiet,
        Bar::None,
    );
    wait.ok = busy <= WAIT_MILLIS;
    wait.bar = format!("<= {WAIT_MILLIS}ms");
    Ok(vec![scrape, wait])
}

/// As the program serves them.
async fn serve_metrics(store: Arc<MemoryStore>, tree: &Tree) -> anyhow::Result<String> {
    let (_, checks) = watch::channel(Board::default());
    let gauges = Gauges {
        standing: Standing::unopposed(),
        store,
        leases: tree.leases.clone(),
        checks,
        directory: Arc::clone(&tree.directory),
        runtime: Handle::current(),
    };
    let registry = tree.registry.clone();
    let gather = move || {
        let mut families = registry.gather();
        families.extend(gauges.read().unwrap_or_default());
        families
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/metrics", listener.local_addr()?);
    let service = ops::metrics(gather);
    tokio::spawn(serve(
        listener,
        service,
        Limits::default(),
        std::future::pending(),
    ));
    Ok(url)
}

/// Asks the ledger again and again.
struct Asker {
    enough: CancellationToken,
    asking: JoinHandle<anyhow::Result<Vec<f64>>>,
}

impl Asker {
    fn begin(leases: &Addr<LeasesMsg>) -> Self {
        let (leases, enough) = (leases.clone(), CancellationToken::new());
        let asking = tokio::spawn({
            let enough = enough.clone();
            async move {
                let mut millis = Vec::new();
                let key = ProxyKey::new("crawlers", &tree::name(1));
                while !enough.is_cancelled() {
                    let begun = Instant::now();
                    let view = |reply| LeasesMsg::View(key.clone(), reply);
                    ensure!(leases.ask(DEADLINE, view).await?.is_some(), "no such proxy");
                    millis.push(begun.elapsed().as_secs_f64() * 1000.0);
                    sleep(Duration::from_millis(1)).await;
                }
                Ok(millis)
            }
        });
        Self { enough, asking }
    }

    /// How long each question took, in milliseconds.
    async fn end(self) -> anyhow::Result<Vec<f64>> {
        self.enough.cancel();
        self.asking.await?
    }
}
