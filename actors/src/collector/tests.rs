//! Sweeps of a world in which anything happens between any two steps of them.

mod random;
mod world;

use super::Pace;
use crate::fakes::until;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use world::{Act, Start, World};

const PACE: Pace = Pace {
    interval: Duration::from_secs(10),
    min_age: Duration::from_mins(1),
};

async fn world(names: &'static [&'static str]) -> (Start, Vec<Arc<World>>) {
    Start::of(names, PACE).await
}

#[tokio::test(start_paused = true)]
async fn an_orphan_goes_when_it_is_old_and_a_live_one_never() {
    let (start, worlds) = world(&["a"]).await;
    let w = &worlds[0];
    for act in [
        Act::Create(0),
        Act::Provision(0),
        Act::Create(1),
        Act::Provision(1),
        Act::Abandon(1),
        Act::Foreign(2),
        Act::LeftOver(3),
    ] {
        w.act(act);
    }
    let begun = Instant::now();
    // A left-over has no age: it is very old.
    until("the left-over goes", || w.instances() == 3).await;
    assert!(begun.elapsed() < 3 * PACE.interval);
    until("the orphan goes", || w.instances() == 2).await;
    assert!(begun.elapsed() > PACE.min_age);
    tokio::time::sleep(10 * PACE.min_age).await;
    assert_eq!(w.instances(), 2);
    assert_eq!(start.metric("gc_orphans_deleted_total", "a"), 2);
    assert_eq!(start.metric("gc_sweep_failures_total", "a"), 0);
    w.check();
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_counted_and_ends_that_sweep_alone() {
    for act in [Act::FailList, Act::FailRead, Act::FailDelete] {
        let (start, worlds) = world(&["a"]).await;
        let w = &worlds[0];
        w.act(Act::LeftOver(0));
        w.act(act);
        until("failed", || {
            start.metric("gc_sweep_failures_total", "a") == 1
        })
        .await;
        assert_eq!(w.instances(), 1, "{act:?}");
        let deleted = || start.metric("gc_orphans_deleted_total", "a");
        until("collected", || deleted() == 1).await;
        assert_eq!(w.instances(), 0);
        assert_eq!(start.metric("gc_sweep_failures_total", "a"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_delays_no_other() {
    let (start, worlds) = world(&["hung", "well"]).await;
    worlds[0].act(Act::HangList);
    worlds[0].act(Act::LeftOver(0));
    worlds[1].act(Act::LeftOver(0));
    let begun = Instant::now();
    until("collected", || worlds[1].instances() == 0).await;
    assert!(begun.elapsed() < 3 * PACE.interval);
    // And itself only until the deadline of its list.
    until("failed", || {
        start.metric("gc_sweep_failures_total", "hung") == 1
    })
    .await;
    until("collected", || worlds[0].instances() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn no_more_than_a_few_deletions_are_under_way() {
    let (_start, worlds) = world(&["a"]).await;
    let w = &worlds[0];
    for slot in 0..50 {
        w.act(Act::LeftOver(slot));
    }
    w.act(Act::SlowDeletes);
    until("collected", || w.instances() == 0).await;
    assert_eq!(w.most_deletions(), super::AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn where_not_all_proxies_can_be_seen_only_a_confined_provider_is_swept() {
    let (start, worlds) = world(&["confined", "wide"]).await;
    for w in &worlds {
        w.act(Act::OwnNamespaceOnly);
        w.act(Act::LeftOver(0));
    }
    until("collected", || worlds[0].instances() == 0).await;
    tokio::time::sleep(10 * PACE.min_age).await;
    assert_eq!(worlds[1].instances(), 1);
    assert_eq!(start.metric("gc_sweep_failures_total", "wide"), 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_found_of_an_entry_that_changed_or_went_meanwhile_counts_for_nothing() {
    for changes in [true, false] {
        let (start, worlds) = world(&["a", "b"]).await;
        for w in &worlds {
            w.act(Act::LeftOver(0));
            w.act(Act::SlowDeletes);
        }
        until("deleting", || worlds[0].most_deletions() == 1).await;
        start.roster.send_modify(|roster| {
            let mut listed = roster.remove("a").expect("is listed");
            listed.fingerprint = 2;
            if changes {
                roster.insert("a".into(), listed);
            }
        });
        until("counted", || {
            start.metric("gc_orphans_deleted_total", "b") == 1
        })
        .await;
        until("deleted", || worlds[0].instances() == 0).await;
        tokio::time::sleep(3 * PACE.interval).await;
        assert_eq!(start.counts("a"), changes, "later sweeps count");
        assert_eq!(start.metric("gc_orphans_deleted_total", "a"), 0);
    }
}
