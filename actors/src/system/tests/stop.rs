//! What happens when actors are stopped in order.

use super::*;
use crate::system::children::hanging;
use tokio::sync::oneshot::error::TryRecvError::Closed;

/// Who said goodbye and was dropped, in order.
async fn goodbyes(lab: &mut Lab) -> Vec<String> {
    let words = lab.rest().await.into_iter();
    words
        .filter_map(|(who, told)| match told {
            Told::Stopping => Some(format!("{who} stopping")),
            Told::Dropped => Some(format!("{who} gone")),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_root_stops_its_children_the_youngest_first_and_one_by_one() {
    let mut lab = tree([plan("a"), plan("b").with([plan("g")]), plan("c")]).await;
    lab.kill("a");
    lab.starts("a").await;
    lab.running.stop();
    assert_eq!(lab.running.ended().await, Ok(()));
    let order = [
        "root stopping",
        "c stopping",
        "c gone",
        "b stopping",
        "g stopping",
        "g gone",
        "b gone",
        "a stopping",
        "a gone",
        "root gone",
    ];
    assert_eq!(goodbyes(&mut lab).await, order, "a restart made it younger");
    assert_eq!(lab.alive(), 0);
    assert!(lab.paths().is_empty(), "{:?}", lab.paths());
}

#[tokio::test(start_paused = true)]
async fn a_patient_parent_stops_its_children_all_at_once() {
    let child = |path, under| plan(path).with([plan(under)]);
    let children = [child("a", "a/1"), child("b", "b/1"), child("c", "c/1")];
    let mut lab = tree([plan("p").with(children)]).await;
    lab.inside("root", |cx| cx.stop_child("p")).await;
    let order = goodbyes(&mut lab).await;
    assert_eq!(order.len(), 14);
    assert_eq!(order[0], "p stopping");
    assert_eq!(order[13], "p gone");
    let at = |word: &str| order.iter().position(|is| is == word);
    for path in ["a", "b", "c"] {
        let (stopping, gone) = (format!("{path} stopping"), format!("{path} gone"));
        assert!(at(&stopping) < at("a gone"), "{order:?}");
        assert!(at(&format!("{path}/1 gone")) < at(&gone), "{order:?}");
    }
    assert_eq!(&*lab.paths()[0], "root");
    assert_eq!(lab.paths().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_slow_ends_with_its_actor_though_the_parent_is_still_stopping() {
    let mut lab = tree([plan("a")]).await;
    lab.inside("root", |cx| cx.start(hanging("stuck"))).await;
    let spec = plan("z").spec(lab.teller.clone());
    lab.inside("root", |cx| cx.start(spec)).await;
    lab.starts("z").await;
    let begun = Instant::now();
    lab.running.stop();
    let (.., gone) = lab
        .until(|who, told| who == "z" && *told == Told::Dropped)
        .await;
    assert_eq!(gone, begun, "it was kept until its parent had stopped");
    lab.running.ended().await.expect("stops");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_hangs_takes_half_the_time_and_is_killed() {
    let mut lab = tree([plan("a")]).await;
    lab.inside("root", |cx| {
        cx.start(hanging("stuck1"));
        cx.start(hanging("stuck2"));
    })
    .await;
    let begun = Instant::now();
    lab.running.stop();
    assert_eq!(lab.running.ended().await, Ok(()));
    let took = begun.elapsed();
    let expected = Duration::from_millis(3_500 + 1_750);
    assert!(took >= expected && took < expected + 10 * MS, "{took:?}");
    let words = goodbyes(&mut lab).await;
    assert_eq!(
        words,
        ["root stopping", "a stopping", "a gone", "root gone"]
    );
}

#[tokio::test(start_paused = true)]
async fn children_that_hang_under_a_patient_parent_are_killed_together() {
    let lab = tree([plan("p")]).await;
    lab.inside("p", |cx| {
        (0..9).for_each(|n| cx.start(hanging(format!("stuck{n}"))));
    })
    .await;
    settle().await;
    let begun = Instant::now();
    assert!(lab.directory.end("p", End::Stop));
    while lab.seen("p").restarts == 0 {
        tokio::time::sleep(MS).await;
    }
    let took = begun.elapsed();
    assert!(
        took >= 7 * SECOND && took < 7 * SECOND + 10 * MS,
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn last_work_is_waited_for_while_the_children_still_serve() {
    let mut lab = tree([plan("p").with([plan("a")]), plan("z")]).await;
    lab.tell("p", Do::Last(tokio::time::sleep(3 * SECOND).boxed()));
    lab.answers("p").await;
    let begun = Instant::now();
    lab.running.stop();
    lab.until(|who, told| who == "p" && *told == Told::Stopping)
        .await;
    settle().await;
    lab.answers("a").await;
    assert!(!lab.addr("p").is_up());
    assert!(lab.addr("a").is_up());
    assert_eq!(lab.running.ended().await, Ok(()));
    assert_eq!(begun.elapsed().as_secs(), 3);
    let words = goodbyes(&mut lab).await;
    assert_eq!(words[..3], ["a stopping", "a gone", "p gone"]);
}

#[tokio::test(start_paused = true)]
async fn last_work_that_does_not_end_is_dropped_with_its_actor() {
    let mut lab = tree([plan("a"), plan("z")]).await;
    let (held, mut ended) = oneshot::channel::<()>();
    let endless = async move {
        let _held = held;
        std::future::pending::<()>().await;
    };
    lab.tell("z", Do::Last(endless.boxed()));
    lab.answers("z").await;
    let begun = Instant::now();
    lab.running.stop();
    assert_eq!(lab.running.ended().await, Ok(()));
    assert_eq!(begun.elapsed().as_millis() / 100, 35);
    assert!(ended.try_recv().is_err_and(|error| error == Closed));
    let words = goodbyes(&mut lab).await;
    assert!(words.contains(&"a stopping".into()), "{words:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kill_ends_the_wait_for_children_too() {
    let mut lab = tree([plan("p").with([plan("a")])]).await;
    lab.inside("p", |cx| cx.start(hanging("stuck"))).await;
    settle().await;
    let begun = Instant::now();
    assert!(lab.directory.end("p", End::Stop));
    lab.until(|who, told| who == "a" && *told == Told::Dropped)
        .await;
    assert!(lab.directory.end("p", End::Kill));
    let mut words = Vec::new();
    while words.last() != Some(&("p", Told::Started)) {
        let (who, told, _) = lab.word().await;
        words.push((who, told));
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(words[0], ("p", Told::Dropped));
    lab.starts("a").await;
    assert_eq!(lab.paths().len(), 3);
    assert_eq!(lab.alive(), 3);
    assert_eq!(lab.restarts("killed"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_stopping_already_is_waited_for_and_not_killed() {
    let mut lab = tree([plan("a").with([plan("g")])]).await;
    assert!(lab.directory.end("a", End::Stop));
    lab.running.stop();
    assert_eq!(lab.running.ended().await, Ok(()));
    let words = goodbyes(&mut lab).await;
    assert!(words.contains(&"a stopping".into()), "{words:?}");
    assert!(words.contains(&"g stopping".into()), "{words:?}");
    assert_eq!(lab.alive(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_let_go_does_not_come_back_even_if_it_dies_at_the_same_moment() {
    type Act = fn(&Lab);
    let deaths: [Act; 4] = [
        |lab| lab.kill("a"),
        |lab| lab.tell("a", Do::Panic),
        |lab| assert!(lab.directory.end("a", End::Stop)),
        |_| (),
    ];
    for die_first in [true, false] {
        for die in deaths {
            let mut lab = tree([plan("a"), plan("b")]).await;
            let root = lab.addr("root").clone();
            let let_go = || {
                let stop = Do::Run(Box::new(|cx: &mut Context<Do>| cx.stop_child("a")));
                root.tell(stop).expect("is alive");
            };
            if die_first {
                die(&lab);
                let_go();
            } else {
                let_go();
                if lab.seen("a").restarts == 0 {
                    die(&lab);
                }
            }
            let words = lab.rest().await;
            // Whoever died first may have been started again before it was let go.
            assert!(!lab.inside("root", |cx| cx.has_child("a")).await);
            let of = |what: Told| {
                words
                    .iter()
                    .filter(|word| **word == ("a", what.clone()))
                    .count()
            };
            assert_eq!(of(Told::Dropped), of(Told::Started) + 1, "{words:?}");
            assert_eq!(lab.paths().len(), 2);
            assert_eq!(lab.alive(), 2);
            assert!(lab.addr("a").tell(Do::Break).is_err());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_waits_to_be_started_again_can_be_let_go() {
    let mut lab = tree([plan("p").with([plan("a")])]).await;
    lab.fails("a", true);
    lab.tell("a", Do::Break);
    for _ in 0..5 {
        lab.starts("a").await;
    }
    settle().await;
    lab.inside("p", |cx| cx.stop_child("a")).await;
    lab.rest().await;
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(lab.rest().await, []);
    assert_eq!(lab.alive(), 2);
    assert_eq!(lab.paths().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn at_the_path_of_a_child_that_was_let_go_another_can_be_started_at_once() {
    let mut lab = tree([plan("a")]).await;
    let (again, addr) = (lab.plans["a"].clone(), lab.addr("a").clone());
    let spec = again.spec(lab.teller.clone());
    lab.inside("root", |cx| {
        cx.stop_child("a");
        cx.start(spec);
    })
    .await;
    lab.starts("a").await;
    addr.ask(SECOND, Do::Ping).await.expect("the newer answers");
    lab.rest().await;
    addr.ask(SECOND, Do::Ping).await.expect("and stays");
    assert_eq!(lab.alive(), 2);
    assert_eq!(lab.seen("a").restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_second_child_at_the_same_path_is_not_started() {
    let mut lab = tree([plan("a")]).await;
    let spec = lab.plans["a"].clone().spec(lab.teller.clone());
    let count = lab.inside("root", |cx| {
        cx.start(spec);
        cx.children()
    });
    assert_eq!(count.await, 1);
    assert_eq!(lab.rest().await, []);
}
