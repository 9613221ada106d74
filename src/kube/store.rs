//! Proxies and Secrets on the API server. Every call has a deadline of its own: the client's would
//! retry for minutes.

use super::watch::{Seen, follow_secrets};
use crate::telemetry::with_causes;
use actors::{
    fleet::FleetMsg,
    key::ProxyKey,
    provider::contract::UserData,
    store::{MetadataChange, ProxyStore, UserDataError, Write, WriteError},
    system::Addr,
};
use crds::{Proxy, SecretRef, names};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use prometheus::IntCounter;
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// One call to the API server.
const DEADLINE: Duration = Duration::from_secs(15);

/// The API server, for Proxies and Secrets.
pub struct KubeStore {
    client: Client,
    namespace: Option<String>,
    seen: Arc<Seen>,
}

impl KubeStore {
    /// A store of the Proxies in `namespace`, or in all of them, that counts those that do not decode.
    #[must_use]
    pub fn new(client: Client, namespace: Option<String>, undecodable: IntCounter) -> Self {
        Self {
            client,
            namespace,
            seen: Arc::new(Seen::new(undecodable)),
        }
    }

    /// Forgets what was seen under an earlier tenure: others may have changed it since.
    pub fn forget(&self) {
        self.seen.clear();
    }

    fn scoped<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }
}

impl ProxyStore for KubeStore {
    fn watch(&self, fleet: Addr<FleetMsg>) -> BoxFuture<'static, ()> {
        let (proxies, secrets, seen) = (self.scoped(), self.scoped(), Arc::clone(&self.seen));
        Box::pin(async move {
            tokio::select! {
                () = seen.follow(proxies, &fleet) => {}
                () = follow_secrets(secrets, &fleet) => {}
            }
        })
    }

    fn noticed(&self, key: &ProxyKey) {
        self.seen.noticed(key);
    }

    fn get(&self, key: &ProxyKey) -> Option<Arc<Proxy>> {
        self.seen.get(key)
    }

    fn list(&self) -> Vec<Arc<Proxy>> {
        self.seen.list()
    }

    fn write(
        &self,
        key: &ProxyKey,
        write: Write,
    ) -> BoxFuture<'static, Result<Arc<Proxy>, WriteError>> {
        let api: Api<Proxy> = Api::namespaced(self.client.clone(), key.namespace());
        let name = key.name().to_owned();
        Box::pin(async move {
            let written = tokio::time::timeout(DEADLINE, patch(&api, &name, write)).await;
            match written {
                Ok(Ok(mut object)) => {
                    object.managed_fields_mut().clear();
                    Ok(Arc::new(object))
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(WriteError::Gone),
                Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                    Err(WriteError::Conflict)
                }
                Ok(Err(error)) => Err(WriteError::Failed(with_causes(&error))),
                Err(_) => Err(WriteError::Failed(late())),
            }
        })
    }

    fn user_data(
        &self,
        namespace: &str,
        secret: &SecretRef,
    ) -> BoxFuture<'static, Result<UserData, UserDataError>> {
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let (name, key) = (secret.name.clone(), secret.key.clone());
        Box::pin(async move {
            let secret = match tokio::time::timeout(DEADLINE, api.get_opt(&name)).await {
                Ok(Ok(secret)) => secret,
                Ok(Err(error)) => return Err(UserDataError::Failed(with_causes(&error))),
                Err(_) => return Err(UserDataError::Failed(late())),
            };
            user_data_in(secret, &name, &key).map_err(UserDataError::Unavailable)
        })
    }
}

async fn patch(api: &Api<Proxy>, name: &str, write: Write) -> kube::Result<Proxy> {
    match write {
        Write::Status { uid, status } => {
            let object = json!({
                "apiVersion": Proxy::api_version(&()),
                "kind": Proxy::kind(&()),
                "metadata": {"name": name, "uid": uid},
                "status": status,
            });
            let ours = PatchParams::apply(names::FIELD_MANAGER).force();
            api.patch_status(name, &ours, &Patch::Apply(object)).await
        }
        Write::Metadata {
            resource_version,
            change,
        } => {
            let mut metadata = match change {
                MetadataChange::Finalizers(all) => json!({"finalizers": all}),
                MetadataChange::SpecHash(hash) => json!({"annotations": {names::SPEC_HASH: hash}}),
            };
            metadata["resourceVersion"] = resource_version.into();
            let ours = PatchParams {
                field_manager: Some(names::FIELD_MANAGER.into()),
                ..PatchParams::default()
            };
            let merge = Patch::Merge(json!({"metadata": metadata}));
            api.patch(name, &ours, &merge).await
        }
    }
}

/// The user-data, or what is missing, in words that say what to do.
fn user_data_in(secret: Option<Secret>, name: &str, key: &str) -> Result<UserData, String> {
    let field = "spec.cloudInit.secretRef";
    let label = names::CLOUD_INIT_LABEL;
    // Only labelled Secrets are watched, so one that comes without the label is not seen to come.
    let secret = secret.ok_or_else(|| {
        format!("{field}: there is no Secret {name:?}; it is seen once it is there with the label {label}=true")
    })?;
    if secret.labels().get(label).map(String::as_str) != Some(names::TRUE) {
        return Err(format!(
            "{field}: Secret {name:?} lacks the label {label}=true"
        ));
    }
    let mut data = secret.data.unwrap_or_default();
    let bytes = data
        .remove(key)
        .ok_or_else(|| format!("{field}: Secret {name:?} has no key {key:?}"))?;
    Ok(bytes.0.into())
}

fn late() -> String {
    format!(
        "no answer from the API server within {} s",
        DEADLINE.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    fn secret(label: Option<&str>, key: &str) -> Secret {
        let mut secret = Secret {
            data: Some([(key.to_owned(), ByteString(b"#cloud-config".to_vec()))].into()),
            ..Secret::default()
        };
        if let Some(value) = label {
            secret
                .labels_mut()
                .insert(names::CLOUD_INIT_LABEL.into(), value.into());
        }
        secret
    }

    #[test]
    fn each_thing_that_a_secret_may_lack_is_named() {
        for (secret, lacks) in [
            (None, "there is no Secret \"boot\""),
            (
                Some(secret(None, "user-data")),
                "label crawl.example.com/cloud-init=true",
            ),
            (
                Some(secret(Some("yes"), "user-data")),
                "label crawl.example.com/cloud-init=true",
            ),
            (
                Some(secret(Some("true"), "userdata")),
                "no key \"user-data\"",
            ),
        ] {
            let error = user_data_in(secret, "boot", "user-data").expect_err(lacks);
            assert!(error.contains(lacks), "{error}");
            assert!(error.starts_with("spec.cloudInit.secretRef"), "{error}");
        }
        let data = user_data_in(Some(secret(Some("true"), "user-data")), "boot", "user-data");
        assert_eq!(
            data.map(|d| d.bytes().to_vec()),
            Ok(b"#cloud-config".to_vec())
        );
    }
}
