//! Clients of the API server: one for the election, and one for all that only a leader does.
//!
//! The second sends nothing unless the process may act: before each request is begun, and once more where
//! its body goes out, the clock is asked. What it has sent is not kept for long by the kernel: bytes
//! that the far end does not acknowledge are given up before somebody else can be the leader, so that
//! a request does not arrive when a cut network is mended.

use super::{cluster::ClusterError, trace};
use actors::leader::{
    elector::Pace,
    standing::{NotLeader, Standing},
};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::USER_AGENT};
use hyper::body::{Frame, SizeHint};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as Hyper, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt, retry::RetryPolicy},
};
use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tower::{BoxError, ServiceBuilder, retry::RetryLayer, service_fn};

/// Less than the room between the end of a tenure and the next one.
const UNACKNOWLEDGED: Duration = Pace::DEFAULT.room.saturating_sub(Duration::from_secs(1));

/// The way to the API server.
pub struct Gateway(Config);

impl Gateway {
    /// Finds the cluster as kubectl does (`KUBECONFIG`, `~/.kube/config`, the pod's service account). Every
    /// request says which process sends it.
    ///
    /// # Errors
    /// [`ClusterError`], in words for the terminal.
    pub async fn infer(agent: &str) -> Result<Self, ClusterError> {
        let config = Config::infer()
            .await
            .map_err(|e| ClusterError::Config(e.into()))?;
        Self::by(config, agent)
    }

    fn by(mut config: Config, agent: &str) -> Result<Self, ClusterError> {
        let agent = HeaderValue::from_str(agent).map_err(|e| ClusterError::Config(e.into()))?;
        config.headers.push((USER_AGENT, agent));
        Ok(Self(config))
    }

    /// Where the API server is.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.cluster_url.to_string()
    }

    /// A client without a gate, which tries nothing twice: for the election and the questions at start.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn open(&self) -> Result<Client, ClusterError> {
        let mut config = self.0.clone();
        config.default_retry = false;
        Client::try_from(config).map_err(|e| ClusterError::Config(e.into()))
    }

    /// The client of those who may only act for a leader.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn gated(&self, standing: Standing) -> Result<Client, ClusterError> {
        self.gate(standing)
            .map_err(|e| ClusterError::Config(e.into()))
    }

    fn gate(&self, standing: Standing) -> Result<Client, kube::Error> {
        let config = &self.0;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let tls = config.rustls_https_connector_with_connector(tcp)?;
        let mut connector = TimeoutConnector::new(tls);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_write_timeout(config.write_timeout);
        let http = Hyper::builder(TokioExecutor::new()).build(connector);

        let send = service_fn(move |request: Request<Body>| {
            let (http, standing) = (http.clone(), standing.clone());
            trace::sent(request, async move |request| {
                let gate = standing.clone();
                let request = request.map(|body| Gated { body, gate });
                let answered = standing.guard(http.request(request)).await;
                Ok::<Response<_>, BoxError>(answered??)
            })
        });
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(
                config
                    .default_retry
                    .then(|| RetryLayer::new(RetryPolicy::server_retry())),
            )
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .service(send);
        Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
    }
}

/// A request's body that goes out only while the process may act; else the request breaks off, which the
/// API server takes for none.
struct Gated {
    body: Body,
    gate: Standing,
}

impl hyper::body::Body for Gated {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if !self.gate.may_act() {
            return Poll::Ready(Some(Err(NotLeader.into())));
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[path = "client_test.rs"]
mod tests;
