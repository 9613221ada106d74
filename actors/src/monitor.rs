//! The monitor: has every provider checked, and says what became of it.
//!
//! Talks to: every provider's actor (asks for a check), the `ProviderHealth` objects through
//! [`HealthObjects`], events, and whoever reads the [`Board`].
//!
//! Guarantees: all providers are checked at once, at start, whenever the set of providers changes, and every
//! interval; what does not answer in time is told as such and holds up nobody else. What is told to
//! people is what changed. Killed, it takes up what the objects say, so that nothing is told twice
//! and no time of a transition moves; objects are read from the API server itself, before anything is
//! written.

mod ask;
mod objects;
pub mod round;
#[cfg(test)]
mod tests;

use crate::{
    events::{EventReason, EventsMsg, Regarding},
    providers::{Listed, ProviderSet},
    proxy::memory::Note,
    system::{Actor, Addr, Broken, Context, Epoch, Work},
    trace,
    wall::Wall,
};
use ask::ask;
use crds::ProviderHealthStatus;
use futures::future::join_all;
pub use objects::{HealthObjects, Written};
use round::{Found, Row, Transition};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// With the checks off: until objects that could not be deleted are tried again.
const OFF: Duration = Duration::from_mins(1);

/// When providers are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the beginning of one round to that of the next.
    pub interval: Duration,
    /// How long a round may take, at most as long as the interval.
    pub timeout: Duration,
}

/// What the last round found, for a scrape to read.
#[derive(Debug, Default)]
pub struct Board {
    /// Whose it is.
    owner: Option<Epoch>,
    /// A row for each target.
    pub rows: Vec<Row>,
}

/// What a monitor needs.
pub struct MonitorDeps {
    /// Which providers there are to be.
    pub set: watch::Receiver<Arc<ProviderSet>>,
    /// Where they are.
    pub roster: watch::Receiver<BTreeMap<String, Listed>>,
    /// What is said of them.
    pub objects: Arc<dyn HealthObjects>,
    /// For the user.
    pub events: Addr<EventsMsg>,
    /// For scrapes.
    pub board: Arc<watch::Sender<Board>>,
    /// When to check; never if there is none, and then no object says anything.
    pub pace: Option<Pace>,
    /// What is written as the time of a check.
    pub wall: Wall,
}

/// What the monitor understands.
#[derive(strum::IntoStaticStr)]
pub enum MonitorMsg {
    /// It is time for a round.
    Due(Epoch),
    /// What the objects say, before anything is written.
    Known(
        Epoch,
        Result<BTreeMap<String, ProviderHealthStatus>, String>,
    ),
    /// The providers answered, or did not.
    Checked(Epoch, Vec<Checked>),
    /// What became of the objects.
    Written(Epoch, Vec<Written>),
}

/// What was heard of one provider.
pub struct Checked {
    provider: String,
    kind: &'static str,
    found: Found,
}

/// The actor.
pub struct MonitorActor {
    deps: Arc<MonitorDeps>,
    set: watch::Receiver<Arc<ProviderSet>>,
    me: Epoch,
    step: Work,
    begun: Instant,
    /// What the objects say, or would if they could be written.
    known: BTreeMap<String, ProviderHealthStatus>,
    /// Whether the objects were read.
    read: bool,
    /// What became of targets and is not told on the objects yet.
    /// The last one of each target, by provider and target.
    transitions: BTreeMap<(String, Option<String>), Transition>,
    /// What keeps objects from being read or written, told once.
    trouble: Option<String>,
}

impl MonitorActor {
    /// One that knows nothing yet.
    #[must_use]
    pub fn new(deps: Arc<MonitorDeps>) -> Self {
        Self {
            set: deps.set.clone(),
            deps,
            me: Epoch::next(),
            step: Work::default(),
            begun: Instant::now(),
            known: BTreeMap::new(),
            read: false,
            transitions: BTreeMap::new(),
            trouble: None,
        }
    }

