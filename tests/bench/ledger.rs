//! `ledger-acquire`, `ledger-growth`: the ledger alone, without an actor around it.

use crate::{
    report::{Bar, Row, median, number},
    tree,
};
use actors::leases::{
    ledger::Ledger,
    now::{Clock, Now},
    terms::{AcquireRequest, Candidate, LeaseId},
};
use anyhow::Context as _;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Acquires that are timed together; then as many releases, which are not.
const BATCH: u32 = 50;
const ROUNDS: usize = 60;
/// Batches of each size in a round.
const BATCHES: usize = 20;

pub async fn run() -> anyhow::Result<Vec<Row>> {
    tokio::task::spawn_blocking(measure).await?
}

fn measure() -> anyhow::Result<Vec<Row>> {
    let [
        mut hundred,
        mut ten_thousand,
        mut hundred_thousand,
        mut million,
    ] = [100, 10_000, 100_000, 1_000_000].map(Bench::new);
    let mut nanos: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        for (bench, nanos) in [
            &mut hundred,
            &mut ten_thousand,
            &mut hundred_thousand,
            &mut million,
        ]
        .into_iter()
        .zip(&mut nanos)
        {
            for _ in 0..BATCHES {
                nanos.push(bench.acquire()?);
            }
        }
        nanos[4].push(ten_thousand.acquire_naively()?);
    }
    let [hundred, ten_thousand, hundred_thousand, million, naive] = nanos.map(median);
    Ok(vec![
        Row::of_ratio(
            "ledger-acquire",
            "ns, ratio is speed-up",
            ten_thousand,
            naive,
            naive / ten_thousand,
            Bar::AtLeast(100.0),
        ),
        Row::new(
            "ledger-growth",
            "ns at 100 000 / at 100",
            hundred_thousand,
            hundred,
            Bar::AtMost(2.0),
        ),
        Row::new(
            "ledger-million",
            "ns at 1 000 000 / at 100",
            million,
            hundred,
            Bar::None,
        ),
    ])
}

struct Bench {
    all: Vec<Arc<Candidate>>,
    /// Leases of each, for the naive choice.
    active: Vec<u32>,
    ledger: Ledger,
    now: Now,
    last: u128,
    request: AcquireRequest,
}

impl Bench {
    /// A ledger of so many healthy proxies; the requests match a tenth.
    fn new(proxies: usize) -> Self {
        let mut ledger = Ledger::new(tree::TERMS);
        let all: Vec<_> = (0..proxies).map(tree::candidate).map(Arc::new).collect();
        for candidate in &all {
            ledger.upsert(Arc::clone(candidate));
        }
        let mut bench = Self {
            active: vec![0; all.len()],
            all,
            ledger,
            now: Clock::start().now(),
            last: 0,
            request: AcquireRequest {
                selector: [("shard".into(), "s3".into())].into(),
                ttl: Duration::from_mins(5),
                target: None,
            },
        };
        // The first request builds the queue of its selector.
        for _ in 0..BATCHES {
            bench.acquire().ok();
        }
        bench
    }

    /// Nanoseconds of one acquire, in a batch.
    fn acquire(&mut self) -> anyhow::Result<f64> {
        let first = self.last + 1;
        let begun = Instant::now();
        for _ in 0..BATCH {
            self.last += 1;
            self.now.mono += Duration::from_micros(10);
            // Spread as random identities are.
            let id = LeaseId(
                self.last
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835),
            );
            self.ledger
                .acquire(&self.request, None, id, self.now)
                .map_err(|refused| anyhow::anyhow!("refused: {refused:?}"))?;
            drop(self.ledger.take_entries());
        }
        let took = begun.elapsed() / BATCH;
        for id in first..=self.last {
            let id = LeaseId(id.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
            self.ledger.release(id, self.now);
            drop(self.ledger.take_entries());
        }
        Ok(number(u64::try_from(took.as_nanos())?))
    }

    /// Nanoseconds of one choice by filtering and sorting all proxies.
    fn acquire_naively(&mut self) -> anyhow::Result<f64> {
        let (all, active, selector) = (&self.all, &mut self.active, &self.request.selector);
        let begun = Instant::now();
        let fits = |(at, proxy): &(usize, &Arc<Candidate>)| {
            let matches = |(key, value)| proxy.attributes.get(key) == Some(value);
            proxy.healthy && active[*at] < proxy.max_leases && selector.iter().all(matches)
        };
        let mut fit: Vec<_> = all
            .iter()
            .enumerate()
            .filter(fits)
            .map(|(at, _)| at)
            .collect();
        fit.sort_by_key(|&at| (active[at], all[at].latency_millis, &all[at].key));
        let first = *fit.first().context("nobody fits")?;
        active[first] += 1;
        let took = begun.elapsed();
        active[first] -= 1;
        Ok(number(u64::try_from(took.as_nanos())?))
    }
}
