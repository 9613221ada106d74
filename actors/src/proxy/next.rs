//! What a proxy does next. Pure: a function of the object and of what is known beyond it.

use super::memory::{Around, Backend, Memory, Wanted};
use crds::{Mode, Proxy};
use tokio::time::Instant;

/// The one thing to do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Hold the object, before anything is made for it.
    AddFinalizer,
    /// Let the object go: nothing of it is left.
    ReleaseFinalizer,
    /// Let the object go although its instance, by this key, may still be there.
    Abandon(String),
    /// Find out what the instance should be made of.
    Resolve,
    /// Record what the instance is going to be made of.
    WriteHash(Box<str>),
    /// Make the instance, if what it should be made of still has this hash.
    Create(Box<str>),
    /// Look at the instance.
    Get(String),
    /// Tell the instance to go.
    Delete(String),
    /// Nothing before this time, unless something happens.
    Sleep(Instant),
    /// Nothing, unless something happens.
    Rest,
}

impl Next {
    /// Whether the pass is complete.
    #[must_use]
    pub fn is_rest(&self) -> bool {
        matches!(self, Self::Sleep(_) | Self::Rest)
    }
}

/// What to do next.
#[must_use]
pub fn next(memory: &Memory, around: &Around<'_>) -> Next {
    let object = around.object;
    match (object.spec.mode, object.is_deleting()) {
        (_, true) if !object.has_finalizer() => Next::Rest,
        (_, true) => leave(memory, around),
        (Mode::External, false) => Next::Rest,
        (Mode::Managed, false) => live(memory, around),
    }
}

fn live(memory: &Memory, around: &Around<'_>) -> Next {
    let object = around.object;
    if !object.has_finalizer() {
        return Next::AddFinalizer;
    }
    if around.config.is_none() || memory.latched {
        return Next::Rest;
    }
    let id = memory.id(object);
    let built = object.spec_hash();
    let wanted = match (&memory.wanted, built) {
        (Wanted::Unresolved, _) => return Next::Resolve,
        (Wanted::Hash(wanted), _) => wanted,
        // What runs goes on running while its Secret is away; only a new instance needs it.
        (Wanted::Unavailable(_), Some(_)) if id.is_some() => {
            return tend(memory, object, around.now);
        }
        (Wanted::Unavailable(_), _) => return Next::Rest,
    };
    if built != Some(wanted) && (id.is_none() || built.is_none()) {
        return Next::WriteHash(wanted.clone());
    }
    if id.is_some() {
        return tend(memory, object, around.now);
    }
    not_before(memory.due, around.now).unwrap_or_else(|| Next::Create(wanted.clone()))
}

/// Looks after an instance that exists; one that is not wanted any more was marked stopped by the look.
fn tend(memory: &Memory, object: &Proxy, now: Instant) -> Next {
    let Some(id) = memory.id(object).map(str::to_owned) else {
        return Next::Rest;
    };
    not_before(memory.due, now).unwrap_or(match memory.backend {
        Backend::Stopped => Next::Delete(id),
        _ => Next::Get(id),
    })
}

fn leave(memory: &Memory, around: &Around<'_>) -> Next {
    let object = around.object;
    let Some(id) = memory.id(object).map(str::to_owned) else {
        return Next::ReleaseFinalizer;
    };
    if object.skips_cleanup() {
        return Next::Abandon(id);
    }
    if around.config.is_none() {
        return Next::Rest;
    }
    not_before(memory.due, around.now).unwrap_or(match memory.backend {
        Backend::Stopped => Next::Delete(id),
        _ if memory.blind => Next::Delete(id),
        _ => Next::Get(id),
    })
}

fn not_before(due: Option<Instant>, now: Instant) -> Option<Next> {
    due.filter(|due| *due > now).map(Next::Sleep)
}
