//! The actor between askers and a backend that hangs.

use super::{
    ProviderActor, ProviderMsg,
    contract::{ErrorClass, Instance, ProviderError},
};
use crate::{
    fakes::{FakeProvider, SECOND, Stage, metrics, until},
    system::{Addr, AskError},
};
use futures::future::join_all;
use std::sync::Arc;

pub type Answer = Result<Result<Instance, ProviderError>, AskError>;

pub async fn looks(addr: &Addr<ProviderMsg>, count: usize) -> Vec<Answer> {
    let ask = |_| addr.ask(3600 * SECOND, |reply| ProviderMsg::Get("x".into(), reply));
    join_all((0..count).map(ask)).await
}

async fn backend() -> (Stage, Arc<FakeProvider>, Addr<ProviderMsg>) {
    let (provider, addr) = (Arc::new(FakeProvider::default()), Addr::default());
    let port = Arc::clone(&provider);
    let make = move || ProviderActor::new(port.clone() as _, metrics());
    let stage = Stage::one("provider", &addr, make).await;
    (stage, provider, addr)
}

#[tokio::test(start_paused = true)]
async fn a_provider_has_32_calls_under_way_and_refuses_what_its_queue_cannot_hold() {
    let (_stage, provider, addr) = backend().await;
    provider.hang();
    let (answers, ()) = tokio::join!(looks(&addr, 16_385), async {
        until("full", || provider.calls().len() == 32).await;
        tokio::time::sleep(SECOND).await;
        assert_eq!(provider.calls().len(), 32);
        provider.gate.add_permits(1_000_000);
    });
    let class = |answer: &Answer| answer.as_ref().unwrap().as_ref().unwrap_err().class;
    let refused = answers
        .iter()
        .filter(|a| class(a) == ErrorClass::Transient)
        .count();
    assert_eq!(refused, 1);
    assert_eq!(provider.calls().len(), 16_384);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_hangs_is_given_up_at_its_deadline() {
    let (_stage, provider, addr) = backend().await;
    provider.hang();
    let answers = looks(&addr, 33).await;
    for answer in &answers {
        let error = answer.as_ref().unwrap().as_ref().unwrap_err();
        assert_eq!(error.class, ErrorClass::Transient);
        assert_eq!(error.message, "no answer within 60 s");
    }
}

#[tokio::test(start_paused = true)]
async fn calls_that_nobody_waits_for_are_not_begun() {
    let (_stage, provider, addr) = backend().await;
    provider.hang();
    let mut impatient = Box::pin(looks(&addr, 40));
    tokio::select! {
        _ = &mut impatient => panic!("answered"),
        () = until("full", || provider.calls().len() == 32) => {}
    }
    drop(impatient);
    provider.gate.add_permits(1_000_000);
    looks(&addr, 1).await;
    assert_eq!(provider.calls().len(), 33);
}

#[tokio::test(start_paused = true)]
async fn a_killed_provider_drops_its_questions() {
    let (stage, provider, addr) = backend().await;
    provider.hang();
    let (answers, ()) = tokio::join!(looks(&addr, 40), async {
        until("full", || provider.calls().len() == 32).await;
        stage.kill("provider");
    });
    let dropped = |answer: &Answer| matches!(answer, Err(AskError::Dropped));
    assert!(answers.iter().all(dropped));
}
