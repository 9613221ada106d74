//! The operator as it ships, in a process of its own.

use crate::{cluster::Cluster, wire::Wire};
use anyhow::{Context as _, ensure};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};
use tokio::{
    process::{Child, Command},
    time::sleep,
};

/// A running operator. Dropping it kills it.
pub struct Operator {
    child: Child,
    metrics: SocketAddr,
    home: tempfile::TempDir,
}

impl Operator {
    /// Starts one on `cluster` and waits until it serves.
    pub async fn start(cluster: &Cluster) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let [api, metrics, health] = [free()?, free()?, free()?];
        let providers = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/providers.yaml");
        let child = Command::new(env!("CARGO_BIN_EXE_proxy-operator"))
            .arg("--providers-config")
            .arg(providers)
            .args(["--discovery-addr", &api.to_string()])
            .args(["--metrics-bind-address", &metrics.to_string()])
            .args(["--health-probe-bind-address", &health.to_string()])
            .env("KUBECONFIG", &cluster.kubeconfig)
            .stdin(Stdio::null())
            .stderr(fs::File::create(home.path().join("log"))?)
            .kill_on_drop(true)
            .spawn()?;
        let mut operator = Self {
            child,
            metrics,
            home,
        };
        let begun = Instant::now();
        while operator.ready().await.unwrap_or(0) > 0 || operator.scrape().await.is_err() {
            let ended = operator.child.try_wait()?;
            ensure!(
                ended.is_none() && begun.elapsed() < Duration::from_secs(30),
                "the operator does not serve: {}",
                operator.log()
            );
            sleep(Duration::from_millis(50)).await;
        }
        Ok(operator)
    }

    pub fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("the operator ended")
    }

    /// What it logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// What it tells Prometheus.
    pub async fn scrape(&self) -> anyhow::Result<String> {
        let mut wire = Wire::open(self.metrics).await?;
        let (status, text) = wire
            .call(b"GET /metrics HTTP/1.1\r\nHost: lab\r\n\r\n")
            .await?;
        ensure!(status == 200, "{text}");
        Ok(text.to_owned())
    }

    /// How many proxies are Ready, as their objects say.
    pub async fn ready(&self) -> anyhow::Result<u64> {
        let text = self.scrape().await?;
        sum(&text, "proxy_operator_proxies{phase=\"Ready\"}")
    }

    /// Probes that succeeded so far.
    pub async fn probes(&self) -> anyhow::Result<u64> {
        let text = self.scrape().await?;
        sum(&text, "proxy_operator_healthcheck_duration_seconds_count{")
    }
}

/// The sum of all samples whose line starts so.
fn sum(text: &str, start: &str) -> anyhow::Result<u64> {
    text.lines()
        .filter(|line| line.starts_with(start))
        .map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<u64>()?))
        .sum()
}

fn free() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
