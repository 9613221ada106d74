//! The operator is killed and started again, at every point that it can be killed at.

use super::{
    census::{Census, all_is_well, delete_all, nothing_is_left},
    in_a_scene,
    killer::{Killer, Point},
};
use crate::lab::{
    Lab, Scene,
    operator::Operator,
    proxy,
    proxy::Applied,
    squid::{self, Squid},
};
use anyhow::{Context as _, ensure};
use crds::Proxy;
use futures::{FutureExt as _, StreamExt as _, stream};
use kube::{Api, ResourceExt};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// For one phase of a life, several polls of ten seconds each, with many more lives beside it.
const PATIENCE: Duration = Duration::from_secs(150);
/// A life is created, replaced (another port) and deleted.
const PHASES: [&str; 3] = ["create", "replace", "delete"];
const PORTS: [u16; 2] = [3128, 3129];

/// `kill -9` before and after each write of a Managed proxy's life. One life without a death counts the
/// writes of each phase; then one life for each number dies at that write of every phase.
pub async fn killed_at_every_write(lab: Arc<Lab>) -> anyhow::Result<()> {
    let counted = in_a_scene(Arc::clone(&lab), "life", |scene| life(scene, None).boxed()).await?;
    let most = counted.iter().map(Vec::len).max().unwrap_or_default();
    ensure!(counted.iter().all(|writes| writes.len() > 1), "{counted:?}");
    let points = (1..=most).flat_map(|write| [Point::Before(write), Point::After(write)]);
    let lives: Vec<_> = points
        .map(|point| {
            let lab = Arc::clone(&lab);
            tokio::spawn(in_a_scene(lab, "death", move |scene| {
                life(scene, Some(point)).boxed()
            }))
        })
        .collect();
    let ended: Vec<_> = stream::iter(lives).buffered(most * 2).collect().await;
    let mut reached = 0;
    let mut wrong = Vec::new();
    for life in ended {
        match life? {
            Ok(deaths) => reached += deaths.iter().filter(|writes| !writes.is_empty()).count(),
            Err(error) => wrong.push(format!("{error:?}")),
        }
    }
    let points = counted.iter().map(Vec::len).sum::<usize>() * 2;
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    // A write that carries news of the prober may come alone or together with another.
    ensure!(
        reached + 2 * PHASES.len() >= points,
        "{reached} deaths at {points} points: {counted:?}"
    );
    Ok(())
}

/// A phase's writes without a death; with one, the writes up to it, none if it was never reached.
type Writes = [Vec<String>; 3];

async fn life(scene: Scene, point: Option<Point>) -> anyhow::Result<Writes> {
    let killer = Killer::new(&scene).await?;
    let census = Census::begin(&scene);
    let mut operator = killer.operator(&scene).start().await?;
    let mut writes = Writes::default();
    for (phase, writes) in writes.iter_mut().enumerate() {
        killer.aim(&operator, point)?;
        begin(&scene, phase).await?;
        let what = || format!("{} {point:?}", PHASES[phase]);
        let died = tokio::select! {
            () = killer.has_struck() => true,
            settled = settles(&scene, phase) => {
                settled.with_context(what)?;
                false
            }
        };
        if died || point.is_none() {
            *writes = killer.writes();
        }
        if died {
            operator = operator.again().await?;
            settles(&scene, phase)
                .await
                .with_context(|| format!("{}, that is {writes:?}", what()))?;
        }
    }
    let pods = census.pods()?;
    ensure!(
        pods.len() == PORTS.len(),
        "in the life of {point:?}, with {writes:#?}, there were the pods {pods:#?}"
    );
    Ok(writes)
}

async fn begin(scene: &Scene, phase: usize) -> anyhow::Result<()> {
    let applied = Applied::new(scene.clone(), "a".to_owned());
    match phase {
        0 => {
            let draft = proxy("a").managed_by("kubernetes");
            scene.apply(draft.with(json!({"port": PORTS[0]}))).await?;
        }
        1 => {
            applied.change(json!({"spec": {"port": PORTS[1]}})).await?;
        }
        _ => applied.delete().await?,
    }
    Ok(())
}

async fn settles(scene: &Scene, phase: usize) -> anyhow::Result<()> {
    if phase == 2 {
        return nothing_is_left(scene, PATIENCE).await;
    }
    all_is_well(scene, PATIENCE).await.map(drop)
}

