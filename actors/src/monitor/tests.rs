//! Rounds under a clock that the test moves, with providers that hang, vanish and change.

use super::*;
use crate::{
    fakes::{FakeProvider, SECOND, Stage, metrics, until},
    fleet::FleetMsg,
    provider::contract::Provider,
    providers::{Entry, ProvidersActor, ProvidersMsg},
    system::{ChildSpec, addr::probe::inbox},
};
use crds::conditions::{self, ConditionType};
use futures::future::BoxFuture;
use k8s_openapi::jiff::Timestamp;
use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
};
use tokio::sync::mpsc::UnboundedReceiver;

const PACE: Pace = Pace {
    interval: Duration::from_mins(1),
    timeout: Duration::from_secs(15),
};

/// The objects, in memory.
#[derive(Default)]
struct Objects {
    all: Mutex<BTreeMap<String, ProviderHealthStatus>>,
    applied: Mutex<Vec<String>>,
    deaf: AtomicBool,
    /// Nothing can be said of this one.
    stuck: Mutex<&'static str>,
}

impl HealthObjects for Objects {
    fn read(&self) -> BoxFuture<'static, Result<BTreeMap<String, ProviderHealthStatus>, String>> {
        let (deaf, all) = (self.deaf.load(SeqCst), self.all.lock().unwrap().clone());
        Box::pin(async move { if deaf { Err("deaf".into()) } else { Ok(all) } })
    }
    fn apply(
        &self,
        name: &str,
        status: ProviderHealthStatus,
    ) -> BoxFuture<'static, Result<String, String>> {
        if self.deaf.load(SeqCst) {
            return Box::pin(async { Err("deaf".into()) });
        }
        self.applied.lock().unwrap().push(name.to_owned());
        if *self.stuck.lock().unwrap() == name {
            return Box::pin(async { Err("stuck".into()) });
        }
        self.all.lock().unwrap().insert(name.to_owned(), status);
        let uid = format!("uid of {name}");
        Box::pin(async { Ok(uid) })
    }
    fn delete(&self, name: &str) -> BoxFuture<'static, Result<(), String>> {
        if self.deaf.load(SeqCst) {
            return Box::pin(async { Err("deaf".into()) });
        }
        self.all.lock().unwrap().remove(name);
        Box::pin(async { Ok(()) })
    }
}

struct World {
    objects: Arc<Objects>,
    backends: BTreeMap<&'static str, Arc<FakeProvider>>,
    set: Arc<watch::Sender<Arc<ProviderSet>>>,
    providers: Addr<ProvidersMsg>,
    board: Arc<watch::Sender<Board>>,
    events: UnboundedReceiver<EventsMsg>,
    wall: Arc<AtomicI64>,
    stage: Stage,
    _fleet: UnboundedReceiver<FleetMsg>,
}

impl World {
    /// Two providers with a target each, called like them.
    async fn new(objects: Objects, pace: Option<Pace>) -> Self {
        let (objects, wall) = (Arc::new(objects), Arc::new(AtomicI64::new(1000)));
        let backends = BTreeMap::from(["a", "b"].map(|name| {
            let backend = FakeProvider::default();
            backend.targets.lock().unwrap().push((name, "Reachable"));
            (name, Arc::new(backend))
        }));
        let set = Arc::new(watch::Sender::new(Self::set_of(&backends)));
        let roster = Arc::new(watch::Sender::new(BTreeMap::new()));
        let ((fleet, told), (events, recorded)) = (inbox().await, inbox().await);
        let (board, providers) = (Arc::new(watch::Sender::default()), Addr::default());
        let clock = Arc::clone(&wall);
        let deps = Arc::new(MonitorDeps {
            set: set.subscribe(),
            roster: roster.subscribe(),
            objects: Arc::clone(&objects) as _,
            events,
            board: Arc::clone(&board),
            pace,
            wall: Arc::new(move || Timestamp::from_second(clock.load(SeqCst)).expect("a time")),
        });
        let sets = Arc::clone(&set);
        let stage = Stage::of(vec![
            ChildSpec::new("monitor", Addr::default(), move || {
                MonitorActor::new(Arc::clone(&deps))
            }),
            // After the monitor, which must not take them for gone.
            ChildSpec::new("providers", providers.clone(), move || {
                let roster = Arc::clone(&roster);
                ProvidersActor::new(sets.subscribe(), roster, fleet.clone(), metrics())
            }),
        ])
        .await;
        Self {
            objects,
            backends,
            set,
            providers,
            board,
            events: recorded,
            wall,
            stage,
            _fleet: told,
        }
    }

    async fn start() -> Self {
        let world = Self::new(Objects::default(), Some(PACE)).await;
        until("checked", || {
            world.says("a").is_some() && world.says("b").is_some()
        })
        .await;
        world
    }

