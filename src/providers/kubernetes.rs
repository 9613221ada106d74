//! The `kubernetes` backend: a proxy is a Squid pod in the namespace of its Proxy object.
//!
//! Talks to: the API server, and only about pods. Called by the provider actor.
//!
//! Guarantees:
//! - one pod a proxy and nothing beside it; the pod carries the marks and an owner reference, so
//!   that not even a Proxy whose finalizer was torn off leaves it behind;
//! - every request to the API server is bounded by [`REQUEST`], whatever the client would wait;
//! - a pod is deleted by the UID that was just read: a delete that arrives late cannot hit a
//!   successor of the same name.

pub mod classify;
pub mod config;
pub mod id;
pub mod pod;
pub mod squid;
pub mod state;

mod call;
mod check;

use crate::{
    config::names::{is_dns_label, is_label_value},
    providers::{INSTALLATION_MARK, MANAGED_MARK},
};
use actors::{
    events::EventReason,
    provider::contract::{
        CreateRequest, Created, ErrorClass, Instance, Operation, Provider, ProviderError,
        TargetCheck,
    },
};
use call::Call;
use config::KubernetesConfig;
use futures::future::BoxFuture;
use id::PodId;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use std::time::Duration;

/// How long one request to the API server may take.
pub const REQUEST: Duration = Duration::from_secs(10);
/// How long a list may take, all its pages together.
pub const LIST: Duration = Duration::from_mins(1);
/// Pods a page: some 4 KB each.
const PAGE: u32 = 500;

/// The cluster that the operator runs for, the same for every provider in it.
#[derive(Clone)]
pub struct Cluster {
    /// Talks to the API server.
    pub client: Client,
    /// The API server's URL, for people.
    pub url: String,
    /// The id of this installation of the operator.
    pub installation: String,
    /// The only namespace that the operator may touch; all when `None`.
    pub namespace: Option<String>,
}

/// One configured provider of type `kubernetes`.
pub struct KubernetesProvider {
    name: String,
    config: KubernetesConfig,
    cluster: Cluster,
}

impl KubernetesProvider {
    /// A provider called `name`. Sends nothing yet.
    #[must_use]
    pub fn new(name: String, config: KubernetesConfig, cluster: Cluster) -> Self {
        Self {
            name,
            config,
            cluster,
        }
    }

    async fn create(&self, request: &CreateRequest) -> Result<Created, ProviderError> {
        let id = PodId {
            namespace: request.namespace.clone(),
            name: request.name.clone(),
        };
        let call = Call {
            provider: &self.name,
            operation: Operation::Create,
            id: Some(id.to_string()),
        };
        if let Some(fault) = self.fault(request) {
            return Err(call.failed(ErrorClass::Permanent, fault));
        }
        let pods = self.pods(&id.namespace);
        // Looked for first: with a pod of ours in place, a quota that it fills or a policy that has
        // changed since would refuse it as if it were a new one.
        if let Some(pod) = call.find(&pods, &id).await? {
            return adopt(&call, &pod, request);
        }
        let (pod, as_is) = (pod::build(request, &self.config), PostParams::default());
        match call.answer(|| pods.create(&as_is, &pod)).await? {
            Ok(pod) => Ok(created(&pod, request)),
            // Somebody was faster: most likely an earlier attempt of ours that was given up.
            Err(error) if classify::already_exists(&error) => match call.find(&pods, &id).await? {
                Some(pod) => adopt(&call, &pod, request),
                None => Err(call.failed(ErrorClass::Transient, "the pod has just gone")),
            },
            Err(error) => Err(call.refused(error)),
        }
    }

    /// What no retry can mend, as `field value: why`.
    fn fault(&self, request: &CreateRequest) -> Option<String> {
        let scope = self.cluster.namespace.as_deref();
        if scope.is_some_and(|only| only != request.namespace) {
            let only = scope.unwrap_or_default();
            return Some(format!(
                "namespace {:?}: this operator serves only {only:?}",
                request.namespace
            ));
        }
        for (field, value) in [("namespace", &request.namespace), ("name", &request.name)] {
            if !is_dns_label(value) {
                return Some(format!("{field} {value:?}: not a DNS label"));
            }
        }
        for (field, value) in [
            ("uid", &request.uid),
            ("installation", &request.installation),
        ] {
            if !is_label_value(value) {
                return Some(format!("{field} {value:?}: not the value of a label"));
            }
        }
        if request.proxy_name.is_empty() {
            return Some(format!("proxy_name {:?}: missing", request.proxy_name));
        }
        (request.port == 0).then(|| "port 0: must be 1 to 65535".to_owned())
    }

