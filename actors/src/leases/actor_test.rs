//! The ledger's actor between its ports: a journal that is slow, or fails.

use super::{
    Counts, LeaseDeps, LeasesActor, LeasesMsg,
    journal::{Entry, Journal, JournalError, Record, Writer, memory::MemoryJournal},
    now::Clock,
    terms::{AcquireError, AcquireRequest, Candidate, Grant, ViewFilter},
};
use crate::{
    fakes::{SECOND, Stage, Store, TERMS, key, metrics, until},
    fleet::FleetMsg,
    proxy::tests::machine,
    system::{Addr, AskError, Reply, addr::probe::inbox},
};
use crds::Phase;
use futures::future::{BoxFuture, join_all};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc::UnboundedReceiver};

/// A journal whose calls wait for a permit each.
struct Slow {
    journal: MemoryJournal,
    appends: Semaphore,
    loads: Semaphore,
    fails: AtomicBool,
    /// How many entries each batch had.
    batches: Mutex<Vec<usize>>,
    begun: AtomicUsize,
}

impl Journal for Slow {
    fn append(
        &self,
        writer: Writer,
        entries: Vec<Entry>,
    ) -> BoxFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            self.begun.fetch_add(1, SeqCst);
            tokio::task::yield_now().await;
            self.appends.acquire().await.expect("open").forget();
            if self.fails.swap(false, SeqCst) {
                return Err(JournalError::Append {
                    journal: "fake".into(),
                    source: "disk full".into(),
                });
            }
            self.batches.lock().unwrap().push(entries.len());
            self.journal.append(writer, entries).await
        })
    }

    fn load(&self) -> BoxFuture<'_, Result<(Writer, Vec<Record>), JournalError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.loads.acquire().await.expect("open").forget();
            self.journal.load().await
        })
    }
}

const OPEN: usize = 1_000_000;

struct Bench {
    stage: Stage,
    addr: Addr<LeasesMsg>,
    journal: Arc<Slow>,
    fleet: UnboundedReceiver<FleetMsg>,
}

/// A ledger whose journal answers loads, and appends when told so.
async fn bench(loads: usize) -> Bench {
    let journal = Arc::new(Slow {
        journal: MemoryJournal::default(),
        appends: Semaphore::new(0),
        loads: Semaphore::new(loads),
        fails: AtomicBool::new(false),
        batches: Mutex::default(),
        begun: AtomicUsize::new(0),
    });
    let store = Store::default();
    store.0.apply(machine::external().object);
    store.0.catch_up(&key());
    let (fleet, inbox) = inbox().await;
    let deps = Arc::new(LeaseDeps {
        terms: TERMS,
        clock: Clock::start(),
        journal: Arc::clone(&journal) as _,
        store: Arc::new(store),
        pool: tokio::sync::watch::Sender::default(),
        fleet,
        metrics: metrics(),
    });
    let addr = Addr::default();
    let stage = Stage::one("leases", &addr, move || LeasesActor::new(Arc::clone(&deps))).await;
    Bench {
        stage,
        addr,
        journal,
        fleet: inbox,
    }
}

fn offer(max_leases: u32) -> LeasesMsg {
    LeasesMsg::Offer(Arc::new(Candidate {
        key: key(),
        uid: "uid-1".into(),
        ip: "10.0.0.1".into(),
        port: 3128,
        attributes: [].into(),
        phase: Phase::Ready,
        healthy: true,
        latency_millis: Some(7),
        max_leases,
    }))
}

type Acquired = Result<Result<Grant, AcquireError>, AskError>;

