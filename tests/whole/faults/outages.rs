//! The control plane is away for a while. Each of these breaks the whole cluster: they run alone.

use super::{
    census::{Census, all_is_well, delete_all, nothing_is_left},
    crawler::Crawler,
};
use crate::lab::{
    Scene, eventually,
    operator::Operator,
    proxy,
    proxy::Applied,
    squid::{self, Squid},
};
use anyhow::{Context as _, ensure};
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long it may take, once all is mended, until all is well: the longest pauses of the operator
/// and of TCP, which was cut for a minute, and then a proxy's life.
const CONVERGES: Duration = Duration::from_mins(2);
/// Before the outage there is no reason to wait that long.
const PATIENCE: Duration = Duration::from_secs(90);

/// The API server stands still: connections stay open, and nothing is answered.
pub async fn a_frozen_api_server(scene: Scene) -> anyhow::Result<()> {
    outlives(&scene, Loud::Yes, |scene, _| {
        async move { fault(scene, &["freeze", "apiserver", "30"]).await }.boxed()
    })
    .await
}

/// The API server ends and comes back.
pub async fn a_restarted_api_server(scene: Scene) -> anyhow::Result<()> {
    outlives(&scene, Loud::Yes, |scene, complaints| {
        async move {
            fault(scene, &["stop", "apiserver"]).await?;
            let noticed = complaints.noticed().await;
            fault(scene, &["start", "apiserver"]).await?;
            noticed
        }
        .boxed()
    })
    .await
}

/// Every packet to the cluster is lost for a minute.
pub async fn a_cut_network(scene: Scene) -> anyhow::Result<()> {
    outlives(&scene, Loud::Yes, |scene, _| {
        async move { fault(scene, &["cut", "60"]).await }.boxed()
    })
    .await
}

/// The API server is there, but cannot read or write.
pub async fn a_frozen_etcd(scene: Scene) -> anyhow::Result<()> {
    outlives(&scene, Loud::Yes, |scene, _| {
        async move { fault(scene, &["freeze", "etcd", "20"]).await }.boxed()
    })
    .await
}

/// Pods neither come nor go. Nothing that the operator asks fails, so it says nothing.
pub async fn a_frozen_kubelet(scene: Scene) -> anyhow::Result<()> {
    outlives(&scene, Loud::No, |scene, _| {
        async move { fault(scene, &["freeze", "kubelet", "20"]).await }.boxed()
    })
    .await
}

/// Whether the operator has something to complain about.
#[derive(PartialEq)]
enum Loud {
    Yes,
    No,
}

async fn fault(scene: &Scene, words: &[&str]) -> anyhow::Result<()> {
    scene.lab().cluster.fault(words).await
}

/// What the operator logged as wrong since a moment.
struct Complaints {
    operator: Arc<Operator>,
    from: usize,
}

impl Complaints {
    fn since_now(operator: &Arc<Operator>) -> anyhow::Result<Self> {
        Ok(Self {
            from: operator.log()?.len(),
            operator: Arc::clone(operator),
        })
    }

    /// About the API server, not about a proxy that is unhealthy.
    fn lines(&self) -> anyhow::Result<Vec<String>> {
        let log = self.operator.log()?;
        let news = log.get(self.from..).context("the log shrank")?;
        let wrong = |line: &&str| {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            line["level"] == "WARN" || line["level"] == "ERROR"
        };
        Ok(news.lines().filter(wrong).map(str::to_owned).collect())
    }

    async fn noticed(&self) -> anyhow::Result<()> {
        eventually("the operator complains", PATIENCE, || async {
            let lines = self.lines()?;
            Ok(lines.iter().any(|line| is_clear(line)).then_some(()))
        })
        .await
    }
}

/// Whether a line says that it is the API server that does not do its part.
fn is_clear(line: &str) -> bool {
    line.contains("the API server") || line.contains("cannot watch Proxies")
}

/// What the operator holds of the machine.
#[derive(Debug)]
struct Holdings {
    files: usize,
    kilobytes: usize,
}

impl Holdings {
    fn of(operator: &Operator) -> anyhow::Result<Self> {
        let process = format!("/proc/{}", operator.pid()?);
        let status = std::fs::read_to_string(format!("{process}/status"))?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|rest| rest.split_whitespace().next());
        Ok(Self {
            files: std::fs::read_dir(format!("{process}/fd"))?.count(),
            kilobytes: memory.context("VmRSS")?.parse()?,
        })
    }
}

