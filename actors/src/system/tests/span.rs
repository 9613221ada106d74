//! How spans pass from one to the other, and where they end.

use super::*;
use tracing::{Dispatch, Instrument, Span, info_span, span::Id, subscriber::DefaultGuard};
use tracing_subscriber::{filter::filter_fn, layer::SubscriberExt, registry};

/// Spans of ours exist on this thread while it is there.
fn spans() -> (Dispatch, DefaultGuard) {
    // ractor has one for each actor.
    let ours = || filter_fn(|about| about.target().starts_with("actors"));
    // With a single subscriber tracing would ask each thread for its own whether anybody wants a
    // span, and the threads of other tests have none.
    let second = Dispatch::new(registry().with(ours()));
    let here = tracing::subscriber::set_default(registry().with(ours()));
    (second, here)
}

/// Has `path` say which span its handler runs in.
async fn span_of(lab: &Lab, path: &'static str) -> Option<Id> {
    let (tx, said) = oneshot::channel();
    let say = move |_: &mut Context<Do>| tx.send(Span::current().id()).expect("heard");
    lab.tell(path, Do::Run(Box::new(say)));
    said.await.expect("said")
}

#[tokio::test(start_paused = true)]
async fn a_message_is_handled_within_the_span_of_its_sender() {
    let _spans = spans();
    let lab = tree([plan("a")]).await;
    assert_eq!(span_of(&lab, "a").await, None);
    let span = info_span!("sender");
    let told = span_of(&lab, "a").instrument(span.clone()).await;
    assert_eq!(told, span.id());
    assert_eq!(span_of(&lab, "a").await, None, "the span was not left");
}

#[tokio::test(start_paused = true)]
async fn it_passes_on_with_every_message() {
    let _spans = spans();
    let lab = tree([plan("a"), plan("b")]).await;
    let (tx, said) = oneshot::channel();
    let b = lab.addr("b").clone();
    let say = move |_: &mut Context<Do>| tx.send(Span::current().id()).expect("heard");
    let pass = move |_: &mut Context<Do>| b.hint(Do::Run(Box::new(say)));
    let span = info_span!("first");
    span.in_scope(|| lab.tell("a", Do::Run(Box::new(pass))));
    assert_eq!(said.await.expect("said"), span.id());
}

#[tokio::test]
async fn work_is_a_part_of_what_is_under_way_only_where_that_is_said() {
    let _spans = spans();
    let (tx, mut said) = mpsc::unbounded_channel();
    let (mut apart, mut within) = (Work::default(), Work::default());
    let span = info_span!("under way");
    span.in_scope(|| {
        let say = tx.clone();
        apart.start(|_| async move { say.send(Span::current().id()).expect("heard") });
        within.start_within(|_| async move { tx.send(Span::current().id()).expect("heard") });
    });
    assert_eq!(said.recv().await, Some(None));
    assert_eq!(said.recv().await, Some(span.id()));
}
