//! Health: the parent of one prober for each proxy that has an address.
//!
//! Talks to: every proxy (is told what to watch), its probers, and the fleet when it is started.
//!
//! Guarantees: at most so many probes are in flight as the program allows, over all proxies. After a
//! crash it asks every proxy anew what to watch, so that none stays unprobed.

use crate::{
    fleet::FleetMsg,
    key::ProxyKey,
    prober::{ProberActor, ProberMsg, Prospect, Watch},
    proxy::ProxyMsg,
    system::{Actor, Addr, Broken, ChildSpec, Context},
};
use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// What health understands.
#[derive(strum::IntoStaticStr)]
pub enum HealthMsg {
    /// Probe this proxy from now on, and tell it the verdicts.
    Watch(ProxyKey, Box<Watch>, Addr<ProxyMsg>),
    /// Stop probing this proxy.
    Forget(ProxyKey),
    /// Stop probing all but these.
    Retain(Arc<HashSet<ProxyKey>>),
}

/// The actor.
pub struct HealthActor {
    with: Arc<Prospect>,
    fleet: Addr<FleetMsg>,
    probers: HashMap<ProxyKey, (Addr<ProberMsg>, Addr<ProxyMsg>)>,
}

impl HealthActor {
    /// A parent whose probers share `with`.
    #[must_use]
    pub fn new(with: Arc<Prospect>, fleet: Addr<FleetMsg>) -> Self {
        Self {
            with,
            fleet,
            probers: HashMap::new(),
        }
    }

    fn watch(
        &mut self,
        key: ProxyKey,
        watch: Box<Watch>,
        proxy: Addr<ProxyMsg>,
        cx: &mut Context<HealthMsg>,
    ) {
        if let Some((prober, known)) = self.probers.get(&key) {
            if known.same(&proxy) {
                // A prober that is down asks its proxy when it is back.
                prober.hint(ProberMsg::Watch(watch));
                return;
            }
            // A new fleet has new addresses, and the prober knows the old one.
            cx.stop_child(&path(&key));
        }
        let addr = Addr::default();
        self.probers
            .insert(key.clone(), (addr.clone(), proxy.clone()));
        let with = Arc::clone(&self.with);
        let first = Cell::new(Some(watch));
        let path = path(&key);
        cx.start(ChildSpec::new(path, addr, move || {
            ProberActor::new(key.clone(), proxy.clone(), Arc::clone(&with), first.take())
        }));
    }
}

fn path(key: &ProxyKey) -> String {
    format!("prober/{key}")
}

impl Actor for HealthActor {
    type Msg = HealthMsg;
    const KIND: &'static str = "health";

    fn started(&mut self, _: &mut Context<HealthMsg>) -> Result<(), Broken> {
        self.fleet.hint(FleetMsg::Announce);
        Ok(())
    }

    fn handle(&mut self, message: HealthMsg, cx: &mut Context<HealthMsg>) -> Result<(), Broken> {
        match message {
            HealthMsg::Watch(key, watch, proxy) => self.watch(key, watch, proxy, cx),
            HealthMsg::Forget(key) => {
                if self.probers.remove(&key).is_some() {
                    cx.stop_child(&path(&key));
                }
            }
            HealthMsg::Retain(keys) => self.probers.retain(|key, _| {
                let stays = keys.contains(key);
                if !stays {
                    cx.stop_child(&path(key));
                }
                stays
            }),
        }
        Ok(())
    }

    fn child_failed(
        &mut self,
        child: &str,
        failures: u32,
        error: &str,
        _: &mut Context<HealthMsg>,
    ) {
        let key = child
            .strip_prefix("prober/")
            .and_then(|rest| rest.split_once('/'));
        let Some((namespace, name)) = key else { return };
        if let Some((_, proxy)) = self.probers.get(&ProxyKey::new(namespace, name)) {
            proxy.hint(ProxyMsg::ProberFailed(failures, error.into()));
        }
    }
}