    async fn get(&self, id: &str) -> Result<Instance, ProviderError> {
        let call = self.call(Operation::Get, Some(id));
        let id = call.parse(id)?;
        let pods = self.pods(&id.namespace);
        let pod = call.answer(|| pods.get(&id.name)).await?;
        pod.map(|pod| state::instance(&pod))
            .map_err(|error| call.refused(error))
    }

    async fn delete(&self, id: &str) -> Result<(), ProviderError> {
        let call = self.call(Operation::Delete, Some(id));
        let id = call.parse(id)?;
        let pods = self.pods(&id.namespace);
        let Some(pod) = call.find(&pods, &id).await? else {
            return Ok(());
        };
        if pod.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let exactly_this = DeleteParams {
            preconditions: Some(Preconditions {
                uid: pod.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match call.answer(|| pods.delete(&id.name, &exactly_this)).await? {
            Ok(_) => Ok(()),
            // The one that was meant is gone.
            Err(error) if classify::conflicts(&error) => Ok(()),
            Err(error) if classify::classify(&error) == ErrorClass::NotFound => Ok(()),
            Err(error) => Err(call.refused(error)),
        }
    }

    async fn list(&self) -> Result<Vec<Instance>, ProviderError> {
        let call = self.call(Operation::List, None);
        let pods = self.all_pods();
        let mut page = ListParams::default().labels(&self.ours()).limit(PAGE);
        let mut instances = Vec::new();
        loop {
            let found = match call.answer(|| pods.list(&page)).await? {
                Ok(found) => found,
                Err(error) => return Err(call.refused(error)),
            };
            instances.extend(found.items.iter().map(state::instance));
            match found.metadata.continue_ {
                Some(next) if !next.is_empty() => page = page.continue_token(&next),
                _ => return Ok(instances),
            }
        }
    }

    fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.cluster.client.clone(), namespace)
    }

    /// Everywhere that `create` may put a pod.
    fn all_pods(&self) -> Api<Pod> {
        match &self.cluster.namespace {
            Some(namespace) => self.pods(namespace),
            None => Api::all(self.cluster.client.clone()),
        }
    }

    /// The label selector of this installation's pods.
    fn ours(&self) -> String {
        let installation = &self.cluster.installation;
        format!("{MANAGED_MARK}=true,{INSTALLATION_MARK}={installation}")
    }

    fn call(&self, operation: Operation, id: Option<&str>) -> Call<'_> {
        Call {
            provider: &self.name,
            operation,
            id: id.map(str::to_owned),
        }
    }
}

impl Provider for KubernetesProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "kubernetes"
    }

    fn is_confined(&self) -> bool {
        true
    }

    fn deadline(&self, operation: Operation) -> Duration {
        match operation {
            Operation::Create => 3 * REQUEST,
            Operation::Delete => 2 * REQUEST,
            Operation::Get | Operation::Check => REQUEST,
            Operation::List => LIST,
        }
    }

    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<Created, ProviderError>> {
        Box::pin(self.create(request))
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        Box::pin(self.get(id))
    }

    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.delete(id))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>> {
        Box::pin(async {
            tokio::time::timeout(LIST, self.list())
                .await
                .unwrap_or_else(|_| Err(self.call(Operation::List, None).timed_out(LIST)))
        })
    }

    fn check(&self, within: Duration) -> BoxFuture<'_, Vec<TargetCheck>> {
        // Its answer has to come before the asker gives up.
        let within = REQUEST.min(within * 9 / 10);
        Box::pin(async move { vec![self.check_api_server(within).await] })
    }
}

/// Takes over the pod that has the name already, if it is this proxy's.
fn adopt(call: &Call<'_>, pod: &Pod, request: &CreateRequest) -> Result<Created, ProviderError> {
    let there = state::instance(pod);
    if (&there.uid, &there.installation) != (&request.uid, &request.installation) {
        return Err(call.failed(
            ErrorClass::AdoptionConflict,
            format!(
                "pod {} exists and belongs to uid {:?} of installation {:?}",
                there.id, there.uid, there.installation
            ),
        ));
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return Err(call.failed(
            ErrorClass::Transient,
            format!("pod {} of this proxy is still being deleted", there.id),
        ));
    }
    Ok(created(pod, request))
}

