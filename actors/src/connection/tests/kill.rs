//! The connection killed at any moment.

use super::*;
use std::collections::HashSet;

#[tokio::test(start_paused = true)]
async fn a_kill_drops_all_and_closes_the_session_and_the_successor_starts_clean() {
    let b = bench().await;
    b.link.hold();
    let mut answers = b.asks(10);
    answers.extend((10..20).map(|n| b.ask(Ask::new(n).key("a"))));
    until("under way", || b.link.serving.now() == 11).await;
    b.link.hold_cargo();
    let brought = b.bring("x");
    until("carrying", || b.link.carrying.now() == 1).await;
    b.stage.kill(PATH);
    all(answers, &Err(AskError::Dropped)).await;
    assert_eq!(brought.await.unwrap(), Err(AskError::Dropped));
    until("dropped", || {
        (b.link.serving.now(), b.link.carrying.now()) == (0, 0)
    })
    .await;
    assert!(b.link.closed(0));
    until("back", || b.addr.is_up()).await;
    assert_eq!(b.link.dialled(), 1, "dials for nobody");
    let transfers = b.stage.directory.list();
    assert!(transfers.iter().all(|seen| seen.kind != "transfer"));

    b.link.gate.add_permits(100);
    b.link.arrivals.add_permits(100);
    assert_eq!(b.ask(Ask::new(20).key("a")).await.unwrap(), Ok(Ok(1)));
    assert_eq!(b.bring("x").await.unwrap(), Ok(Ok(())));
    assert_eq!(b.link.open(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kill_during_a_dial_and_during_a_pause_leaves_no_second_dial_behind() {
    let b = bench().await;
    for mode in [Dial::Hangs, Dial::Fails("refused")] {
        b.link.dials(mode);
        let before = b.link.dialled();
        let answer = b.ask(Ask::new(0));
        until("dialled", || b.link.dialled() > before).await;
        tokio::time::sleep(DIALLING + SECOND / 10).await;
        b.stage.kill(PATH);
        assert_eq!(answer.await.unwrap(), Err(AskError::Dropped));
        until("back", || b.addr.is_up()).await;
        tokio::time::sleep(100 * SECOND).await;
        assert_eq!(b.link.dialled(), before + 1, "dials for nobody");
        assert_eq!(b.link.dialling.now(), 0);
    }
    b.link.dials(Dial::Succeeds);
    assert_eq!(b.open().await, 0);
    assert_eq!(b.link.dialling.most(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_of_everything_closes_the_session() {
    let b = bench().await;
    b.link.hold();
    let under_way = b.asks(3);
    until("under way", || b.link.serving.now() == 3).await;
    b.link.hold_cargo();
    let brought = b.bring("x");
    until("carrying", || b.link.carrying.now() == 1).await;
    let begun = Instant::now();
    b.stage.running.stop();
    all(under_way, &Err(AskError::Dropped)).await;
    assert_eq!(brought.await.unwrap(), Err(AskError::Dropped));
    until("closed", || b.link.closed(0)).await;
    assert!(begun.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_connection_and_its_transfers_killed_under_load_serve_nobody_twice_and_forget_nobody() {
    let b = bench().await;
    let mut answers = Vec::new();
    let mut cargoes = Vec::new();
    for round in 0..200 {
        for n in 0..20 {
            let ask = Ask::new(round * 20 + n);
            let keyed = n % 3 == 0;
            answers.push(b.ask(if keyed { ask.key("a") } else { ask }));
        }
        cargoes.push(b.bring(&format!("{}", round % 7)));
        tokio::time::sleep(Duration::from_millis(7 + round as u64 * 31 % 90)).await;
        let victim = match round % 3 {
            0 => PATH.to_owned(),
            1 => format!("{PATH}/transfer/{}", round % 7),
            _ => continue,
        };
        // A transfer may have ended by itself.
        let _there = b
            .stage
            .directory
            .end(&victim, crate::system::directory::End::Kill);
    }
    let mut served = 0;
    for answer in answers {
        match answer.await.expect("ends") {
            Ok(Ok(_)) => served += 1,
            Err(AskError::Dropped | AskError::Down) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(served > 100, "{served}");
    for cargo in cargoes {
        match cargo.await.expect("ends") {
            Ok(Ok(())) | Err(AskError::Dropped | AskError::Down) => {}
            other => panic!("{other:?}"),
        }
    }
    let names = b.link.served();
    let distinct: HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "served twice");
    assert_eq!(b.link.dialling.most(), 1);
    assert_eq!(b.link.by_key.lock().unwrap()["a"].most(), 1);
    assert!(b.link.open() <= 1);
    b.open().await;
    until("let go", || {
        b.stage
            .directory
            .list()
            .iter()
            .all(|seen| seen.kind != "transfer")
    })
    .await;
}
