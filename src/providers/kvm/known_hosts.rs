//! Whether a `known_hosts` file vouches for the key that a host offers.
//!
//! The verdicts are those of the OpenSSH client with strict checking, down to its habits (the whole
//! tests run it on the same files): a line that cannot be read spoils no other; on a port other than
//! 22 the host is looked up as `[host]:port` first and then, only if nothing is known under that
//! name, as the bare host; a revoked key is refused whatever other line has it. It is stricter in one
//! thing: certificates are not asked for, so a `@cert-authority` line vouches for nobody.

mod line;
mod names;

use line::{Line, Marker};
use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PublicKey, ssh_key::public::KeyData};
use std::net::IpAddr;

const SSH_PORT: u16 = 22;

/// What a file says about a key. Lines count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A line has this key for this host.
    Accepted,
    /// No line is about this host.
    Unknown,
    /// The host is known by a key of another type only. OpenSSH calls this changed, too.
    OtherType {
        /// Where.
        line: usize,
    },
    /// The host is known by another key of the same type.
    Changed {
        /// Where.
        line: usize,
    },
    /// This key is marked as not to be trusted.
    Revoked {
        /// Where.
        line: usize,
    },
    /// The host is known only by an authority whose certificates it may show.
    OnlyCertAuthority {
        /// Where.
        line: usize,
    },
}

/// What `file_text` says about `offered` as the key of `host` (a name or an address literal, without
/// brackets) at `port`.
#[must_use]
pub fn verdict(file_text: &str, host: &str, port: u16, offered: &PublicKey) -> Verdict {
    let (name, bare) = lookup_names(host, port);
    let verdict = verdict_by_name(file_text, &name, offered.key_data());
    let unknown = matches!(
        verdict,
        Verdict::Unknown | Verdict::OnlyCertAuthority { .. }
    );
    let Some(bare) = bare.filter(|_| unknown) else {
        return verdict;
    };
    match verdict_by_name(file_text, &bare, offered.key_data()) {
        known @ (Verdict::Accepted | Verdict::Revoked { .. }) => known,
        // What is known about port 22 says nothing against another key here.
        Verdict::Changed { .. } | Verdict::OtherType { .. } | Verdict::Unknown => verdict,
        authority @ Verdict::OnlyCertAuthority { .. } => match verdict {
            Verdict::Unknown => authority,
            _ => verdict,
        },
    }
}

/// What a file says of a host, apart from all that it says of others: it judges every key of the host as
/// any file does of which this is the same.
#[must_use]
pub fn about(file_text: &str, host: &str, port: u16) -> String {
    let (name, bare) = lookup_names(host, port);
    let lines = |name: &str| -> Vec<_> {
        let lines = line::about(file_text, name);
        lines.map(|line| (line.marker, line.key)).collect()
    };
    format!("{:?} {:?}", lines(&name), bare.map(|bare| lines(&bare)))
}

/// The algorithms to ask a host for its key by, best first: those that the file has a key for come
/// before all others, unless it has one for the best of all, so that a host known by its RSA key
/// alone shows that one.
#[must_use]
pub fn algorithms(file_text: &str, host: &str, port: u16) -> Vec<Algorithm> {
    let (name, _) = lookup_names(host, port);
    let lines: Vec<Line> = line::about(file_text, &name).collect();
    let is_known = |algorithm: &Algorithm| {
        lines
            .iter()
            .find(|line| line.marker.is_none() && same_type(&line.key.algorithm(), algorithm))
            .is_some_and(|line| revoked(&lines, &line.key).is_none())
    };
    let all = every_algorithm();
    if all.first().is_some_and(is_known) {
        return all;
    }
    let (mut first, last): (Vec<_>, Vec<_>) = all.into_iter().partition(is_known);
    first.extend(last);
    first
}

/// OpenSSH's order; RSA with SHA-1 is left out, as OpenSSH leaves it.
fn every_algorithm() -> Vec<Algorithm> {
    let ecdsa = |curve| Algorithm::Ecdsa { curve };
    let rsa = |hash| Algorithm::Rsa { hash: Some(hash) };
    vec![
        Algorithm::Ed25519,
        ecdsa(EcdsaCurve::NistP256),
        ecdsa(EcdsaCurve::NistP384),
        ecdsa(EcdsaCurve::NistP521),
        rsa(HashAlg::Sha512),
        rsa(HashAlg::Sha256),
    ]
}

/// The name a host is looked up by, and the one to try if that one is unknown.
fn lookup_names(host: &str, port: u16) -> (String, Option<String>) {
    // An address may be written in several ways, and names have no case.
    let host = host.parse().map_or_else(
        |_| host.to_ascii_lowercase(),
        |address: IpAddr| address.to_string(),
    );
    if port == SSH_PORT {
        (host, None)
    } else {
        (format!("[{host}]:{port}"), Some(host))
    }
}

fn verdict_by_name(file_text: &str, name: &str, offered: &KeyData) -> Verdict {
    let lines: Vec<Line> = line::about(file_text, name).collect();
    if let Some(line) = revoked(&lines, offered) {
        return Verdict::Revoked { line };
    }
    let plain = || lines.iter().filter(|line| line.marker.is_none());
    if plain().any(|line| line.key == *offered) {
        return Verdict::Accepted;
    }
    let of_type = |line: &&Line| same_type(&line.key.algorithm(), &offered.algorithm());
    if let Some(line) = plain().rfind(of_type) {
        return Verdict::Changed { line: line.number };
    }
    if let Some(line) = plain().next_back() {
        return Verdict::OtherType { line: line.number };
    }
    let authority = |line: &&Line| line.marker == Some(Marker::CertAuthority);
    lines
        .iter()
        .find(authority)
        .map_or(Verdict::Unknown, |line| Verdict::OnlyCertAuthority {
            line: line.number,
        })
}

fn revoked(lines: &[Line], key: &KeyData) -> Option<usize> {
    let marked = |line: &&Line| line.marker == Some(Marker::Revoked) && line.key == *key;
    lines.iter().find(marked).map(|line| line.number)
}

/// An RSA key is one key, whatever hash it signs with.
fn same_type(one: &Algorithm, other: &Algorithm) -> bool {
    let is_rsa = |it: &Algorithm| matches!(it, Algorithm::Rsa { .. });
    one == other || (is_rsa(one) && is_rsa(other))
}

#[cfg(test)]
mod tests;
