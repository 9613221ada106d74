//! An operator to be started.

use super::{KUBERNETES, Operator};
use crate::lab::Scene;
use anyhow::Context as _;
use std::{
    fs::{self, File},
    path::PathBuf,
    process::Stdio,
};
use tokio::process::{Child, Command};

/// An operator to be started.
pub struct Launch {
    scene: Scene,
    pub(super) providers: String,
    namespaced: bool,
    kubeconfig: PathBuf,
    environment: Vec<(String, String)>,
    level: String,
    pub(super) log: PathBuf,
    pub(super) config: PathBuf,
    /// The providers file is somebody else's.
    mounted: bool,
}

impl Launch {
    pub(in crate::lab) fn new(scene: Scene, number: u32) -> Self {
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
