//! The lease API: one flat router over a [`Desk`].
//!
//! A request goes through these steps, and the first that refuses it answers: token, route, query
//! and header, body, a free place among the requests in flight, the ledger. A follower looks at token and
//! route, and passes the request on.

use super::{
    answers::{self, Granted, Lease, ProxyList, ProxyView, json},
    auth::Auth,
    body::{self, ttl::Ttl},
    desk::Desk,
    forward::Forward,
    lease_id,
    metrics::HttpMetrics,
    openapi, query, reading,
    refusal::Refusal,
    routes::{self, Captures, Endpoint, NoRoute},
    trace,
};
use actors::{
    key::ProxyKey,
    leases::terms::{AcquireError, AcquireRequest, LeaseId},
};
use bytes::{Buf, Bytes};
use futures::Stream;
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;
use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};
use tracing::Instrument;
use warp::{
    Filter,
    http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header},
    path::FullPath,
    reply::Response,
};

/// Lists being answered at a time: of a large fleet one is megabytes, until the last byte of it is sent.
const LISTS: usize = 32;
/// The longest `Idempotency-Key`.
const MAX_KEY: usize = 128;

/// What the API is told at start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The longest lifetime that a lease may ask for.
    pub max_ttl: Duration,
    /// Requests at the ledger at a time; one more is answered 503.
    pub in_flight: usize,
    /// The longest wait for a body.
    pub body: Duration,
}

impl Default for Settings {
    /// 512 requests in flight: the ledger answers in microseconds, so this many mean that it hangs.
    fn default() -> Self {
        Self {
            max_ttl: Duration::from_hours(1),
            in_flight: 512,
            body: Duration::from_secs(10),
        }
    }
}

/// The API over `D`.
pub struct Api<D> {
    desk: D,
    auth: Auth,
    metrics: HttpMetrics,
    settings: Settings,
    in_flight: Semaphore,
    lists: Arc<Semaphore>,
    document: Bytes,
    forward: Option<Forward>,
}

/// A request without its body.
struct Head {
    method: Method,
    path: FullPath,
    query: String,
    headers: HeaderMap,
}

impl<D: Desk> Api<D> {
    /// An API that is ready to serve; its metrics go into `registry`.
    ///
    /// # Errors
    /// Where the registry holds such metrics already.
    pub fn new(
        desk: D,
        auth: Auth,
        registry: &prometheus::Registry,
        settings: Settings,
    ) -> Result<Self, prometheus::Error> {
        let document = openapi::document(settings.max_ttl, auth.required());
        Ok(Self {
            desk,
            metrics: HttpMetrics::new(registry)?,
            in_flight: Semaphore::new(settings.in_flight),
            lists: Arc::new(Semaphore::new(LISTS)),
            document: Bytes::from(document.to_string()),
            auth,
            settings,
            forward: None,
        })
    }

    /// The same, but counting nothing: to see what counting costs.
    #[must_use]
    pub fn uncounted(mut self) -> Self {
        self.metrics.switch_off();
        self
    }

    /// The same, but passing requests on while another process leads.
    #[must_use]
    pub fn forwarding(self, forward: Forward) -> Self {
        Self {
            forward: Some(forward),
            ..self
        }
    }

