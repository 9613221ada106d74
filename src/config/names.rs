//! The grammars of names that Kubernetes would refuse later and less clearly.

/// Whether `text` is an RFC 1123 label: at most 63 of `[a-z0-9-]`, with no hyphen at either end.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// Whether `text` is the value of a label: at most 63 of `[A-Za-z0-9._-]`, alphanumeric at both
/// ends. An empty one, which Kubernetes takes, would mark nothing.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
    let ends = [text.bytes().next(), text.bytes().next_back()];
    text.len() <= 63
        && text.bytes().all(inner)
        && ends
            .iter()
            .all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()))
}

/// A name as namespaces and providers have it: a DNS-1123 label.
///
/// # Errors
/// The grammar, when `text` does not keep to it.
pub fn dns_label(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        return Ok(text.to_owned());
    }
    Err("not a DNS label: 1 to 63 lower-case letters, digits and '-', with a letter or digit at both ends".into())
}

/// The value of a Kubernetes label.
///
/// # Errors
/// The grammar, when `text` does not keep to it.
pub fn label_value(text: &str) -> Result<String, String> {
    if is_label_value(text) {
        return Ok(text.to_owned());
    }
    Err("not a label value: 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_to_their_grammars() {
        let long = "a".repeat(64);
        for good in ["a", "0", "gcp-eu", &long[..63]] {
            assert_eq!(dns_label(good).as_deref(), Ok(good));
            assert_eq!(label_value(good).as_deref(), Ok(good));
        }
        for bad in ["", "-a", "a-", "a b", "ä", "a/b", &long] {
            assert!(dns_label(bad).is_err(), "{bad}");
            assert!(label_value(bad).is_err(), "{bad}");
        }
        for only_a_value in ["A", "a.b", "a_b"] {
            assert!(dns_label(only_a_value).is_err(), "{only_a_value}");
            assert!(label_value(only_a_value).is_ok(), "{only_a_value}");
        }
    }
}
