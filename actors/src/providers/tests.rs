//! The parent, and what the roster says.

use super::{Entry, Listed, ProviderSet, ProvidersActor, ProvidersMsg};
use crate::{
    fakes::{FakeProvider, Stage, metrics, until},
    fleet::FleetMsg,
    provider::{
        contract::{ErrorClass, Provider},
        tests::looks,
    },
    system::{Addr, ChildSpec, addr::probe::inbox},
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::{mpsc::UnboundedReceiver, watch};

struct Providers {
    stage: Stage,
    addr: Addr<ProvidersMsg>,
    set: Arc<watch::Sender<Arc<ProviderSet>>>,
    roster: watch::Receiver<BTreeMap<String, Listed>>,
    fleet: UnboundedReceiver<FleetMsg>,
}

pub fn set_of(entries: &[(&str, u64)]) -> Arc<ProviderSet> {
    let entry = |(name, fingerprint): &(&str, u64)| {
        let provider: Arc<dyn Provider> = Arc::new(FakeProvider::default());
        let fingerprint = *fingerprint;
        (
            (*name).to_owned(),
            Entry {
                provider,
                fingerprint,
            },
        )
    };
    Arc::new(entries.iter().map(entry).collect())
}

async fn providers(entries: &[(&str, u64)]) -> Providers {
    let (fleet, inbox) = inbox().await;
    let set = Arc::new(watch::Sender::new(set_of(entries)));
    let roster = Arc::new(watch::Sender::new(BTreeMap::new()));
    let (addr, seen, sets) = (Addr::default(), roster.subscribe(), Arc::clone(&set));
    let make = move || {
        ProvidersActor::new(
            sets.subscribe(),
            Arc::clone(&roster),
            fleet.clone(),
            metrics(),
        )
    };
    let stage = Stage::of(vec![ChildSpec::new("providers", addr.clone(), make)]).await;
    Providers {
        stage,
        addr,
        set,
        roster: seen,
        fleet: inbox,
    }
}

impl Providers {
    async fn listed(&mut self) -> BTreeMap<String, Listed> {
        assert!(matches!(
            self.fleet.recv().await,
            Some(FleetMsg::ProvidersChanged)
        ));
        self.roster.borrow().clone()
    }

    async fn configure(&mut self, entries: &[(&str, u64)]) -> BTreeMap<String, Listed> {
        let set = set_of(entries);
        self.set.send_replace(Arc::clone(&set));
        self.addr.tell(ProvidersMsg::Configure(set)).expect("is up");
        self.listed().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_whose_entry_did_not_change_keeps_its_actor() {
    let mut p = providers(&[("kept", 1), ("changed", 1), ("gone", 1)]).await;
    let before = p.listed().await;
    let after = p
        .configure(&[("kept", 1), ("changed", 2), ("new", 1)])
        .await;
    assert_eq!(after.keys().collect::<Vec<_>>(), ["changed", "kept", "new"]);
    assert!(before["kept"].addr.same(&after["kept"].addr));
    assert!(!before["changed"].addr.same(&after["changed"].addr));
    for name in ["kept", "changed", "new"] {
        let answer = &looks(&after[name].addr, 1).await[0];
        assert!(
            matches!(answer, Ok(Err(e)) if e.class == ErrorClass::NotFound),
            "{name}"
        );
    }
    for old in [&before["changed"], &before["gone"]] {
        until("stopped", || !old.addr.is_up()).await;
    }
    assert!(!p.stage.has("provider/gone"));
}

#[tokio::test(start_paused = true)]
async fn killed_providers_are_back_with_the_newest_set() {
    let mut p = providers(&[("a", 1)]).await;
    p.listed().await;
    p.configure(&[("b", 1)]).await;
    p.stage.kill("providers");
    let after = p.listed().await;
    assert_eq!(after.keys().collect::<Vec<_>>(), ["b"]);
    assert!(looks(&after["b"].addr, 1).await[0].is_ok());
}
