//! The kubernetes provider on a real API server and, where there is one, a real node.
//!
//! Every scenario has a namespace and an installation id of its own, so that they may run together.

pub mod wire;

use crate::conformance::{Backend, Fault, Faults, Pose, eventually, expect_error, gone, rows};
use actors::provider::contract::{
    CreateRequest, ErrorClass, InstanceState, Provider, ProviderId, TargetCheck, instance_name,
};
use anyhow::{Context, ensure};
use crds::{Proxy, names::FIELD_MANAGER};
use futures::{StreamExt, TryStreamExt, future::BoxFuture, stream};
use k8s_openapi::{
    api::{
        core::v1::{Event, Namespace, Node, Pod, ResourceQuota, ServiceAccount},
        rbac::v1::{Role, RoleBinding},
    },
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
use std::{
    net::{IpAddr, Ipv4Addr},
    num::NonZeroU16,
    path::Path,
    sync::Arc,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use wire::Wire;

/// The image that the lab loads on its node.
const IMAGE: &str = "lab.local/squid:1";
/// Where pods reach this machine.
const HERE: Ipv4Addr = Ipv4Addr::new(10, 76, 0, 1);

/// One scenario; see [`scenarios`].
pub struct Scenario {
    /// What is shown.
    pub name: String,
    /// Whether it is about pods that run.
    pub needs_node: bool,
    run: Box<dyn Fn(Arc<Lab>) -> BoxFuture<'static, anyhow::Result<()>> + Send + Sync>,
}

impl Scenario {
    fn new<F>(name: &str, needs_node: bool, run: fn(Arc<Lab>) -> F) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        Self {
            name: name.to_owned(),
            needs_node,
            run: Box::new(move |lab| Box::pin(run(lab))),
        }
    }

    /// Runs it in a namespace of its own on the cluster of this kubeconfig.
    ///
    /// # Errors
    /// What was not as promised.
    pub async fn run(&self, kubeconfig: &Path) -> anyhow::Result<()> {
        let lab = Arc::new(Lab::new(kubeconfig).await?);
        let outcome = (self.run)(Arc::clone(&lab)).await;
        // A failed scenario leaves its namespace to look at only as long as the lab lives.
        lab.end().await?;
        outcome
    }
}

/// The rows of the conformance suite, and what is promised of this provider alone.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let conformance = rows().into_iter().map(|row| Scenario {
        name: format!("conformance::{}", row.name),
        needs_node: false,
        run: Box::new(move |lab| Box::pin(async move { (row.run)(&*lab).await })),
    });
    let own = [
        Scenario::new("a_restricted_pod_proxies", true, a_restricted_pod_proxies),
        Scenario::new(
            "a_privileged_port_is_served",
            true,
            a_privileged_port_is_served,
        ),
        Scenario::new(
            "a_failed_pod_is_terminated",
            true,
            a_failed_pod_is_terminated,
        ),
        Scenario::new("a_full_quota_heals", true, a_full_quota_heals),
        Scenario::new("the_pod_follows_its_proxy", true, the_pod_follows_its_proxy),
        Scenario::new(
            "a_new_namespace_is_no_failure",
            false,
            a_new_namespace_is_no_failure,
        ),
        Scenario::new(
            "the_documented_rights_suffice",
            false,
            the_documented_rights_suffice,
        ),
        Scenario::new(
            "a_refused_pod_is_permanent",
            false,
            a_refused_pod_is_permanent,
        ),
        Scenario::new("a_list_spans_pages", false, a_list_spans_pages),
        Scenario::new(
            "cloud_init_is_ignored_aloud",
            false,
            cloud_init_is_ignored_aloud,
        ),
        Scenario::new(
            "every_check_has_its_reason",
            false,
            every_check_has_its_reason,
        ),
    ];
    conformance.chain(own).collect()
}

/// A namespace that enforces the restricted Pod Security Standard.
pub struct Lab {
    config: Config,
    client: Client,
    namespace: String,
    boots: bool,
}

