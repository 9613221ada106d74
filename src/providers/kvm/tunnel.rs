//! libvirt's socket on a host, as a socket on this machine.
//!
//! libvirt's client library wants a path. What connects to the path gets an SSH channel of its own to
//! the socket on the host. The path lies in a directory that only this user may enter, named
//! `proxy-operator-kvm-…`, under the directory for temporary files; it goes with the tunnel, and is
//! left behind (empty but for a dead socket) only by a process that was killed.

mod diagnosis;

use super::{
    error::{HostError, Stage},
    ssh::Session,
};
use std::{
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::BufReader,
    net::{UnixListener, UnixStream},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

const PREFIX: &str = "proxy-operator-kvm-";
/// A unix socket's path may have 107 bytes.
const LONGEST_PATH: usize = 100;
/// How long the host may take to connect us, or refuse to.
const PATIENCE: Duration = Duration::from_secs(15);
/// Two of the largest packets that OpenSSH takes.
const BUFFER: usize = 64 << 10;

/// Leads to a unix socket on a host until it is dropped or cut, or the session ends.
#[derive(Debug)]
pub struct Tunnel {
    path: PathBuf,
    cut: CancellationToken,
    ended: CancellationToken,
    /// Removes the directory.
    _directory: TempDir,
}

impl Tunnel {
    /// Sees that `remote_socket` can be reached, and listens.
    ///
    /// # Errors
    /// At the stage `libvirt-connect`: the host forbids forwarding (reason `Forbidden`), has no such
    /// socket, does not let the user open it, or nobody answers there (`LibvirtConnectFailed`,
    /// `Timeout`). Transient: all of that is mended on the host.
    pub async fn open(session: &Session, remote_socket: &str) -> Result<Self, HostError> {
        diagnosis::probe(session, remote_socket, PATIENCE).await?;
        let made = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir();
        let made = made.and_then(|directory| {
            let path = directory.path().join("s");
            if path.as_os_str().len() > LONGEST_PATH {
                let message = format!("{} is too long for a socket: set TMPDIR", path.display());
                return Err(std::io::Error::other(message));
            }
            Ok((UnixListener::bind(&path)?, path, directory))
        });
        let (listener, path, directory) = made.map_err(|error| {
            let place = std::env::temp_dir();
            let message = format!("no socket could be made in {}: {error}", place.display());
            HostError::transient(message)
                .at(Stage::LibvirtConnect)
                .because("LibvirtConnectFailed")
                .caused_by(error)
        })?;
        let (cut, ended) = (CancellationToken::new(), CancellationToken::new());
        let remote_socket = remote_socket.to_owned();
        tokio::spawn(listen(
            listener,
            session.clone(),
            remote_socket,
            (cut.clone(), ended.clone()),
        ));
        Ok(Self {
            path,
            cut,
            ended,
            _directory: directory,
        })
    }

    /// The socket on this machine.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until a connection through the tunnel has ended, from whichever side.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Closes every connection through the tunnel now, so that whoever waits for one gets an error,
    /// and takes no more.
    pub fn cut(&self) {
        self.cut.cancel();
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.cut();
    }
}

async fn listen(
    listener: UnixListener,
    session: Session,
    remote_socket: String,
    (cut, over): (CancellationToken, CancellationToken),
) {
    let ended = || async {
        tokio::select! {
            () = cut.cancelled() => {}
            () = session.closed() => {}
        }
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ended() => return,
        };
        match accepted {
            Ok((local, _)) => {
                let (session, cut) = (session.clone(), cut.clone());
                let over = over.clone().drop_guard();
                let remote_socket = remote_socket.clone();
                tokio::spawn(async move {
                    let _over = over;
                    tokio::select! {
                        () = bridge(local, &session, &remote_socket) => {}
                        () = cut.cancelled() => {}
                        () = session.closed() => {}
                    }
                });
            }
            // No file descriptors left, most likely: there may be later.
            Err(error) => {
                tracing::warn!(%error, "accepting a connection into a tunnel failed");
                tokio::select! {
                    () = sleep(Duration::from_millis(100)) => {}
                    () = ended() => return,
                }
            }
        }
    }
}

/// Carries bytes both ways until either side has ended: neither libvirt says more after that. A failure
/// shows as the end of `local`.
async fn bridge(local: UnixStream, session: &Session, remote_socket: &str) {
    let host = session.target().address();
    let channel = match timeout(PATIENCE, session.connect_to(remote_socket)).await {
        Ok(Ok(channel)) => channel,
        Ok(Err(error)) => {
            tracing::debug!(host, remote_socket, %error, "a tunnelled connection was refused");
            return;
        }
        Err(_) => {
            tracing::debug!(
                host,
                remote_socket,
                "a tunnelled connection was not answered"
            );
            return;
        }
    };
    let (mut from_host, mut to_host) = tokio::io::split(channel.into_stream());
    let (from_here, mut to_here) = local.into_split();
    let mut from_here = BufReader::with_capacity(BUFFER, from_here);
    let carried = tokio::select! {
        carried = tokio::io::copy(&mut from_host, &mut to_here) => carried,
        carried = tokio::io::copy_buf(&mut from_here, &mut to_host) => carried,
    };
    tracing::debug!(
        host,
        remote_socket,
        ?carried,
        "a tunnelled connection ended"
    );
}
