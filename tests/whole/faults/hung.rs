//! Something never answers; everything else goes on as if it did.

use super::{
    census::{all_is_well, delete_all, nothing_is_left},
    in_a_scene,
};
use crate::lab::{
    Lab, Scene, eventually,
    forwarder::{Answer, Beyond, Forwarder, Passage},
    proxy,
    squid::{self, Squid},
};
use anyhow::{Context as _, ensure};
use crds::Phase;
use futures::{
    FutureExt as _,
    future::{BoxFuture, pending, try_join_all},
};
use http::{Method, Request};
use kube::client::Body;
use serde_json::json;
use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

/// With polls of ten seconds, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// More proxies that swallow everything than a human would tolerate, yet fewer than `--health-workers`.
const HOLES: usize = 200;
/// How long each probe of a hole takes.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Probes that hang occupy their own places, and nobody waits for them.
pub async fn black_holes_delay_nobody(scene: Scene) -> anyhow::Result<()> {
    const HEALTHY: usize = 10;
    let hole = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = hole.local_addr()?.port();
    let swallowed = Arc::new(AtomicUsize::new(0));
    let swallowing = tokio::spawn({
        let swallowed = Arc::clone(&swallowed);
        async move {
            let mut held = Vec::new();
            while let Ok((connection, _)) = hole.accept().await {
                held.push(connection);
                swallowed.store(held.len(), Ordering::SeqCst);
            }
        }
    });
    let squid = Squid::start(squid::Options::default()).await?;
    let mut operator = scene.operator().logging("info").start().await?;
    let timeout =
        json!({"healthCheck": {"timeoutSeconds": TIMEOUT.as_secs(), "periodSeconds": 60}});
    let holes = (0..HOLES).map(|number| {
        let draft = proxy(&format!("hole-{number:03}")).at("127.0.0.1", port);
        scene.apply(draft.with(timeout.clone()))
    });
    let holes = try_join_all(holes).await?;
    eventually("every hole has a probe in it", PATIENCE, || async {
        Ok((swallowed.load(Ordering::SeqCst) >= HOLES).then_some(()))
    })
    .await?;

    let begun = Instant::now();
    let healthy = (0..HEALTHY).map(|number| {
        let scene = &scene;
        let draft = proxy(&format!("healthy-{number}")).through(&squid);
        async move { scene.apply(draft).await?.becomes(Phase::Ready).await }
    });
    try_join_all(healthy).await?;
    let took = begun.elapsed();
    // Far from the holes' timeout; alone they take about two seconds.
    ensure!(took < TIMEOUT / 4, "verdicts after {took:?}");
    let judged = holes[0].get().await?.status.context("a status")?;
    ensure!(judged.phase != Some(Phase::Unhealthy), "no hole was full");

    // Nor does it hold up the end.
    let begun = Instant::now();
    operator.stop().await?;
    let took = begun.elapsed();
    ensure!(took < TIMEOUT / 4, "stopping took {took:?}");
    swallowing.abort();
    Ok(())
}

/// One call whose answer never comes, and how long the operator waits for it.
struct Hang {
    method: Method,
    path: &'static str,
    deadline: Duration,
    /// What makes the operator ask.
    cause: Cause,
}

enum Cause {
    Apply,
    Delete,
}

/// The API server's answer to one call about one object is lost without a word. That object waits until
/// the deadline and goes on where it was; another notices nothing.
pub async fn a_hung_call_delays_one_object(lab: Arc<Lab>) -> anyhow::Result<()> {
    const STORE: Duration = Duration::from_secs(15);
    const PROVIDER: Duration = Duration::from_secs(10);
    let hang = |method, path, deadline, cause| Hang {
        method,
        path,
        deadline,
        cause,
    };
    let hangs = [
        hang(Method::PATCH, "/proxies/a", STORE, Cause::Apply),
        hang(Method::PATCH, "/proxies/a/status", STORE, Cause::Apply),
        hang(Method::POST, "/pods", PROVIDER, Cause::Apply),
        hang(Method::GET, "/pods/", PROVIDER, Cause::Apply),
        hang(Method::DELETE, "/pods/", PROVIDER, Cause::Delete),
    ]
    .map(|hang| {
        let lab = Arc::clone(&lab);
        tokio::spawn(in_a_scene(lab, "hung", move |scene| {
            async move {
                let what = format!("{} {}", hang.method, hang.path);
                hangs(&scene, hang).await.with_context(|| what)
            }
            .boxed()
        }))
    });
    for hung in hangs {
        hung.await??;
    }
    Ok(())
}