    fn set_of(backends: &BTreeMap<&'static str, Arc<FakeProvider>>) -> Arc<ProviderSet> {
        let entry = |(name, backend): (&&str, &Arc<FakeProvider>)| {
            let provider = Arc::clone(backend) as Arc<dyn Provider>;
            let entry = Entry {
                provider,
                fingerprint: 1,
            };
            ((*name).to_owned(), entry)
        };
        Arc::new(backends.iter().map(entry).collect())
    }

    fn configure(&self, backends: &BTreeMap<&'static str, Arc<FakeProvider>>) {
        let set = Self::set_of(backends);
        self.set.send_replace(Arc::clone(&set));
        self.providers.hint(ProvidersMsg::Configure(set));
    }

    fn answers(&self, name: &str, reason: &'static str) {
        let target = &mut self.backends[name].targets.lock().unwrap()[0];
        target.1 = reason;
    }

    fn says(&self, name: &str) -> Option<ProviderHealthStatus> {
        self.objects.all.lock().unwrap().get(name).cloned()
    }

    fn reason(&self, name: &str) -> String {
        let target = self.says(name).map(|says| says.targets[0].clone());
        target.and_then(|t| t.reason).unwrap_or_default()
    }

    fn since(&self, name: &str) -> i64 {
        let says = self.says(name).expect("says something");
        let ready = conditions::get(&says.conditions, ConditionType::Ready).expect("is set");
        let target = says.targets[0].last_transition_time.clone();
        assert_eq!(target.as_ref(), Some(&ready.last_transition_time));
        ready.last_transition_time.0.as_second()
    }

    fn rounds(&self) -> usize {
        let applied = self.objects.applied.lock().unwrap();
        applied.iter().filter(|name| *name == "a").count()
    }

    async fn another_round(&self) {
        let before = self.rounds();
        until("another round", || self.rounds() > before).await;
    }

    fn up(&self) -> Vec<(String, bool)> {
        let board = self.board.borrow();
        let rows = board.rows.iter();
        rows.map(|row| (row.target.clone(), row.up)).collect()
    }

    fn told(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(EventsMsg::Record(regarding, note)) = self.events.try_recv() {
            let Regarding::ProviderHealth { name, uid } = regarding else {
                panic!("about {regarding}");
            };
            assert_eq!(uid, format!("uid of {name}"));
            let kind = if note.warning { "Warning" } else { "Normal" };
            all.push(format!("{name} {kind} {} {}", note.reason, note.message));
        }
        all
    }
}

#[tokio::test(start_paused = true)]
async fn a_steady_state_is_silent_and_written_once_a_round() {
    let mut w = World::start().await;
    let begun = Instant::now();
    for _ in 0..5 {
        w.another_round().await;
    }
    let took = begun.elapsed();
    assert!(
        took > 4 * PACE.interval && took < 6 * PACE.interval,
        "{took:?}"
    );
    let rounds = w.rounds();
    assert_eq!(w.objects.applied.lock().unwrap().len(), 2 * rounds);
    assert!(w.told().is_empty());
    assert_eq!(w.up(), [("a".into(), true), ("b".into(), true)]);
    assert!(w.backends["a"].calls().is_empty(), "a check is no request");
}

#[tokio::test(start_paused = true)]
async fn what_changes_is_told_once_and_its_time_moves_only_then() {
    let mut w = World::start().await;
    for (at, reason, since) in [
        (2000, "Unreachable", 2000),
        (3000, "Unreachable", 2000),
        (4000, "Unauthorized", 2000),
        (5000, "Reachable", 5000),
    ] {
        w.wall.store(at, SeqCst);
        w.answers("a", reason);
        until("seen", || {
            let says = w.says("a").and_then(|says| says.last_check_time);
            says.is_some_and(|at_last| at_last.0.as_second() == at) && w.reason("a") == reason
        })
        .await;
        assert_eq!(w.since("a"), since, "{reason}");
        assert_eq!(w.up()[0].1, reason == "Reachable");
    }
    w.another_round().await;
    assert_eq!(
        w.told(),
        [
            "a Warning TargetNotReady a (a:1): Unreachable: as told",
            "a Warning TargetNotReady a (a:1): Unauthorized: as told",
            "a Normal TargetReady a (a:1): Reachable: as told",
        ]
    );
    assert_eq!(w.since("b"), 1000);
}

#[tokio::test(start_paused = true)]
async fn one_that_hangs_is_told_as_such_and_holds_up_no_other() {
    let w = World::start().await;
    w.backends["a"].hang_checks(true);
    until("seen", || w.reason("a") == "Timeout").await;
    assert_eq!(w.up(), [("a".into(), false), ("b".into(), true)]);
    let took = w.board.borrow().rows[0].took;
    assert_eq!(took, PACE.timeout);
    let begun = Instant::now();
    w.another_round().await;
    w.another_round().await;
    assert!(begun.elapsed() <= 2 * PACE.interval + SECOND);
    w.backends["a"].hang_checks(false);
    until("back", || w.up()[0].1).await;
}

