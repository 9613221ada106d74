//! The whole tree on fake ports: whoever is killed, all is well again.

use crate::{
    fakes::{SECOND, Tree, key, key_of, until},
    leases::{
        LeasesMsg,
        terms::{AcquireRequest, Grant},
    },
    prober::probe::{FailureKind, ProbeFailure},
    provider::contract::instance_name,
    proxy::tests::machine,
    system::directory::End,
};
use crds::{CloudInit, Phase, Proxy, SecretRef};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{sync::atomic::Ordering::SeqCst, time::Duration};

impl Tree {
    fn phase(&self) -> Option<Phase> {
        self.store.0.object(&key())?.status.as_ref()?.phase
    }

    async fn is(&self, phase: Phase) {
        until("in that phase", || self.phase() == Some(phase)).await;
    }

    async fn ready(object: Proxy) -> Self {
        let tree = Self::start().await;
        tree.store.0.apply(object);
        tree.is(Phase::Ready).await;
        tree
    }

    async fn lease(&self) -> Option<Grant> {
        let request = AcquireRequest {
            selector: [].into(),
            ttl: 3600 * SECOND,
            target: None,
        };
        let ask = |reply| LeasesMsg::Acquire(request, None, reply);
        self.leases.ask(SECOND, ask).await.ok()?.ok()
    }

    async fn shown(&self) -> usize {
        let ask = |reply| LeasesMsg::Views(crate::leases::terms::ViewFilter::default(), reply);
        self.leases
            .ask(SECOND, ask)
            .await
            .map_or(0, |views| views.len())
    }

