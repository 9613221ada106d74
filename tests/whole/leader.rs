//! Five operators on one API server, of which one leads. They are frozen, cut off, killed and asked to
//! stop; never do two act at once, and the fleet goes on.
//!
//! The witness is the API server's own audit log, in which every request bears the name of the process
//! that sent it. Backend calls are in it too: the backend makes pods.
//!
//! | file | is |
//! |---|---|
//! | [`party`] | the five, and what can be done to them |
//! | [`audit`] | what the API server noted, and what must hold of it |

mod audit;
mod party;

use crate::lab::{
    Scene, eventually, proxy,
    squid::{self, Squid},
};
use ::crds::{Phase, Proxy};
use anyhow::{Context as _, ensure};
use audit::{Arrives, Audit, Story};
use kube::api::{Patch, PatchParams};
use party::{By, Cut, Party};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::{task::JoinHandle, time::sleep};

/// Longer than a leader may act after its last renewal, and shorter than others wait.
const LAPSES: Duration = Duration::from_secs(12);

/// From a SIGTERM until the next one leads.
const FOLLOWS: Duration = Duration::from_secs(2);

/// The leader is asked to stop, frozen until another leads, killed.
pub async fn stopped_frozen_and_killed(scene: Scene) -> anyhow::Result<()> {
    let mut stage = Stage::set(&scene, By::WaysOfTheirOwn).await?;
    let party = &mut stage.party;
    let fleet = Fleet(&scene);

    let leader = party.leader().await?;
    let begun = Instant::now();
    let ended = party.member(leader)?.operator.stop().await?;
    ensure!(ended.success(), "SIGTERM: {ended}");
    party.leader_but(leader).await?;
    let took = begun.elapsed();
    ensure!(took < FOLLOWS, "on SIGTERM followed after {took:?}");
    party.replace(&scene, leader).await?;
    fleet.turns_over(party, 1).await.context("after SIGTERM")?;

    // Thawed into the middle of its work.
    let leader = party.leader().await?;
    party.freeze(leader).await?;
    fleet.change(2).await?;
    party.leader_but(leader).await?;
    party.thaw(leader).await?;
    party.grants_nothing_of_its_own(leader).await?;
    fleet.turns_over(party, 2).await.context("after a freeze")?;

    let leader = party.leader().await?;
    party.member(leader)?.operator.kill().await?;
    fleet.change(3).await?;
    party.leader_but(leader).await?;
    party.replace(&scene, leader).await?;
    fleet.turns_over(party, 3).await.context("after SIGKILL")?;

    let story = stage.end(4, Arrives::Soon).await?;
    // The first hand-over is that on SIGTERM.
    let gap = story.gaps.first().context("a hand-over")?;
    ensure!(*gap < FOLLOWS, "{story:?}");
    eprintln!("leader: on SIGTERM followed after {took:?}: {story:?}");
    Ok(())
}

/// The leader is frozen, but not for long enough to be followed; then what it asks is lost, and what it is
/// answered.
pub async fn stalled_and_cut_off(scene: Scene) -> anyhow::Result<()> {
    let mut stage = Stage::set(&scene, By::WaysOfTheirOwn).await?;
    let party = &mut stage.party;
    let fleet = Fleet(&scene);

    let leader = party.leader().await?;
    let other = party.another(leader);
    party.freeze(leader).await?;
    party.freeze(other).await?;
    fleet.change(1).await?;
    sleep(LAPSES).await;
    party.thaw(leader).await?;
    party.thaw(other).await?;
    fleet.turns_over(party, 1).await.context("after a stall")?;

    for (turn, cut) in [(2, Cut::Requests), (3, Cut::Answers)] {
        let leader = party.leader().await?;
        party.cut(leader, cut);
        party.cut(party.another(leader), cut);
        fleet.change(turn).await?;
        party.leader_but(leader).await?;
        party.mend();
        let told = || format!("after {cut:?} were lost");
        fleet.turns_over(party, turn).await.with_context(told)?;
    }
    let story = stage.end(3, Arrives::Soon).await?;
    eprintln!("leader: stalled and cut off: {story:?}");
    Ok(())
}

