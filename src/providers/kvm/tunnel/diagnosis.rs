//! Whether a socket on a host can be reached, and if not, why.

use super::super::{
    error::{HostError, Stage},
    ssh::Session,
};
use russh::ChannelOpenFailure;
use std::time::Duration;
use tokio::time::timeout;

/// How long the host may take to tell more about a failure.
const ASKING: Duration = Duration::from_secs(5);

/// Opens one connection to `socket`, and closes it.
pub(super) async fn probe(
    session: &Session,
    socket: &str,
    patience: Duration,
) -> Result<(), HostError> {
    let host = session.target().address();
    let failed = |message: String, reason| {
        HostError::transient(message)
            .at(Stage::LibvirtConnect)
            .because(reason)
    };
    match timeout(patience, session.connect_to(socket)).await {
        Ok(Ok(channel)) => {
            // The host closes what is not closed here.
            let _ = channel.close().await;
            Ok(())
        }
        Ok(Err(russh::Error::ChannelOpenFailure(reason))) => {
            let finding = match reason {
                ChannelOpenFailure::AdministrativelyProhibited => Finding::Forbidden,
                _ => Finding::ask(session, socket).await,
            };
            Err(failed(explain(finding, session, socket), finding.reason()))
        }
        Ok(Err(error)) => Err(failed(
            format!("{host}: the connection was lost on the way to {socket}: {error}"),
            "LibvirtConnectFailed",
        )
        .caused_by(error)),
        Err(_) => Err(failed(
            format!(
                "{host} did not connect us to {socket} within {} s",
                patience.as_secs()
            ),
            "Timeout",
        )),
    }
}

/// What a shell on the host finds at the socket's path. SSH itself only says that it failed:
/// OpenSSH's server does not even tell a refusal of its own from one of the socket's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Missing,
    Denied,
    NoSocket,
    NobodyListens,
    /// All is well there: it is sshd that refuses.
    Forbidden,
    /// We may not run a shell there.
    NotTold,
}

impl Finding {
    async fn ask(session: &Session, socket: &str) -> Self {
        let command = question(socket);
        let answer = timeout(ASKING, session.output(&command, 64)).await;
        match answer.ok().flatten().as_deref().map(<[u8]>::trim_ascii) {
            Some(b"missing") => Self::Missing,
            Some(b"denied") => Self::Denied,
            Some(b"other") => Self::NoSocket,
            Some(b"silent") => Self::NobodyListens,
            Some(b"listening") => Self::Forbidden,
            _ => Self::NotTold,
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Forbidden => "Forbidden",
            _ => "LibvirtConnectFailed",
        }
    }
}

/// Asks without a word that a login shell might take for its own: they agree on what stands in
/// single quotes. `/proc/net/unix` shows who listens (flag 0x10000), by the path that was bound.
fn question(socket: &str) -> String {
    const SCRIPT: &str = r#"
        if [ ! -e "$1" ]; then
            d=$(dirname "$1")
            while [ ! -e "$d" ]; do d=$(dirname "$d"); done
            if [ -x "$d" ]; then echo missing; else echo denied; fi
        elif [ ! -S "$1" ]; then echo other
        elif [ ! -w "$1" ]; then echo denied
        else
            r=$(readlink -f "$1")
            while read -r n c p flags t s i path; do
                if [ "$flags" = 00010000 ] && { [ "$path" = "$1" ] || [ "$path" = "$r" ]; }; then
                    echo listening; exit
                fi
            done </proc/net/unix
            echo silent
        fi"#;
    let socket = socket.replace('\'', r"'\''");
    format!("sh -c '{SCRIPT}' sh '{socket}'")
}

fn explain(finding: Finding, session: &Session, socket: &str) -> String {
    let host = session.target().address();
    let user = &session.target().user;
    match finding {
        Finding::Missing => format!(
            "there is no {socket} on {host}: install libvirt and start it (systemctl enable --now \
             libvirtd.socket), or set the host's socket"
        ),
        Finding::Denied => format!(
            "the user {user} may not open {socket} on {host} (permission denied): add it to the \
             socket's group (usermod -aG libvirt {user})"
        ),
        Finding::NoSocket => format!("{socket} on {host} is no socket: set the host's socket"),
        Finding::NobodyListens => format!(
            "nobody accepts connections at {socket} on {host}: start libvirt (systemctl restart \
             libvirtd)"
        ),
        // OpenSSH applies its rules about TCP to sockets, too.
        Finding::Forbidden => format!(
            "{host} forbids forwarding to {socket}: its sshd_config needs \
             AllowStreamLocalForwarding yes, DisableForwarding no, AllowTcpForwarding yes (or local) and \
             no PermitOpen, and the key's line in authorized_keys port-forwarding after any restrict \
             and no permitopen (or libvirt hangs there, with its queue full)"
        ),
        Finding::NotTold => format!(
            "{host} cannot connect us to {socket}: it is missing, or the user {user} may not open \
             it, or libvirt does not run, or sshd forbids it (AllowStreamLocalForwarding)"
        ),
    }
}
