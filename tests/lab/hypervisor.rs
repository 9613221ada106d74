//! The hypervisors that `hypervisor.sh` makes, and the images for them that `guest-image.sh` makes.

use anyhow::{Context as _, bail, ensure};
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// How long a pool may be busy.
const REFRESH: Duration = Duration::from_mins(1);

/// A libvirt host: sshd, libvirtd, a bridge with DHCP, a pool. Dropping it ends and removes it, with
/// all guests, unless `KEEP=1`.
pub struct Hypervisor {
    folder: PathBuf,
    index: u8,
    /// Where its sshd listens.
    pub address: SocketAddr,
    /// The SSH user.
    pub user: String,
    /// The user's private key.
    pub key: PathBuf,
    /// A `known_hosts` file with the keys of all hosts of the folder.
    pub known_hosts: PathBuf,
    /// The bridge for guests.
    pub bridge: String,
    /// The storage pool.
    pub pool: String,
}

/// A daemon of a hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// With all its connections.
    Sshd,
    /// Guests run on without it.
    Libvirtd,
}

impl Hypervisor {
    /// Starts one, after removing what an earlier run left behind. Takes half a second; hosts of one
    /// folder may be started side by side. `index` (1 to 200) is its own on this machine.
    ///
    /// # Errors
    /// What the script says is missing or did not come up.
    pub async fn start(folder: &Path, index: u8) -> anyhow::Result<Self> {
        let mut command = script(folder, index, "up");
        command.stderr(Stdio::inherit());
        // The script runs on when the caller gives up, but what it has made is then on record.
        let output = tokio::process::Command::from(command).output().await?;
        ensure!(
            output.status.success(),
            "hypervisor.sh up {index}: {}",
            output.status
        );
        let said = String::from_utf8(output.stdout)?;
        let value = |key: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(key));
            line.with_context(|| format!("{key} in {said:?}"))
        };
        Ok(Self {
            address: value("address=")?.parse()?,
            user: value("user=")?.to_owned(),
            key: value("key=")?.into(),
            known_hosts: value("known_hosts=")?.into(),
            bridge: value("bridge=")?.to_owned(),
            pool: value("pool=")?.to_owned(),
            folder: folder.to_owned(),
            index,
        })
    }

    /// The socket of its libvirtd, which a process on this machine may open, too.
    pub fn libvirt_socket(&self) -> PathBuf {
        self.folder().join("run/libvirt-sock")
    }

    /// The folder of its files: `ssh/sshd_config`, logs, what libvirt keeps.
    pub fn folder(&self) -> PathBuf {
        self.folder.join(format!("hv{}", self.index))
    }

    /// Starts it anew, as the next run would after one that was killed: nothing is left of this one.
    ///
    /// # Errors
    /// What the script says.
    pub async fn start_over(&self) -> anyhow::Result<Self> {
        Self::start(&self.folder, self.index).await
    }

    /// Ends and removes one, in whatever state it is.
    ///
    /// # Errors
    /// What the script says.
    pub fn down(folder: &Path, index: u8) -> anyhow::Result<()> {
        let status = script(folder, index, "down").status()?;
        ensure!(status.success(), "hypervisor.sh down {index}: {status}");
        Ok(())
    }

    /// The indices of all hosts that there are in a folder, in whatever state.
    pub fn left_in(folder: &Path) -> Vec<u8> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter_map(|name| name.strip_prefix("hv")?.parse().ok())
            .collect()
    }

    /// Runs a command on the host, behind everybody's back, and gives what it printed.
    ///
    /// # Errors
    /// What the command says, if it fails.
    pub async fn exec(&self, command: &[&str]) -> anyhow::Result<String> {
        self.run("exec", command).await
    }

    /// `virsh` on the host.
    ///
    /// # Errors
    /// What it says, if it fails.
    pub async fn virsh(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let start = ["virsh", "-q", "-c", "qemu:///system"];
        self.exec(&[&start, arguments].concat()).await
    }

    /// Every packet to the host is lost without a word.
    ///
    /// # Errors
    /// What the script says, here and below.
    pub async fn cut(&self) -> anyhow::Result<()> {
        self.fault(&["cut"]).await
    }

    /// Packets come through again.
    pub async fn mend(&self) -> anyhow::Result<()> {
        self.fault(&["mend"]).await
    }

    /// Ends every SSH connection; new ones are taken.
    pub async fn hang_up(&self) -> anyhow::Result<()> {
        self.fault(&["hangup"]).await
    }

    /// Ends a daemon, and waits until it is gone.
    pub async fn stop(&self, daemon: Daemon) -> anyhow::Result<()> {
        self.fault(&["stop", daemon.name()]).await
    }

    /// Starts a daemon again, and waits until it answers.
    pub async fn start_again(&self, daemon: Daemon) -> anyhow::Result<()> {
        self.fault(&["start", daemon.name()]).await
    }

    /// Time stands still for a daemon.
    pub async fn freeze(&self, daemon: Daemon) -> anyhow::Result<()> {
        self.fault(&["freeze", daemon.name()]).await
    }

    /// Time goes on for a daemon.
    pub async fn thaw(&self, daemon: Daemon) -> anyhow::Result<()> {
        self.fault(&["thaw", daemon.name()]).await
    }

    /// Leaves so many bytes free in the pool's file system.
    pub async fn fill(&self, bytes: u64) -> anyhow::Result<()> {
        self.fault(&["fill", &bytes.to_string()]).await
    }

    /// Frees them again.
    pub async fn drain(&self) -> anyhow::Result<()> {
        self.fault(&["drain"]).await
    }

    /// The names of all volumes in the pool, as they are on its disk now.
    pub async fn volumes(&self) -> anyhow::Result<BTreeSet<String>> {
        // It is refused while anybody makes a volume; on a shared host, others do.
        let until = Instant::now() + REFRESH;
        while let Err(refused) = self.virsh(&["pool-refresh", &self.pool]).await {
            ensure!(Instant::now() < until, refused);
            sleep(Duration::from_millis(50)).await;
        }
        // Of the columns, only the path has an end that is sure.
        let listed = self.virsh(&["vol-list", &self.pool]).await?;
        let path = |line: &str| line.rsplit('/').next().map(|name| name.trim().to_owned());
        let lines = listed.lines().filter(|line| line.contains('/'));
        Ok(lines.filter_map(path).collect())
    }

    /// All domains by name, each with its state in libvirt's words (`running`, `shut off`, …).
    pub async fn domains(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let listed = self.virsh(&["list", "--all"]).await?;
        let lines = listed.lines().filter(|line| !line.trim().is_empty());
        let domain = |line: &str| {
            // Id, name, state; the state may be two words.
            let mut words = line.split_whitespace().skip(1);
            let name = words.next().with_context(|| line.to_owned())?;
            Ok((name.to_owned(), words.collect::<Vec<_>>().join(" ")))
        };
        lines.map(domain).collect()
    }

    async fn fault(&self, words: &[&str]) -> anyhow::Result<()> {
        let (verb, rest) = words.split_first().context("a verb")?;
        self.run(verb, rest).await.map(drop)
    }

    async fn run(&self, verb: &str, words: &[&str]) -> anyhow::Result<String> {
        let mut command = script(&self.folder, self.index, verb);
        command.args(words);
        let mut command = tokio::process::Command::from(command);
        said(command.kill_on_drop(true).output().await?)
            .with_context(|| format!("hypervisor.sh {verb} {} {words:?}", self.index))
    }
}

