//! Every fault at every step. Traps stop several VMs at steps of their own, all at once, and then the
//! fault strikes them together.

use super::{
    stand::{Stand, Target, path},
    step::{CREATE, DELETE, IMAGE, Moment, Step, Trap, around},
};
use crate::lab::{
    Scene, eventually, hypervisor::Daemon, image_server::Manner, proxy::Applied, proxy::condition,
};
use anyhow::{Context as _, ensure};
use crds::conditions::ConditionType;
use futures::future::try_join_all;
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// sshd dies with all connections.
    Sshd,
    /// libvirtd dies.
    Libvirtd,
    /// Packets are lost without a word.
    Cut,
    /// The operator dies.
    Operator,
    /// No byte is free in the pool.
    Full,
}

/// How many traps hold something at once of those whose calls share a line, which has four threads.
const ON_A_LINE: usize = 3;
/// Bytes that are left free at first, so that the file system can say where the rest went.
const NO_ROOM: u64 = 64 << 10;
const PATIENCE: Duration = Duration::from_mins(3);

pub async fn a_killed_sshd(scene: Scene) -> anyhow::Result<()> {
    strikes(scene, Fault::Sshd, 2).await
}

pub async fn a_killed_libvirtd(scene: Scene) -> anyhow::Result<()> {
    strikes(scene, Fault::Libvirtd, 2).await
}

/// Nobody hears of it but by the keepalive, which takes most of a minute: hence several hosts.
pub async fn a_cut_host(scene: Scene) -> anyhow::Result<()> {
    strikes(scene, Fault::Cut, 3).await
}

pub async fn a_killed_operator(scene: Scene) -> anyhow::Result<()> {
    strikes(scene, Fault::Operator, 1).await
}

pub async fn a_full_pool(scene: Scene) -> anyhow::Result<()> {
    strikes(scene, Fault::Full, 1).await
}

/// One strike: where things are held when it comes. Without a trap, an image is half-way.
type Round = Vec<Trap>;

async fn strikes(scene: Scene, fault: Fault, hosts: usize) -> anyhow::Result<()> {
    let seed = match std::env::var("FAULTS_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => rand::random(),
    };
    let rounds = rounds(&mut StdRng::seed_from_u64(seed));
    let stand = Stand::new(&scene, hosts).await?;
    let struck = try_join_all(stand.targets.iter().enumerate().map(|(number, target)| {
        let share: Vec<_> = rounds.iter().skip(number).step_by(hosts).collect();
        let (stand, first) = (&stand, 1 + number * 32 / hosts);
        async move {
            let deleted = share.iter().flat_map(|round| round.iter());
            let deleted = deleted.filter(|trap| DELETE.contains(&trap.step)).count();
            // One at least, so that the first image is there: no trap for images is meant for it.
            stand.apply(target, deleted + 1, 0).await?;
            stand.is_well(target).await.context("before")?;
            let mut image = first;
            for round in share {
                strike(stand, target, fault, round, &mut image)
                    .await
                    .with_context(|| format!("{fault:?} at {round:?}"))?;
            }
            anyhow::Ok(())
        }
    }));
    let struck = struck.await;
    let struck = struck.inspect_err(|error| println!("FAILED {fault:?}: {error:?}"));
    struck.with_context(|| format!("FAULTS_SEED={seed}"))?;
    stand.end().await
}

/// Every step's every moment once, at random: some domains that are made, with some images, or some that
/// go, which takes longer.
fn rounds(dice: &mut StdRng) -> Vec<Round> {
    let mut shuffled = |steps: &[Step]| {
        let mut traps = around(steps);
        traps.shuffle(dice);
        traps
    };
    let in_rounds = |traps: Vec<Trap>| {
        let rounds = traps.chunks(ON_A_LINE).map(<[Trap]>::to_vec);
        rounds.collect::<Vec<Round>>()
    };
    let mut rounds = in_rounds(shuffled(&CREATE));
    let count = rounds.len();
    for (number, trap) in shuffled(&IMAGE).into_iter().enumerate() {
        rounds[number % count].push(trap);
    }
    rounds.extend(in_rounds(shuffled(&DELETE)));
    rounds.extend(shuffled(&[Step::Dial]).into_iter().map(|trap| vec![trap]));
    rounds.push(Vec::new());
    rounds.shuffle(dice);
    rounds
}