    fn begin(&mut self, me: &Addr<MonitorMsg>) {
        self.begun = Instant::now();
        if self.read {
            return self.check(me);
        }
        let (objects, me) = (Arc::clone(&self.deps.objects), me.clone());
        self.step.start(|epoch| async move {
            let read = objects::bounded("reading the ProviderHealth objects", objects.read()).await;
            me.hint(MonitorMsg::Known(epoch, read));
        });
    }

    fn known(&mut self, read: Result<BTreeMap<String, ProviderHealthStatus>, String>) {
        match read {
            Ok(known) => {
                self.read = true;
                for (provider, object) in known {
                    self.take_up(provider, object);
                }
            }
            Err(error) => self.troubled(error),
        }
    }

    /// A provider may have been checked before its object could be read. What was found then is newer; since
    /// when, and what of it is news, goes by what people could read.
    fn take_up(&mut self, provider: String, object: ProviderHealthStatus) {
        let found = self.known.get_mut(&provider);
        let Some(found) = found.filter(|found| !found.targets.is_empty()) else {
            self.transitions.retain(|(about, _), _| *about != provider);
            self.known.insert(provider, object);
            return;
        };
        let news = round::resume(&object, found);
        self.transitions.retain(|(about, _), _| *about != provider);
        for transition in news {
            self.is_news(&provider, transition);
        }
    }

    fn is_news(&mut self, provider: &str, transition: Transition) {
        let about = (provider.to_owned(), transition.target.clone());
        self.transitions.insert(about, transition);
    }

    fn check(&mut self, me: &Addr<MonitorMsg>) {
        let Some(pace) = self.deps.pace else {
            return self.write(&BTreeSet::new(), me);
        };
        let set = Arc::clone(&self.set.borrow_and_update());
        let (deps, me) = (Arc::clone(&self.deps), me.clone());
        let until = Instant::now() + pace.timeout;
        let round = trace::check();
        let checking = |epoch| async move {
            let checks = set.iter().map(|(name, entry)| {
                let (roster, fingerprint) = (deps.roster.clone(), entry.fingerprint);
                async move {
                    Checked {
                        provider: name.clone(),
                        kind: entry.provider.kind(),
                        found: ask(roster, name, fingerprint, until).await,
                    }
                }
            });
            let checked = join_all(checks).await;
            me.hint(MonitorMsg::Checked(epoch, checked));
        };
        round.in_scope(|| self.step.start_within(checking));
    }

    fn checked(&mut self, checked: Vec<Checked>, me: &Addr<MonitorMsg>) {
        let (now, mut rows) = ((self.deps.wall)(), Vec::new());
        let mut names = BTreeSet::new();
        for Checked {
            provider,
            kind,
            found,
        } in checked
        {
            let before = self.known.get(&provider);
            let (status, transitions) = round::next(before, kind, &found, now);
            rows.extend(round::rows(&provider, &status, &found, now));
            for transition in transitions {
                log(&provider, &transition);
                self.is_news(&provider, transition);
            }
            names.insert(provider.clone());
            self.known.insert(provider, status);
        }
        let owner = Some(self.me);
        self.deps.board.send_replace(Board { owner, rows });
        self.write(&names, me);
    }

    /// Writes what is known of these providers, and removes the objects of all others.
    fn write(&mut self, names: &BTreeSet<String>, me: &Addr<MonitorMsg>) {
        // Before they are read, writing would overwrite the times of transitions.
        if !self.read {
            return self.rest(me);
        }
        let writes: Vec<_> = self
            .known
            .iter()
            .map(|(name, status)| {
                let says = names.contains(name).then(|| status.clone());
                (name.clone(), says)
            })
            .collect();
        let (objects, me) = (Arc::clone(&self.deps.objects), me.clone());
        self.step.start_within(|epoch| async move {
            let written = objects::write(&*objects, writes).await;
            me.hint(MonitorMsg::Written(epoch, written));
        });
    }

