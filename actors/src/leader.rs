//! The leader: the right to act, and the parent of all that needs it.
//!
//! Talks to: the record of the election, through [`election::Election`], and everybody in the process
//! who asks whether it may act, through [`standing`].
//!
//! Guarantees:
//! - The services run only while this process leads. Given up in order, they are stopped in the reverse
//!   order of their plan, each when the next has ended, and only then is the leadership given back. Lost,
//!   they are killed at once, and the process goes on as a follower.
//! - Nobody acts for a moment longer than the tenure lasts, whatever this actor has noticed: see
//!   [`standing`], and [`elector`] for why no two processes have a tenure at a time.
//! - A leader that is killed and started again goes on with its tenure, and with what it had yet to forget.
//! - A service that fails ten times in a minute ends the process.

pub mod election;
pub mod elector;
pub mod standing;
#[cfg(test)]
mod tests;

use crate::system::{Actor, Addr, Broken, ChildSpec, Context, Epoch, Policy, Reply, Work};
use election::{Change, Election, Seen, Unanswered, Written};
use elector::{Ask, Candidate, Elector, Next, Pace, Tenure};
use futures::{FutureExt as _, future::BoxFuture};
use standing::{Office, Past};
use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::time::Instant;

/// How long giving the leadership back may take: less than others wait for one that just vanished, and
/// within the time in which the process has to be gone.
const FAREWELL: Duration = Duration::from_secs(2);
/// Between two tries of it.
const AGAIN: Duration = Duration::from_millis(100);

/// 2020-01-01T00:00:00Z.
const FENCES_SINCE: Duration = Duration::from_hours(24 * (50 * 365 + 12));

/// Makes the services of a leader, in the order in which they start; called whenever they are to start.
pub type Services = Arc<dyn Fn(Past) -> Vec<ChildSpec> + Send + Sync>;

/// What the leader understands.
#[derive(strum::IntoStaticStr)]
pub enum LeaderMsg {
    /// Do the services run?
    Serves(Reply<bool>),
    /// What became of a question to the record.
    Answered(Epoch, Answer),
    /// The tenure ends now unless it was prolonged.
    Lapsed(Epoch),
    /// The services of the last tenure have ended.
    Cleared(Epoch),
}

/// What became of a question to the record.
pub enum Answer {
    /// It was read.
    Read(Option<Seen>),
    /// A change that was sent at this time was answered.
    Written(Instant, Change, Written),
    /// There was no answer.
    None(Unanswered),
}

/// What the leader is made of at every start.
pub struct LeaderDeps {
    /// Where it says what the process is.
    pub office: Office,
    /// What it starts.
    pub services: Services,
    /// The election; none where nobody else could lead.
    pub candidacy: Option<Candidacy>,
}

/// A part in an election.
pub struct Candidacy {
    /// The record.
    pub election: Arc<dyn Election>,
    /// As whom.
    pub me: Candidate,
    /// How the time is divided.
    pub pace: Pace,
}

/// The actor.
pub struct LeaderActor {
    deps: Arc<LeaderDeps>,
    campaign: Option<Campaign>,
    /// Whether the services were started and not killed since.
    serves: bool,
    /// Waits until the services of the last tenure have ended.
    clearing: Work,
}

/// The election as it goes on.
struct Campaign {
    election: Arc<dyn Election>,
    elector: Elector,
    asking: Work,
    lapse: Work,
    /// Whether the last question got no answer; said once.
    deaf: bool,
}

impl LeaderActor {
    /// The parent of the services, or of nobody as long as others lead.
    #[must_use]
    pub fn new(deps: Arc<LeaderDeps>) -> Self {
        let campaign = deps.candidacy.as_ref().map(|candidacy| {
            let tenure = deps.office.tenure(Instant::now());
            let tenure = tenure.map(|(fence, until)| Tenure { fence, until });
            Campaign {
                election: Arc::clone(&candidacy.election),
                elector: Elector::new(candidacy.me.clone(), candidacy.pace, tenure, first_fence),
                asking: Work::default(),
                lapse: Work::default(),
                deaf: false,
            }
        });
        Self {
            deps,
            campaign,
            serves: false,
            clearing: Work::default(),
        }
    }

    /// Starts or kills the services as the tenure says, and says so.
    fn settle(&mut self, cx: &mut Context<LeaderMsg>) {
        let Some(campaign) = &mut self.campaign else {
            return;
        };
        let me = cx.me().clone();
        if let Some(Tenure { fence, until }) = campaign.elector.tenure(Instant::now()) {
            let past = self.deps.office.past(fence);
            self.deps.office.leads(fence, Some(until));
            campaign.lapse.start(|epoch| async move {
                tokio::time::sleep_until(until).await;
                me.hint(LeaderMsg::Lapsed(epoch));
            });
            if !self.serves {
                tracing::info!(fence, "leads");
                self.begin(past, cx);
            }
            return;
        }
        let leader = campaign.elector.leader();
        let address = leader.and_then(|record| record.address.as_deref());
        let before = self.deps.office.role();
        self.deps.office.follows(address);
        if before != self.deps.office.role() {
            let holder = leader.and_then(|record| record.holder.as_deref());
            tracing::info!(leader = holder, address, "follows");
        }
        if !self.serves {
            return;
        }
        tracing::warn!("does not lead any more: all that acts is killed");
        self.serves = false;
        // While the last ones are still ending, no new ones were started.
        if !self.clearing.is_under_way() {
            let gone = cx.kill_children();
            self.clearing.start(|epoch| async move {
                gone.await;
                me.hint(LeaderMsg::Cleared(epoch));
            });
        }
    }

