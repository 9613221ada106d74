//! Config: keeps the set of providers what the providers file says.
//!
//! Talks to: the file through [`Source`], the providers' parent (says when the set changed), events and
//! metrics (a file that cannot be used). The first set is read before anything starts, so that a bad
//! file ends the process, and stands in the channel already.
//!
//! Guarantees: what is published was read and understood as a whole; a file that is bad, or cannot be
//! had, changes nothing and is told once for each content; an entry that did not change keeps its
//! provider, with all that it has under way.

mod changes;
#[cfg(test)]
mod tests;

use crate::{
    events::{EventReason, EventsMsg, Regarding},
    metrics::Metrics,
    providers::{ProviderSet, ProvidersMsg},
    proxy::memory::Note,
    system::{Actor, Addr, Broken, Context, Epoch, Work},
};
use changes::Changes;
use futures::{FutureExt, future::BoxFuture};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Between two looks at the file. It is looked at, and not watched: what is mounted into a pod is swapped
/// by links far above it, or lies on file systems that tell nothing.
const LOOK: Duration = Duration::from_secs(1);

/// Tells one content of the file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content(pub u64);

/// What a look at the file found.
pub struct Reading {
    /// What it says, or why it cannot be had.
    pub content: Content,
    /// What that means, or what is wrong with it, with entry and field.
    pub set: Result<ProviderSet, String>,
}

/// The port to the providers file.
pub trait Source: Send + Sync + 'static {
    /// What it says now; `None` if that is `seen` still. An entry that is the same in `running` keeps the
    /// provider that it has there.
    fn read(
        &self,
        seen: Option<Content>,
        running: Arc<ProviderSet>,
    ) -> BoxFuture<'static, Option<Reading>>;
}

/// What the config understands.
#[derive(strum::IntoStaticStr)]
pub enum ConfigMsg {
    /// The look started under this epoch ended; sent by its task.
    Looked(Epoch, Option<Reading>),
}

/// Whom the config talks to.
pub struct ConfigDeps {
    /// The file.
    pub source: Arc<dyn Source>,
    /// The providers as they are to be; outlives every incarnation.
    pub set: Arc<watch::Sender<Arc<ProviderSet>>>,
    /// Their parent.
    pub providers: Addr<ProvidersMsg>,
    /// For the user.
    pub events: Addr<EventsMsg>,
    /// What is counted.
    pub metrics: Metrics,
}

/// The actor.
pub struct ConfigActor {
    deps: Arc<ConfigDeps>,
    seen: Option<Content>,
    /// What it says cannot be used.
    refused: bool,
    look: Work,
}

impl ConfigActor {
    /// One that has not looked yet.
    #[must_use]
    pub fn new(deps: Arc<ConfigDeps>) -> Self {
        Self {
            deps,
            seen: None,
            refused: false,
            look: Work::default(),
        }
    }

    fn look_again(&mut self, me: &Addr<ConfigMsg>) {
        let (deps, seen, me) = (Arc::clone(&self.deps), self.seen, me.clone());
        self.look.start(|epoch| async move {
            tokio::time::sleep(LOOK).await;
            let running = Arc::clone(&deps.set.borrow());
            let look = async { deps.source.read(seen, running).await };
            let looked = AssertUnwindSafe(look).catch_unwind().await;
            if looked.is_err() {
                tracing::error!("reading the providers file panicked");
            }
            me.hint(ConfigMsg::Looked(epoch, looked.ok().flatten()));
        });
    }

    fn understood(&mut self, set: ProviderSet) {
        let changes = Changes::between(&self.deps.set.borrow(), &set);
        let refused = std::mem::take(&mut self.refused);
        if changes.is_empty() {
            if refused {
                tracing::info!("the providers file can be used again; no provider changed");
            }
            return;
        }
        let Changes {
            added,
            changed,
            removed,
        } = changes;
        tracing::info!(?added, ?changed, ?removed, "the providers file changed");
        let set = Arc::new(set);
        self.deps.set.send_replace(Arc::clone(&set));
        // If they are down, they start from the newest set.
        self.deps.providers.hint(ProvidersMsg::Configure(set));
        // A process that leads no more has no parent that would do it, and counted when it led.
        for name in &removed {
            self.deps.metrics.forget_provider(name);
        }
    }

    fn refuse(&mut self, error: String) {
        self.refused = true;
        tracing::warn!(error, "the providers file cannot be used; nothing changes");
        self.deps.metrics.config_reload_failed();
        let note = Note::warning(EventReason::InvalidProvidersConfig, error);
        let record = EventsMsg::Record(Regarding::Operator, note);
        self.deps.events.hint(record);
    }
}

impl Actor for ConfigActor {
    type Msg = ConfigMsg;
    const KIND: &'static str = "config";

    fn started(&mut self, cx: &mut Context<ConfigMsg>) -> Result<(), Broken> {
        self.look_again(cx.me());
        Ok(())
    }

    fn handle(&mut self, message: ConfigMsg, cx: &mut Context<ConfigMsg>) -> Result<(), Broken> {
        let ConfigMsg::Looked(epoch, reading) = message;
        if !self.look.finish(epoch) {
            return Ok(());
        }
        if let Some(reading) = reading {
            self.seen = Some(reading.content);
            match reading.set {
                Ok(set) => self.understood(set),
                Err(error) => self.refuse(error),
            }
        }
        self.look_again(cx.me());
        Ok(())
    }
}
