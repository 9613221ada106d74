//! A listener that breaks, a kill, and an ordered stop.

use super::{Api, Serve, ServerActor};
use crate::{
    fakes::{SECOND, Stage, until},
    system::Addr,
};
use futures::future::BoxFuture;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::Semaphore;

struct FakeServe {
    served: AtomicUsize,
    /// A permit lets one serving fail.
    fails: Semaphore,
    drained: AtomicBool,
}

impl Serve for FakeServe {
    fn serve(self: Arc<Self>) -> BoxFuture<'static, String> {
        Box::pin(async move {
            self.served.fetch_add(1, SeqCst);
            if let Ok(permit) = self.fails.acquire().await {
                permit.forget();
            }
            "the listener broke".into()
        })
    }

    fn drain(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            tokio::time::sleep(2 * SECOND).await;
            self.drained.store(true, SeqCst);
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_back_after_a_failure_or_a_kill_and_drains_when_it_is_stopped() {
    let addr = Addr::default();
    let serve = Arc::new(FakeServe {
        served: AtomicUsize::new(0),
        fails: Semaphore::new(0),
        drained: AtomicBool::new(false),
    });
    let port = Arc::clone(&serve);
    let make = move || ServerActor::<Api>::new(port.clone() as _);
    let mut stage = Stage::one("api", &addr, make).await;
    let served = |n| {
        let serve = Arc::clone(&serve);
        until("serves", move || serve.served.load(SeqCst) == n)
    };
    served(1).await;
    serve.fails.add_permits(1);
    served(2).await;
    stage.kill("api");
    served(3).await;
    assert!(!serve.drained.load(SeqCst), "drained though killed");
    stage.running.stop();
    stage.running.ended().await.expect("ends in order");
    assert!(serve.drained.load(SeqCst));
}
