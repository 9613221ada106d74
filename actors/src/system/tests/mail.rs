//! What happens to messages and questions.

use super::*;
use crate::system::{AskError, Down};

#[tokio::test(start_paused = true)]
async fn messages_of_one_sender_are_handled_in_order() {
    let lab = tree([plan("a")]).await;
    let (tx, mut rx) = mpsc::unbounded_channel();
    for n in 0..1000 {
        let tx = tx.clone();
        lab.tell("a", Do::Run(Box::new(move |_| tx.send(n).expect("heard"))));
    }
    for n in 0..1000 {
        assert_eq!(rx.recv().await, Some(n));
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_leads_to_the_successor_and_to_nobody_in_between() {
    let mut lab = tree([plan("p").with([plan("a")])]).await;
    lab.fails("a", true);
    lab.tell("a", Do::Break);
    lab.starts("a").await;
    settle().await;
    let a = lab.addr("a").clone();
    assert_eq!(a.tell(Do::Work), Err(Down));
    assert_eq!(a.ask(SECOND, Do::Ping).await, Err(AskError::Down));
    a.hint(Do::Work);
    assert_eq!(lab.seen("a").mailbox_depth, 0);

    lab.fails("a", false);
    lab.starts("a").await;
    lab.answers("a").await;
    let words = lab.rest().await;
    let worked = words
        .iter()
        .any(|(_, told)| matches!(told, Told::WorkStarted(_)));
    assert!(!worked, "what was sent to nobody reached the successor");
}

#[tokio::test(start_paused = true)]
async fn an_address_to_which_nobody_was_bound_is_down() {
    assert_eq!(Addr::default().tell(Do::Panic), Err(Down));
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_in_dropped_when_the_actor_dies_and_in_late_when_it_is_slow() {
    type Act = fn(&Lab);
    let mut lab = tree([plan("a")]).await;
    let a = lab.addr("a").clone();
    let asked = Instant::now();
    assert_eq!(
        a.ask(3 * SECOND, Do::Keep).await,
        Err(AskError::Late(3 * SECOND))
    );
    assert_eq!(asked.elapsed(), 3 * SECOND);

    let deaths: [Act; 3] = [
        |lab| lab.kill("a"),
        |lab| lab.tell("a", Do::Panic),
        |lab| assert!(lab.directory.end("a", End::Stop)),
    ];
    for die in deaths {
        let asked = Instant::now();
        let question = a.ask(3 * SECOND, Do::Keep);
        let (answer, ()) = tokio::join!(question, async {
            settle().await;
            die(&lab);
        });
        assert_eq!(answer, Err(AskError::Dropped));
        assert_eq!(asked.elapsed(), Duration::ZERO);
        lab.starts("a").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_dies_with_its_actor_and_is_counted_off() {
    let mut lab = tree([plan("a"), plan("b")]).await;
    let (a, directory) = (lab.addr("a").clone(), Arc::clone(&lab.directory));
    let depth = lab.inside("b", move |_| {
        for _ in 0..500 {
            a.tell(Do::Work).expect("is alive");
        }
        assert!(directory.end("a", End::Kill));
        directory.mailbox_depths()["node"]
    });
    assert_eq!(depth.await, (501, 500), "500 of a, and this one of b");
    lab.starts("a").await;
    assert_eq!(lab.directory.mailbox_depths()["node"], (0, 0));
    lab.answers("a").await;
    settle().await;
    assert_eq!(lab.seen("a").mailbox_depth, 0);
    assert_eq!(
        lab.seen("a").handled,
        1,
        "the successor read a dead one's mail"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopping_actor_finishes_its_message_and_leaves_the_rest() {
    let mut lab = tree([plan("a")]).await;
    let (tx, mut rx) = mpsc::unbounded_channel();
    let (a, directory) = (lab.addr("a").clone(), Arc::clone(&lab.directory));
    lab.inside("a", move |_| {
        for n in 0..10 {
            let tx = tx.clone();
            a.hint(Do::Run(Box::new(move |_| tx.send(n).expect("heard"))));
        }
        assert!(directory.end("a", End::Stop));
    })
    .await;
    lab.starts("a").await;
    assert_eq!(rx.recv().await, None, "the backlog was worked off");
}

#[tokio::test(start_paused = true)]
async fn messages_are_counted_and_measured_by_kind_and_name() {
    let lab = tree([plan("a")]).await;
    for _ in 0..3 {
        lab.answers("a").await;
    }
    settle().await;
    let labels = [("kind", "node"), ("message", "Ping")];
    assert_eq!(lab.metric("actor_messages_total", &labels), 3);
    let families = lab.registry.gather();
    for name in ["duration", "wait"] {
        let name = match name {
            "wait" => "proxy_operator_actor_mailbox_wait_seconds",
            _ => "proxy_operator_actor_message_duration_seconds",
        };
        let family = families.iter().find(|family| family.name() == name);
        let histogram = family.expect(name).get_metric()[0].get_histogram();
        assert_eq!(histogram.get_sample_count(), 3, "{name}");
    }
}

/// Whose first word is to itself.
struct Monologue(mpsc::UnboundedSender<Path>);

impl Actor for Monologue {
    type Msg = Do;
    const KIND: &'static str = "monologue";

    fn started(&mut self, cx: &mut Context<Do>) -> Result<(), Broken> {
        let heard = self.0.clone();
        let word = move |cx: &mut Context<Do>| heard.send(Arc::clone(cx.path())).expect("heard");
        let told = cx.me().tell(Do::Run(Box::new(word)));
        told.map_err(|down| Broken(down.to_string()))
    }

    fn handle(&mut self, message: Do, cx: &mut Context<Do>) -> Result<(), Broken> {
        if let Do::Run(run) = message {
            run(cx);
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_actor_reaches_itself_from_its_first_moment() {
    let system = System::new(Meters::new(&Registry::new()).expect("a new registry"));
    let (tx, mut heard) = mpsc::unbounded_channel();
    let root = Addr::default();
    let running = system.run(&root, Monologue(tx.clone())).await;
    let _running = running.expect("runs");
    assert_eq!(heard.recv().await.as_deref(), Some("monologue"));
    let child = Do::Run(Box::new(move |cx| {
        let make = move || Monologue(tx.clone());
        cx.start(ChildSpec::new("child", Addr::default(), make));
    }));
    root.tell(child).expect("is alive");
    assert_eq!(heard.recv().await.as_deref(), Some("child"));
}

#[tokio::test(start_paused = true)]
async fn an_incarnation_that_binds_late_does_not_take_the_address_from_its_successor() {
    let inbox = crate::system::addr::probe::inbox::<Do>;
    let ((old, mut of_old), (new, mut of_new)) = (inbox().await, inbox().await);
    let (addr, first, second) = (Addr::default(), Epoch::next(), Epoch::next());
    let bind = |epoch, to: &Addr<Do>| addr.bind(epoch, to.actor().expect("is bound"));
    bind(second, &new);
    bind(first, &old);
    addr.tell(Do::Panic).expect("is alive");
    assert!(matches!(of_new.recv().await, Some(Do::Panic)));
    assert!(of_old.try_recv().is_err());
    bind(Epoch::next(), &old);
    addr.tell(Do::Panic).expect("is alive");
    assert!(matches!(of_old.recv().await, Some(Do::Panic)));
}
