//! A real server over a real ledger, for tests.

use super::{Api, Auth, Limits, Settings, desk::*, serve};
use actors::{
    key::ProxyKey,
    leases::{ledger::Ledger, now::Clock, terms::*},
};
use crds::Phase;
use serde_json::Value;
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// A ledger in this process, with a gate before it that tests close.
#[derive(Clone)]
pub struct LedgerDesk {
    pub ledger: Arc<Mutex<Ledger>>,
    pub clock: Clock,
    /// One permit lets one call pass; there are plenty until a test takes them away.
    pub gate: Arc<Semaphore>,
    /// Counts the calls that came, passed or not.
    pub came: Arc<Semaphore>,
    /// What every call fails with.
    pub down: Option<Unavailable>,
}

/// A healthy proxy with two slots.
pub fn proxy(name: &str, attributes: &[(&str, &str)]) -> Candidate {
    Candidate {
        key: ProxyKey::new("fleet", name),
        uid: format!("uid-of-{name}").into(),
        ip: "192.0.2.1".to_owned(),
        port: 3128,
        attributes: attributes
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        phase: Phase::Ready,
        healthy: true,
        latency_millis: Some(20),
        max_leases: 2,
    }
}

impl LedgerDesk {
    pub fn with(proxies: impl IntoIterator<Item = Candidate>) -> Self {
        let mut ledger = Ledger::new(Terms {
            max_ttl: Duration::from_hours(1),
            lease_cooldown: Duration::from_mins(15),
            ban_cooldown: Duration::from_mins(15),
        });
        for proxy in proxies {
            ledger.upsert(Arc::new(proxy));
        }
        Self {
            ledger: Arc::new(Mutex::new(ledger)),
            clock: Clock::start(),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            came: Arc::new(Semaphore::new(0)),
            down: None,
        }
    }

    pub fn close_gate(&self) {
        self.gate.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub fn open_gate(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS);
    }

    async fn on<T>(&self, call: impl FnOnce(&mut Ledger) -> T) -> Result<T, Unavailable> {
        self.came.add_permits(1);
        let _pass = self.gate.acquire().await;
        if let Some(why) = self.down {
            return Err(why);
        }
        let mut ledger = self.ledger.lock().expect("not poisoned");
        let answer = call(&mut ledger);
        ledger.take_entries();
        Ok(answer)
    }
}

impl Desk for LedgerDesk {
    async fn acquire(
        &self,
        request: AcquireRequest,
        idempotency: Option<Box<str>>,
    ) -> Result<Result<Grant, AcquireError>, Unavailable> {
        let (id, now) = (LeaseId(rand::random()), self.clock.now());
        self.on(|ledger| {
            let granted = ledger.acquire(&request, idempotency.as_deref(), id, now);
            granted.map(|(grant, _)| grant)
        })
        .await
    }
    async fn renew(
        &self,
        id: LeaseId,
        ttl: Duration,
    ) -> Result<Result<Grant, UnknownLease>, Unavailable> {
        self.on(|ledger| ledger.renew(id, ttl, self.clock.now()))
            .await
    }
    async fn release(&self, id: LeaseId) -> Result<(), Unavailable> {
        self.on(|ledger| ledger.release(id, self.clock.now())).await
    }
    async fn report(
        &self,
        id: LeaseId,
        result: ReportResult,
        target: Option<Arc<str>>,
    ) -> Result<Result<(), UnknownLease>, Unavailable> {
        self.on(|ledger| ledger.report(id, result, target.as_ref(), self.clock.now()))
            .await
    }
    async fn lease(&self, id: LeaseId) -> Result<Result<Grant, UnknownLease>, Unavailable> {
        self.on(|ledger| ledger.get(id, self.clock.now())).await
    }
    async fn views(&self, filter: ViewFilter) -> Result<Vec<View>, Unavailable> {
        self.on(|ledger| ledger.views(&filter)).await
    }
    async fn view(&self, key: ProxyKey) -> Result<Option<View>, Unavailable> {
        self.on(|ledger| ledger.view(&key)).await
    }
}

/// A server on a loopback port; it ends with the value.
pub struct Served {
    pub address: SocketAddr,
    pub registry: prometheus::Registry,
    pub stop: CancellationToken,
    pub task: JoinHandle<()>,
    client: reqwest::Client,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub async fn served(desk: LedgerDesk) -> Served {
    let auth = Auth::new(None, None, Duration::MAX)
        .await
        .expect("no token");
    served_with(desk, auth, Settings::default(), Limits::default()).await
}

pub async fn served_with(
    desk: LedgerDesk,
    auth: Auth,
    settings: Settings,
    limits: Limits,
) -> Served {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let registry = prometheus::Registry::new();
    let api = Api::new(desk, auth, &registry, settings).expect("a new registry");
    served_within(api, registry, limits).await
}

/// An API that was made elsewhere.
pub async fn served_of(api: Api<LedgerDesk>, registry: prometheus::Registry) -> Served {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    served_within(api, registry, Limits::default()).await
}

async fn served_within(
    api: Api<LedgerDesk>,
    registry: prometheus::Registry,
    limits: Limits,
) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("an address");
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(
        listener,
        api.service(),
        limits,
        stop.clone().cancelled_owned(),
    ));
    Served {
        address,
        registry,
        stop,
        task,
        client: reqwest::Client::new(),
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Answer {
    /// `status error-word`, as tables of refusals spell it.
    pub fn refusal(&self) -> String {
        assert!(
            self.body["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{self:?}"
        );
        assert_eq!(self.header("content-type"), "application/json");
        format!(
            "{} {}",
            self.status,
            self.body["error"].as_str().unwrap_or("?")
        )
    }
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("text"))
    }
    pub fn text(&self, field: &str) -> String {
        self.body[field].as_str().expect(field).to_owned()
    }
}

impl Served {
    pub fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = method.parse().expect("a method");
        self.client
            .request(method, format!("http://{}{path}", self.address))
    }
    pub async fn send(request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes().await.expect("a whole body");
        Answer {
            status,
            headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        }
    }
    pub async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        Self::send(self.request(method, path).body(body.to_owned())).await
    }
    pub async fn get(&self, path: &str) -> Answer {
        Self::send(self.request("GET", path)).await
    }
}
