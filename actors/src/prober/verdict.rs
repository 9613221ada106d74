//! What probes come to. Pure: [`Judge::take`] is told how a probe ended and says what is news.

use super::probe::Outcome;
use crate::proxy::memory::Verdict;

/// How many results in a row flip a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Failures until unhealthy.
    pub failure: u32,
    /// Successes until healthy again.
    pub success: u32,
}

/// The results so far.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// The verdict that the proxy was told, and with it the latency that its status shows.
    told: Option<Verdict>,
    /// Results in a row that speak against the verdict.
    against: u32,
}

impl Judge {
    /// Starts from a verdict reached earlier.
    #[must_use]
    pub fn of(verdict: Option<Verdict>) -> Self {
        Self {
            told: verdict,
            against: 0,
        }
    }

    /// The verdict so far.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict> {
        self.told.as_ref()
    }

    /// Takes in how a probe ended; the verdict comes back when it is the first, when it flips, or when
    /// the latency moved so far that the status should show it.
    pub fn take(&mut self, outcome: &Outcome, thresholds: Thresholds) -> Option<Verdict> {
        let verdict = match outcome {
            Ok(latency) => Verdict {
                healthy: true,
                latency_millis: Some(u32::try_from(latency.as_millis()).unwrap_or(u32::MAX)),
                error: None,
            },
            Err(failure) => Verdict {
                healthy: false,
                latency_millis: self.told.as_ref().and_then(|v| v.latency_millis),
                error: Some(failure.message.as_str().into()),
            },
        };
        let news = match &self.told {
            None => true,
            Some(told) if told.healthy == verdict.healthy => {
                self.against = 0;
                verdict.healthy && is_material(told.latency_millis, verdict.latency_millis)
            }
            Some(_) => {
                self.against += 1;
                let threshold = if verdict.healthy {
                    thresholds.success
                } else {
                    thresholds.failure
                };
                self.against >= threshold
            }
        };
        if !news {
            return None;
        }
        self.against = 0;
        self.told = Some(verdict.clone());
        Some(verdict)
    }
}

/// More than half of what the status says, and more than 50 ms.
fn is_material(told: Option<u32>, now: Option<u32>) -> bool {
    let (Some(told), Some(now)) = (told, now) else {
        return told != now;
    };
    let change = told.abs_diff(now);
    change > 50 && u64::from(change) * 2 > u64::from(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prober::probe::{FailureKind, ProbeFailure};
    use proptest::prelude::*;
    use std::time::Duration;

    const SOON: Thresholds = Thresholds {
        failure: 3,
        success: 2,
    };

    #[expect(clippy::unnecessary_wraps, reason = "stands beside failed()")]
    fn ok(millis: u64) -> Outcome {
        Ok(Duration::from_millis(millis))
    }
    fn failed() -> Outcome {
        Err(ProbeFailure {
            kind: FailureKind::Connect,
            message: "refused".into(),
        })
    }
    fn news(judge: &mut Judge, outcome: &Outcome) -> Option<bool> {
        judge.take(outcome, SOON).map(|verdict| verdict.healthy)
    }

    #[test]
    fn the_first_probe_decides_the_first_verdict() {
        assert_eq!(news(&mut Judge::default(), &ok(5)), Some(true));
        assert_eq!(news(&mut Judge::default(), &failed()), Some(false));
    }

    #[test]
    fn only_results_in_a_row_flip_a_verdict() {
        let mut judge = Judge::default();
        news(&mut judge, &ok(5));
        for outcome in [failed(), failed(), ok(5), failed(), failed()] {
            assert_eq!(news(&mut judge, &outcome), None);
        }
        assert_eq!(news(&mut judge, &failed()), Some(false));
        assert_eq!(news(&mut judge, &ok(5)), None);
        assert_eq!(news(&mut judge, &failed()), None);
        assert_eq!(news(&mut judge, &ok(5)), None);
        assert_eq!(news(&mut judge, &ok(5)), Some(true));
    }

    #[test]
    fn latency_is_news_only_when_it_moved_by_half_and_by_50_ms() {
        for (told, now, expected) in [
            (100, 151, true),
            (100, 150, false),
            (100, 49, true),
            (100, 50, false),
            (10, 60, false),
            (10, 61, true),
            (1000, 1500, false),
            (1000, 1501, true),
            (1000, 499, true),
        ] {
            let mut judge = Judge::default();
            judge.take(&ok(told), SOON);
            assert_eq!(
                judge.take(&ok(now), SOON).is_some(),
                expected,
                "{told} → {now}"
            );
        }
    }

    #[test]
    fn an_earlier_verdict_is_believed_until_the_thresholds_are_crossed() {
        let healthy = Verdict {
            healthy: true,
            latency_millis: Some(5),
            error: None,
        };
        let mut judge = Judge::of(Some(healthy));
        assert_eq!(news(&mut judge, &failed()), None);
        assert_eq!(news(&mut judge, &failed()), None);
        assert_eq!(news(&mut judge, &failed()), Some(false));
    }

    proptest! {
        /// The naive model keeps every result and counts from the end.
        #[test]
        fn agrees_with_counting_the_tail_of_all_results(results: Vec<bool>, failure in 1u32..5, success in 1u32..5) {
            let thresholds = Thresholds { failure, success };
            let (mut judge, mut verdict, mut since) = (Judge::default(), None, 0);
            for (i, healthy) in results.iter().enumerate() {
                judge.take(&if *healthy { ok(5) } else { failed() }, thresholds);
                let tail = results[since..=i].iter().rev().take_while(|r| *r == healthy).count();
                let needed = if *healthy { success } else { failure } as usize;
                if verdict.is_none() || (verdict != Some(*healthy) && tail >= needed) {
                    (verdict, since) = (Some(*healthy), i + 1);
                }
                prop_assert_eq!(judge.verdict().map(|v| v.healthy), verdict);
            }
        }
    }
}
