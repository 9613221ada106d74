//! The request ids that make a repeated request one request for Google, for an hour at least.
//!
//! They are computed and not drawn, so that an attempt after a crash has the id of the one before it.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The id of one creation: of this owner, of what it is built from, after the operation that was its last.
#[must_use]
pub fn of_creation(uid: &str, spec_hash: &str, after: Option<&str>) -> String {
    hashed(&["create", uid, spec_hash, after.unwrap_or_default()])
}

/// The id of one deletion: of the VM with this number, which no other VM ever has, after the deletion
/// that failed last.
#[must_use]
pub fn of_deletion(number: u64, after: Option<&str>) -> String {
    hashed(&["delete", &number.to_string(), after.unwrap_or_default()])
}

/// The id of a request that is looked at anew before it is repeated.
#[must_use]
pub fn once() -> String {
    let drawn: u128 = rand::random();
    hashed(&["once", &drawn.to_string()])
}

/// A UUID of version 8, which is for such hashes.
fn hashed(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // With its length, so that no two lists of parts are one text.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let digest = hasher.finalize();
    let mut bytes: [u8; 16] = std::array::from_fn(|at| digest[at]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut uuid = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            uuid.push('-');
        }
        write!(uuid, "{byte:02x}").ok();
    }
    uuid
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_same_creation_has_the_same_id_and_another_has_another() {
        let id = of_creation("u", "h", None);
        assert_eq!(id, of_creation("u", "h", None));
        let all = [
            id,
            of_creation("u", "h", Some("operation-1")),
            of_creation("u", "i", None),
            of_creation("v", "h", None),
            of_creation("uh", "", None),
            of_deletion(1, None),
            of_deletion(2, None),
            of_deletion(1, Some("operation-1")),
            once(),
            once(),
        ];
        let distinct: HashSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn an_id_is_a_uuid() {
        let id = of_creation("u", "h", None);
        let groups: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12]);
        assert!(id.chars().all(|c| c.is_ascii_hexdigit() || c == '-'));
        assert_eq!(&id[14..15], "8");
        assert!("89ab".contains(&id[19..20]));
    }
}
