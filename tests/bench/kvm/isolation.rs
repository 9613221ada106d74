//! `kvm-isolation`, `kvm-mailbox`: two hosts, and every packet to one of them is lost without a word.
//!
//! A crowd asks for and wants domains there all the while. Measured: how long a `get` on the other host
//! takes then, and how long messages lie in the mailboxes of the provider, its hosts and transfers (the
//! operator's own metric, of which the share within a bucket is taken to be even). It goes on for as long
//! as it takes until the lost connection is given up and dialled anew in vain. Baseline of the former: the
//! same `get`s at the same time by a process of its own, which knows only the host that is well.

use super::{Backend, absent, config, disk::Disk, hypervisor, millis, request};
use crate::{
    process::Helper,
    report::{Bar, Row, number, quantile},
};
use actors::provider::contract::ProviderId;
use anyhow::ensure;
use prometheus::proto::MetricFamily;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};

const KEY: &str = "halting";
/// On each host.
const DOMAINS: usize = 3;
/// Who ask the host that is cut off.
const CROWD: usize = 200;
/// Of them, those that want a domain each.
const CREATE: usize = 40;
/// Past the 45 s after which a silent connection is given up, and a dial that fails.
const CUT: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(5);
const BAR_MILLIS: f64 = 50.0;
const KINDS: [&str; 3] = ["provider", "host", "transfer"];

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let disk = Disk::halting().await?;
    let (near, far) = tokio::try_join!(hypervisor(0), hypervisor(1))?;
    let backend = Arc::new(Backend::start(config(&[&near, &far], &[(KEY, &disk)])?).await?);
    let mut ids = Vec::new();
    for number in 0..2 * DOMAINS {
        let made = backend.create(request(number, number % 2, KEY)).await?;
        ids.push(made.id);
    }
    let here = |id: &&ProviderId| id.starts_with("hosts/h0/");
    let (near_ids, far_ids): (Vec<_>, Vec<_>) = ids.iter().partition(here);
    let alone = config(&[&near], &[(KEY, &disk)])?.to_string();
    let mut alone = Helper::start(&["gets", &alone, near_ids[0]])?;
    alone.line().await?;

    far.cut().await?;
    let before = waits(&backend.metrics());
    let mut crowd = JoinSet::new();
    for number in 0..CROWD {
        let (backend, id) = (
            Arc::clone(&backend),
            far_ids[number % far_ids.len()].clone(),
        );
        crowd.spawn(async move {
            loop {
                if number < CREATE {
                    backend.create(request(100 + number, 1, KEY)).await.ok();
                } else {
                    backend.get(&id).await.ok();
                    backend.get(&absent(1)).await.ok();
                }
                // A refusal comes at once, and whoever gets one waits before the next try.
                sleep(Duration::from_millis(100)).await;
            }
        });
    }
    let cut = gets(&backend, &near_ids, CUT).await?;
    let far_is_lost = backend.get(far_ids[0]).await.is_err();
    let after = waits(&backend.metrics());
    ensure!(far_is_lost, "the host that is cut off answers");
    crowd.shutdown().await;
    far.mend().await?;

    let (count, half) = (cut.len(), quantile(cut.iter().copied(), 0.5));
    let most = quantile(cut, 0.99);
    let alone: f64 = alone.line().await?.parse()?;
    let waited = after.since(&before);
    let (messages, wait) = (waited.count(), waited.quantile(0.99) * 1000.0);
    eprintln!(
        "bench: kvm-isolation: p50 {half:.1} ms, p99 {most:.1} ms of {count}, {alone:.1} ms alone; \
         in mailboxes p99 {wait:.2} ms of {messages}"
    );
    let mut row = Row::new("kvm-isolation", "ms p99", most, alone, Bar::None);
    row.bar = format!("<= {BAR_MILLIS}ms");
    row.ok = most <= BAR_MILLIS;
    let bar = Bar::AtMost(1.0);
    Ok(vec![
        row,
        Row::new(
            "kvm-mailbox",
            "ms p99, baseline is the bar",
            wait,
            BAR_MILLIS,
            bar,
        ),
    ])
}

/// The role: asks for this domain while another process does so, too, and says the p99 in milliseconds.
pub async fn ask(config: &str, id: &str) -> anyhow::Result<()> {
    let backend = Backend::start(serde_json::from_str(config)?).await?;
    println!("connected");
    let times = gets(&backend, &[&id.to_owned()], CUT).await?;
    println!("{:.3}", quantile(times, 0.99));
    Ok(())
}

/// Asks for these in turn; how long each took, in milliseconds.
async fn gets(backend: &Backend, ids: &[&ProviderId], lasts: Duration) -> anyhow::Result<Vec<f64>> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    for id in ids.iter().cycle() {
        if begun.elapsed() >= lasts {
            break;
        }
        let asked = Instant::now();
        backend.get(id).await?;
        times.push(millis(asked.elapsed()));
        sleep(PAUSE).await;
    }
    Ok(times)
}

/// A histogram: how many values were at most so large, by microseconds.
#[derive(Default)]
struct Histogram(BTreeMap<u64, u64>);

/// How long messages waited so far, of all kinds that are here.
fn waits(metrics: &[MetricFamily]) -> Histogram {
    let mut sum = Histogram::default();
    let family = metrics
        .iter()
        .filter(|family| family.name().ends_with("_actor_mailbox_wait_seconds"));
    for metric in family.flat_map(MetricFamily::get_metric) {
        let labels = metric.get_label();
        if !labels.iter().any(|label| KINDS.contains(&label.value())) {
            continue;
        }
        let histogram = metric.get_histogram();
        for bucket in histogram.get_bucket() {
            let micros = Duration::from_secs_f64(bucket.upper_bound()).as_micros();
            let micros = u64::try_from(micros).unwrap_or(u64::MAX);
            *sum.0.entry(micros).or_default() += bucket.cumulative_count();
        }
        *sum.0.entry(u64::MAX).or_default() += histogram.get_sample_count();
    }
    sum
}

impl Histogram {
    fn since(&self, before: &Self) -> Self {
        let earlier = |bound: &u64| before.0.get(bound).copied().unwrap_or(0);
        let bounds = self.0.iter();
        Self(
            bounds
                .map(|(bound, count)| (*bound, count - earlier(bound)))
                .collect(),
        )
    }

    fn count(&self) -> u64 {
        self.0.values().copied().max().unwrap_or(0)
    }

    /// In seconds; infinite past the last bucket.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = number(self.count()) * share;
        let (mut from, mut below) = (0, 0);
        for (bound, count) in &self.0 {
            if number(*count) >= wanted {
                if *bound == u64::MAX {
                    return f64::INFINITY;
                }
                let part = (wanted - number(below)) / number((count - below).max(1));
                return (number(from) + part * number(bound - from)) / 1e6;
            }
            (from, below) = (*bound, *count);
        }
        f64::NAN
    }
}
