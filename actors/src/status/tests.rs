//! The writer on a fake API server.

use super::{StatusActor, StatusMsg};
use crate::{
    fakes::{SECOND, Stage, Store, until},
    key::ProxyKey,
    proxy::tests::machine,
    store::{Write, WriteError},
    system::{Addr, AskError},
};
use crds::{Proxy, ProxyStatus};
use futures::future::join_all;
use std::sync::{Arc, atomic::Ordering::SeqCst};

/// Writes a status to each of `count` objects.
async fn writes(
    addr: &Addr<StatusMsg>,
    count: usize,
) -> Vec<Result<Result<Arc<Proxy>, WriteError>, AskError>> {
    join_all((0..count).map(|n| {
        let write = Write::Status {
            uid: "uid-1".into(),
            status: Box::new(ProxyStatus {
                latency_millis: Some(7),
                ..ProxyStatus::default()
            }),
        };
        let key = ProxyKey::new("ns", &format!("px{n}"));
        addr.ask(600 * SECOND, |reply| StatusMsg::Write(key, write, reply))
    }))
    .await
}

async fn writer(objects: usize) -> (Stage, Store, Addr<StatusMsg>) {
    let (store, addr) = (Store::default(), Addr::default());
    for n in 0..objects {
        let mut object = machine::external().object;
        object.metadata.name = Some(format!("px{n}"));
        store.0.apply(object);
    }
    let port = store.clone();
    let make = move || StatusActor::new(Arc::new(port.clone()));
    let stage = Stage::one("status", &addr, make).await;
    (stage, store, addr)
}

#[tokio::test(start_paused = true)]
async fn the_writer_writes_64_at_once_and_all_in_the_end() {
    let (_stage, store, addr) = writer(300).await;
    let written = writes(&addr, 301).await;
    assert!(written[..300].iter().all(|w| matches!(w, Ok(Ok(_)))));
    assert_eq!(written[300], Ok(Err(WriteError::Gone)));
    assert_eq!(store.0.most_in_flight.load(SeqCst), 64);
}

#[tokio::test(start_paused = true)]
async fn a_killed_writer_answers_nobody_and_the_next_writes() {
    let (stage, store, addr) = writer(100).await;
    store.0.hangs.store(true, SeqCst);
    let (written, ()) = tokio::join!(writes(&addr, 100), async {
        until("full", || store.0.in_flight.load(SeqCst) == 64).await;
        stage.kill("status");
    });
    assert!(written.iter().all(|w| *w == Err(AskError::Dropped)));
    store.0.hangs.store(false, SeqCst);
    assert!(matches!(writes(&addr, 1).await[0], Ok(Ok(_))));
}
