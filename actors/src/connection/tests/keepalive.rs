//! How a dead session is noticed, and what goes with it.

use super::*;
use crate::connection::open::KEEPALIVE;

/// The lives of a session whose pings end like this, from the beginning of its watch.
async fn lived(pings: impl IntoIterator<Item = Option<Ping>>) -> Option<Duration> {
    let b = bench().await;
    b.open().await;
    // A reply is 5 ms younger than the session.
    let begun = Instant::now() - Duration::from_millis(5);
    for ping in pings {
        if let Some(ping) = ping {
            b.link.pings.lock().unwrap().push_back(ping);
            continue;
        }
        until("used up", || b.link.pings.lock().unwrap().is_empty()).await;
        let used_up = b.link.pinged();
        until("fine again", || b.link.pinged() > used_up).await;
    }
    for _ in 0..60_000 {
        if b.link.closed(0) {
            return Some(begun.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_session_that_answers_lives_and_is_pinged_every_15_seconds() {
    let b = bench().await;
    b.open().await;
    tokio::time::sleep(600 * SECOND).await;
    let pinged = b.link.pinged.lock().unwrap().clone();
    assert_eq!(pinged.len(), 40);
    assert!(pinged.windows(2).all(|two| two[1] - two[0] == KEEPALIVE));
    assert!(!b.link.closed(0));
}

#[tokio::test(start_paused = true)]
async fn one_missing_sign_of_life_is_no_loss_and_two_in_a_row_are() {
    assert_eq!(lived([Some(Ping::Fails)]).await, None);
    assert_eq!(lived([Some(Ping::Hangs)]).await, None);
    let scattered = [Some(Ping::Fails), None, Some(Ping::Hangs), None];
    assert_eq!(lived(scattered).await, None);
    let near = |lived: Option<Duration>, expected| {
        let lived = lived.expect("lost");
        assert!(
            lived >= expected && lived < expected + SECOND / 10,
            "{lived:?}"
        );
    };
    let twice = [Some(Ping::Fails), Some(Ping::Fails)];
    near(lived(twice).await, 2 * KEEPALIVE);
    let silent = [Some(Ping::Hangs), Some(Ping::Hangs)];
    near(lived(silent).await, 3 * KEEPALIVE);
    let mixed = [Some(Ping::Hangs), Some(Ping::Fails)];
    near(lived(mixed).await, 2 * KEEPALIVE);
}

#[tokio::test(start_paused = true)]
async fn a_known_loss_drops_at_once_what_is_under_way_and_the_next_request_is_served_anew() {
    let b = bench().await;
    b.link.hold();
    let under_way = b.asks(10);
    until("under way", || b.link.serving.now() == 10).await;
    let begun = Instant::now();
    b.link.lose("reset by peer");
    all(under_way, &Err(AskError::Dropped)).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(b.link.closed(0));
    assert_eq!(b.link.serving.now(), 0);

    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(b.link.dialled(), 1, "dials for nobody");
    b.link.gate.add_permits(100);
    assert_eq!(b.open().await, 1);
    assert_eq!(b.link.served().len(), 11, "served twice");
}

#[tokio::test(start_paused = true)]
async fn what_waits_when_the_session_is_lost_is_served_on_the_next() {
    let b = bench().await;
    b.link.hold();
    let first = b.ask(Ask::new(0).key("k"));
    let behind = b.ask(Ask::new(1).key("k"));
    until("under way", || b.link.serving.now() == 1).await;
    b.link.gate.add_permits(100);
    b.link.lose("reset by peer");
    assert_eq!(first.await.unwrap(), Err(AskError::Dropped));
    assert_eq!(behind.await.unwrap(), Ok(Ok(1)));
    assert_eq!(b.link.served(), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_dies_young_over_and_over_is_not_dialled_in_a_rush() {
    let b = bench().await;
    let begun = Instant::now();
    for session in 0..5 {
        assert_eq!(b.open().await, session);
        b.link.lose("reset by peer");
        until("closed", || b.link.closed(session)).await;
    }
    assert!(begun.elapsed() > 2 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_waits_after_a_loss_hears_its_reason_until_a_dial_has_one() {
    let b = bench().await;
    b.open().await;
    b.link.dials(Dial::Fails("refused"));
    tokio::time::sleep(60 * SECOND).await;
    b.link.lose("reset by peer");
    until("closed", || b.link.closed(0)).await;
    let impatient = b.ask(Ask::new(1).patience(DIALLING / 2));
    let patient = b.ask(Ask::new(2).patience(DIALLING * 2));
    assert_eq!(
        impatient.await.unwrap(),
        Ok(unreached(Some("reset by peer")))
    );
    assert_eq!(patient.await.unwrap(), Ok(unreached(Some("refused"))));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_panics_is_a_failure_of_the_connection() {
    let b = bench().await;
    b.open().await;
    b.link.pings.lock().unwrap().push_back(Ping::Panics);
    until("closed", || b.link.closed(0)).await;
    until("back", || b.addr.is_up()).await;
    assert_eq!(b.open().await, 1);
}
