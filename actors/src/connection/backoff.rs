//! When to dial again. Pure: told what happened and when, says how long to wait.

use crate::proxy::pace::jitter;
use std::time::Duration;
use tokio::time::Instant;

/// The pause after the first failure; it doubles from there.
const FIRST: Duration = Duration::from_millis(500);
/// The longest pause.
const LAST: Duration = Duration::from_secs(15);
/// A session that did not live this long is no proof that the next one will be better.
const YOUNG: Duration = LAST;

/// The failures since the last success.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    not_before: Option<Instant>,
}

impl Backoff {
    /// A dial failed. `chance` in 0..1 spreads the pause, so that what failed together does not come
    /// back together.
    pub fn failed(&mut self, now: Instant, chance: f64) {
        let doublings = self.failures.min(16);
        let pause = (FIRST * 2u32.pow(doublings)).min(LAST);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + jitter(pause, chance));
    }

    /// A dial succeeded, or failed in such a way that the next may be made at any time.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// A session was lost that had lived this long: only a young one is a reason to wait.
    pub fn lost(&mut self, lived: Duration, now: Instant, chance: f64) {
        if lived < YOUNG {
            self.failed(now, chance);
        }
    }

    /// How long the next dial has to wait still.
    pub fn pause(&self, now: Instant) -> Duration {
        self.not_before
            .map_or(Duration::ZERO, |then| then.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_double_from_half_a_second_to_fifteen_within_a_tenth() {
        for (chance, factor) in [(0.0, 0.9), (0.5, 1.0), (1.0, 1.1)] {
            let (mut backoff, now) = (Backoff::default(), Instant::now());
            assert_eq!(backoff.pause(now), Duration::ZERO);
            for full in [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0] {
                backoff.failed(now, chance);
                let pause = backoff.pause(now).as_secs_f64();
                assert!((pause - full * factor).abs() < 1e-6, "{pause} for {full}");
            }
        }
        let mut many = Backoff::default();
        (0..100).for_each(|_| many.failed(Instant::now(), 0.5));
        assert_eq!(many.pause(Instant::now()), LAST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_passes_and_success_ends_it() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        backoff.failed(now, 0.5);
        assert_eq!(backoff.pause(now + FIRST / 2), FIRST / 2);
        assert_eq!(backoff.pause(now + LAST), Duration::ZERO);
        backoff.failed(now, 0.5);
        backoff.reset();
        assert_eq!(backoff.pause(now), Duration::ZERO);
        backoff.failed(now, 0.5);
        assert_eq!(backoff.pause(now), FIRST);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_loss_of_a_young_session_is_a_reason_to_wait() {
        let now = Instant::now();
        for (lived, pause) in [
            (Duration::ZERO, FIRST),
            (YOUNG.mul_f64(0.999), FIRST),
            (YOUNG, Duration::ZERO),
        ] {
            let mut backoff = Backoff::default();
            backoff.lost(lived, now, 0.5);
            assert_eq!(backoff.pause(now), pause, "{lived:?}");
        }
    }
}
