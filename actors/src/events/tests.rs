//! Budgets, and a sink that hangs.

use super::*;
use crate::{
    fakes::{FakeSink, SECOND, Stage, until},
    system::Addr,
};
use std::sync::atomic::Ordering::SeqCst;

#[tokio::test(start_paused = true)]
async fn a_budget_empties_and_fills_again_over_time() {
    let mut budget = Budget::full(Instant::now());
    budget.left = 0;
    tokio::time::advance(REFILL * 2 + Duration::from_secs(1)).await;
    budget.refill(Instant::now());
    assert_eq!(budget.left, 2);
    tokio::time::advance(REFILL * 1000).await;
    budget.refill(Instant::now());
    assert_eq!(budget.left, BURST);
}

fn note(n: usize) -> Note {
    Note::normal(EventReason::Created, n.to_string())
}

fn about(name: &str) -> Regarding {
    Regarding::Proxy {
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
        notes.iter().filter(|(r, _)| *r == about(name)).count()
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
