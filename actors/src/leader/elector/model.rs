//! Several candidates and one record, under every kind of trouble: never two that may act at once.
//!
//! Time goes in steps of 100 ms. A candidate may be frozen, its requests and answers may be slow or get
//! lost, separately; what was sent may arrive long after its sender gave up on it. A process may die,
//! and come back as another.

use super::*;
use crate::leader::election::Seen;
use proptest::prelude::*;
use std::collections::VecDeque;

const STEP: Duration = Duration::from_millis(100);
const PACE: Pace = Pace::DEFAULT;
/// When a candidate gives up on a request, in steps.
const PATIENCE: u32 = 30;

/// What happens to one candidate at some step.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// It does not run for so many steps.
    Freeze(u32),
    /// What it sends, and what comes back, takes so many steps from now on.
    Slow(u32, u32),
    /// Requests that it sends from now on are lost.
    Deaf,
    /// Answers to it are lost from now on.
    Mute,
    /// All is well with it again.
    Mend,
    /// It is killed, and starts anew as somebody else.
    Die,
    /// It gives the leadership back, and starts anew as somebody else.
    Leave,
    /// Somebody touches the record.
    Meddle,
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        (1..400u32).prop_map(Trouble::Freeze),
        (0..40u32, 0..40u32).prop_map(|(there, back)| Trouble::Slow(there, back)),
        (0..300u32, 0..5u32).prop_map(|(there, back)| Trouble::Slow(there, back)),
        Just(Trouble::Deaf),
        Just(Trouble::Mute),
        Just(Trouble::Mend),
        Just(Trouble::Mend),
        Just(Trouble::Die),
        Just(Trouble::Leave),
        Just(Trouble::Meddle),
    ]
}

struct Process {
    elector: Elector,
    /// Counts its lives, so that answers to an earlier one are not taken.
    life: u32,
    frozen: u32,
    there: u32,
    back: u32,
    deaf: bool,
    mute: bool,
    /// When to ask, and what.
    due: Option<(u32, Ask)>,
    /// The request that it waits for, since when.
    waits: Option<(u64, u32)>,
}

enum Reply {
    Read(Option<Seen>),
    Written(Change, Written),
}

struct Request {
    arrives: u32,
    from: usize,
    life: u32,
    number: u64,
    sent: u32,
    ask: Ask,
}

struct Response {
    arrives: u32,
    to: usize,
    life: u32,
    number: u64,
    sent: u32,
    reply: Reply,
}

struct World {
    begun: Instant,
    step: u32,
    record: Option<Record>,
    version: u64,
    processes: Vec<Process>,
    requests: Vec<Request>,
    responses: VecDeque<Response>,
    numbers: u64,
    /// Who acted last, under which fence, and until when it could have.
    acted: Option<(usize, u32, u64, Instant)>,
    tenures: u32,
}

fn process(index: usize, life: u32) -> Process {
    let me = Candidate {
        identity: format!("p{index}.{life}"),
        address: String::new(),
    };
    Process {
        elector: Elector::new(me, PACE, None, || 0),
        life,
        frozen: 0,
        there: 0,
        back: 0,
        deaf: false,
        mute: false,
        due: Some((0, Ask::Read)),
        waits: None,
    }
}

impl World {
    fn new(candidates: usize) -> Self {
        Self {
            begun: Instant::now(),
            step: 0,
            record: None,
            version: 0,
            processes: (0..candidates).map(|index| process(index, 0)).collect(),
            requests: Vec::new(),
            responses: VecDeque::new(),
            numbers: 0,
            acted: None,
            tenures: 0,
        }
    }

    fn at(&self, step: u32) -> Instant {
        self.begun + step * STEP
    }

    fn seen(&self) -> Option<Seen> {
        let record = self.record.clone()?;
        let version = Version(self.version.to_string());
        Some(Seen { version, record })
    }

    /// What the API server does with a request.
    fn serve(&mut self, ask: Ask) -> Reply {
        let change = match ask {
            Ask::Read => return Reply::Read(self.seen()),
            Ask::Write(change) => change,
        };
        let is = self.seen().map(|seen| seen.version);
        if change.on != is {
            return Reply::Written(change, Written::Conflict);
        }
        self.version += 1;
        self.record = Some(change.record.clone());
        let version = Version(self.version.to_string());
        Reply::Written(change, Written::Done(version))
    }

    fn befall(&mut self, index: usize, trouble: Trouble) {
        let (life, seen) = (self.processes[index].life, self.seen());
        let process = &mut self.processes[index];
        match trouble {
            Trouble::Freeze(steps) => process.frozen = steps,
            Trouble::Slow(there, back) => (process.there, process.back) = (there, back),
            Trouble::Deaf => process.deaf = true,
            Trouble::Mute => process.mute = true,
            Trouble::Mend => {
                (process.deaf, process.mute) = (false, false);
                (process.there, process.back) = (0, 0);
            }
            Trouble::Die => *process = self::process(index, life + 1),
            Trouble::Leave => {
                // It reads before it writes, and has stopped acting before that.
                let change = seen.and_then(|seen| process.elector.resign(seen));
                *process = self::process(index, life + 1);
                if let Some(change) = change {
                    self.serve(Ask::Write(change));
                    self.acted = None;
                }
            }
            Trouble::Meddle => self.version += 1,
        }
    }

