//! Where the program is run from: a folder, an environment of its own, and ears for what it says.

use anyhow::{Context, Result, bail, ensure};
use std::{
    fs,
    io::{ErrorKind, Read},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// A start that fails must fail soon; a busy machine gets some grace.
const PATIENCE: Duration = Duration::from_mins(1);

/// A folder for files and a listener in the place of an API server.
pub struct Place {
    folder: TempDir,
    pub server: TcpListener,
}

impl Place {
    pub fn new() -> Result<Self> {
        let server = TcpListener::bind("127.0.0.1:0")?;
        server.set_nonblocking(true)?;
        let folder = tempfile::tempdir()?;
        let place = Self { folder, server };
        let address = place.server.local_addr()?.to_string();
        place.file("kubeconfig", &kubeconfig(&address))?;
        Ok(place)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn file(&self, name: &str, content: &str) -> Result<String> {
        fs::write(self.path(name), content)?;
        Ok(self.path(name).display().to_string())
    }

    /// The program with these arguments and nothing of our own environment.
    pub fn operator(&self, words: &[&str]) -> Operator<'_> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_proxy-operator"));
        command
            .args(words)
            .env_clear()
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", self.path("kubeconfig"))
            .stdin(Stdio::null());
        Operator {
            command,
            place: self,
        }
    }
}

pub fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: it\n\
         clusters: [{{name: it, cluster: {{server: 'http://{server}'}}}}]\n\
         users: [{{name: it, user: {{}}}}]\n\
         contexts: [{{name: it, context: {{cluster: it, user: it}}}}]\n"
    )
}

pub struct Operator<'a> {
    pub command: Command,
    place: &'a Place,
}

impl Operator<'_> {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn end(mut self) -> Result<Ended> {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        output(self.command.spawn().context("starts")?)
    }

    /// Ends with 2 and one line that holds all `parts`, without having gone to the API server.
    pub fn refuses(self, parts: &[&str]) -> Result<()> {
        let (place, words) = (self.place, format!("{:?}", self.command));
        self.says_one_line(parts)?;
        match place.server.accept() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(()),
            other => bail!("{words} went to the API server: {other:?}"),
        }
    }

    /// Ends with 2 and one line that holds all `parts`.
    pub fn says_one_line(self, parts: &[&str]) -> Result<()> {
        let words = format!("{:?}", self.command);
        let ended = self.end().with_context(|| words.clone())?;
        ensure!(ended.status.code() == Some(2), "{words}: {ended:?}");
        ensure!(ended.out.is_empty(), "{words} prints to stdout: {ended:?}");
        ensure!(
            ended.err.lines().count() == 1 && ended.err.ends_with('\n'),
            "{words} does not say one line: {ended:?}"
        );
        ensure!(
            !ended.err.contains("sentinel"),
            "{words} tells a secret: {ended:?}"
        );
        for part in parts {
            ensure!(
                ended.err.contains(part),
                "{words} does not name {part}: {ended:?}"
            );
        }
        Ok(())
    }
}

/// How a run ended and what it said.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Ended {
    pub fn succeeded(&self) -> bool {
        self.status.success()
    }
}

/// Waits for the end, and kills what does not end in time.
pub fn output(mut child: Child) -> Result<Ended> {
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let (said, heard) = mpsc::channel();
    thread::spawn(move || {
        let errors = thread::spawn(move || text(err.as_mut()));
        let out = text(out.as_mut());
        said.send((out, errors.join().unwrap_or_default())).ok();
    });
    let Ok((out, err)) = heard.recv_timeout(PATIENCE) else {
        child.kill()?;
        child.wait()?;
        bail!("still running after {PATIENCE:?}");
    };
    let status = child.wait()?;
    Ok(Ended { status, out, err })
}

/// All that comes out of a pipe until it is closed; nothing of one that the test closed itself.
fn text(pipe: Option<&mut impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.read_to_end(&mut bytes).ok();
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
