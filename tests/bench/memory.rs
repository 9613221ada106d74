//! `memory-10k`: what ten thousand probed proxies cost the operator, and where it goes.
//!
//! The real operator with 10 000 External proxies of a period of 2 s, five times the default rate, over
//! http through the lean proxy of [`crate::forward`]. (At 1 s two cores are busy with nothing else, and
//! the API server starves.)
//! It is scraped every 30 s, as it would be. How much of an hour at the default period that makes is
//! told. The breakdown weighs each part alone, ten thousand times, in a process of its own.
//!
//! What limits it, by counting live allocations of each size: a proxy costs some 23 KB of heap, of which
//! its two ractor actors are 12.6 KB before they hold anything. Each has a supervision channel whose first
//! block takes 2 592 bytes (32 slots of 80, though these actors have no children), a message channel
//! (800, and as much again after some dozens of messages), two channel heads (512 each), its task (768)
//! and ractor's boxed loop (784).

use crate::{
    cluster::{self, Cluster},
    operator::Operator,
    process::{self, Helper},
    report::{Bar, Row, number},
    tree::{self, AtOnce, MemoryStore, Tree},
};
use actors::{key::ProxyKey, leases::ledger::Ledger};
use anyhow::{bail, ensure};
use crds::{HealthCheck, Proxy};
use dashmap::DashMap;
use prometheus::{HistogramOpts, HistogramVec};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const PROXIES: usize = 10_000;
const LASTS: Duration = Duration::from_secs(150);
const SCRAPES: usize = 30;
const BAR_MIB: f64 = 256.0;
/// A third that is this much more than another is growth, not noise.
const FLAT: f64 = 1.03;

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let mut forward = Helper::start(&["forward"])?;
    let port: u16 = forward.line().await?.parse()?;
    let check = HealthCheck {
        url: "http://judge.test/generate_204".to_owned(),
        period_seconds: 2,
        ..HealthCheck::default()
    };
    let cluster = Cluster::up().await?;
    let objects = (0..PROXIES).map(|at| tree::external(at, port, check.clone()));
    cluster.create(objects.collect(), 0).await?;
    let operator = Operator::start(&cluster).await?;
    let pid = operator.pid()?;
    let begun = Instant::now();
    loop {
        let ready = operator.ready().await?;
        if ready == PROXIES as u64 {
            break;
        }
        ensure!(
            begun.elapsed() < Duration::from_mins(5),
            "{ready} of {PROXIES} are Ready"
        );
        sleep(Duration::from_secs(1)).await;
    }
    let (begun, before) = (Instant::now(), operator.probes().await?);
    let mut mib = Vec::new();
    while begun.elapsed() < LASTS {
        sleep(Duration::from_secs(1)).await;
        mib.push(process::rss_mib(pid)?);
        if mib.len() % SCRAPES == 0 {
            operator.scrape().await?;
        }
    }
    let probes = operator.probes().await? - before;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / number(part.len());
    let third = mib.len() / 3;
    let (first, last) = (mean(&mib[..third]), mean(&mib[mib.len() - third..]));
    let most = mib.iter().copied().fold(0.0, f64::max);
    let minutes = number(probes) / number(PROXIES) * 10.0 / 60.0;
    eprintln!(
        "bench: memory-10k: {probes} probes in {:.0?} are {minutes:.1} min at a period of 10 s; \
         peak ever {:.0} MiB",
        begun.elapsed(),
        process::kib(pid, "VmHWM:")? / 1024.0
    );
    let mut rows = vec![
        Row::new(
            "memory-10k",
            "MiB RSS, baseline is the bar",
            most,
            BAR_MIB,
            Bar::AtMost(1.0),
        ),
        Row::new(
            "memory-flat",
            "MiB, last third / first",
            last,
            first,
            Bar::AtMost(FLAT),
        ),
    ];
    for part in PARTS {
        let mut scale = Helper::start(&["weigh", part.word])?;
        let weight: f64 = scale.line().await?.parse()?;
        rows.push(Row::new(
            part.row,
            "MiB, ratio is the share",
            weight,
            most,
            Bar::None,
        ));
    }
    Ok(rows)
}

struct Part {
    row: &'static str,
    word: &'static str,
}

const PARTS: [Part; 4] = [
    Part {
        row: "memory.objects",
        word: "objects",
    },
    Part {
        row: "memory.ledger",
        word: "ledger",
    },
    Part {
        row: "memory.histograms",
        word: "histograms",
    },
    Part {
        row: "memory.whole-tree",
        word: "actors",
    },
];

/// Makes ten thousand of something and says by how many MiB that made this process grow.
pub async fn weigh(what: &str) -> anyhow::Result<()> {
    let me = std::process::id();
    let before = process::rss_mib(me)?;
    let _made: Box<dyn std::any::Any> = match what {
        "objects" => Box::new(objects()?),
        "ledger" => Box::new(ledger()),
        "histograms" => Box::new(histograms()?),
        "actors" => Box::new(actors().await?),
        _ => bail!("nothing to weigh: {what}"),
    };
    println!("{:.2}", process::rss_mib(me)? - before);
    Ok(())
}

/// As the watch keeps them, after the operator has written its status.
fn objects() -> anyhow::Result<DashMap<ProxyKey, Arc<Proxy>>> {
    let kept = DashMap::new();
    for at in 0..PROXIES {
        let mut object = tree::external(at, 3128, HealthCheck::default());
        object.metadata.uid = Some(format!("00000000-0000-4000-8000-{at:012}"));
        object.metadata.resource_version = Some(at.to_string());
        object.status = Some(serde_json::from_value(cluster::status(1))?);
        // Read from JSON, since that is how big what was read is.
        let read: Proxy = serde_json::from_slice(&serde_json::to_vec(&object)?)?;
        kept.insert(tree::key_of(&read), Arc::new(read));
    }
    Ok(kept)
}

fn ledger() -> Ledger {
    let mut ledger = Ledger::new(tree::TERMS);
    for at in 0..PROXIES {
        ledger.upsert(Arc::new(tree::candidate(at)));
    }
    ledger
}

/// Of the shape of the probes' latency.
fn histograms() -> anyhow::Result<HistogramVec> {
    let options =
        HistogramOpts::new("latency", "of probes").buckets(vec![0.05, 0.2, 0.5, 1.0, 5.0]);
    let all = HistogramVec::new(options, &["proxy"])?;
    for at in 0..PROXIES {
        all.with_label_values(&[tree::candidate(at).key.as_str()])
            .observe(0.1);
    }
    Ok(all)
}

/// The whole tree; the objects, the ledger and the histograms in it are taken off again by weight.
async fn actors() -> anyhow::Result<(Arc<MemoryStore>, Tree)> {
    let store = Arc::new(MemoryStore::default());
    for at in 0..PROXIES {
        store.put(tree::external(at, 3128, HealthCheck::default()));
    }
    let tree = Tree::start(Arc::clone(&store), Arc::new(AtOnce)).await?;
    tree.all_are_probed(PROXIES).await?;
    sleep(Duration::from_secs(2)).await;
    Ok((store, tree))
}
