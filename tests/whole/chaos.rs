//! Chaos: a monkey kills an actor every 20 ms for a minute, while crawlers lease from two hundred
//! proxies. Nothing granted is lost or granted beyond what there is, no crawler sees anything but
//! documented answers, and ten seconds after the last kill all is as before.
//!
//! `CHAOS_SEED=…` repeats the choices of a run, `CHAOS_SECONDS=…` makes it another length.
//!
//! | file | is |
//! |---|---|
//! | [`crawler`] | one of many that lease all the time, and check every answer |
//! | [`books`] | who holds what, as the crawlers know it |

mod books;
mod crawler;

use crate::{
    lab::{
        Scene,
        guest::BOOT,
        hypervisor::Hypervisor,
        image_server::Manner,
        operator::{KUBERNETES, Operator},
        proxy::{PATIENCE, proxy},
        squid::{self, Squid},
    },
    whole::{
        faults::{Census, all_is_well},
        kvm_life::{self, Kvm},
    },
};
use anyhow::{Context as _, ensure};
use books::Books;
use crawler::Crawlers;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Existing proxies, through a few real Squids.
const EXTERNAL: usize = 194;
/// Pods on the real node.
const PODS: usize = 5;
/// And one VM, so that there is a connection to a host.
const ALL: usize = EXTERNAL + PODS + 1;
const SQUIDS: usize = 3;
const CRAWLERS: usize = 64;
const MAX_LEASES: u64 = 2;
/// How long the crawlers work before and after, in which memory is weighed.
const CALM: Duration = Duration::from_secs(15);
/// Within this time of the last kill all is as before.
const RECOVERY: Duration = Duration::from_secs(10);
/// Memory may be this much more than before.
const GROWTH: f64 = 1.10;

