//! The operator dies around a creation: one VM comes of it, whenever that is.

use super::google::{AT_ONCE, Google, INSERT, PROJECT, ZONE, id, operation};
use crate::lab::{
    Scene,
    gate::{Fate, Gate},
    gce::{
        faults::{Act, On},
        operation::Failure,
    },
    operator::Operator,
    proxy::{Applied, condition},
};
use anyhow::{Context as _, ensure};
use crds::{Phase, conditions::ConditionType};
use std::{sync::Arc, time::Duration};

/// Google has accepted the insert, and its answer does not come before the operator dies.
pub async fn killed_before_the_answer(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, 10.0).await?;
    let slow = Act::WaitAfter(Duration::from_mins(2));
    google.gce.order(On::method(INSERT), 1, slow);
    let mut operator = google.operator()?.start().await?;
    let a = scene.apply(google.proxy("a", ZONE)).await?;
    google.makes(ZONE, 1).await?;
    operator.kill().await?;
    let object = a.get().await?;
    ensure!(id(&object).is_none(), "recorded: {:?}", object.status);
    one_comes_of_it(&google, operator, &a).await
}

/// The operator knows of the operation, and dies before the API server hears of it.
pub async fn killed_before_the_record(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    let (_gate, operator, a) = killed_at_the_record(&google, &scene, Fate::Lose).await?;
    let object = a.get().await?;
    ensure!(id(&object).is_none(), "recorded: {:?}", object.status);
    one_comes_of_it(&google, operator, &a).await
}

/// The API server has recorded it, and the operator dies before it hears of that.
pub async fn killed_when_it_is_recorded(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    let (_gate, operator, a) = killed_at_the_record(&google, &scene, Fate::LoseAnswer).await?;
    let object = a.get().await?;
    ensure!(id(&object).is_some(), "not recorded: {:?}", object.status);
    operation(&object)?;
    one_comes_of_it(&google, operator, &a).await
}

/// The creation is bound to fail, which nobody has recorded: the next operator asks for the same and is told.
pub async fn killed_before_a_failure_is_recorded(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    let failure = Failure::exhausted(PROJECT, ZONE);
    let bound = (String::new(), failure.clone());
    google.gce.world().failures.push_back(bound);
    let (_gate, operator, a) = killed_at_the_record(&google, &scene, Fate::Lose).await?;
    let _operator = operator.again().await?;
    let object = a.says(ConditionType::Provisioned, "QuotaExceeded").await?;
    let said = condition(&object, ConditionType::Provisioned).context("said")?;
    ensure!(said.2.contains(&failure.message), "{said:?}");
    ensure!(google.ever_made(ZONE).len() == 1, "a second one");
    ensure!(google.asked_with(ZONE).len() == 1, "another request");
    a.delete().await?;
    a.is_gone().await?;
    google.is_left_clean()
}

/// Stops the first status after the insert, and kills the operator then.
async fn killed_at_the_record(
    google: &Google,
    scene: &Scene,
    fate: Fate,
) -> anyhow::Result<(Gate, Operator, Applied)> {
    let gate = Gate::new(scene).await?;
    let gce = Arc::clone(&google.gce);
    gate.those(fate, move |request| {
        request.uri().path().ends_with("/proxies/a/status") && gce.count(INSERT) > 0
    });
    google.write_key()?;
    let launch = google.with_file(gate.operator(scene));
    let mut operator = launch.start().await?;
    let a = scene.apply(google.proxy("a", ZONE)).await?;
    gate.stops(1).await?;
    operator.kill().await?;
    gate.open();
    Ok((gate, operator, a))
}

/// Started again, the operator finds what its predecessor made.
async fn one_comes_of_it(google: &Google, operator: Operator, a: &Applied) -> anyhow::Result<()> {
    let made = google.ever_made(ZONE);
    ensure!(made.len() == 1, "{made:?}");
    google.gce.set_speed(AT_ONCE);
    let _operator = operator.again().await?;
    let object = a.becomes(Phase::Ready).await?;
    let instance = google.instance(a).await?;
    ensure!(instance.id == made[0].0, "another one: {instance:?}");
    let key = format!("zones/{ZONE}/instances/{}", instance.name);
    ensure!(id(&object) == Some(&key), "{:?}", object.status);
    operation(&object)?;
    a.is_probed_again(3).await?;
    let again = google.ever_made(ZONE);
    ensure!(again == made, "a second one: {again:?}");
    let asked = google.asked_with(ZONE);
    ensure!(asked.len() == 1, "another request: {asked:?}");
    a.delete().await?;
    a.is_gone().await?;
    google.is_left_clean()
}
