//! The whole program against everything that it talks to, for real: one binary, one lab.
//!
//! `cargo test --test whole [FILTER]`. The lab (a Kubernetes with a node, and the judge) is started
//! by the first scenario that needs it, once, and taken down at the end, whatever ends it; what a run
//! that was killed left behind is removed by the next. `LAB_INDEX` (1 to 25) keeps runs on one
//! machine apart; `KEEP=1` leaves the lab up. Scenarios run side by side, each in a namespace of its
//! own with an operator of its own; then those with VMs, fewer at once; and then alone those that need the
//! cluster to themselves or are held to a clock.
//! What a scenario that fails has to say is told at once, and again in the last lines.
//!
//! The lab needs root. Without it, what needs no lab is run, and the rest is shown as ignored.

mod lab;
mod whole {
    //! The scenarios, by subject; [`all`] is the list of them.
    pub mod api;
    pub mod chaos;
    pub mod cli;
    pub mod collector;
    pub mod conformance;
    pub mod crds;
    pub mod deploy;
    pub mod faults;
    pub mod gcp_credentials;
    pub mod gcp_faults;
    pub mod gcp_life;
    pub mod gcp_provider;
    pub mod gcp_scale;
    pub mod gcp_stand_in;
    pub mod guards;
    pub mod health;
    pub mod kubernetes_provider;
    pub mod kvm_faults;
    pub mod kvm_life;
    pub mod kvm_provider;
    pub mod kvm_pure;
    pub mod kvm_ssh;
    pub mod leader;
    pub mod leases;
    pub mod lifecycle;
    mod list;
    pub mod monitor;
    pub mod ops;
    pub mod outside;
    pub mod probe;
    pub mod reload;
    pub mod shutdown;
    pub mod traces;
    pub mod user_data;

    pub use list::{alone, together, vms};
}

use lab::Stage;
use libtest_mimic::{Arguments, Trial};
use std::process::exit;
// Scenario modules name each other from the root.
use whole::conformance;

/// Scenarios wait more than they work.
const THREADS: usize = 8;
/// Those with VMs work more.
const THREADS_OF_VMS: usize = 5;

fn main() -> anyhow::Result<()> {
    let mut arguments = Arguments::from_args();
    let threads = arguments.test_threads.unwrap_or(THREADS);
    let stage = Stage::new()?;
    if !arguments.list && !Stage::is_possible() {
        eprintln!("whole: NOT ROOT: the lab cannot be started; all that needs it is ignored");
    }
    let mut failed = false;
    for (threads, trials) in [
        (threads, whole::together(&stage)),
        (threads.min(THREADS_OF_VMS), whole::vms(&stage)),
        (1, whole::alone(&stage)),
    ] {
        arguments.test_threads = Some(threads);
        // A second heading with nothing below it would only puzzle.
        if trials.iter().any(|trial| is_asked_for(trial, &arguments)) {
            failed |= libtest_mimic::run(&arguments, trials).has_failed();
        }
    }
    let failures = stage.failures();
    drop(stage);
    // Once more: they are far up, and the last lines are what one sees.
    for (name, message) in failures {
        eprintln!("whole: FAILED {name}: {message}");
    }
    exit(i32::from(failed) * 101);
}

fn is_asked_for(trial: &Trial, arguments: &Arguments) -> bool {
    let matches = |pattern: &String| {
        if arguments.exact {
            trial.name() == pattern
        } else {
            trial.name().contains(pattern.as_str())
        }
    };
    arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}
