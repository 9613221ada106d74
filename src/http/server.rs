//! The accept loop under every HTTP server of the program: HTTP/1.1, bounded connections, slow
//! clients cut off, and an end within a deadline that lets requests in flight finish.

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::Service,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use std::{convert::Infallible, future::Future, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time,
};
use tokio_util::task::TaskTracker;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What one server allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time; further ones wait in the kernel's backlog.
    pub connections: usize,
    /// From the end of one request (or the connection's begin) to the end of the next one's header,
    /// so an idle connection lives this long too.
    pub header: Duration,
    /// How long a client may take nothing of an answer that is being sent.
    pub stalled: Duration,
    /// From the begin of the shutdown until connections still open are cut.
    pub drain: Duration,
}

impl Default for Limits {
    /// 2 048 connections with up to 16 KiB of header and 64 KiB of body each are 160 MiB at the very
    /// worst, and some 20 MiB when idle.
    fn default() -> Self {
        Self {
            connections: 2048,
            header: Duration::from_secs(10),
            stalled: Duration::from_secs(10),
            // The whole tree has 7 s to stop in order, and gives its first child half of it.
            drain: Duration::from_secs(3),
        }
    }
}

/// The longest request line and header together.
const MAX_HEADER: usize = 16 * 1024;

/// The wait after a failed accept: it fails while the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The connections of one server. They outlive the loop that accepts them: a server that is killed and
/// started again cuts no request short.
pub struct Connections {
    limits: Limits,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    phase: watch::Sender<Phase>,
}

/// What the connections are told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Go on.
    Open,
    /// End after the request under way.
    Draining,
    /// End now.
    Cut,
}

impl Connections {
    /// None yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            places: Arc::new(Semaphore::new(limits.connections)),
            tasks: TaskTracker::new(),
            phase: watch::Sender::new(Phase::Open),
        }
    }

    /// Serves `service` on `listener` until `shutdown` ends; returns when the last connection is closed,
    /// at most [`Limits::drain`] later. Dropping the future takes no more connections, but ends none.
    pub async fn serve<S, B>(
        &self,
        listener: TcpListener,
        service: S,
        shutdown: impl Future<Output = ()>,
    ) where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
        B: Body<Error: Into<BoxError>, Data: Send> + Send + 'static,
    {
        self.phase.send_replace(Phase::Open);
        let mut shutdown = pin!(shutdown);
        loop {
            let (place, stream) = tokio::select! {
                () = &mut shutdown => break,
                accepted = self.accept(&listener) => match accepted {
                    Some(accepted) => accepted,
                    None => continue,
                }
            };
            self.spawn(place, stream, service.clone());
        }
        drop(listener);
        self.drain().await;
    }

    /// The next connection, once there is a place for it.
    async fn accept(&self, listener: &TcpListener) -> Option<(OwnedSemaphorePermit, TcpStream)> {
        // Never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
        match listener.accept().await {
            Ok((stream, _)) => Some((place, stream)),
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    fn spawn<S, B>(&self, place: OwnedSemaphorePermit, stream: TcpStream, service: S)
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
        S::Future: Send,
        B: Body<Error: Into<BoxError>, Data: Send> + Send + 'static,
    {
        let socket = SockRef::from(&stream);
        socket.set_tcp_nodelay(true).ok();
        socket.set_tcp_user_timeout(Some(self.limits.stalled)).ok();
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header)
            .max_buf_size(MAX_HEADER)
            // Answers are small: copying one behind its header is cheaper than a vectored write.
            .writev(false)
            .serve_connection(TokioIo::new(stream), service);
        let mut told = self.phase.subscribe();
        self.tasks.spawn(async move {
            let _place = place;
            let mut connection = pin!(connection);
            let mut draining = false;
            loop {
                // A sender that is gone means that nobody will ever ask for the end in order.
                let news = async {
                    let after = if draining {
                        Phase::Cut
                    } else {
                        Phase::Draining
                    };
                    told.wait_for(|phase| *phase >= after)
                        .await
                        .map(|phase| *phase)
                };
                tokio::select! {
                    // How a connection ended is its client's affair.
                    _ = connection.as_mut() => return,
                    phase = news => match phase {
                        Ok(Phase::Draining) => {
                            draining = true;
                            connection.as_mut().graceful_shutdown();
                        }
                        _ => return,
                    }
                }
            }
        });
    }

    async fn drain(&self) {
        self.phase.send_replace(Phase::Draining);
        self.tasks.close();
        if time::timeout(self.limits.drain, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("cutting connections that are still open");
            self.phase.send_replace(Phase::Cut);
            self.tasks.wait().await;
        }
        self.tasks.reopen();
    }
}

/// Serves `service` on `listener` until `shutdown` ends, as [`Connections::serve`]; but dropping the
/// future cuts every connection.
pub async fn serve<S, B>(
    listener: TcpListener,
    service: S,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
    B: Body<Error: Into<BoxError>, Data: Send> + Send + 'static,
{
    // Its sender goes with the future, which its connections notice.
    let connections = Connections::new(limits);
    connections.serve(listener, service, shutdown).await;
}

#[cfg(test)]
#[path = "server_test.rs"]
mod tests;