    fn deliver(&mut self) {
        let (now, step) = (self.at(self.step), self.step);
        let (arrived, under_way) = std::mem::take(&mut self.requests)
            .into_iter()
            .partition(|request: &Request| request.arrives <= step);
        self.requests = under_way;
        for request in arrived {
            let reply = self.serve(request.ask);
            let from = &self.processes[request.from];
            if !from.mute {
                self.responses.push_back(Response {
                    arrives: step + from.back,
                    to: request.from,
                    life: request.life,
                    number: request.number,
                    sent: request.sent,
                    reply,
                });
            }
        }
        for _ in 0..self.responses.len() {
            let Some(response) = self.responses.pop_front() else {
                break;
            };
            let sent = self.at(response.sent);
            let to = &mut self.processes[response.to];
            if response.arrives > step || to.frozen > 0 {
                self.responses.push_back(response);
                continue;
            }
            let waits = to
                .waits
                .is_some_and(|(number, _)| number == response.number);
            if response.life != to.life || !waits {
                continue;
            }
            to.waits = None;
            let next = match response.reply {
                Reply::Read(seen) => to.elector.heard(now, seen),
                Reply::Written(change, written) => to.elector.wrote(sent, now, change, written),
            };
            to.due = Some((step + steps(next.after), next.ask));
        }
    }

    fn run(&mut self) {
        let step = self.step;
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            if process.frozen > 0 {
                process.frozen -= 1;
                continue;
            }
            if let Some((_, since)) = process.waits
                && step - since >= PATIENCE
            {
                process.waits = None;
                let next = process.elector.unanswered();
                process.due = Some((step + steps(next.after), next.ask));
            }
            if let Some((at, ask)) = process.due.take() {
                if at > step {
                    process.due = Some((at, ask));
                    continue;
                }
                self.numbers += 1;
                process.waits = Some((self.numbers, step));
                if !process.deaf {
                    self.requests.push(Request {
                        arrives: step + process.there,
                        from: index,
                        life: process.life,
                        number: self.numbers,
                        sent: step,
                        ask,
                    });
                }
            }
        }
    }

    /// Whoever may act by its own clock, frozen or not: a frozen one may be thawed at any moment.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let now = self.at(self.step);
        let acting: Vec<_> = (0..self.processes.len())
            .filter_map(|index| Some((index, self.processes[index].elector.tenure(now)?)))
            .collect();
        prop_assert!(acting.len() <= 1, "two act: {acting:?}");
        if let Some((index, tenure)) = acting.first() {
            let life = self.processes[*index].life;
            match self.acted {
                Some((who, lived, fence, until)) if (who, lived) != (*index, life) => {
                    prop_assert!(tenure.fence > fence, "{tenure:?} after fence {fence}");
                    let room = now.saturating_duration_since(until);
                    prop_assert!(now >= until + PACE.room, "only {room:?} after the last");
                    self.tenures += 1;
                }
                _ => {}
            }
            self.acted = Some((*index, life, tenure.fence, tenure.until));
        }
        Ok(())
    }

    fn go(&mut self, steps: u32) -> Result<(), TestCaseError> {
        for _ in 0..steps {
            self.deliver();
            self.run();
            self.check()?;
            self.step += 1;
        }
        Ok(())
    }
}

fn steps(pause: Duration) -> u32 {
    u32::try_from(pause.as_micros().div_ceil(STEP.as_micros())).unwrap_or(u32::MAX)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn never_two_may_act_and_in_the_end_one_does(
        candidates in 2..6usize,
        troubles in prop::collection::vec((0..120u32, 0..5usize, trouble()), 1..60),
    ) {
        let mut world = World::new(candidates);
        for (pause, index, trouble) in troubles {
            world.go(pause)?;
            world.befall(index % candidates, trouble);
        }
        for index in 0..candidates {
            world.befall(index, Trouble::Mend);
            world.processes[index].frozen = 0;
        }
        // The slowest request on its way, silence for the duration, and a few looks.
        world.go(300 + 150 + 100)?;
        prop_assert!(world.acted.is_some());
        let now = world.at(world.step);
        prop_assert!(world.processes.iter().any(|one| one.elector.tenure(now).is_some()));
    }
}

/// The model is no world in which nothing happens.
#[test]
fn a_frozen_leader_is_followed_and_one_that_leaves_at_once() {
    let mut world = World::new(3);
    world.go(50).expect("is well");
    let (leader, ..) = world.acted.expect("one leads");
    world.befall(leader, Trouble::Freeze(400));
    world.go(170).expect("is well");
    let (next, ..) = world.acted.expect("one leads");
    assert_ne!(next, leader);
    assert_eq!(world.tenures, 1);
    world.befall(next, Trouble::Leave);
    assert!(world.acted.is_none());
    world.go(15).expect("is well");
    assert!(
        world.acted.is_some(),
        "nobody leads after a second and a half"
    );
}
