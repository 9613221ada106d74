//! The operator is killed at every call that it makes of libvirt.

use super::{
    stand::{Stand, Target},
    step::{Moment, Step, Trap},
};
use crate::lab::Scene;
use anyhow::{Context as _, ensure};
use std::collections::{BTreeSet, VecDeque};

/// So many are held at once: a line has four threads.
const AT_ONCE: usize = 4;
/// So often what was missed is tried.
const PASSES: usize = 3;

/// `kill -9` when a call was made and has not arrived, and when it is done and nobody has heard of it: at
/// every call of a create and of a delete, of four VMs at once.
pub async fn killed_at_every_call(scene: Scene) -> anyhow::Result<()> {
    let stand = Stand::new(&scene, 1).await?;
    let [target] = &*stand.targets else {
        anyhow::bail!("one host");
    };
    // The image comes first: it is no part of this.
    stand.apply(target, 1, 0).await?;
    stand.is_well(target).await?;

    let calls = unharmed(&stand, target, Phase::Create).await?;
    die(&stand, target, Phase::Create, calls).await?;
    let calls = unharmed(&stand, target, Phase::Delete).await?;
    die(&stand, target, Phase::Delete, calls).await?;
    stand.end().await
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Create,
    Delete,
}

async fn begin(stand: &Stand, target: &Target, phase: Phase, count: usize) -> anyhow::Result<()> {
    match phase {
        Phase::Create => stand.apply(target, count, 0).await.map(drop),
        Phase::Delete => stand.delete(target, count).await.map(drop),
    }
}

/// The calls of one VM when nobody dies.
async fn unharmed(stand: &Stand, target: &Target, phase: Phase) -> anyhow::Result<Vec<u32>> {
    target.wire.lay(Vec::new());
    begin(stand, target, phase, 1).await?;
    stand.is_well(target).await?;
    let mut calls = target.wire.calls();
    // Others are only looked at meanwhile.
    calls.retain(|about, _| about.starts_with("proxy-"));
    let most = calls.into_values().max_by_key(Vec::len);
    most.context("no calls")
}

async fn die(stand: &Stand, target: &Target, phase: Phase, calls: Vec<u32>) -> anyhow::Result<()> {
    ensure!(calls.len() > 5, "{calls:?}");
    let moments = [Moment::Before, Moment::During];
    let mut died_at = BTreeSet::new();
    // A look that comes in between moves all that follows by one: what was missed for it is tried again.
    for _ in 0..PASSES {
        let missed = (1..=calls.len()).filter(|nth| !died_at.contains(&calls[nth - 1]));
        let traps = missed.flat_map(|nth| {
            moments.map(|moment| Trap {
                step: Step::Nth(nth),
                moment,
            })
        });
        let mut traps: VecDeque<_> = traps.collect();
        while !traps.is_empty() {
            let now: Vec<_> = traps.drain(..AT_ONCE.min(traps.len())).collect();
            let died = round(stand, target, phase, &now);
            died_at.extend(
                died.await
                    .with_context(|| format!("{phase:?} {now:?} of {calls:?}"))?,
            );
        }
    }
    let all: BTreeSet<_> = calls.iter().copied().collect();
    ensure!(died_at.is_superset(&all), "died at {died_at:?} of {all:?}");
    Ok(())
}

/// The procedures that were held when it died.
async fn round(
    stand: &Stand,
    target: &Target,
    phase: Phase,
    traps: &[Trap],
) -> anyhow::Result<Vec<u32>> {
    let there = target.live().len();
    if phase == Phase::Delete && there < traps.len() {
        stand.apply(target, traps.len() * 2, 0).await?;
        stand.is_well(target).await?;
    }
    target.wire.lay(traps.to_vec());
    begin(stand, target, phase, traps.len()).await?;
    let held = target.wire.all_sprung().await?;
    let calls = target.wire.calls();
    stand.kill().await?;
    target.wire.release();
    stand.start_again().await?;
    stand.is_well(target).await?;
    let at = |(about, trap): (&String, &Trap)| match trap.step {
        Step::Nth(nth) => calls.get(about)?.get(nth - 1).copied(),
        _ => None,
    };
    Ok(held.iter().filter_map(at).collect())
}
