//! A running operator.

use super::{Scene, eventually, proxy::Applied};
use anyhow::{Context as _, bail, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    process::{Child, Command},
    time::timeout,
};

/// A start that fails must fail soon; a busy machine gets some grace.
const PATIENCE: Duration = Duration::from_mins(1);

/// Those that every operator has.
const SERVERS: [&str; 3] = ["api", "ops/metrics", "ops/health"];

/// The entry of the lab's node in a providers file, a line of YAML.
pub const KUBERNETES: &str = "- {name: kubernetes, type: kubernetes, \
    kubernetes: {image: 'lab.local/squid:1', connectPorts: [443]}}";

/// An operator to be started.
pub struct Launch {
    scene: Scene,
    providers: String,
    namespaced: bool,
    kubeconfig: PathBuf,
    environment: Vec<(String, String)>,
    level: String,
    log: PathBuf,
    config: PathBuf,
    /// The providers file is somebody else's.
    mounted: bool,
}

impl Launch {
    pub(super) fn new(scene: Scene, number: u32) -> Self {
        Self {
            // The file of every operator that is not given another.
            providers: format!("providers:\n{KUBERNETES}\n"),
            namespaced: true,
            kubeconfig: scene.lab().cluster.kubeconfig.clone(),
            environment: Vec::new(),
            level: "info,actors=debug,proxy_operator=debug".to_owned(),
            log: scene.path(&format!("operator-{number}.log")),
            config: scene.path(&format!("providers-{number}.yaml")),
            mounted: false,
            scene,
        }
    }

    /// With another providers file.
    pub fn with_providers(mut self, yaml: &str) -> Self {
        yaml.clone_into(&mut self.providers);
        self
    }

    /// With this providers file, as it is.
    pub fn with_providers_at(mut self, file: PathBuf) -> Self {
        (self.config, self.mounted) = (file, true);
        self
    }

    /// For all namespaces: a scenario that has the cluster to itself.
    pub fn for_all_namespaces(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// By way of another kubeconfig.
    pub fn through(mut self, kubeconfig: PathBuf) -> Self {
        self.kubeconfig = kubeconfig;
        self
    }

    /// With a variable in its environment, which is empty otherwise.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Logging at this level.
    pub fn logging(mut self, level: &str) -> Self {
        level.clone_into(&mut self.level);
        self
    }

    /// Logging to this file.
    pub fn logging_to(mut self, file: PathBuf) -> Self {
        self.log = file;
        self
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// That it never was, or ended, with what it said.
    pub async fn start(self) -> anyhow::Result<Operator> {
        let mut operator = self.spawn().await?;
        operator.is_ready().await?;
        Ok(operator)
    }

    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// That it never did, or ended, with what it said.
    pub async fn spawn(self) -> anyhow::Result<Operator> {
        let process = self.process()?;
        Operator::new(self, process).await
    }

    fn process(&self) -> anyhow::Result<Child> {
        if !self.mounted {
            fs::write(&self.config, &self.providers)?;
        }
        let log = File::options().append(true).create(true).open(&self.log)?;
        // Ends with us, even if we are killed.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_proxy-operator")])
            .arg("--providers-config")
            .arg(&self.config)
            .arg("--probe-ca-file")
            .arg(&self.scene.lab().judge_ca)
            .args(["--discovery-addr", "127.0.0.1:0"])
            .args(["--metrics-bind-address", "127.0.0.1:0"])
            .args(["--health-probe-bind-address", "127.0.0.1:0"])
            .args(["--installation-id", self.scene.namespace()])
            .args(["--log-level", &self.level])
            .env_clear()
            .env("KUBECONFIG", &self.kubeconfig)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true);
        if self.namespaced {
            command.args(["--proxy-namespace", self.scene.namespace()]);
        }
        command.spawn().context("starting the operator")
    }
}

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

    /// Asks the admin server: status and body.
    ///
    /// # Errors
    /// No answer, or a body that is no JSON.
    pub async fn ask_admin(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let url = format!("http://{}{path}", self.admin()?);
        let mut request = self.http.request(method, url);
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await
    }

    /// Ends an actor by `kill`, `panic` or `stop`.
    ///
    /// # Errors
    /// As [`Operator::ask_admin`].
    pub async fn end(&self, path: &str, how: &str) -> anyhow::Result<(u16, Value)> {
        let path = format!("/admin/actors/{path}/{how}");
        self.ask_admin(Method::POST, &path, None).await
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

    /// Asks the lease API: status and body, `null` for an empty one.
    ///
    /// # Errors
    /// No answer, or a body that is no JSON.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<(u16, Value)> {
        let mut request = self
            .http
            .request(method, format!("http://{}{path}", self.api));
        if let Some(body) = body {
            request = request.json(&body);
        }
        answer(request).await
    }

    /// As [`Operator::ask`], with a token.
    ///
    /// # Errors
    /// No answer, or a body that is no JSON.
    pub async fn ask_as(&self, token: &str, path: &str) -> anyhow::Result<(u16, Value)> {
        let url = format!("http://{}{path}", self.api);
        answer(self.http.get(url).bearer_auth(token)).await
    }