impl Bench {
    async fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(Reply<R>) -> LeasesMsg,
    ) -> Result<R, AskError> {
        self.addr.ask(60 * SECOND, question).await
    }

    fn offer(&self, max_leases: u32) {
        self.addr.tell(offer(max_leases)).expect("is up");
    }

    async fn acquire(&self) -> Acquired {
        let request = AcquireRequest {
            selector: [].into(),
            ttl: Duration::from_mins(5),
            target: None,
        };
        self.ask(|reply| LeasesMsg::Acquire(request, None, reply))
            .await
    }

    async fn loaded(&mut self) {
        assert!(matches!(self.fleet.recv().await, Some(FleetMsg::Announce)));
    }

    async fn counts(&self) -> Counts {
        self.ask(LeasesMsg::Count).await.expect("answers")
    }

    async fn begun(&self, appends: usize) {
        until("begun", || self.journal.begun.load(SeqCst) == appends).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_answered_after_it_is_journalled_and_questions_do_not_wait() {
    let mut b = bench(1).await;
    b.loaded().await;
    b.offer(5);
    let (granted, ()) = tokio::join!(b.acquire(), async {
        b.begun(1).await;
        let views = b
            .ask(|reply| LeasesMsg::Views(ViewFilter::default(), reply))
            .await;
        assert_eq!(views.expect("answers").len(), 1);
        assert_eq!(b.journal.journal.len(), 0);
        b.journal.appends.add_permits(1);
    });
    granted.expect("answers").expect("is granted");
    assert_eq!(b.journal.journal.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_the_journal_writes_is_one_batch() {
    let mut b = bench(1).await;
    b.loaded().await;
    b.offer(100);
    let (granted, ()) = tokio::join!(join_all((0..50).map(|_| b.acquire())), async {
        b.begun(1).await;
        tokio::time::sleep(SECOND).await;
        b.journal.appends.add_permits(1);
        b.begun(2).await;
        b.journal.appends.add_permits(1);
    });
    assert!(granted.iter().all(|g| matches!(g, Ok(Ok(_)))));
    assert_eq!(*b.journal.batches.lock().unwrap(), [1, 49]);
}

#[tokio::test(start_paused = true)]
async fn never_more_than_the_slots_whatever_the_journal_does() {
    let mut b = bench(OPEN).await;
    b.loaded().await;
    b.offer(3);
    b.journal.appends.add_permits(OPEN);
    let granted = join_all((0..50).map(|_| b.acquire())).await;
    assert_eq!(granted.iter().filter(|g| matches!(g, Ok(Ok(_)))).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_makes_a_new_ledger_from_what_it_has() {
    let mut b = bench(OPEN).await;
    b.loaded().await;
    b.offer(2);
    b.journal.appends.add_permits(1);
    let kept = b.acquire().await.expect("answers").expect("is granted");
    b.journal.fails.store(true, SeqCst);
    // The second takes the last slot and fails; what gathered behind it falls with it.
    let ((lost, waiting), ()) = tokio::join!(
        async { tokio::join!(b.acquire(), b.ask(|r| LeasesMsg::Release(kept.id, r))) },
        async {
            b.begun(2).await;
            b.journal.appends.add_permits(1);
        }
    );
    assert_eq!(lost, Err(AskError::Dropped));
    assert_eq!(waiting, Err(AskError::Dropped));
    b.loaded().await;
    b.offer(2);
    assert_eq!(b.counts().await.leases, 1);
    let known = b.ask(|reply| LeasesMsg::Lease(kept.id, reply)).await;
    assert!(
        known.expect("answers").is_ok(),
        "it was never answered that it is released"
    );
    b.journal.appends.add_permits(OPEN);
    assert!(matches!(b.acquire().await, Ok(Ok(_))), "its slot is taken");
    assert!(matches!(b.acquire().await, Ok(Err(_))));
}

#[tokio::test(start_paused = true)]
async fn a_kill_keeps_what_was_answered_and_the_pool() {
    let mut b = bench(OPEN).await;
    b.loaded().await;
    b.offer(2);
    b.journal.appends.add_permits(1);
    let kept = b.acquire().await.expect("answers").expect("is granted");
    // Released, but never answered.
    let (released, ()) = tokio::join!(b.ask(|r| LeasesMsg::Release(kept.id, r)), async {
        b.begun(2).await;
        b.stage.kill("leases");
    });
    assert_eq!(released, Err(AskError::Dropped));
    b.loaded().await;
    let known = b.ask(|reply| LeasesMsg::Lease(kept.id, reply)).await;
    assert_eq!(known.expect("answers").map(|grant| grant.id), Ok(kept.id));
    let views = b
        .ask(|reply| LeasesMsg::Views(ViewFilter::default(), reply))
        .await;
    let view = &views.expect("answers")[0];
    assert_eq!((&view.candidate.key, view.active_leases), (&key(), 1));
    // The object says another thing.
    assert_eq!(view.candidate.max_leases, 2, "as the fleet said last");
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_the_journal_is_read_is_answered_after() {
    let mut b = bench(0).await;
    b.offer(1);
    b.journal.appends.add_permits(OPEN);
    let (first, second, ()) = tokio::join!(b.acquire(), b.acquire(), async {
        tokio::time::sleep(SECOND).await;
        b.journal.loads.add_permits(1);
    });
    assert!(matches!(first, Ok(Ok(_))));
    assert!(matches!(second, Ok(Err(AcquireError::NoMatch(_)))));
    b.loaded().await;
}

#[tokio::test(start_paused = true)]
async fn who_gave_up_waiting_is_granted_nothing() {
    let mut b = bench(0).await;
    b.offer(1);
    b.journal.appends.add_permits(OPEN);
    let impatient = tokio::time::timeout(SECOND, b.acquire()).await;
    assert!(impatient.is_err(), "it was answered");
    b.journal.loads.add_permits(1);
    b.loaded().await;
    assert_eq!(b.counts().await.leases, 0);
    assert!(matches!(b.acquire().await, Ok(Ok(_))), "its slot is taken");
}

#[tokio::test(start_paused = true)]
async fn what_has_ended_leaves_the_journal_by_itself() {
    let mut b = bench(OPEN).await;
    b.loaded().await;
    b.offer(1);
    b.journal.appends.add_permits(OPEN);
    b.acquire().await.expect("answers").expect("is granted");
    tokio::time::sleep(Duration::from_mins(5) + SECOND).await;
    assert_eq!(b.counts().await.leases, 0);
    assert_eq!(b.journal.journal.len(), 1, "it can still be reported on");
    tokio::time::sleep(TERMS.report_window() + 2 * SECOND).await;
    assert_eq!(b.journal.journal.len(), 0);
}
