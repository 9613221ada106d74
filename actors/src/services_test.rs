//! The services below the root, each alone between its ports.

use crate::{
    events::{EventsActor, EventsMsg, Regarding},
    fakes::{FakeProvider, FakeSink, SECOND, Stage, Store, metrics, until},
    fleet::FleetMsg,
    key::ProxyKey,
    provider::{
        ProviderActor, ProviderMsg,
        contract::{ErrorClass, Instance, Provider, ProviderError},
    },
    providers::{Entry, Listed, ProviderSet, ProvidersActor, ProvidersMsg},
    proxy::{memory::Note, tests::machine},
    server::{Api, Serve, ServerActor},
    status::{StatusActor, StatusMsg},
    store::{Write, WriteError},
    system::{Addr, AskError, ChildSpec, addr::probe::inbox},
};
use crds::{Proxy, ProxyStatus};
use futures::future::{BoxFuture, join_all};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::sync::{Semaphore, mpsc::UnboundedReceiver, watch};

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

fn note(n: usize) -> Note {
    Note::normal("Test", n.to_string())
}

fn about(name: &str) -> Regarding {
    Regarding {
        key: ProxyKey::new("ns", name),
        uid: "1".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn one_object_records_a_burst_and_then_one_event_in_half_a_minute() {
    let (sink, addr) = (Arc::new(FakeSink::default()), Addr::default());
    let port = Arc::clone(&sink);
    let _stage = Stage::one("events", &addr, move || EventsActor::new(port.clone() as _)).await;
    let of = |name: &str| {
        let notes = sink.notes.lock().unwrap();
        notes.iter().filter(|(r, _)| r.key.name() == name).count()
    };
    for n in 0..100 {
        addr.hint(EventsMsg::Record(about("chatty"), note(n)));
    }
    addr.hint(EventsMsg::Record(about("quiet"), note(0)));
    until("recorded", || of("quiet") == 1).await;
    assert_eq!(of("chatty"), 20);
    tokio::time::sleep(30 * SECOND).await;
    for n in 0..100 {
        addr.hint(EventsMsg::Record(about("chatty"), note(n)));
    }
    addr.hint(EventsMsg::Record(about("quiet"), note(1)));
    until("recorded", || of("quiet") == 2).await;
    assert_eq!(of("chatty"), 21);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_hangs_holds_nobody_up_and_bounds_what_waits() {
    let (sink, addr) = (Arc::new(FakeSink::default()), Addr::default());
    sink.hangs.store(true, SeqCst);
    let port = Arc::clone(&sink);
    let _stage = Stage::one("events", &addr, move || EventsActor::new(port.clone() as _)).await;
    for n in 0..3000 {
        addr.tell(EventsMsg::Record(about(&n.to_string()), note(n)))
            .expect("is up");
    }
    until("begun", || sink.notes.lock().unwrap().len() == 4).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        sink.notes.lock().unwrap().len(),
        4,
        "more than four at once"
    );
}

type Answer = Result<Result<Instance, ProviderError>, AskError>;

async fn looks(addr: &Addr<ProviderMsg>, count: usize) -> Vec<Answer> {
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

struct Providers {
    stage: Stage,
    addr: Addr<ProvidersMsg>,
    set: Arc<watch::Sender<Arc<ProviderSet>>>,
    roster: watch::Receiver<BTreeMap<String, Listed>>,
    fleet: UnboundedReceiver<FleetMsg>,
}

fn set_of(entries: &[(&str, u64)]) -> Arc<ProviderSet> {
    let entry = |(name, fingerprint): &(&str, u64)| {
        let provider: Arc<dyn Provider> = Arc::new(FakeProvider::default());
        let fingerprint = *fingerprint;
        (
            (*name).to_owned(),
            Entry {
                provider,
                fingerprint,
            },
        )
    };
    Arc::new(entries.iter().map(entry).collect())
}

async fn providers(entries: &[(&str, u64)]) -> Providers {
    let (fleet, inbox) = inbox().await;
    let set = Arc::new(watch::Sender::new(set_of(entries)));
    let roster = Arc::new(watch::Sender::new(BTreeMap::new()));
    let (addr, seen, sets) = (Addr::default(), roster.subscribe(), Arc::clone(&set));
    let make = move || {
        ProvidersActor::new(
            sets.subscribe(),
            Arc::clone(&roster),
            fleet.clone(),
            metrics(),
        )
    };
    let stage = Stage::of(vec![ChildSpec::new("providers", addr.clone(), make)]).await;
    Providers {
        stage,
        addr,
        set,
        roster: seen,
        fleet: inbox,
    }
}

impl Providers {
    async fn listed(&mut self) -> BTreeMap<String, Listed> {
        assert!(matches!(
            self.fleet.recv().await,
            Some(FleetMsg::ProvidersChanged)
        ));
        self.roster.borrow().clone()
    }

    async fn configure(&mut self, entries: &[(&str, u64)]) -> BTreeMap<String, Listed> {
        let set = set_of(entries);
        self.set.send_replace(Arc::clone(&set));
        self.addr.tell(ProvidersMsg::Configure(set)).expect("is up");
        self.listed().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_whose_entry_did_not_change_keeps_its_actor() {
    let mut p = providers(&[("kept", 1), ("changed", 1), ("gone", 1)]).await;
    let before = p.listed().await;
    let after = p
        .configure(&[("kept", 1), ("changed", 2), ("new", 1)])
        .await;
    assert_eq!(after.keys().collect::<Vec<_>>(), ["changed", "kept", "new"]);
    assert!(before["kept"].addr.same(&after["kept"].addr));
    assert!(!before["changed"].addr.same(&after["changed"].addr));
    for name in ["kept", "changed", "new"] {
        let answer = &looks(&after[name].addr, 1).await[0];
        assert!(
            matches!(answer, Ok(Err(e)) if e.class == ErrorClass::NotFound),
            "{name}"
        );
    }
    for old in [&before["changed"], &before["gone"]] {
        until("stopped", || !old.addr.is_up()).await;
    }
    assert!(!p.stage.has("provider/gone"));
}

#[tokio::test(start_paused = true)]
async fn killed_providers_are_back_with_the_newest_set() {
    let mut p = providers(&[("a", 1)]).await;
    p.listed().await;
    p.configure(&[("b", 1)]).await;
    p.stage.kill("providers");
    let after = p.listed().await;
    assert_eq!(after.keys().collect::<Vec<_>>(), ["b"]);
    assert!(looks(&after["b"].addr, 1).await[0].is_ok());
}

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
