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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::{collections::BTreeMap, fs, path::Path};

    #[test]
    fn the_files_are_what_the_types_say() {
        let files: BTreeMap<String, String> = fs::read_dir(env!("CARGO_MANIFEST_DIR"))
            .expect("is a folder")
            .map(|entry| entry.expect("is readable").path())
            .filter(|path| file_name(path).ends_with(".crawl.example.com.yaml"))
            .map(|path| {
                (
                    file_name(&path),
                    fs::read_to_string(&path).expect("is text"),
                )
            })
            .collect();
        let generated: BTreeMap<String, String> = documents().into_iter().collect();
        assert!(
            files == generated,
            "stale: run `cargo run -p crds --example generate` and commit what it writes"
        );
    }

    fn file_name(path: &Path) -> String {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into()
    }

    #[test]
    fn the_stream_holds_both_documents() {
        let read: Vec<CustomResourceDefinition> = yaml()
            .split("---\n")
            .map(|text| serde_yaml::from_str(text).expect("is a definition"))
            .collect();
        assert_eq!(read, definitions());
    }

    #[test]
    fn every_field_is_described_in_terms_that_kubernetes_knows() {
        for definition in definitions() {
            let definition = serde_json::to_value(definition).expect("is JSON");
            let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let mut fields = 0;
            walk("", schema, &mut fields);
            assert!(fields > 10, "only {fields} fields were looked at");
        }
    }

    fn walk(path: &str, schema: &Value, fields: &mut usize) {
        *fields += 1;
        let description = schema["description"].as_str().unwrap_or_default();
        assert!(
            !description.contains('\n'),
            "{path} is broken: {description}"
        );
        assert!(
            !description.is_empty() || path.ends_with('*'),
            "{path} says nothing"
        );
        assert!(
            path == ".status" || schema.get("nullable").is_none(),
            "{path} may be null"
        );
        let format = schema["format"].as_str().unwrap_or("int32");
        assert!(
            ["int32", "int64", "date-time"].contains(&format),
            "{path} is {format}"
        );
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{path}.{name}"), inner, fields);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                walk(&format!("{path}*"), &schema[inner], fields);
            }
        }
    }
}
