//! Who leads. Pure: told what was read and written and when, says what to do next and until when
//! this process may act.
//!
//! Two processes never act at once, by two clocks that are never compared with each other:
//!
//! - The holder counts its tenure from *before* the request that renewed it was sent, and acts for
//!   [`Pace::acts`] from there.
//! - The others count how long the record stood still, from when *they* read it, and take it over after the
//!   duration that the holder wrote into it, which is [`Pace::room`] longer.
//!
//! Since the renewal was sent before anybody can have read it, the holder's count began earlier and ends
//! earlier. In the room between the two it ends what it has under way.
//!
//! Stillness is only counted while the record could be heard to change: the time in which the API server
//! does not answer, or the process itself is frozen, is nobody's silence. So an outage of the API
//! server makes no new leader, and what the old one had sent before has arrived when there is one.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use super::election::{Change, Record, Seen, Version, Written};
use std::time::Duration;
use tokio::time::Instant;

/// How the time is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a holder acts on one renewal, from before it was sent.
    pub acts: Duration,
    /// How much longer the others wait: in it the holder's actors end, and what they sent arrives.
    pub room: Duration,
    /// From one renewal to the next.
    pub renews: Duration,
    /// From one look of another candidate to the next, and before another try.
    pub looks: Duration,
    /// Two looks further apart than this do not count as silence of the holder.
    pub attention: Duration,
}

impl Pace {
    /// Five renewals within a tenure. A leader that says goodbye is followed within a second, one that dies
    /// within sixteen.
    pub const DEFAULT: Self = Self {
        acts: Duration::from_secs(10),
        room: Duration::from_secs(5),
        renews: Duration::from_secs(2),
        looks: Duration::from_secs(1),
        // A look and the longest wait for its answer.
        attention: Duration::from_secs(4),
    };

    /// What a holder writes into the record.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.acts + self.room
    }
}

/// Who this process is to the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Unlike any other process's, a restarted one of the same host included.
    pub identity: String,
    /// Where its lease API is reached, as `host:port`.
    pub address: String,
}

/// What to ask of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// What does it say?
    Read,
    /// Let it say this.
    Write(Change),
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// What to ask.
    pub ask: Ask,
    /// Not before this pause is over.
    pub after: Duration,
}

/// The right to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// Its number.
    pub fence: u64,
    /// When it ends unless it is prolonged.
    pub until: Instant,
}

/// The record as it was seen last.
#[derive(Debug)]
struct Sight {
    /// None when it was gone.
    version: Option<Version>,
    record: Record,
    heard: Instant,
    /// How long it was listened to without a change.
    silence: Duration,
}

/// One candidate's view of the election.
#[derive(Debug)]
pub struct Elector {
    me: Candidate,
    pace: Pace,
    sight: Option<Sight>,
    tenure: Option<Tenure>,
    first: fn() -> u64,
}

impl Elector {
    /// A candidate that knows nothing yet but its own tenure, if one lasts from an earlier life. It reads
    /// first. A record that it makes begins with the fence `first()` at least: not with one that an earlier record may
    /// have had, or the tenures of two records would seem to follow on each other.
    #[must_use]
    pub fn new(me: Candidate, pace: Pace, tenure: Option<Tenure>, first: fn() -> u64) -> Self {
        Self {
            me,
            pace,
            sight: None,
            tenure,
            first,
        }
    }

    /// The tenure, if it lasts.
    #[must_use]
    pub fn tenure(&self, now: Instant) -> Option<Tenure> {
        self.tenure.filter(|tenure| now < tenure.until)
    }

    /// Who else leads, as far as is known.
    #[must_use]
    pub fn leader(&self) -> Option<&Record> {
        let record = &self.sight.as_ref()?.record;
        (record.holder.is_some() && !self.is_mine(record)).then_some(record)
    }

