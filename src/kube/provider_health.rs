//! `ProviderHealth` objects: one a provider, cluster-scoped, written by the monitor alone.
//!
//! Several operators may share a cluster, each bound to a namespace. A second label tells whose an object is,
//! so that none removes those of another.

use crate::telemetry::with_causes;
use actors::monitor::HealthObjects;
use crds::{ProviderHealth, ProviderHealthStatus, names};
use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

/// Whose object it is: the namespace that the operator is bound to, or its installation id.
pub const INSTANCE: &str = "app.kubernetes.io/instance";

/// Who has checked nothing for so long keeps no object any more: an operator that was removed, or was given
/// another namespace.
const ABANDONED: Duration = Duration::from_mins(10);

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
        let items = listed.items.into_iter();
        let ours = items.filter(|object| self.is_not_anothers(object));
        Ok(ours.map(said).collect())
    }

    async fn apply(&self, name: &str, status: ProviderHealthStatus) -> Result<String, String> {
        let own = PatchParams::apply(names::FIELD_MANAGER).force();
        let there = self.read_one(name).await?;
        if let Some(owner) = there.as_ref().and_then(|object| self.rival(object)) {
            return Err(format!(
                "it is kept by another operator, {owner}: in one cluster two operators have to name their providers differently"
            ));
        }
        if !there.is_some_and(|object| self.is_marked(&object)) {
            let labels = json!({
                names::MANAGED_BY: names::FIELD_MANAGER,
                INSTANCE: self.instance,
            });
            let marked = object(name, json!({"metadata": {"labels": labels}}));
            let made = self.api.patch(name, &own, &Patch::Apply(marked)).await;
            made.map_err(|error| with_causes(&error))?;
        }
        let says = Patch::Apply(object(name, json!({"status": status})));
        let said = self.api.patch_status(name, &own, &says).await;
        let object = said.map_err(|error| with_causes(&error))?;
        Ok(object.uid().unwrap_or_default())
    }

    async fn delete(&self, name: &str) -> Result<(), String> {
        let there = self.read_one(name).await?;
        let Some(object) = there.filter(|object| self.is_not_anothers(object)) else {
            return Ok(());
        };
        // This very one, whoever has put another in its place since.
        let this = DeleteParams::default().preconditions(Preconditions {
            uid: object.uid(),
            resource_version: None,
        });
        match self.api.delete(name, &this).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Ok(()),
            Err(error) => Err(with_causes(&error)),
        }
    }

    async fn read_one(&self, name: &str) -> Result<Option<ProviderHealth>, String> {
        let there = self.api.get_opt(name).await;
        there.map_err(|error| with_causes(&error))
    }

    /// Nobody else claims one without the label.
    fn is_not_anothers(&self, object: &ProviderHealth) -> bool {
        let instance = object.labels().get(INSTANCE);
        instance.is_none_or(|instance| *instance == self.instance)
    }

    /// Who else keeps the object, and is not gone.
    fn rival<'a>(&self, object: &'a ProviderHealth) -> Option<&'a String> {
        let checked = object.status.as_ref()?.last_check_time.as_ref()?;
        let silence = Timestamp::now().duration_since(checked.0).unsigned_abs();
        let owner = object.labels().get(INSTANCE)?;
        (*owner != self.instance && silence < ABANDONED).then_some(owner)
    }

    fn is_marked(&self, object: &ProviderHealth) -> bool {
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
            applied.map_err(|error| format!("{name}: {error}"))
        })
    }

    fn delete(&self, name: &str) -> BoxFuture<'static, Result<(), String>> {
        let (health, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let deleted = health.delete(&name).await;
            deleted.map_err(|error| format!("{name}: {error}"))
        })
    }
}