    /// `GET` on the lease API.
    ///
    /// # Errors
    /// As [`Operator::ask`].
    pub async fn get(&self, path: &str) -> anyhow::Result<(u16, Value)> {
        self.ask(Method::GET, path, None).await
    }

    /// Asks for a lease.
    ///
    /// # Errors
    /// As [`Operator::ask`].
    pub async fn acquire(&self, wish: Value) -> anyhow::Result<(u16, Value)> {
        self.ask(Method::POST, "/v1/leases", Some(wish)).await
    }

    /// A lease that has to be granted.
    ///
    /// # Errors
    /// That it was not.
    pub async fn lease(&self, wish: Value) -> anyhow::Result<Value> {
        let (status, lease) = self.acquire(wish.clone()).await?;
        ensure!(status == 201, "{wish}: {status} {lease}");
        Ok(lease)
    }

    /// Reports on a lease.
    ///
    /// # Errors
    /// That the report was not taken.
    pub async fn report(&self, lease: &Value, result: &str) -> anyhow::Result<()> {
        let id = lease["leaseID"].as_str().context("a leaseID")?;
        let path = format!("/v1/leases/{id}/report");
        let report = json!({"result": result});
        let (status, body) = self.ask(Method::POST, &path, Some(report)).await?;
        ensure!(status == 204, "{result}: {status} {body}");
        Ok(())
    }

    /// Gives a lease back.
    ///
    /// # Errors
    /// That it was not taken.
    pub async fn release(&self, lease: &Value) -> anyhow::Result<()> {
        let id = lease["leaseID"].as_str().context("a leaseID")?;
        let (status, body) = self
            .ask(Method::DELETE, &format!("/v1/leases/{id}"), None)
            .await?;
        ensure!(status == 204, "{status} {body}");
        Ok(())
    }

    /// The ids of all proxies that the lease API shows.
    ///
    /// # Errors
    /// As [`Operator::ask`].
    pub async fn shown(&self) -> anyhow::Result<Vec<String>> {
        let (status, body) = self.get("/v1/proxies").await?;
        ensure!(status == 200, "{status} {body}");
        ids_of(&body)
    }

    /// Waits until the lease API shows these proxies and no others; in the order of their names.
    ///
    /// # Errors
    /// That it never did.
    pub async fn shows(&self, proxies: &[&Applied]) -> anyhow::Result<()> {
        let ids: Vec<_> = proxies.iter().map(|proxy| proxy.id()).collect();
        let what = format!("the lease API shows {ids:?}");
        eventually(&what, PATIENCE, || async {
            Ok((self.shown().await? == ids).then_some(()))
        })
        .await
    }

    /// The same of one that asks for a token.
    ///
    /// # Errors
    /// That it never did.
    pub async fn shows_as(&self, token: &str, proxies: &[&Applied]) -> anyhow::Result<()> {
        let ids: Vec<_> = proxies.iter().map(|proxy| proxy.id()).collect();
        let what = format!("the lease API shows {ids:?}");
        eventually(&what, PATIENCE, || async {
            let (_, body) = self.ask_as(token, "/v1/proxies").await?;
            Ok((ids_of(&body)? == ids).then_some(()))
        })
        .await
    }

    /// The count of the series whose name and labels begin so; 0 if there is none.
    ///
    /// # Errors
    /// No answer.
    pub async fn metric(&self, series: &str) -> anyhow::Result<u64> {
        let text = self.scrape().await?;
        let line = text.lines().find(|line| line.starts_with(series));
        let value = line.and_then(|line| line.rsplit(' ').next());
        Ok(value.map_or(Ok(0), str::parse)?)
    }

    /// The text of `/metrics`.
    ///
    /// # Errors
    /// No answer.
    pub async fn scrape(&self) -> anyhow::Result<String> {
        let answer = self
            .http
            .get(format!("http://{}/metrics", self.metrics))
            .send()
            .await?;
        ensure!(answer.status() == 200, "{}", answer.status());
        Ok(answer.text().await?)
    }

    /// Status and text of a path on the health server.
    ///
    /// # Errors
    /// No answer.
    pub async fn checkup(&self, path: &str) -> anyhow::Result<(u16, String)> {
        let url = format!("http://{}{path}", self.health);
        let answer = self.http.get(url).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }
}

fn ids_of(list: &Value) -> anyhow::Result<Vec<String>> {
    let proxies = list["proxies"].as_array().context("proxies")?;
    let id = |view: &Value| view["id"].as_str().map(str::to_owned);
    Ok(proxies.iter().filter_map(id).collect())
}

async fn answer(request: reqwest::RequestBuilder) -> anyhow::Result<(u16, Value)> {
    let answer = request.send().await?;
    let (status, body) = (answer.status().as_u16(), answer.bytes().await?);
    if body.is_empty() {
        return Ok((status, Value::Null));
    }
    let body = serde_json::from_slice(&body)
        .with_context(|| format!("{status} {:?}", String::from_utf8_lossy(&body)))?;
    Ok((status, body))
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
