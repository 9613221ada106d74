//! The actor between askers and a backend that hangs.

use super::{
    ProviderActor, ProviderMsg,
    contract::{ErrorClass, Instance, ProviderError},
};
use crate::{
    fakes::{FakeProvider, SECOND, Stage, metrics, until},
    system::{Actor, Addr, AskError, Broken, ChildSpec, Context, Epoch},
};
use futures::future::join_all;
use std::sync::Arc;

pub type Answer = Result<Result<Instance, ProviderError>, AskError>;

pub async fn looks(addr: &Addr<ProviderMsg>, count: usize) -> Vec<Answer> {
    let ask = |_| {
        addr.ask(3600 * SECOND, |reply| {
            ProviderMsg::Get("x".into(), None, reply)
        })
    };
    join_all((0..count).map(ask)).await
}

async fn backend() -> (Stage, Arc<FakeProvider>, Addr<ProviderMsg>) {
    backend_of(FakeProvider::default()).await
}

async fn backend_of(provider: FakeProvider) -> (Stage, Arc<FakeProvider>, Addr<ProviderMsg>) {
    let (provider, addr) = (Arc::new(provider), Addr::default());
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

#[tokio::test(start_paused = true)]
async fn a_backend_says_how_many_calls_may_be_under_way() {
    for calls_at_once in [1, 1000] {
        let provider = FakeProvider {
            calls_at_once,
            ..FakeProvider::default()
        };
        let (_stage, provider, addr) = backend_of(provider).await;
        provider.hang();
        let asked = looks(&addr, calls_at_once + 1);
        tokio::join!(asked, async {
            until("full", || provider.calls().len() == calls_at_once).await;
            tokio::time::sleep(SECOND).await;
            assert_eq!(provider.calls().len(), calls_at_once);
            provider.gate.add_permits(1);
            until("another", || provider.calls().len() > calls_at_once).await;
            provider.gate.add_permits(1_000_000);
        });
    }
}

/// Part of a backend.
struct Part;

#[derive(strum::IntoStaticStr)]
enum PartMsg {}

impl Actor for Part {
    type Msg = PartMsg;
    const KIND: &'static str = "part";
    fn handle(&mut self, message: PartMsg, _: &mut Context<PartMsg>) -> Result<(), Broken> {
        match message {}
    }
}

fn parts() -> Vec<ChildSpec> {
    let part = |path: &str| ChildSpec::new(path, Addr::default(), || Part);
    ["part/a", "part/b"].map(part).into()
}

#[tokio::test(start_paused = true)]
async fn what_a_backend_consists_of_runs_below_its_provider_and_comes_back_with_it() {
    let provider = FakeProvider {
        children: parts,
        ..FakeProvider::default()
    };
    let (stage, ..) = backend_of(provider).await;
    let seen = || -> Vec<(String, Epoch, u32)> {
        let list = stage.directory.list().into_iter();
        let parts = list.filter(|seen| seen.kind == "part");
        let facts = parts.map(|seen| (seen.path.to_string(), seen.epoch, seen.restarts));
        facts.collect()
    };
    let paths = || -> Vec<String> { seen().into_iter().map(|(path, ..)| path).collect() };
    until("started", || paths() == ["part/a", "part/b"]).await;

    let first = seen();
    stage.kill("part/a");
    until("restarted", || seen()[0].1 > first[0].1).await;
    assert_eq!(seen()[1], first[1], "the other noticed");

    let second = seen();
    stage.kill("provider");
    let newer = |after: &[(String, Epoch, u32)]| {
        let pairs = after.iter().zip(&second);
        after.len() == 2 && pairs.into_iter().all(|(now, then)| now.1 > then.1)
    };
    until("started by the next", || newer(&seen())).await;
    assert_eq!(paths(), ["part/a", "part/b"]);
    assert!(seen().iter().all(|part| part.2 == 0), "{:?}", seen());

    stage.running.stop();
    until("stopped", || paths().is_empty()).await;
}
