//! The prober on a fake network, under paused time.

use crate::{
    fakes::{FakeProbe, SECOND, Stage, key, metrics, until},
    prober::{
        ProberActor, ProberMsg, Prospect, Watch,
        probe::{FailureKind, Fetch, ProbeFailure},
        verdict::Thresholds,
    },
    proxy::{ProxyMsg, memory::Verdict},
    system::{Addr, Epoch, addr::probe::inbox},
};
use std::{
    cell::Cell,
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};
use tokio::{
    sync::{Semaphore, mpsc::UnboundedReceiver},
    time::Instant,
};

struct Bench {
    stage: Stage,
    addr: Addr<ProberMsg>,
    probe: Arc<FakeProbe>,
    slots: Arc<Semaphore>,
    proxy: UnboundedReceiver<ProxyMsg>,
}

fn watch(host: &str, verdict: Option<Verdict>) -> Watch {
    Watch {
        fetch: Fetch {
            host: host.into(),
            port: 3128,
            url: "https://judge/".into(),
            expected_status: 204,
            timeout: 5 * SECOND,
        },
        period: 10 * SECOND,
        thresholds: Thresholds {
            failure: 3,
            success: 1,
        },
        verdict,
        epoch: Epoch::next(),
    }
}

fn healthy() -> Verdict {
    Verdict {
        healthy: true,
        latency_millis: Some(7),
        error: None,
    }
}

fn refused() -> Result<Duration, ProbeFailure> {
    Err(ProbeFailure {
        kind: FailureKind::Connect,
        message: "refused".into(),
    })
}

async fn bench(first: Watch) -> Bench {
    let (proxy, proxy_inbox) = inbox().await;
    let (probe, slots) = (Arc::new(FakeProbe::default()), Arc::new(Semaphore::new(1)));
    let with = Arc::new(Prospect {
        probe: Arc::clone(&probe) as _,
        slots: Arc::clone(&slots),
        metrics: metrics(),
        traced: false,
    });
    let (addr, first) = (Addr::default(), Cell::new(Some(Box::new(first))));
    let stage = Stage::one("prober", &addr, move || {
        ProberActor::new(key(), proxy.clone(), Arc::clone(&with), first.take())
    })
    .await;
    Bench {
        stage,
        addr,
        probe,
        slots,
        proxy: proxy_inbox,
    }
}

impl Bench {
    async fn probes(&self, count: usize) {
        until("probed", || self.probe.count() >= count).await;
    }

    async fn judged(&mut self) -> (Epoch, Verdict) {
        loop {
            match self.proxy.recv().await.expect("lives") {
                ProxyMsg::Judged(epoch, verdict) => return (epoch, verdict),
                ProxyMsg::Announce => {}
                _ => panic!("no word of a prober"),
            }
        }
    }

