//! What a proxy does next. Pure: a function of the object and of what is known beyond it.

use super::memory::{Around, Backend, Memory, Wanted};
use crds::Mode;
use tokio::time::Instant;

/// In place of a hash: what the instance is built from cannot be told.
pub const UNCERTAIN: &str = "uncertain";

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

    /// Whether the API server has to do something for it.
    #[must_use]
    pub fn asks_api(&self) -> bool {
        !self.is_rest() && !matches!(self, Self::Get(_) | Self::Delete(_))
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
    let wanted = match (&memory.wanted, id) {
        (Wanted::Unresolved | Wanted::Asked, _) => return Next::Resolve,
        (Wanted::Hash(wanted), _) => wanted,
        (Wanted::Unread(_, again), _) if *again <= around.now => return Next::Resolve,
        (Wanted::Unread(_, again), None) => return Next::Sleep(*again),
        (Wanted::Unread(_, again), Some(id)) => {
            return match look_after(id, memory, around.now) {
                Next::Sleep(due) => Next::Sleep(due.min(*again)),
                next => next,
            };
        }
        // What runs goes on running while its Secret is away; only a new instance needs it.
        (Wanted::Unavailable(_), Some(id)) => return look_after(id, memory, around.now),
        (Wanted::Unavailable(_), None) => return Next::Rest,
    };
    match object.spec_hash() {
        None => return Next::WriteHash(wanted.clone()),
        Some(built) if built == &**wanted || id.is_some() => {}
        Some(_) if !memory.in_doubt => return Next::WriteHash(wanted.clone()),
        // `create` may adopt an instance that nobody recorded, built from this or from an earlier spec.
        // It is found to be out of date then, whatever is wanted by that time.
        Some(UNCERTAIN) => {}
        Some(_) => return Next::WriteHash(UNCERTAIN.into()),
    }
    if let Some(id) = id {
        return look_after(id, memory, around.now);
    }
    let due = memory.due.max(shows(memory, around));
    not_before(due, around.now).unwrap_or_else(|| Next::Create(wanted.clone()))
}

/// When an instance that nobody recorded is sure to be found, where it has to be looked for.
fn shows(memory: &Memory, around: &Around<'_>) -> Option<Instant> {
    let uncertain = around.object.spec_hash() == Some(UNCERTAIN);
    let since = memory.doubted.filter(|_| uncertain)?;
    Some(since + around.pace.provisioning)
}

fn leave(memory: &Memory, around: &Around<'_>) -> Next {
    let object = around.object;
    match memory.id(object) {
        None => Next::ReleaseFinalizer,
        Some(id) if object.skips_cleanup() => Next::Abandon(id.to_owned()),
        Some(_) if around.config.is_none() => Next::Rest,
        Some(id) => look_after(id, memory, around.now),
    }
}

/// Looks at an instance, or tells it to go where the last look has shown that it has to.
fn look_after(id: &str, memory: &Memory, now: Instant) -> Next {
    not_before(memory.due, now).unwrap_or_else(|| {
        if memory.backend == Backend::Stopped || memory.blind {
            Next::Delete(id.to_owned())
        } else {
            Next::Get(id.to_owned())
        }
    })
}

fn not_before(due: Option<Instant>, now: Instant) -> Option<Next> {
    due.filter(|due| *due > now).map(Next::Sleep)
}
