//! A crawler that leases all the time, and somebody who asks whether the operator is alive.

use crate::lab::operator::Operator;
use anyhow::{Context as _, ensure};
use reqwest::Method;
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinHandle, time::MissedTickBehavior};

/// Between two leases: steady, but no load test.
const PACE: Duration = Duration::from_millis(50);
/// The slowest answer that a crawler would still call serving, on a busy machine.
const SLOWEST: Duration = Duration::from_secs(5);

/// A crawler at work.
pub struct Crawler {
    enough: oneshot::Sender<()>,
    leasing: JoinHandle<anyhow::Result<usize>>,
}

impl Crawler {
    /// Leases from the fleet `steady` from now on.
    pub fn begin(operator: Arc<Operator>) -> Self {
        let (enough, mut stop) = oneshot::channel();
        let leasing = tokio::spawn(async move {
            let mut pace = tokio::time::interval(PACE);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut leases = 0;
            loop {
                tokio::select! {
                    _ = &mut stop => return Ok(leases),
                    _ = pace.tick() => {}
                }
                once(&operator)
                    .await
                    .with_context(|| format!("after {leases} leases"))?;
                leases += 1;
            }
        });
        Self { enough, leasing }
    }

    /// Ends, and says how many leases were granted: every one that was asked for.
    pub async fn end(self) -> anyhow::Result<usize> {
        self.enough.send(()).ok();
        self.leasing.await?
    }
}

async fn once(operator: &Operator) -> anyhow::Result<()> {
    let begun = Instant::now();
    let wish = json!({"selector": {"fleet": "steady"}, "ttlSeconds": 30});
    let lease = operator.lease(wish).await?;
    operator.report(&lease, "ok").await?;
    let id = lease["leaseID"].as_str().context("an id")?;
    let path = format!("/v1/leases/{id}/renew");
    let (status, body) = operator.ask(Method::POST, &path, None).await?;
    ensure!(status == 200, "renew: {status} {body}");
    operator.release(&lease).await?;
    let (status, body) = operator.checkup("/healthz").await?;
    ensure!(status == 200, "healthz: {status} {body}");
    let took = begun.elapsed();
    ensure!(took < SLOWEST, "five calls took {took:?}");
    Ok(())
}
