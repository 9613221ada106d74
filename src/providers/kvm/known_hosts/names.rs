//! Whether the first word of a line means a host: a list of patterns, or the hash of one name.

use data_encoding::BASE64;
use ring::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, Key, sign};

/// The bytes of salt in a hashed name: as many as SHA-1 gives.
const SALT: usize = 20;
/// A pattern of this length spoils its list (OpenSSH reads patterns into 1024 bytes).
const TOO_LONG: usize = 1023;

/// Whether `hosts` means `name`, which is in lower case.
pub(super) fn matches(name: &str, hosts: &str) -> bool {
    if hosts.starts_with('|') {
        matches_hash(name, hosts).unwrap_or(false)
    } else {
        matches_list(name, hosts)
    }
}

/// `|1|salt|hash`. A list of such is none.
fn matches_hash(name: &str, hosts: &str) -> Option<bool> {
    let (salt, hash) = hosts.strip_prefix("|1|")?.split_once('|')?;
    let salt = BASE64.decode(salt.as_bytes()).ok()?;
    if salt.len() != SALT {
        return None;
    }
    let key = Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    Some(BASE64.encode(sign(&key, name.as_bytes()).as_ref()) == hash)
}

/// One pattern that matches is enough, unless one with `!` matches, too.
fn matches_list(name: &str, hosts: &str) -> bool {
    let mut found = false;
    for pattern in hosts.split(',') {
        let (negated, pattern) = match pattern.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, pattern),
        };
        if pattern.len() >= TOO_LONG {
            return false;
        }
        let pattern = pattern.to_ascii_lowercase();
        if matches_pattern(name.as_bytes(), pattern.as_bytes()) {
            if negated {
                return false;
            }
            found = true;
        }
    }
    found
}

/// `*` is any run of characters, `?` any one. Walks back to the last `*` only, so that no pattern
/// takes more than the product of both lengths.
fn matches_pattern(name: &[u8], pattern: &[u8]) -> bool {
    let (mut n, mut p) = (0, 0);
    let mut last_star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                last_star = Some((p, n));
                p += 1;
            }
            Some(&wanted) if wanted == b'?' || wanted == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((star, taken)) = last_star else {
                    return false;
                };
                last_star = Some((star, taken + 1));
                p = star + 1;
                n = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|&left| left == b'*')
}

#[cfg(test)]
mod tests {
    use super::{matches, matches_pattern};

    #[test]
    fn a_pattern_matches_the_whole_name() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("", "a", false),
            ("*", "a", true),
            ("*", "", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*.example", "a.b.example", true),
            ("*.example", "example", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("**a**", "a", true),
            ("[10.0.0.*]:2222", "[10.0.0.7]:2222", true),
            ("[10.0.0.*]:2222", "10.0.0.7", false),
        ] {
            let matched = matches_pattern(name.as_bytes(), pattern.as_bytes());
            assert_eq!(matched, expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_list_is_spoilt_by_one_negated_match() {
        for (hosts, expected) in [
            ("a.example", true),
            ("A.EXAMPLE", true),
            ("b.example,a.example", true),
            ("*.example,!a.example", false),
            ("!a.example,*.example", false),
            ("!b.example,*.example", true),
            ("!b.example", false),
            (",a.example,", true),
            ("!", false),
        ] {
            assert_eq!(matches("a.example", hosts), expected, "{hosts}");
        }
        let long = format!("{},a.example", "x".repeat(1023));
        assert!(!matches("a.example", &long));
    }

    #[test]
    fn a_broken_hash_means_nobody() {
        for hosts in [
            "|1|",
            "|1|AAAA|AAAA",
            "|2|AAAA|AAAA",
            "|",
            "|1|%%%|AAAA",
            "|1|a.example",
        ] {
            assert!(!matches("a.example", hosts), "{hosts}");
        }
    }
}
