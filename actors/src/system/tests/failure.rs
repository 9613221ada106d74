//! What happens when an actor fails by itself.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_child_that_panics_is_back_at_once_and_its_parent_knows_why() {
    let mut lab = tree([plan("a"), plan("b")]).await;
    lab.tell("a", Do::Panic);
    let then = Instant::now();
    let failed = Told::ChildFailed("a".into(), 1, "as told".into());
    lab.until(|who, told| who == "root" && *told == failed)
        .await;
    assert_eq!(lab.starts("a").await, then, "the first restart had a pause");
    lab.answers("a").await;
    lab.answers("b").await;
    assert_eq!(lab.seen("a").last_error.as_deref(), Some("as told"));
    assert_eq!(lab.restarts("panic"), 1);
    assert_eq!(lab.alive(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_returns_an_error_is_back_at_once_too() {
    let mut lab = tree([plan("a")]).await;
    lab.tell("a", Do::Break);
    lab.starts("a").await;
    lab.answers("a").await;
    assert_eq!(lab.restarts("error"), 1);
    assert_eq!(lab.restarts("panic"), 0);
    assert_eq!(lab.alive(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_child_held_is_dropped_before_its_successor_starts() {
    type Act = fn(&Lab);
    let ends: [(&str, Act); 4] = [
        ("panic", |lab| lab.tell("a", Do::Panic)),
        ("error", |lab| lab.tell("a", Do::Break)),
        ("kill", |lab| lab.kill("a")),
        ("stop", |lab| assert!(lab.directory.end("a", End::Stop))),
    ];
    for (how, end) in ends {
        let mut lab = tree([plan("a")]).await;
        lab.tell("a", Do::Work);
        lab.until(|_, told| matches!(told, Told::WorkStarted(_)))
            .await;
        end(&lab);
        let mut words = Vec::new();
        while words.last() != Some(&Told::Started) {
            words.push(lab.word().await.1);
        }
        let dropped = words.iter().position(|told| *told == Told::Dropped);
        assert!(dropped.is_some(), "{how}: {words:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_double_from_100_ms_to_30_s_and_a_minute_of_life_forgives() {
    let mut lab = tree([plan("parent").with([plan("a")])]).await;
    lab.fails("a", true);
    lab.tell("a", Do::Break);
    let mut last = Instant::now();
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let now = lab.starts("a").await;
        pauses.push((now - last).as_millis());
        last = now;
    }
    let near = |is: u128, want: u128| is >= want && is <= want + 2;
    let expected = [
        0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000,
    ];
    let as_expected = pauses
        .iter()
        .zip(expected)
        .all(|(is, want)| near(*is, want));
    assert!(as_expected, "{pauses:?}");

    lab.fails("a", false);
    lab.starts("a").await;
    tokio::time::sleep(60 * SECOND).await;
    lab.tell("a", Do::Break);
    let then = Instant::now();
    assert_eq!(lab.starts("a").await, then, "was not forgiven");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_for_ever_harms_nobody() {
    let mut lab = tree([plan("parent").with([plan("bad"), plan("good")])]).await;
    lab.fails("bad", true);
    lab.tell("bad", Do::Break);
    for failures in 2..200 {
        let (who, told, _) = lab
            .until(|_, told| matches!(told, Told::ChildFailed(_, count, _) if *count == failures))
            .await;
        let error = "out of order".to_owned();
        assert_eq!(told, Told::ChildFailed("bad".into(), failures, error));
        assert_eq!(who, "parent");
        lab.answers("good").await;
        lab.answers("parent").await;
    }
    assert_eq!(lab.seen("good").restarts, 0);
    assert_eq!(lab.seen("parent").restarts, 0);
    assert!(lab.inside("parent", |cx| cx.has_child("bad")).await);

    lab.fails("bad", false);
    lab.starts("bad").await;
    lab.answers("bad").await;
}

#[tokio::test(start_paused = true)]
async fn what_panics_while_a_child_is_made_is_the_childs_failure() {
    let mut lab = tree([plan("a")]).await;
    let (plan, teller) = (plan("b"), lab.teller.clone());
    let addr = plan.addr.clone();
    let tries = std::cell::Cell::new(0);
    let spec = ChildSpec::new("b", addr.clone(), move || {
        tries.set(tries.get() + 1);
        assert!(tries.get() > 3, "not yet");
        Node::<false>::new(&plan, &teller)
    });
    lab.inside("root", |cx| cx.start(spec)).await;
    lab.starts("b").await;
    addr.ask(SECOND, Do::Ping).await.expect("answers");
    assert_eq!(lab.restarts("panic"), 3);
    assert_eq!(lab.seen("root").restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_root_that_cannot_keep_a_child_alive_stops_in_order_and_says_which() {
    let mut lab = tree([plan("a"), plan("bad"), plan("z")]).await;
    let begun = Instant::now();
    lab.fails("bad", true);
    lab.tell("bad", Do::Break);
    let ended = lab.running.ended().await;
    let why = "bad fails over and over: out of order".to_owned();
    assert_eq!(ended, Err(Broken(why)));
    assert_eq!(lab.running.ended().await, ended, "the answer changed");
    assert!(begun.elapsed() < 60 * SECOND, "took {:?}", begun.elapsed());
    let words = lab.rest().await.into_iter();
    let stopping: Vec<_> = words
        .filter(|(_, told)| *told == Told::Stopping)
        .map(|(who, _)| who)
        .collect();
    assert_eq!(stopping, ["root", "z", "a"]);
    assert_eq!(lab.restarts("error"), 9);
    assert_eq!(lab.alive(), 0);
    assert!(lab.paths().is_empty(), "{:?}", lab.paths());
}

#[tokio::test(start_paused = true)]
async fn a_root_that_fails_itself_is_no_success() {
    let mut lab = tree([plan("a")]).await;
    lab.tell("root", Do::Panic);
    assert_eq!(lab.running.ended().await, Err(Broken("as told".into())));
    assert_eq!(lab.alive(), 0);

    let mut lab = tree([plan("a")]).await;
    lab.kill("root");
    let killed = Err(Broken("root: killed".into()));
    assert_eq!(lab.running.ended().await, killed);
}

#[tokio::test(start_paused = true)]
async fn an_essential_parent_that_gives_up_ends_all_at_once_and_in_order() {
    let lead = plan("lead")
        .essential()
        .with([plan("b"), plan("bad"), plan("y")]);
    let mut lab = tree([plan("a"), lead, plan("z")]).await;
    lab.fails("bad", true);
    lab.tell("bad", Do::Break);
    let why = "bad fails over and over: out of order".to_owned();
    assert_eq!(lab.running.ended().await, Err(Broken(why)));
    let words = lab.rest().await.into_iter();
    let stopping: Vec<_> = words
        .filter(|(_, told)| *told == Told::Stopping)
        .map(|(who, _)| who)
        .collect();
    assert_eq!(stopping, ["lead", "y", "b", "root", "z", "a"]);
    assert_eq!(lab.alive(), 0);
}
