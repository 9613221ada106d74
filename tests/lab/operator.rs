//! A running operator.
//!
//! | file | is |
//! |---|---|
//! | [`launch`] | how it is started |
//! | [`asked`] | what it is asked over HTTP |

mod asked;
mod launch;

pub use launch::Launch;

use super::eventually;
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::{collections::BTreeMap, fs, net::SocketAddr, process::ExitStatus, time::Duration};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// A start that fails must fail soon; a busy machine gets some grace.
const PATIENCE: Duration = Duration::from_mins(3);

/// Those that every operator has.
const SERVERS: [&str; 3] = ["api", "ops/metrics", "ops/health"];

/// The entry of the lab's node in a providers file, a line of YAML.
pub const KUBERNETES: &str = "- {name: kubernetes, type: kubernetes, \
    kubernetes: {image: 'lab.local/squid:1', connectPorts: [443]}}";

/// A running operator; killed when it is dropped.
pub struct Operator {
    launch: Launch,
    process: Child,
    http: reqwest::Client,
    /// The lease API.
    pub api: SocketAddr,
    /// `/metrics`.
    pub metrics: SocketAddr,
    /// `/healthz` and `/readyz`.
    pub health: SocketAddr,
}

impl Operator {
    async fn new(launch: Launch, mut process: Child) -> anyhow::Result<Self> {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut found = BTreeMap::new();
        let listening = async {
            while !SERVERS.iter().all(|server| found.contains_key(*server)) {
                if let Some(status) = process.try_wait()? {
                    bail!("the operator ended: {status}");
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                // An operator that is started again writes on in the same log: the last word counts.
                found = addresses(&fs::read_to_string(&launch.log)?);
            }
            Ok(())
        };
        timeout(PATIENCE, listening)
            .await
            .context("the operator does not listen")??;
        let at = |server: &str| found.get(server).copied().unwrap_or(nowhere);
        Ok(Self {
            api: at("api"),
            metrics: at("ops/metrics"),
            health: at("ops/health"),
            http: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([])
                .timeout(Duration::from_secs(30))
                .build()?,
            launch,
            process,
        })
    }

    /// Waits until `/readyz` says so.
    ///
    /// # Errors
    /// That it never did.
    pub async fn is_ready(&mut self) -> anyhow::Result<()> {
        let ready = async {
            loop {
                if let Some(status) = self.process.try_wait()? {
                    bail!("the operator ended: {status}");
                }
                let url = format!("http://{}/readyz", self.health);
                match self.http.get(&url).send().await {
                    Ok(answer) if answer.status() == 200 => return Ok(()),
                    _ => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        timeout(PATIENCE, ready)
            .await
            .context("the operator does not become ready")?
    }

    /// Where the admin server is.
    ///
    /// # Errors
    /// That there is none.
    pub fn admin(&self) -> anyhow::Result<SocketAddr> {
        let found = addresses(&self.log()?);
        found.get("ops/admin").copied().context("an admin server")
    }

    /// The process.
    ///
    /// # Errors
    /// That it ended.
    pub fn pid(&self) -> anyhow::Result<u32> {
        self.process.id().context("the operator runs")
    }

    /// Has its providers file say this from here on, also when it is started again.
    ///
    /// # Errors
    /// The system's.
    pub fn configure(&mut self, yaml: &str) -> anyhow::Result<()> {
        yaml.clone_into(&mut self.launch.providers);
        Ok(fs::write(&self.launch.config, yaml)?)
    }

    /// The lines of its log with this message.
    ///
    /// # Errors
    /// An unreadable log.
    pub fn said(&self, message: &str) -> anyhow::Result<Vec<Value>> {
        let line = |line: &str| serde_json::from_str::<Value>(line).ok();
        let lines = self.log()?;
        let said = lines.lines().filter_map(line);
        Ok(said.filter(|line| line["msg"] == message).collect())
    }

    /// Waits until it has logged this message so many times.
    ///
    /// # Errors
    /// That it never did.
    pub async fn says(&self, message: &str, times: usize) -> anyhow::Result<Vec<Value>> {
        eventually(&format!("{times} times {message:?}"), PATIENCE, || async {
            Ok(Some(self.said(message)?).filter(|said| said.len() >= times))
        })
        .await
    }

    /// All that it logged, and its predecessors in this log.
    ///
    /// # Errors
    /// An unreadable log.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(&self.launch.log)?)
    }

    /// Asks it to stop, as Kubernetes does, and waits.
    ///
    /// # Errors
    /// That it did not end.
    pub async fn stop(&mut self) -> anyhow::Result<ExitStatus> {
        self.signal("-TERM").await?;
        self.ends().await
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// That it did not end.
    pub async fn ends(&mut self) -> anyhow::Result<ExitStatus> {
        timeout(PATIENCE, self.process.wait())
            .await
            .context("the operator does not stop")?
            .context("waiting for the operator")
    }

    /// Ends it without a word of warning.
    ///
    /// # Errors
    /// The system's.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill().await.context("killing the operator")
    }

    /// Sends it a signal, such as `-STOP`.
    ///
    /// # Errors
    /// That it ended before.
    pub async fn signal(&self, signal: &str) -> anyhow::Result<()> {
        let pid = self.pid()?.to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().await?;
        ensure!(sent.success(), "kill {signal} {pid}: {sent}");
        Ok(())
    }

    /// Starts its like, on ports of its own, after this one ended.
    ///
    /// # Errors
    /// As [`Launch::start`].
    pub async fn again(mut self) -> anyhow::Result<Self> {
        if self.process.try_wait()?.is_none() {
            self.kill().await?;
        }
        // The addresses of the one that ended must not be taken for those of the next.
        let ended = self.launch.log.with_extension("old.log");
        let mut old = fs::read_to_string(&ended).unwrap_or_default();
        old.push_str(&self.log()?);
        fs::write(&ended, old)?;
        fs::write(&self.launch.log, "")?;
        self.launch.start().await
    }
}

/// Where the servers listen, as the log says.
fn addresses(log: &str) -> BTreeMap<String, SocketAddr> {
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let server = line["server"].as_str()?.to_owned();
        Some((server, line["address"].as_str()?.parse().ok()?))
    };
    log.lines().filter_map(line).collect()
}
