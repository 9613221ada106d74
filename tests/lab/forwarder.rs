//! A forwarder between the operator and the API server: plain HTTP on loopback towards the operator, the
//! credentials and TLS of a real client beyond. Bodies are streamed, so that watches work.
//!
//! What becomes of a request is decided by a [`Passage`]: it may pass it on, refuse to, keep the
//! answer, or do something in between, such as killing the one who asked.

use anyhow::Context as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
};
use tokio::{net::TcpListener, task::JoinHandle};

/// What came back, or why nothing does: an error ends the connection without an answer.
pub type Answer = anyhow::Result<Response<Body>>;

/// Decides what becomes of requests.
pub trait Passage: Send + Sync + 'static {
    /// Gives back the answer to `request`. Goes on even when the one who asked has hung up: what was
    /// sent travels on.
    fn pass(self: Arc<Self>, request: Request<Body>, beyond: Beyond) -> BoxFuture<'static, Answer>;
}

/// The API server, as a [`Passage`] reaches it.
#[derive(Clone)]
pub struct Beyond(Client);

impl Beyond {
    /// Passes the request on and gives back the answer, whose body may go on for ever.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send(&self, request: Request<Body>) -> Answer {
        let mut answer = self.0.send(request).await.context("beyond the forwarder")?;
        answer.headers_mut().remove(header::TRANSFER_ENCODING);
        Ok(answer)
    }
}

/// A running forwarder. Dropping it takes no more connections.
pub struct Forwarder {
    /// Where it listens.
    pub address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Forwarder {
    /// Puts a forwarder in front of the API server of this kubeconfig.
    ///
    /// # Errors
    /// When no port is free, or the kubeconfig makes no client.
    pub async fn to<P: Passage>(beyond: &Path, passage: Arc<P>) -> anyhow::Result<Self> {
        let beyond = Kubeconfig::read_from(beyond)?;
        let options = KubeConfigOptions::default();
        let mut beyond = Config::from_custom_kubeconfig(beyond, &options).await?;
        // A repeated request would be counted once and done twice.
        beyond.default_retry = false;
        Self::start(Client::try_from(beyond)?, passage).await
    }

    /// Puts a forwarder in front of what `beyond` talks to.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn start<P: Passage>(beyond: Client, passage: Arc<P>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serving = tokio::spawn(serve(listener, Beyond(beyond), passage));
        Ok(Self { address, serving })
    }

    /// Writes the kubeconfig of a program that is to come this way.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write_kubeconfig(&self, file: &Path) -> anyhow::Result<()> {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {
                "server": format!("http://{}", self.address),
                // Spares the look for trusted certificates, of which a bare machine has none.
                "insecure-skip-tls-verify": true,
            }}],
            "users": [{"name": "lab", "user": {}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        });
        std::fs::write(file, kubeconfig.to_string())?;
        Ok(())
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Whether the request changes something that matters: Events and what is said of providers tell a story and
/// change nothing.
#[must_use]
pub fn is_write(request: &Request<Body>) -> bool {
    let method = request.method();
    let changes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method);
    let tells = ["/events", "/providerhealths"];
    let path = request.uri().path();
    changes && !tells.iter().any(|kind| path.contains(kind))
}

async fn serve<P: Passage>(listener: TcpListener, beyond: Beyond, passage: Arc<P>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (beyond, passage) = (beyond.clone(), Arc::clone(&passage));
        tokio::spawn(async move {
            let pass = service_fn(|request| pass(request, beyond.clone(), Arc::clone(&passage)));
            // A connection that ends in an error is what this is for.
            http1::Builder::new()
                .serve_connection(TokioIo::new(stream), pass)
                .await
                .ok();
        });
    }
}

async fn pass<P: Passage>(request: Request<Incoming>, beyond: Beyond, passage: Arc<P>) -> Answer {
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(header::HOST);
    let body = body.collect().await?.to_bytes();
    let request = Request::from_parts(parts, Body::from(body.to_vec()));
    // A task of its own: hyper drops this future when the client hangs up.
    tokio::spawn(passage.pass(request, beyond)).await?
}
