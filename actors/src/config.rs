//! Config: publishes sets of providers.
//!
//! Talks to: the providers' parent. The first set is read before anything starts, so that a bad file
//! ends the process, and stands in the channel already; whoever reads the file again sends
//! [`ConfigMsg::Publish`], which nobody does yet.

use crate::{
    providers::{ProviderSet, ProvidersMsg},
    system::{Actor, Addr, Broken, Context},
};
use std::sync::Arc;
use tokio::sync::watch;

/// What the config understands.
#[derive(strum::IntoStaticStr)]
pub enum ConfigMsg {
    /// This was read: publish it.
    Publish(Arc<ProviderSet>),
}

/// The actor.
pub struct ConfigActor {
    set: Arc<watch::Sender<Arc<ProviderSet>>>,
    providers: Addr<ProvidersMsg>,
}

impl ConfigActor {
    /// Publishes to `set`, which outlives it, and tells `providers`.
    #[must_use]
    pub fn new(set: Arc<watch::Sender<Arc<ProviderSet>>>, providers: Addr<ProvidersMsg>) -> Self {
        Self { set, providers }
    }
}

impl Actor for ConfigActor {
    type Msg = ConfigMsg;
    const KIND: &'static str = "config";

    fn handle(&mut self, message: ConfigMsg, _: &mut Context<ConfigMsg>) -> Result<(), Broken> {
        let ConfigMsg::Publish(set) = message;
        self.set.send_replace(Arc::clone(&set));
        self.providers.hint(ProvidersMsg::Configure(set));
        Ok(())
    }
}