    fn begin(&mut self, past: Past, cx: &mut Context<LeaderMsg>) {
        self.serves = true;
        // Kept outside of this actor, which may be killed before the last services have ended.
        let past = self.deps.office.owes(past);
        if !self.clearing.is_under_way() {
            for service in (self.deps.services)(past) {
                cx.start(service);
            }
            self.deps.office.paid();
        }
    }

    fn ask(&mut self, next: Next, me: &Addr<LeaderMsg>) {
        let Some(campaign) = &mut self.campaign else {
            return;
        };
        let (election, me) = (Arc::clone(&campaign.election), me.clone());
        campaign.asking.start(|epoch| async move {
            tokio::time::sleep(next.after).await;
            let asked = AssertUnwindSafe(answer(election.as_ref(), next.ask));
            // Without an answer nothing would be asked any more.
            let answer = asked.catch_unwind().await.unwrap_or_else(|_| {
                Answer::None(Unanswered("the call to the API server panicked".into()))
            });
            me.hint(LeaderMsg::Answered(epoch, answer));
        });
    }

    fn answered(&mut self, answer: Answer, cx: &mut Context<LeaderMsg>) {
        let Some(campaign) = &mut self.campaign else {
            return;
        };
        let (elector, now) = (&mut campaign.elector, Instant::now());
        // That there is no record says little: where none can be made, every other answer is that.
        let tells = !matches!(answer, Answer::Read(None));
        let next = match answer {
            Answer::Read(seen) => elector.heard(now, seen),
            Answer::Written(sent, change, written) => elector.wrote(sent, now, change, written),
            Answer::None(Unanswered(error)) => {
                if !std::mem::replace(&mut campaign.deaf, true) {
                    tracing::warn!(error, "nothing is heard of the record of the election");
                }
                let next = elector.unanswered();
                self.settle(cx);
                return self.ask(next, cx.me());
            }
        };
        if tells && std::mem::take(&mut campaign.deaf) {
            tracing::info!("the record of the election is heard of again");
        }
        self.settle(cx);
        self.ask(next, cx.me());
    }
}

/// The fence of a record that is made now: the seconds since 2020. A record rises more slowly than that, so
/// that one made anew repeats none of an earlier one's, and what a Lease keeps it in is enough until 2088.
fn first_fence() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH + FENCES_SINCE)
        .map_or(0, |since| since.as_secs())
}

async fn answer(election: &dyn Election, ask: Ask) -> Answer {
    // A tenure counts from here, before anybody can have seen the renewal.
    let sent = Instant::now();
    match ask {
        Ask::Read => election
            .read()
            .await
            .map_or_else(Answer::None, Answer::Read),
        Ask::Write(change) => match election.write(change.clone()).await {
            Ok(written) => Answer::Written(sent, change, written),
            Err(error) => Answer::None(error),
        },
    }
}

/// Gives the leadership back, so that nobody has to wait for the end of the tenure.
async fn give_back(election: Arc<dyn Election>, elector: Elector) {
    loop {
        // Always read first: a renewal that was under way may have been done or not.
        if let Ok(seen) = election.read().await {
            let Some(change) = seen.and_then(|seen| elector.resign(seen)) else {
                return;
            };
            if let Ok(Written::Done(_)) = election.write(change).await {
                tracing::info!("gave the leadership back");
                return;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

impl Actor for LeaderActor {
    type Msg = LeaderMsg;
    const KIND: &'static str = "leader";
    const POLICY: Policy = Policy::ESSENTIAL;

    fn started(&mut self, cx: &mut Context<LeaderMsg>) -> Result<(), Broken> {
        let Some(campaign) = &self.campaign else {
            self.deps.office.leads(0, None);
            self.begin(Past::Unbroken, cx);
            return Ok(());
        };
        if campaign.elector.tenure(Instant::now()).is_some() {
            tracing::info!("goes on leading");
            self.begin(Past::Unbroken, cx);
            self.settle(cx);
        }
        let first = Next {
            ask: Ask::Read,
            after: Duration::ZERO,
        };
        self.ask(first, cx.me());
        Ok(())
    }

    fn handle(&mut self, message: LeaderMsg, cx: &mut Context<LeaderMsg>) -> Result<(), Broken> {
        match message {
            LeaderMsg::Serves(reply) => {
                reply.send(self.serves).ok();
            }
            LeaderMsg::Answered(epoch, answer) => {
                let asking = self.campaign.as_mut().map(|campaign| &mut campaign.asking);
                if asking.is_some_and(|asking| asking.finish(epoch)) {
                    self.answered(answer, cx);
                }
            }
            LeaderMsg::Lapsed(epoch) => {
                let lapse = self.campaign.as_mut().map(|campaign| &mut campaign.lapse);
                if lapse.is_some_and(|lapse| lapse.finish(epoch)) {
                    self.settle(cx);
                }
            }
            LeaderMsg::Cleared(epoch) => {
                if self.clearing.finish(epoch) && self.serves {
                    self.begin(Past::Unbroken, cx);
                }
            }
        }
        Ok(())
    }

    fn stopping(&mut self, _: &mut Context<LeaderMsg>) {
        // The record stays as it is until the services have ended; the tenure is long enough for that.
        if let Some(campaign) = &mut self.campaign {
            campaign.asking.abort();
        }
    }

    fn farewell(&mut self) -> Option<BoxFuture<'static, ()>> {
        let campaign = self.campaign.take()?;
        // From here on nothing passes the gates, whoever is still there.
        self.deps.office.follows(None);
        let give_back = give_back(campaign.election, campaign.elector);
        Some(Box::pin(async move {
            if tokio::time::timeout(FAREWELL, give_back).await.is_err() {
                tracing::warn!("could not give the leadership back");
            }
        }))
    }
}
