//! Whether this process may act, as everybody in it sees it.
//!
//! The leader's actor says it, through its [`Office`], which outlives the actor; all others hold a
//! [`Standing`]. Whoever does something in the outside world asks [`Standing::may_act`] at the moment
//! of doing it: the clock decides, not a message, so that a process that was frozen cannot act on a
//! tenure that ended meanwhile, however late it hears of it.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};
use tokio::{sync::watch, time::Instant};

/// What this process is in the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing is known of the election yet.
    Unknown,
    /// Somebody else leads, or nobody.
    Follower {
        /// Where the leader's lease API is, if there is a leader that says so.
        leader: Option<String>,
    },
    /// This process leads.
    Leader {
        /// The number of the tenure.
        fence: u64,
        /// It may act until then; for ever where nobody else could lead.
        until: Option<Instant>,
    },
}

impl Role {
    fn may_act(&self, now: Instant) -> bool {
        matches!(self, Self::Leader { until, .. } if until.is_none_or(|until| now < until))
    }
}

/// This process is not the leader, or not any more. Passes: another process is, or this one is again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process is not the leader")]
pub struct NotLeader;

/// What of an earlier tenure of this process still holds when one begins; the later, the less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Past {
    /// Everything: the tenure never ended, only the leader's actor did.
    Unbroken,
    /// What was granted, since nobody else led in between. What was seen may be stale.
    Paused,
    /// Nothing: somebody else may have led, or this is the first tenure.
    Over,
}

struct State {
    role: Role,
    /// Of the last tenure.
    fence: Option<u64>,
    /// What no services were started with yet, though a tenure began with it.
    owed: Option<Past>,
}

/// Where the role is said. Outlives the leader's actor.
pub struct Office(watch::Sender<State>);

impl Default for Office {
    fn default() -> Self {
        Self(watch::Sender::new(State {
            role: Role::Unknown,
            fence: None,
            owed: None,
        }))
    }
}

impl Office {
    /// The role as others see it.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing(self.0.subscribe())
    }

    /// The tenure that lasts yet.
    #[must_use]
    pub(super) fn tenure(&self, now: Instant) -> Option<(u64, Instant)> {
        match self.0.borrow().role {
            Role::Leader {
                fence,
                until: Some(until),
            } if now < until => Some((fence, until)),
            _ => None,
        }
    }

    /// What this process is.
    #[must_use]
    pub fn role(&self) -> Role {
        self.0.borrow().role.clone()
    }

    /// What still holds of the last tenure if one of this number begins.
    #[must_use]
    pub(super) fn past(&self, fence: u64) -> Past {
        match self.0.borrow().fence {
            // Each change of the holder is one step, so with one step or none it was ours. A record that was
            // made anew begins elsewhere.
            Some(last) if fence == last || fence == last + 1 => Past::Paused,
            _ => Past::Over,
        }
    }

    /// With what the services are to start: `past`, or less where they were to start with less before and
    /// did not. It is owed until [`Self::paid`], whatever becomes of the leader's actor.
    #[must_use]
    pub(super) fn owes(&self, past: Past) -> Past {
        let mut owed = past;
        self.0.send_if_modified(|state| {
            owed = state.owed.map_or(past, |before| before.max(past));
            state.owed = Some(owed);
            // It changes nobody's standing.
            false
        });
        owed
    }

    /// The services start with it.
    pub(super) fn paid(&self) {
        self.0.send_if_modified(|state| {
            state.owed = None;
            false
        });
    }

    /// From now on the process leads, or does so for longer; said by the leader's actor.
    pub fn leads(&self, fence: u64, until: Option<Instant>) {
        self.0.send_modify(|state| {
            state.role = Role::Leader { fence, until };
            state.fence = Some(fence);
        });
    }

    /// From now on the process does not act; said by the leader's actor.
    pub fn follows(&self, leader: Option<&str>) {
        let role = Role::Follower {
            leader: leader.map(str::to_owned),
        };
        self.0.send_if_modified(|state| {
            let changes = state.role != role;
            state.role = role;
            changes
        });
    }
}

/// Whether this process may act.
#[derive(Clone)]
pub struct Standing(watch::Receiver<State>);

impl Standing {
    /// That of a process that nobody else competes with.
    #[must_use]
    pub fn unopposed() -> Self {
        let office = Office::default();
        office.leads(0, None);
        office.standing()
    }

    /// What this process is.
    #[must_use]
    pub fn role(&self) -> Role {
        self.0.borrow().role.clone()
    }

    /// Whether it may act right now.
    #[must_use]
    pub fn may_act(&self) -> bool {
        self.0.borrow().role.may_act(Instant::now())
    }

