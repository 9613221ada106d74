//! Credentials that change while the operator runs, or are not there yet.

use super::google::{AT_ONCE, EMAIL, Google, ZONE};
use crate::lab::{Scene, proxy::condition};
use anyhow::{Context as _, ensure};
use crds::{Phase, conditions::ConditionType};
use std::{fs, time::Duration};

/// Some tries, so that something could be told more than once.
const TRIES: Duration = Duration::from_secs(4);

/// A key that Google no longer takes is told; the next one is used as soon as the file has it.
pub async fn a_rotated_key_needs_no_restart(scene: Scene) -> anyhow::Result<()> {
    let google = Google::new(&scene, AT_ONCE).await?;
    let operator = google.operator()?.start().await?;
    let old = fs::read_to_string(&google.file)?;
    let a = scene.apply(google.proxy("a", ZONE)).await?;
    a.becomes(Phase::Ready).await?;

    google.gce.tokens().accounts.delete_keys(EMAIL);
    let b = scene.apply(google.proxy("b", ZONE)).await?;
    let object = b.says(ConditionType::Provisioned, "PermanentError").await?;
    let said = condition(&object, ConditionType::Provisioned).context("said")?;
    ensure!(
        said.2.contains("invalid authentication credentials"),
        "{said:?}"
    );
    google.write_key()?;
    ensure!(fs::read_to_string(&google.file)? != old, "the same key");
    b.becomes(Phase::Ready).await?;
    operator.shows(&[&a, &b]).await?;
    for proxy in [&a, &b] {
        proxy.delete().await?;
    }
    for proxy in [&a, &b] {
        proxy.is_gone().await?;
    }
    google.is_left_clean()
}

/// A file that is not there is one warning; what it held up goes on when it comes.
pub async fn a_missing_file_is_told_once_and_waited_for(scene: Scene) -> anyhow::Result<()> {
    const WARNING: &str = "no credentials for Google; they are used as soon as they are there";
    let google = Google::new(&scene, AT_ONCE).await?;
    // Checks and the collector ask, too, and make no more of it.
    let launch = google.with_file(scene.operator());
    let launch = launch
        .env("PROXY_OPERATOR_PROVIDER_CHECK_INTERVAL", "10s")
        .env("PROXY_OPERATOR_GC_INTERVAL", "1s");
    let operator = launch.start().await?;
    let a = scene.apply(google.proxy("a", ZONE)).await?;
    let object = a.says(ConditionType::Provisioned, "TransientError").await?;
    let said = condition(&object, ConditionType::Provisioned).context("said")?;
    let file = google.file.display().to_string();
    ensure!(said.2.contains(&file), "{said:?}");
    tokio::time::sleep(TRIES).await;
    let warned = operator.said(WARNING)?;
    ensure!(warned.len() == 1, "{warned:?}");
    let error = warned[0]["error"].as_str().unwrap_or_default();
    ensure!(error.contains(&file), "{warned:?}");
    ensure!(
        google.gce.requests().is_empty(),
        "{:?}",
        google.gce.requests()
    );

    google.write_key()?;
    a.becomes(Phase::Ready).await?;
    operator
        .says("the credentials for Google are there now", 1)
        .await?;
    ensure!(operator.said(WARNING)?.len() == 1);
    a.delete().await?;
    a.is_gone().await?;
    google.is_left_clean()
}
