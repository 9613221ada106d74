//! Crawlers that lease all the time: acquire, look, renew, report, release, in an order of chance. Each
//! answer is held against what the API documents and against what the crawler holds.

use super::books::Books;
use anyhow::Context as _;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use reqwest::{Method, header::RETRY_AFTER};
use serde_json::{Value, json};
use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

/// Leases that one crawler holds at most.
const HELD: usize = 3;
/// Between two calls of one crawler.
const PACE: Duration = Duration::from_millis(40);
/// Shorter than `Retry-After` says, since it is the operator that is tested and not patience.
const AGAIN: Duration = Duration::from_millis(50);
/// Longer than any run.
const TTL: u64 = 3_000;

/// All of them.
pub struct Crawlers {
    enough: CancellationToken,
    all: JoinSet<anyhow::Result<()>>,
}

impl Crawlers {
    pub fn begin(count: usize, api: SocketAddr, books: &Arc<Books>) -> Self {
        let enough = CancellationToken::new();
        let mut all = JoinSet::new();
        for number in 0..count {
            let (books, enough) = (Arc::clone(books), enough.clone());
            all.spawn(async move {
                let crawler = Crawler::new(number, api, books)?;
                crawler.work(enough).await
            });
        }
        Self { enough, all }
    }

    /// Ends them; all that they hold has to be there still.
    pub async fn end(mut self) -> anyhow::Result<()> {
        self.enough.cancel();
        while let Some(ended) = self.all.join_next().await {
            ended.context("a crawler")??;
        }
        Ok(())
    }
}

struct Lease {
    id: String,
    proxy: String,
}

struct Crawler {
    number: usize,
    base: String,
    http: reqwest::Client,
    books: Arc<Books>,
    dice: SmallRng,
    held: Vec<Lease>,
    /// Every lease that it was ever granted: none may be granted twice.
    ever: HashSet<String>,
    requests: u64,
}

impl Crawler {
    fn new(number: usize, api: SocketAddr, books: Arc<Books>) -> anyhow::Result<Self> {
        Ok(Self {
            number,
            base: format!("http://{api}"),
            http: reqwest::Client::builder()
                .no_proxy()
                .tls_certs_only([])
                .timeout(Duration::from_secs(30))
                .build()?,
            books,
            dice: SmallRng::seed_from_u64(number as u64),
            held: Vec::new(),
            ever: HashSet::new(),
            requests: 0,
        })
    }

    async fn work(mut self, enough: CancellationToken) -> anyhow::Result<()> {
        while !enough.is_cancelled() {
            sleep(PACE).await;
            let any = (!self.held.is_empty()).then(|| self.dice.random_range(0..self.held.len()));
            match (any, self.dice.random_range(0..10)) {
                (None, _) | (Some(_), 0..=2) if self.held.len() < HELD => self.acquire().await,
                (None, _) => {}
                (Some(at), 0..=4) => self.renew(at).await,
                (Some(at), 5..=6) => self.look(at).await,
                (Some(at), 7) => self.report(at).await,
                (Some(at), _) => self.release(at).await,
            }
        }
        for at in (0..self.held.len()).rev() {
            self.look(at).await;
            self.release(at).await;
        }
        Ok(())
    }

    /// With a key, so that an answer that did not come can be asked for again.
    async fn acquire(&mut self) {
        self.requests += 1;
        let key = format!("crawler-{}-{}", self.number, self.requests);
        let begun = Instant::now();
        let wish = json!({"ttlSeconds": TTL, "target": "shop.example"});
        let (status, body) = self
            .ask(Method::POST, "/v1/leases", Some(&key), Some(&wish))
            .await;
        let of = |value: &Value| value.as_str().map(str::to_owned);
        match (status, of(&body["leaseID"]), of(&body["proxy"]["id"])) {
            (201, Some(id), Some(proxy)) => {
                self.books.acquired(begun.elapsed());
                self.books.enter(&proxy);
                if !self.ever.insert(id.clone()) {
                    self.books.fault(format!("{id} was granted twice"));
                }
                self.held.push(Lease { id, proxy });
            }
            (409, ..) if body["error"] == "no_match" => {}
            _ => self.books.fault(format!("acquire: {status} {body}")),
        }
    }

    async fn renew(&mut self, at: usize) {
        let path = format!("/v1/leases/{}/renew", self.held[at].id);
        let wish = json!({"ttlSeconds": TTL});
        let (status, body) = self.ask(Method::POST, &path, None, Some(&wish)).await;
        self.expect("renew", at, status == 200, status, &body);
    }

    async fn look(&mut self, at: usize) {
        let path = format!("/v1/leases/{}", self.held[at].id);
        let (status, body) = self.ask(Method::GET, &path, None, None).await;
        let right = status == 200 && body["proxy"] == self.held[at].proxy;
        self.expect("get", at, right, status, &body);
    }

    async fn report(&mut self, at: usize) {
        let path = format!("/v1/leases/{}/report", self.held[at].id);
        let report = json!({"result": "ok"});
        let (status, body) = self.ask(Method::POST, &path, None, Some(&report)).await;
        self.expect("report", at, status == 204, status, &body);
    }

    async fn release(&mut self, at: usize) {
        let Lease { id, proxy } = self.held.swap_remove(at);
        self.books.strike_out(&proxy);
        let path = format!("/v1/leases/{id}");
        let (status, body) = self.ask(Method::DELETE, &path, None, None).await;
        if status != 204 {
            self.books
                .fault(format!("release of {id}: {status} {body}"));
        }
        let (status, body) = self.ask(Method::GET, &path, None, None).await;
        if status != 404 || body["error"] != "unknown_lease" {
            self.books.fault(format!("{id} lives on: {status} {body}"));
        }
    }

    fn expect(&self, what: &str, at: usize, right: bool, status: u16, body: &Value) {
        if !right {
            let Lease { id, proxy } = &self.held[at];
            let fault = format!("{what} of {id} on {proxy}: {status} {body}");
            self.books.fault(fault);
        }
    }

    /// Asks until there is another answer than a documented 503.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> (u16, Value) {
        loop {
            let url = format!("{}{path}", self.base);
            let mut request = self.http.request(method.clone(), url);
            if let Some(key) = key {
                request = request.header("Idempotency-Key", key);
            }
            if let Some(body) = body {
                request = request.json(body);
            }
            let answer = match request.send().await {
                Ok(answer) => answer,
                Err(error) => return (0, format!("no answer: {error:?}").into()),
            };
            let status = answer.status().as_u16();
            let later = answer.headers().contains_key(RETRY_AFTER);
            self.books.answered(status);
            let body = match answer.bytes().await {
                Ok(bytes) if bytes.is_empty() => Value::Null,
                Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
                Err(error) => return (0, format!("half an answer: {error:?}").into()),
            };
            if status != 503 || !later || !body["error"].is_string() {
                return (status, body);
            }
            sleep(AGAIN).await;
        }
    }
}
