//! A provider: one actor between the proxies and one backend.

pub mod contract;
