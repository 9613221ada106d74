//! The credentials change while a session is open.

use super::*;
use crate::connection::open::LOOK;
use std::sync::atomic::Ordering::SeqCst;

fn rotate(b: &Bench) {
    b.link.credentials.fetch_add(1, SeqCst);
}

async fn noticed() {
    tokio::time::sleep(LOOK + SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_is_closed_and_the_next_request_dials() {
    let b = bench().await;
    assert_eq!(b.open().await, 0);
    noticed().await;
    assert!(!b.link.closed(0), "nothing changed");
    rotate(&b);
    noticed().await;
    assert!(b.link.closed(0));
    assert_eq!(b.link.dialled(), 1, "nobody waits");
    assert_eq!(b.open().await, 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_ends_on_the_old_session_and_what_comes_goes_over_the_new() {
    let b = bench().await;
    b.open().await;
    b.link.hold();
    let old = b.ask(Ask::new(1).key("k"));
    until("served", || b.link.serving.now() == 1).await;
    rotate(&b);
    noticed().await;
    let (next, other) = (b.ask(Ask::new(2).key("k")), b.ask(Ask::new(3)));
    until("served on the new one", || b.link.served() == [0, 1, 3]).await;
    assert_eq!(b.link.open(), 2);
    b.link.gate.add_permits(1);
    assert_eq!(old.await.unwrap(), Ok(Ok(0)));
    until("served in its turn", || b.link.served() == [0, 1, 3, 2]).await;
    until("closed", || b.link.closed(0)).await;
    b.link.gate.add_permits(2);
    assert_eq!(next.await.unwrap(), Ok(Ok(1)));
    assert_eq!(other.await.unwrap(), Ok(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_cargo_on_its_way_arrives() {
    let b = bench().await;
    b.open().await;
    b.link.hold_cargo();
    let brought = b.bring("x");
    until("begun", || b.link.carrying.now() == 1).await;
    rotate(&b);
    noticed().await;
    assert_eq!(b.open().await, 1);
    assert!(!b.link.closed(0));
    // Whoever wants it too waits for the same.
    let too = b.bring("x");
    tokio::time::sleep(SECOND).await;
    b.link.arrivals.add_permits(1);
    assert_eq!(brought.await.unwrap(), Ok(Ok(())));
    assert_eq!(too.await.unwrap(), Ok(Ok(())));
    assert_eq!(b.link.carried(), ["x"]);
    until("closed", || b.link.closed(0)).await;
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_either_session_ends_what_is_on_it_and_nothing_else() {
    for new in [false, true] {
        let b = bench().await;
        b.open().await;
        b.link.hold();
        let on_old = b.ask(Ask::new(1));
        until("served", || b.link.serving.now() == 1).await;
        rotate(&b);
        noticed().await;
        let on_new = b.ask(Ask::new(2));
        until("served", || b.link.serving.now() == 2).await;
        b.link.lose_session(usize::from(new), "cut");
        until("closed", || b.link.closed(usize::from(new))).await;
        assert!(!b.link.closed(usize::from(!new)));
        b.link.gate.add_permits(10);
        let (lost, kept) = if new {
            (on_new, on_old)
        } else {
            (on_old, on_new)
        };
        assert_eq!(lost.await.unwrap(), Err(AskError::Dropped));
        assert_eq!(kept.await.unwrap(), Ok(Ok(usize::from(!new))));
        assert!(matches!(b.ask(Ask::new(3)).await.unwrap(), Ok(Ok(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn what_takes_for_ever_is_cut_in_the_end() {
    let b = bench().await;
    b.open().await;
    b.link.hold();
    let old = b.ask(Ask::new(1).key("k"));
    until("served", || b.link.serving.now() == 1).await;
    rotate(&b);
    let begun = Instant::now();
    assert_eq!(old.await.unwrap(), Err(AskError::Dropped));
    let took = begun.elapsed();
    assert!(took >= 3600 * SECOND && took < 3700 * SECOND, "{took:?}");
    assert!(b.link.closed(0));
    b.link.gate.add_permits(1);
    assert_eq!(b.ask(Ask::new(2).key("k")).await.unwrap(), Ok(Ok(1)));
}