/// All are cut off at once, and then the API server stands still: nobody is to blame, and whoever leads
/// afterwards, nothing of an earlier leader's arrives. Needs the cluster for itself.
pub async fn all_cut_off(scene: Scene) -> anyhow::Result<()> {
    let mut stage = Stage::set(&scene, By::TheNetwork).await?;
    let party = &mut stage.party;
    let fleet = Fleet(&scene);
    let faults = [["cut", "20"].as_slice(), &["freeze", "apiserver", "20"]];
    for (turn, fault) in (1..).zip(faults) {
        fleet.change(turn).await?;
        scene.lab().cluster.fault(fault).await?;
        let told = || format!("after {fault:?}");
        fleet.turns_over(party, turn).await.with_context(told)?;
    }
    // What was sent before the API server stood still is in its hands, and it answers it late.
    let story = stage.end(1, Arrives::Late).await?;
    eprintln!("leader: all cut off: {story:?}");
    Ok(())
}

/// Five operators, a proxy that stays, and somebody who keeps them busy.
struct Stage<'a> {
    scene: &'a Scene,
    party: Party,
    restless: JoinHandle<()>,
    _squid: Squid,
}

impl<'a> Stage<'a> {
    async fn set(scene: &'a Scene, by: By) -> anyhow::Result<Self> {
        let squid = Squid::start(squid::Options::default()).await?;
        let steady = proxy("steady").through(&squid);
        let steady = steady.with(json!({"maxLeases": 50}));
        scene.apply(steady).await?;
        let party = Party::start(scene, 5, by).await?;
        let restless = tokio::spawn(keep_writing(scene.clone()));
        let told = "at the start";
        Fleet(scene).turns_over(&party, 0).await.context(told)?;
        Ok(Self {
            scene,
            party,
            restless,
            _squid: squid,
        })
    }

    /// All end as they should, and the audit log tells of so many leaders and of nothing wrong.
    async fn end(self, leaders: usize, arrives: Arrives) -> anyhow::Result<Story> {
        self.restless.abort();
        let names = self.party.names();
        self.party.end().await?;
        let story = Audit::read(self.scene)?.judge(arrives);
        let story = story.with_context(|| names)?;
        ensure!(story.periods >= leaders, "{story:?}");
        ensure!(story.writes > 100 && story.pods >= 8, "{story:?}");
        Ok(story)
    }
}

/// Changes an object all the time, so that whoever leads has something to write.
async fn keep_writing(scene: Scene) {
    let (proxies, params) = (scene.api::<Proxy>(), PatchParams::default());
    for number in 0.. {
        let change = json!({"spec": {"attributes": {"turn": number.to_string()}}});
        let change = Patch::Merge(change);
        // What fails is tried again with the next one.
        proxies.patch("steady", &params, &change).await.ok();
        sleep(Duration::from_millis(150)).await;
    }
}

/// Proxies that come and go, so that somebody makes and deletes pods.
struct Fleet<'a>(&'a Scene);

impl Fleet<'_> {
    /// One proxy comes and the one before it goes.
    async fn change(&self, turn: u32) -> anyhow::Result<()> {
        let name = format!("turn-{turn}-early");
        self.0.apply(proxy(&name).managed_by("kubernetes")).await?;
        Ok(())
    }

    /// What came before the trouble is gone, what comes now becomes Ready, and every replica serves.
    async fn turns_over(&self, party: &Party, turn: u32) -> anyhow::Result<()> {
        let late = proxy(&format!("turn-{turn}")).managed_by("kubernetes");
        let late = self.0.apply(late).await?;
        late.becomes(Phase::Ready).await?;
        let proxies = self.0.api::<Proxy>();
        for proxy in proxies.list(&kube::api::ListParams::default()).await? {
            let name = kube::ResourceExt::name_any(&proxy);
            if name != "steady" {
                proxies
                    .delete(&name, &kube::api::DeleteParams::default())
                    .await?;
            }
        }
        eventually("only the steady one is left", party::PATIENCE, || async {
            let all = proxies.list(&kube::api::ListParams::default()).await?;
            let pods = self.0.pods().await?;
            Ok((all.items.len() == 1 && pods.is_empty()).then_some(()))
        })
        .await?;
        party.all_serve().await
    }
}
