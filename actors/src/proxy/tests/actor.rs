//! The actor: between inboxes, where each word to and from it is seen.

mod bench;

use super::machine;
use crate::{
    fakes::{SECOND, key, until},
    health::HealthMsg,
    leases::LeasesMsg,
    provider::{
        ProviderMsg,
        contract::{Created, ErrorClass, Operation},
    },
    proxy::ProxyMsg,
    system::Epoch,
};
use bench::{Word, bench, error, instance, next, silent};
use crds::Phase;
use std::{sync::atomic::Ordering::SeqCst, time::Duration};
use tokio::time::Instant;

const MILLISECOND: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_life_from_apply_to_release() {
    let mut b = bench(&machine::managed().object).await;
    b.ready().await;
    assert_eq!(b.offer(), Word::Offers(true));
    b.store.0.delete(&key());
    b.changed();
    b.gets(Ok(instance())).await;
    assert_eq!(b.offer(), Word::Withdraws, "the ledger hears of it first");
    b.deletes().await;
    b.gets(Err(error(ErrorClass::NotFound, Operation::Get)))
        .await;
    until("released", || b.store.0.object(&key()).is_none()).await;
    assert!(silent(&mut b.provider).await);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_was_killed_while_it_was_asked_is_asked_again_and_no_backend_is_blamed() {
    let mut b = bench(&machine::managed().object).await;
    for _ in 0..3 {
        let ProviderMsg::Create(_, dropped) = next(&mut b.provider).await else {
            panic!("something else than create");
        };
        // An error would have been written before the next try.
        let object = b.store.0.object(&key()).expect("is there");
        let errors = object
            .conditions()
            .iter()
            .filter(|c| c.reason == "TransientError");
        assert_eq!(errors.count(), 0);
        drop(dropped);
    }
    b.ready().await;
}

#[tokio::test(start_paused = true)]
async fn one_operation_at_a_time_and_it_holds_nothing_up() {
    let mut b = bench(&machine::managed().object).await;
    b.creates().await;
    b.gets(Ok(instance())).await;
    let epoch = b.watched().await.epoch;
    b.store.0.edit(&key(), |object| object.spec.port = 1);
    b.changed();
    let ProviderMsg::Get(_, _, hanging) = next(&mut b.provider).await else {
        panic!("is looked at before it is replaced");
    };
    b.offer();
    for _ in 0..10 {
        b.changed();
        b.addr.hint(ProxyMsg::SecretChanged("other".into()));
    }
    b.judge(epoch, true);
    b.addr.hint(ProxyMsg::Announce);
    until("answers the ledger", || !b.leases.is_empty()).await;
    assert_eq!(b.offer(), Word::Withdraws, "it is being replaced");
    assert!(silent(&mut b.provider).await, "a second operation");
    hanging.send(Ok(instance())).ok();
    b.deletes().await;
}

#[tokio::test(start_paused = true)]
async fn results_of_earlier_operations_are_dropped() {
    let mut b = bench(&machine::managed().object).await;
    b.ready().await;
    let writes = b.store.0.writes();
    b.offer();
    b.addr.hint(ProxyMsg::Got(
        Epoch::next(),
        Err(error(ErrorClass::NotFound, Operation::Get)),
    ));
    b.addr
        .hint(ProxyMsg::Judged(Epoch::next(), machine::unhealthy("old")));
    b.addr.hint(ProxyMsg::Written(
        Epoch::next(),
        Err(crate::store::WriteError::Gone),
    ));
    assert!(silent(&mut b.leases).await);
    assert_eq!(b.store.0.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_same_name_with_another_uid_is_another_proxy() {
    let mut b = bench(&machine::managed().object).await;
    let ProviderMsg::Create(_, late) = next(&mut b.provider).await else {
        panic!("something else than create");
    };
    let mut other = machine::managed().object;
    other.metadata.uid = Some("uid-2".into());
    b.store.0.apply(other);
    // The answer is the first that it hears after the change.
    let id = "x".into();
    late.send(Ok(Created {
        id,
        operation: None,
        notes: vec![],
    }))
    .ok();
    let ProviderMsg::Create(request, _) = next(&mut b.provider).await else {
        panic!("the other object's instance was taken over");
    };
    assert_eq!(request.uid, "uid-2");
    let status = b.store.0.object(&key()).unwrap().status.clone().unwrap();
    assert_eq!((status.provider_id, status.ip), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_conflict_means_to_look_again() {
    let mut b = bench(&machine::managed().object).await;
    b.store.0.blind.store(true, SeqCst);
    while b.store.0.writes() < 1 {
        tokio::time::sleep(MILLISECOND).await;
    }
    // Nobody tells the actor of this change, which makes its next write a conflict.
    b.store.0.change(&key(), |object| {
        object.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    });
    assert!(silent(&mut b.provider).await, "created although not held");
    b.store.0.blind.store(false, SeqCst);
    b.store.0.catch_up(&key());
    b.changed();
    b.ready().await;
    assert!(b.store.0.object(&key()).unwrap().metadata.labels.is_some());
}

#[tokio::test(start_paused = true)]
async fn its_own_writes_count_before_the_watch_has_seen_them() {
    let mut b = bench(&machine::managed().object).await;
    b.store.0.blind.store(true, SeqCst);
    b.ready().await;
    let writes = b.store.0.writes();
    assert!(writes <= 7, "{writes} writes");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_is_asked_rarely_and_the_ledger_hears_of_verdicts() {
    let mut b = bench(&machine::managed().object).await;
    let epoch = b.ready().await;
    b.offer();
    b.store.0.down.store(true, SeqCst);
    b.judge(epoch, false);
    tokio::time::sleep(SECOND).await;
    assert_eq!(b.offer(), Word::Offers(false));
    tokio::time::sleep(300 * SECOND).await;
    b.store.0.down.store(false, SeqCst);
    let back = Instant::now();
    until("written", || b.phase() == Some(Phase::Unhealthy)).await;
    assert!(back.elapsed() <= 16 * SECOND, "{:?}", back.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_gone_object_is_not_written_again_and_again() {
    let mut b = bench(&machine::managed().object).await;
    let epoch = b.ready().await;
    b.store.0.blind.store(true, SeqCst);
    b.store
        .0
        .change(&key(), |object| object.metadata.finalizers = None);
    b.store.0.delete(&key());
    let before = b.stage.directory.list();
    let handled = |list: Vec<crate::system::directory::Seen>| -> u64 {
        list.iter()
            .filter(|s| &*s.path == "status")
            .map(|s| s.handled)
            .sum()
    };
    let before = handled(before);
    b.judge(epoch, false);
    tokio::time::sleep(60 * SECOND).await;
    let tries = handled(b.stage.directory.list()) - before;
    assert!((1..=12).contains(&tries), "{tries} tries in a minute");
}

#[tokio::test(start_paused = true)]
async fn whoever_was_started_again_hears_of_withdrawals_too() {
    let mut b = bench(&machine::managed().object).await;
    b.ready().await;
    b.store.0.delete(&key());
    b.changed();
    next(&mut b.provider).await;
    b.offer();
    while b.health.try_recv().is_ok() {}
    b.addr.hint(ProxyMsg::Announce);
    assert!(matches!(next(&mut b.leases).await, LeasesMsg::Withdraw(_)));
    assert!(matches!(next(&mut b.health).await, HealthMsg::Forget(_)));
}

#[tokio::test(start_paused = true)]
async fn a_killed_proxy_goes_on_with_the_verdict_in_its_status() {
    let mut b = bench(&machine::managed().object).await;
    b.ready().await;
    let writes = b.store.0.writes();
    b.offer();
    b.stage.kill("proxy");
    let watch = b.watched().await;
    assert_eq!(watch.verdict, Some(machine::healthy(7)));
    assert_eq!(b.offer(), Word::Offers(true));
    b.gets(Ok(instance())).await;
    assert!(silent(&mut b.provider).await, "asked more than once");
    assert_eq!(b.store.0.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn a_changed_check_keeps_the_epoch_and_a_new_address_does_not() {
    let mut b = bench(&machine::external().object).await;
    let first = b.watched().await;
    b.store
        .0
        .edit(&key(), |object| object.spec.health_check.period_seconds = 3);
    b.changed();
    let second = b.watched().await;
    assert_eq!((second.epoch, second.period), (first.epoch, 3 * SECOND));
    b.judge(first.epoch, true);
    b.store.0.edit(&key(), |object| object.spec.max_leases = 3);
    b.changed();
    b.store.0.edit(&key(), |object| {
        object.spec.endpoint.as_mut().unwrap().host = "other.example".into();
    });
    b.changed();
    let third = b.watched().await;
    assert_ne!(third.epoch, first.epoch);
    assert_eq!((&*third.fetch.host, third.verdict), ("other.example", None));
}
