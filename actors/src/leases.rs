//! The lease ledger: one actor that owns every lease and cooldown.

pub mod terms;