async fn strike(
    stand: &Stand,
    target: &Target,
    fault: Fault,
    round: &Round,
    image: &mut usize,
) -> anyhow::Result<()> {
    target.wire.lay(round.clone());
    let count = |steps: &[Step]| {
        round
            .iter()
            .filter(|trap| steps.contains(&trap.step))
            .count()
    };
    let mut caught = stand.apply(target, count(&CREATE), 0).await?;
    for _ in 0..count(&IMAGE) {
        caught.extend(stand.apply(target, 1, *image).await?);
        *image += 1;
    }
    caught.extend(stand.delete(target, count(&DELETE)).await?);
    if count(&[Step::Dial]) > 0 {
        target.host.hang_up().await?;
        caught.extend(stand.apply(target, 1, 0).await?);
    }
    if round.is_empty() {
        caught.extend(half_an_image(stand, target, *image).await?);
    }
    let held = target.wire.all_sprung().await?;
    if fault != Fault::Full {
        stand.images_are_whole(target).await?;
    }
    // What was told to be done has nothing left to complain about.
    let last = [Step::Start, Step::DeleteSeed];
    let done: BTreeSet<_> = held
        .iter()
        .filter(|(_, trap)| trap.moment == Moment::After && last.contains(&trap.step))
        .map(|(about, _)| &**about)
        .collect();
    let done: Vec<_> = stand
        .of(&caught, &done)
        .await?
        .into_iter()
        .map(|it| it.name)
        .collect();
    caught.retain(|applied| !done.contains(&applied.name));
    // What waits for a dial says why after half a minute, which is seen once.
    let dials = |trap: &Trap| trap.step == Step::Dial && trap.moment != Moment::Before;
    if fault != Fault::Full && round.iter().any(dials) {
        caught.clear();
    }
    if fault == Fault::Full {
        // What has no room does not wait for the server.
        stand.images.behave(&path(*image), Manner::default());
    }
    befall(stand, target, fault, &caught).await?;
    stand.images.behave(&path(*image), Manner::default());
    if round.is_empty() {
        *image += 1;
    }
    stand.is_well(target).await
}

/// The server stops in the middle of an image.
async fn half_an_image(
    stand: &Stand,
    target: &Target,
    image: usize,
) -> anyhow::Result<Vec<Applied>> {
    let half = Manner {
        stall_after: Some(100_000),
        ..Manner::default()
    };
    stand.images.behave(&path(image), half);
    let applied = stand.apply(target, 1, image).await?;
    eventually("the image is on its way", PATIENCE, || async {
        let volumes = target.host.volumes().await?;
        let has = |name: &String| name.starts_with(&format!("base-img{image:02}"));
        Ok(volumes.iter().any(has).then_some(()))
    })
    .await?;
    Ok(applied)
}

/// The fault, from its beginning to its end; what is `caught` says meanwhile what is wrong.
async fn befall(
    stand: &Stand,
    target: &Target,
    fault: Fault,
    caught: &[Applied],
) -> anyhow::Result<()> {
    let (host, wire) = (&target.host, &target.wire);
    let told = || stand.say(target, caught, ConditionType::Synced, &[]);
    match fault {
        Fault::Sshd | Fault::Libvirtd => {
            let daemon = if fault == Fault::Sshd {
                Daemon::Sshd
            } else {
                Daemon::Libvirtd
            };
            host.stop(daemon).await?;
            wire.release();
            told().await?;
            host.start_again(daemon).await
        }
        Fault::Cut => {
            host.cut().await?;
            wire.release();
            told().await?;
            host.mend().await
        }
        Fault::Operator => {
            stand.kill().await?;
            wire.release();
            stand.start_again().await
        }
        Fault::Full => full(stand, target, caught).await,
    }
}

/// Some have got what they need already, others say that there is no room.
async fn full(stand: &Stand, target: &Target, caught: &[Applied]) -> anyhow::Result<()> {
    let filler = target.host.folder().join("disk/filler");
    target.host.fill(NO_ROOM).await?;
    // What the file system kept back is taken as well.
    let to_the_brim = "cat /dev/zero >>$1 2>/dev/null || true";
    let filler = filler.display().to_string();
    target
        .host
        .exec(&["sh", "-c", to_the_brim, "sh", &filler])
        .await?;
    target.wire.release();
    // This one comes when there is no room any more.
    let late = stand.apply(target, 1, 0).await?;
    let words = ["MiB free", "No space left", "no space left"];
    stand
        .say(target, &late, ConditionType::Provisioned, &words)
        .await?;
    let mut poor = late;
    for applied in caught {
        let settled = format!("{} has room or says that there is none", applied.name);
        let is_poor = eventually(&settled, PATIENCE, || async {
            let Ok(object) = applied.get().await else {
                return Ok(Some(false));
            };
            if object.metadata.deletion_timestamp.is_some() {
                return Ok(Some(false));
            }
            let (said, synced) = (
                condition(&object, ConditionType::Provisioned),
                condition(&object, ConditionType::Synced),
            );
            Ok(match said {
                Some((_, "QuotaExceeded", message)) => {
                    let named = message.contains(&format!("host {}", target.name));
                    ensure!(
                        named && words.iter().any(|word| message.contains(word)),
                        "{message}"
                    );
                    Some(true)
                }
                Some((_, "Booting", _)) => Some(false),
                _ => {
                    ensure!(synced.is_some(), "nothing is said");
                    None
                }
            })
        })
        .await?;
        if is_poor {
            poor.push(applied.clone());
        }
    }
    target.host.drain().await?;
    // Tried again every five minutes; whoever cannot wait changes the spec.
    for applied in &poor {
        applied.change(json!({"spec": {"maxLeases": 3}})).await?;
    }
    Ok(())
}
