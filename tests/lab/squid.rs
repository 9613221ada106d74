//! A real Squid on this machine, for tests and benchmarks that need no cluster.
//!
//! As root it runs in the root file system that `cluster.sh squid-root` makes of Debian's packages,
//! so that nothing is installed here; otherwise it is the machine's own `/usr/sbin/squid`. It
//! keeps nothing on disk but its logs, in a folder that goes with it.

use anyhow::{Context as _, bail, ensure};
use std::{
    fmt::Write as _,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};
use tokio::{net::TcpStream, time::sleep};

/// Debian's user `proxy`.
const PROXY_USER: u32 = 13;
/// Squid is up in well under a second; a loaded machine may take longer.
const START: Duration = Duration::from_mins(1);
/// What the names of Squids begin with; then come the process that started it, an x and a number.
const PREFIX: &str = "labsquid";
/// Distinguishes the Squids of one process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Whom a Squid serves.
#[derive(Clone, Debug, Default)]
pub enum Access {
    /// Everybody, with any method.
    #[default]
    Open,
    /// Who has these credentials (Basic); others get 407.
    Authenticated {
        /// Without spaces.
        user: &'static str,
        /// Without spaces.
        password: &'static str,
    },
    /// Everybody, but `CONNECT` is answered with 403.
    NoConnect,
}

/// How a Squid is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens.
    pub address: IpAddr,
    /// Its port; 0 takes a free one.
    pub port: u16,
    /// Whom it serves.
    pub access: Access,
    /// Host names that it knows beside `localhost`: it asks no name server.
    pub hosts: Vec<(IpAddr, &'static str)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            access: Access::default(),
            hosts: Vec::new(),
        }
    }
}

impl Options {
    /// On a free port of 127.0.0.1.
    #[must_use]
    pub fn with(access: Access) -> Self {
        Self {
            access,
            ..Self::default()
        }
    }
}

/// A running Squid. Dropping it kills the process and removes its folder.
pub struct Squid {
    /// Where it accepts clients.
    pub address: SocketAddr,
    process: Child,
    home: Home,
}

impl Squid {
    /// Starts one and waits until it accepts connections.
    ///
    /// # Errors
    /// No Squid on this machine and none can be made, or one that ends at once (its log is told).
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let root = tokio::task::spawn_blocking(root).await??;
        sweep(&root);
        // A free port may be taken by the time that Squid binds it.
        for _ in 0..4 {
            if let Some(squid) = Self::try_start(&options, &root).await? {
                return Ok(squid);
            }
        }
        match Self::try_start(&options, &root).await? {
            Some(squid) => Ok(squid),
            None => bail!("no port on {} for a Squid", options.address),
        }
    }

    /// `None` if its port was taken.
    async fn try_start(options: &Options, root: &Path) -> anyhow::Result<Option<Self>> {
        let port = match options.port {
            0 => TcpListener::bind((options.address, 0))?
                .local_addr()?
                .port(),
            port => port,
        };
        let address = SocketAddr::new(options.address, port);
        let home = Home::new(root)?;
        home.write(
            "squid.conf",
            &configuration(address, &options.access, &home.inside),
        )?;
        home.write("hosts", &hosts(&options.hosts))?;
        if let Access::Authenticated { user, password } = options.access {
            home.write("authenticate.sh", &authenticator(user, password))?;
        }
        let mut squid = Self {
            address,
            process: home.spawn()?,
            home,
        };

        let deadline = Instant::now() + START;
        while TcpStream::connect(address).await.is_err() {
            if squid.process.try_wait()?.is_some() {
                let log = squid.home.read("cache.log");
                if log.contains("Address already in use") {
                    return Ok(None);
                }
                bail!("Squid ended at once:\n{log}");
            }
            ensure!(
                Instant::now() < deadline,
                "Squid does not listen after {START:?}"
            );
            sleep(Duration::from_millis(20)).await;
        }
        // Whoever took the port first also accepts: a Squid that lost it ends.
        if squid.lost_its_port() {
            Ok(None)
        } else {
            Ok(Some(squid))
        }
    }

    fn lost_its_port(&mut self) -> bool {
        !self
            .home
            .read("cache.log")
            .contains("Accepting HTTP Socket connections")
    }

    /// The URL that clients take a proxy by.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its process, to be frozen or killed under a test.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What it logged of its clients' requests so far, a line each: time, duration, client,
    /// result/status, bytes, method, target and more.
    #[must_use]
    pub fn access_log(&self) -> String {
        self.home.read("access.log")
    }
}

impl Drop for Squid {
    fn drop(&mut self) {
        // It may have ended already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Ends and removes what test runs that were killed left behind.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root.join("tmp"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let service = entry.file_name().to_string_lossy().into_owned();
        let owner = service
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('x'));
        let Some((owner, _)) = owner else { continue };
        if Path::new("/proc").join(owner).exists() {
            continue;
        }
        let home = Home::at(root, service);
        let process = home.read("process");
        let command = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
        if command.contains(&home.service) {
            Command::new("kill").args(["-9", &process]).status().ok();
        }
    }
}

