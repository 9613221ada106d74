//! What is brought across, however many wait for it.

use super::*;
use crate::connection::open::TRANSFERS;

fn children(b: &Bench) -> Vec<String> {
    let list = b.stage.directory.list().into_iter();
    let below = list.filter(|seen| seen.kind == "transfer");
    below.map(|seen| seen.path.to_string()).collect()
}

fn place(cargo: &str) -> String {
    format!("{PATH}/transfer/{cargo}")
}

fn failed(why: &str) -> Result<(), Fault> {
    Err(Fault(why.into()))
}

async fn same(answers: Vec<JoinHandle<Brought>>, expected: &Brought) {
    for answer in answers {
        assert_eq!(&answer.await.expect("ends"), expected);
    }
}

/// A connection whose transfers do not end.
async fn holding() -> Bench {
    let b = bench().await;
    b.open().await;
    b.link.hold_cargo();
    b
}

#[tokio::test(start_paused = true)]
async fn twenty_who_want_the_same_wait_for_one_transfer() {
    let b = holding().await;
    let mut answers: Vec<_> = (0..10).map(|_| b.bring("debian-12")).collect();
    until("begun", || b.link.carrying.now() == 1).await;
    answers.extend((0..10).map(|_| b.bring("debian-12")));
    tokio::time::sleep(SECOND).await;
    assert_eq!(children(&b), [place("debian-12")]);
    assert!(answers.iter().all(|answer| !answer.is_finished()));
    b.link.arrivals.add_permits(1);
    same(answers, &Ok(Ok(()))).await;
    assert_eq!(b.link.carried(), ["debian-12"]);
    assert!(children(&b).is_empty(), "it was not let go");

    // Whether it is there already is for the link to find out.
    b.link.arrivals.add_permits(1);
    same(vec![b.bring("debian-12")], &Ok(Ok(()))).await;
    assert_eq!(b.link.carried().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn requests_that_need_the_same_cargo_wait_for_one_transfer_and_do_not_hold_up_others() {
    let b = holding().await;
    let asks: Vec<_> = (0..20).map(|n| b.ask(Ask::new(n).brings("x"))).collect();
    until("begun", || b.link.carrying.now() == 1).await;
    let begun = Instant::now();
    assert_eq!(b.ask(Ask::new(20)).await.unwrap(), Ok(Ok(0)));
    assert!(begun.elapsed() < SECOND / 100);
    b.link.arrivals.add_permits(1);
    all(asks, &Ok(Ok(0))).await;
    assert_eq!(b.link.carried(), ["x"]);

    let asks: Vec<_> = (0..20).map(|n| b.ask(Ask::new(n).brings("x"))).collect();
    until("begun", || b.link.carrying.now() == 1).await;
    b.link.lose("reset by peer");
    all(asks, &Err(AskError::Dropped)).await;
}

#[tokio::test(start_paused = true)]
async fn a_transfer_goes_on_without_those_who_gave_up() {
    let b = holding().await;
    let impatient = b.bring_within("x", 10 * SECOND);
    assert_eq!(impatient.await.unwrap(), Err(AskError::Late(10 * SECOND)));
    assert_eq!(b.link.carrying.now(), 1);
    let later = b.bring("x");
    b.link.arrivals.add_permits(1);
    assert_eq!(later.await.unwrap(), Ok(Ok(())));
    assert_eq!(b.link.carried(), ["x"]);

    let impatient = b.bring_within("y", 10 * SECOND);
    assert!(impatient.await.unwrap().is_err());
    b.link.arrivals.add_permits(1);
    until("let go", || children(&b).is_empty()).await;
    assert_eq!(b.link.carried(), ["x", "y"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_to_all_who_wait_and_the_next_who_asks_tries_anew() {
    let b = holding().await;
    *b.link.carry.lock().unwrap() = Some("wrong digest");
    let answers: Vec<_> = (0..5).map(|_| b.bring("x")).collect();
    until("begun", || b.link.carrying.now() == 1).await;
    b.link.arrivals.add_permits(100);
    same(answers, &Ok(failed("wrong digest"))).await;
    assert!(children(&b).is_empty());
    *b.link.carry.lock().unwrap() = None;
    assert_eq!(b.bring("x").await.unwrap(), Ok(Ok(())));
    assert_eq!(b.link.carried(), ["x", "x"]);
}

#[tokio::test(start_paused = true)]
async fn four_are_under_way_at_once_and_the_others_wait_their_turn() {
    let b = holding().await;
    let answers: Vec<_> = (0..10).map(|n| b.bring(&format!("{n}"))).collect();
    until("begun", || b.link.carrying.now() == TRANSFERS).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(b.link.carrying.now(), TRANSFERS);
    assert_eq!(children(&b).len(), 10);
    b.link.arrivals.add_permits(100);
    same(answers, &Ok(Ok(()))).await;
    assert_eq!(b.link.carrying.most(), TRANSFERS);
    assert_eq!(b.link.carried().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn cargoes_that_look_the_same_in_a_path_are_still_two() {
    let b = holding().await;
    let answers = vec![b.bring("a/b"), b.bring("a:b"), b.bring("a b")];
    until("begun", || b.link.carrying.now() == 3).await;
    assert_eq!(children(&b), ["a_b", "a_b~2", "a_b~3"].map(place));
    b.link.arrivals.add_permits(100);
    same(answers, &Ok(Ok(()))).await;
    assert!(children(&b).is_empty());
}

#[tokio::test(start_paused = true)]
async fn transfers_of_a_lost_session_fail_for_all_who_wait() {
    let b = holding().await;
    let under_way: Vec<_> = (0..12).map(|n| b.bring(&format!("{}", n / 2))).collect();
    until("begun", || b.link.carrying.now() == TRANSFERS).await;
    b.link.lose("reset by peer");
    same(under_way, &Ok(failed("reset by peer"))).await;
    until("ended", || b.link.carrying.now() == 0).await;
    assert!(children(&b).is_empty());
    // The question of somebody who was served on it and does not know yet.
    same(vec![b.bring("x")], &Ok(failed("reset by peer"))).await;
    assert_eq!(b.link.dialled(), 1);
    b.link.arrivals.add_permits(100);
    assert_eq!(b.open().await, 1);
    same(vec![b.bring("0")], &Ok(Ok(()))).await;
}

#[tokio::test(start_paused = true)]
async fn without_any_session_so_far_a_transfer_is_dropped() {
    let b = bench().await;
    assert_eq!(b.bring("x").await.unwrap(), Err(AskError::Dropped));
    assert_eq!(b.link.dialled(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_killed_transfer_drops_those_who_wait_and_is_not_made_again_for_nobody() {
    let b = holding().await;
    for round in 1..4 {
        let answers: Vec<_> = (0..5).map(|_| b.bring("x")).collect();
        let other = b.bring("y");
        until("begun", || b.link.carrying.now() == 2).await;
        b.stage.kill(&place("x"));
        same(answers, &Err(AskError::Dropped)).await;
        until("let go", || children(&b) == [place("y")]).await;
        assert_eq!(b.link.carrying.now(), 1);
        b.link.arrivals.add_permits(1);
        assert_eq!(other.await.unwrap(), Ok(Ok(())), "the other is unharmed");
        assert_eq!(b.link.carried().len(), 2 * round);
    }
    b.link.arrivals.add_permits(1);
    assert_eq!(b.bring("x").await.unwrap(), Ok(Ok(())));
    assert!(!b.link.closed(0));
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_panics_drops_those_who_wait_and_harms_nobody_else() {
    let b = holding().await;
    *b.link.carry.lock().unwrap() = Some("panics");
    let answers: Vec<_> = (0..5).map(|_| b.bring("x")).collect();
    until("begun", || b.link.carrying.now() == 1).await;
    b.link.arrivals.add_permits(100);
    same(answers, &Err(AskError::Dropped)).await;
    until("let go", || children(&b).is_empty()).await;
    assert_eq!(b.link.carried().len(), 1);
    *b.link.carry.lock().unwrap() = None;
    assert_eq!(b.bring("x").await.unwrap(), Ok(Ok(())));
    assert_eq!(b.open().await, 0);
}
