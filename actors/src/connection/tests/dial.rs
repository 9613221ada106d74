//! When it is dialled, and what those hear who wait for that.

use super::*;
use crate::connection::{DIAL, QUEUE};

/// From one dial to the next, less what a dial takes.
fn pauses(link: &FakeLink) -> Vec<f64> {
    let dials = link.dials.lock().unwrap();
    let pairs = dials.windows(2);
    pairs
        .map(|pair| (pair[1] - pair[0]).as_secs_f64() - DIALLING.as_secs_f64())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn nobody_asks_and_nobody_dials() {
    let b = bench().await;
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(b.link.dialled(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_dial_is_for_all_who_wait_and_they_are_served_in_the_order_of_their_arrival() {
    let b = bench().await;
    let begun = Instant::now();
    all(b.asks(100), &Ok(Ok(0))).await;
    assert_eq!(b.link.dialled(), 1);
    assert!(begun.elapsed() < 2 * DIALLING, "one after the other");
    assert_eq!(b.link.served(), (0..100).collect::<Vec<_>>());
    all(b.asks(100), &Ok(Ok(0))).await;
    assert_eq!(b.link.dialled(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_waits_for_its_own_patience_and_hears_why_the_last_dial_failed() {
    let b = bench().await;
    b.link.dials(Dial::Fails("refused"));
    let begun = Instant::now();
    let early = b.ask(Ask::new(0).patience(DIALLING / 2));
    let late = b.ask(Ask::new(1).patience(20 * SECOND));
    let middle = b.ask(Ask::new(2).patience(5 * SECOND));
    assert_eq!(early.await.unwrap(), Ok(unreached(None)));
    assert_eq!(begun.elapsed(), DIALLING / 2);
    assert_eq!(middle.await.unwrap(), Ok(unreached(Some("refused"))));
    let at = begun.elapsed();
    assert!(at >= 5 * SECOND && at < 5 * SECOND + DIALLING, "{at:?}");
    b.link.dials(Dial::Fails("no route"));
    assert_eq!(late.await.unwrap(), Ok(unreached(Some("no route"))));
    let at = begun.elapsed();
    assert!(at >= 20 * SECOND && at < 20 * SECOND + DIALLING, "{at:?}");
    assert_eq!(b.link.served(), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn pauses_double_as_long_as_somebody_waits_and_end_with_the_last() {
    let b = bench().await;
    b.link.dials(Dial::Fails("refused"));
    let answer = b.ask(Ask::new(0).patience(120 * SECOND));
    assert_eq!(answer.await.unwrap(), Ok(unreached(Some("refused"))));
    let all = pauses(&b.link);
    for (pause, full) in all.iter().zip([0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]) {
        assert!((pause / full - 1.0).abs() < 0.11, "{pause} for {full}");
    }
    let dials = b.link.dialled();
    assert!((11..=13).contains(&dials), "{all:?}");
    tokio::time::sleep(1000 * SECOND).await;
    assert_eq!(b.link.dialled(), dials, "dials for nobody");

    let begun = Instant::now();
    b.link.dials(Dial::Succeeds);
    b.open().await;
    assert!(begun.elapsed() < 2 * DIALLING, "the pause was over");
}

#[tokio::test(start_paused = true)]
async fn who_comes_during_a_pause_waits_for_its_end_and_success_ends_the_doubling() {
    let b = bench().await;
    b.link.dials(Dial::Fails("refused"));
    let first = b.ask(Ask::new(0).patience(20 * SECOND));
    assert_eq!(first.await.unwrap(), Ok(unreached(Some("refused"))));
    let dials = b.link.dialled();
    assert_eq!(dials, 6, "after 0, 0.5, 1, 2, 4 and 8 s");
    b.link.dials(Dial::Succeeds);
    let begun = Instant::now();
    all(b.asks(10), &Ok(Ok(0))).await;
    assert!(begun.elapsed() > 5 * SECOND, "the pause was not kept");
    assert_eq!(b.link.dialled(), dials + 1);

    tokio::time::sleep(60 * SECOND).await;
    b.link.lose("reset");
    until("closed", || b.link.closed(0)).await;
    b.link.dials(Dial::Fails("refused"));
    let third = b.ask(Ask::new(0).patience(SECOND));
    assert_eq!(third.await.unwrap(), Ok(unreached(Some("refused"))));
    assert_eq!(b.link.dialled(), dials + 3, "half a second between two");
}

#[tokio::test(start_paused = true)]
async fn a_final_error_is_the_answer_for_all_who_wait_and_the_next_one_is_dialled_for_at_once() {
    let b = bench().await;
    b.link.dials(Dial::Fails("final: no key"));
    let failed = Ok(Err(Refusal::Failed(Fault("final: no key".into()))));
    for round in 1..4 {
        let begun = Instant::now();
        all(b.asks(10), &failed).await;
        assert!(begun.elapsed() < 2 * DIALLING, "waits in vain");
        assert_eq!(b.link.dialled(), round);
    }
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(b.link.dialled(), 3);
    b.link.dials(Dial::Succeeds);
    all(b.asks(10), &Ok(Ok(0))).await;
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_hangs_is_given_up_and_made_again() {
    let b = bench().await;
    b.link.dials(Dial::Hangs);
    let begun = Instant::now();
    let early = b.ask(Ask::new(0).patience(DIAL / 2));
    let late = b.ask(Ask::new(1).patience(DIAL * 3));
    assert_eq!(early.await.unwrap(), Ok(unreached(None)));
    until("given up", || b.link.dialled() == 2).await;
    let at = begun.elapsed();
    assert!(at > DIAL && at < DIAL + SECOND, "{at:?}");
    assert_eq!(late.await.unwrap(), Ok(unreached(Some("silent for 30 s"))));
    assert_eq!(b.link.dialling.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_outlives_who_asked_for_it_is_of_use_to_the_next() {
    let b = bench().await;
    let given_up = b.ask(Ask::new(0).patience(DIALLING / 2));
    assert_eq!(given_up.await.unwrap(), Ok(unreached(None)));
    tokio::time::sleep(SECOND).await;
    assert_eq!(b.open().await, 0);
    assert_eq!(b.link.dialled(), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_dialled_for_who_went_away() {
    let b = bench().await;
    b.link.dials(Dial::Fails("refused"));
    let answer = b.ask(Ask::new(0).patience(3600 * SECOND));
    until("failed", || b.link.dialled() == 4).await;
    answer.abort();
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(b.link.dialled(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_is_beyond_the_limit_is_refused_unless_somebody_went_away() {
    let b = bench().await;
    b.link.dials(Dial::Hangs);
    let (mut waiting, begun) = (b.asks(QUEUE), Instant::now());
    let full = Ok(Err(Refusal::Full(QUEUE)));
    assert_eq!(b.ask(Ask::new(0)).await.unwrap(), full);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    for gone in waiting.drain(..2) {
        gone.abort();
        assert!(gone.await.is_err());
    }
    waiting.push(b.ask(Ask::new(QUEUE)));
    waiting.push(b.ask(Ask::new(QUEUE + 1)));
    assert_eq!(b.ask(Ask::new(0)).await.unwrap(), full);
    all(waiting, &Ok(unreached(Some("silent for 30 s")))).await;

    // Those under way count too.
    b.link.dials(Dial::Succeeds);
    b.link.hold();
    let waiting = b.asks(QUEUE);
    until("under way", || b.link.serving.now() == QUEUE).await;
    assert_eq!(b.ask(Ask::new(0)).await.unwrap(), full);
    b.link.gate.add_permits(QUEUE + 1);
    all(waiting, &Ok(Ok(0))).await;
    assert_eq!(b.open().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_panics_is_a_failure_of_the_connection_that_hangs_nobody() {
    let b = bench().await;
    b.link.dials(Dial::Panics);
    all(b.asks(3), &Err(AskError::Dropped)).await;
    b.link.dials(Dial::Succeeds);
    until("back", || b.addr.is_up()).await;
    assert_eq!(b.open().await, 0);
}

#[tokio::test(start_paused = true)]
async fn patience_may_be_endless() {
    let b = bench().await;
    let answer = b.ask(Ask::new(0).patience(Duration::MAX));
    assert_eq!(answer.await.unwrap(), Ok(Ok(0)));
}
