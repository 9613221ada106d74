//! The cluster that `cluster.sh` makes.

use crate::whole::crds::Kubectl;
use anyhow::{Context as _, bail, ensure};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A cluster: control plane, node, and the image `lab.local/squid:1` on it.
pub struct Cluster {
    folder: PathBuf,
    index: u8,
    /// For `kubectl` and operators, with all rights.
    pub kubeconfig: PathBuf,
    kubectl: PathBuf,
}

impl Cluster {
    /// Whether there can be one here.
    pub fn is_possible() -> bool {
        let user = Command::new("id").arg("-u").output();
        user.is_ok_and(|output| output.stdout == b"0\n")
    }

    /// Starts one, after removing what an earlier run left behind. Takes 15 seconds once all is
    /// built, minutes before that.
    ///
    /// # Errors
    /// What the script says is missing or did not come up.
    pub fn start(folder: &Path, index: u8) -> anyhow::Result<Self> {
        let output = script(folder, index, "all")
            .env("LAB_OWNER", std::process::id().to_string())
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "cluster.sh all: {}", output.status);
        let said = String::from_utf8(output.stdout)?;
        let path = |key: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(key));
            line.map(PathBuf::from)
                .with_context(|| format!("{key} in {said:?}"))
        };
        Ok(Self {
            folder: folder.to_owned(),
            index,
            kubeconfig: path("kubeconfig=")?,
            kubectl: path("kubectl=")?,
        })
    }

    /// Ends and removes it, in whatever state it is.
    ///
    /// # Errors
    /// What the script says.
    pub fn down(folder: &Path, index: u8) -> anyhow::Result<()> {
        let status = script(folder, index, "down")
            .env("LAB_OWNER", std::process::id().to_string())
            .status()?;
        ensure!(status.success(), "cluster.sh down: {status}");
        Ok(())
    }

    /// One of the faults that the script can make: `["freeze", "apiserver"]`, `["cut"]`, …
    ///
    /// # Errors
    /// What the script says.
    pub async fn fault(&self, words: &[&str]) -> anyhow::Result<()> {
        let (verb, rest) = words.split_first().context("a verb")?;
        let mut command = script(&self.folder, self.index, verb);
        command.args(rest);
        let output = tokio::process::Command::from(command).output().await?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("cluster.sh {words:?}: {said}");
        }
        Ok(())
    }

    /// What the API server notes of writes, a line of JSON each.
    pub fn audit_log(&self) -> PathBuf {
        let place = self.folder.join(format!("k8s{}", self.index));
        place.join("log/audit.log")
    }

    /// This machine as only this cluster's pods reach it.
    pub fn host(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 76, self.index, 254)
    }

    /// `kubectl`, with all rights.
    pub fn kubectl(&self) -> Kubectl<'_> {
        Kubectl {
            program: &self.kubectl,
            kubeconfig: &self.kubeconfig,
        }
    }

    /// A client with all rights.
    ///
    /// # Errors
    /// An unreadable kubeconfig.
    pub async fn client(&self) -> anyhow::Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(Client::try_from(config)?)
    }
}

fn script(folder: &Path, index: u8, verb: &str) -> Command {
    let mut command =
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/cluster.sh"));
    command
        .arg(verb)
        .arg(folder)
        .arg(index.to_string())
        .stdin(Stdio::null());
    command
}
