//! The kubernetes backend of the conformance suite.

use super::wire::Wire;
use crate::conformance::{Backend, Pose, Wired, eventually};
use actors::provider::contract::{
    CreateRequest, InstanceState, Provider, ProviderId, instance_name,
};
use anyhow::Context;
use crds::{Proxy, names::FIELD_MANAGER};
use futures::future::BoxFuture;
use k8s_openapi::{
    api::core::v1::{Event, Namespace, Node, Pod, ServiceAccount},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, CustomResourceExt, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::{conditions, wait::await_condition},
};
use proxy_operator::providers::{
    INSTALLATION_MARK, MANAGED_MARK, UID_MARK,
    kubernetes::{Cluster, KubernetesProvider, config::KubernetesConfig},
};
use serde_json::{Value, json};
use std::{net::IpAddr, path::Path, sync::Arc};

/// The image that the lab loads on its node.
const IMAGE: &str = "lab.local/squid:1";

/// A namespace that enforces the restricted Pod Security Standard.
pub struct Lab {
    pub config: Config,
    pub client: Client,
    pub namespace: String,
    /// Whether there is a node, and with it the controllers.
    pub boots: bool,
}

impl Lab {
    pub async fn new(kubeconfig: &Path) -> anyhow::Result<Self> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let client = Client::try_from(config.clone())?;
        let nodes: Api<Node> = Api::all(client.clone());
        let lab = Self {
            boots: !nodes.list(&ListParams::default()).await?.items.is_empty(),
            namespace: format!("kubeprov-{:016x}", rand::random::<u64>()),
            config,
            client,
        };
        lab.prepare().await?;
        Ok(lab)
    }

    pub async fn prepare(&self) -> anyhow::Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let apply = PatchParams::apply(FIELD_MANAGER).force();
        let name = Proxy::crd_name();
        definitions
            .patch(name, &apply, &Patch::Apply(Proxy::crd()))
            .await?;
        await_condition(definitions, name, conditions::is_crd_established()).await?;
        make(&Api::<Namespace>::all(self.client.clone()), json!({
            "metadata": {"name": self.namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        }))
        .await?;
        self.give_service_account(&self.namespace).await
    }

    /// A cluster without controllers makes no service accounts, and without one there are no pods.
    pub async fn give_service_account(&self, namespace: &str) -> anyhow::Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        if !self.boots {
            make(&accounts, json!({"metadata": {"name": "default"}})).await?;
        }
        eventually("the service account", || async {
            Ok(accounts.get_opt("default").await?)
        })
        .await?;
        Ok(())
    }

    pub async fn end(&self) -> anyhow::Result<()> {
        // What a failed scenario still holds would keep the namespace for ever.
        for pod in self.pods().list(&ListParams::default()).await? {
            if !pod.finalizers().is_empty() {
                let id = format!("{}/{}", self.namespace, pod.name_any());
                self.finalizers(&id, Value::Null).await?;
            }
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces
            .delete(&self.namespace, &DeleteParams::default())
            .await?;
        Ok(())
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn cluster(&self) -> Cluster {
        Cluster {
            client: self.client.clone(),
            url: self.config.cluster_url.to_string(),
            installation: self.namespace.clone(),
            namespace: None,
        }
    }

    pub fn ours(&self) -> Arc<dyn Provider> {
        self.provider(&self.namespace)
    }

    /// A client that the API server takes for `user`.
    pub fn client_as(&self, user: &str) -> anyhow::Result<Client> {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        Ok(Client::try_from(config)?)
    }

    /// A provider that the API server takes for `user`, in this namespace only.
    pub fn as_user(&self, user: &str) -> anyhow::Result<KubernetesProvider> {
        Ok(provider(Cluster {
            client: self.client_as(user)?,
            namespace: Some(self.namespace.clone()),
            ..self.cluster()
        }))
    }

    /// A provider on the near end of `wire`.
    pub fn over(&self, wire: &Wire) -> anyhow::Result<KubernetesProvider> {
        let mut config = Config::new(format!("http://{}", wire.address).parse()?);
        // Spares it the look for trusted certificates, of which a bare machine has none.
        config.accept_invalid_certs = true;
        with_client(self, config)
    }

    /// The address of the instance once it runs.
    pub async fn running(&self, provider: &dyn Provider, id: &str) -> anyhow::Result<IpAddr> {
        eventually("the pod runs", || async {
            let instance = provider.get(id).await?;
            Ok(instance
                .ip
                .filter(|_| instance.state == InstanceState::Running))
        })
        .await
    }

    pub async fn ready(&self, name: &str) -> anyhow::Result<Pod> {
        eventually("the pod is ready", || async {
            let pod = self.pods().get(name).await?;
            let conditions = pod
                .status
                .iter()
                .flat_map(|status| status.conditions.iter().flatten());
            let ready = conditions
                .clone()
                .any(|c| c.type_ == "Ready" && c.status == "True");
            Ok(ready.then_some(pod))
        })
        .await
    }
}

impl Backend for Lab {
    fn provider(&self, installation: &str) -> Arc<dyn Provider> {
        Arc::new(provider(Cluster {
            installation: installation.to_owned(),
            ..self.cluster()
        }))
    }

    fn wired(&self) -> BoxFuture<'_, anyhow::Result<Wired>> {
        Box::pin(async {
            let wire = Wire::new(self.client.clone()).await?;
            Ok((Arc::new(self.over(&wire)?) as _, Box::new(wire) as _))
        })
    }

    fn installation(&self) -> &str {
        &self.namespace
    }

    fn request(&self) -> BoxFuture<'_, anyhow::Result<CreateRequest>> {
        Box::pin(async {
            let proxies: Api<Proxy> = Api::namespaced(self.client.clone(), &self.namespace);
            let proxy = make(
                &proxies,
                json!({
                    "apiVersion": "crawl.example.com/v1alpha1", "kind": "Proxy",
                    "metadata": {"generateName": "p-"},
                    "spec": {"mode": "Managed", "provider": "kubernetes"},
                }),
            )
            .await?;
            let uid = proxy.uid().context("a uid")?;
            Ok(CreateRequest {
                name: instance_name(&uid),
                uid,
                namespace: self.namespace.clone(),
                proxy_name: proxy.name_any(),
                placement: crds::Placement::default(),
                user_data: None,
                port: 3128,
                installation: self.namespace.clone(),
                spec_hash: "hash".to_owned(),
                after: None,
                elsewhere: false,
            })
        })
    }

    fn malformed_ids(&self) -> Vec<String> {
        [
            "", "a", "/a", "a/", "a/b/c", "A/b", "a/../b", "a/b?x=y", " a/b",
        ]
        .map(str::to_owned)
        .into()
    }

    fn absent_id(&self) -> ProviderId {
        format!("{}/proxy-aaaaaaaaaaaaaaaa", self.namespace)
    }

    fn unmarked(&self) -> BoxFuture<'_, anyhow::Result<ProviderId>> {
        Box::pin(async {
            let pod = make(&self.pods(), dormant(&json!({"generateName": "stray-"}))).await?;
            Ok(format!("{}/{}", self.namespace, pod.name_any()))
        })
    }

    fn posed(&self, pose: Pose) -> BoxFuture<'_, anyhow::Result<ProviderId>> {
        Box::pin(async move {
            let pod = make(&self.pods(), dormant(&self.marked("posed-"))).await?;
            let status = match pose {
                Pose::Running => {
                    json!({"phase": "Running", "podIP": "10.79.0.9", "podIPs": [{"ip": "10.79.0.9"}]})
                }
                Pose::RunningWithoutAddress => json!({"phase": "Running"}),
                Pose::Unheard => json!({"phase": "Hibernated"}),
            };
            let status = Patch::Merge(json!({"status": status}));
            self.pods()
                .patch_status(&pod.name_any(), &PatchParams::default(), &status)
                .await?;
            Ok(format!("{}/{}", self.namespace, pod.name_any()))
        })
    }

    fn hold<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(self.finalizers(id, json!(["lab.local/hold"])))
    }

    fn let_go<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(self.finalizers(id, Value::Null))
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            let (pods, name) = (self.pods(), pod_name(id)?);
            pods.delete(name, &DeleteParams::default()).await?;
            eventually("the pod is gone", || async {
                Ok(pods.get_opt(name).await?.is_none().then_some(()))
            })
            .await
        })
    }

    fn made<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Vec<String>>> {
        Box::pin(async move {
            let pod = self.pods().get_opt(name).await?;
            Ok(pod.into_iter().filter_map(|pod| pod.uid()).collect())
        })
    }

    fn visible<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<String>> {
        Box::pin(async move {
            let pod = serde_json::to_string(&self.pods().get(name).await?)?;
            let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
            let events = events.list(&ListParams::default()).await?;
            Ok(pod + &serde_json::to_string(&events)?)
        })
    }

    fn boots(&self) -> bool {
        self.boots
    }
}

