//! The backends, one folder each.

pub mod kubernetes;