fn created(pod: &Pod, request: &CreateRequest) -> Created {
    let ignored = request.user_data.as_ref().map(|_| {
        let why = "spec.cloudInit has no effect here: a pod of the kubernetes provider runs a \
                   generated Squid configuration and no cloud-init";
        (EventReason::CloudInitIgnored, why.to_owned())
    });
    Created {
        id: state::instance(pod).id,
        operation: None,
        notes: ignored.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actors::provider::contract::instance_name;

    const UID: &str = "2b1f0a52-6d0c-4f5e-9f6b-0c7f2a9d1e11";

    /// A request that nothing is wrong with.
    pub(super) fn request() -> CreateRequest {
        CreateRequest {
            name: instance_name(UID),
            uid: UID.to_owned(),
            namespace: "crawl".to_owned(),
            proxy_name: "a".to_owned(),
            placement: crds::Placement::default(),
            user_data: None,
            port: 3128,
            installation: "here".to_owned(),
            spec_hash: "hash".to_owned(),
            after: None,
            elsewhere: false,
        }
    }

    /// A provider whose API server is not there: what touches it is `Transient`.
    fn provider(namespace: Option<&str>) -> KubernetesProvider {
        let mut nobody = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        nobody.accept_invalid_certs = true;
        let cluster = Cluster {
            client: Client::try_from(nobody).expect("a client"),
            url: "http://127.0.0.1:1".to_owned(),
            installation: "here".to_owned(),
            namespace: namespace.map(str::to_owned),
        };
        KubernetesProvider::new("k8s".to_owned(), KubernetesConfig::default(), cluster)
    }

    #[tokio::test]
    async fn an_impossible_request_is_refused_before_the_backend_is_touched() {
        type Change = fn(&mut CreateRequest);
        let cases: [(&str, Change); 8] = [
            ("namespace \"\":", |r| r.namespace.clear()),
            ("namespace \"other\": this operator serves only", |r| {
                r.namespace = "other".into();
            }),
            ("name \"A\":", |r| r.name = "A".into()),
            ("uid \"\":", |r| r.uid.clear()),
            ("uid \"a/b\":", |r| r.uid = "a/b".into()),
            ("installation \"-x\":", |r| r.installation = "-x".into()),
            ("proxy_name \"\":", |r| r.proxy_name.clear()),
            ("port 0:", |r| r.port = 0),
        ];
        for (complaint, change) in cases {
            let mut request = request();
            change(&mut request);
            let only = complaint.contains("serves only").then_some("crawl");
            let error = provider(only).create(&request).await.expect_err(complaint);
            assert_eq!(error.class, ErrorClass::Permanent, "{error}");
            assert!(error.message.starts_with(complaint), "{error}");
        }
    }

    #[tokio::test]
    async fn an_unreachable_api_server_is_transient_and_named() {
        let provider = provider(None);
        let error = provider.create(&request()).await.expect_err("no server");
        assert_eq!(error.class, ErrorClass::Transient, "{error}");
        assert_eq!(error.id, Some(format!("crawl/{}", request().name)));
        assert!(error.to_string().starts_with("k8s: create: "), "{error}");
        let [check] = &provider.check(REQUEST).await[..] else {
            panic!("one target");
        };
        assert_eq!(
            (&*check.name, check.reason, check.ready),
            ("apiserver", "Unreachable", false)
        );
        assert_eq!(check.address, "http://127.0.0.1:1");
    }

    #[tokio::test]
    async fn a_malformed_id_is_permanent() {
        for id in ["", "crawl", "crawl/", "/x", "crawl/x/y", "crawl/../x"] {
            let get = provider(None).get(id).await.expect_err(id);
            let delete = provider(None).delete(id).await.expect_err(id);
            for error in [get, delete] {
                assert_eq!(error.class, ErrorClass::Permanent, "{error}");
                assert!(error.message.contains(&format!("{id:?}")), "{error}");
            }
        }
    }
}
