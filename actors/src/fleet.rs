//! The fleet: the parent of one proxy actor for each Proxy object.
//!
//! Talks to: the API server through [`crate::store::ProxyStore`] (whose watch runs as its task), every proxy, and
//! whoever was started again and has to hear of every proxy anew.
//!
//! Guarantees: there is exactly one proxy actor for each object that the watch knows; killed, it goes
//! on with what was seen and lists everything again. What vanished is forgotten by all, also when a proxy's last word overtook
//! the news of its end.

use crate::{
    key::ProxyKey,
    proxy::{Deps, ProxyActor, ProxyMsg},
    system::{Actor, Addr, Broken, ChildSpec, Context, Epoch, Reply, Work},
};
use futures::FutureExt;
use std::{collections::HashMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

/// After this long, no proxy that was stopped speaks any more.
const SILENCE: Duration = Duration::from_secs(5);

/// What the fleet understands.
#[derive(strum::IntoStaticStr)]
pub enum FleetMsg {
    /// This object appeared, changed or vanished; what it is now is in the store.
    Changed(ProxyKey),
    /// The watch has named every object that exists.
    Listed,
    /// A labelled Secret appeared, changed or vanished.
    SecretChanged {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: Arc<str>,
    },
    /// The set of providers changed.
    ProvidersChanged,
    /// Somebody was started again: every proxy says again what it has said.
    Announce,
    /// Proxies were stopped a while ago: let nobody know of them any more.
    Settled(Epoch),
    /// Has the watch named every object that exists?
    IsListed(Reply<bool>),
    /// The watch ended, which it never should.
    WatchEnded,
}

/// The actor.
pub struct FleetActor {
    deps: Arc<Deps>,
    proxies: HashMap<ProxyKey, Addr<ProxyMsg>>,
    watch: Work,
    settle: Work,
    listed: bool,
}

impl FleetActor {
    /// A fleet of the objects in `deps.store`.
    #[must_use]
    pub fn new(deps: Arc<Deps>) -> Self {
        Self {
            deps,
            proxies: HashMap::new(),
            watch: Work::default(),
            settle: Work::default(),
            listed: false,
        }
    }

    fn changed(&mut self, key: ProxyKey, cx: &mut Context<FleetMsg>) {
        self.deps.store.noticed(&key);
        let exists = self.deps.store.get(&key).is_some();
        match (exists, self.proxies.get(&key)) {
            // A proxy that is down looks at its object when it is back.
            (true, Some(proxy)) => proxy.hint(ProxyMsg::Changed),
            (true, None) => {
                let (addr, deps) = (Addr::default(), Arc::clone(&self.deps));
                self.proxies.insert(key.clone(), addr.clone());
                cx.start(ChildSpec::new(path(&key), addr, move || {
                    ProxyActor::new(key.clone(), Arc::clone(&deps))
                }));
            }
            (false, Some(_)) => {
                self.proxies.remove(&key);
                cx.stop_child(&path(&key));
                self.deps.forget(&key);
                self.settle_later(cx.me());
            }
            (false, None) => {}
        }
    }

    fn settle_later(&mut self, me: &Addr<FleetMsg>) {
        if !self.settle.is_under_way() {
            let me = me.clone();
            self.settle.start(|epoch| async move {
                tokio::time::sleep(SILENCE).await;
                me.hint(FleetMsg::Settled(epoch));
            });
        }
    }

    /// Makes everybody forget what is no longer there.
    fn retain(&self) {
        self.deps.retain(self.proxies.keys().cloned().collect());
    }

    fn tell_all(&self, message: impl Fn() -> ProxyMsg) {
        for proxy in self.proxies.values() {
            proxy.hint(message());
        }
    }
}

fn path(key: &ProxyKey) -> String {
    format!("proxy/{key}")
}

impl Actor for FleetActor {
    type Msg = FleetMsg;
    const KIND: &'static str = "fleet";

    fn started(&mut self, cx: &mut Context<FleetMsg>) -> Result<(), Broken> {
        // What the fleet before has seen goes on at once, even if the API server is away.
        for object in self.deps.store.list() {
            if let Some(key) = ProxyKey::of(&object) {
                self.changed(key, cx);
            }
        }
        let (store, me) = (Arc::clone(&self.deps.store), cx.me().clone());
        self.watch.start(|_| async move {
            // A panic is an end like any other: deaf, the fleet would look alive for ever.
            let watch = AssertUnwindSafe(store.watch(me.clone())).catch_unwind();
            watch.await.ok();
            me.hint(FleetMsg::WatchEnded);
        });
        Ok(())
    }

    fn handle(&mut self, message: FleetMsg, cx: &mut Context<FleetMsg>) -> Result<(), Broken> {
        match message {
            FleetMsg::Changed(key) => self.changed(key, cx),
            FleetMsg::Listed => {
                if !self.listed {
                    tracing::info!(proxies = self.proxies.len(), "all Proxies are listed");
                }
                self.listed = true;
                // What vanished while no fleet was looking.
                self.retain();
            }
            FleetMsg::Settled(epoch) => {
                if self.settle.finish(epoch) {
                    self.retain();
                }
            }
            FleetMsg::SecretChanged { namespace, name } => {
                let there = self
                    .proxies
                    .iter()
                    .filter(|(key, _)| key.namespace() == namespace);
                for (_, proxy) in there {
                    proxy.hint(ProxyMsg::SecretChanged(Arc::clone(&name)));
                }
            }
            FleetMsg::ProvidersChanged => self.tell_all(|| ProxyMsg::Changed),
            FleetMsg::Announce => self.tell_all(|| ProxyMsg::Announce),
            FleetMsg::IsListed(reply) => {
                reply.send(self.listed).ok();
            }
            FleetMsg::WatchEnded => return Err(Broken("the watch ended".into())),
        }
        Ok(())
    }

    fn child_failed(&mut self, child: &str, failures: u32, error: &str, _: &mut Context<FleetMsg>) {
        let key = child
            .strip_prefix("proxy/")
            .and_then(|rest| rest.split_once('/'));
        if let Some((namespace, name)) = key {
            self.deps
                .proxy_failed(&ProxyKey::new(namespace, name), failures, error);
        }
    }
}
