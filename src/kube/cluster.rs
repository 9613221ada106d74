//! What is asked of a cluster before anything starts.

use crate::telemetry::with_causes;
use crds::Proxy;
use futures::future::TryFutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, api::ListParams};
use std::time::Duration;

/// How long one question may take at start.
const DEADLINE: Duration = Duration::from_secs(10);

/// Why there is no cluster to work with.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Neither a kubeconfig nor a service account that can be used.
    #[error("no cluster: {0}")]
    Config(Box<dyn std::error::Error + Send + Sync>),
    /// The API server did not answer.
    #[error("no cluster at {url}: {why}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// What came instead.
        why: String,
    },
    /// The definitions are missing.
    #[error("the cluster does not know Proxy objects: apply the files in crds/ first")]
    NoDefinition,
    /// The operator may not do what it must.
    #[error("the cluster refuses to {what}: {why}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// Its words.
        why: String,
    },
}

/// Makes sure that the cluster at `url` answers and knows Proxy objects in `namespace` (all of them when
/// there is none).
///
/// # Errors
/// [`ClusterError`], in words for the terminal.
pub async fn answers(
    client: &Client,
    url: &str,
    namespace: Option<&str>,
) -> Result<(), ClusterError> {
    let proxies: Api<Proxy> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    // As metadata only: an object that does not decode must not keep the operator from starting.
    let first = ListParams::default().limit(1);
    match bounded(proxies.list_metadata(&first)).await {
        Ok(_) => Ok(()),
        Err(Failure::Api(status)) if status.code == 404 => Err(ClusterError::NoDefinition),
        Err(Failure::Api(status)) => Err(ClusterError::Refused {
            what: "list Proxies",
            why: status.message.clone(),
        }),
        Err(Failure::Other(why)) => Err(ClusterError::Unreachable {
            url: url.to_owned(),
            why,
        }),
    }
}

/// The installation id that is this cluster's own: the UID of its `kube-system` namespace.
///
/// # Errors
/// [`ClusterError`], when it may not be read.
pub async fn installation_id(client: &Client) -> Result<String, ClusterError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let what = "read the UID of namespace kube-system (or set --installation-id)";
    let refused = |why| ClusterError::Refused { what, why };
    let system = bounded(namespaces.get_metadata("kube-system"))
        .await
        .map_err(|failure| refused(failure.to_string()))?;
    system
        .metadata
        .uid
        .ok_or_else(|| refused("it has none".into()))
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", .0.message)]
    Api(Box<kube::core::Status>),
    #[error("{0}")]
    Other(String),
}

async fn bounded<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    let call = call.map_err(|error| match error {
        kube::Error::Api(status) => Failure::Api(status),
        other => Failure::Other(with_causes(&other)),
    });
    tokio::time::timeout(DEADLINE, call)
        .await
        .unwrap_or_else(|_| {
            Err(Failure::Other(format!(
                "no answer within {} s",
                DEADLINE.as_secs()
            )))
        })
}
