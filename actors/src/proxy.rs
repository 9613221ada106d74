//! A proxy: one actor that brings one Proxy object and what stands behind it together.
//!
//! Talks to: the fleet (hears that something changed), the API server (reads through [`ProxyStore`],
//! writes through the status actor), its provider, health (says what to probe, hears verdicts), the
//! ledger (says what may be leased) and events.
//!
//! Guarantees: at most one operation is under way, and no handler waits for it; what to do is decided
//! anew after each from the object and what is known ([`next`]), so that it makes no difference where
//! the last one, or the whole process, was cut off; the ledger hears of a verdict or a deletion before
//! it is written anywhere; nothing is written that the object says already.

pub mod decide;
pub mod memory;
pub mod next;
pub mod pace;
pub mod status;
pub mod user_data;

mod deps;
mod pass;
#[cfg(test)]
pub(crate) mod tests;
mod work;

pub use deps::Deps;
pub use work::candidate_of;

use crate::{
    events::EventReason,
    health::HealthMsg,
    key::ProxyKey,
    leases::LeasesMsg,
    prober::Watch,
    provider::contract::{Created, Instance, ProviderError},
    store::{UserDataError, WriteError},
    system::{Actor, Broken, Context, Epoch, Work},
    trace::Pass,
};
use crds::Proxy;
use memory::{Event, Memory, Note, Verdict};
use std::sync::Arc;
use tokio::time::Instant;

/// What a proxy understands. The results of its own work carry the epoch they were started in.
#[derive(strum::IntoStaticStr)]
pub enum ProxyMsg {
    /// The object or the set of providers changed.
    Changed,
    /// The Secret of this name changed.
    SecretChanged(Arc<str>),
    /// Say again to health and to the ledger what you have said.
    Announce,
    /// The prober's verdict under this watch.
    Judged(Epoch, Verdict),
    /// The prober fails over and over.
    ProberFailed(u32, Box<str>),
    /// It is time to look again.
    Due(Epoch),
    /// What the instance should be made of is known: its hash, and why a guest would ignore the user-data.
    Resolved(
        Epoch,
        Result<(Box<str>, Option<&'static str>), UserDataError>,
    ),
    /// The provider answered; no answer to `create` when the user-data had changed by then.
    Created(Epoch, Option<Result<Created, ProviderError>>),
    /// The provider answered.
    Got(Epoch, Result<Instance, ProviderError>),
    /// The provider answered.
    Deleted(Epoch, Result<(), ProviderError>),
    /// The API server answered.
    Written(Epoch, Result<Arc<Proxy>, WriteError>),
}

/// What a proxy owns.
pub struct ProxyActor {
    key: ProxyKey,
    deps: Arc<Deps>,
    memory: Option<Box<Memory>>,
    /// What our own last write made of the object, until the watch has seen it too.
    written: Option<Arc<Proxy>>,
    operation: Work,
    alarm: Work,
    probed: Probed,
    /// A hash of what the ledger was told; `None` when it has to be told (again).
    offered: Option<u64>,
    begun: Option<Instant>,
    /// The trace of the pass under way.
    pass: Option<Box<Pass>>,
    failed: bool,
}

/// What health was told.
#[derive(Default)]
enum Probed {
    /// It has to be told (again).
    #[default]
    Untold,
    /// That there is nothing to probe.
    Nothing,
    /// To probe this.
    This(Box<Watch>),
}

impl Probed {
    fn watch(&self) -> Option<&Watch> {
        match self {
            Self::This(watch) => Some(watch),
            Self::Untold | Self::Nothing => None,
        }
    }
}

impl ProxyActor {
    /// The actor of the object `key`.
    #[must_use]
    pub fn new(key: ProxyKey, deps: Arc<Deps>) -> Self {
        Self {
            key,
            deps,
            memory: None,
            written: None,
            operation: Work::default(),
            alarm: Work::default(),
            probed: Probed::default(),
            offered: None,
            begun: None,
            pass: None,
            failed: false,
        }
    }

    /// The object as it is now: what the watch saw last, or what our own write made of it if that is newer.
    fn observe(&mut self) -> Option<Arc<Proxy>> {
        let seen = self.deps.store.get(&self.key)?;
        if self
            .written
            .as_ref()
            .is_some_and(|written| is_newer(written, &seen))
        {
            return self.written.clone();
        }
        self.written = None;
        Some(seen)
    }

    /// Takes in how the operation under way ended; a late result says nothing about it.
    fn ended(
        &mut self,
        epoch: Epoch,
        cx: &Context<ProxyMsg>,
        event: impl FnOnce(&mut Self) -> Event,
    ) {
        if self.operation.finish(epoch) {
            let event = event(self);
            self.on(event, cx);
        }
    }

