//! What may happen, and how often.

use crate::provider::contract::ErrorClass;
use proptest::prelude::*;

/// How an operation ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    Done,
    /// It fails and changes nothing.
    Refused(ErrorClass),
    /// It takes effect, but nobody hears of it.
    Unheard,
    /// It takes effect, or not, and the operator is gone.
    Crash(bool),
}

#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// The operator decides, or what it has under way ends like this.
    Step(End),
    /// Time passes.
    Wait(u64),
    /// The backend gets on with what it was told.
    Backend,
    /// The instance is gone without a word.
    Vanish,
    /// An instance on its way up will not come.
    FailLate,
    /// The instance stops.
    Stop,
    /// The user changes the spec, or takes the change back.
    Edit(u16),
    /// The user changes the Secret.
    Secret(u8),
    /// Another config of the provider, or none.
    Config(Option<u64>),
    /// Somebody else writes to the object.
    Touch,
    Delete,
}

fn any_end() -> impl Strategy<Value = End> {
    use ErrorClass::*;
    prop_oneof![
        12 => Just(End::Done),
        2 => prop::sample::select(vec![NotFound, QuotaExceeded, Transient, Permanent, AdoptionConflict])
            .prop_map(End::Refused),
        2 => Just(End::Unheard),
        2 => any::<bool>().prop_map(End::Crash),
    ]
}

pub fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        40 => any_end().prop_map(Act::Step),
        6 => prop::sample::select(vec![1, 10, 150, 400]).prop_map(Act::Wait),
        6 => Just(Act::Backend),
        1 => Just(Act::Vanish),
        1 => Just(Act::FailLate),
        1 => Just(Act::Stop),
        2 => (1..4u16).prop_map(Act::Edit),
        1 => (0..3u8).prop_map(Act::Secret),
        1 => prop::option::of(1..3u64).prop_map(Act::Config),
        1 => Just(Act::Touch),
    ]
}