/// A monkey for a minute.
pub async fn a_monkey_changes_nothing(scene: Scene) -> anyhow::Result<()> {
    let seconds: u64 = number("CHAOS_SECONDS").unwrap_or(60);
    let seed: u64 = number("CHAOS_SEED").unwrap_or_else(|| rand::random::<u32>().into());
    eprintln!("chaos: CHAOS_SEED={seed} CHAOS_SECONDS={seconds}");
    let kvm = Kvm::new(&scene).await?;
    let host = scene.lab().hosts.own().await?;
    let operator = scene
        .operator()
        .with_providers(&format!(
            "{}{KUBERNETES}\n",
            kvm.providers(&[("one", &host)])
        ))
        .env("PROXY_OPERATOR_ADMIN_ADDR", "127.0.0.1:0")
        .env("PROXY_OPERATOR_ENABLE_CHAOS", "true")
        // An ended lease is kept for a cooldown: a short one, so that the ledger is as large in the end
        // as in the beginning.
        .env("PROXY_OPERATOR_LEASE_COOLDOWN", "2s")
        .env("PROXY_OPERATOR_BAN_COOLDOWN", "2s")
        // As the image has it.
        .env("MALLOC_ARENA_MAX", "2")
        .logging("info")
        .start()
        .await?;
    let _squids = fleet(&scene).await?;
    all_is_well(&scene, BOOT).await?;
    let (pods, guests) = (uids(&scene).await?, guests(&host).await?);
    ensure!(guests.len() == 1, "{guests:?}");
    let census = Census::begin(&scene);

    let books = Arc::new(Books::new(MAX_LEASES));
    let crawlers = Crawlers::begin(CRAWLERS, operator.api, &books);
    // The room that a restart of everything takes once is no growth: the fleet that goes and the one that
    // comes stand beside each other for a moment.
    let (status, said) = operator.end("leader", "kill").await?;
    ensure!(status == 202, "{status} {said}");
    sleep(CALM).await;
    all_is_well(&scene, PATIENCE).await?;
    let before = rss_mib(operator.pid()?)?;
    let calm = books.turn();

    are_struck_alone(&scene, &kvm, &operator, seed).await?;
    let wish = json!({"everyMillis": 20, "durationSeconds": seconds, "seed": seed});
    let (status, run) = operator
        .ask_admin(Method::POST, "/admin/chaos", Some(wish))
        .await?;
    ensure!(status == 202 && run["seed"] == seed, "{status} {run}");
    let run = ended(&operator, seconds).await?;
    let peak = rss_mib(operator.pid()?)?;
    let quiet = Instant::now();
    let chaos = books.turn();
    all_is_well(&scene, RECOVERY)
        .await
        .with_context(|| format!("not well {RECOVERY:?} after the last kill, seed {seed}"))?;
    ready_in_the_api(&operator, RECOVERY.saturating_sub(quiet.elapsed())).await?;
    let well = quiet.elapsed();

    sleep(CALM).await;
    let after = memory_is_back(operator.pid()?, before).await?;
    crawlers.end().await?;
    let recovered = books.turn();
    everybody_was_hit(&operator, &run).await?;
    ensure!(uids(&scene).await? == pods, "other pods than before");
    let found = self::guests(&host).await?;
    ensure!(found == guests, "{found:?} instead of {guests:?}");
    let ever = census.pods()?;
    ensure!(ever.len() == PODS, "pods came and went: {ever:#?}");

    let kills = &run["killsByKind"];
    eprintln!("chaos: {} kills with seed {seed}: {kills}", run["kills"]);
    for (when, tally) in [("before", &calm), ("during", &chaos), ("after", &recovered)] {
        eprintln!("chaos: {when}: {tally}");
    }
    eprintln!(
        "chaos: all was well {:.1} s after the last kill; {before:.0} MiB before, \
         {peak:.0} at the last kill, {after:.0} after",
        well.as_secs_f64()
    );
    let wrong = books.wrong();
    ensure!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    Ok(())
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Applies the proxies; keep the Squids that it returns.
async fn fleet(scene: &Scene) -> anyhow::Result<Vec<Squid>> {
    let mut squids = Vec::new();
    for _ in 0..SQUIDS {
        squids.push(Squid::start(squid::Options::default()).await?);
    }
    // At every tenth second: the machine has other things to do, too.
    let spec = || json!({"maxLeases": MAX_LEASES, "healthCheck": {"periodSeconds": 10}});
    let external = (0..EXTERNAL).map(|n| {
        let draft = proxy(&format!("external-{n:03}"));
        draft.through(&squids[n % SQUIDS]).with(spec())
    });
    let pods = (0..PODS).map(|n| {
        proxy(&format!("pod-{n}"))
            .managed_by("kubernetes")
            .with(spec())
    });
    let vm = Kvm::proxy("vm", "one", "debian").cloud_init(&kvm_life::squid());
    let drafts: Vec<_> = external.chain(pods).chain([vm.with(spec())]).collect();
    stream::iter(drafts)
        .map(|draft| scene.apply(draft))
        .buffer_unordered(8)
        .try_collect::<Vec<_>>()
        .await?;
    Ok(squids)
}

async fn uids(scene: &Scene) -> anyhow::Result<BTreeSet<String>> {
    let pods = scene.pods().await?;
    Ok(pods
        .into_iter()
        .filter_map(|pod| pod.metadata.uid)
        .collect())
}

/// The domains of a host, and which run of them it is.
async fn guests(host: &Hypervisor) -> anyhow::Result<BTreeMap<String, String>> {
    let mut runs = BTreeMap::new();
    for name in host.domains().await?.into_keys() {
        let run = host.virsh(&["domid", &name]).await?;
        runs.insert(name, run.trim().to_owned());
    }
    Ok(runs)
}

/// Those who copy an image are there only while somebody needs it, and hardly when everybody else is struck, too: so
/// it is their turn first. A VM whose image trickles comes and goes.
async fn are_struck_alone(
    scene: &Scene,
    kvm: &Kvm,
    operator: &Operator,
    seed: u64,
) -> anyhow::Result<()> {
    let trickle = Manner {
        speed: Some(50_000),
        ..Manner::default()
    };
    kvm.images.behave("/halting", trickle);
    let wish =
        json!({"match": "transfer", "everyMillis": 20, "durationSeconds": 3600, "seed": seed});
    let (status, run) = operator
        .ask_admin(Method::POST, "/admin/chaos", Some(wish))
        .await?;
    ensure!(status == 202, "{status} {run}");
    let late = scene.apply(Kvm::proxy("late", "one", "halting")).await?;
    crate::lab::eventually("a transfer is killed", PATIENCE, || async {
        let (_, run) = operator
            .ask_admin(Method::GET, "/admin/chaos", None)
            .await?;
        Ok((run["killsByKind"]["transfer"].as_u64() > Some(0)).then_some(()))
    })
    .await?;
    let (status, run) = operator
        .ask_admin(Method::DELETE, "/admin/chaos", None)
        .await?;
    ensure!(status == 200 && run["running"] == false, "{status} {run}");
    kvm.images.behave("/halting", Manner::default());
    late.delete().await?;
    late.is_gone().await
}

/// Waits until the monkey has had enough.
async fn ended(operator: &Operator, seconds: u64) -> anyhow::Result<Value> {
    let until = Instant::now() + Duration::from_secs(seconds) + PATIENCE;
    loop {
        let (status, run) = operator
            .ask_admin(Method::GET, "/admin/chaos", None)
            .await?;
        ensure!(status == 200, "the monkey is gone: {status} {run}");
        if run["running"] == false {
            return Ok(run);
        }
        ensure!(Instant::now() < until, "the monkey does not end: {run}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Every proxy is offered as healthy.
async fn ready_in_the_api(operator: &Operator, patience: Duration) -> anyhow::Result<()> {
    crate::lab::eventually("every proxy is offered", patience, || async {
        let (status, list) = operator.get("/v1/proxies?healthy=true").await?;
        Ok((status == 200 && list["count"] == ALL).then_some(()))
    })
    .await
}

/// Every kind that there is was struck, but for those that are spared; and so the counters say.
async fn everybody_was_hit(operator: &Operator, run: &Value) -> anyhow::Result<()> {
    let (status, list) = operator
        .ask_admin(Method::GET, "/admin/actors", None)
        .await?;
    ensure!(status == 200, "{status} {list}");
    let actors = list["actors"].as_array().context("actors")?;
    let kinds: BTreeSet<_> = actors
        .iter()
        .filter_map(|actor| actor["kind"].as_str())
        .collect();
    let metrics = operator.scrape().await?;
    for kind in kinds
        .iter()
        .filter(|kind| !["root", "monkey"].contains(kind))
    {
        let kills = run["killsByKind"][kind].as_u64();
        ensure!(kills > Some(0), "no {kind} was struck: {run}");
        let series = format!("actor_restarts_total{{kind=\"{kind}\",reason=\"killed\"}}");
        ensure!(metrics.contains(&series), "no {series}");
    }
    // Nobody failed by itself on the way.
    let failed: Vec<_> = metrics
        .lines()
        .filter(|line| line.contains("actor_restarts_total{"))
        .filter(|line| !line.contains("reason=\"killed\""))
        .collect();
    ensure!(failed.is_empty(), "{failed:#?}");
    Ok(())
}

async fn memory_is_back(pid: u32, before: f64) -> anyhow::Result<f64> {
    let until = Instant::now() + PATIENCE;
    loop {
        let now = rss_mib(pid)?;
        if now <= before * GROWTH {
            return Ok(now);
        }
        ensure!(
            Instant::now() < until,
            "{now:.1} MiB, {before:.1} MiB before"
        );
        sleep(Duration::from_secs(1)).await;
    }
}

fn rss_mib(pid: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let fields: BTreeMap<_, _> = status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let kib = fields
        .get("VmRSS")
        .and_then(|size| size.split_whitespace().next());
    let kib: f64 = kib.context("VmRSS")?.parse()?;
    Ok(kib / 1024.0)
}
