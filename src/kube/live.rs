//! The Proxies that exist, for the collector: read from the API server itself, past every cache.

use crate::telemetry::with_causes;
use actors::collector::{LiveProxies, orphans::Live};
use crds::Proxy;
use futures::future::BoxFuture;
use kube::{Api, Client, ResourceExt, api::ListParams};
use std::{collections::HashSet, time::Duration};

/// One page, at 10 000 Proxies a few dozen.
const PAGE: Duration = Duration::from_secs(15);
/// All pages.
const ALL: Duration = Duration::from_mins(1);
/// Objects a page, of which only metadata is sent.
const SIZE: u32 = 500;

/// Proxies on the API server.
pub struct KubeProxies {
    client: Client,
    namespace: Option<String>,
}

impl KubeProxies {
    /// Those of all namespaces, if that is allowed; else those of `namespace`, to which the operator is bound.
    #[must_use]
    pub fn new(client: Client, namespace: Option<String>) -> Self {
        Self { client, namespace }
    }
}

impl LiveProxies for KubeProxies {
    fn read(&self) -> BoxFuture<'static, Result<Live, String>> {
        let (everywhere, namespace) = (Api::all(self.client.clone()), self.namespace.clone());
        let client = self.client.clone();
        Box::pin(async move {
            let all = async {
                match (uids(&everywhere).await, namespace) {
                    (Err(Failure::Forbidden(_)), Some(namespace)) => {
                        let own = Api::namespaced(client, &namespace);
                        uids(&own).await.map(|uids| Live::new(uids, false))
                    }
                    (uids, _) => uids.map(|uids| Live::new(uids, true)),
                }
            };
            let late = |_| {
                Err(Failure::Other(format!(
                    "not all within {} s",
                    ALL.as_secs()
                )))
            };
            let read = tokio::time::timeout(ALL, all).await.unwrap_or_else(late);
            read.map_err(|failure| failure.to_string())
        })
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Forbidden(String),
    #[error("{0}")]
    Other(String),
}

/// Without a resource version the API server answers with nothing older than the question; later pages
/// are of the same moment as the first one.
async fn uids(proxies: &Api<Proxy>) -> Result<HashSet<String>, Failure> {
    let mut uids = HashSet::new();
    let mut page = ListParams::default().limit(SIZE);
    loop {
        let listed = match tokio::time::timeout(PAGE, proxies.list_metadata(&page)).await {
            Ok(Ok(listed)) => listed,
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                return Err(Failure::Forbidden(status.message.clone()));
            }
            Ok(Err(error)) => return Err(Failure::Other(with_causes(&error))),
            Err(_) => {
                let seconds = PAGE.as_secs();
                return Err(Failure::Other(format!("no page within {seconds} s")));
            }
        };
        for proxy in &listed.items {
            let Some(uid) = proxy.uid() else {
                return Err(Failure::Other(format!("{} has no UID", proxy.name_any())));
            };
            uids.insert(uid);
        }
        match listed.metadata.continue_ {
            Some(next) if !next.is_empty() => page = page.continue_token(&next),
            _ => return Ok(uids),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::{
        convert::Infallible,
        sync::{Arc, Mutex},
    };

    const EVERYWHERE: &str = "/apis/crawl.example.com/v1alpha1/proxies";

    /// What is answered to which path and query.
    type Answers = fn(&str, &str) -> (u16, Value);

    async fn read(
        answers: Answers,
        namespace: Option<&str>,
    ) -> (Result<Live, String>, Vec<String>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let uri = request.uri().clone();
            noted.lock().expect("is held").push(uri.to_string());
            let (status, body) = answers(uri.path(), uri.query().unwrap_or_default());
            async move {
                let answer = Response::builder().status(status);
                let answer = answer.body(Body::from(body.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.expect("an answer"))
            }
        });
        let client = Client::new(service, "default");
        let live = KubeProxies::new(client, namespace.map(str::to_owned));
        let read = live.read().await;
        let asked = asked.lock().expect("is held").clone();
        (read, asked)
    }

    fn page(uids: &[&str], next: &str) -> (u16, Value) {
        let item = |uid| json!({"metadata": {"name": uid, "uid": uid}});
        let items: Vec<_> = uids.iter().map(item).collect();
        let metadata = json!({"resourceVersion": "1", "continue": next});
        let kind = "PartialObjectMetadataList";
        let api = "meta.k8s.io/v1";
        (
            200,
            json!({"kind": kind, "apiVersion": api, "metadata": metadata, "items": items}),
        )
    }

    fn refused(code: u16, reason: &str) -> (u16, Value) {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
            "message": reason, "reason": reason, "code": code});
        (code, status)
    }

    fn live(uids: &[&str], everywhere: bool) -> Live {
        let uids = uids.iter().map(|uid| (*uid).to_owned());
        Live::new(uids.collect(), everywhere)
    }

    #[tokio::test]
    async fn all_pages_are_read_and_none_from_a_cache() {
        let pages: Answers = |_, query| match query {
            _ if query.contains("continue=two") => page(&["c"], ""),
            _ if query.contains("continue=one") => page(&["b"], "two"),
            _ => page(&["a"], "one"),
        };
        let (read, asked) = read(pages, None).await;
        assert_eq!(read, Ok(live(&["a", "b", "c"], true)));
        assert_eq!(asked.len(), 3);
        for asked in asked {
            assert!(asked.contains("limit=500"), "{asked}");
            assert!(!asked.contains("resourceVersion"), "{asked}");
        }
    }

    #[tokio::test]
    async fn a_page_that_fails_fails_the_whole() {
        let cut: [Answers; 3] = [
            |_, query| {
                if query.contains("continue") {
                    refused(410, "Expired")
                } else {
                    page(&["a"], "one")
                }
            },
            |_, _| refused(500, "InternalError"),
            |_, _| {
                (
                    200,
                    json!({"metadata": {}, "items": [{"metadata": {"name": "a"}}],
                "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}),
                )
            },
        ];
        for answers in cut {
            let (read, _) = read(answers, Some("own")).await;
            assert!(read.is_err(), "{read:?}");
        }
    }

    #[tokio::test]
    async fn where_only_the_own_namespace_may_be_seen_that_is_said() {
        let confined: Answers = |path, _| {
            if path == EVERYWHERE {
                refused(403, "Forbidden")
            } else {
                page(&["a"], "")
            }
        };
        let (own, asked) = read(confined, Some("own")).await;
        assert_eq!(own, Ok(live(&["a"], false)));
        assert!(asked[1].contains("/namespaces/own/proxies"), "{asked:?}");
        let (all, _) = read(confined, None).await;
        assert!(all.is_err());
        let (free, asked) = read(|_, _| page(&["a"], ""), Some("own")).await;
        assert_eq!((free, asked.len()), (Ok(live(&["a"], true)), 1));
    }
}
