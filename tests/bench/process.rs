//! Processes beside this one: this program in a role, and what the kernel knows of any of them.

use anyhow::{Context as _, ensure};
use std::{fs, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// The flag before the words of a role.
pub const ROLE: &str = "--role";

/// A helper process: this program in a role. Dropping it kills it.
pub struct Helper {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    /// Starts one; it says what there is to know in lines on its stdout.
    pub fn start(role: &[&str]) -> anyhow::Result<Self> {
        Self::start_in(role, &[])
    }

    /// Starts one with more variables in its environment.
    pub fn start_in(role: &[&str], variables: &[(&str, String)]) -> anyhow::Result<Self> {
        let variables = variables.iter().map(|(name, value)| (name, value));
        let mut child = Command::new(std::env::current_exe()?)
            .arg(ROLE)
            .args(role)
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {role:?}"))?;
        let out = child.stdout.take().context("no stdout")?;
        Ok(Self {
            child,
            lines: BufReader::new(out).lines(),
        })
    }

    /// The next line that it says.
    pub async fn line(&mut self) -> anyhow::Result<String> {
        self.line_within(Duration::from_mins(1)).await
    }

    /// The next line that it says, which may take longer.
    pub async fn line_within(&mut self, patience: Duration) -> anyhow::Result<String> {
        let line = tokio::time::timeout(patience, self.lines.next_line());
        line.await
            .context("a helper says nothing")??
            .context("a helper ended")
    }

    pub fn pid(&self) -> anyhow::Result<u32> {
        self.child.id().context("a helper ended")
    }
}

/// CPU time that a process has used so far, user and system.
pub fn cpu(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may hold spaces; it ends at the last parenthesis.
    let after = stat.rsplit_once(')').context("stat")?.1;
    let fields: Vec<&str> = after.split_whitespace().collect();
    ensure!(fields.len() > 12, "stat is short");
    // Fields 14 and 15, in ticks of 10 ms (Linux has had USER_HZ = 100 everywhere for long).
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// Memory that a process holds in RAM now, in MiB.
pub fn rss_mib(pid: u32) -> anyhow::Result<f64> {
    Ok(kib(pid, "VmRSS:")? / 1024.0)
}

/// One line of the process's status, in KiB.
pub fn kib(pid: u32, name: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .context("no such line")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
