//! Who waits for which cargo: what a connection knows of its transfers.

use super::{
    ConnectionMsg,
    link::Link,
    transfer::{Load, TransferActor, name},
};
use crate::system::{Addr, ChildSpec, Context, Epoch, Reply};
use std::{cell::Cell, collections::HashMap, mem::take};

/// Where it is said how a transfer ended.
type Waiting<L> = Reply<Result<(), <L as Link>::Error>>;

/// One on its way.
struct Cargo<L: Link> {
    /// Which transfer of it.
    id: Epoch,
    /// On which session.
    on: Epoch,
    path: String,
    waiting: Vec<Waiting<L>>,
}

/// All that are on their way.
pub(super) struct Cargoes<L: Link>(HashMap<L::Cargo, Cargo<L>>);

impl<L: Link> Cargoes<L> {
    pub fn new() -> Self {
        Self(HashMap::new())
    }

    /// Waits for the cargo if it is on its way; else gives `reply` back.
    pub fn join(&mut self, cargo: &L::Cargo, reply: Waiting<L>) -> Option<Waiting<L>> {
        let Some(cargo) = self.0.get_mut(cargo) else {
            return Some(reply);
        };
        cargo.waiting.retain(|reply| !reply.is_closed());
        cargo.waiting.push(reply);
        None
    }

    /// Sends the cargo on its way, which `reply` waits for.
    pub fn start(
        &mut self,
        cargo: L::Cargo,
        reply: Waiting<L>,
        load: Load<L>,
        cx: &mut Context<ConnectionMsg<L>>,
    ) {
        let stem = format!("{}/transfer/{}", cx.path(), name(&cargo));
        let mut path = stem.clone();
        // Two cargoes may have the same name.
        for n in 2.. {
            if !cx.has_child(&path) {
                break;
            }
            path = format!("{stem}~{n}");
        }
        let (id, on, load) = (Epoch::next(), load.on, Cell::new(Some(load)));
        let (carried, me) = (cargo.clone(), cx.me().clone());
        cx.start(ChildSpec::new(path.clone(), Addr::default(), move || {
            TransferActor::new(carried.clone(), id, me.clone(), load.take())
        }));
        let waiting = vec![reply];
        self.0.insert(
            cargo,
            Cargo {
                id,
                on,
                path,
                waiting,
            },
        );
    }

    /// The transfer `id` ended like this; without a result the questions of those who wait are dropped.
    pub fn ended(
        &mut self,
        cargo: &L::Cargo,
        id: Epoch,
        how: Option<&Result<(), L::Error>>,
        cx: &mut Context<ConnectionMsg<L>>,
    ) {
        if self.0.get(cargo).is_some_and(|cargo| cargo.id == id)
            && let Some(cargo) = self.0.remove(cargo)
        {
            cargo.end(how, cx);
        }
    }

    /// Whether any is on its way on this session.
    pub fn any_on(&self, session: Epoch) -> bool {
        self.0.values().any(|cargo| cargo.on == session)
    }

    /// None of those on this session will arrive.
    pub fn fail(&mut self, session: Epoch, error: &L::Error, cx: &mut Context<ConnectionMsg<L>>) {
        let (lost, left) = take(&mut self.0)
            .into_iter()
            .partition(|(_, cargo)| cargo.on == session);
        self.0 = left;
        for cargo in HashMap::into_values(lost) {
            cargo.end(Some(&Err(error.clone())), cx);
        }
    }
}

impl<L: Link> Cargo<L> {
    fn end(self, how: Option<&Result<(), L::Error>>, cx: &mut Context<ConnectionMsg<L>>) {
        cx.stop_child(&self.path);
        for reply in self.waiting {
            if let Some(how) = how {
                // Who gave up is not missed.
                reply.send(how.clone()).ok();
            }
        }
    }
}
