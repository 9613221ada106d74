//! The actor on a record in memory, under paused time.

use super::*;
use crate::{
    fakes::{SECOND, Stage, until},
    leader::{elector::Candidate, standing::Role},
    system::directory::End,
};
use election::Version;
use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

/// The record, and who cannot reach it.
#[derive(Default)]
struct Court {
    record: Mutex<Option<Seen>>,
    versions: AtomicU64,
}

/// One candidate's way to it.
struct Way {
    court: Arc<Court>,
    cut: AtomicBool,
}

impl Court {
    fn holder(&self) -> Option<String> {
        let record = self.record.lock().expect("is free");
        record.as_ref().and_then(|seen| seen.record.holder.clone())
    }

    fn write(&self, change: Change) -> Written {
        let mut record = self.record.lock().expect("is free");
        if record.as_ref().map(|seen| &seen.version) != change.on.as_ref() {
            return Written::Conflict;
        }
        let version = Version(self.versions.fetch_add(1, SeqCst).to_string());
        *record = Some(Seen {
            version: version.clone(),
            record: change.record,
        });
        Written::Done(version)
    }
}

impl Way {
    fn answers<T>(&self, answer: T) -> BoxFuture<'static, Result<T, Unanswered>>
    where
        T: Send + 'static,
    {
        let cut = self.cut.load(SeqCst);
        Box::pin(async move {
            if cut {
                tokio::time::sleep(3 * SECOND).await;
                return Err(Unanswered("cut".into()));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(answer)
        })
    }
}

impl Election for Way {
    fn read(&self) -> BoxFuture<'static, Result<Option<Seen>, Unanswered>> {
        self.answers(self.court.record.lock().expect("is free").clone())
    }

    fn write(&self, change: Change) -> BoxFuture<'static, Result<Written, Unanswered>> {
        if self.cut.load(SeqCst) {
            return self.answers(Written::Conflict);
        }
        self.answers(self.court.write(change))
    }
}

#[derive(strum::IntoStaticStr)]
enum ServiceMsg {
    Ping(Reply<()>),
}

/// Notes when it is there.
struct Service {
    name: &'static str,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn note(&self, what: &str) {
        let note = format!("{} {what}", self.name);
        self.notes.lock().expect("is free").push(note);
    }
}

impl Actor for Service {
    type Msg = ServiceMsg;
    const KIND: &'static str = "service";

    fn started(&mut self, _: &mut Context<ServiceMsg>) -> Result<(), Broken> {
        self.note("starts");
        Ok(())
    }

    fn handle(&mut self, message: ServiceMsg, _: &mut Context<ServiceMsg>) -> Result<(), Broken> {
        let ServiceMsg::Ping(reply) = message;
        reply.send(()).ok();
        Ok(())
    }

    fn stopping(&mut self, _: &mut Context<ServiceMsg>) {
        self.note("stops");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.note("is gone");
    }
}

struct Process {
    stage: Stage,
    deps: Arc<LeaderDeps>,
    way: Arc<Way>,
    notes: Arc<Mutex<Vec<String>>>,
    pasts: Arc<Mutex<Vec<Past>>>,
    service: Addr<ServiceMsg>,
}

impl Process {
    async fn start(name: &str, court: &Arc<Court>) -> Self {
        Self::start_in(Office::default(), name, court).await
    }