    fn written(&mut self, written: Vec<Written>) {
        let mut troubles = BTreeSet::new();
        for Written { provider, how } in written {
            match how {
                Ok(Some(uid)) => {
                    for ((about, _), transition) in &self.transitions {
                        if *about == provider {
                            self.tell_user(&provider, &uid, transition);
                        }
                    }
                    self.transitions.retain(|(about, _), _| *about != provider);
                }
                Ok(None) => {
                    tracing::info!(
                        provider,
                        "configured no more, its ProviderHealth is removed"
                    );
                    self.known.remove(&provider);
                    self.transitions.retain(|(about, _), _| *about != provider);
                }
                // What became of its targets is told once it could be written.
                Err(error) => {
                    troubles.insert(error);
                }
            }
        }
        if troubles.is_empty() {
            self.trouble = None;
        } else {
            // In an order that does not depend on which write ended first, or it would be told again.
            self.troubled(Vec::from_iter(troubles).join("; "));
        }
    }

    fn troubled(&mut self, error: String) {
        if self.trouble.as_ref() != Some(&error) {
            tracing::warn!(error, "what the checks find cannot be recorded");
            self.trouble = Some(error);
        }
    }

    fn tell_user(&self, provider: &str, uid: &str, transition: &Transition) {
        let regarding = Regarding::ProviderHealth {
            name: provider.to_owned(),
            uid: uid.to_owned(),
        };
        let message = transition.to_string();
        let note = if transition.ready {
            Note::normal(EventReason::TargetReady, message)
        } else {
            Note::warning(EventReason::TargetNotReady, message)
        };
        self.deps.events.hint(EventsMsg::Record(regarding, note));
    }

    /// Until the next round.
    fn rest(&mut self, me: &Addr<MonitorMsg>) {
        let off = self.deps.pace.is_none();
        if off && self.read && self.known.is_empty() {
            return;
        }
        let until = self.begun + self.deps.pace.map_or(OFF, |pace| pace.interval);
        let (mut set, me) = (self.set.clone(), me.clone());
        self.step.start(|epoch| async move {
            tokio::select! {
                () = sleep_until(until) => {}
                Ok(()) = set.changed(), if !off => {}
            }
            me.hint(MonitorMsg::Due(epoch));
        });
    }
}

fn log(provider: &str, transition: &Transition) {
    let Transition {
        target,
        ready,
        reason,
        message,
        ..
    } = transition;
    if *ready {
        tracing::info!(provider, target, reason, "{message}");
    } else {
        tracing::warn!(provider, target, reason, "{message}");
    }
}

impl Actor for MonitorActor {
    type Msg = MonitorMsg;
    const KIND: &'static str = "monitor";

    fn started(&mut self, cx: &mut Context<MonitorMsg>) -> Result<(), Broken> {
        self.begin(cx.me());
        Ok(())
    }

    fn handle(&mut self, message: MonitorMsg, cx: &mut Context<MonitorMsg>) -> Result<(), Broken> {
        let (MonitorMsg::Due(epoch)
        | MonitorMsg::Known(epoch, _)
        | MonitorMsg::Checked(epoch, _)
        | MonitorMsg::Written(epoch, _)) = message;
        if !self.step.finish(epoch) {
            return Ok(());
        }
        let me = cx.me();
        match message {
            MonitorMsg::Due(_) => self.begin(me),
            MonitorMsg::Known(_, read) => {
                self.known(read);
                self.check(me);
            }
            MonitorMsg::Checked(_, checked) => self.checked(checked, me),
            MonitorMsg::Written(_, written) => {
                self.written(written);
                self.rest(me);
            }
        }
        Ok(())
    }
}

/// However it ends: nobody vouches for what it found any more.
impl Drop for MonitorActor {
    fn drop(&mut self) {
        self.deps.board.send_if_modified(|board| {
            let own = board.owner == Some(self.me);
            if own {
                *board = Board::default();
            }
            own
        });
    }
}
