//! Kills an operator at a chosen write.

use crate::lab::{
    Scene,
    forwarder::{Answer, Beyond, Forwarder, Passage, is_write},
    operator::{Launch, Operator},
};
use anyhow::{Context as _, bail, ensure};
use futures::future::BoxFuture;
use http::Request;
use kube::client::Body;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{process::Command, sync::watch};

/// An operator that has something to do writes within this time.
const PATIENCE: Duration = Duration::from_mins(2);

/// When the operator dies; writes count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before this write reaches the API server.
    Before(usize),
    /// When the API server has done it, before the operator hears of it.
    After(usize),
}

/// Stands between an operator and the API server.
pub struct Killer {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    _forwarder: Forwarder,
}

#[derive(Default)]
struct Shared {
    plan: Mutex<Plan>,
    struck: watch::Sender<bool>,
}

#[derive(Default)]
struct Plan {
    point: Option<Point>,
    victim: u32,
    writes: Vec<String>,
}

impl Killer {
    /// One that lets everything pass.
    pub async fn new(scene: &Scene) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let passage = Arc::clone(&shared);
        let forwarder = Forwarder::to(&scene.lab().cluster.kubeconfig, passage).await?;
        let kubeconfig = scene.path("killer.kubeconfig");
        forwarder.write_kubeconfig(&kubeconfig)?;
        Ok(Self {
            shared,
            kubeconfig,
            _forwarder: forwarder,
        })
    }

    /// An operator whose every call comes by here.
    pub fn operator(&self, scene: &Scene) -> Launch {
        scene.operator().through(self.kubeconfig.clone())
    }

    /// Counts anew, and kills `operator` at `point`.
    pub fn aim(&self, operator: &Operator, point: Option<Point>) -> anyhow::Result<()> {
        let victim = operator.pid()?;
        self.shared.struck.send_replace(false);
        *self.shared.plan() = Plan {
            point,
            victim,
            writes: Vec::new(),
        };
        Ok(())
    }

    /// The writes since it last took aim.
    pub fn writes(&self) -> Vec<String> {
        self.shared.plan().writes.clone()
    }

    /// Waits until it has killed; for ever if it never does.
    pub async fn has_struck(&self) {
        let mut struck = self.shared.struck.subscribe();
        // It is never closed before the killer is gone.
        struck.wait_for(|struck| *struck).await.ok();
    }

    /// The same for an operator that has something to write.
    pub async fn strikes(&self) -> anyhow::Result<()> {
        tokio::time::timeout(PATIENCE, self.has_struck())
            .await
            .with_context(|| format!("only these writes: {:?}", self.writes()))
    }
}

impl Passage for Shared {
    fn pass(self: Arc<Self>, request: Request<Body>, beyond: Beyond) -> BoxFuture<'static, Answer> {
        Box::pin(async move { self.or_strike(request, beyond).await })
    }
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn or_strike(&self, request: Request<Body>, beyond: Beyond) -> Answer {
        if !is_write(&request) {
            return beyond.send(request).await;
        }
        let (write, point, victim) = {
            let mut plan = self.plan();
            let line = format!("{} {}", request.method(), request.uri().path());
            plan.writes.push(line);
            (plan.writes.len(), plan.point, plan.victim)
        };
        if point == Some(Point::Before(write)) {
            self.strike(victim).await?;
            bail!("nobody waits for an answer");
        }
        let answer = beyond.send(request).await;
        if point == Some(Point::After(write)) {
            self.strike(victim).await?;
        }
        answer
    }

    async fn strike(&self, victim: u32) -> anyhow::Result<()> {
        let victim = victim.to_string();
        let killed = Command::new("kill")
            .args(["-KILL", &victim])
            .status()
            .await?;
        ensure!(killed.success(), "kill -KILL {victim}: {killed}");
        self.struck.send_replace(true);
        Ok(())
    }
}
