//! A forwarder in front of the API server, on which any request can be cut or left hanging.

use crate::{
    conformance::{Fault, Faults},
    lab::forwarder::{Answer, Beyond, Forwarder, Passage},
};
use anyhow::Context as _;
use futures::future::BoxFuture;
use http::Request;
use kube::{Client, client::Body};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// How long a request may take from here on.
const ARRIVAL: Duration = Duration::from_secs(10);

/// Speaks plain HTTP to one client and passes its requests on with the credentials of another.
pub struct Wire {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _forwarder: Forwarder,
}

struct Shared {
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
        let shared = Arc::new(Shared {
            fault: watch::Sender::new(Fault::None),
            steps: AtomicUsize::new(0),
            arrived: watch::Sender::new(None),
        });
        let forwarder = Forwarder::start(beyond, Arc::clone(&shared)).await?;
        Ok(Self {
            address: forwarder.address,
            shared,
            _forwarder: forwarder,
        })
    }

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

impl Passage for Shared {
    fn pass(self: Arc<Self>, request: Request<Body>, beyond: Beyond) -> BoxFuture<'static, Answer> {
        Box::pin(async move { self.or_break(request, beyond).await })
    }
}

impl Shared {
    async fn or_break(&self, request: Request<Body>, beyond: Beyond) -> Answer {
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        let fault = *self.fault.borrow();
        match fault {
            Fault::CutBefore(cut) if cut == step => Err(cut_off()),
            Fault::CutAfter(cut) if cut == step => {
                beyond.send(request).await?;
                Err(cut_off())
            }
            Fault::Late(late) if late == step => {
                let over = |fault: &Fault| !matches!(fault, Fault::Late(_));
                self.fault.subscribe().wait_for(over).await?;
                let answer = beyond.send(request).await?;
                self.arrived.send_replace(Some(answer.status().as_u16()));
                Ok(answer)
            }
            Fault::Silence => {
                let over = |fault: &Fault| *fault != Fault::Silence;
                self.fault.subscribe().wait_for(over).await?;
                Err(cut_off())
            }
            _ => beyond.send(request).await,
        }
    }
}

fn cut_off() -> anyhow::Error {
    io::Error::from(io::ErrorKind::ConnectionAborted).into()
}
