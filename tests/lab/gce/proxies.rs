//! Real proxies behind the addresses of instances: a Squid for each that is RUNNING, and none for
//! others, so that what probes find is what there is.

use super::{
    super::squid::{self, Squid},
    Shared,
    instance::Instance,
};
use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::sleep};

/// How an instance is served at its address; nothing if it is not.
pub type ProxyOf = Arc<dyn Fn(IpAddr, &Instance) -> Option<squid::Options> + Send + Sync>;

/// How often it is looked at what there is.
const LOOK: Duration = Duration::from_millis(30);
/// How many Squids start at once.
const AT_ONCE: usize = 4;

/// An open Squid on this port for every instance.
#[must_use]
pub fn on_port(port: u16) -> ProxyOf {
    Arc::new(move |address, _| {
        Some(squid::Options {
            address,
            port,
            ..squid::Options::default()
        })
    })
}

/// Keeps Squids as instances are, for ever. They end with it.
pub async fn keep(shared: Arc<Shared>, proxy_of: ProxyOf) {
    let mut running: HashMap<u64, Option<Squid>> = HashMap::new();
    let mut starting = JoinSet::new();
    loop {
        let mut wanted = wanted(&shared, &proxy_of);
        running.retain(|id, _| wanted.contains_key(id));
        wanted.retain(|id, _| !running.contains_key(id));
        for (id, options) in wanted {
            if starting.len() == AT_ONCE {
                break;
            }
            running.insert(id, None);
            starting.spawn(async move { (id, Squid::start(options).await) });
        }
        tokio::select! {
            Some(Ok((id, started))) = starting.join_next() => match started {
                // One whose instance has gone meanwhile ends here.
                Ok(squid) => if let Some(place) = running.get_mut(&id) {
                    *place = Some(squid);
                },
                Err(error) => shared.wrong(format!("no Squid for instance {id}: {error:#}")),
            },
            () = sleep(LOOK) => {}
        }
    }
}

fn wanted(shared: &Shared, proxy_of: &ProxyOf) -> HashMap<u64, squid::Options> {
    let now = shared.clock.now();
    let mut world = shared.world();
    world.settle(now);
    let running = world.instances.values().filter(|one| {
        let life = &one.life;
        life.is_there(now) && life.status(now) == "RUNNING" && life.has_address(now)
    });
    running
        .filter_map(|one| {
            let address = one.external.unwrap_or(one.internal);
            Some((one.id, proxy_of(address.into(), one)?))
        })
        .collect()
}