    /// The record was read at `now`.
    pub fn heard(&mut self, now: Instant, seen: Option<Seen>) -> Next {
        self.look(now, seen);
        let Some(sight) = &self.sight else {
            return at_once(self.take(0, None));
        };
        let record = &sight.record;
        let Some(holder) = &record.holder else {
            return at_once(self.take(record.fence + 1, sight.version.clone()));
        };
        if *holder == self.me.identity {
            return match &sight.version {
                Some(version) => at_once(self.renew(record.fence, version.clone())),
                None => at_once(self.take(record.fence + 1, None)),
            };
        }
        let expired = sight.silence >= record.duration;
        let take = expired.then(|| self.take(record.fence + 1, sight.version.clone()));
        // Whoever holds it now took it over after ours had ended, or somebody meddled: it is theirs.
        self.tenure = None;
        take.map_or_else(|| self.look_later(), at_once)
    }

    /// A change that was sent at `sent` was answered at `now`.
    pub fn wrote(&mut self, sent: Instant, now: Instant, change: Change, written: Written) -> Next {
        match written {
            Written::Done(version) => {
                let fence = change.record.fence;
                self.sight = Some(Sight {
                    version: Some(version.clone()),
                    record: change.record,
                    heard: now,
                    silence: Duration::ZERO,
                });
                self.tenure = Some(Tenure {
                    fence,
                    until: sent + self.pace.acts,
                });
                Next {
                    ask: self.renew(fence, version),
                    after: self.pace.renews.saturating_sub(now - sent),
                }
            }
            // Who else wants the record had it first.
            Written::Conflict if change.begins => self.look_later(),
            Written::Conflict => at_once(Ask::Read),
        }
    }

    /// There was no answer: what was asked may have been done, or may yet be. The record tells.
    #[must_use]
    pub fn unanswered(&self) -> Next {
        self.look_later()
    }

    /// How the leadership is given back: the change to make, if the record is still this process's.
    #[must_use]
    pub fn resign(&self, seen: Seen) -> Option<Change> {
        let mine = self.is_mine(&seen.record);
        mine.then_some(Change {
            record: Record {
                holder: None,
                address: None,
                ..seen.record
            },
            on: Some(seen.version),
            begins: false,
        })
    }

    fn is_mine(&self, record: &Record) -> bool {
        record.holder.as_deref() == Some(&self.me.identity)
    }

    fn look(&mut self, now: Instant, seen: Option<Seen>) {
        let (version, record) = match (seen, self.sight.take()) {
            (None, None) => return,
            (Some(seen), None) => (Some(seen.version), seen.record),
            (seen, Some(before)) => {
                let still = seen
                    .as_ref()
                    .is_none_or(|seen| Some(&seen.version) == before.version.as_ref());
                let (version, record) = match seen {
                    Some(seen) => (Some(seen.version), seen.record),
                    // That the record is gone is no sign of life of its holder, nor of its end.
                    None => (None, before.record),
                };
                if still {
                    let gap = now - before.heard;
                    let counts = gap <= self.pace.attention;
                    let silence = before.silence + if counts { gap } else { Duration::ZERO };
                    self.sight = Some(Sight {
                        version,
                        record,
                        heard: now,
                        silence,
                    });
                    return;
                }
                (version, record)
            }
        };
        self.sight = Some(Sight {
            version,
            record,
            heard: now,
            silence: Duration::ZERO,
        });
    }

    fn record(&self, fence: u64) -> Record {
        Record {
            holder: Some(self.me.identity.clone()),
            address: Some(self.me.address.clone()),
            duration: self.pace.duration(),
            fence,
        }
    }

    fn take(&self, fence: u64, on: Option<Version>) -> Ask {
        // Between two records there may have been another that was never seen.
        let fence = match on {
            Some(_) => fence,
            None => fence.max((self.first)()),
        };
        Ask::Write(Change {
            record: self.record(fence),
            on,
            begins: true,
        })
    }

    fn renew(&self, fence: u64, on: Version) -> Ask {
        Ask::Write(Change {
            record: self.record(fence),
            on: Some(on),
            begins: false,
        })
    }

    fn look_later(&self) -> Next {
        Next {
            ask: Ask::Read,
            after: self.pace.looks,
        }
    }
}

fn at_once(ask: Ask) -> Next {
    Next {
        ask,
        after: Duration::ZERO,
    }
}
