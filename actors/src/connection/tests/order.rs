//! What is served beside what.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_shares_a_key_is_served_one_by_one_and_all_else_side_by_side() {
    let b = bench().await;
    b.link.hold();
    let mut answers = Vec::new();
    for n in 0..10 {
        answers.push(b.ask(Ask::new(n).key("a")));
        answers.push(b.ask(Ask::new(100 + n).key("b")));
        answers.push(b.ask(Ask::new(200 + n)));
    }
    until("under way", || b.link.serving.now() == 12).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(b.link.serving.now(), 12, "one of each key and all without");
    b.link.gate.add_permits(100);
    all(answers, &Ok(Ok(0))).await;
    for key in ["a", "b"] {
        assert_eq!(b.link.by_key.lock().unwrap()[key].most(), 1);
    }
    let served = b.link.served();
    for from in [0, 100, 200] {
        let of_key = served.iter().filter(|n| (from..from + 10).contains(*n));
        assert!(of_key.is_sorted(), "{served:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_key_has_its_patience_and_lets_the_next_pass() {
    let b = bench().await;
    b.link.hold();
    let first = b.ask(Ask::new(0).key("a"));
    let second = b.ask(Ask::new(1).key("a").patience(10 * SECOND));
    let third = b.ask(Ask::new(2).key("a").patience(20 * SECOND));
    let begun = Instant::now();
    assert_eq!(second.await.unwrap(), Ok(Err(Refusal::Busy)));
    assert_eq!(begun.elapsed().as_secs(), 10);
    b.link.gate.add_permits(100);
    assert_eq!(first.await.unwrap(), Ok(Ok(0)));
    assert_eq!(third.await.unwrap(), Ok(Ok(0)));
    assert_eq!(b.link.served(), [0, 2]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_is_not_served() {
    let b = bench().await;
    let mut answers: Vec<_> = (0..6).map(|n| b.ask(Ask::new(n).key("a"))).collect();
    for gone in [4, 3, 0] {
        let gone = answers.remove(gone);
        gone.abort();
        assert!(gone.await.is_err());
    }
    all(answers, &Ok(Ok(0))).await;
    assert_eq!(b.link.served(), [1, 2, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_panics_is_dropped_and_gives_its_key_back() {
    let b = bench().await;
    let bad = b.ask(Ask::new(0).key("a").panics());
    let good = b.ask(Ask::new(1).key("a"));
    assert_eq!(bad.await.unwrap(), Err(AskError::Dropped));
    assert_eq!(good.await.unwrap(), Ok(Ok(0)));
    assert_eq!(b.link.dialled(), 1);
    assert!(!b.link.closed(0));
}