    fn fails_probes(&self) {
        self.probe.answers(Err(ProbeFailure {
            kind: FailureKind::Connect,
            message: "refused".into(),
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn verdicts_arrive_whoever_was_killed_before() {
    for killed in [
        "fleet",
        "health",
        "leases",
        "status",
        "providers",
        "proxy/ns/px",
        "prober/ns/px",
    ] {
        let tree = Tree::ready(machine::external().object).await;
        let writes = tree.store.0.writes();
        tree.stage.kill(killed);
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(tree.phase(), Some(Phase::Ready), "{killed}");
        assert_eq!(
            tree.store.0.writes(),
            writes,
            "{killed}: something was written"
        );
        assert!(tree.lease().await.is_some(), "{killed}: nothing to lease");
        let probes = tree.probe.count();
        tree.fails_probes();
        tree.is(Phase::Unhealthy).await;
        assert!(tree.probe.count() > probes, "{killed}");
        assert!(
            tree.lease().await.is_none(),
            "{killed}: leased though unhealthy"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_survives_a_killed_ledger() {
    let tree = Tree::ready(machine::external().object).await;
    let lease = tree.lease().await.expect("a lease");
    tree.stage.kill("leases");
    let known = loop {
        let ask = |reply| LeasesMsg::Lease(lease.id, reply);
        if let Ok(known) = tree.leases.ask(SECOND, ask).await {
            break known;
        }
        tokio::time::sleep(SECOND).await;
    };
    assert_eq!(known, Ok(lease));
}

#[tokio::test(start_paused = true)]
async fn verdicts_count_though_the_fleet_was_killed_while_the_api_server_is_away() {
    let tree = Tree::ready(machine::external().object).await;
    tree.store.0.down.store(true, SeqCst);
    tree.stage.kill("fleet");
    tokio::time::sleep(SECOND).await;
    assert!(tree.lease().await.is_some());
    tree.fails_probes();
    tokio::time::sleep(60 * SECOND).await;
    assert!(tree.lease().await.is_none());
    assert_eq!(tree.phase(), Some(Phase::Ready), "who wrote that?");
}

#[tokio::test(start_paused = true)]
async fn what_vanished_while_nobody_looked_is_forgotten() {
    let tree = Tree::ready(machine::external().object).await;
    tree.store.0.blind.store(true, SeqCst);
    tree.store.0.delete(&key());
    tree.stage.kill("fleet");
    until("forgotten", || !tree.stage.has("prober/ns/px")).await;
    assert_eq!(tree.shown().await, 0);
    assert!(!tree.stage.has("proxy/ns/px"));
}

#[tokio::test(start_paused = true)]
async fn what_vanished_is_forgotten_once_more() {
    let tree = Tree::ready(machine::external().object).await;
    let ghost = std::sync::Arc::new(
        crate::proxy::candidate_of(&tree.store.0.object(&key()).unwrap()).unwrap(),
    );
    tree.store.0.delete(&key());
    until("stopped", || !tree.stage.has("proxy/ns/px")).await;
    // A last word that comes after the news of the end.
    tree.leases.tell(LeasesMsg::Offer(ghost)).expect("is up");
    assert_eq!(tree.shown().await, 1);
    tokio::time::sleep(6 * SECOND).await;
    assert_eq!(tree.shown().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_appears_and_changes_makes_and_replaces_the_instance() {
    let tree = Tree::start().await;
    let mut object = machine::managed().object;
    object.spec.cloud_init = Some(CloudInit {
        inline: None,
        secret_ref: Some(SecretRef {
            name: "boot".into(),
            key: "user-data".into(),
        }),
    });
    tree.store.0.apply(object);
    tree.is(Phase::Pending).await;
    tokio::time::sleep(60 * SECOND).await;
    assert!(tree.provider.vms().is_empty());
    tree.store.0.secret("boot", "#cloud-config 1");
    tree.is(Phase::Ready).await;
    tree.store.0.secret("boot", "#cloud-config 2");
    until("replaced", || {
        let vms = tree.provider.vms();
        vms.len() == 1 && vms.values().all(|built| built == "3128 #cloud-config 2")
    })
    .await;
    tree.is(Phase::Ready).await;
}

#[tokio::test(start_paused = true)]
async fn a_panicking_probe_is_a_prober_that_starts_again() {
    let tree = Tree::ready(machine::external().object).await;
    tree.probe.panics.store(true, SeqCst);
    until("panicked", || !tree.probe.panics.load(SeqCst)).await;
    let probes = tree.probe.count();
    until("probes again", || tree.probe.count() > probes + 2).await;
    assert_eq!(tree.phase(), Some(Phase::Ready));
}

/// A monkey kills anybody at any time while proxies are made, changed and deleted.
#[tokio::test(start_paused = true)]
async fn whoever_is_killed_whenever_all_is_well_at_the_end() {
    for seed in 0..12 {
        let mut dice = StdRng::seed_from_u64(seed);
        let tree = Tree::start().await;
        let fleet: Vec<Proxy> = (0..6)
            .map(|n| {
                let mut object = if n % 3 == 0 {
                    machine::external()
                } else {
                    machine::managed()
                }
                .object;
                object.metadata.name = Some(format!("px{n}"));
                object.metadata.uid = Some(format!("uid-{n}"));
                object
            })
            .collect();
        for object in &fleet {
            tree.store.0.apply(object.clone());
        }
        for round in 0..150 {
            tokio::time::sleep(Duration::from_millis(dice.random_range(0..40))).await;
            let mut all: Vec<_> = tree.stage.directory.list();
            all.retain(|seen| &*seen.path != "root");
            let victim = &all[dice.random_range(0..all.len())].path;
            // Who is just being started again is spared.
            let _ = tree.stage.directory.end(victim, End::Kill);
            let object = &fleet[dice.random_range(0..fleet.len())];
            match round {
                50..100 if object.spec.provider.is_some() => {
                    tree.store
                        .0
                        .edit(&key_of(object), |o| o.spec.port = 1000 + round);
                }
                120 => tree.store.0.delete(&key_of(&fleet[1])),
                121 => tree.store.0.delete(&key_of(&fleet[3])),
                _ => {}
            }
        }
        let gone = |n| tree.store.0.object(&key_of(&fleet[n])).is_none();
        until("deleted", || gone(1) && gone(3)).await;
        let live = [0, 2, 4, 5].map(|n| key_of(&fleet[n]));
        let is_ready = |key| {
            let object: std::sync::Arc<Proxy> = tree.store.0.object(key).expect("lives");
            let status = object.status.clone().unwrap_or_default();
            status.phase == Some(Phase::Ready)
                && status.observed_generation == object.metadata.generation
        };
        until("all Ready", || live.iter().all(is_ready)).await;
        tokio::time::sleep(200 * SECOND).await;
        // What a cut-off create left of one that was deleted is for the collector, who is not here.
        let mut vms = tree.provider.vms();
        vms.remove(&instance_name("uid-1"));
        let mut built: Vec<_> = vms.into_values().collect();
        let mut wanted: Vec<_> = live
            .iter()
            .map(|key| tree.store.0.object(key).unwrap().spec.clone())
            .filter(|spec| spec.provider.is_some())
            .map(|spec| format!("{} ", spec.port))
            .collect();
        built.sort();
        wanted.sort();
        assert_eq!(built, wanted, "seed {seed}");
        let writes = tree.store.0.writes();
        tokio::time::sleep(600 * SECOND).await;
        assert_eq!(tree.store.0.writes(), writes, "seed {seed}: not at rest");
        assert_eq!(tree.shown().await, 4, "seed {seed}");
    }
}
