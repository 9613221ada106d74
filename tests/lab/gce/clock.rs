//! The time of the stand-in, which a test sets.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Since 1970, in the stand-in's own time.
pub type Time = Duration;

/// Goes with the real time at some speed, and forward when it is told to.
pub struct Clock(Mutex<Hand>);

struct Hand {
    /// What it showed at `since`.
    shown: Time,
    since: Instant,
    speed: f64,
}

impl Clock {
    /// One that shows the real time now and goes `speed` times as fast; 0 stands still.
    pub fn new(speed: f64) -> Self {
        let shown = SystemTime::now().duration_since(UNIX_EPOCH);
        Self(Mutex::new(Hand {
            // A machine whose clock is before 1970 has other troubles.
            shown: shown.unwrap_or_default(),
            since: Instant::now(),
            speed: speed.max(0.0),
        }))
    }

    /// What it shows.
    pub fn now(&self) -> Time {
        self.with(|hand| hand.shown)
    }

    /// Sets it forward.
    pub fn advance(&self, by: Duration) {
        self.with(|hand| hand.shown += by);
    }

    /// From now on it goes `speed` times as fast as the real time.
    pub fn set_speed(&self, speed: f64) {
        self.with(|hand| hand.speed = speed.max(0.0));
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Hand) -> T) -> T {
        // Every change is complete in itself.
        let mut hand = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = now.duration_since(hand.since).mul_f64(hand.speed);
        hand.shown += passed;
        hand.since = now;
        use_it(&mut hand)
    }
}

/// As Google writes a time: milliseconds, in Pacific Standard Time.
pub fn written(time: Time) -> String {
    let there = UNIX_EPOCH + time.saturating_sub(Duration::from_hours(8));
    let utc = humantime::format_rfc3339_millis(there).to_string();
    format!("{}-08:00", utc.trim_end_matches('Z'))
}
