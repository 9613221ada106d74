//! The promise: whatever happens between any two steps, what a Proxy owns is never deleted, and what none
//! owns goes in the end.

use super::{
    PACE,
    world::{Act, Start},
};
use proptest::{collection::vec, prelude::*};
use std::time::Duration;
use tokio::{
    runtime::Builder,
    time::{Instant, sleep},
};

/// Few, so that much happens to each.
const SLOTS: usize = 4;
/// Longer than all that can be scripted takes.
const FOR_EVER: Duration = Duration::from_hours(24);

fn act() -> impl Strategy<Value = Act> {
    let slot = || 0..SLOTS;
    prop_oneof![
        4 => slot().prop_map(Act::Create),
        4 => slot().prop_map(Act::Provision),
        2 => slot().prop_map(Act::ProvisionLate),
        2 => slot().prop_map(Act::LeftOver),
        1 => slot().prop_map(Act::Foreign),
        2 => slot().prop_map(Act::Remove),
        3 => slot().prop_map(Act::Abandon),
        1 => (-100_000i64..100_000).prop_map(Act::Step),
        2 => (0u64..90).prop_map(Act::Pass),
        1 => Just(Act::FailList),
        1 => Just(Act::HangList),
        1 => Just(Act::FailRead),
        1 => Just(Act::FailDelete),
        1 => Just(Act::Kill),
    ]
}

async fn holds(acts: Vec<Act>) {
    let (start, worlds) = Start::of(&["a"], PACE).await;
    let world = &worlds[0];
    world.script(acts);
    let end = Instant::now() + FOR_EVER;
    while !world.is_played() || !world.orphans().is_empty() {
        for _ in 0..world.kills() {
            start.stage.kill("collector");
        }
        assert!(
            Instant::now() < end,
            "played: {}, left: {:#?}",
            world.is_played(),
            world.orphans()
        );
        sleep(Duration::from_secs(1)).await;
    }
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_lives_is_never_deleted_and_what_is_orphaned_always_is(acts in vec(act(), 1..80)) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(holds(acts));
    }
}
