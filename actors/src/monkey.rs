//! The monkey: kills actors at random for a while, to prove that it does not matter.
//!
//! Talks to: nobody but the directory, through which it kills. The admin server tells it when.
//!
//! Guarantees: one run at a time; it ends by itself. Spared are the root, the monkey and those it was
//! told to spare, so that a run can always be looked at and ended. Whom it strikes follows from the
//! seed and from who was there at each strike ([`chooser`]). Killed by somebody else, it is back
//! without a run.

pub mod chooser;
pub mod pattern;
#[cfg(test)]
mod tests;

use crate::system::{
    Actor, Broken, Context, Epoch, Reply, Work,
    directory::{Directory, End, Path},
};
use chooser::Chooser;
use pattern::Pattern;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;

/// Strikes at once, so that the monkey can be told to end between them.
const MOST: usize = 20;

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whom it may strike.
    pub pattern: Pattern,
    /// From one strike to the next.
    pub every: Duration,
    /// When it ends by itself.
    pub lasts: Duration,
    /// What the choices follow from.
    pub seed: u64,
}

/// A run, as it is seen from outside.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it is to do.
    pub plan: Plan,
    /// When it began.
    pub begun: SystemTime,
    /// When it ended, if it has.
    pub ended: Option<SystemTime>,
    /// Kills so far, by kind.
    pub kills: BTreeMap<&'static str, u64>,
}

/// A run is under way, and there is one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run is under way")]
pub struct Busy;

/// What the monkey understands.
#[derive(strum::IntoStaticStr)]
pub enum MonkeyMsg {
    /// Begin a run.
    Start(Plan, Reply<Result<Run, Busy>>),
    /// Show the run under way, or the last one.
    Show(Reply<Option<Run>>),
    /// End the run under way, and show it; or the last one.
    End(Reply<Option<Run>>),
    /// The next strike is due.
    Strike(Epoch),
}

/// The actor.
pub struct MonkeyActor {
    directory: Arc<Directory>,
    spared: Vec<Path>,
    last: Option<Run>,
    under_way: Option<UnderWay>,
    strike: Work,
}

struct UnderWay {
    chooser: Chooser,
    next: Instant,
    until: Instant,
}

impl MonkeyActor {
    /// A monkey at rest, in the tree of `directory`.
    #[must_use]
    pub fn new(directory: Arc<Directory>, spared: &[Path]) -> Self {
        Self {
            directory,
            spared: spared.to_vec(),
            last: None,
            under_way: None,
            strike: Work::default(),
        }
    }

    fn start(&mut self, plan: Plan, cx: &Context<MonkeyMsg>) -> Result<Run, Busy> {
        if self.under_way.is_some() {
            return Err(Busy);
        }
        tracing::warn!(
            pattern = %plan.pattern, every = ?plan.every, lasts = ?plan.lasts, seed = plan.seed,
            "a monkey is let loose"
        );
        let mut spared = self.spared.clone();
        spared.push(Arc::clone(cx.path()));
        let now = Instant::now();
        self.under_way = Some(UnderWay {
            chooser: Chooser::new(plan.seed, plan.pattern.clone(), spared),
            next: now,
            until: now + plan.lasts,
        });
        let run = Run {
            plan,
            begun: SystemTime::now(),
            ended: None,
            kills: BTreeMap::new(),
        };
        self.last = Some(run.clone());
        self.rearm(cx);
        Ok(run)
    }

    /// Strikes as often as is due by now: a busy machine, which comes to it late, is spared none.
    fn strike(&mut self, cx: &Context<MonkeyMsg>) {
        let (Some(under_way), Some(run)) = (&mut self.under_way, &mut self.last) else {
            return;
        };
        let now = Instant::now();
        if now >= under_way.until {
            return self.end();
        }
        for _ in 0..MOST {
            if under_way.next > now {
                break;
            }
            under_way.next += run.plan.every;
            let who = self.directory.who();
            if let Some((path, kind)) = under_way.chooser.choose(&who)
                && self.directory.end(path, End::Kill)
            {
                tracing::debug!(actor = &**path, "struck by the monkey");
                *run.kills.entry(*kind).or_default() += 1;
            }
        }
        self.rearm(cx);
    }

    fn rearm(&mut self, cx: &Context<MonkeyMsg>) {
        let Some(under_way) = &self.under_way else {
            return;
        };
        let (me, due) = (cx.me().clone(), under_way.next.min(under_way.until));
        self.strike.start(|epoch| async move {
            tokio::time::sleep_until(due).await;
            me.hint(MonkeyMsg::Strike(epoch));
        });
    }

    fn end(&mut self) {
        self.strike.abort();
        if let (Some(_), Some(run)) = (self.under_way.take(), &mut self.last) {
            run.ended = Some(SystemTime::now());
            let kills: u64 = run.kills.values().sum();
            tracing::warn!(kills, seed = run.plan.seed, "the monkey has ended");
        }
    }
}

impl Actor for MonkeyActor {
    type Msg = MonkeyMsg;
    const KIND: &'static str = "monkey";

    fn handle(&mut self, message: MonkeyMsg, cx: &mut Context<MonkeyMsg>) -> Result<(), Broken> {
        // Whoever asked may have given up; that is its affair.
        match message {
            MonkeyMsg::Start(plan, reply) => {
                reply.send(self.start(plan, cx)).ok();
            }
            MonkeyMsg::Show(reply) => {
                reply.send(self.last.clone()).ok();
            }
            MonkeyMsg::End(reply) => {
                self.end();
                reply.send(self.last.clone()).ok();
            }
            MonkeyMsg::Strike(epoch) => {
                if self.strike.finish(epoch) {
                    self.strike(cx);
                }
            }
        }
        Ok(())
    }
}
