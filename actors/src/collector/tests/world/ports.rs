//! A world as the collector sees it: a provider, and the Proxies that there are.

use super::{OURS, World};
use crate::{
    collector::{LiveProxies, orphans::Live},
    provider::contract::{
        CreateRequest, Created, Instance, Operation, Provider, ProviderError, TargetCheck,
    },
};
use futures::future::{BoxFuture, pending};
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The Proxies of all worlds: what is read is what was there at one moment of the reading.
pub(super) struct Proxies(pub(super) Vec<Arc<World>>);

impl LiveProxies for Proxies {
    fn read(&self) -> BoxFuture<'static, Result<Live, String>> {
        let worlds = self.0.clone();
        Box::pin(async move {
            let (mut uids, mut everywhere, mut fails) = (Vec::new(), true, false);
            for world in &worlds {
                world.goes_on().await;
                fails |= world.fails("read");
                let state = world.state.lock().unwrap();
                uids.extend(state.proxies.values().cloned());
                everywhere &= !state.own_only;
            }
            for world in &worlds {
                world.goes_on().await;
            }
            if fails {
                return Err("as told".into());
            }
            Ok(Live::new(uids.into_iter().collect(), everywhere))
        })
    }
}

impl Provider for World {
    fn name(&self) -> &str {
        self.name
    }
    fn kind(&self) -> &'static str {
        "fake"
    }
    fn deadline(&self, _: Operation) -> Duration {
        Duration::from_secs(30)
    }
    fn is_confined(&self) -> bool {
        self.name == "confined"
    }
    fn create<'a>(&'a self, _: &'a CreateRequest) -> BoxFuture<'a, Result<Created, ProviderError>> {
        Box::pin(pending())
    }
    fn get<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        Box::pin(pending())
    }
    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(async move {
            let slow = {
                let mut state = self.state.lock().unwrap();
                state.deleting += 1;
                state.most = state.most.max(state.deleting);
                state.slow
            };
            if slow {
                sleep(Duration::from_secs(1)).await;
            }
            self.goes_on().await;
            let failed = self.fails("delete");
            {
                let mut state = self.state.lock().unwrap();
                state.deleting -= 1;
                if failed {
                    return Err(self.error(Operation::Delete));
                }
                if let Some(gone) = state.instances.remove(id)
                    && (state.owns(&gone) || gone.installation != OURS)
                {
                    state.wrong.push(format!("{gone:?}"));
                }
            }
            self.goes_on().await;
            Ok(())
        })
    }
    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>> {
        Box::pin(async {
            self.goes_on().await;
            if self.fails("hang") {
                return pending().await;
            }
            if self.fails("list") {
                return Err(self.error(Operation::List));
            }
            let listed: Vec<_> = {
                let state = self.state.lock().unwrap();
                state.instances.values().cloned().collect()
            };
            self.goes_on().await;
            Ok(listed)
        })
    }
    fn check(&self, _: Duration) -> BoxFuture<'_, Vec<TargetCheck>> {
        Box::pin(pending())
    }
}
