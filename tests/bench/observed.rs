//! `lease-cycle-observed`: what it costs a lease to be seen.
//!
//! Measured: acquire and release as `lease-cycle` has them, at a server with all its metrics, scraped
//! every second, and with tracing as the program sets it up: one trace in a hundred, over OTLP to a real
//! collector. Baseline: the same server with both off, which for metrics means that neither messages
//! of actors nor requests are counted or timed (what is left is one counter for each lease granted), and
//! for traces that no variable asks for any. Both log as the program does. Each server is a process of its
//! own; they take turns.

use crate::{
    lease_cycle::{api, round},
    otlp::Collector,
    process::{self, Helper},
    report::{Bar, Row, median, number},
};
use anyhow::ensure;
use prometheus::{Registry, TextEncoder};
use proxy_operator::telemetry::{self, LogFormat, traces::Traces};
use std::{net::SocketAddr, time::Duration};

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_secs(1);
/// As Prometheus does, but more often.
const SCRAPE: Duration = Duration::from_secs(1);
/// One trace in so many.
const SAMPLED: f64 = 0.01;

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let collector = Collector::start().await?;
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint("grpc")),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc".to_owned()),
        ("OTEL_BSP_SCHEDULE_DELAY", "500".to_owned()),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio".to_owned()),
        ("OTEL_TRACES_SAMPLER_ARG", SAMPLED.to_string()),
    ];
    let mut observed = Helper::start_in(&["lease-api", "observed"], &variables)?;
    let mut plain = Helper::start(&["lease-api", "plain"])?;
    let servers = [
        observed.line().await?.parse()?,
        plain.line().await?.parse()?,
    ];
    // The first rounds find cold caches and unbuilt queues.
    for server in servers {
        round(server, ROUND).await?;
    }
    let pids = [observed.pid()?, plain.pid()?];
    let (mut speeds, mut costs) = (Vec::new(), Vec::new());
    let mut requests = 0;
    for _ in 0..ROUNDS {
        let seen = turn(servers[0], pids[0]).await?;
        let unseen = turn(servers[1], pids[1]).await?;
        requests += seen.requests;
        speeds.push((seen.per_second, unseen.per_second));
        costs.push((seen.cpu_micros, unseen.cpu_micros));
    }
    // Nothing would be measured if nothing were exported.
    let share = number(collector.spans().len() as u64) / number(requests);
    ensure!(
        share > SAMPLED / 2.0,
        "{share} of the requests were exported"
    );
    Ok(vec![
        row(
            "lease-cycle-observed",
            "requests/s",
            &speeds,
            Bar::AtLeast(0.9),
        ),
        row(
            "lease-observed-cpu",
            "us of CPU a request",
            &costs,
            Bar::None,
        ),
    ])
}

fn row(name: &'static str, unit: &'static str, pairs: &[(f64, f64)], bar: Bar) -> Row {
    let ratio = median(pairs.iter().map(|(seen, unseen)| seen / unseen));
    let (seen, unseen) = pairs.iter().copied().unzip::<_, _, Vec<_>, Vec<_>>();
    Row::of_ratio(name, unit, median(seen), median(unseen), ratio, bar)
}

/// What one server did in a round.
struct Turn {
    requests: u64,
    per_second: f64,
    /// Of the server alone.
    cpu_micros: f64,
}

async fn turn(server: SocketAddr, pid: u32) -> anyhow::Result<Turn> {
    let before = process::cpu(pid)?;
    let round = round(server, ROUND).await?;
    let used = process::cpu(pid)?.saturating_sub(before);
    Ok(Turn {
        requests: round.requests,
        per_second: round.per_second(),
        cpu_micros: used.as_secs_f64() * 1e6 / number(round.requests),
    })
}

/// One of the two servers, as a process: says where it listens, and serves.
pub async fn be_the_api(observed: bool) -> anyhow::Result<()> {
    let traces = Traces::from_env()?;
    ensure!(traces.is_some() == observed, "traces are not as wanted");
    let level = "info".parse().map_err(anyhow::Error::msg)?;
    let _logs = telemetry::init(LogFormat::Json, &level, traces.as_ref())?;
    let registry = Registry::new();
    let (address, _running) = api(&registry, observed).await?;
    println!("{address}");
    let mut scrapes = tokio::time::interval(SCRAPE);
    loop {
        scrapes.tick().await;
        if observed {
            TextEncoder::new().encode_to_string(&registry.gather())?;
        }
    }
}