impl Drop for Hypervisor {
    fn drop(&mut self) {
        if !is_kept()
            && let Err(error) = Self::down(&self.folder, self.index)
        {
            eprintln!("lab: {error:#}");
        }
    }
}

impl Daemon {
    fn name(self) -> &'static str {
        match self {
            Self::Sshd => "sshd",
            Self::Libvirtd => "libvirtd",
        }
    }
}

/// An image for guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// Debian with cloud-init, Squid and the guest agent, for UEFI; answers after most of a minute.
    Guest,
    /// Halts its processor at once, under UEFI and BIOS: for domains that only have to run.
    Halting,
}

impl Image {
    /// The file, a qcow2. Makes it first if need be, which takes more than a minute for the guest.
    ///
    /// # Errors
    /// What the script says.
    pub async fn file(self) -> anyhow::Result<PathBuf> {
        let mut command = tokio::process::Command::new(here("guest-image.sh"));
        command.arg(match self {
            Self::Guest => "guest",
            Self::Halting => "halting",
        });
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let printed = said(command.output().await?).context("guest-image.sh")?;
        Ok(printed.trim_end().into())
    }
}

/// Whether the lab is to stay up.
pub fn is_kept() -> bool {
    env::var("KEEP").is_ok_and(|keep| keep == "1")
}

fn said(output: Output) -> anyhow::Result<String> {
    if !output.status.success() {
        bail!(
            "{}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn script(folder: &Path, index: u8, verb: &str) -> Command {
    let mut command = Command::new(here("hypervisor.sh"));
    command
        .arg(verb)
        .arg(folder)
        .arg(index.to_string())
        .env("LAB_OWNER", std::process::id().to_string())
        .stdin(Stdio::null());
    command
}

fn here(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/lab")
        .join(script)
}
