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
};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// Speaks plain HTTP to one client and passes its requests on with the credentials of another.
pub struct Wire {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    beyond: Client,
    fault: watch::Sender<Fault>,
    steps: AtomicUsize,
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
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            serving,
        })
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
            let pass = service_fn(|request| shared.pass(request));
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
    async fn pass(&self, request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        let fault = *self.fault.borrow();
        match fault {
            Fault::CutBefore(cut) if cut == step => Err(cut_off()),
            Fault::CutAfter(cut) if cut == step => {
                self.forward(request).await?;
                Err(cut_off())
            }
            Fault::Silence => {
                let mut changes = self.fault.subscribe();
                changes.wait_for(|fault| *fault != Fault::Silence).await?;
                Err(cut_off())
            }
            _ => self.forward(request).await,
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> anyhow::Result<Response<Full<Bytes>>> {
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(header::HOST);
        let body = body.collect().await?.to_bytes();
        let request = Request::from_parts(parts, Body::from(body.to_vec()));
        let response = self.beyond.send(request).await.context("beyond the wire")?;
        let (mut parts, body) = response.into_parts();
        parts.headers.remove(header::TRANSFER_ENCODING);
        Ok(Response::from_parts(
            parts,
            Full::new(body.collect().await?.to_bytes()),
        ))
    }
}

fn cut_off() -> anyhow::Error {
    io::Error::from(io::ErrorKind::ConnectionAborted).into()
}
