//! Whatever happens in whatever order, everybody hears in time, and afterwards all is as on the first day.

use super::*;
use crate::{connection::QUEUE, system::directory::End};
use proptest::prelude::*;
use tokio::runtime::Builder;
use tokio_util::task::AbortOnDropHandle;

const KEYS: [&str; 2] = ["a", "b"];
const CARGOES: [&str; 3] = ["x", "y/z", "y:z"];

#[derive(Clone, Debug)]
enum Act {
    Ask {
        key: Option<usize>,
        patience: u64,
        brings: Option<usize>,
        panics: bool,
    },
    Bring(usize),
    /// The `n`th of those who wait goes away.
    GiveUp(usize),
    Dial(usize),
    Ping(bool),
    Carry(Option<usize>),
    Lose,
    Hold,
    Release,
    Arrive,
    Kill,
    KillTransfer(usize),
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    use proptest::option::of;
    let ask = (of(0..2usize), 0..40u64, of(0..3usize), 0..20u8);
    let ask = ask.prop_map(|(key, patience, brings, chance)| Act::Ask {
        key,
        patience,
        brings,
        panics: chance == 0,
    });
    prop_oneof![
        12 => ask,
        2 => (0..3usize).prop_map(Act::Bring),
        2 => (0..20usize).prop_map(Act::GiveUp),
        2 => (0..5usize).prop_map(Act::Dial),
        2 => any::<bool>().prop_map(Act::Ping),
        2 => of(0..2usize).prop_map(Act::Carry),
        1 => Just(Act::Lose),
        1 => Just(Act::Hold),
        2 => Just(Act::Release),
        3 => Just(Act::Arrive),
        1 => Just(Act::Kill),
        1 => (0..3usize).prop_map(Act::KillTransfer),
        6 => (0..20_000u64).prop_map(Act::Pass),
    ]
}

/// One who asked, for how long they may have to wait, and how long they did.
struct Asked(Duration, JoinHandle<(Result<Answer, AskError>, Duration)>);

struct World {
    b: Bench,
    asked: Vec<Asked>,
    brought: Vec<JoinHandle<Brought>>,
}

impl World {
    async fn act(&mut self, name: usize, act: Act) {
        let link = &self.b.link;
        match act {
            Act::Ask {
                key,
                patience,
                brings,
                panics,
            } => {
                let patience = SECOND * u32::try_from(patience).unwrap();
                self.ask(Ask {
                    key: key.map(|key| KEYS[key]),
                    brings: brings.map(|cargo| CARGOES[cargo]),
                    panics,
                    ..Ask::new(name).patience(patience)
                });
            }
            Act::Bring(cargo) => self.brought.push(self.b.bring(CARGOES[cargo])),
            Act::GiveUp(at) if at < self.asked.len() => self.asked.swap_remove(at).1.abort(),
            Act::GiveUp(_) => {}
            Act::Dial(how) => link.dials(match how {
                0 => Dial::Fails("refused"),
                1 => Dial::Fails("final: no key"),
                2 => Dial::Hangs,
                3 => Dial::Panics,
                _ => Dial::Succeeds,
            }),
            Act::Ping(hangs) => {
                let ping = if hangs { Ping::Hangs } else { Ping::Fails };
                link.pings.lock().unwrap().push_back(ping);
            }
            Act::Carry(how) => {
                *link.carry.lock().unwrap() = how.map(|how| ["wrong digest", "panics"][how]);
            }
            Act::Lose => link.lose("reset by peer"),
            Act::Hold => link.hold(),
            Act::Release => link.gate.add_permits(QUEUE),
            Act::Arrive => link.arrivals.add_permits(1),
            Act::Kill => self.kill(PATH),
            Act::KillTransfer(cargo) => {
                let name = crate::connection::transfer::name(&CARGOES[cargo]);
                self.kill(&format!("{PATH}/transfer/{name}"));
            }
            Act::Pass(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        }
    }

    fn ask(&mut self, ask: Ask) {
        let (patience, begun) = (ask.patience, Instant::now());
        // Who goes away takes the question along.
        let answer = AbortOnDropHandle::new(self.b.ask(ask));
        let timed = tokio::spawn(async move { (answer.await.expect("ends"), begun.elapsed()) });
        self.asked.push(Asked(patience, timed));
    }

    fn kill(&self, path: &str) {
        // Whether anybody is there depends on what was before.
        let _there = self.b.stage.directory.end(path, End::Kill);
    }

    /// Nothing goes wrong from here on.
    async fn heals(&self) {
        let link = &self.b.link;
        link.dials(Dial::Succeeds);
        link.pings.lock().unwrap().clear();
        *link.carry.lock().unwrap() = None;
        link.gate.add_permits(QUEUE);
        link.arrivals.add_permits(QUEUE);
        // A dial that hangs is given up, and a connection that fails is made again.
        tokio::time::sleep(100 * SECOND).await;
    }

    async fn ends_well(self) {
        let link = &self.b.link;
        for Asked(patience, answer) in self.asked {
            let (answer, waited) = answer.await.expect("ends");
            if let Ok(Err(Refusal::Unreached(_) | Refusal::Busy)) = answer {
                assert!(waited >= patience && waited < patience + SECOND / 100);
            }
            assert_ne!(answer, Ok(Err(Refusal::Full(QUEUE))));
        }
        for brought in self.brought {
            // Nobody waits for longer than the transfer takes.
            assert!(!matches!(brought.await.unwrap(), Err(AskError::Late(_))));
        }
        assert!(link.dialling.most() <= 1);
        for gauge in link.by_key.lock().unwrap().values() {
            assert!(gauge.most() <= 1);
        }
        let mut served = link.served();
        served.sort_unstable();
        assert!(served.windows(2).all(|two| two[0] < two[1]), "served twice");
        let idle = (link.serving.now(), link.carrying.now(), link.dialling.now());
        assert_eq!(idle, (0, 0, 0));
        let list = self.b.stage.directory.list();
        assert!(list.iter().all(|seen| seen.kind != "transfer"), "{list:?}");
        assert!(link.open() <= 1, "a session was left behind");

        // All places in the queue are free, and all keys.
        link.hold();
        let mut all_of_it = self.b.asks(QUEUE - KEYS.len());
        all_of_it.extend(KEYS.map(|key| self.b.ask(Ask::new(QUEUE).key(key))));
        until("under way", || link.serving.now() == QUEUE).await;
        link.gate.add_permits(QUEUE);
        for answer in all_of_it {
            assert!(matches!(answer.await.expect("ends"), Ok(Ok(_))));
        }
        for cargo in CARGOES {
            assert_eq!(self.b.bring(cargo).await.expect("ends"), Ok(Ok(())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn everybody_hears_in_time_and_afterwards_all_ends_well(
        acts in prop::collection::vec(act(), 1..120),
    ) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let (asked, brought) = (Vec::new(), Vec::new());
            let mut world = World { b: bench().await, asked, brought };
            for (name, act) in acts.into_iter().enumerate() {
                world.act(name, act).await;
            }
            world.heals().await;
            world.ends_well().await;
        });
    }
}