    /// The API as something that [`serve`](super::serve) takes.
    pub fn service(
        self,
    ) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
    + Clone
    + Send
    + 'static {
        let api = Arc::new(self);
        let filter = warp::method()
            .and(warp::path::full())
            .and(warp::query::raw().or(warp::any().map(String::new)).unify())
            .and(warp::header::headers_cloned())
            .and(warp::body::stream())
            .then(move |method, path, query, headers, body| {
                let api = Arc::clone(&api);
                let head = Head {
                    method,
                    path,
                    query,
                    headers,
                };
                async move { api.answer(head, body).await }
            });
        TowerToHyperService::new(warp::service(filter))
    }

    async fn answer<S, B, E>(&self, head: Head, body: S) -> Response
    where
        S: Stream<Item = Result<B, E>>,
        B: Buf,
    {
        let begun = Instant::now();
        let until = begun + self.settings.body;
        let mut body = pin!(body);
        let route = routes::resolve(&head.method, head.path.as_str());
        let endpoint = route.as_ref().ok().map(|(endpoint, _)| *endpoint);
        let span = trace::request(&head.method, endpoint, &head.headers);
        let answering = self.outcome(route, &head, reading::body(&mut body, until));
        let response = async {
            answering.await.unwrap_or_else(|refusal| {
                if refusal == Refusal::Internal {
                    tracing::error!(method = %head.method, ?endpoint, "a request failed inside");
                }
                refusal.response()
            })
        };
        let response = response.instrument(span.clone()).await;
        trace::answered(&span, response.status());
        self.metrics
            .answered(endpoint, response.status(), begun.elapsed());
        reading::drain(&mut body, until).await;
        response
    }

    /// Who passes requests for `endpoint` on, if they are for another process.
    fn elsewhere(&self, endpoint: Endpoint) -> Option<&Forward> {
        let here = matches!(endpoint, Endpoint::Healthz | Endpoint::OpenApi);
        let forward = self.forward.as_ref().filter(|forward| forward.is_due());
        forward.filter(|_| !here)
    }

    async fn pass(
        &self,
        forward: &Forward,
        endpoint: Endpoint,
        head: &Head,
        body: impl Future<Output = Result<Bytes, Refusal>>,
    ) -> Result<Response, Refusal> {
        let body = match endpoint {
            Endpoint::Acquire | Endpoint::Renew | Endpoint::Report => body.await?,
            _ => Bytes::new(),
        };
        let _place = self.place()?;
        let mut target = head.path.as_str().to_owned();
        if !head.query.is_empty() {
            target = format!("{target}?{}", head.query);
        }
        forward
            .pass(&head.method, &target, &head.headers, body)
            .await
    }

    /// A free place among the requests in flight.
    fn place(&self) -> Result<SemaphorePermit<'_>, Refusal> {
        self.in_flight
            .try_acquire()
            .map_err(|_| Refusal::Overloaded)
    }

    /// `body` reads the body when it is awaited.
    async fn outcome(
        &self,
        route: Result<(Endpoint, Captures<'_>), NoRoute>,
        head: &Head,
        body: impl Future<Output = Result<Bytes, Refusal>>,
    ) -> Result<Response, Refusal> {
        let token = head.headers.get(header::AUTHORIZATION);
        let admitted = routes::is_open(head.path.as_str())
            || self.auth.admits(token.map(HeaderValue::as_bytes));
        match route {
            _ if !admitted => Err(Refusal::Unauthorized),
            Ok((endpoint, captures)) => match self.elsewhere(endpoint) {
                Some(forward) => self.pass(forward, endpoint, head, body).await,
                None => self.call(endpoint, captures, head, body).await,
            },
            Err(NoRoute::Path) => Err(Refusal::NotFound),
            Err(NoRoute::Method(allow)) => Err(Refusal::MethodNotAllowed(allow)),
        }
    }

    async fn call(
        &self,
        endpoint: Endpoint,
        captures: Captures<'_>,
        head: &Head,
        body: impl Future<Output = Result<Bytes, Refusal>>,
    ) -> Result<Response, Refusal> {
        use Endpoint::{
            Acquire, GetLease, GetProxy, Healthz, ListProxies, OpenApi, Release, Renew, Report,
        };
        // A health check and a release always succeed, so nothing about them can be wrong.
        if !matches!(endpoint, Healthz | ListProxies | Release) {
            query::none(&head.query)?;
        }
        let [first, _] = captures;
        match endpoint {
            Healthz => Ok(answers::content("text/plain", "ok")),
            OpenApi => Ok(answers::content("application/json", self.document.clone())),
            ListProxies => self.list(&head.query).await,
            GetProxy => self.proxy(captures).await,
            GetLease => self.lease(known(first)?).await,
            Release => self.release(first).await,
            Acquire => self.acquire(&head.headers, &body.await?).await,
            Renew => self.renew(known(first)?, &body.await?).await,
            Report => self.report(known(first)?, &body.await?).await,
        }
    }

    /// Runs one call to the ledger, if there is a free place for it.
    async fn at_desk<T, E: Into<Refusal>>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Refusal> {
        let _place = self.place()?;
        call.await.map_err(Into::into)
    }

    async fn list(&self, query: &str) -> Result<Response, Refusal> {
        let filter = query::filter(query)?;
        let place = Arc::clone(&self.lists).try_acquire_owned();
        let place = place.map_err(|_| Refusal::Overloaded)?;
        let views = self.at_desk(self.desk.views(filter)).await?;
        let proxies: Vec<_> = views.iter().map(ProxyView::from).collect();
        let count = proxies.len();
        Ok(answers::large_json(&ProxyList { proxies, count }, place))
    }

    async fn proxy(&self, [namespace, name]: Captures<'_>) -> Result<Response, Refusal> {
        let decoded = |text| query::percent_decode(text).ok_or(Refusal::UnknownProxy);
        let key = ProxyKey::new(&decoded(namespace)?, &decoded(name)?);
        let view = self.at_desk(self.desk.view(key)).await?;
        let view = view.ok_or(Refusal::UnknownProxy)?;
        Ok(json(StatusCode::OK, &ProxyView::from(&view)))
    }

    async fn acquire(&self, headers: &HeaderMap, body: &[u8]) -> Result<Response, Refusal> {
        let idempotency = idempotency_key(headers)?;
        let body: body::Acquire = body::parse(body)?;
        let request = AcquireRequest {
            selector: body.selector,
            ttl: Ttl::resolve(body.ttl_seconds, self.settings.max_ttl)?,
            target: body.target,
        };
        let grant = self
            .at_desk(self.desk.acquire(request, idempotency))
            .await?
            .map_err(|refused| match refused {
                AcquireError::NoMatch(why) => Refusal::NoMatch(why),
                AcquireError::KeyReused => Refusal::InvalidBody(refused.to_string()),
            })?;
        let granted = Granted::new(&grant).ok_or(Refusal::Internal)?;
        Ok(json(StatusCode::CREATED, &granted))
    }

    async fn lease(&self, id: LeaseId) -> Result<Response, Refusal> {
        let grant = self.at_desk(self.desk.lease(id)).await?;
        let grant = grant.map_err(|_| Refusal::UnknownLease)?;
        Ok(json(StatusCode::OK, &Lease::from(&grant)))
    }

    async fn renew(&self, id: LeaseId, body: &[u8]) -> Result<Response, Refusal> {
        let body: body::Renew = body::parse(body)?;
        let ttl = Ttl::resolve(body.ttl_seconds, self.settings.max_ttl)?;
        let grant = self.at_desk(self.desk.renew(id, ttl)).await?;
        let grant = grant.map_err(|_| Refusal::UnknownLease)?;
        Ok(json(StatusCode::OK, &Lease::from(&grant)))
    }

    async fn release(&self, id: &str) -> Result<Response, Refusal> {
        if let Some(id) = decoded_id(id) {
            self.at_desk(self.desk.release(id)).await?;
        }
        Ok(answers::no_content())
    }

    async fn report(&self, id: LeaseId, body: &[u8]) -> Result<Response, Refusal> {
        let body: body::Report = body::parse(body)?;
        let result = body.result()?;
        self.at_desk(self.desk.report(id, result, body.target))
            .await?
            .map_err(|_| Refusal::UnknownLease)?;
        Ok(answers::no_content())
    }
}

fn decoded_id(segment: &str) -> Option<LeaseId> {
    lease_id::parse(segment)
        .or_else(|| query::percent_decode(segment).and_then(|text| lease_id::parse(&text)))
}

fn known(segment: &str) -> Result<LeaseId, Refusal> {
    decoded_id(segment).ok_or(Refusal::UnknownLease)
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<Box<str>>, Refusal> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let key = value.as_bytes();
    let good = (1..=MAX_KEY).contains(&key.len())
        && key.iter().all(u8::is_ascii_graphic)
        && values.next().is_none();
    match value.to_str() {
        Ok(key) if good => Ok(Some(key.into())),
        _ => Err(Refusal::InvalidBody(format!(
            "Idempotency-Key: send one, of 1 to {MAX_KEY} visible ASCII characters"
        ))),
    }
}

#[cfg(test)]
#[path = "api_test.rs"]
mod tests;

#[cfg(test)]
#[path = "refusals_test.rs"]
mod refusals_tests;
