//! Running it: metrics, health, logs, and how it ends.

use crate::lab::{
    Scene, eventually,
    proxy::{PATIENCE, proxy},
    squid::{self, Squid},
};
use anyhow::{Context as _, ensure};
use crds::Phase;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt as _, process::Command};

/// What this operator cannot show, and why.
const ABSENT: [(&str, &str); 1] = [(
    "proxy_operator_image_download_bytes_total",
    "only the kvm provider fetches images",
)];

/// Every metric is there, in good form, and tells what happened; what is gone is in none.
pub async fn metrics_tell_what_happened(scene: Scene) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let operator = scene
        .operator()
        .env("PROXY_OPERATOR_ADMIN_ADDR", "127.0.0.1:0")
        .env("PROXY_OPERATOR_ENABLE_CHAOS", "true")
        .env("PROXY_OPERATOR_GC_INTERVAL", "2s")
        .start()
        .await?;
    let managed = scene
        .apply(proxy("managed").managed_by("kubernetes"))
        .await?;
    let external = scene.apply(proxy("external").through(&squid)).await?;
    let down = scene.apply(proxy("down").at("127.0.0.1", 1)).await?;
    managed.becomes(Phase::Ready).await?;
    external.becomes(Phase::Ready).await?;
    down.becomes(Phase::Unhealthy).await?;
    let lease = operator.lease(json!({})).await?;
    operator.report(&lease, "banned").await?;
    operator
        .acquire(json!({"selector": {"geo": "nowhere"}}))
        .await?;

    // The first restart makes the series of restarts.
    let (status, said) = operator.end("ops/health", "kill").await?;
    ensure!(status == 202, "{status} {said}");

    let text = eventually("every metric is there", PATIENCE, || async {
        let text = operator.scrape().await?;
        Ok(documented(&text)?.then_some(text))
    })
    .await?;
    well_formed(&text).await?;
    for (series, value) in [
        ("proxies{phase=\"Ready\"}", 2),
        ("proxies{phase=\"Unhealthy\"}", 1),
        ("proxies{phase=\"Failed\"}", 0),
        ("leases_active", 1),
        ("leases_granted_total", 1),
        ("cooldowns_active", 1),
        ("lease_reports_total{result=\"banned\"}", 1),
        (
            "provider_requests_total{op=\"create\",provider=\"kubernetes\",result=\"ok\"}",
            1,
        ),
        ("actors{kind=\"proxy\"}", 3),
        ("actors{kind=\"prober\"}", 3),
    ] {
        let found = operator
            .metric(&format!("proxy_operator_{series} "))
            .await?;
        ensure!(found == value, "{series} is {found}, not {value}");
    }

    for proxy in [managed, external, down] {
        proxy.delete().await?;
        proxy.is_gone().await?;
    }
    eventually("gone proxies are in no series", PATIENCE, || async {
        let text = operator.scrape().await?;
        Ok((!text.contains(scene.namespace())).then_some(()))
    })
    .await?;
    let left = operator
        .metric("proxy_operator_actors{kind=\"proxy\"} ")
        .await?;
    ensure!(left == 0, "{left} proxy actors are left");
    Ok(())
}

/// Whether every documented metric is there; no other may be, nor one of another type.
fn documented(text: &str) -> anyhow::Result<bool> {
    let found: BTreeMap<_, _> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let documented = proxy_operator::reference::catalogue()?;
    for (name, kind) in &found {
        let known = documented.iter().find(|metric| metric.name == *name);
        ensure!(
            known.is_some_and(|metric| metric.kind == *kind),
            "{name} ({kind}) is not documented so: {known:?}"
        );
    }
    let absent = |name: &str| ABSENT.iter().any(|(absent, _)| *absent == name);
    let mut names = documented.iter().map(|metric| &*metric.name);
    Ok(names.all(|name| found.contains_key(name) || absent(name)))
}

/// `promtool` has no complaint.
async fn well_formed(metrics: &str) -> anyhow::Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/promtool.sh");
    let found = Command::new(script).output().await?;
    let said = String::from_utf8_lossy(&found.stderr);
    ensure!(found.status.success(), "promtool.sh: {said}");
    let mut promtool = Command::new(String::from_utf8(found.stdout)?.trim())
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = promtool.stdin.take().context("a pipe")?;
    stdin.write_all(metrics.as_bytes()).await?;
    drop(stdin);
    let checked = promtool.wait_with_output().await?;
    let said = [checked.stdout, checked.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(checked.status.success() && said.is_empty(), "{said}");
    Ok(())
}

/// Healthy from the start, ready when the Proxies are listed, whatever backends do; a word on both.
pub async fn it_says_how_it_is(scene: Scene) -> anyhow::Result<()> {
    let operator = scene.operator().start().await?;
    for path in ["/healthz", "/readyz"] {
        let (status, text) = operator.checkup(path).await?;
        ensure!(status == 200, "{path}: {status} {text}");
    }
    let (status, _) = operator.checkup("/nothing").await?;
    ensure!(status == 404, "{status}");

    // A backend that refuses everything makes nobody unready.
    let a = scene.apply(proxy("a").managed_by("elsewhere")).await?;
    a.becomes(Phase::Failed).await?;
    let (status, text) = operator.checkup("/readyz").await?;
    ensure!(status == 200, "{status} {text}");
    Ok(())
}