    /// Where the leader's lease API is, if another process leads and says so.
    #[must_use]
    pub fn leader(&self) -> Option<String> {
        match &self.0.borrow().role {
            Role::Follower { leader } => leader.clone(),
            _ => None,
        }
    }

    /// Does `work` as long as the process may act: each step of it begins under a tenure that lasts, and
    /// it is dropped as soon as none does.
    ///
    /// # Errors
    /// [`NotLeader`]; how far the work came is unknown.
    pub async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, NotLeader> {
        let (mut work, mut ended) = (pin!(work), pin!(self.ended()));
        poll_fn(|cx| {
            // By the clock: after a freeze the timers may be behind the sockets.
            if !self.may_act() || ended.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(NotLeader));
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Waits until the process may not act.
    async fn ended(&self) {
        /// For a tenure without an end; a longer sleep than any process lives.
        const EVER: Duration = Duration::from_hours(24 * 365);
        let mut state = self.0.clone();
        loop {
            let role = state.borrow_and_update().role.clone();
            let now = Instant::now();
            if !role.may_act(now) {
                return;
            }
            let until = match role {
                Role::Leader {
                    until: Some(until), ..
                } => until,
                _ => now + EVER,
            };
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                // An office that is gone says nothing new any more: what it said last holds.
                Ok(()) = state.changed() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    };

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_clock_ends_a_tenure_and_no_message_has_to() {
        let office = Office::default();
        let standing = office.standing();
        assert!(!standing.may_act());
        office.leads(1, Some(Instant::now() + SECOND));
        assert!(standing.may_act());
        tokio::time::sleep(SECOND).await;
        assert!(!standing.may_act());
        assert_eq!(standing.guard(async {}).await, Err(NotLeader));
    }

    #[tokio::test(start_paused = true)]
    async fn work_is_dropped_with_the_tenure_and_goes_on_when_it_is_prolonged() {
        let office = Office::default();
        let standing = office.standing();
        let begun = Instant::now();
        office.leads(1, Some(begun + SECOND));
        let working = tokio::spawn({
            let standing = standing.clone();
            async move { standing.guard(std::future::pending::<()>()).await }
        });
        tokio::time::sleep(SECOND / 2).await;
        office.leads(1, Some(begun + 3 * SECOND));
        assert_eq!(working.await.expect("ends"), Err(NotLeader));
        assert_eq!(begun.elapsed(), 3 * SECOND);

        office.leads(1, Some(Instant::now() + SECOND));
        let working = tokio::spawn({
            let standing = standing.clone();
            async move { standing.guard(std::future::pending::<()>()).await }
        });
        tokio::task::yield_now().await;
        office.follows(None);
        let before = Instant::now();
        assert_eq!(working.await.expect("ends"), Err(NotLeader));
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    /// After a freeze the work could go on, while the timers have not been looked at yet.
    #[tokio::test(flavor = "current_thread")]
    async fn no_step_of_the_work_begins_after_the_end() {
        let office = Office::default();
        let standing = office.standing();
        let frozen = Duration::from_millis(50);
        office.leads(1, Some(Instant::now() + frozen));
        let steps = Arc::new(AtomicUsize::new(0));
        let mut guarded = pin!(standing.guard(poll_fn(|_| {
            steps.fetch_add(1, SeqCst);
            Poll::<()>::Pending
        })));
        let step = poll_fn(|cx| Poll::Ready(guarded.as_mut().poll(cx).is_ready()));
        assert!(!step.await);
        std::thread::sleep(frozen);
        let step = poll_fn(|cx| Poll::Ready(guarded.as_mut().poll(cx).is_ready()));
        assert!(step.await);
        assert_eq!(steps.load(SeqCst), 1);
    }

    #[test]
    fn what_is_owed_never_gets_better_until_it_is_paid() {
        let office = Office::default();
        assert_eq!(office.owes(Past::Paused), Past::Paused);
        assert_eq!(office.owes(Past::Over), Past::Over);
        assert_eq!(office.owes(Past::Paused), Past::Over);
        assert_eq!(office.owes(Past::Unbroken), Past::Over);
        office.paid();
        assert_eq!(office.owes(Past::Unbroken), Past::Unbroken);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_granted_holds_unless_somebody_else_led_in_between() {
        let until = Some(Instant::now() + SECOND);
        for (fences, past) in [
            (&[3][..], Past::Over),
            (&[3, 3], Past::Paused),
            (&[3, 4], Past::Paused),
            (&[3, 5], Past::Over),
            (&[3, 0], Past::Over),
        ] {
            let office = Office::default();
            let mut last = None;
            for fence in fences {
                last = Some(office.past(*fence));
                office.leads(*fence, until);
                office.follows(None);
            }
            assert_eq!(last, Some(past), "{fences:?}");
        }
    }
}