    fn tell(&self, watch: Watch) {
        self.addr
            .tell(ProberMsg::Watch(Box::new(watch)))
            .expect("is up");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_probe_is_at_once_and_the_others_follow_with_jitter() {
    let start = Instant::now();
    let first = watch("a", None);
    let epoch = first.epoch;
    let mut b = bench(first).await;
    assert_eq!(b.judged().await, (epoch, healthy()));
    assert!(start.elapsed() < SECOND);
    b.probes(21).await;
    let pauses: Vec<_> = (1..21).map(|n| b.probe.at(n) - b.probe.at(n - 1)).collect();
    for pause in &pauses {
        // A probe takes 10 ms.
        assert!((9000..=11_020).contains(&pause.as_millis()), "{pause:?}");
    }
    assert!(pauses.iter().any(|p| *p != pauses[0]), "no jitter");
    assert!(b.proxy.is_empty(), "steady probes are no news");
}

#[tokio::test(start_paused = true)]
async fn a_slow_probe_is_not_caught_up_with() {
    let b = bench(watch("a", None)).await;
    b.probe.gate.forget_permits(Semaphore::MAX_PERMITS);
    b.probes(2).await;
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(b.probe.count(), 2, "a second one at a time");
    b.probe.gate.add_permits(1000);
    b.probes(3).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(b.probe.count(), 3, "caught up");
}

#[tokio::test(start_paused = true)]
async fn a_changed_check_takes_effect_at_once_and_keeps_the_verdict() {
    let first = watch("a", None);
    let mut b = bench(first.clone()).await;
    b.judged().await;
    let mut changed = first.clone();
    changed.fetch.url = "https://other/".into();
    changed.verdict = Some(healthy());
    b.tell(changed);
    b.probes(2).await;
    assert!(b.probe.at(1) - b.probe.at(0) < SECOND);
    assert_eq!(&*b.probe.log.lock().unwrap()[1].1.url, "https://other/");
    b.tell(first);
    b.probes(3).await;
    tokio::time::sleep(SECOND).await;
    assert!(b.probe.at(2) - b.probe.at(1) < SECOND);
    // Of the last watch, which brought no verdict along.
    assert_eq!(b.judged().await.1, healthy());
    assert!(b.proxy.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_new_address_has_no_verdict_and_hears_nothing_of_the_old_one() {
    let mut b = bench(watch("a", None)).await;
    b.judged().await;
    b.probe.gate.forget_permits(Semaphore::MAX_PERMITS);
    b.probes(2).await;
    b.probe.answers(refused());
    let new = watch("b", None);
    let epoch = new.epoch;
    b.tell(new);
    b.probes(3).await;
    b.probe.gate.add_permits(1000);
    let (told, verdict) = b.judged().await;
    assert_eq!(
        (told, verdict.healthy),
        (epoch, false),
        "three failures were waited for"
    );
    tokio::time::sleep(SECOND).await;
    assert!(b.proxy.is_empty(), "the late result counted");
}

#[tokio::test(start_paused = true)]
async fn a_killed_prober_asks_its_proxy_and_starts_from_the_verdict() {
    let mut b = bench(watch("a", None)).await;
    b.judged().await;
    b.probe.answers(refused());
    b.stage.kill("prober");
    assert!(matches!(b.proxy.recv().await, Some(ProxyMsg::Announce)));
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(b.probe.count(), 1, "probes what nobody told it");
    b.tell(watch("a", Some(healthy())));
    b.probes(2).await;
    // One failure is not three; what is known is said once, so that its proxy knows that it works.
    assert!(b.judged().await.1.healthy);
    let after = b.probe.count();
    assert!(!b.judged().await.1.healthy);
    assert_eq!(b.probe.count(), after + 2);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_was_started_again_hears_the_verdict_that_it_does_not_know() {
    let mut b = bench(watch("a", None)).await;
    b.judged().await;
    let again = watch("a", None);
    let epoch = again.epoch;
    let probes = b.probe.count();
    b.tell(again);
    assert_eq!(b.judged().await, (epoch, healthy()));
    assert_eq!(b.probe.count(), probes, "the schedule changed");
    b.tell(watch("a", Some(healthy())));
    tokio::time::sleep(SECOND).await;
    assert!(b.proxy.is_empty());
}

#[tokio::test(start_paused = true)]
async fn probes_in_flight_are_bounded_and_the_wait_counts_for_nothing() {
    let b = bench(watch("a", None)).await;
    b.probes(1).await;
    let taken = b.slots.acquire().await.expect("open");
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(b.probe.count(), 1);
    drop(taken);
    b.probes(2).await;
    // A killed prober gives its slot back.
    b.probe.gate.forget_permits(Semaphore::MAX_PERMITS);
    b.probes(3).await;
    assert_eq!(b.slots.available_permits(), 0);
    b.stage.kill("prober");
    until("given back", || b.slots.available_permits() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_panics_is_a_failure_of_the_prober() {
    let mut b = bench(watch("a", None)).await;
    b.judged().await;
    b.probe.panics.store(true, SeqCst);
    let word = b.proxy.recv().await.expect("lives");
    assert!(
        matches!(word, ProxyMsg::Announce),
        "a verdict about a defect of ours"
    );
}
