//! What is in a file that should hold a private key.

use russh::keys::{Algorithm, Error, PrivateKey, decode_secret_key};

/// Why this is no key to authenticate with. Reads after "the file …".
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("is empty")]
    Empty,
    #[error("is a public key: name the private key, usually the same path without .pub")]
    Public,
    #[error("is encrypted: nobody is there to type its passphrase; use a key without a passphrase")]
    Encrypted,
    #[error("is in PuTTY's format: convert it (puttygen KEY -O private-openssh -o NEW)")]
    Putty,
    #[error(
        "holds no private key: what is wanted is a text with -----BEGIN … PRIVATE KEY-----, \
         in OpenSSH's format, PEM or PKCS#8"
    )]
    NoKey,
    #[error("holds a private key that cannot be read: {0}")]
    Broken(#[source] Error),
    #[error("holds a key of type {0}: only ed25519, ECDSA and RSA keys can be used")]
    Type(String),
}

pub(super) fn parse(bytes: &[u8]) -> Result<PrivateKey, KeyError> {
    if bytes.trim_ascii().is_empty() {
        return Err(KeyError::Empty);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| KeyError::NoKey)?;
    // A key that came through a YAML file may be indented.
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let text = lines.join("\n");
    let Some(kind) = lines.iter().find_map(|line| private_key(line)) else {
        return Err(if lines.iter().any(|line| is_public_key(line)) {
            KeyError::Public
        } else if text.trim_start().starts_with("PuTTY-User-Key-File") {
            KeyError::Putty
        } else {
            KeyError::NoKey
        });
    };
    let is_encrypted = |line: &&str| line.starts_with("Proc-Type:") && line.ends_with("ENCRYPTED");
    if kind == "ENCRYPTED" || lines.iter().any(is_encrypted) {
        return Err(KeyError::Encrypted);
    }
    if kind == "DSA" {
        return Err(KeyError::Type("ssh-dss".to_owned()));
    }
    let key = decode_secret_key(&text, None).map_err(|error| match error {
        Error::KeyIsEncrypted => KeyError::Encrypted,
        error => KeyError::Broken(error),
    })?;
    if key.is_encrypted() {
        return Err(KeyError::Encrypted);
    }
    match key.algorithm() {
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. } | Algorithm::Rsa { .. } => Ok(key),
        other => Err(KeyError::Type(other.to_string())),
    }
}

/// What stands before "PRIVATE KEY" in the line that begins one: `OPENSSH`, `RSA`, `EC`, nothing.
fn private_key(line: &str) -> Option<&str> {
    let kind = line.strip_prefix("-----BEGIN ")?;
    Some(kind.strip_suffix("PRIVATE KEY-----")?.trim())
}

fn is_public_key(line: &str) -> bool {
    ["ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"]
        .iter()
        .any(|prefix| line.starts_with(prefix))
        || line.contains("BEGIN SSH2 PUBLIC KEY")
        || line.contains("PUBLIC KEY-----")
}

#[cfg(test)]
mod tests;
