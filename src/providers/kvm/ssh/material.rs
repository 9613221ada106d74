//! The key and the known hosts, as they are in their files now.

use super::{
    super::{
        error::{HostError, Stage},
        known_hosts,
    },
    Files, Target, key,
};
use russh::keys::PrivateKey;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::PermissionsExt,
    path::Path,
};
use tokio::{fs::File, io::AsyncReadExt};

/// No file that is meant to be one of these is larger: 1 MiB is ten thousand hosts.
const LARGEST: u64 = 1 << 20;

pub(super) struct Material {
    pub(super) key: PrivateKey,
    pub(super) known_hosts: Option<KnownHosts>,
    key_bytes: u64,
}

impl Material {
    /// Differs when the key does, or what is known of the host there; good for comparing within one process.
    /// What is known of others is no affair of its.
    pub(super) fn digest(&self, target: &Target) -> u64 {
        let known = self.known_hosts.as_ref();
        let about = known.map(|known| known_hosts::about(&known.text, &target.host, target.port));
        let mut digest = DefaultHasher::new();
        (self.key_bytes, about).hash(&mut digest);
        digest.finish()
    }
}

pub(super) struct KnownHosts {
    /// For messages.
    pub(super) path: String,
    pub(super) text: String,
}

pub(super) async fn read(files: &Files) -> Result<Material, HostError> {
    let unavailable = |error: HostError| {
        error
            .at(Stage::SshMaterial)
            .because("SSHMaterialUnavailable")
    };
    let bytes = read_file("the SSH key file", &files.key);
    let bytes = bytes.await.map_err(unavailable)?;
    let key = key::parse(&bytes).map_err(|error| {
        let path = files.key.display();
        let message = format!("the SSH key file {path} {error}");
        unavailable(HostError::permanent(message).caused_by(error))
    })?;
    let mut digest = DefaultHasher::new();
    bytes.hash(&mut digest);
    let known_hosts = match &files.known_hosts {
        None => None,
        Some(path) => {
            let bytes = read_file("the known_hosts file", path);
            let bytes = bytes.await.map_err(unavailable)?;
            Some(KnownHosts {
                path: path.display().to_string(),
                // Its comments may be in any encoding.
                text: String::from_utf8_lossy(&bytes).into_owned(),
            })
        }
    };
    Ok(Material {
        key,
        known_hosts,
        key_bytes: digest.finish(),
    })
}

async fn read_file(what: &str, path: &Path) -> Result<Vec<u8>, HostError> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        HostError::transient(format!("{what} {shown} cannot be read: {error}")).caused_by(error)
    };
    let odd = |why: &str| HostError::transient(format!("{what} {shown} {why}"));
    // Before it is opened: opening a pipe would wait for a writer.
    let metadata = tokio::fs::metadata(path).await.map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(odd("is a directory"));
    }
    if !metadata.is_file() {
        return Err(odd("is no regular file"));
    }
    let mode = metadata.permissions().mode() & 0o777;
    tracing::debug!(file = %shown, mode = format!("{mode:o}"), "reading {what}");
    let file = File::open(path).await.map_err(unreadable)?;
    let mut bytes = Vec::new();
    let mut limited = file.take(LARGEST + 1);
    limited.read_to_end(&mut bytes).await.map_err(unreadable)?;
    if bytes.len() as u64 > LARGEST {
        return Err(odd("is larger than 1 MiB"));
    }
    Ok(bytes)
}