/// Each line of the log is an object with the documented keys, each once.
pub async fn logs_are_json_lines(scene: Scene) -> anyhow::Result<()> {
    let mut operator = scene
        .operator()
        .logging("debug")
        // Other scenarios' operators call their provider alike, and that is a reason to complain.
        .env("PROXY_OPERATOR_PROVIDER_CHECK_INTERVAL", "0")
        .start()
        .await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;
    let begun = Instant::now();
    let status = operator.stop().await?;
    let took = begun.elapsed();
    ensure!(status.code() == Some(0), "{status}");
    ensure!(took < Duration::from_secs(10), "stopped after {took:?}");

    let log = operator.log()?;
    let mut fields = BTreeSet::new();
    for line in log.lines() {
        let object: BTreeMap<String, Value> =
            serde_json::from_str(line).with_context(|| line.to_owned())?;
        for key in ["ts", "level", "target", "msg"] {
            let value = object.get(key).and_then(Value::as_str);
            ensure!(value.is_some_and(|text| !text.is_empty()), "{key}: {line}");
            ensure!(
                line.matches(&format!("\"{key}\":")).count() == 1,
                "{key}: {line}"
            );
        }
        let time = object["ts"].as_str().unwrap_or_default();
        ensure!(time.len() == 27 && time.ends_with('Z'), "{line}");
        let level = object["level"].as_str().unwrap_or_default();
        ensure!(
            ["ERROR", "WARN", "INFO", "DEBUG"].contains(&level),
            "{line}"
        );
        fields.extend(object.into_keys());
    }
    for field in ["proxy", "providerID", "server", "installation"] {
        ensure!(fields.contains(field), "no {field} in {fields:?}");
    }
    let ours = |line: &&str| {
        line.contains("\"target\":\"actors::") || line.contains("\"target\":\"proxy_operator")
    };
    let complaints: Vec<_> = log
        .lines()
        .filter(ours)
        .filter(|line| line.contains("\"level\":\"ERROR\"") || line.contains("\"level\":\"WARN\""))
        .filter(|line| !line.contains("DISCOVERY_TOKEN"))
        .collect();
    ensure!(
        complaints.is_empty(),
        "a quiet life is no reason to complain: {complaints:#?}"
    );
    Ok(())
}

/// A log that cannot be written holds nobody up, and goes on when it can be.
pub async fn a_full_disk_for_logs_is_not_missed(scene: Scene) -> anyhow::Result<()> {
    let disk = Disk::mount(&scene.path("disk")).await?;
    let log = disk.0.join("operator.log");
    let mut operator = scene
        .operator()
        .logging_to(log.clone())
        .logging("debug,hyper_util=trace")
        .start()
        .await?;
    let full = async || {
        let mut probe = File::options().append(true).open(&log)?;
        Ok(probe.write_all(&[b'\n'; 64]).is_err().then_some(()))
    };
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.becomes(Phase::Ready).await?;
    eventually("the disk is full", PATIENCE, full).await?;
    let b = scene.apply(proxy("b").managed_by("kubernetes")).await?;
    b.becomes(Phase::Ready).await?;
    operator.shows(&[&a, &b]).await?;
    operator.lease(json!({})).await?;

    fs::write(&log, "")?;
    b.delete().await?;
    b.is_gone().await?;
    eventually("it logs again", PATIENCE, || async {
        Ok(operator
            .log()?
            .contains("\"reason\":\"Deleted\"")
            .then_some(()))
    })
    .await?;
    let status = operator.stop().await?;
    ensure!(status.code() == Some(0), "{status}");
    Ok(())
}

/// A disk of its own, and a small one; gone when it is dropped.
struct Disk(PathBuf);

impl Disk {
    async fn mount(at: &Path) -> anyhow::Result<Self> {
        fs::create_dir(at)?;
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(at);
        let mounted = mount.status().await?;
        ensure!(mounted.success(), "mount: {mounted}");
        Ok(Self(at.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever writes there still keeps it until the end.
        let mut umount = std::process::Command::new("umount");
        umount.arg("--lazy").arg(&self.0).status().ok();
    }
}

/// Told to stop in the middle of its work it ends in time and leaves everything as it is.
pub async fn sigterm_ends_it_in_the_middle_of_work(scene: Scene) -> anyhow::Result<()> {
    let mut operator = scene.operator().start().await?;
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    a.until("there is an instance", |proxy| {
        proxy
            .status
            .as_ref()
            .is_some_and(|status| status.provider_id.is_some())
    })
    .await?;
    let begun = Instant::now();
    let status = operator.stop().await?;
    let took = begun.elapsed();
    ensure!(status.code() == Some(0), "{status}");
    ensure!(took < Duration::from_secs(10), "stopped after {took:?}");
    let pod = a.pod().await?;

    let operator = operator.again().await?;
    a.becomes(Phase::Ready).await?;
    ensure!(a.pod().await?.metadata.uid == pod.metadata.uid);
    operator.shows(&[&a]).await
}
