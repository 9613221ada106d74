//! The time as the ledger is told it: it owns no clock.
//!
//! Durations are counted on a monotonic clock, so that a step of the wall clock neither ends nor prolongs anything.
//! The wall clock is there for two things only: to show a client when its lease ends, and to know after a restart
//! of the process how much of a journalled duration is left.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// The last second that RFC 3339 can write (9999-12-31T23:59:59Z), in seconds since 1970.
const LAST_SECOND: u64 = 253_402_300_799;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Which run of the monotonic clock `mono` was read on. Two moments of one life can be compared by `mono`.
    pub life: u64,
    /// Time since the start of that life.
    pub mono: Duration,
    /// The wall clock.
    pub wall: SystemTime,
}

/// The source of [`Now`]. Make one for each process and hand it to every incarnation of the ledger's actor: what was
/// journalled before the actor crashed is then resumed on the same monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    life: u64,
    start: Instant,
}

impl Clock {
    /// Starts a new life.
    #[must_use]
    pub fn start() -> Self {
        Self {
            life: rand::random(),
            start: Instant::now(),
        }
    }

    /// Reads both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        Now {
            life: self.life,
            mono: self.start.elapsed(),
            wall: SystemTime::now(),
        }
    }
}

/// When something ends, so that it can be taken up again after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The life in which it was set.
    pub life: u64,
    /// The end on that life's monotonic clock.
    pub mono: Duration,
    /// The end on the wall clock, as it went when the deadline was set.
    pub wall: SystemTime,
    /// The whole length. Never is more than this left, whatever the wall clock says after a restart.
    pub lasts: Duration,
}

impl Deadline {
    /// `lasts` from `now` on. A length that no clock can hold ends at the end of time.
    #[must_use]
    pub fn after(now: Now, lasts: Duration) -> Self {
        Self {
            life: now.life,
            mono: now.mono.saturating_add(lasts),
            wall: later(now.wall, lasts),
            lasts,
        }
    }

    /// The deadline `by` later.
    #[must_use]
    pub fn extended(self, by: Duration) -> Self {
        Self {
            life: self.life,
            mono: self.mono.saturating_add(by),
            wall: later(self.wall, by),
            lasts: self.lasts.saturating_add(by),
        }
    }

    /// The same deadline on the clocks of `now`: unchanged within one life, by what the wall clock leaves of it in
    /// another.
    #[must_use]
    pub fn resumed(self, now: Now) -> Self {
        if self.life == now.life {
            return self;
        }
        let left = self
            .wall
            .duration_since(now.wall)
            .unwrap_or_default()
            .min(self.lasts);
        Self {
            life: now.life,
            mono: now.mono.saturating_add(left),
            wall: self.wall.min(later(now.wall, left)),
            lasts: self.lasts,
        }
    }
}

/// `wall + by`, at most the last second that can be written as a date.
fn later(wall: SystemTime, by: Duration) -> SystemTime {
    let last = UNIX_EPOCH + Duration::from_secs(LAST_SECOND);
    wall.checked_add(by).map_or(last, |at| at.min(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(life: u64, mono: u64, wall: u64) -> Now {
        Now {
            life,
            mono: Duration::from_secs(mono),
            wall: UNIX_EPOCH + Duration::from_secs(wall),
        }
    }

    #[test]
    fn resuming_reads_the_clock_that_can_be_trusted() {
        let deadline = Deadline::after(at(1, 10, 1000), Duration::from_secs(60));
        for (what, now, left) in [
            ("same life, clock stepped forward", at(1, 20, 9000), 50),
            ("same life, clock stepped back", at(1, 20, 1), 50),
            ("next life, 20 s later", at(2, 3, 1020), 40),
            ("next life, long after", at(2, 3, 5000), 0),
            (
                "next life, clock set back: not more than all of it",
                at(2, 3, 1),
                60,
            ),
        ] {
            let resumed = deadline.resumed(now);
            assert_eq!(
                resumed.mono.checked_sub(now.mono),
                Some(Duration::from_secs(left)),
                "{what}"
            );
        }
    }

    #[test]
    fn no_length_overflows_a_clock() {
        let deadline = Deadline::after(at(1, 10, 1000), Duration::MAX);
        assert_eq!(deadline.mono, Duration::MAX);
        assert_eq!(deadline.wall, UNIX_EPOCH + Duration::from_secs(LAST_SECOND));
        assert_eq!(
            deadline.resumed(at(2, 5, 0)).mono,
            Duration::from_secs(LAST_SECOND + 5)
        );
    }
}
