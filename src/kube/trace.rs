//! The span of a request to the API server, named by what is asked, as the Kubernetes client names it:
//! `get`, `create`, `patch_status`.

use http::{Request, Response};
use kube::client::Body;
use tracing::{Instrument, Span, debug_span, field::Empty};

/// Sends `request` in a span of its own.
pub(super) async fn sent<T, E>(
    request: Request<Body>,
    send: impl AsyncFnOnce(Request<Body>) -> Result<Response<T>, E>,
) -> Result<Response<T>, E> {
    let span = span(&request);
    let answered = send(request).instrument(span.clone()).await;
    let status = answered.as_ref().ok().map(Response::status);
    if let Some(status) = status {
        span.record("http.response.status_code", status.as_u16());
    }
    if status.is_none_or(|status| status.is_client_error() || status.is_server_error()) {
        span.record("otel.status_code", "error");
    }
    answered
}

fn span(request: &Request<Body>) -> Span {
    let verb = request.extensions().get::<&'static str>();
    debug_span!(
        "kubernetes",
        otel.name = verb.copied().unwrap_or("request"),
        otel.kind = "client",
        otel.status_code = Empty,
        http.request.method = request.method().as_str(),
        http.response.status_code = Empty,
        url.path = request.uri().path(),
    )
}
