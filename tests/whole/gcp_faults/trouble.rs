//! What goes wrong: with one request, with one write, and behind the operator's back.

use crate::lab::gce::{
    Gce,
    faults::{self, Act, On},
    operation::Failure,
    refusal::Refusal,
};
use rand::{RngExt as _, rngs::SmallRng};
use std::time::Duration;

/// Longer than anybody waits here.
pub const FOR_EVER: Duration = Duration::from_hours(1);

/// How a call to Google ends for the one who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its answer.
    Heard,
    /// The process dies before it is asked.
    DiesBefore,
    /// The process dies with the answer in its hand.
    DiesAfter,
}

/// How a write to the API server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Done,
    /// It was not done, and that is told.
    Refused,
    /// It was done, and nobody hears of it.
    Unheard,
    DiesBefore,
    DiesAfter,
}

pub fn end(dice: &mut SmallRng) -> End {
    match dice.random_range(0..100) {
        0..4 => End::DiesBefore,
        4..12 => End::DiesAfter,
        _ => End::Heard,
    }
}

pub fn write(dice: &mut SmallRng) -> Write {
    match dice.random_range(0..100) {
        0..5 => Write::Refused,
        5..10 => Write::Unheard,
        10..13 => Write::DiesBefore,
        13..17 => Write::DiesAfter,
        _ => Write::Done,
    }
}

/// Orders trouble for one of the next requests; `None` if there is none this time.
pub fn order(gce: &Gce, dice: &mut SmallRng) -> Option<String> {
    if dice.random_range(0..100) < 60 {
        return None;
    }
    // Not for tokens: after a failure of those the provider pauses by a clock that nobody sets here.
    let method = match dice.random_range(0..10) {
        0..4 => "compute.instances.insert",
        4..7 => "compute.instances.get",
        7 => "compute.zoneOperations.get",
        _ => "compute.instances.delete",
    };
    let act = act(dice, method);
    let told = format!("{method} {act:?}");
    gce.order(On::method(method), 1, act);
    Some(told)
}

fn act(dice: &mut SmallRng, method: &str) -> Act {
    match dice.random_range(0..32) {
        0 => Act::refuse(faults::unauthenticated()),
        1 => Act::refuse(faults::insufficient_scopes()),
        2 => Act::refuse(faults::forbidden("compute.instances.x", "projects/p")),
        3 => Act::refuse(faults::api_disabled()),
        4 => Act::refuse(faults::quota_exceeded()),
        5 => Act::refuse(faults::rate_limited()),
        6 => Act::refuse(faults::too_many(1)),
        7 => Act::refuse(faults::condition_not_met()),
        8 => Act::refuse(faults::server_error(500)),
        9 => Act::refuse(faults::server_error(502)),
        10 => Act::refuse(faults::server_error(503)),
        11 => Act::html(),
        // Of something else: that the instance is missing or there, Google says of those alone that are.
        12 => Act::refuse(Refusal::not_found("projects/p/global/networks/gone")),
        13 if method == "compute.instances.insert" => {
            Act::refuse(Refusal::already_exists("projects/p/zones/z/instances/i"))
        }
        14 => Act::refuse(Refusal::invalid("resource.x", "y", "The URL is malformed.")),
        15..18 => Act::Reset,
        18..22 => Act::ResetAfter,
        22..25 => Act::Truncate,
        25 | 26 => Act::Cut,
        27 => Act::RefuseAfter(Box::new(faults::server_error(500))),
        28 => Act::RefuseAfter(Box::new(faults::server_error(503))),
        29 => Act::WaitAfter(FOR_EVER),
        30 => Act::Wait(FOR_EVER),
        _ => Act::RefuseAfter(Box::new(faults::too_many(1))),
    }
}

/// What an accepted operation fails of.
pub fn late(dice: &mut SmallRng, project: &str, zone: &str) -> Failure {
    match dice.random_range(0..4) {
        0 => Failure::quota("CPUS", 24.0, "europe-west1"),
        1 => Failure::image("projects/p/global/images/gone"),
        _ => Failure::exhausted(project, zone),
    }
}
