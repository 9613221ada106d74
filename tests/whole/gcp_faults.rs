//! Random lives of proxies on the stand-in for Compute Engine, with every trouble that it knows.
//!
//! The decisions are the program's own, and so are the provider, its requests and the collector; only the
//! API server is a list in memory, and the clocks are set. A schedule is made by its seed alone:
//! `GCP_SEED=17 cargo test --test whole gcp_faults` repeats one, and says what happened in it.
//!
//! | file | is |
//! |---|---|
//! | [`schedule`] | one random life: acts, then calm, then what must be so |
//! | [`acts`], [`calm`] | what happens in it, and when that is over |
//! | [`objects`] | the API server |
//! | [`operator`] | one step of a proxy, by the program's own decisions |
//! | [`trouble`] | what goes wrong on the way to Google, and there |
//! | [`watch`] | what must be so at any time |
//! | [`sweep`] | the program's collector, for a moment |

mod acts;
mod calm;
mod objects;
pub mod operator;
pub mod schedule;
mod sweep;
mod trouble;
mod watch;

use anyhow::{Context as _, bail};
use schedule::{Desk, Schedule, Tally};
use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tokio::task::JoinSet;

/// Schedules of one run.
const SCHEDULES: u64 = 500;
/// Schedules under way at once; each waits for its own sockets.
const AT_ONCE: usize = 8;

/// One VM for each live proxy, none for others, and nothing of others touched, whatever fails.
pub async fn no_trouble_makes_two_vms_of_one_proxy() -> anyhow::Result<()> {
    if let Ok(seed) = env::var("GCP_SEED") {
        let seed = seed.parse().with_context(|| format!("GCP_SEED={seed}"))?;
        let tally = Schedule::run(&mut Desk::new().await?, seed, true).await?;
        eprintln!("gcp_faults: seed {seed}: {tally:?}");
        return Ok(());
    }
    let next = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for _ in 0..AT_ONCE {
        running.spawn(some(Arc::clone(&next)));
    }
    let (mut total, mut failures) = (Tally::default(), Vec::new());
    while let Some(ended) = running.join_next().await {
        let (tally, failed) = ended??;
        total.add(&tally);
        failures.extend(failed);
    }
    eprintln!("gcp_faults: {SCHEDULES} schedules: {total:?}");
    failures.sort();
    if let Some((_, first)) = failures.first() {
        let seeds: Vec<u64> = failures.iter().map(|(seed, _)| *seed).collect();
        for (_, failure) in &failures[1..] {
            eprintln!("{}", failure.lines().last().unwrap_or_default());
        }
        bail!("{seeds:?} failed, {} of {SCHEDULES}; {first}", seeds.len());
    }
    // Or all of it would prove nothing.
    total.is_wild()
}

/// Runs schedules for as long as there are any that nobody runs.
async fn some(next: Arc<AtomicU64>) -> anyhow::Result<(Tally, Vec<(u64, String)>)> {
    let mut desk = Desk::new().await?;
    let (mut total, mut failures) = (Tally::default(), Vec::new());
    loop {
        let seed = next.fetch_add(1, Relaxed);
        if seed >= SCHEDULES {
            return Ok((total, failures));
        }
        match Schedule::run(&mut desk, seed, false).await {
            Ok(tally) => total.add(&tally),
            Err(error) => failures.push((seed, format!("GCP_SEED={seed}: {error:#}"))),
        }
    }
}