async fn managed(scene: &Scene, names: &[&str]) -> anyhow::Result<()> {
    for name in names {
        scene.apply(proxy(name).managed_by("kubernetes")).await?;
    }
    Ok(())
}

async fn external(scene: &Scene, squid: &Squid, names: &[&str]) -> anyhow::Result<()> {
    for name in names {
        scene.apply(proxy(name).through(squid)).await?;
    }
    Ok(())
}

async fn delete(scene: &Scene, names: &[&str]) -> anyhow::Result<()> {
    for name in names {
        Applied::new(scene.clone(), (*name).to_owned())
            .delete()
            .await?;
    }
    Ok(())
}

/// Proxies are created and deleted right before the outage and right after it, and a crawler leases
/// all the time.
async fn outlives(
    scene: &Scene,
    loud: Loud,
    outage: impl for<'a> FnOnce(&'a Scene, &'a Complaints) -> BoxFuture<'a, anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = Arc::new(scene.operator().logging("info").start().await?);
    let census = Census::begin(scene);
    for number in 0..5 {
        let steady = proxy(&format!("steady-{number}")).through(&squid);
        let fleet = json!({"attributes": {"fleet": "steady"}, "maxLeases": 100});
        scene.apply(steady.with(fleet)).await?;
    }
    managed(scene, &["old-1", "old-2", "old-3"]).await?;
    external(scene, &squid, &["x-old-1", "x-old-2", "x-old-3"]).await?;
    all_is_well(scene, PATIENCE).await.context("before")?;
    let before = Holdings::of(&operator)?;
    let complaints = Complaints::since_now(&operator)?;
    let crawler = Crawler::begin(Arc::clone(&operator));

    managed(scene, &["new-1", "new-2"]).await?;
    external(scene, &squid, &["x-new-1", "x-new-2"]).await?;
    delete(scene, &["old-1", "x-old-1"]).await?;
    outage(scene, &complaints).await?;
    eventually("the API server is back", PATIENCE, || async {
        Ok(scene.pods().await.ok().map(drop))
    })
    .await?;
    managed(scene, &["newer-1"]).await?;
    external(scene, &squid, &["x-newer-1"]).await?;
    delete(scene, &["old-2", "x-old-2"]).await?;

    let names = all_is_well(scene, CONVERGES).await?;
    let live = [
        "new-1",
        "new-2",
        "newer-1",
        "old-3",
        "steady-0",
        "steady-1",
        "steady-2",
        "steady-3",
        "steady-4",
        "x-new-1",
        "x-new-2",
        "x-newer-1",
        "x-old-3",
    ];
    ensure!(names == live, "{names:?}");
    let leases = crawler.end().await.context("the lease API")?;
    ensure!(leases > 100, "only {leases} leases");
    census.pods()?;

    speaks_up_but_does_not_shout(&complaints, &loud)?;
    holds_no_more(&operator, &before, live.len()).await?;
    delete_all(scene).await?;
    nothing_is_left(scene, PATIENCE).await
}

/// A line a proxy and try, and there are pauses between tries: far from one a second.
fn speaks_up_but_does_not_shout(complaints: &Complaints, loud: &Loud) -> anyhow::Result<()> {
    const MOST: usize = 80;
    let lines = complaints.lines()?;
    let told = lines.join("\n");
    ensure!(lines.len() <= MOST, "{} lines:\n{told}", lines.len());
    let clear = lines.iter().any(|line| is_clear(line));
    ensure!(clear || *loud == Loud::No, "no clear line:\n{told}");
    Ok(())
}

async fn holds_no_more(operator: &Operator, before: &Holdings, live: usize) -> anyhow::Result<()> {
    const FILES: usize = 30;
    const KILOBYTES: usize = 40 * 1024;
    let actors = "proxy_operator_actors{kind=\"proxy\"}";
    eventually("connections are closed", PATIENCE, || async {
        let few = Holdings::of(operator)?.files <= before.files + FILES;
        Ok(few.then_some(()))
    })
    .await?;
    let after = Holdings::of(operator)?;
    ensure!(
        after.kilobytes <= before.kilobytes + KILOBYTES,
        "{before:?}, then {after:?}"
    );
    let running = operator.metric(actors).await?;
    ensure!(
        usize::try_from(running)? == live,
        "{running} proxy actors for {live}"
    );
    Ok(())
}
