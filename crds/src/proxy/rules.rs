//! The rules of a `Proxy` that a Rust type cannot say, as CEL for the API server.
//!
//! Every message names its field by its full path, since that is all that some clients show. Strings
//! and maps that a rule looks into have a limit: the API server refuses a definition whose rules
//! could cost too much on the largest object that it would let through.

use super::Mode;
use kube::core::{Message, Reason, Rule};
use serde_json::{Value, json};

/// DNS-1123 label.
pub(super) const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// DNS-1123 subdomain, as a Secret's name has to be.
pub(super) const SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Key of a Secret.
pub(super) const SECRET_KEY: &str = "^[-._a-zA-Z0-9]+$";
/// Most bytes that an attribute's value may have.
const MAX_VALUE: usize = 253;

/// `spec.<field>` must be there in this mode.
pub(super) fn required(field: &str, mode: Mode) -> Rule {
    Rule::new(format!("self.mode != '{mode:?}' || has(self.{field})"))
        .message(Message::Message(format!(
            "spec.{field} is required when spec.mode is {mode:?}"
        )))
        .reason(Reason::FieldValueRequired)
        .field_path(format!(".{field}"))
}

/// `spec.<field>` must not be there in this mode.
pub(super) fn forbidden(field: &str, mode: Mode) -> Rule {
    Rule::new(format!("self.mode != '{mode:?}' || !has(self.{field})"))
        .message(Message::Message(format!(
            "spec.{field} is forbidden when spec.mode is {mode:?}"
        )))
        .reason(Reason::FieldValueForbidden)
        .field_path(format!(".{field}"))
}

/// `spec.<field>` keeps its value. It cannot see the field come or go: what may stand in a mode, and
/// that the mode stays, sees to that.
pub(super) fn immutable(field: &str) -> Rule {
    Rule::new("self == oldSelf").message(Message::Message(format!("spec.{field} is immutable")))
}

/// `spec.cloudInit` has one source.
pub(super) fn one_source() -> Rule {
    Rule::new("has(self.inline) != has(self.secretRef)")
        .message("exactly one of spec.cloudInit.inline and spec.cloudInit.secretRef is required")
}

/// `spec.endpoint.host` is an address or a name. A name's last label is not all digits: `10.0.0.256`
/// is a mistyped address, and resolvers disagree about what it means.
pub(super) fn host() -> Rule {
    const NAME: &str = "^[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*[.]?$";
    Rule::new(format!(
        "isIP(self) || (self.matches('{NAME}') && !self.matches('(^|[.])[0-9]+[.]?$'))"
    ))
    .message(
        "spec.endpoint.host must be a DNS name, an IPv4 address or an IPv6 address, without scheme, port and brackets",
    )
}

/// `spec.healthCheck.url` can be fetched through a proxy.
pub(super) fn probe_url() -> Rule {
    Rule::new(
        "self.matches('^[!-~]+$') && isURL(self) \
         && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' \
         && (url(self).getPort() == '' || (int(url(self).getPort()) >= 1 && int(url(self).getPort()) <= 65535))",
    )
    .message("spec.healthCheck.url must be an absolute http or https URL")
}

/// The keys of `spec.attributes`; the same grammar as [`is_attribute_key`].
pub(super) fn attribute_keys() -> Rule {
    Rule::new(
        "self.all(key, key.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
    )
    .message(
        "spec.attributes keys must have 1 to 63 letters, digits, '-', '_' or '.', and begin and end with a letter or digit",
    )
}

/// A value of `spec.attributes`. `maxLength` counts characters and keeps the rule cheap; the rule
/// counts bytes.
pub(super) fn attribute_value() -> Value {
    json!({
        "type": "string",
        "maxLength": MAX_VALUE,
        "x-kubernetes-validations": [{
            "rule": format!("bytes(self).size() <= {MAX_VALUE}"),
            "message": format!("spec.attributes values must have at most {MAX_VALUE} bytes"),
        }],
    })
}

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

#[cfg(test)]
mod tests {
    use super::is_attribute_key;

    #[test]
    fn attribute_keys_follow_the_grammar() {
        let longest = "a".repeat(63);
        for good in ["a", "A9", "geo", "a.b_c-d", "0", "a--b", &longest] {
            assert!(is_attribute_key(good), "{good:?} is a key");
        }
        let too_long = "a".repeat(64);
        for bad in [
            "", "-a", "a-", ".a", "a.", "_", "a b", "a/b", "gëo", "a\n", "a=b", &too_long,
        ] {
            assert!(!is_attribute_key(bad), "{bad:?} is no key");
        }
    }
}
