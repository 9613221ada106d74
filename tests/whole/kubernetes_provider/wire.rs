//! A forwarder in front of the API server, on which any request can be cut or left hanging.

use crate::conformance::{Fault, Faults};
use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// How long a request may take from here on.
const ARRIVAL: Duration = Duration::from_secs(10);

/// Speaks plain HTTP to one client and passes its requests on with the credentials of another.
pub struct Wire {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

type Answer = Response<Full<Bytes>>;

struct Shared {
    beyond: Client,
    fault: watch::Sender<Fault>,
    steps: AtomicUsize,
    /// The status that the late request was answered with.
    arrived: watch::Sender<Option<u16>>,
}

impl Wire {
    /// Puts a wire in front of what `beyond` talks to.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn new(beyond: Client) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            beyond,
            fault: watch::Sender::new(Fault::None),
            steps: AtomicUsize::new(0),
            arrived: watch::Sender::new(None),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            serving,
        })
    }
}

impl Wire {
    /// Lets the request of [`Fault::Late`] arrive, and tells the status that it is answered with.
    ///
    /// # Errors
    /// When the server beyond does not answer.
    pub async fn arrive(&self) -> anyhow::Result<u16> {
        let mut arrived = self.shared.arrived.subscribe();
        self.break_at(Fault::None);
        let waiting = arrived.wait_for(Option::is_some);
        let status = *tokio::time::timeout(ARRIVAL, waiting).await??;
        status.context("it has arrived")
    }
}

impl Faults for Wire {
    fn break_at(&self, fault: Fault) {
        self.shared.steps.store(0, Ordering::SeqCst);
        self.shared.fault.send_replace(fault);
    }

    fn steps(&self) -> usize {
        self.shared.steps.load(Ordering::SeqCst)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let pass = service_fn(|request| Arc::clone(&shared).pass(request));
            // A connection that ends in an error is what this is for.
            http1::Builder::new()
                .serve_connection(TokioIo::new(stream), pass)
                .await
                .ok();
        });
    }
}

impl Shared {
    /// An error makes hyper drop the connection without an answer.
    async fn pass(self: Arc<Self>, request: Request<Incoming>) -> anyhow::Result<Answer> {
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        let fault = *self.fault.borrow();
        match fault {
            Fault::CutBefore(cut) if cut == step => Err(cut_off()),
            Fault::CutAfter(cut) if cut == step => {
                self.forward(request).await?;
                Err(cut_off())
            }
            Fault::Late(late) if late == step => {
                // A task of its own: hyper drops this future when the client hangs up.
                tokio::spawn(self.forward_later(collected(request).await?)).await?
            }
            Fault::Silence => {
                let mut changes = self.fault.subscribe();
                changes.wait_for(|fault| *fault != Fault::Silence).await?;
                Err(cut_off())
            }
            _ => self.forward(request).await,
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> anyhow::Result<Answer> {
        self.send(collected(request).await?).await
    }

    async fn forward_later(self: Arc<Self>, request: Request<Body>) -> anyhow::Result<Answer> {
        let mut changes = self.fault.subscribe();
        changes
            .wait_for(|fault| !matches!(fault, Fault::Late(_)))
            .await?;
        let answer = self.send(request).await?;
        self.arrived.send_replace(Some(answer.status().as_u16()));
        Ok(answer)
    }

    async fn send(&self, request: Request<Body>) -> anyhow::Result<Answer> {
        let response = self.beyond.send(request).await.context("beyond the wire")?;
        let (mut parts, body) = response.into_parts();
        parts.headers.remove(header::TRANSFER_ENCODING);
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(parts, Full::new(body)))
    }
}

/// The whole request, as the other client takes it.
async fn collected(request: Request<Incoming>) -> anyhow::Result<Request<Body>> {
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(header::HOST);
    let body = body.collect().await?.to_bytes();
    Ok(Request::from_parts(parts, Body::from(body.to_vec())))
}

fn cut_off() -> anyhow::Error {
    io::Error::from(io::ErrorKind::ConnectionAborted).into()
}