impl Lab {
    pub fn marked(&self, prefix: &str) -> Value {
        json!({"generateName": prefix, "labels": {
            MANAGED_MARK: "true", UID_MARK: "nobody", INSTALLATION_MARK: self.namespace,
        }})
    }

    pub async fn finalizers(&self, id: &str, finalizers: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let pods = self.pods();
        pods.patch(pod_name(id)?, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }
}

pub fn with_client(lab: &Lab, config: Config) -> anyhow::Result<KubernetesProvider> {
    Ok(provider(Cluster {
        client: Client::try_from(config)?,
        ..lab.cluster()
    }))
}

pub fn provider(cluster: Cluster) -> KubernetesProvider {
    KubernetesProvider::new("kubernetes".to_owned(), config(), cluster)
}

pub fn config() -> KubernetesConfig {
    KubernetesConfig {
        image: IMAGE.to_owned(),
        ..KubernetesConfig::default()
    }
}

/// A pod that passes the restricted standard and that no scheduler takes.
pub fn dormant(metadata: &Value) -> Value {
    json!({
        "metadata": metadata,
        "spec": {
            "schedulerName": "nobody",
            "securityContext": {"runAsNonRoot": true, "runAsUser": 13, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "image": IMAGE, "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            }}],
        },
    })
}

pub async fn make<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: serde::de::DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
{
    let object = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}

pub fn pod_name(id: &str) -> anyhow::Result<&str> {
    Ok(id.split_once('/').context("namespace/name")?.1)
}