    fn resolved(
        &mut self,
        result: Result<(Box<str>, Option<&'static str>), UserDataError>,
    ) -> Event {
        match result {
            Ok((hash, suspicion)) => {
                if let (Some(why), Some(object)) = (suspicion, self.observe()) {
                    let message = format!("the user-data is delivered as it is, but {why}");
                    self.tell_user(
                        &object,
                        Note::warning(EventReason::SuspiciousCloudInit, message),
                    );
                }
                Event::Resolved(Ok(hash))
            }
            Err(UserDataError::Unavailable(why)) => Event::Resolved(Err(why.into())),
            Err(UserDataError::Failed(error)) => {
                self.api_failed(&error);
                let why = format!("spec.cloudInit.secretRef: cannot be read: {error}");
                Event::Unread(why.into())
            }
        }
    }

    fn written(&mut self, result: Result<Arc<Proxy>, WriteError>) -> Event {
        match result {
            Ok(object) => {
                self.written = Some(object);
                Event::ApiAnswered
            }
            // The watch will tell, or has told already: what it saw by then decides.
            Err(WriteError::Gone | WriteError::Conflict) => Event::ApiFailed,
            Err(WriteError::Failed(error)) => self.api_failed(&error),
        }
    }

    fn api_failed(&mut self, error: &str) -> Event {
        tracing::warn!(proxy = %self.key, error, "the API server did not do what it was asked");
        self.failed = true;
        Event::ApiFailed
    }
}

impl Actor for ProxyActor {
    type Msg = ProxyMsg;
    const KIND: &'static str = "proxy";

    fn started(&mut self, cx: &mut Context<ProxyMsg>) -> Result<(), Broken> {
        self.on(Event::Woken, cx);
        Ok(())
    }

    fn handle(&mut self, message: ProxyMsg, cx: &mut Context<ProxyMsg>) -> Result<(), Broken> {
        match message {
            ProxyMsg::Changed => self.on(Event::Woken, cx),
            ProxyMsg::SecretChanged(name) => {
                let concerns = self
                    .observe()
                    .is_some_and(|object| references(&object, &name));
                if concerns {
                    self.on(Event::SecretChanged, cx);
                }
            }
            ProxyMsg::Announce => {
                (self.probed, self.offered) = (Probed::default(), None);
                self.on(Event::Woken, cx);
            }
            ProxyMsg::Judged(epoch, verdict) => {
                // It may be about an address that changed while it was on its way.
                self.on(Event::Woken, cx);
                if self.probed.watch().is_some_and(|told| told.epoch == epoch) {
                    self.on(Event::Judged(verdict), cx);
                }
            }
            // The first time it is back at once, and nobody needs to know.
            ProxyMsg::ProberFailed(..=1, _) => {}
            ProxyMsg::ProberFailed(failures, error) => {
                let why = format!("the prober failed {failures} times in a row: {error}");
                self.on(Event::ProberFailed(why.into()), cx);
            }
            ProxyMsg::Due(epoch) => {
                if self.alarm.finish(epoch) {
                    self.on(Event::Woken, cx);
                }
            }
            ProxyMsg::Resolved(epoch, result) => self.ended(epoch, cx, |me| me.resolved(result)),
            ProxyMsg::Created(epoch, result) => {
                self.ended(epoch, cx, |_| {
                    result.map_or(Event::Outdated, Event::Created)
                });
            }
            ProxyMsg::Got(epoch, result) => self.ended(epoch, cx, |_| Event::Got(result)),
            ProxyMsg::Deleted(epoch, result) => self.ended(epoch, cx, |_| Event::Deleted(result)),
            ProxyMsg::Written(epoch, result) => self.ended(epoch, cx, |me| me.written(result)),
        }
        Ok(())
    }
}

fn references(object: &Proxy, secret: &str) -> bool {
    let cloud_init = object.spec.cloud_init.as_ref();
    cloud_init
        .and_then(|c| c.secret_ref.as_ref())
        .is_some_and(|reference| reference.name == secret)
}

/// Resource versions of one kind are numbers that grow, which Kubernetes promises since 1.35 and etcd
/// has always kept. Where they are not, the watch is right.
fn is_newer(written: &Proxy, seen: &Proxy) -> bool {
    let version = |object: &Proxy| {
        object
            .metadata
            .resource_version
            .as_deref()?
            .parse::<u64>()
            .ok()
    };
    match (version(written), version(seen)) {
        (Some(written_at), Some(seen_at)) => {
            written.metadata.uid == seen.metadata.uid && written_at > seen_at
        }
        _ => false,
    }
}
