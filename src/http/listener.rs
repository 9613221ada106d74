//! A bound listener that is served by an actor: [`actors::server::Serve`] over the accept loop.

use super::server::{Limits, serve};
use actors::server::Serve;
use futures::future::BoxFuture;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    service::Service,
};
use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A listener and what it serves. It stays bound while the actor that serves it is restarted, so that
/// no connection is refused meanwhile.
pub struct HttpServer<S> {
    listener: std::net::TcpListener,
    service: S,
    limits: Limits,
    stop: CancellationToken,
    stopped: CancellationToken,
}

impl<S> HttpServer<S> {
    /// A server on `listener`.
    ///
    /// # Errors
    /// As the operating system has it.
    pub fn new(listener: TcpListener, service: S, limits: Limits) -> io::Result<Self> {
        Ok(Self {
            listener: listener.into_std()?,
            service,
            limits,
            stop: CancellationToken::new(),
            stopped: CancellationToken::new(),
        })
    }

    /// Where it is bound.
    ///
    /// # Errors
    /// As the operating system has it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl<S, B> Serve for HttpServer<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
    B: Body<Error: Into<Box<dyn std::error::Error + Send + Sync>>, Data: Send> + Send + 'static,
{
    fn serve(self: Arc<Self>) -> BoxFuture<'static, String> {
        Box::pin(async move {
            let listener = match self.listener.try_clone().and_then(TcpListener::from_std) {
                Ok(listener) => listener,
                Err(error) => return format!("cannot use the listener: {error}"),
            };
            let stop = self.stop.clone().cancelled_owned();
            serve(listener, self.service.clone(), self.limits, stop).await;
            self.stopped.cancel();
            "stopped".to_owned()
        })
    }

    fn drain(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.stop.cancel();
            let deadline = self.limits.drain + Duration::from_secs(1);
            if tokio::time::timeout(deadline, self.stopped.cancelled())
                .await
                .is_err()
            {
                tracing::warn!("a server did not stop in time");
            }
        })
    }
}
