//! Which proxy: the one name by which every actor speaks of it.

use crds::Proxy;
use std::{fmt, sync::Arc};

/// `namespace/name` of a Proxy; cheap to clone, ordered as the lease API sorts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProxyKey(Arc<str>);

impl ProxyKey {
    /// The key of the object `name` in `namespace`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// The key of `object`; every object that was read from an API server has one.
    #[must_use]
    pub fn of(object: &Proxy) -> Option<Self> {
        let metadata = &object.metadata;
        Some(Self::new(
            metadata.namespace.as_deref()?,
            metadata.name.as_deref()?,
        ))
    }

    /// `namespace/name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The object's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0
            .split_once('/')
            .map_or("", |(namespace, _)| namespace)
    }

    /// The object's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl fmt::Display for ProxyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProxyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
