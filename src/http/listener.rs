//! A bound listener that is served by an actor: [`actors::server::Serve`] over the accept loop.

use super::server::{Connections, Limits};
use actors::server::Serve;
use futures::future::BoxFuture;
use hyper::{
    Request, Response,
    body::{Body, Incoming},
    service::Service,
};
use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::watch};

/// A listener and what it serves. It stays bound while the actor that serves it is restarted, so that
/// no connection is refused meanwhile, and those that are open go on.
pub struct HttpServer<S> {
    listener: std::net::TcpListener,
    service: S,
    connections: Connections,
    drain: Duration,
    state: watch::Sender<State>,
}

/// How far the serving is that was begun last: one that was stopped can be begun again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Serving,
    Stopping,
    Stopped,
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
            connections: Connections::new(limits),
            drain: limits.drain,
            state: watch::Sender::new(State::Stopped),
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
            self.state.send_replace(State::Serving);
            let mut state = self.state.subscribe();
            let stop = async move {
                // The sender is held by whoever serves, so this only ends by being told.
                state.wait_for(|state| *state == State::Stopping).await.ok();
            };
            let service = self.service.clone();
            self.connections.serve(listener, service, stop).await;
            self.state.send_replace(State::Stopped);
            "stopped".to_owned()
        })
    }

    fn drain(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.state.send_if_modified(|state| {
                let serves = *state == State::Serving;
                if serves {
                    *state = State::Stopping;
                }
                serves
            });
            let mut state = self.state.subscribe();
            let stopped = state.wait_for(|state| *state == State::Stopped);
            let deadline = self.drain + Duration::from_secs(1);
            if tokio::time::timeout(deadline, stopped).await.is_err() {
                tracing::warn!("a server did not stop in time");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::service::service_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Stopped from outside, its actor is started again by its supervisor.
    #[tokio::test]
    async fn a_server_that_was_drained_serves_again() {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let answer = service_fn(|_: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new("ok".to_owned()))
        });
        let server = HttpServer::new(listener, answer, Limits::default()).expect("a server");
        let server = Arc::new(server);
        let url = format!("http://{}", server.address().expect("an address"));
        for _ in 0..2 {
            let serving = tokio::spawn(Arc::clone(&server).serve());
            let answer = reqwest::get(&url).await.expect("an answer");
            assert_eq!(answer.text().await.expect("a body"), "ok");
            Arc::clone(&server).drain().await;
            assert_eq!(serving.await.expect("ends"), "stopped");
        }
    }

    /// Its actor was killed: a request under way is answered, and so is the next on its connection.
    #[tokio::test]
    async fn a_server_that_was_killed_cuts_nobody_off() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let answer = service_fn({
            let gate = Arc::clone(&gate);
            move |_: Request<Incoming>| {
                let gate = Arc::clone(&gate);
                async move {
                    gate.acquire().await.expect("open").forget();
                    Ok::<_, Infallible>(Response::new("ok".to_owned()))
                }
            }
        });
        let server = HttpServer::new(listener, answer, Limits::default()).expect("a server");
        let server = Arc::new(server);
        let address = server.address().expect("an address");
        let mut socket = tokio::net::TcpStream::connect(address)
            .await
            .expect("connects");
        let mut serving = tokio::spawn(Arc::clone(&server).serve());
        for _ in 0..3 {
            let asked = socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            asked.await.expect("writes");
            // Killed with the request under way.
            tokio::task::yield_now().await;
            serving.abort();
            assert!(serving.await.expect_err("killed").is_cancelled());
            serving = tokio::spawn(Arc::clone(&server).serve());
            gate.add_permits(1);
            let mut answer = [0; 1024];
            let read = socket.read(&mut answer).await.expect("an answer");
            let answer = String::from_utf8_lossy(&answer[..read]);
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok"),
                "{answer:?}"
            );
        }
        Arc::clone(&server).drain().await;
        assert_eq!(socket.read(&mut [0]).await.expect("is closed"), 0);
        assert_eq!(serving.await.expect("ends"), "stopped");
    }

    #[tokio::test]
    async fn nothing_is_waited_for_where_nothing_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let answer = service_fn(|_: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(String::new()))
        });
        let server = HttpServer::new(listener, answer, Limits::default()).expect("a server");
        let drained = tokio::time::timeout(Duration::from_millis(500), Arc::new(server).drain());
        assert!(drained.await.is_ok());
    }
}
