//! `fleet-ready`: how long a fleet takes from being applied to being Ready.
//!
//! Measured: 5 000 External proxies are created, 64 at a time, on the lab's API server while the real
//! operator runs on it; the time ends when the operator's own watch has shown it every object Ready.
//! Baseline: the same objects are created by the same client, which also makes as many status writes
//! of each, without an operator; once before and once after.
//!
//! The proxies are one Squid on as many addresses of loopback, and the target is plain http: then a
//! probe costs all sides together a fraction of a status write, and the API server is what limits both.

use crate::{
    cluster::Cluster,
    operator::Operator,
    probes,
    report::{Bar, Row, number},
    squid::{self, Squid},
    tree,
};
use anyhow::ensure;
use crds::{HealthCheck, Proxy};
use std::{
    net::Ipv4Addr,
    time::{Duration, Instant},
};
use tokio::time::sleep;

const PROXIES: usize = 5_000;
/// Long enough that a proxy is hardly probed twice while the fleet comes up.
const PERIOD: u32 = 20;
/// What the operator is known to need: one when it takes the proxy in, one with the first verdict.
const WRITES: u32 = 2;
const STEADY: Duration = Duration::from_secs(30);

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let (_helper, judge) = probes::judge().await?;
    let squid = Squid::start(squid::Options {
        address: Ipv4Addr::UNSPECIFIED.into(),
        ..squid::Options::default()
    })
    .await?;
    let check = HealthCheck {
        url: format!("http://{}/generate_204", judge.http),
        period_seconds: PERIOD,
        ..HealthCheck::default()
    };
    let external = |at| tree::external(at, squid.address.port(), check.clone());
    let objects: Vec<_> = (0..PROXIES).map(external).collect();

    let cluster = Cluster::up().await?;
    cluster.create(objects[..500].to_vec(), WRITES).await?;
    cluster.clear().await?;
    let before = bare(&cluster, &objects, WRITES).await?;
    eprintln!("bench: fleet-ready: bare client {before:.1?} ({WRITES} writes)");

    let operator = Operator::start(&cluster).await?;
    let (begun, patches) = (Instant::now(), cluster.patches().await?);
    cluster.create(objects.clone(), 0).await?;
    let created = begun.elapsed();
    let measured = all_ready(&operator, begun).await?;
    let writes = number(cluster.patches().await? - patches) / number(PROXIES);
    eprintln!(
        "bench: fleet-ready: created in {created:.1?}, Ready in {measured:.1?}, {writes:.2} writes a proxy"
    );
    let steady = steady_writes(&cluster).await?;
    eprintln!("bench: fleet-ready: {steady} writes in {STEADY:?} of steady state");
    drop(operator);
    cluster.clear().await?;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small number"
    )]
    let whole = writes.round() as u32;
    let after = bare(&cluster, &objects, whole).await?;
    eprintln!("bench: fleet-ready: bare client {after:.1?} ({whole} writes)");
    let baseline = if whole == WRITES {
        (before + after) / 2
    } else {
        after
    };
    Ok(vec![
        Row::new(
            "fleet-ready",
            "s until all are Ready",
            measured.as_secs_f64(),
            baseline.as_secs_f64(),
            Bar::AtMost(1.3),
        ),
        Row::new(
            "fleet-writes",
            "writes a proxy",
            writes,
            f64::from(WRITES),
            Bar::AtMost(1.5),
        ),
        Row::of_ratio(
            "fleet-steady-writes",
            "writes in 30 s",
            number(steady),
            0.0,
            number(steady),
            Bar::AtMost(0.0),
        ),
    ])
}

async fn bare(cluster: &Cluster, objects: &[Proxy], writes: u32) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    cluster.create(objects.to_vec(), writes).await?;
    let took = begun.elapsed();
    cluster.clear().await?;
    Ok(took)
}

async fn all_ready(operator: &Operator, begun: Instant) -> anyhow::Result<Duration> {
    let mut before = (begun.elapsed(), 0);
    loop {
        let ready = operator.ready().await?;
        let took = begun.elapsed();
        if ready == PROXIES as u64 {
            return Ok(took);
        }
        ensure!(
            took < Duration::from_mins(3),
            "{ready} of {PROXIES} are Ready"
        );
        // A scrape of so many proxies costs tens of milliseconds: half of what is left, as fast as it
        // went since the last one, until the next.
        let gained = number(ready.saturating_sub(before.1)).max(1.0);
        let left =
            number(PROXIES as u64 - ready) / gained * took.saturating_sub(before.0).as_secs_f64();
        before = (took, ready);
        sleep(Duration::from_secs_f64((left / 2.0).clamp(0.1, 2.0))).await;
    }
}

/// The first probes ran on a busy machine: the next ones may find another latency, and say so. From
/// then on, nothing is left to say.
async fn steady_writes(cluster: &Cluster) -> anyhow::Result<u64> {
    sleep(Duration::from_secs(u64::from(PERIOD) * 5 / 4)).await;
    let settled = cluster.patches().await?;
    sleep(STEADY).await;
    Ok(cluster.patches().await? - settled)
}
