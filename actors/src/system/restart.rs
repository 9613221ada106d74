//! When a child that ended is started again. Pure: told what happened and when, says when.

use std::{any::Any, fmt, time::Duration};
use tokio::time::Instant;

/// Why an actor ended although it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Killed or stopped from outside: not a failure of its own.
    Killed,
    /// Its handler panicked.
    Panic(String),
    /// Its handler gave up with an error.
    Error(String),
    /// It could not keep a child alive. A parent that is as impatient gives up too.
    GaveUp(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().unwrap_or("killed"))
    }
}

impl Cause {
    /// The words of a panic, which are text in all but the rarest cases.
    #[expect(clippy::needless_pass_by_value, reason = "for use in map_err")]
    pub(super) fn of_panic(panic: Box<dyn Any + Send>) -> Self {
        let text = match panic.downcast_ref::<&str>() {
            Some(text) => Some((*text).to_owned()),
            None => panic.downcast_ref::<String>().cloned(),
        };
        Self::Panic(text.unwrap_or_else(|| "panic".to_owned()))
    }

    /// The metric label.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Panic(_) => "panic",
            Self::Error(_) | Self::GaveUp(_) => "error",
        }
    }

    /// What it said; nothing when it was killed.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Killed => None,
            Self::Panic(message) | Self::Error(message) | Self::GaveUp(message) => Some(message),
        }
    }
}

/// How patient a supervisor is with its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The pause after the second failure in a row; it doubles from there. The first restart is at once.
    pub first_pause: Duration,
    /// The longest pause.
    pub last_pause: Duration,
    /// A child that lived this long is forgiven its earlier failures.
    pub forgive_after: Duration,
    /// So many failures of one child within this time are more than its parent can mend.
    pub escalate: Option<(usize, Duration)>,
}

impl Policy {
    /// For children that may stay in backoff for ever without harm to others.
    pub const PATIENT: Self = Self {
        first_pause: Duration::from_millis(100),
        last_pause: Duration::from_secs(30),
        forgive_after: Duration::from_mins(1),
        escalate: None,
    };

    /// For the services without which the process is of no use.
    pub const ESSENTIAL: Self = Self {
        escalate: Some((10, Duration::from_mins(1))),
        ..Self::PATIENT
    };
}

/// What to do about a child that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Start it again after this pause.
    Restart(Duration),
    /// It cannot be kept alive.
    Escalate,
}

/// One child's failures.
#[derive(Debug, Default)]
pub struct History {
    /// Failures in a row, with no long life between them.
    streak: u32,
    /// When it failed lately; kept only under a policy that escalates.
    recent: Vec<Instant>,
}

impl History {
    /// Failures in a row.
    #[must_use]
    pub fn streak(&self) -> u32 {
        self.streak
    }

    /// Takes in that a child born at `born` ended at `now`, and says what to do.
    pub fn ended(
        &mut self,
        policy: &Policy,
        cause: &Cause,
        born: Instant,
        now: Instant,
    ) -> Verdict {
        if now - born >= policy.forgive_after {
            self.streak = 0;
        }
        if *cause == Cause::Killed {
            return Verdict::Restart(Duration::ZERO);
        }
        self.streak += 1;
        if let Some((limit, window)) = policy.escalate {
            self.recent.retain(|then| now - *then < window);
            self.recent.push(now);
            if self.recent.len() >= limit || matches!(cause, Cause::GaveUp(_)) {
                return Verdict::Escalate;
            }
        }
        let doublings = match self.streak {
            1 => return Verdict::Restart(Duration::ZERO),
            n => (n - 2).min(20),
        };
        Verdict::Restart((policy.first_pause * 2u32.pow(doublings)).min(policy.last_pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn failed() -> Cause {
        Cause::Error("broken".into())
    }

    #[tokio::test]
    async fn the_first_restart_is_at_once_and_pauses_double_up_to_the_last() {
        let (mut history, now) = (History::default(), Instant::now());
        let pauses: Vec<_> = (0..12)
            .map(
                |_| match history.ended(&Policy::PATIENT, &failed(), now, now) {
                    Verdict::Restart(pause) => pause,
                    Verdict::Escalate => unreachable!("this policy never escalates"),
                },
            )
            .collect();
        assert_eq!(pauses[..4], [MS(0), MS(100), MS(200), MS(400)]);
        assert_eq!(pauses[9..], [MS(25_600), MS(30_000), MS(30_000)]);
    }

    #[tokio::test]
    async fn a_long_life_is_forgiveness() {
        let (mut history, born) = (History::default(), Instant::now());
        for _ in 0..5 {
            history.ended(&Policy::PATIENT, &failed(), born, born);
        }
        let later = born + Duration::from_mins(1);
        assert_eq!(
            history.ended(&Policy::PATIENT, &failed(), born, later),
            Verdict::Restart(MS(0))
        );
    }

    #[tokio::test]
    async fn a_long_life_is_forgiveness_even_if_it_ended_by_a_kill() {
        let (mut history, born) = (History::default(), Instant::now());
        for _ in 0..5 {
            history.ended(&Policy::PATIENT, &failed(), born, born);
        }
        let later = born + Duration::from_mins(1);
        history.ended(&Policy::PATIENT, &Cause::Killed, born, later);
        assert_eq!(
            history.ended(&Policy::PATIENT, &failed(), later, later),
            Verdict::Restart(MS(0))
        );
    }

    #[tokio::test]
    async fn being_killed_is_no_failure() {
        let (mut history, now) = (History::default(), Instant::now());
        for _ in 0..1000 {
            assert_eq!(
                history.ended(&Policy::ESSENTIAL, &Cause::Killed, now, now),
                Verdict::Restart(MS(0))
            );
        }
        assert_eq!(history.streak(), 0);
    }

    #[tokio::test]
    async fn ten_failures_in_a_minute_escalate_and_nine_do_not() {
        let (mut history, now) = (History::default(), Instant::now());
        for _ in 0..9 {
            assert_ne!(
                history.ended(&Policy::ESSENTIAL, &failed(), now, now),
                Verdict::Escalate
            );
        }
        let a_minute_later = now + Duration::from_mins(1);
        assert_ne!(
            history.ended(&Policy::ESSENTIAL, &failed(), now, a_minute_later),
            Verdict::Escalate
        );
        for _ in 0..8 {
            history.ended(&Policy::ESSENTIAL, &failed(), now, a_minute_later);
        }
        assert_eq!(
            history.ended(&Policy::ESSENTIAL, &failed(), now, a_minute_later),
            Verdict::Escalate
        );
    }

    #[tokio::test]
    async fn who_gave_up_on_a_child_is_given_up_by_the_impatient_and_tried_again_by_the_patient() {
        let (cause, now) = (Cause::GaveUp("a fails".into()), Instant::now());
        let verdict = |policy| History::default().ended(policy, &cause, now, now);
        assert_eq!(verdict(&Policy::ESSENTIAL), Verdict::Escalate);
        assert_eq!(verdict(&Policy::PATIENT), Verdict::Restart(MS(0)));
    }
}
