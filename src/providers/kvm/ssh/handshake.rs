//! Key exchange, the host's key, our authentication.

use super::{
    super::{
        error::{HostError, Stage},
        known_hosts::{self, Verdict},
    },
    Target,
    material::{KnownHosts, Material},
};
use russh::{
    Preferred, cipher,
    client::{self, AuthResult, DisconnectReason, Handle},
    keys::{HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate},
};
use std::{borrow::Cow, sync::Arc, time::Duration};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Keepalives that may stay unanswered.
const UNANSWERED: u8 = 2;

/// Makes an authenticated connection of a stream. `gone` is cancelled when it has ended.
pub(super) async fn shake(
    target: &Target,
    material: Material,
    stream: TcpStream,
    keepalive: Duration,
    gone: &CancellationToken,
) -> Result<Handle<HostKeyCheck>, HostError> {
    let config = Arc::new(config(target, material.known_hosts.as_ref(), keepalive));
    let check = HostKeyCheck {
        target: target.clone(),
        known_hosts: material.known_hosts,
        _gone: gone.clone().drop_guard(),
    };
    let connected = client::connect_stream(config, stream, check).await;
    let mut handle = connected.map_err(|broken| match broken {
        Broken::HostKey(error) => error,
        Broken::Ssh(error) => failed(target, "the SSH handshake failed", error),
    })?;
    authenticate(&mut handle, target, Arc::new(material.key)).await?;
    Ok(handle)
}

fn config(
    target: &Target,
    known_hosts: Option<&KnownHosts>,
    keepalive: Duration,
) -> client::Config {
    let known = known_hosts.map_or("", |known| known.text.as_str());
    let key = known_hosts::algorithms(known, &target.host, target.port);
    let mut ciphers = Preferred::DEFAULT.cipher.into_owned();
    // Up to twice as fast as ChaCha20 where the CPU knows AES, as every hypervisor does.
    ciphers.retain(|cipher| *cipher != cipher::AES_256_GCM);
    ciphers.insert(0, cipher::AES_256_GCM);
    client::Config {
        keepalive_interval: Some(keepalive),
        keepalive_max: usize::from(UNANSWERED),
        // A write that hangs stops the keepalives, too: this one it does not stop.
        inactivity_timeout: Some(keepalive * u32::from(UNANSWERED + 1)),
        preferred: Preferred {
            key: Cow::Owned(key),
            cipher: Cow::Owned(ciphers),
            ..Preferred::DEFAULT
        },
        ..client::Config::default()
    }
}

async fn authenticate(
    handle: &mut Handle<HostKeyCheck>,
    target: &Target,
    key: Arc<PrivateKey>,
) -> Result<(), HostError> {
    let broken = |error| failed(target, "the SSH authentication failed", error);
    let mut refused = Vec::new();
    let hashes = if key.algorithm().is_rsa() {
        match handle.best_supported_rsa_hash().await.map_err(broken)? {
            Some(Some(best)) => vec![Some(best)],
            // An old server does not say; SHA-1 is not used any more.
            _ => vec![Some(HashAlg::Sha512), Some(HashAlg::Sha256)],
        }
    } else {
        vec![None]
    };
    for hash in hashes {
        let signer = PrivateKeyWithHashAlg::new(Arc::clone(&key), hash);
        let answer = handle.authenticate_publickey(&target.user, signer).await;
        match answer.map_err(broken)? {
            AuthResult::Success => return Ok(()),
            AuthResult::Failure {
                remaining_methods,
                partial_success,
            } => {
                refused = remaining_methods
                    .iter()
                    .map(<&str>::from)
                    .map(str::to_owned)
                    .collect();
                if partial_success {
                    break;
                }
            }
        }
    }
    let Target { user, .. } = target;
    let message = format!(
        "{} refuses the user {user} with our key, {}: put its public half into \
         ~{user}/.ssh/authorized_keys there (the host goes on accepting: {})",
        target.address(),
        named(key.public_key()),
        refused.join(", "),
    );
    Err(HostError::permanent(message)
        .at(Stage::SshHandshake)
        .because("Unauthorized"))
}

fn failed(target: &Target, what: &str, error: russh::Error) -> HostError {
    let message = format!("{}: {what}: {error}", target.address());
    HostError::transient(message)
        .at(Stage::SshHandshake)
        .because("SSHHandshakeFailed")
        .caused_by(error)
}

/// `ssh-ed25519 SHA256:…`.
fn named(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

/// Judges the key that the host shows, and knows when the connection has ended: it goes with it.
pub(super) struct HostKeyCheck {
    target: Target,
    known_hosts: Option<KnownHosts>,
    _gone: DropGuard,
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Broken {
    Ssh(russh::Error),
    HostKey(HostError),
}

impl From<russh::Error> for Broken {
    fn from(error: russh::Error) -> Self {
        Self::Ssh(error)
    }
}

impl client::Handler for HostKeyCheck {
    type Error = Broken;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, Broken> {
        let Some(known_hosts) = &self.known_hosts else {
            return Ok(true);
        };
        // None was asked for.
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else {
            return Ok(false);
        };
        let Target { host, port, .. } = &self.target;
        let verdict = known_hosts::verdict(&known_hosts.text, host, *port, key);
        let why = why_not(verdict, &known_hosts.path, &self.target, key);
        why.map_or(Ok(true), |message| {
            let error = HostError::permanent(message)
                .at(Stage::SshHandshake)
                .because("SSHHandshakeFailed");
            Err(Broken::HostKey(error))
        })
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Broken>) -> Result<(), Broken> {
        let address = self.target.address();
        match reason {
            DisconnectReason::ReceivedDisconnect(why) => {
                tracing::debug!(%address, reason = ?why.reason_code, "SSH connection closed by the host");
                Ok(())
            }
            DisconnectReason::Error(error) => {
                tracing::debug!(%address, ?error, "SSH connection ended");
                Err(error)
            }
        }
    }
}

fn why_not(verdict: Verdict, file: &str, target: &Target, key: &PublicKey) -> Option<String> {
    let address = target.address();
    let key = named(key);
    Some(match verdict {
        Verdict::Accepted => return None,
        Verdict::Unknown => format!(
            "the host key of {address} ({key}) is not in {file}: compare the fingerprint with the \
             host's own, then add the key (ssh-keyscan -p {} {})",
            target.port, target.host
        ),
        Verdict::OtherType { line } => format!(
            "{address} shows a host key of a type ({key}) that {file} has none of: line {line} has \
             one of another type"
        ),
        Verdict::Changed { line } => format!(
            "the host key of {address} has changed: it shows {key}, which is not the one in line \
             {line} of {file}. If the host was not installed anew, somebody stands between"
        ),
        Verdict::Revoked { line } => {
            format!("the host key of {address} ({key}) is marked @revoked in line {line} of {file}")
        }
        Verdict::OnlyCertAuthority { line } => format!(
            "{address} is known only by the @cert-authority in line {line} of {file}, and host \
             certificates are not supported: add the host's own key ({key})"
        ),
    })
}
