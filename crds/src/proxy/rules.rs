//! The rules of a `Proxy` that a Rust type cannot say.

/// Whether `key` is one that `spec.attributes`, and so a selector, may have: 1 to 63 ASCII letters,
/// digits, `-`, `_` and `.`, the first and the last of them a letter or a digit.
#[must_use]
pub fn is_attribute_key(key: &str) -> bool {
    let bytes = key.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    bytes.len() <= 63
        && first.is_ascii_alphanumeric()
        && last.is_ascii_alphanumeric()
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}
