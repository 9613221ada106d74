//! The behaviour of the operator: who owns what, what happens when, and what happens when it fails.

pub mod key;
pub mod leases;
pub mod prober;
pub mod provider;
pub mod system;
