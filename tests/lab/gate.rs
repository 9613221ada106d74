//! A forwarder to the API server that is told, while it runs, what to refuse and what to lose.

use super::{
    Scene, eventually,
    forwarder::{Answer, Beyond, Forwarder, Passage},
    operator::Launch,
    proxy::PATIENCE,
};
use futures::future::{BoxFuture, pending};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use serde_json::json;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is passed on.
    Pass,
    /// It is passed on, and its answer is lost without a word.
    LoseAnswer,
    /// Nobody ever hears of it again.
    Lose,
    /// It is refused with this status.
    Refuse(u16),
}

type Rule = dyn Fn(&Request<Body>) -> Fate + Send;

/// The gate.
pub struct Gate {
    shared: Arc<Shared>,
    kubeconfig: PathBuf,
    _forwarder: Forwarder,
}

#[derive(Default)]
struct Shared {
    rule: Mutex<Option<Box<Rule>>>,
    stopped: Mutex<Vec<String>>,
}

impl Gate {
    /// One that lets everything pass.
    ///
    /// # Errors
    /// As [`Forwarder::to`].
    pub async fn new(scene: &Scene) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared::default());
        let kubeconfig = scene.path("gate.kubeconfig");
        let passage = Arc::clone(&shared);
        let forwarder = Forwarder::to(&scene.lab().cluster.kubeconfig, passage).await?;
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

    /// From here on this becomes of those requests, and all others pass.
    pub fn those(&self, fate: Fate, which: impl Fn(&Request<Body>) -> bool + Send + 'static) {
        *lock(&self.shared.rule) = Some(Box::new(
            move |request| {
                if which(request) { fate } else { Fate::Pass }
            },
        ));
    }

    /// From here on everything passes; what was lost stays lost.
    pub fn open(&self) {
        *lock(&self.shared.rule) = None;
    }

    /// What did not pass, so far.
    pub fn stopped(&self) -> Vec<String> {
        lock(&self.shared.stopped).clone()
    }

    /// Waits until so many requests did not pass.
    ///
    /// # Errors
    /// That they did.
    pub async fn stops(&self, times: usize) -> anyhow::Result<()> {
        eventually(&format!("{times} requests stopped"), PATIENCE, || async {
            Ok((self.stopped().len() >= times).then_some(()))
        })
        .await
    }
}

impl Passage for Shared {
    fn pass(self: Arc<Self>, request: Request<Body>, beyond: Beyond) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let rule = lock(&self.rule).as_ref().map(|rule| rule(&request));
            let fate = rule.unwrap_or(Fate::Pass);
            if fate == Fate::Pass {
                return beyond.send(request).await;
            }
            let line = format!("{} {}", request.method(), request.uri());
            match fate {
                Fate::LoseAnswer => {
                    beyond.send(request).await?;
                    lock(&self.stopped).push(line);
                    pending().await
                }
                Fate::Refuse(code) => {
                    lock(&self.stopped).push(line);
                    refusal(code)
                }
                Fate::Lose | Fate::Pass => {
                    lock(&self.stopped).push(line);
                    pending().await
                }
            }
        })
    }
}

fn refusal(code: u16) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the gate is closed", "code": code,
        "reason": match code {
            401 => "Unauthorized",
            403 => "Forbidden",
            _ => "InternalError",
        },
    });
    Ok(Response::builder()
        .status(StatusCode::from_u16(code)?)
        .header("content-type", "application/json")
        .body(Body::from(status.to_string().into_bytes()))?)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
