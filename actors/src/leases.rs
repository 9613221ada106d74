//! The lease ledger: one actor that owns every lease and cooldown.

pub mod journal;
pub mod ledger;
pub mod now;
pub mod terms;
