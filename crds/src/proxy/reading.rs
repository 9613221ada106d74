//! What is read off a `Proxy`, so that nobody spells a name twice.

use super::{Proxy, ProxySpec};
use crate::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

impl ProxySpec {
    /// The port to connect to: the endpoint's own, else the spec's.
    #[must_use]
    pub fn effective_port(&self) -> u16 {
        self.endpoint
            .as_ref()
            .and_then(|endpoint| endpoint.port)
            .unwrap_or(self.port)
    }

    /// The host of an External proxy; a Managed one's address is in its status.
    #[must_use]
    pub fn endpoint_host(&self) -> Option<&str> {
        self.endpoint
            .as_ref()
            .map(|endpoint| endpoint.host.as_str())
    }
}

impl Proxy {
    /// The port to connect to.
    #[must_use]
    pub fn effective_port(&self) -> u16 {
        self.spec.effective_port()
    }

    /// The host of an External proxy.
    #[must_use]
    pub fn endpoint_host(&self) -> Option<&str> {
        self.spec.endpoint_host()
    }

    /// Whether the object has a deletion timestamp.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether our finalizer holds the object.
    #[must_use]
    pub fn has_finalizer(&self) -> bool {
        self.metadata
            .finalizers
            .as_ref()
            .is_some_and(|all| all.iter().any(|name| name == names::FINALIZER))
    }

    /// Hash of the spec that was built, as the annotation has it.
    #[must_use]
    pub fn spec_hash(&self) -> Option<&str> {
        self.annotation(names::SPEC_HASH)
    }

    /// Whether the user wants the instance abandoned.
    #[must_use]
    pub fn skips_cleanup(&self) -> bool {
        self.annotation(names::SKIP_CLEANUP) == Some(names::TRUE)
    }

    /// The conditions; none before the first status was written.
    #[must_use]
    pub fn conditions(&self) -> &[Condition] {
        self.status
            .as_ref()
            .map_or(&[], |status| status.conditions.as_slice())
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(name))
            .map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Endpoint, Proxy, ProxySpec, names};

    #[test]
    fn the_endpoints_port_overrides_the_specs() {
        let at = |port| ProxySpec {
            port: 8080,
            endpoint: Some(Endpoint {
                host: "proxy.example".to_owned(),
                port,
            }),
            ..ProxySpec::default()
        };
        assert_eq!(at(None).effective_port(), 8080);
        assert_eq!(at(Some(1)).effective_port(), 1);
        assert_eq!(at(None).endpoint_host(), Some("proxy.example"));
        assert_eq!(ProxySpec::default().effective_port(), 3128);
        assert_eq!(ProxySpec::default().endpoint_host(), None);
    }

    #[test]
    fn only_the_word_true_skips_the_cleanup() {
        for (value, skips) in [("true", true), ("True", false), ("", false), ("1", false)] {
            let mut proxy = Proxy::default();
            proxy.metadata.annotations =
                Some([(names::SKIP_CLEANUP.to_owned(), value.to_owned())].into());
            assert_eq!(proxy.skips_cleanup(), skips, "{value:?}");
        }
        assert!(!Proxy::default().skips_cleanup());
    }

    #[test]
    fn a_foreign_finalizer_is_not_ours() {
        let mut proxy = Proxy::default();
        assert!(!proxy.has_finalizer());
        proxy.metadata.finalizers = Some(vec!["example.org/other".to_owned()]);
        assert!(!proxy.has_finalizer());
        proxy
            .metadata
            .finalizers
            .get_or_insert_default()
            .push(names::FINALIZER.to_owned());
        assert!(proxy.has_finalizer());
    }
}
