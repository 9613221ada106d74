//! The SSH connection to a host.
//!
//! A dial reads the key and the known hosts anew, so that changed files need no restart, connects,
//! checks the host's key, and authenticates; its error says which of these failed. The connection is
//! watched by SSH's own keepalives, and by a limit on how long it may take to write. It carries
//! the channels that [`super::tunnel`] opens.

mod handshake;
mod key;
mod material;
mod tcp;

use super::error::{HostError, Stage};
use handshake::HostKeyCheck;
use russh::{
    Channel, ChannelMsg,
    client::{Handle, Msg},
};
use std::{
    net::{Shutdown, TcpStream},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// How long a look at the files may take.
const LOOK: Duration = Duration::from_secs(10);

/// The files that a dial needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The private key. That others than its owner may read it is no error, as it is with `ssh`: this
    /// is how Kubernetes mounts a Secret.
    pub key: PathBuf,
    /// The keys of the hosts; `None`: they are not checked.
    pub known_hosts: Option<PathBuf>,
}

/// Where to dial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A name or an address literal, without brackets.
    pub host: String,
    /// The port of its SSH server.
    pub port: u16,
    /// The user there.
    pub user: String,
}

impl Target {
    /// `host:port`, an IPv6 address in brackets.
    #[must_use]
    pub fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }
}

/// How long a host may keep us waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a whole dial.
    pub dial: Duration,
    /// After so long a silence it is asked for a sign of life. Two that are not answered, and the
    /// connection is given up, three times this after the last sign. Also no write may take that long.
    pub keepalive: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            dial: Duration::from_secs(30),
            keepalive: Duration::from_secs(15),
        }
    }
}

/// An authenticated connection to a host. It ends when the last clone is dropped.
#[derive(Clone)]
pub struct Session(Arc<Connection>);

struct Connection {
    target: Target,
    /// Tells the files that it was dialled with.
    material: u64,
    handle: Handle<HostKeyCheck>,
    /// The same socket that the handle's task has, to end it without that task's help.
    socket: TcpStream,
    gone: CancellationToken,
}

impl Session {
    /// Connects, within 30 s.
    ///
    /// # Errors
    /// With the stage that failed. Permanent: the key file holds no key that can be used, the host's
    /// key is not trusted, or the host refuses ours. Transient: everything else. The reason is
    /// `SSHMaterialUnavailable`, `Timeout`, `Unreachable`, `SSHHandshakeFailed` or `Unauthorized`.
    pub async fn dial(target: &Target, files: &Files) -> Result<Self, HostError> {
        Self::dial_within(target, files, Patience::default()).await
    }

    /// As [`Session::dial`], with other limits.
    ///
    /// # Errors
    /// As it.
    #[tracing::instrument(
        name = "ssh-dial",
        level = "debug",
        skip_all,
        fields(address = %target.address(), user = target.user)
    )]
    pub async fn dial_within(
        target: &Target,
        files: &Files,
        patience: Patience,
    ) -> Result<Self, HostError> {
        let deadline = Instant::now() + patience.dial;
        let seconds = patience.dial.as_secs_f64();
        let late = |stage: Stage, what: &str| {
            HostError::transient(format!("{what} (within {seconds} s)"))
                .at(stage)
                .because("Timeout")
        };

        let material = timeout_at(deadline, material::read(files)).await;
        let material = material
            .map_err(|_| late(Stage::SshMaterial, "reading the SSH files took too long"))?;
        let material = material?;
        let digest = material.digest(target);

        let address = target.address();
        // Bounded by itself: its error tells which addresses did not answer.
        let stream = tcp::connect(target, deadline).await?;
        let (stream, socket) = tcp::twice(stream).map_err(|error| {
            HostError::transient(format!("{address}: {error}"))
                .at(Stage::Tcp)
                .because("Unreachable")
                .caused_by(error)
        })?;

        let gone = CancellationToken::new();
        let shaken = handshake::shake(target, material, stream, patience.keepalive, &gone);
        let shaken = timeout_at(deadline, shaken).await.unwrap_or_else(|_| {
            let what = "answers, but its SSH server did not finish the handshake";
            Err(late(Stage::SshHandshake, &format!("{address} {what}")))
        });
        // On failure its task may still wait for the host.
        let handle = shaken.inspect_err(|_| drop(socket.shutdown(Shutdown::Both)))?;
        tracing::debug!("SSH connection opened");
        Ok(Self(Arc::new(Connection {
            target: target.clone(),
            material: digest,
            handle,
            socket,
            gone,
        })))
    }

    /// Whether a dial would use another key, or know the host by other keys, than this one did. Files that cannot
    /// be read, or hold no key that can be used, are no news.
    pub async fn is_outdated(&self, files: &Files) -> bool {
        let reading = tokio::time::timeout(LOOK, material::read(files)).await;
        matches!(reading, Ok(Ok(material)) if material.digest(&self.0.target) != self.0.material)
    }

    /// Where this leads.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.0.target
    }

    /// Waits until the connection is gone: closed by either side, or given up as dead.
    pub async fn closed(&self) {
        self.0.gone.cancelled().await;
    }

    /// Ends it at once, without waiting for the host.
    pub fn close(&self) {
        self.0.close();
    }

    /// A channel to a unix socket on the host.
    pub(super) async fn connect_to(&self, socket: &str) -> Result<Channel<Msg>, russh::Error> {
        self.0.handle.channel_open_direct_streamlocal(socket).await
    }

    /// What a command on the host writes to its standard output, up to `limit` bytes; `None` if the
    /// host runs none for us.
    pub(super) async fn output(&self, command: &str, limit: usize) -> Option<Vec<u8>> {
        let mut channel = self.0.handle.channel_open_session().await.ok()?;
        channel.exec(true, command).await.ok()?;
        let mut output = Vec::new();
        while let Some(message) = channel.wait().await {
            match message {
                ChannelMsg::Data { data } => output.extend_from_slice(&data),
                ChannelMsg::Failure => return None,
                _ => {}
            }
            if output.len() >= limit {
                output.truncate(limit);
                break;
            }
        }
        Some(output)
    }
}

impl Connection {
    fn close(&self) {
        // An error means that it is closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}