async fn hangs(scene: &Scene, hang: Hang) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let trap = Arc::new(Trap::new(&hang));
    let forwarder = Forwarder::to(&scene.lab().cluster.kubeconfig, Arc::clone(&trap)).await?;
    let kubeconfig = scene.path("trap.kubeconfig");
    forwarder.write_kubeconfig(&kubeconfig)?;
    let operator = scene.operator().through(kubeconfig).start().await?;

    if matches!(hang.cause, Cause::Apply) {
        trap.set();
    }
    let a = scene.apply(proxy("a").managed_by("kubernetes")).await?;
    if matches!(hang.cause, Cause::Delete) {
        all_is_well(scene, PATIENCE).await?;
        trap.set();
        a.delete().await?;
    }
    trap.catches(1).await?;
    let b = scene.apply(proxy("b").through(&squid)).await?;
    b.becomes_within(hang.deadline, Phase::Ready).await?;
    ensure!(trap.caught().len() == 1, "it did not hang for so long");

    trap.catches(2).await?;
    let [first, second, ..] = trap.caught()[..] else {
        anyhow::bail!("not caught twice")
    };
    let waited = second - first;
    // The pause after a first error is a second at most; the rest is for a busy machine.
    let late = hang.deadline + Duration::from_secs(5);
    ensure!(
        waited + Duration::from_secs(1) > hang.deadline,
        "{waited:?}"
    );
    ensure!(waited < late, "{waited:?}");
    let expected: &[&str] = match hang.cause {
        Cause::Apply => &["a", "b"],
        Cause::Delete => &["b"],
    };
    if matches!(hang.cause, Cause::Delete) {
        a.is_gone().await?;
    }
    let names = all_is_well(scene, PATIENCE).await?;
    ensure!(names == expected, "{names:?}");
    delete_all(scene).await?;
    nothing_is_left(scene, PATIENCE).await?;
    operator.pid().map(drop)
}

/// Swallows the first answer that it is set for, and notes when that and what came after was asked.
struct Trap {
    method: Method,
    path: &'static str,
    caught: Mutex<Option<Vec<Instant>>>,
}

impl Trap {
    fn new(hang: &Hang) -> Self {
        Self {
            method: hang.method.clone(),
            path: hang.path,
            caught: Mutex::new(None),
        }
    }

    fn set(&self) {
        *self.caught.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    fn caught(&self) -> Vec<Instant> {
        let caught = self.caught.lock().unwrap_or_else(PoisonError::into_inner);
        caught.clone().unwrap_or_default()
    }

    async fn catches(&self, times: usize) -> anyhow::Result<()> {
        let what = format!("{} {}, then another: {times} calls", self.method, self.path);
        eventually(&what, PATIENCE, || async {
            Ok((self.caught().len() >= times).then_some(()))
        })
        .await
    }

    /// Notes the call that is meant, and then every call about the object; whether to swallow it.
    fn notes(&self, method: &Method, path: &str) -> bool {
        let is_meant = *method == self.method
            && if self.path.ends_with('/') {
                path.contains(self.path)
            } else {
                path.ends_with(self.path)
            };
        let is_about = path.contains("/pods") || path.contains("/proxies/a");
        let mut caught = self.caught.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(caught) = caught.as_mut() else {
            return false;
        };
        if is_about && (is_meant || !caught.is_empty()) {
            caught.push(Instant::now());
        }
        is_meant && caught.len() == 1
    }
}

impl Passage for Trap {
    fn pass(self: Arc<Self>, request: Request<Body>, beyond: Beyond) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let swallow = self.notes(request.method(), request.uri().path());
            let answer = beyond.send(request).await;
            if swallow {
                return pending().await;
            }
            answer
        })
    }
}
