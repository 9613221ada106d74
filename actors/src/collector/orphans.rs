//! Which instances are orphans. Pure: told what a provider lists and which Proxies existed after that.
//!
//! Two questions are kept apart. *Whose is it?* decides whether an instance may go at all: it stays if any
//! Proxy that exists has its UID, or would give its instance this name, so that a deletion which comes late
//! cannot hit a successor. *How old is it?* only puts off what would go anyway, and so may rest on clocks
//! that are wrong.

use crate::provider::contract::{Instance, ProviderId, instance_name};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use tokio::time::Instant;

/// The Proxies that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    uids: HashSet<String>,
    /// What their instances are called.
    names: HashSet<String>,
    /// Whether they are those of all namespaces.
    pub everywhere: bool,
}

impl Live {
    /// Proxies with these UIDs, in all namespaces (`everywhere`) or in the operator's own.
    #[must_use]
    pub fn new(uids: HashSet<String>, everywhere: bool) -> Self {
        Self {
            names: uids.iter().map(|uid| instance_name(uid)).collect(),
            uids,
            everywhere,
        }
    }

    fn owns(&self, instance: &Instance) -> bool {
        self.uids.contains(&instance.uid) || self.names.contains(instance.name())
    }
}

/// What instances are judged by.
pub(super) struct Judge<'a> {
    pub installation: &'a str,
    pub live: &'a Live,
    pub min_age: Duration,
    /// Seconds since the Unix epoch, as this machine has it.
    pub wall: i64,
    pub now: Instant,
}

/// What became of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdicts {
    /// Nobody's, and old enough to go.
    pub orphans: Vec<ProviderId>,
    /// How many have a Proxy.
    pub live: usize,
    /// How many are nobody's, and young.
    pub young: usize,
    /// How many belong to another installation, or do not say.
    pub foreign: usize,
}

/// The orphans of one provider that are known already.
#[derive(Debug, Default)]
pub(super) struct Orphans(HashMap<ProviderId, Known>);

#[derive(Clone, Copy, Debug)]
struct Known {
    /// When it was first found to be nobody's.
    since: Instant,
    /// It was told to go.
    told: bool,
}

impl Orphans {
    /// Judges all that a provider has now.
    pub fn judge(&mut self, listed: &[Instance], by: &Judge<'_>) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let mut known = HashMap::new();
        for instance in listed {
            if instance.installation != by.installation {
                verdicts.foreign += 1;
                continue;
            }
            if by.live.owns(instance) {
                verdicts.live += 1;
                continue;
            }
            let new = Known {
                since: by.now,
                told: false,
            };
            let orphan = self.0.get(&instance.id).copied().unwrap_or(new);
            known.insert(instance.id.clone(), orphan);
            if is_old(instance.created_at, orphan.since, by) {
                verdicts.orphans.push(instance.id.clone());
            } else {
                verdicts.young += 1;
            }
        }
        self.0 = known;
        verdicts
    }

    /// These were told to go; gives how many of them for the first time. One that takes its time is
    /// listed, and told, again.
    pub fn told(&mut self, ids: &[ProviderId]) -> u64 {
        let mut new = 0;
        for id in ids {
            if let Some(known) = self.0.get_mut(id) {
                new += u64::from(!known.told);
                known.told = true;
            }
        }
        new
    }
}

/// By the wall clock, as far as backends tell; and by our own count, for those whose birth lies in the
/// future because somebody's clock was wrong.
fn is_old(created_at: i64, since: Instant, by: &Judge<'_>) -> bool {
    let seconds = by.wall.saturating_sub(created_at);
    let told =
        u64::try_from(seconds).is_ok_and(|seconds| Duration::from_secs(seconds) >= by.min_age);
    told || by.now.saturating_duration_since(since) >= by.min_age
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::contract::InstanceState;

    const NOW: i64 = 1_800_000_000;
    const MIN_AGE: Duration = Duration::from_mins(10);

    fn instance(name: &str, uid: &str, created_at: i64) -> Instance {
        Instance {
            id: format!("ns/{name}"),
            ip: None,
            state: InstanceState::Running,
            uid: uid.into(),
            installation: "i".into(),
            created_at,
            trouble: None,
        }
    }

    fn live(uids: &[&str]) -> Live {
        Live::new(uids.iter().map(|uid| (*uid).to_owned()).collect(), true)
    }

    fn judged(orphans: &mut Orphans, listed: &[Instance], uids: &[&str], wall: i64) -> Verdicts {
        let by = Judge {
            installation: "i",
            live: &live(uids),
            min_age: MIN_AGE,
            wall,
            now: Instant::now(),
        };
        orphans.judge(listed, &by)
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_a_proxy_stays_whatever_its_age() {
        let own = instance_name("u");
        for (what, listed) in [
            ("by its UID", instance("x", "u", 0)),
            ("by its name alone", instance(&own, "", 0)),
            ("by its name against its UID", instance(&own, "other", 0)),
        ] {
            let verdicts = judged(&mut Orphans::default(), &[listed], &["u"], NOW);
            let expected = Verdicts {
                live: 1,
                ..Verdicts::default()
            };
            assert_eq!(verdicts, expected, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn another_installation_and_an_unreadable_one_are_left_alone() {
        for installation in ["", "j"] {
            let listed = Instance {
                installation: installation.into(),
                ..instance("x", "gone", 0)
            };
            let verdicts = judged(&mut Orphans::default(), &[listed], &[], NOW);
            assert_eq!((verdicts.foreign, verdicts.orphans.len()), (1, 0));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn age_is_told_by_the_backend() {
        for (created_at, old) in [
            (0, true),
            (NOW - 601, true),
            (NOW - 600, true),
            (NOW - 599, false),
            (NOW, false),
            (NOW + 10_000, false),
            (i64::MAX, false),
            (i64::MIN, true),
        ] {
            let listed = [instance("x", "gone", created_at)];
            let verdicts = judged(&mut Orphans::default(), &listed, &["u"], NOW);
            assert_eq!(verdicts.orphans.len(), usize::from(old), "{created_at}");
            assert_eq!(verdicts.young, usize::from(!old), "{created_at}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_born_in_the_future_is_old_when_it_was_watched_for_so_long() {
        let (mut orphans, listed) = (Orphans::default(), [instance("x", "gone", i64::MAX)]);
        assert_eq!(judged(&mut orphans, &listed, &[], NOW).young, 1);
        tokio::time::advance(MIN_AGE).await;
        assert_eq!(judged(&mut orphans, &listed, &[], NOW).orphans, ["ns/x"]);
        // One that was away in between starts anew.
        judged(&mut orphans, &[], &[], NOW);
        assert_eq!(judged(&mut orphans, &listed, &[], NOW).young, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_takes_its_time_is_counted_once() {
        let (mut orphans, listed) = (Orphans::default(), [instance("x", "gone", 0)]);
        for counted in [1, 0] {
            let ids = judged(&mut orphans, &listed, &[], NOW).orphans;
            assert_eq!(ids, ["ns/x"]);
            assert_eq!(orphans.told(&ids), counted);
        }
    }
}
