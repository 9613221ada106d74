//! A monkey that kills, stops and breaks at random.

use super::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PATHS: [&str; 9] = ["a", "a/1", "a/2", "a/2/x", "b", "b/1", "c", "c/1", "c/1/x"];

fn family() -> [Plan; 3] {
    [
        plan("a").with([plan("a/1"), plan("a/2").with([plan("a/2/x")])]),
        plan("b").with([plan("b/1")]),
        plan("c").with([plan("c/1").with([plan("c/1/x")])]),
    ]
}

/// Lets a monkey loose that ends someone a thousand times, and asserts that all is as before.
async fn survives(seed: u64) {
    let lab = tree(family()).await;
    let mut dice = StdRng::seed_from_u64(seed);
    for _ in 0..1000 {
        let path = PATHS[dice.random_range(0..PATHS.len())];
        let end = if dice.random_bool(0.8) {
            End::Kill
        } else {
            End::Stop
        };
        // Nobody may be there while its parent is coming back.
        let _ = lab.directory.end(path, end);
        lab.addr(path).hint(Do::Work);
        // Now it strikes those who are just starting, now those who have settled.
        match dice.random_range(0..4) {
            0 => tokio::time::sleep(MS).await,
            1 => tokio::task::yield_now().await,
            _ => (),
        }
    }
    let deadline = Instant::now() + 10 * SECOND;
    for path in PATHS {
        while lab.addr(path).ask(SECOND, Do::Ping).await.is_err() {
            assert!(
                Instant::now() < deadline,
                "{path} did not come back, seed {seed}"
            );
            tokio::time::sleep(MS).await;
        }
    }
    let all_is_well = || {
        let list = lab.directory.list();
        let idle = list.iter().all(|seen| seen.mailbox_depth == 0);
        lab.alive() == 10 && list.len() == 10 && idle
    };
    while !all_is_well() {
        let list = lab.directory.list();
        assert!(Instant::now() < deadline, "{list:?}, seed {seed}");
        tokio::time::sleep(MS).await;
    }
    assert_eq!(lab.seen("root").restarts, 0);
    assert!(lab.restarts("killed") > 100, "the monkey slept");
    assert_eq!(lab.restarts("error") + lab.restarts("panic"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_random_kills_leave_the_tree_complete() {
    for seed in 0..5 {
        survives(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn and_so_they_do_on_several_threads() {
    for seed in 5..10 {
        survives(seed).await;
    }
}
