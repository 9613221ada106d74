//! Objects without a Rust type, so that a test can say what the types cannot, and `kubectl`.

use ::crds::{ProviderHealth, Proxy};
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::{fmt::Display, path::Path};
use tokio::process::Command;

/// The objects of one resource.
pub struct Objects {
    api: Api<DynamicObject>,
    resource: ApiResource,
}

impl Objects {
    pub fn proxies(client: &Client, namespace: &str) -> Self {
        let resource = ApiResource::erase::<Proxy>(&());
        Self {
            api: Api::namespaced_with(client.clone(), namespace, &resource),
            resource,
        }
    }

    pub fn provider_health(client: &Client) -> Self {
        let resource = ApiResource::erase::<ProviderHealth>(&());
        Self {
            api: Api::all_with(client.clone(), &resource),
            resource,
        }
    }

    pub async fn create(&self, name: &str, spec: &str) -> Result<DynamicObject, String> {
        let object = self.object(name, &parse(spec)?);
        self.api
            .create(&PostParams::default(), &object)
            .await
            .map_err(say(spec))
    }

    /// The server's whole chain except the write.
    pub async fn dry_create(&self, name: &str, spec: &Value) -> Result<(), kube::Error> {
        let object = self.object(name, spec);
        self.api.create(&dry(), &object).await.map(drop)
    }

    /// The same for a change.
    pub async fn dry_replace(&self, old: &DynamicObject, spec: &Value) -> Result<(), kube::Error> {
        let mut object = old.clone();
        object.data = json!({ "spec": spec });
        let name = old.metadata.name.as_deref().unwrap_or_default();
        self.api.replace(name, &dry(), &object).await.map(drop)
    }

    pub async fn get(&self, name: &str) -> Result<DynamicObject, String> {
        self.api.get(name).await.map_err(say(name))
    }

    pub async fn merge(&self, name: &str, change: Value) -> Result<DynamicObject, String> {
        self.api
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await
            .map_err(say(name))
    }

    pub async fn merge_status(
        &self,
        name: &str,
        change: Value,
    ) -> Result<DynamicObject, kube::Error> {
        self.api
            .patch_status(name, &PatchParams::default(), &Patch::Merge(change))
            .await
    }

    pub async fn apply_status(
        &self,
        name: &str,
        manager: &str,
        status: Value,
    ) -> Result<(), String> {
        let object = json!({
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "status": status,
        });
        self.api
            .patch_status(name, &PatchParams::apply(manager), &Patch::Apply(object))
            .await
            .map(drop)
            .map_err(say(name))
    }

    pub async fn remove(&self, name: &str) -> Result<(), String> {
        self.api
            .delete(name, &DeleteParams::default())
            .await
            .map(drop)
            .map_err(say(name))
    }

    fn object(&self, name: &str, spec: &Value) -> DynamicObject {
        DynamicObject::new(name, &self.resource).data(json!({ "spec": spec }))
    }
}

/// `kubectl` as a user of the cluster runs it.
pub struct Kubectl<'a> {
    pub program: &'a Path,
    pub kubeconfig: &'a Path,
}

impl Kubectl<'_> {
    /// What it prints; an error if it fails.
    pub async fn run(&self, namespace: &str, arguments: &[&str]) -> Result<String, String> {
        let output = Command::new(self.program)
            .arg("--kubeconfig")
            .arg(self.kubeconfig)
            // What was discovered of an earlier cluster at this address is not true of this one.
            .env(
                "KUBECACHEDIR",
                self.kubeconfig.with_file_name("kubectl-cache"),
            )
            .args(["--namespace", namespace])
            .args(arguments)
            .output()
            .await
            .map_err(say(&arguments.join(" ")))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("kubectl {arguments:?}: {said}"));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn dry() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// A spec as the tables write it.
pub fn parse(spec: &str) -> Result<Value, String> {
    serde_yaml::from_str(spec).map_err(say(spec))
}

/// An error with what was being done.
pub fn say<E: Display>(what: &str) -> impl FnOnce(E) -> String {
    move |error| format!("{what}: {error}")
}

/// A table's line with one blank between columns.
pub fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}
