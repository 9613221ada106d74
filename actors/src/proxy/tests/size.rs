//! Ten thousand of each have to fit.

use crate::{
    prober::{ProberActor, Watch},
    proxy::{ProxyActor, memory::Memory},
};

#[test]
fn actors_and_what_they_know_are_small() {
    for (what, size, bound) in [
        ("proxy", size_of::<ProxyActor>(), 160),
        ("memory", size_of::<Memory>(), 320),
        ("prober", size_of::<ProberActor>(), 128),
        ("watch", size_of::<Watch>(), 144),
    ] {
        assert!(size <= bound, "{what}: {size} bytes");
    }
}