    async fn start_in(office: Office, name: &str, court: &Arc<Court>) -> Self {
        let way = Arc::new(Way {
            court: Arc::clone(court),
            cut: AtomicBool::new(false),
        });
        let (notes, pasts) = (
            Arc::<Mutex<Vec<String>>>::default(),
            Arc::<Mutex<Vec<Past>>>::default(),
        );
        let (service, other) = (Addr::default(), Addr::default());
        let services: Services = {
            let (notes, pasts, service) = (Arc::clone(&notes), Arc::clone(&pasts), service.clone());
            Arc::new(move |past| {
                pasts.lock().expect("is free").push(past);
                let spec = |name: &'static str, at: &Addr<ServiceMsg>| {
                    let notes = Arc::clone(&notes);
                    ChildSpec::new(name, at.clone(), move || Service {
                        name,
                        notes: Arc::clone(&notes),
                    })
                };
                vec![spec("one", &other), spec("two", &service)]
            })
        };
        let deps = Arc::new(LeaderDeps {
            office,
            services,
            candidacy: Some(Candidacy {
                election: Arc::clone(&way) as _,
                me: Candidate {
                    identity: name.to_owned(),
                    address: format!("{name}:1"),
                },
                pace: Pace::DEFAULT,
            }),
        });
        let of = Arc::clone(&deps);
        let stage = Stage::one("leader", &Addr::default(), move || {
            LeaderActor::new(Arc::clone(&of))
        })
        .await;
        Self {
            stage,
            deps,
            way,
            notes,
            pasts,
            service,
        }
    }

    fn leads(&self) -> bool {
        self.deps.office.standing().may_act()
    }

    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().expect("is free"))
    }

    fn pasts(&self) -> Vec<Past> {
        self.pasts.lock().expect("is free").clone()
    }

    async fn serves(&self) {
        until("serves", || self.leads() && self.service.is_up()).await;
        let ping = self.service.ask(SECOND, ServiceMsg::Ping);
        ping.await.expect("answers");
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_knows_where() {
    let court = Arc::default();
    let a = Process::start("a", &court).await;
    a.serves().await;
    let b = Process::start("b", &court).await;
    tokio::time::sleep(60 * SECOND).await;
    assert!(a.leads());
    let role = Role::Follower {
        leader: Some("a:1".into()),
    };
    assert_eq!(b.deps.office.standing().role(), role);
    assert_eq!(a.notes(), ["one starts", "two starts"]);
    assert!(b.notes().is_empty() && b.pasts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_stopped_is_followed_within_two_seconds_and_has_stopped_in_order_before() {
    let court = Arc::default();
    let mut a = Process::start("a", &court).await;
    a.serves().await;
    let b = Process::start("b", &court).await;
    tokio::time::sleep(5 * SECOND).await;
    a.notes();
    let begun = Instant::now();
    a.stage.running.stop();
    a.stage.running.ended().await.expect("stops");
    assert_eq!(
        a.notes(),
        ["two stops", "two is gone", "one stops", "one is gone"]
    );
    assert!(!a.leads());
    b.serves().await;
    assert!(begun.elapsed() < 2 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(b.pasts(), [Past::Over]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_kills_its_services_before_another_starts() {
    let court = Arc::default();
    let a = Process::start("a", &court).await;
    a.serves().await;
    let b = Process::start("b", &court).await;
    tokio::time::sleep(5 * SECOND).await;
    a.notes();
    a.way.cut.store(true, SeqCst);
    let begun = Instant::now();
    until("does not lead", || !a.leads()).await;
    assert!(begun.elapsed() <= 10 * SECOND);
    until("killed", || !a.service.is_up()).await;
    tokio::task::yield_now().await;
    let mut notes = a.notes();
    notes.sort();
    assert_eq!(notes, ["one is gone", "two is gone"]);
    assert!(!b.leads());
    b.serves().await;
    assert!(begun.elapsed() >= 12 * SECOND && begun.elapsed() <= 17 * SECOND);

    a.way.cut.store(false, SeqCst);
    let standing = a.deps.office.standing();
    until("follows", || standing.leader().as_deref() == Some("b:1")).await;
    // And back: what it held before is over, since b led in between.
    b.stage.kill("root");
    a.serves().await;
    assert_eq!(a.pasts(), [Past::Over, Past::Over]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_nobody_followed_takes_its_own_leadership_up_again() {
    let court = Arc::default();
    let a = Process::start("a", &court).await;
    a.serves().await;
    a.way.cut.store(true, SeqCst);
    until("killed", || !a.service.is_up()).await;
    a.way.cut.store(false, SeqCst);
    a.serves().await;
    assert_eq!(a.pasts(), [Past::Over, Past::Paused]);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_killed_goes_on_with_its_tenure() {
    let court: Arc<Court> = Arc::default();
    let a = Process::start("a", &court).await;
    a.serves().await;
    let fence = || {
        let record = court.record.lock().expect("is free");
        record.as_ref().map(|seen| seen.record.fence)
    };
    let begun = fence();
    assert!(begun.is_some());
    for _ in 0..20 {
        a.stage.kill("leader");
        until("back", || a.service.is_up()).await;
        assert!(a.leads());
    }
    tokio::time::sleep(60 * SECOND).await;
    a.serves().await;
    assert!(a.pasts()[1..].iter().all(|past| *past == Past::Unbroken));
    assert_eq!(fence(), begun);
}

/// As a leader leaves it that is killed after its tenure has begun and before the last services have ended.
#[tokio::test(start_paused = true)]
async fn what_a_killed_leader_had_yet_to_forget_is_forgotten_by_the_next() {
    for owed in [Past::Over, Past::Paused] {
        let office = Office::default();
        office.leads(7, Some(Instant::now() + 10 * SECOND));
        assert_eq!(office.owes(owed), owed);
        let a = Process::start_in(office, "a", &Arc::default()).await;
        a.serves().await;
        assert_eq!(a.pasts(), [owed]);
        // Once is enough.
        a.stage.kill("leader");
        until("back", || a.pasts().len() == 2).await;
        a.serves().await;
        assert_eq!(a.pasts(), [owed, Past::Unbroken]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_actor_that_is_stopped_from_outside_gives_back_and_may_take_again() {
    let court: Arc<Court> = Arc::default();
    let a = Process::start("a", &court).await;
    a.serves().await;
    assert!(a.stage.directory.end("leader", End::Stop));
    until("took it again", || a.pasts().len() == 2).await;
    a.serves().await;
    // Nobody else led in between.
    assert_eq!(a.pasts(), [Past::Over, Past::Paused]);
    assert_eq!(court.holder().as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_never_answers_makes_no_leader_and_holds_no_end_up() {
    let court = Arc::default();
    let mut a = Process::start("a", &court).await;
    a.way.cut.store(true, SeqCst);
    tokio::time::sleep(60 * SECOND).await;
    let begun = Instant::now();
    a.stage.running.stop();
    a.stage.running.ended().await.expect("stops");
    assert!(begun.elapsed() <= FAREWELL + SECOND);
}

#[test]
fn a_record_begins_with_a_number_that_a_lease_can_keep() {
    const YEAR: u64 = 365 * 24 * 3600;
    let first = first_fence();
    assert!(first > 6 * YEAR, "{first}");
    assert!(i32::try_from(first + 20 * YEAR).is_ok(), "{first}");
}

#[tokio::test(start_paused = true)]
async fn unopposed_it_leads_from_the_start_and_for_ever() {
    let pasts = Arc::<Mutex<Vec<Past>>>::default();
    let noted = Arc::clone(&pasts);
    let deps = Arc::new(LeaderDeps {
        office: Office::default(),
        services: Arc::new(move |past| {
            noted.lock().expect("is free").push(past);
            Vec::new()
        }),
        candidacy: None,
    });
    let standing = deps.office.standing();
    let stage = Stage::one("leader", &Addr::default(), move || {
        LeaderActor::new(Arc::clone(&deps))
    })
    .await;
    until("leads", || standing.may_act()).await;
    stage.kill("leader");
    tokio::time::sleep(3600 * SECOND).await;
    assert!(standing.may_act());
    let pasts = pasts.lock().expect("is free").clone();
    assert_eq!(pasts, [Past::Unbroken, Past::Unbroken]);
}
