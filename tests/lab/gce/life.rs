//! The life of an instance as a plan over time, so that its state is a question about a moment.

use super::clock::Time;
use std::time::Duration;

/// How long things take, in the stand-in's time.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// An operation is PENDING for so long after it was accepted.
    pub pending: Duration,
    /// An instance can be read so long after it was accepted; until then it is 404.
    pub appears: Duration,
    /// A list shows an instance so long after a `get` does.
    pub listed: Duration,
    /// PROVISIONING becomes STAGING so long after it was accepted.
    pub staging: Duration,
    /// STAGING becomes RUNNING so long after it was accepted; the insert is DONE then.
    pub running: Duration,
    /// Addresses are there so long after RUNNING; usually they come with STAGING.
    pub addresses: Duration,
    /// An instance is gone so long after a delete was accepted; the delete is DONE then.
    pub gone: Duration,
    /// An instance is TERMINATED so long after a stop was accepted.
    pub stopped: Duration,
    /// An operation that fails is DONE so long after it was accepted.
    pub failed: Duration,
}

impl Default for Pace {
    /// About what Google takes.
    fn default() -> Self {
        Self {
            pending: Duration::from_millis(700),
            appears: Duration::from_millis(300),
            listed: Duration::ZERO,
            staging: Duration::from_secs(3),
            running: Duration::from_secs(9),
            addresses: Duration::ZERO,
            gone: Duration::from_secs(25),
            stopped: Duration::from_secs(20),
            failed: Duration::from_secs(4),
        }
    }
}

/// What becomes of an instance.
#[derive(Clone, Debug)]
pub struct Life {
    /// When it can be read, by `get`.
    appears: Time,
    /// When a list shows it.
    listed: Time,
    /// From when on it has addresses.
    addresses: Time,
    /// Since when it is in which status; the earliest first.
    stages: Vec<(Time, String)>,
    /// From when on there is nothing of it.
    gone: Option<Time>,
}

impl Life {
    /// Of one that is accepted now.
    pub fn begin(now: Time, pace: &Pace) -> Self {
        let appears = now + pace.appears;
        let addresses = if pace.addresses.is_zero() {
            now + pace.staging
        } else {
            now + pace.running + pace.addresses
        };
        Self {
            appears,
            listed: appears + pace.listed,
            addresses,
            stages: vec![
                (now, "PROVISIONING".into()),
                (now + pace.staging, "STAGING".into()),
                (now + pace.running, "RUNNING".into()),
            ],
            gone: None,
        }
    }

    /// Of one that is accepted now, but never comes to be: its name is taken until then.
    pub fn stillborn(now: Time, pace: &Pace) -> Self {
        let end = now + pace.failed;
        Self {
            appears: end,
            listed: end,
            gone: Some(end),
            ..Self::begin(now, pace)
        }
    }

    /// Of one that is running since long ago.
    pub fn running(since: Time) -> Self {
        Self {
            appears: since,
            listed: since,
            addresses: since,
            stages: vec![(since, "RUNNING".into())],
            gone: None,
        }
    }

    /// From `at` on it is in this status, and nothing else happens to it.
    pub fn turn(&mut self, at: Time, status: &str) {
        self.stages.retain(|(since, _)| *since < at);
        self.stages.push((at, status.into()));
    }

    /// It is stopped, beginning now.
    pub fn stop(&mut self, now: Time, pace: &Pace) {
        self.turn(now + pace.pending, "STOPPING");
        let end = (now + pace.stopped, "TERMINATED".into());
        self.stages.push(end);
    }

    /// It is deleted, beginning now.
    pub fn delete(&mut self, now: Time, pace: &Pace) {
        self.turn(now + pace.pending, "STOPPING");
        self.gone = Some(now + pace.gone);
    }

    /// It is gone at once.
    pub fn vanish(&mut self, now: Time) {
        self.gone = Some(now);
    }

    /// Whether it is being deleted.
    pub fn is_ending(&self) -> bool {
        self.gone.is_some()
    }

    /// Whether nothing is left of it, not even a claim to its name.
    pub fn is_over(&self, now: Time) -> bool {
        self.gone.is_some_and(|gone| gone <= now)
    }

    /// Whether a `get` finds it.
    pub fn is_there(&self, now: Time) -> bool {
        self.appears <= now && !self.is_over(now)
    }

    /// Whether a list shows it.
    pub fn is_listed(&self, now: Time) -> bool {
        self.listed <= now && self.is_there(now)
    }

    /// Its status.
    pub fn status(&self, now: Time) -> &str {
        let current = self.stages.iter().rev().find(|(since, _)| *since <= now);
        current
            .or(self.stages.first())
            .map_or("PROVISIONING", |(_, status)| status)
    }

    /// Whether it has its external address; one that is stopped has lost it.
    pub fn has_address(&self, now: Time) -> bool {
        let lost = ["TERMINATED", "STOPPED", "SUSPENDED"].contains(&self.status(now));
        self.addresses <= now && !lost
    }

    /// When it was RUNNING for the first time, if it was.
    pub fn started(&self, now: Time) -> Option<Time> {
        let running = self.stages.iter().find(|(_, status)| status == "RUNNING");
        running
            .map(|(since, _)| *since)
            .filter(|since| *since <= now)
    }
}
