//! `ProviderHealth` objects: one a provider, cluster-scoped, written by the monitor alone.
//!
//! Several operators may share a cluster, each bound to a namespace. A second label tells whose an object is,
//! so that none removes those of another.

use crate::telemetry::with_causes;
use actors::monitor::HealthObjects;
use crds::{ProviderHealth, ProviderHealthStatus, names};
use futures::future::BoxFuture;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Whose object it is: the namespace that the operator is bound to, or its installation id.
pub const INSTANCE: &str = "app.kubernetes.io/instance";

/// The objects that are this operator's.
#[derive(Clone)]
pub struct KubeHealth {
    api: Api<ProviderHealth>,
    instance: String,
}

impl KubeHealth {
    /// The objects labelled with `instance`.
    #[must_use]
    pub fn new(client: Client, instance: String) -> Self {
        Self {
            api: Api::all(client),
            instance,
        }
    }

    async fn read(&self) -> kube::Result<BTreeMap<String, ProviderHealthStatus>> {
        let ours = format!("{}={}", names::MANAGED_BY, names::FIELD_MANAGER);
        // Without a resource version: nothing older than the question.
        let listed = self.api.list(&ListParams::default().labels(&ours)).await?;
        let said = |object: ProviderHealth| {
            let name = object.name_any();
            (name, object.status.unwrap_or_default())
        };
        // Nobody else claims one without the label.
        let ours = |object: &ProviderHealth| {
            let instance = object.labels().get(INSTANCE);
            instance.is_none_or(|instance| *instance == self.instance)
        };
        Ok(listed.items.into_iter().filter(ours).map(said).collect())
    }

    async fn apply(&self, name: &str, status: ProviderHealthStatus) -> kube::Result<String> {
        let says = json!({"status": status});
        match self.say(name, &says).await {
            Ok(object) if self.is_ours(&object) => return Ok(object.uid().unwrap_or_default()),
            // One that somebody else made, or that is not there.
            Ok(_) => {}
            Err(kube::Error::Api(error)) if error.code == 404 => {}
            Err(error) => return Err(error),
        }
        let labels = json!({
            names::MANAGED_BY: names::FIELD_MANAGER,
            INSTANCE: self.instance,
        });
        let object = object(name, json!({"metadata": {"labels": labels}}));
        let own = PatchParams::apply(names::FIELD_MANAGER).force();
        self.api.patch(name, &own, &Patch::Apply(object)).await?;
        let object = self.say(name, &says).await?;
        Ok(object.uid().unwrap_or_default())
    }

    async fn say(&self, name: &str, says: &Value) -> kube::Result<ProviderHealth> {
        let own = PatchParams::apply(names::FIELD_MANAGER).force();
        let object = Patch::Apply(object(name, says.clone()));
        self.api.patch_status(name, &own, &object).await
    }

    fn is_ours(&self, object: &ProviderHealth) -> bool {
        let has = |label: &str, value: &str| {
            object.labels().get(label).map(String::as_str) == Some(value)
        };
        has(names::MANAGED_BY, names::FIELD_MANAGER) && has(INSTANCE, &self.instance)
    }
}

/// An object of this name that has `more`.
fn object(name: &str, more: Value) -> Value {
    let mut object = more;
    object["apiVersion"] = ProviderHealth::api_version(&()).into();
    object["kind"] = ProviderHealth::kind(&()).into();
    object["metadata"]["name"] = name.into();
    object
}

impl HealthObjects for KubeHealth {
    fn read(&self) -> BoxFuture<'static, Result<BTreeMap<String, ProviderHealthStatus>, String>> {
        let health = self.clone();
        Box::pin(async move { health.read().await.map_err(|error| with_causes(&error)) })
    }

    fn apply(
        &self,
        name: &str,
        status: ProviderHealthStatus,
    ) -> BoxFuture<'static, Result<String, String>> {
        let (health, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let applied = health.apply(&name, status).await;
            applied.map_err(|error| format!("{name}: {}", with_causes(&error)))
        })
    }

    fn delete(&self, name: &str) -> BoxFuture<'static, Result<(), String>> {
        let (api, name) = (self.api.clone(), name.to_owned());
        Box::pin(async move {
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(error)) if error.code == 404 => Ok(()),
                Err(error) => Err(format!("{name}: {}", with_causes(&error))),
            }
        })
    }
}