impl Lab {
    async fn new(kubeconfig: &Path) -> anyhow::Result<Self> {
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

    async fn prepare(&self) -> anyhow::Result<()> {
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
    async fn give_service_account(&self, namespace: &str) -> anyhow::Result<()> {
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

    async fn end(&self) -> anyhow::Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces
            .delete(&self.namespace, &DeleteParams::default())
            .await?;
        Ok(())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn cluster(&self) -> Cluster {
        Cluster {
            client: self.client.clone(),
            url: self.config.cluster_url.to_string(),
            installation: self.namespace.clone(),
            namespace: None,
        }
    }

    fn ours(&self) -> Arc<dyn Provider> {
        self.provider(&self.namespace)
    }

    /// A provider that the API server takes for `user`.
    fn as_user(&self, user: &str) -> anyhow::Result<KubernetesProvider> {
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        Ok(provider(Cluster {
            client: Client::try_from(config)?,
            namespace: Some(self.namespace.clone()),
            ..self.cluster()
        }))
    }

    /// The address of the instance once it runs.
    async fn running(&self, provider: &dyn Provider, id: &str) -> anyhow::Result<IpAddr> {
        eventually("the pod runs", || async {
            let instance = provider.get(id).await?;
            Ok(instance
                .ip
                .filter(|_| instance.state == InstanceState::Running))
        })
        .await
    }

    async fn ready(&self, name: &str) -> anyhow::Result<Pod> {
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

    fn wired(&self) -> BoxFuture<'_, anyhow::Result<(Arc<dyn Provider>, Box<dyn Faults>)>> {
        Box::pin(async {
            let wire = Wire::new(self.client.clone()).await?;
            let mut config = Config::new(format!("http://{}", wire.address).parse()?);
            // Plain HTTP: spares it the look for trusted certificates, of which a bare machine has none.
            config.accept_invalid_certs = true;
            let provider = provider(Cluster {
                client: Client::try_from(config)?,
                ..self.cluster()
            });
            Ok((Arc::new(provider) as _, Box::new(wire) as _))
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
            let pod = make(&self.pods(), dormant(json!({"generateName": "stray-"}))).await?;
            Ok(format!("{}/{}", self.namespace, pod.name_any()))
        })
    }

    fn posed(&self, pose: Pose) -> BoxFuture<'_, anyhow::Result<ProviderId>> {
        Box::pin(async move {
            let pod = make(&self.pods(), dormant(json!({"generateName": "posed-"}))).await?;
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
    async fn finalizers(&self, id: &str, finalizers: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        let pods = self.pods();
        pods.patch(pod_name(id)?, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }
}

async fn a_restricted_pod_proxies(lab: Arc<Lab>) -> anyhow::Result<()> {
    let origin = TcpListener::bind((HERE, 0)).await?;
    let open = origin.local_addr()?;
    let provider = KubernetesProvider::new(
        "kubernetes".to_owned(),
        KubernetesConfig {
            connect_ports: vec![NonZeroU16::new(open.port()).context("a port")?],
            ..config()
        },
        lab.cluster(),
    );
    let request = lab.request().await?;
    let id = provider.create(&request).await?.id;
    let ip = lab.running(&provider, &id).await?;
    lab.ready(&request.name).await?;

    let origin = tokio::spawn(async move {
        let mut heads = Vec::new();
        for _ in 0..2 {
            let (mut stream, _) = origin.accept().await?;
            heads.push(read_head(&mut stream).await?);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
            stream.write_all(answer).await?;
        }
        anyhow::Ok(heads)
    });
    let mut plain = TcpStream::connect((ip, request.port)).await?;
    let get =
        format!("GET http://{open}/page HTTP/1.1\r\nHost: {open}\r\nConnection: close\r\n\r\n");
    plain.write_all(get.as_bytes()).await?;
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await?;
    ensure!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("hello"),
        "{answer}"
    );

    let mut tunnel = TcpStream::connect((ip, request.port)).await?;
    ensure!(
        connect(&mut tunnel, &open.to_string())
            .await?
            .starts_with("HTTP/1.1 200")
    );
    tunnel.write_all(b"GET /inside HTTP/1.1\r\n\r\n").await?;
    let mut answer = String::new();
    tunnel.read_to_string(&mut answer).await?;
    ensure!(answer.ends_with("hello"), "{answer}");

    let heads = origin.await??;
    ensure!(heads[0].starts_with("GET /page ") && heads[1].starts_with("GET /inside "));
    for giveaway in ["via:", "x-forwarded-for:"] {
        ensure!(!heads[0].to_lowercase().contains(giveaway), "{}", heads[0]);
    }
    for refused in [format!("{HERE}:1"), format!("127.0.0.1:{}", open.port())] {
        let mut stream = TcpStream::connect((ip, request.port)).await?;
        let answer = connect(&mut stream, &refused).await?;
        ensure!(answer.starts_with("HTTP/1.1 403"), "{refused}: {answer}");
    }
    let pod = lab.ready(&request.name).await?;
    let containers = pod
        .status
        .and_then(|status| status.container_statuses)
        .context("a status")?;
    ensure!(containers[0].restart_count == 0, "{containers:?}");
    gone(&provider, &id).await
}

async fn a_privileged_port_is_served(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, mut request) = (lab.ours(), lab.request().await?);
    request.port = 80;
    let id = provider.create(&request).await?.id;
    let ip = lab.running(&*provider, &id).await?;
    lab.ready(&request.name).await?;
    let mut stream = TcpStream::connect((ip, 80)).await?;
    ensure!(
        connect(&mut stream, "127.0.0.1:443")
            .await?
            .starts_with("HTTP/1.1 403")
    );
    gone(&*provider, &id).await
}

async fn a_failed_pod_is_terminated(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, request) = (lab.ours(), lab.request().await?);
    let id = provider.create(&request).await?.id;
    lab.running(&*provider, &id).await?;
    let patch = Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 1}}));
    lab.pods()
        .patch(&request.name, &PatchParams::default(), &patch)
        .await?;
    eventually("the kubelet ends the pod", || async {
        let state = provider.get(&id).await?.state;
        Ok((state == InstanceState::Terminated).then_some(()))
    })
    .await?;
    gone(&*provider, &id).await?;
    provider.create(&request).await?;
    lab.running(&*provider, &id).await?;
    gone(&*provider, &id).await
}

