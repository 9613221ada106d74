//! When to look again.

use std::time::Duration;

/// The intervals of a Proxy's life.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Before the first look at an instance whose creation goes on after it was accepted.
    pub accepted: Duration,
    /// Between two looks at an instance on its way up.
    pub provisioning: Duration,
    /// Between two looks at an instance on its way out.
    pub deletion: Duration,
    /// Between two looks at a running instance.
    pub drift: Duration,
    /// Before another try where the backend had no room.
    pub quota: Duration,
    /// After the first error; doubles up to `last_backoff`.
    pub first_backoff: Duration,
    /// The longest pause after errors.
    pub last_backoff: Duration,
    /// Before an instance that vanished is created again.
    pub recreate: Duration,
    /// After so many instances that never showed up, a further one waits for the quota interval.
    pub patience: u32,
}

/// The intervals that users rely on.
pub const DEFAULT: &Pace = &Pace {
    accepted: Duration::from_secs(1),
    provisioning: Duration::from_secs(10),
    deletion: Duration::from_secs(10),
    drift: Duration::from_mins(2),
    quota: Duration::from_mins(5),
    first_backoff: Duration::from_secs(1),
    last_backoff: Duration::from_mins(5),
    recreate: Duration::from_secs(1),
    patience: 5,
};

impl Pace {
    /// The pause after the `failures`th error in a row. `chance` in 0..1 spreads it over the upper half,
    /// so that a fleet that failed together does not come back together.
    #[must_use]
    pub fn backoff(&self, failures: u32, chance: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        let full = (self.first_backoff * 2u32.pow(doublings)).min(self.last_backoff);
        full.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0)
    }

    /// The drift interval ± 10 %.
    #[must_use]
    pub fn drift(&self, chance: f64) -> Duration {
        jitter(self.drift, chance)
    }
}

/// `interval` ± 10 %, by `chance` in 0..1.
#[must_use]
pub fn jitter(interval: Duration, chance: f64) -> Duration {
    interval.mul_f64(0.9 + 0.2 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_from_a_second_to_five_minutes_within_its_upper_half() {
        let pace = DEFAULT;
        let seconds = |failures, chance| pace.backoff(failures, chance).as_secs_f64();
        for (failures, full) in [
            (1, 1.0),
            (2, 2.0),
            (9, 256.0),
            (10, 300.0),
            (u32::MAX, 300.0),
        ] {
            assert!((seconds(failures, 1.0) - full).abs() < 1e-9);
            assert!((seconds(failures, 0.0) - full / 2.0).abs() < 1e-9);
        }
    }

    #[test]
    fn drift_stays_within_a_tenth() {
        let pace = DEFAULT;
        assert!((pace.drift(0.0).as_secs_f64() - 108.0).abs() < 1e-6);
        assert!((pace.drift(1.0).as_secs_f64() - 132.0).abs() < 1e-6);
    }
}
