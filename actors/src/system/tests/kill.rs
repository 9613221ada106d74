//! What happens when an actor is killed or stopped from outside.

use super::*;

#[tokio::test(start_paused = true)]
async fn slow_work_dies_with_its_actor_and_its_late_result_is_dropped_by_the_successor() {
    let mut lab = tree([plan("a")]).await;
    let epoch = lab.seen("a").epoch;
    lab.tell("a", Do::Work);
    let (_, started, _) = lab
        .until(|_, told| matches!(told, Told::WorkStarted(_)))
        .await;
    let Told::WorkStarted(old) = started else {
        unreachable!("asked for")
    };
    lab.kill("a");
    lab.until(|_, told| *told == Told::WorkDropped).await;
    lab.answers("a").await;
    assert!(lab.seen("a").epoch > epoch, "the same incarnation");

    lab.tell("a", Do::Work);
    lab.tell("a", Do::Worked(old));
    let (_, told, _) = lab
        .until(|_, told| matches!(told, Told::WorkTaken(_)))
        .await;
    assert_eq!(told, Told::WorkTaken(false), "a late result was taken");
    assert_eq!(lab.restarts("killed"), 1);
    assert_eq!(lab.alive(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_stopped_from_outside_says_goodbye_and_is_back_at_once() {
    let mut lab = tree([plan("a")]).await;
    let then = Instant::now();
    assert!(lab.directory.end("a", End::Stop));
    lab.until(|_, told| *told == Told::Stopping).await;
    assert_eq!(lab.starts("a").await, then);
    lab.answers("a").await;
    assert_eq!(lab.restarts("killed"), 1);
    assert_eq!(lab.seen("a").last_error, None);
}

#[tokio::test(start_paused = true)]
async fn being_killed_never_counts_however_often() {
    let mut lab = tree([plan("a")]).await;
    let begun = Instant::now();
    for _ in 0..1000 {
        lab.kill("a");
        lab.starts("a").await;
    }
    assert_eq!(
        begun.elapsed(),
        Duration::ZERO,
        "a kill was answered with a pause"
    );
    lab.tell("a", Do::Break);
    let then = Instant::now();
    assert_eq!(lab.starts("a").await, then, "kills counted as failures");
    lab.answers("root").await;
    assert_eq!(lab.seen("a").restarts, 1001);
    assert_eq!(lab.restarts("killed"), 1000);
    assert_eq!(lab.alive(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_child_killed_before_it_is_linked_comes_back_and_did_not_fail() {
    let mut lab = tree([plan("a")]).await;
    let b = plan("b");
    let (addr, spec) = (b.addr.clone(), b.spec(lab.teller.clone()));
    let directory = Arc::clone(&lab.directory);
    for round in 0..20 {
        let (spec, directory) = (plan("c").spec(lab.teller.clone()), directory.clone());
        let killed = lab.inside("root", move |cx| {
            cx.start(spec);
            let killed = directory.end("c", End::Kill);
            (killed, cx.has_child("c"))
        });
        assert_eq!(killed.await, (true, true));
        let then = Instant::now();
        assert_eq!(lab.starts("c").await, then, "round {round}");
        lab.inside("root", |cx| cx.stop_child("c")).await;
    }
    lab.inside("root", move |cx| {
        cx.start(spec);
        assert!(directory.end("b", End::Kill));
    })
    .await;
    lab.starts("b").await;
    addr.ask(SECOND, Do::Ping).await.expect("answers");
    assert_eq!(lab.seen("b").last_error, None);
    assert_eq!(lab.restarts("killed"), 21);
    assert_eq!(lab.restarts("error"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_killed_parent_takes_its_children_along_and_all_come_back() {
    let family = || [plan("p").with([plan("c1").with([plan("g")]), plan("c2")])];
    let mut lab = tree(family()).await;
    for path in ["p", "c1", "c2", "g"] {
        lab.tell(path, Do::Work);
        lab.until(|_, told| matches!(told, Told::WorkStarted(_)))
            .await;
    }
    lab.kill("p");
    let words = lab.rest().await;
    for path in ["p", "c1", "c2", "g"] {
        let of = |what: Told| {
            words
                .iter()
                .filter(|word| **word == (path, what.clone()))
                .count()
        };
        let counts = (of(Told::Dropped), of(Told::WorkDropped), of(Told::Started));
        assert_eq!(counts, (1, 1, 1), "{path}: {words:?}");
        assert_eq!(of(Told::Stopping), 0, "{path} was asked");
        lab.answers(path).await;
    }
    assert_eq!(lab.alive(), 5);
    assert_eq!(lab.paths().len(), 5);
    assert_eq!(lab.seen("p").restarts, 1);
    assert_eq!(
        lab.seen("g").restarts,
        0,
        "its present parent started it once"
    );
}

#[tokio::test(start_paused = true)]
async fn children_that_a_restarted_parent_no_longer_wants_are_forgotten() {
    let mut lab = tree([plan("p")]).await;
    let spec = plan("extra").spec(lab.teller.clone());
    lab.inside("p", |cx| cx.start(spec)).await;
    lab.starts("extra").await;
    lab.kill("p");
    let words = lab.rest().await;
    assert!(words.contains(&("extra", Told::Dropped)), "{words:?}");
    lab.answers("p").await;
    let paths = lab.paths();
    assert!(!paths.iter().any(|path| &**path == "extra"), "{paths:?}");
    assert_eq!(lab.alive(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_child_is_restarted_however_much_its_parent_has_to_read() {
    let mut lab = tree([plan("a")]).await;
    let (teller, root) = (lab.teller.clone(), lab.addr("root").clone());
    let directory = Arc::clone(&lab.directory);
    lab.inside("root", move |_| {
        assert!(directory.end("a", End::Kill));
        for _ in 0..1000 {
            let teller = teller.clone();
            root.hint(Do::Run(Box::new(move |_| {
                teller
                    .send(("root", Told::WorkDropped, Instant::now()))
                    .ok();
            })));
        }
    })
    .await;
    lab.starts("a").await;
    let read = lab
        .rest()
        .await
        .iter()
        .filter(|(who, _)| *who == "root")
        .count();
    assert!(
        read > 500,
        "the restart waited behind {} messages",
        1000 - read
    );
}