async fn a_full_quota_heals(lab: Arc<Lab>) -> anyhow::Result<()> {
    let provider = lab.ours();
    let (first, second) = (lab.request().await?, lab.request().await?);
    let quotas: Api<ResourceQuota> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let hard = json!({"pods": "1", "limits.cpu": "2", "limits.memory": "1Gi"});
    make(
        &quotas,
        json!({"metadata": {"name": "few"}, "spec": {"hard": hard}}),
    )
    .await?;
    // It binds once the quota controller has counted.
    eventually("the quota is in force", || async {
        let status = quotas.get("few").await?.status;
        Ok(status.and_then(|status| status.used))
    })
    .await?;
    let id = provider.create(&first).await?.id;
    let error = expect_error(provider.create(&second).await, "the quota")?;
    ensure!(error.class == ErrorClass::QuotaExceeded, "{error}");
    ensure!(error.message.contains("exceeded quota: few"), "{error}");
    let again = provider
        .create(&first)
        .await
        .context("the quota is full of this very pod")?;
    ensure!(again.id == id);

    let patch = Patch::Merge(json!({"spec": {"hard": {"pods": "2"}}}));
    quotas.patch("few", &PatchParams::default(), &patch).await?;
    let healed = eventually("the raised quota is in force", || async {
        match provider.create(&second).await {
            Ok(created) => Ok(Some(created.id)),
            Err(error) if error.class == ErrorClass::QuotaExceeded => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    gone(&*provider, &healed).await?;
    gone(&*provider, &id).await
}

async fn the_pod_follows_its_proxy(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, request) = (lab.ours(), lab.request().await?);
    let proxies: Api<Proxy> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let finalizers = |value: Value| Patch::Merge(json!({"metadata": {"finalizers": value}}));
    let (name, as_is) = (&request.proxy_name, PatchParams::default());
    proxies
        .patch(name, &as_is, &finalizers(json!([crds::names::FINALIZER])))
        .await?;
    let id = provider.create(&request).await?.id;
    proxies.delete(name, &DeleteParams::default()).await?;
    provider
        .get(&id)
        .await
        .context("the finalizer holds its Proxy, which holds the pod")?;
    proxies
        .patch(name, &as_is, &finalizers(Value::Null))
        .await?;
    eventually("the garbage collector takes the pod", || async {
        let answer = provider.get(&id).await;
        Ok(answer
            .is_err_and(|error| error.class == ErrorClass::NotFound)
            .then_some(()))
    })
    .await
}

async fn a_new_namespace_is_no_failure(lab: Arc<Lab>) -> anyhow::Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let (provider, request) = (lab.ours(), lab.request().await?);
    if lab.boots {
        // The controller is quick to give it back: what counts is that nothing lasting is reported.
        accounts.delete("default", &DeleteParams::default()).await?;
    } else {
        accounts.delete("default", &DeleteParams::default()).await?;
        let error = expect_error(provider.create(&request).await, "no service account")?;
        ensure!(error.class == ErrorClass::Transient, "{error}");
        lab.give_service_account(&lab.namespace).await?;
    }
    let id = eventually("it heals by itself", || async {
        match provider.create(&request).await {
            Ok(created) => Ok(Some(created.id)),
            Err(error) if error.class == ErrorClass::Transient => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    gone(&*provider, &id).await
}

async fn the_documented_rights_suffice(lab: Arc<Lab>) -> anyhow::Result<()> {
    let roles: Api<Role> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let bindings: Api<RoleBinding> = Api::namespaced(lab.client.clone(), &lab.namespace);
    let verbs = ["get", "list", "create", "delete"];
    make(
        &roles,
        json!({
            "metadata": {"name": "operator"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}],
        }),
    )
    .await?;
    make(&bindings, json!({
        "metadata": {"name": "operator"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator"}],
    }))
    .await?;
    let (provider, request) = (lab.as_user("operator")?, lab.request().await?);
    let id = eventually("the binding is in force", || async {
        match provider.create(&request).await {
            Ok(created) => Ok(Some(created.id)),
            Err(error) if error.message.contains("cannot") => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    ensure!(
        provider
            .list()
            .await?
            .iter()
            .any(|instance| instance.id == id)
    );
    ensure!(provider.check().await.iter().all(|check| check.ready));
    gone(&provider, &id).await?;
    let elsewhere = CreateRequest {
        namespace: "default".to_owned(),
        ..request
    };
    let error = expect_error(provider.create(&elsewhere).await, "out of scope")?;
    ensure!(error.class == ErrorClass::Permanent, "{error}");
    ensure!(
        error.message.starts_with("namespace \"default\""),
        "{error}"
    );
    Ok(())
}

async fn a_refused_pod_is_permanent(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, mut request) = (lab.ours(), lab.request().await?);
    let denied = lab.as_user("nobody")?;
    let error = expect_error(denied.create(&request).await, "no right")?;
    ensure!(error.class == ErrorClass::Permanent, "{error}");
    ensure!(
        error
            .message
            .contains("User \"nobody\" cannot get resource \"pods\""),
        "{error}"
    );
    // The API server's validation, in its own words.
    request.proxy_name = "a".repeat(300);
    request.uid = "not-the-uid-of-anything".to_owned();
    let config = KubernetesConfig {
        image: " ".to_owned(),
        ..config()
    };
    let broken = KubernetesProvider::new("kubernetes".to_owned(), config, lab.cluster());
    let error = expect_error(broken.create(&request).await, "an impossible image")?;
    ensure!(error.class == ErrorClass::Permanent, "{error}");
    ensure!(
        error.message.contains("spec.containers[0].image"),
        "{error}"
    );
    drop(provider);
    Ok(())
}

async fn a_list_spans_pages(lab: Arc<Lab>) -> anyhow::Result<()> {
    const MANY: usize = 501;
    let marks = json!({"generateName": "many-", "labels": {
        MANAGED_MARK: "true", UID_MARK: "u", INSTALLATION_MARK: lab.namespace,
    }});
    let pods = lab.pods();
    stream::iter(0..MANY)
        .map(|_| make(&pods, dormant(marks.clone())))
        .buffer_unordered(32)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    let listed = lab.ours().list().await?;
    ensure!(listed.len() == MANY, "{} of {MANY}", listed.len());
    // A list that breaks off between two pages is no list.
    let (cut, wire) = lab.wired().await?;
    wire.break_at(Fault::CutBefore(2));
    let error = expect_error(cut.list().await, "half a list")?;
    ensure!(error.class == ErrorClass::Transient, "{error}");
    pods.delete_collection(&DeleteParams::default(), &ListParams::default())
        .await?;
    Ok(())
}

async fn cloud_init_is_ignored_aloud(lab: Arc<Lab>) -> anyhow::Result<()> {
    let (provider, mut request) = (lab.ours(), lab.request().await?);
    let quiet = provider.create(&request).await?;
    ensure!(quiet.notes.is_empty(), "{quiet:?}");
    request.user_data = Some(b"#cloud-config\n".to_vec().into());
    let created = provider.create(&request).await?;
    let [("CloudInitIgnored", message)] = &created.notes[..] else {
        anyhow::bail!("{created:?}")
    };
    ensure!(message.contains("spec.cloudInit"), "{message}");
    gone(&*provider, &created.id).await
}

async fn every_check_has_its_reason(lab: Arc<Lab>) -> anyhow::Result<()> {
    let check = only(lab.ours().check().await)?;
    ensure!(check.ready && check.reason == "Reachable", "{check:?}");
    ensure!(
        check.address == lab.config.cluster_url.to_string(),
        "{check:?}"
    );
    ensure!(check.details["version"].starts_with("v1."), "{check:?}");

    let check = only(lab.as_user("nobody")?.check().await)?;
    ensure!(!check.ready && check.reason == "Forbidden", "{check:?}");
    ensure!(
        check.message.contains("cannot list resource \"pods\""),
        "{check:?}"
    );

    let mut stranger = lab.config.clone();
    stranger.auth_info.token = Some("wrong".to_owned().into());
    let check = only(with_client(&lab, stranger)?.check().await)?;
    ensure!(!check.ready && check.reason == "Unauthorized", "{check:?}");

    let mut distrustful = lab.config.clone();
    distrustful.root_cert = Some(Vec::new());
    distrustful.cluster_url = lab.config.cluster_url.clone();
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await?
        .local_addr()?;
    distrustful.cluster_url = format!("https://{closed}").parse()?;
    let check = only(with_client(&lab, distrustful)?.check().await)?;
    ensure!(!check.ready && check.reason == "Unreachable", "{check:?}");

    let (cut, wire) = lab.wired().await?;
    wire.break_at(Fault::CutBefore(1));
    let check = only(cut.check().await)?;
    ensure!(check.ready || check.reason == "Unreachable", "{check:?}");
    Ok(())
}

fn with_client(lab: &Lab, config: Config) -> anyhow::Result<KubernetesProvider> {
    Ok(provider(Cluster {
        client: Client::try_from(config)?,
        ..lab.cluster()
    }))
}

fn provider(cluster: Cluster) -> KubernetesProvider {
    KubernetesProvider::new("kubernetes".to_owned(), config(), cluster)
}

fn config() -> KubernetesConfig {
    KubernetesConfig {
        image: IMAGE.to_owned(),
        ..KubernetesConfig::default()
    }
}

fn only(checks: Vec<TargetCheck>) -> anyhow::Result<TargetCheck> {
    let [check] = <[TargetCheck; 1]>::try_from(checks)
        .map_err(|checks| anyhow::anyhow!("not one target: {checks:?}"))?;
    ensure!(check.name == "apiserver", "{check:?}");
    Ok(check)
}

/// A pod that passes the restricted standard and that no scheduler takes.
fn dormant(metadata: Value) -> Value {
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

async fn make<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: serde::de::DeserializeOwned + serde::Serialize + Clone + std::fmt::Debug,
{
    let object = serde_json::from_value(object)?;
    Ok(api.create(&PostParams::default(), &object).await?)
}

fn pod_name(id: &str) -> anyhow::Result<&str> {
    Ok(id.split_once('/').context("namespace/name")?.1)
}

async fn connect(stream: &mut TcpStream, authority: &str) -> anyhow::Result<String> {
    let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    read_head(stream).await
}

/// Reads up to the blank line, byte by byte: what follows belongs to somebody else.
async fn read_head(stream: &mut TcpStream) -> anyhow::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(head)?)
}
