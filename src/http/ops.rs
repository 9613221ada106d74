//! The operations endpoints: `/metrics` on one address; `/healthz` and `/readyz` on another.

use super::refusal::Refusal;
use futures::future::BoxFuture;
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;
use prometheus::{TextEncoder, proto::MetricFamily};
use std::{convert::Infallible, sync::Arc};
use warp::{
    Filter,
    http::{HeaderValue, Method, Request, StatusCode, header},
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
                Ok(()) => Some(Response::new("ok\n".into())),
                Err(why) => {
                    let mut response = Response::new(format!("{why}\n").into());
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
        Ok(Ok(text)) => {
            let mut response = Response::new(text.into());
            response.headers_mut().insert(
                header::CONTENT_TYPE,
                HeaderValue::from_static(prometheus::TEXT_FORMAT),
            );
            response
        }
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
