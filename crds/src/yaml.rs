//! The `CustomResourceDefinition` documents that are generated from the types.

use crate::{ProviderHealth, Proxy};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// Both definitions, for a client to install.
#[must_use]
pub fn definitions() -> [CustomResourceDefinition; 2] {
    [Proxy::crd(), ProviderHealth::crd()]
}

/// Both definitions as `(file name, YAML)`. The same types always give the same bytes.
#[must_use]
pub fn documents() -> Vec<(String, String)> {
    definitions()
        .iter()
        .map(|definition| {
            let name = definition.metadata.name.as_deref().unwrap_or_default();
            (
                format!("{name}.yaml"),
                format!("{HEADER}{}", text(definition)),
            )
        })
        .collect()
}

/// Both definitions as one stream of documents, for `kubectl apply -f -`.
#[must_use]
pub fn yaml() -> String {
    definitions().each_ref().map(text).join("---\n")
}

#[expect(
    clippy::expect_used,
    reason = "the input is known at compile time: the tests write it, so this cannot fail at run time"
)]
fn text(definition: &CustomResourceDefinition) -> String {
    serde_yaml::to_string(definition).expect("string keys and plain values are always YAML")
}

const HEADER: &str = "# Generated from the types in crds/src by `cargo run -p crds --example generate`; do not edit.\n";
