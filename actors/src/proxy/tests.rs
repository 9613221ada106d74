//! The state machine as tables, then against a model of the world, then as an actor.

mod actor;
mod errors;
mod leave;
mod live;
pub(crate) mod machine;
mod model;
mod restart;
mod said;
mod size;
