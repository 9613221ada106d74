//! Creations that fail after they were accepted.

use super::google::{AT_ONCE, Google, IMAGE, PROJECT, ZONE, id, operation};
use crate::lab::{
    Scene,
    gce::operation::Failure,
    proxy::{Applied, condition},
};
use anyhow::{Context as _, ensure};
use crds::{Phase, conditions::ConditionType};
use futures::future::try_join_all;
use serde_json::json;
use std::time::Duration;

/// Longer than a look at a VM that is on its way, and than the first pauses after an error. The next try
/// after no room is minutes away.
const CALM: Duration = Duration::from_secs(12);

/// How a creation fails, and what is said then.
struct Case {
    name: &'static str,
    zone: &'static str,
    failure: Failure,
    reason: &'static str,
    phase: Phase,
}

fn cases() -> [Case; 3] {
    let quota = Failure::quota("CPUS", 24.0, "us-central1");
    let [exhausted, full, imageless] = ["europe-west1-b", "us-central1-a", "asia-east1-c"];
    [
        Case {
            name: "exhausted",
            zone: exhausted,
            failure: Failure::exhausted(PROJECT, exhausted),
            reason: "QuotaExceeded",
            phase: Phase::Provisioning,
        },
        Case {
            name: "full",
            zone: full,
            failure: quota,
            reason: "QuotaExceeded",
            phase: Phase::Provisioning,
        },
        Case {
            name: "imageless",
            zone: imageless,
            failure: Failure::image(IMAGE),
            reason: "PermanentError",
            phase: Phase::Failed,
        },
    ]
}

/// No room, no quota, no image: told with Google's own code and words, not tried again at once, and healed
/// by a change of the spec.
pub async fn a_creation_that_fails_late_is_told(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    let _operator = google.operator()?.start().await?;
    let cases = cases();
    for case in &cases {
        let part = format!("zones/{}/", case.zone);
        let failure = (part, case.failure.clone());
        google.gce.world().failures.push_back(failure);
    }
    let proxies = cases
        .iter()
        .map(|case| scene.apply(google.proxy(case.name, case.zone)));
    let proxies = try_join_all(proxies).await?;
    let mut first = Vec::new();
    for (proxy, case) in proxies.iter().zip(&cases) {
        first.push(is_told(proxy, case).await?);
        let event = proxy.event("ProvisioningFailed").await?;
        let words = [&case.failure.code, &case.failure.message];
        ensure!(words.iter().all(|word| event.contains(*word)), "{event}");
    }
    tokio::time::sleep(CALM).await;
    for case in &cases {
        let made = google.ever_made(case.zone);
        ensure!(made.len() == 1, "{}: {made:?}", case.name);
        ensure!(google.asked_with(case.zone).len() == 1, "{}", case.name);
    }
    for ((proxy, case), first) in proxies.iter().zip(&cases).zip(&first) {
        proxy.change(json!({"spec": {"maxLeases": 3}})).await?;
        let object = proxy.becomes(Phase::Ready).await?;
        ensure!(operation(&object)? != *first, "{}", case.name);
        // Another creation, although of the same spec and for the same owner.
        let made = google.ever_made(case.zone);
        ensure!(made.len() == 2 && made[0].1 != made[1].1, "{made:?}");
    }
    try_join_all(proxies.iter().map(Applied::delete)).await?;
    try_join_all(proxies.iter().map(Applied::is_gone)).await?;
    google.is_left_clean()
}

/// The operator is killed while Google has not made up its mind; the next one reads the operation.
pub async fn a_late_failure_survives_a_death(scene: Scene) -> anyhow::Result<()> {
    let [case, ..] = cases();
    // Nothing happens before it is told to.
    let google = Google::new(&scene, 0.0).await?;
    let mut operator = google.operator()?.start().await?;
    let failure = (case.name.to_owned(), case.failure.clone());
    google
        .gce
        .world()
        .failures
        .push_back((String::new(), failure.1));
    let a = scene.apply(google.proxy(case.name, ZONE)).await?;
    let object = a.says(ConditionType::Provisioned, "Booting").await?;
    let first = operation(&object)?;
    ensure!(id(&object).is_some(), "{:?}", object.status);

    operator.kill().await?;
    google.gce.advance(Duration::from_mins(1));
    google.gce.set_speed(AT_ONCE);
    let _operator = operator.again().await?;
    ensure!(is_told(&a, &case).await? == first);
    tokio::time::sleep(CALM / 3).await;
    ensure!(google.ever_made(ZONE).len() == 1);
    ensure!(google.asked_with(ZONE).len() == 1);

    a.change(json!({"spec": {"maxLeases": 3}})).await?;
    a.becomes(Phase::Ready).await?;
    google.makes(ZONE, 2).await?;
    a.delete().await?;
    a.is_gone().await?;
    google.is_left_clean()
}

/// The operation that it is told of.
async fn is_told(proxy: &Applied, case: &Case) -> anyhow::Result<String> {
    let object = proxy.says(ConditionType::Provisioned, case.reason).await?;
    let said = condition(&object, ConditionType::Provisioned).context("said")?;
    let words = format!("{}: {}", case.failure.code, case.failure.message);
    ensure!(said.0 == "False" && said.2.contains(&words), "{said:?}");
    let phase = object.status.as_ref().and_then(|status| status.phase);
    ensure!(phase == Some(case.phase), "{phase:?}");
    ensure!(id(&object).is_none(), "{:?}", object.status);
    operation(&object)
}
