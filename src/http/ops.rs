//! The operations endpoints: `/metrics` on one address; `/healthz` and `/readyz` on another.

use super::{answers, refusal::Refusal};
use futures::future::BoxFuture;
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;
use prometheus::{TextEncoder, proto::MetricFamily};
use std::{convert::Infallible, sync::Arc};
use warp::{
    Filter,
    http::{Method, Request, StatusCode},
    path::FullPath,
    reply::Response,
};

/// Asks whether something holds; `Err` says in a few words what does not.
pub type Check = Arc<dyn Fn() -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// Serves `/metrics`: what `gather` finds at the time of the scrape. It runs on a thread that may
/// block.
pub fn metrics(
    gather: impl Fn() -> Vec<MetricFamily> + Send + Sync + 'static,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let gather = Arc::new(gather);
    service(move |path| {
        let gather = Arc::clone(&gather);
        Box::pin(async move {
            match path.as_str() {
                "/metrics" => Some(scrape(gather).await),
                _ => None,
            }
        })
    })
}

/// Serves `/healthz` (is the process alive) and `/readyz` (does it work): 200 `ok`, or 503 with what
/// is amiss.
pub fn probes(
    alive: Check,
    ready: Check,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    service(move |path| {
        let check = match path.as_str() {
            "/healthz" => Some(Arc::clone(&alive)),
            "/readyz" => Some(Arc::clone(&ready)),
            _ => None,
        };
        Box::pin(async move {
            match check?().await {
                Ok(()) => Some(answers::content("text/plain", "ok")),
                Err(why) => {
                    let mut response = answers::content("text/plain", why);
                    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                    Some(response)
                }
            }
        })
    })
}

type Page = BoxFuture<'static, Option<Response>>;

fn service(
    page: impl Fn(FullPath) -> Page + Clone + Send + Sync + 'static,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let filter = warp::method()
        .and(warp::path::full())
        .then(move |method: Method, path| {
            let page = page(path);
            async move {
                if method != Method::GET && method != Method::HEAD {
                    return Refusal::MethodNotAllowed("GET, HEAD".to_owned()).response();
                }
                page.await.unwrap_or_else(|| Refusal::NotFound.response())
            }
        });
    TowerToHyperService::new(warp::service(filter))
}

async fn scrape<G>(gather: Arc<G>) -> Response
where
    G: Fn() -> Vec<MetricFamily> + Send + Sync + 'static,
{
    let text = tokio::task::spawn_blocking(move || TextEncoder.encode_to_string(&gather())).await;
    match text {
        Ok(Ok(text)) => answers::content(prometheus::TEXT_FORMAT, text),
        Ok(Err(error)) => {
            tracing::error!(%error, "the metrics did not encode");
            Refusal::Internal.response()
        }
        Err(error) => {
            tracing::error!(%error, "gathering the metrics failed");
            Refusal::Internal.response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Limits, serve};
    use prometheus::{IntGauge, Registry};
    use tokio::{net::TcpListener, sync::watch};

    async fn start<S>(service: S) -> String
    where
        S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
            + Clone
            + Send
            + 'static,
    {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(serve(
            listener,
            service,
            Limits::default(),
            std::future::pending(),
        ));
        format!("http://{address}")
    }

    async fn get(url: String) -> (u16, String) {
        let response = reqwest::get(url).await.expect("an answer");
        (
            response.status().as_u16(),
            response.text().await.expect("a body"),
        )
    }

    #[tokio::test]
    async fn a_scrape_shows_what_is_now() {
        let registry = Registry::new();
        let gauge = IntGauge::new("proxy_operator_is_leader", "Whether this is the leader.");
        let gauge = gauge.expect("a name");
        registry.register(Box::new(gauge.clone())).expect("new");
        let base = start(metrics(move || registry.gather())).await;
        for value in [1, 0] {
            gauge.set(value);
            let (status, text) = get(format!("{base}/metrics")).await;
            assert_eq!(status, 200);
            assert!(
                text.ends_with(&format!("\nproxy_operator_is_leader {value}\n")),
                "{text}"
            );
        }
        let (status, text) = get(format!("{base}/healthz")).await;
        assert_eq!(status, 404);
        assert!(text.contains("not_found"), "{text}");
        let posted = reqwest::Client::new()
            .post(format!("{base}/metrics"))
            .send()
            .await;
        let posted = posted.expect("an answer");
        assert_eq!(
            (posted.status().as_u16(), &posted.headers()["allow"]),
            (405, &"GET, HEAD".parse().expect("a value"))
        );
    }

    #[tokio::test]
    async fn a_gather_that_panics_is_one_failed_scrape() {
        let base = start(metrics(|| panic!("on purpose"))).await;
        for _ in 0..2 {
            let (status, text) = get(format!("{base}/metrics")).await;
            assert!(status == 500 && text.contains("internal"), "{text}");
        }
    }

    #[tokio::test]
    async fn readiness_says_what_is_amiss_and_liveness_is_apart() {
        let (synced, state) = watch::channel(false);
        let ready: Check = Arc::new(move || {
            let synced = *state.borrow();
            Box::pin(async move {
                synced
                    .then_some(())
                    .ok_or_else(|| "the Proxy cache is not synced".to_owned())
            })
        });
        let alive: Check = Arc::new(|| Box::pin(async { Ok(()) }));
        let base = start(probes(alive, ready)).await;
        let ok = || (200, "ok".to_owned());
        assert_eq!(get(format!("{base}/healthz")).await, ok());
        let amiss = (503, "the Proxy cache is not synced".to_owned());
        assert_eq!(get(format!("{base}/readyz")).await, amiss);
        synced.send_replace(true);
        assert_eq!(get(format!("{base}/readyz")).await, ok());
        assert_eq!(get(format!("{base}/metrics")).await.0, 404);
    }
}