/// The folder of one Squid, and how it is called inside the root that Squid runs in.
struct Home {
    root: PathBuf,
    /// Tells the shared memory of several Squids apart; letters and digits only.
    service: String,
    inside: PathBuf,
    path: PathBuf,
}

impl Home {
    fn new(root: &Path) -> anyhow::Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let home = Self::at(root, format!("{PREFIX}{}x{number}", std::process::id()));
        fs::create_dir_all(&home.path)
            .with_context(|| format!("creating {}", home.path.display()))?;
        if chroots(root) {
            chown(&home.path, Some(PROXY_USER), Some(PROXY_USER))?;
        }
        Ok(home)
    }

    fn at(root: &Path, service: String) -> Self {
        Self {
            root: root.to_owned(),
            inside: Path::new("/tmp").join(&service),
            path: root.join("tmp").join(&service),
            service,
        }
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        fs::write(self.path.join(name), text).with_context(|| format!("writing Squid's {name}"))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(name)).unwrap_or_default()
    }

    fn spawn(&self) -> anyhow::Result<Child> {
        let mut command = if chroots(&self.root) {
            let mut chroot = Command::new("chroot");
            chroot
                .arg(format!("--userspec={PROXY_USER}:{PROXY_USER}"))
                .arg(&self.root);
            chroot.arg("/usr/sbin/squid");
            chroot
        } else {
            Command::new("/usr/sbin/squid")
        };
        let process = command
            .args(["-N", "-n", &self.service, "-f"])
            .arg(self.inside.join("squid.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.path.join("stderr"))?)
            .spawn()
            .context("starting Squid")?;
        self.write("process", &process.id().to_string())?;
        Ok(process)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed is a few log lines in a temporary folder.
        fs::remove_dir_all(&self.path).ok();
        // Squid leaves its shared memory when it is killed.
        let segments = format!("{}-", self.service);
        let entries = fs::read_dir(self.root.join("dev/shm"))
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries.filter(|e| e.file_name().to_string_lossy().starts_with(&segments)) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn chroots(root: &Path) -> bool {
    root != Path::new("/")
}

/// The root file system to run Squid in; `/` for the machine's own.
fn root() -> anyhow::Result<PathBuf> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/cluster.sh");
    let made = Command::new(script)
        .arg("squid-root")
        .output()
        .context("running cluster.sh")?;
    if made.status.success() {
        return Ok(PathBuf::from(String::from_utf8(made.stdout)?.trim()));
    }
    ensure!(
        Path::new("/usr/sbin/squid").exists(),
        "there is no Squid: {}",
        String::from_utf8_lossy(&made.stderr).trim()
    );
    Ok(PathBuf::from("/"))
}

fn configuration(address: SocketAddr, access: &Access, home: &Path) -> String {
    let home = home.display();
    let access = match access {
        Access::Open => "http_access allow all".to_owned(),
        Access::NoConnect => "http_access deny CONNECT\nhttp_access allow all".to_owned(),
        Access::Authenticated { .. } => format!(
            "auth_param basic program /bin/sh {home}/authenticate.sh\n\
             auth_param basic children 2 startup=1\n\
             auth_param basic realm lab\n\
             acl known proxy_auth REQUIRED\n\
             http_access allow known\n\
             http_access deny all"
        ),
    };
    // So that whom it asks sees which one it is, where there are many on one machine.
    let from = match address.ip() {
        IpAddr::V4(ip) if ip.is_loopback() && ip != Ipv4Addr::LOCALHOST => {
            format!("tcp_outgoing_address {ip}\n")
        }
        _ => String::new(),
    };
    // The pinger wants ICMP sockets, the descriptor tables are sized by the limit, and a name server
    // would be outside the lab.
    format!(
        "http_port {address}\n\
         visible_hostname lab\n\
         acl CONNECT method CONNECT\n\
         {access}\n\
         {from}\
         cache deny all\n\
         access_log stdio:{home}/access.log\n\
         logfile_rotate 0\n\
         cache_log {home}/cache.log\n\
         pid_filename none\n\
         coredump_dir none\n\
         pinger_enable off\n\
         max_filedescriptors 4096\n\
         dns_nameservers 127.0.0.1\n\
         hosts_file {home}/hosts\n\
         via off\n\
         forwarded_for delete\n\
         buffered_logs off\n\
         shutdown_lifetime 0 seconds\n"
    )
}

fn hosts(more: &[(IpAddr, &str)]) -> String {
    let mut file = "127.0.0.1 localhost\n".to_owned();
    for (address, name) in more {
        // Writing to a String cannot fail.
        writeln!(file, "{address} {name}").ok();
    }
    file
}

/// Squid's helper protocol: a line with name and password, answered with OK or ERR.
fn authenticator(user: &str, password: &str) -> String {
    format!(
        "while read -r line; do\n\
         if [ \"$line\" = '{user} {password}' ]; then echo OK; else echo ERR; fi\n\
         done\n"
    )
}
