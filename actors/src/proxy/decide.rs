//! What a proxy does now. Pure: what has to be written first, then [`next`].

use super::{
    memory::{Around, Memory},
    next::{Next, next},
    status::status,
};
use crds::{Phase, ProxyStatus};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Write this status before anything else, so that the object never says less than what the next
    /// operation rests on.
    WriteStatus(Box<ProxyStatus>),
    /// The API server failed lately: nothing is asked of it before this time.
    SpareApi(Instant),
    /// The object says all that there is to say.
    Do(Next),
}

/// Decides on one step; `now` is for the conditions.
#[must_use]
pub fn decide(memory: &Memory, around: &Around<'_>, now: Timestamp) -> Decision {
    let object = around.object;
    let next = next(memory, around);
    let status = status(memory, around, next.is_rest(), now);
    let before = object.status.as_ref();
    // Going, not held by us, and saying so: nothing is left to say, whoever else holds it.
    let phase = before.and_then(|before| before.phase);
    let left = object.is_deleting() && !object.has_finalizer() && phase == Some(Phase::Deleting);
    // Until it is known what is wanted, nothing is said about a new generation but the key of an
    // instance and its creation: that what runs is Ready would be true of the old one only, and `kubectl wait` would
    // believe it.
    let recorded = before.is_some_and(|before| {
        (&before.provider_id, &before.operation) == (&status.provider_id, &status.operation)
    });
    let waits = next == Next::Resolve && recorded;
    let stale = before != Some(&status) && !left && !waits;
    let asks_api = stale || next.asks_api();
    // A replacement's hash comes before the old key is cleared. Cut off in between, the next one looks
    // for that key and finds nothing; an old hash without a key would leave in doubt whether there is
    // an instance, and cost one more that nobody wants.
    let has_key = before.is_some_and(|before| before.provider_id.is_some());
    let hash_first = matches!(next, Next::WriteHash(_)) && has_key;
    match memory.api_due.filter(|due| *due > around.now) {
        Some(due) if asks_api => Decision::SpareApi(due),
        _ if stale && !hash_first => Decision::WriteStatus(Box::new(status)),
        _ => Decision::Do(next),
    }
}
