//! The provider id of a pod: `namespace/name`.

use crate::config::names::is_dns_label;
use std::{fmt, str::FromStr};

/// Which pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodId {
    /// The namespace of the pod and of its Proxy.
    pub namespace: String,
    /// The name of the pod.
    pub name: String,
}

/// A provider id that no pod can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a pod's namespace/name")]
pub struct MalformedId(String);

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl FromStr for PodId {
    type Err = MalformedId;

    /// Strict, since the parts become parts of a URL: both are DNS labels, with one slash between.
    fn from_str(id: &str) -> Result<Self, MalformedId> {
        match id.split_once('/') {
            Some((namespace, name)) if is_dns_label(namespace) && is_dns_label(name) => Ok(Self {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(MalformedId(id.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_namespace_slash_name_is_an_id() {
        let id: PodId = "crawl/proxy-abc".parse().expect("an id");
        assert_eq!((&*id.namespace, &*id.name), ("crawl", "proxy-abc"));
        let long = format!("a/{}", "b".repeat(64));
        for malformed in [
            "", "/", "a", "a/", "/b", "a/b/c", "a//b", " a/b", "a/b ", "a/b\n", "A/b", "a/-b",
            "a/b-", "../x", "a/..", "a/b?c", "a/b%2f", "ä/b", "a.b/c", &long,
        ] {
            assert_eq!(
                malformed.parse::<PodId>(),
                Err(MalformedId(malformed.to_owned())),
                "{malformed:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same(text in "[a-z0-9/-]{0,70}") {
            if let Ok(id) = text.parse::<PodId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
