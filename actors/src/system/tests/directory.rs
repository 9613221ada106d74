//! What can be seen and done from outside.

use super::*;

#[tokio::test(start_paused = true)]
async fn it_lists_everyone_sorted_by_path_with_what_they_are() {
    let mut lab = tree([plan("b"), plan("a").with([plan("a/1")])]).await;
    let list = lab.directory.list();
    let who: Vec<_> = list.iter().map(|seen| (&*seen.path, seen.kind)).collect();
    let expected = [
        ("a", "node"),
        ("a/1", "node"),
        ("b", "node"),
        ("root", "root"),
    ];
    assert_eq!(who, expected);
    let parent = |path| lab.seen(path).parent.map(|parent| parent.to_string());
    assert_eq!(parent("root"), None);
    assert_eq!(parent("a").as_deref(), Some("root"));
    assert_eq!(parent("a/1").as_deref(), Some("a"));
    let before = lab.seen("b");
    assert_eq!((before.restarts, &before.last_error), (0, &None));
    assert_eq!(before.last_end, None);

    lab.tell("b", Do::Panic);
    lab.starts("b").await;
    lab.answers("b").await;
    let after = lab.seen("b");
    assert_eq!(after.restarts, 1);
    assert_eq!(after.last_error.as_deref(), Some("as told"));
    assert!(after.epoch > before.epoch);
    assert!(after.since >= before.since);
    let end = after.last_end.expect("it ended");
    assert!(end.reason == "panic" && end.at >= before.since && end.at <= after.since);
    assert_eq!(after.handled, 2, "the panic and the answer");

    lab.kill("b");
    lab.starts("b").await;
    let last_error = lab.seen("b").last_error;
    assert_eq!(last_error.as_deref(), Some("as told"), "a kill is no error");
    assert_eq!(lab.seen("b").last_end.map(|end| end.reason), Some("killed"));
}

#[tokio::test(start_paused = true)]
async fn it_shows_a_child_in_its_pause_and_what_failed() {
    let mut lab = tree([plan("p").with([plan("a")])]).await;
    lab.fails("a", true);
    lab.tell("a", Do::Break);
    lab.starts("a").await;
    settle().await;
    let last_error = lab.seen("a").last_error;
    assert_eq!(last_error.as_deref(), Some("out of order"));
    // It is not alive, so there is nothing to kill, and its pause is not cut short by it.
    let then = Instant::now();
    assert!(lab.directory.end("a", End::Kill));
    assert!(lab.starts("a").await >= then + 100 * MS);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_ended_where_nobody_is() {
    let lab = tree([plan("a")]).await;
    assert!(!lab.directory.end("nobody", End::Kill));
    assert!(!lab.directory.end("nobody", End::Stop));
    lab.answers("a").await;
}

#[tokio::test(start_paused = true)]
async fn it_shows_the_message_under_way_and_for_how_long() {
    let lab = tree([plan("a")]).await;
    assert_eq!(lab.seen("a").handling, None);
    let directory = Arc::clone(&lab.directory);
    let seen = lab.inside("a", move |_| {
        let a = || directory.list().into_iter().find(|seen| &*seen.path == "a");
        let handling = || a().and_then(|seen| seen.handling).expect("something");
        let (name, first) = handling();
        while handling().1 <= first {}
        name
    });
    assert_eq!(seen.await, "Run");
    settle().await;
    assert_eq!(lab.seen("a").handling, None);
    assert!(lab.directory.end("a", End::Panic));
    settle().await;
    lab.answers("a").await;
    settle().await;
    assert_eq!(lab.seen("a").handling, None);
}

#[tokio::test(start_paused = true)]
async fn who_is_asked_to_panic_fails_as_if_by_a_defect() {
    let mut lab = tree([plan("a")]).await;
    assert!(lab.directory.end("a", End::Panic));
    lab.starts("a").await;
    assert_eq!(lab.restarts("panic"), 1);
    let last_error = lab.seen("a").last_error;
    assert_eq!(last_error.as_deref(), Some("asked to panic"));
}

#[tokio::test(start_paused = true)]
async fn an_old_incarnation_cannot_make_it_forget_a_newer_one() {
    let mut lab = tree([plan("a")]).await;
    let old = lab.seen("a").epoch;
    lab.kill("a");
    lab.starts("a").await;
    let path = lab.seen("a").path;
    lab.directory.forget(&path, old);
    assert_eq!(lab.paths().len(), 2);
    lab.directory.forget(&path, lab.seen("a").epoch);
    assert_eq!(lab.paths().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_children_come_and_go_without_a_trace() {
    let lab = tree([plan("p")]).await;
    let teller = lab.teller.clone();
    lab.inside("p", move |cx| {
        for n in 0..10_000 {
            let path: Path = format!("child/{n}").into();
            let addr = Addr::<Do>::default();
            let (plan, teller) = (plan("child"), teller.clone());
            cx.start(ChildSpec::new(Arc::clone(&path), addr, move || {
                Node::<false>::new(&plan, &teller)
            }));
            cx.stop_child(&path);
        }
    })
    .await;
    for _ in 0..100 {
        settle().await;
    }
    assert_eq!(lab.inside("p", |cx| cx.children()).await, 0);
    assert_eq!(lab.paths().len(), 2);
    assert_eq!(lab.alive(), 2);
}