/// One life in which no operator survives a write: each makes one step and dies.
pub async fn killed_after_every_write(scene: Scene) -> anyhow::Result<()> {
    let killer = Killer::new(&scene).await?;
    let census = Census::begin(&scene);
    let mut operator = killer.operator(&scene).start().await?;
    let mut deaths = 0;
    for (phase, called) in PHASES.iter().enumerate() {
        killer.aim(&operator, Some(Point::After(1)))?;
        begin(&scene, phase).await?;
        loop {
            tokio::select! {
                () = killer.has_struck() => {
                    deaths += 1;
                    ensure!(deaths < 100, "it gets nowhere: {:?}", killer.writes());
                    operator = operator.again().await?;
                    killer.aim(&operator, Some(Point::After(1)))?;
                }
                settled = settles(&scene, phase) => {
                    settled.with_context(|| format!("{called}, {deaths} deaths"))?;
                    break;
                }
            }
        }
    }
    ensure!(deaths >= 10, "only {deaths} deaths");
    let pods = census.pods()?;
    ensure!(pods.len() == PORTS.len(), "{pods:#?}");
    Ok(())
}

/// Managed and External proxies come and go at random while the operator is killed five times.
pub async fn killed_amid_a_crowd(scene: Scene) -> anyhow::Result<()> {
    let seed = match std::env::var("FAULTS_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => rand::random(),
    };
    crowd(&scene, seed)
        .await
        .with_context(|| format!("FAULTS_SEED={seed}"))
}

const MANAGED: usize = 20;
const EXTERNAL: usize = 50;
const DEATHS: usize = 5;
/// Creations and deletions between two deaths.
const CHANGES: usize = 40;

async fn crowd(scene: &Scene, seed: u64) -> anyhow::Result<()> {
    let mut dice = StdRng::seed_from_u64(seed);
    let squid = Squid::start(squid::Options::default()).await?;
    let killer = Killer::new(scene).await?;
    let census = Census::begin(scene);
    // Collected as soon as possible: whatever of it all belongs to nobody, and nothing else.
    let launch = killer
        .operator(scene)
        .env("PROXY_OPERATOR_GC_INTERVAL", "1s")
        .env("PROXY_OPERATOR_GC_MIN_AGE", "0");
    let mut operator = launch.start().await?;
    for round in 0..DEATHS {
        let write = dice.random_range(1..CHANGES);
        let point = if dice.random() {
            Point::Before(write)
        } else {
            Point::After(write)
        };
        killer.aim(&operator, Some(point))?;
        let slots = MANAGED + EXTERNAL;
        let all = round == 0;
        let changes: Vec<_> = if all {
            (0..slots).collect()
        } else {
            (0..CHANGES).map(|_| dice.random_range(0..slots)).collect()
        };
        for slot in changes {
            toggle(scene, &squid, slot).await?;
        }
        killer.strikes().await?;
        operator = operator.again().await?;
    }
    let names = all_is_well(scene, PATIENCE).await?;
    census.pods()?;
    let shown = operator.shown().await?;
    let ids: Vec<_> = names
        .iter()
        .map(|name| format!("{}/{name}", scene.namespace()))
        .collect();
    ensure!(shown == ids, "shown {shown:?}, there are {ids:?}");
    delete_all(scene).await?;
    nothing_is_left(scene, PATIENCE).await?;
    runs(&operator)
}

/// Creates the proxy of this slot, or deletes it if it is there.
async fn toggle(scene: &Scene, squid: &Squid, slot: usize) -> anyhow::Result<()> {
    let name = format!("p-{slot:02}");
    let proxies: Api<Proxy> = scene.api();
    match proxies.get_opt(&name).await? {
        None => {
            let draft = if slot < MANAGED {
                proxy(&name).managed_by("kubernetes")
            } else {
                proxy(&name).through(squid)
            };
            scene.apply(draft).await?;
        }
        Some(there) if there.is_deleting() => {}
        Some(there) => {
            Applied::new(scene.clone(), there.name_any())
                .delete()
                .await?;
        }
    }
    Ok(())
}

fn runs(operator: &Operator) -> anyhow::Result<()> {
    operator.pid().map(drop)
}