#[tokio::test(start_paused = true)]
async fn a_check_waits_for_no_work_and_survives_a_killed_provider() {
    let w = World::start().await;
    let provider = &w.backends["a"];
    provider.hang();
    provider.hang_checks(true);
    until("checking", || provider.checking.load(SeqCst) > 0).await;
    w.stage.kill("provider/a");
    provider.hang_checks(false);
    w.another_round().await;
    assert_eq!(w.reason("a"), "Reachable");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_config_is_followed_at_once() {
    let w = World::start().await;
    let mut backends = w.backends.clone();
    backends.remove("b");
    let begun = Instant::now();
    w.configure(&backends);
    until("removed", || w.says("b").is_none()).await;
    assert!(begun.elapsed() < 5 * SECOND);
    assert_eq!(w.up(), [("a".into(), true)]);
    w.configure(&w.backends);
    until("back", || w.says("b").is_some()).await;
    assert!(begun.elapsed() < 10 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn killed_it_goes_on_from_what_the_objects_say() {
    let mut w = World::start().await;
    w.answers("a", "Unreachable");
    until("seen", || w.reason("a") == "Unreachable").await;
    w.another_round().await;
    w.told();
    w.wall.store(9000, SeqCst);
    w.stage.kill("monitor");
    w.another_round().await;
    assert_eq!((w.since("a"), w.since("b")), (1000, 1000));
    assert!(w.told().is_empty());
    assert_eq!(w.up(), [("a".into(), false), ("b".into(), true)]);
}

#[tokio::test(start_paused = true)]
async fn objects_are_read_before_any_is_written() {
    let objects = Objects::default();
    objects.deaf.store(true, SeqCst);
    let w = World::new(objects, Some(PACE)).await;
    until("checked", || w.up().len() == 2).await;
    tokio::time::sleep(5 * PACE.interval).await;
    // It is found later what another incarnation has written in the meantime.
    let (earlier, _) = round::next(
        None,
        "fake",
        &Found::Checks(w.backends["a"].check(SECOND).await),
        Timestamp::from_second(5).expect("a time"),
    );
    w.objects.all.lock().unwrap().insert("a".into(), earlier);
    w.objects.deaf.store(false, SeqCst);
    w.another_round().await;
    assert_eq!(w.since("a"), 5);
}

#[tokio::test(start_paused = true)]
async fn with_the_checks_off_no_object_says_anything() {
    let objects = Objects::default();
    let old = ProviderHealthStatus::default();
    objects.all.lock().unwrap().insert("a".into(), old);
    let w = World::new(objects, None).await;
    until("removed", || w.says("a").is_none()).await;
    tokio::time::sleep(10 * PACE.interval).await;
    assert!(w.objects.applied.lock().unwrap().is_empty());
    assert!(w.up().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_monitor_leaves_nothing_on_the_board() {
    let w = World::start().await;
    w.stage.running.stop();
    until("cleared", || w.up().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_told_once_it_could() {
    let mut w = World::start().await;
    *w.objects.stuck.lock().unwrap() = "a";
    w.answers("a", "Unreachable");
    w.answers("b", "Unreachable");
    until("seen", || w.reason("b") == "Unreachable").await;
    w.another_round().await;
    let b = "b Warning TargetNotReady b (b:1): Unreachable: as told";
    assert_eq!(w.told(), [b]);
    // Only the last of what became of a target is kept.
    w.answers("a", "Unauthorized");
    w.another_round().await;
    w.another_round().await;
    *w.objects.stuck.lock().unwrap() = "";
    until("seen", || w.reason("a") == "Unauthorized").await;
    w.another_round().await;
    let a = "a Warning TargetNotReady a (a:1): Unauthorized: as told";
    assert_eq!(w.told(), [a]);
}

#[tokio::test(start_paused = true)]
async fn what_objects_read_late_say_already_is_not_told_again() {
    let objects = Objects::default();
    objects.deaf.store(true, SeqCst);
    let mut w = World::new(objects, Some(PACE)).await;
    w.answers("a", "Unreachable");
    w.answers("b", "Unreachable");
    until("checked", || {
        w.up() == [("a".into(), false), ("b".into(), false)]
    })
    .await;
    // The one was known to be down; the other was up when its object was written.
    for (name, reason) in [("a", "Unreachable"), ("b", "Reachable")] {
        w.answers(name, reason);
        let found = Found::Checks(w.backends[name].check(SECOND).await);
        w.answers(name, "Unreachable");
        let (earlier, _) = round::next(None, "fake", &found, Timestamp::UNIX_EPOCH);
        w.objects.all.lock().unwrap().insert(name.into(), earlier);
    }
    w.wall.store(9000, SeqCst);
    w.objects.deaf.store(false, SeqCst);
    w.another_round().await;
    w.another_round().await;
    assert_eq!((w.since("a"), w.since("b")), (0, 1000));
    let b = "b Warning TargetNotReady b (b:1): Unreachable: as told";
    assert_eq!(w.told(), [b]);
}
