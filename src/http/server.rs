//! The accept loop under every HTTP server of the program: HTTP/1.1, bounded connections, slow
//! clients cut off, and an end within a deadline that lets requests in flight finish.

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::Service,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use socket2::SockRef;
use std::{convert::Infallible, future::Future, time::Duration};
use tokio::{net::TcpListener, task::JoinSet, time};

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
            // The whole tree has 8 s to stop in order, and gives its first child half of it.
            drain: Duration::from_secs(3),
        }
    }
}

/// The longest request line and header together.
const MAX_HEADER: usize = 16 * 1024;

/// The wait after a failed accept: it fails while the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `service` on `listener` until `shutdown` ends; returns when the last connection is closed,
/// at most [`Limits::drain`] later. Dropping the future cuts every connection at once.
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
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(MAX_HEADER)
        // Answers are small: copying one behind its header is cheaper than a vectored write.
        .writev(false);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < limits.connections => {
                match accepted {
                    Ok((stream, _)) => {
                        let socket = SockRef::from(&stream);
                        socket.set_tcp_nodelay(true).ok();
                        socket.set_tcp_user_timeout(Some(limits.stalled)).ok();
                        let connection = http.serve_connection(TokioIo::new(stream), service.clone());
                        connections.spawn(graceful.watch(connection));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection failed");
                        time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }
    drop(listener);
    if time::timeout(limits.drain, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("cutting connections that are still open");
    }
}

#[cfg(test)]
#[path = "server_test.rs"]
mod tests;
