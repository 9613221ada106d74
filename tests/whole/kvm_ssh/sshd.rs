//! An sshd of one's own.

use anyhow::{Context as _, Result, bail, ensure};
use proxy_operator::providers::kvm::ssh::{Files, Target};
use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    time::{sleep, timeout},
};

/// It is up in well under a second; a loaded machine may take longer.
const START: Duration = Duration::from_mins(1);

/// How an sshd is to be.
#[derive(Default)]
pub struct Options {
    /// Further lines of its configuration.
    pub config: &'static str,
    /// It also listens at `::1`, and at port 22 of an address of its own if that can be had.
    pub everywhere: bool,
    /// The user `nobody` has a shell. Needs root.
    pub nobody_has_a_shell: bool,
}

/// Runs until it is dropped, with its keys and its files in a directory of its own.
pub struct Sshd {
    pub directory: TempDir,
    pub port: u16,
    /// Where it listens at port 22.
    pub at_22: Option<Ipv4Addr>,
    child: Child,
}

impl Sshd {
    pub async fn start(options: Options) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("labsshd").tempdir()?;
        // An unprivileged user's sshd looks for its authorized keys in here.
        run(Command::new("chmod").arg("755").arg(directory.path()))?;
        let file = |name: &str| directory.path().join(name);
        let mut config = String::new();
        for kind in ["ed25519", "ecdsa", "rsa"] {
            let key = file(&format!("host_{kind}"));
            make_key(&key, &["-t", kind])?;
            writeln!(config, "HostKey {}", key.display())?;
        }
        make_key(&file("id"), &["-t", "ed25519"])?;
        fs::copy(file("id.pub"), file("authorized_keys"))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let at_22 = options.everywhere.then(free_at_22).flatten();
        writeln!(config, "ListenAddress 127.0.0.1:{port}")?;
        if options.everywhere {
            writeln!(config, "ListenAddress [::1]:{port}")?;
        }
        if let Some(address) = at_22 {
            writeln!(config, "ListenAddress {address}:22")?;
        }
        let authorized = file("authorized_keys");
        writeln!(config, "AuthorizedKeysFile {}", authorized.display())?;
        // A home without start-up files: those of this machine's user may take their time.
        config += "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nSetEnv HOME=/nonexistent\n\
                   MaxStartups 200\nLogLevel DEBUG1\n";
        config += options.config;
        fs::write(file("sshd_config"), config)?;

        if is_root()? {
            // Where it shuts its unprivileged half in.
            fs::create_dir_all("/run/sshd")?;
        }
        let log = fs::File::create(file("log"))?;
        let mut command = if options.nobody_has_a_shell {
            let users = fs::read_to_string("/etc/passwd")?;
            let users: String = users
                .lines()
                .map(|line| match line.rsplit_once(':') {
                    Some((user, _)) if line.starts_with("nobody:") => format!("{user}:/bin/sh\n"),
                    _ => format!("{line}\n"),
                })
                .collect();
            fs::write(file("passwd"), users)?;
            let mut command = Command::new("unshare");
            let script = "mount --bind \"$1\" /etc/passwd; shift; exec \"$@\"";
            command
                .args(["--mount", "sh", "-ec", script, "sh"])
                .arg(file("passwd"));
            command.arg("/usr/sbin/sshd");
            command
        } else {
            Command::new("/usr/sbin/sshd")
        };
        command.args(["-D", "-e", "-f"]).arg(file("sshd_config"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let child = command.spawn().context("openssh-server is needed")?;
        let mut sshd = Self {
            directory,
            port,
            at_22,
            child,
        };
        sshd.is_up().await?;
        Ok(sshd)
    }

    async fn is_up(&mut self) -> Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let greeting = async {
            loop {
                if let Ok(mut stream) = TcpStream::connect(address).await {
                    let mut start = [0; 4];
                    stream.read_exact(&mut start).await?;
                    ensure!(&start == b"SSH-", "{start:?}");
                    return Ok(());
                }
                if let Some(status) = self.child.try_wait()? {
                    bail!("sshd ended with {status}: {}", self.log());
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(START, greeting).await.context("sshd is not up")?
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file, and gives its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.file(name);
        fs::write(&path, content)?;
        Ok(path)
    }

    /// Type and base64 of a public key.
    pub fn public(&self, name: &str) -> Result<String> {
        public(&self.file(name))
    }

    /// Its address, for the user that runs the tests.
    pub fn target(&self) -> Result<Target> {
        Ok(self.target_as(&whoami()?))
    }

    pub fn target_as(&self, user: &str) -> Target {
        Target {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            user: user.to_owned(),
        }
    }

    /// The key that it accepts, and its own keys.
    pub fn files(&self) -> Result<Files> {
        let line = format!(
            "[127.0.0.1]:{} {}\n",
            self.port,
            self.public("host_ed25519")?
        );
        Ok(Files {
            key: self.file("id"),
            known_hosts: Some(self.write("known_hosts", line)?),
        })
    }

    /// The processes that serve connections.
    pub fn serving(&self) -> Result<Vec<u32>> {
        let mut parents = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else {
                continue;
            };
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
                continue;
            };
            let after_name = stat.rsplit(')').next().unwrap_or_default();
            let parent = after_name.split_whitespace().nth(1);
            if let Some(parent) = parent.and_then(|parent| parent.parse::<u32>().ok()) {
                parents.push((pid, parent));
            }
        }
        let mut found = vec![self.child.id()];
        let mut next = 0;
        while let Some(&pid) = found.get(next) {
            found.extend(
                parents
                    .iter()
                    .filter(|(_, parent)| *parent == pid)
                    .map(|(pid, _)| pid),
            );
            next += 1;
        }
        Ok(found.split_off(1))
    }

    /// Sends a signal to all that serve connections.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let serving = self.serving()?;
        ensure!(!serving.is_empty(), "nobody is served");
        for pid in serving {
            let sent = run(Command::new("kill").args(["-s", signal, &pid.to_string()]));
            // It may have ended by itself, or with the one before.
            let is_gone = !Path::new(&format!("/proc/{pid}")).exists();
            ensure!(sent.is_ok() || is_gone, "{signal}: {sent:?}");
        }
        Ok(())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.signal("CONT");
        let _ = self.signal("KILL");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn make_key(path: &Path, options: &[&str]) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-f"]).arg(path).args(options);
    if !options.contains(&"-N") {
        command.args(["-N", ""]);
    }
    run(&mut command).map(drop)
}

pub fn public(key: &Path) -> Result<String> {
    let text = fs::read_to_string(key.with_extension("pub"))?;
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    Ok(words.join(" "))
}

/// What a command writes; an error if it fails. Others on the runtime go on meanwhile.
pub fn run(command: &mut Command) -> Result<String> {
    let output =
        tokio::task::block_in_place(|| command.output()).with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {said}");
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

pub fn whoami() -> Result<String> {
    run(Command::new("id").arg("-un"))
}

pub fn is_root() -> Result<bool> {
    Ok(run(Command::new("id").arg("-u"))? == "0")
}

/// An address of this machine whose port 22 nobody has.
fn free_at_22() -> Option<Ipv4Addr> {
    (1..=254)
        .map(|last| {
            Ipv4Addr::new(
                127,
                22,
                u8::try_from(std::process::id() % 256).unwrap_or(0),
                last,
            )
        })
        .find(|address| TcpListener::bind((*address, 22)).is_ok())
}
