use super::*;
use crate::{
    root::RootActor,
    system::{Addr, ChildSpec, Running, System, meter::Meters},
};
use prometheus::Registry;

const SECOND: Duration = Duration::from_secs(1);

#[derive(strum::IntoStaticStr)]
enum Nothing {}

/// Does nothing, and is there.
struct Idle;

impl Actor for Idle {
    type Msg = Nothing;
    const KIND: &'static str = "idle";

    fn handle(&mut self, message: Nothing, _: &mut Context<Nothing>) -> Result<(), Broken> {
        match message {}
    }
}

struct Stand {
    directory: Arc<Directory>,
    monkey: Addr<MonkeyMsg>,
    _running: Running,
}

/// A root, a monkey, one whom it spares, and ten others.
async fn stand() -> Stand {
    let system = System::new(Meters::new(&Registry::new()).expect("meters"));
    let (directory, monkey) = (system.directory(), Addr::default());
    let mut services = vec![ChildSpec::new("ops/monkey", monkey.clone(), {
        let directory = Arc::clone(&directory);
        move || MonkeyActor::new(Arc::clone(&directory), &["ops/admin".into()])
    })];
    let idle = |path: &str| ChildSpec::new(path, Addr::default(), || Idle);
    services.push(idle("ops/admin"));
    services.extend((0..10).map(|n| idle(&format!("idle/{n}"))));
    let running = system
        .run(&Addr::default(), RootActor::new(services))
        .await
        .expect("runs");
    let stand = Stand {
        directory,
        monkey,
        _running: running,
    };
    while stand.directory.who().len() < 13 {
        tokio::task::yield_now().await;
    }
    stand
}

impl Stand {
    async fn start(&self, pattern: &str) -> Result<Run, Busy> {
        let plan = Plan {
            pattern: pattern.parse().expect("a pattern"),
            every: SECOND / 50,
            lasts: 2 * SECOND,
            seed: 42,
        };
        let started = self
            .monkey
            .ask(SECOND, |reply| MonkeyMsg::Start(plan, reply));
        started.await.expect("an answer")
    }

    async fn shown(&self) -> Run {
        let shown = self.monkey.ask(SECOND, MonkeyMsg::Show).await;
        shown.expect("an answer").expect("a run")
    }

    fn restarts(&self, path: &str) -> u32 {
        let list = self.directory.list();
        let seen = list.iter().find(|seen| &*seen.path == path);
        seen.expect("is there").restarts
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_strikes_in_its_beat_and_ends_by_itself() {
    let stand = stand().await;
    stand.start("*").await.expect("starts");
    tokio::time::sleep(SECOND).await;
    let under_way = stand.shown().await;
    assert_eq!(under_way.ended, None);
    let half: u64 = under_way.kills.values().sum();
    assert!((49..=51).contains(&half), "{half} kills in a second");

    tokio::time::sleep(2 * SECOND).await;
    let run = stand.shown().await;
    assert!(run.ended.is_some());
    assert_eq!(run.kills.keys().copied().collect::<Vec<_>>(), ["idle"]);
    assert!((99..=101).contains(&run.kills["idle"]), "{:?}", run.kills);
    for spared in ["root", "ops/monkey", "ops/admin"] {
        assert_eq!(stand.restarts(spared), 0, "{spared}");
    }
    let struck: u32 = (0..10).map(|n| stand.restarts(&format!("idle/{n}"))).sum();
    assert_eq!(u64::from(struck), run.kills["idle"]);
}

#[tokio::test(start_paused = true)]
async fn there_is_one_run_at_a_time_and_it_can_be_ended() {
    let stand = stand().await;
    let none = stand.monkey.ask(SECOND, MonkeyMsg::Show).await;
    assert!(none.expect("an answer").is_none());
    stand.start("idle/1").await.expect("starts");
    assert_eq!(stand.start("*").await.err(), Some(Busy));
    tokio::time::sleep(SECOND).await;
    let ended = stand.monkey.ask(SECOND, MonkeyMsg::End).await;
    let ended = ended.expect("an answer").expect("a run");
    assert!(ended.ended.is_some());
    tokio::time::sleep(SECOND).await;
    assert_eq!(stand.shown().await.kills, ended.kills);
    assert!(stand.restarts("idle/1") > 0);
    assert_eq!(stand.restarts("idle/2"), 0);
    stand.start("*").await.expect("starts again");
}

#[tokio::test(start_paused = true)]
async fn a_killed_monkey_is_back_at_rest() {
    let stand = stand().await;
    stand.start("*").await.expect("starts");
    assert!(stand.directory.end("ops/monkey", End::Kill));
    while stand.restarts("ops/monkey") == 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(SECOND).await;
    let shown = stand.monkey.ask(SECOND, MonkeyMsg::Show).await;
    assert!(shown.expect("an answer").is_none());
}
