//! Another way in, whose requests are counted and can be cut off, one by one, or kept waiting.

use super::{
    Shared,
    reply::Reply,
    serve::{self, respond},
};
use anyhow::Context as _;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};

/// What becomes of the requests; they count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// They come through.
    Open,
    /// This one is reset and nothing is done.
    ResetBefore(usize),
    /// This one is done, and reset.
    ResetAfter(usize),
    /// None is answered until there is another plan; then they are reset.
    Silent,
    /// This one waits until there is another plan, and is done then, whoever still waits for it.
    Late(usize),
}

/// A way in of its own. Dropping it closes its connections.
pub struct Line {
    /// What clients that are to come this way take for the endpoint.
    pub endpoint: String,
    switch: Arc<Switch>,
    _tasks: JoinSet<()>,
}

impl Line {
    pub(super) async fn to(shared: Arc<Shared>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.context("listening for a line")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let switch = Arc::new(Switch {
            plan: watch::Sender::new(Plan::Open),
            steps: AtomicUsize::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve::accept(listener, shared, Some(Arc::clone(&switch))));
        Ok(Self {
            endpoint,
            switch,
            _tasks: tasks,
        })
    }

    /// From now on this happens; requests are counted from 1 again.
    pub fn plan(&self, plan: Plan) {
        self.switch.steps.store(0, Ordering::SeqCst);
        self.switch.plan.send_replace(plan);
    }

    /// Requests since the last [`Line::plan`].
    pub fn steps(&self) -> usize {
        self.switch.steps.load(Ordering::SeqCst)
    }
}

/// Decides what becomes of the requests of one line.
pub(super) struct Switch {
    plan: watch::Sender<Plan>,
    steps: AtomicUsize,
}

impl Switch {
    /// As [`respond`].
    pub async fn respond(&self, request: Request<Incoming>, shared: &Arc<Shared>) -> (Reply, bool) {
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        let plan = *self.plan.borrow();
        let cut = (Reply::empty(500), true);
        let (head, body) = request.into_parts();
        let Ok(body) = body.collect().await else {
            return cut;
        };
        let request = Request::from_parts(head, Full::<Bytes>::from(body.to_bytes()));
        match plan {
            Plan::ResetBefore(at) if at == step => return cut,
            Plan::Silent => {
                self.passes(|plan| plan == Plan::Silent).await;
                return cut;
            }
            _ => {}
        }
        let late = plan == Plan::Late(step);
        if late {
            self.passes(|plan| plan == Plan::Late(step)).await;
        }
        // A task of its own: hyper drops this future when the client hangs up.
        let shared = Arc::clone(shared);
        let done = tokio::spawn(async move { respond(request, &shared).await }).await;
        let Ok((reply, reset)) = done else { return cut };
        (reply, reset || plan == Plan::ResetAfter(step))
    }

    async fn passes(&self, holds: impl Fn(Plan) -> bool) {
        let mut plan = self.plan.subscribe();
        // It is never closed before the switch is gone.
        plan.wait_for(|plan| !holds(*plan)).await.ok();
    }
}
