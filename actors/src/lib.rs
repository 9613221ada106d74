//! The behaviour of the operator, apart from all that it talks to: its actors and the ports they need.
//!
//! | actor | owns |
//! |---|---|
//! | [`root`] | the services below it |
//! | [`config`] | the set of configured providers |
//! | [`status`] | all writes to Proxy objects |
//! | [`events`] | Kubernetes Events |
//! | [`leases`] | leases and cooldowns |
//! | [`providers`], [`provider`] | the calls to the backends |
//! | [`health`], [`prober`] | the proof that proxies egress |
//! | [`fleet`], [`proxy`] | the Proxy objects |
//! | [`server`] | a listener: the lease API, the operations endpoints |
//!
//! The outside world appears only as ports: [`store::ProxyStore`], [`events::EventSink`],
//! [`provider::contract::Provider`], [`prober::probe::Probe`], [`leases::journal::Journal`],
//! [`server::Serve`].

pub mod config;
pub mod events;
#[cfg(test)]
mod fakes;
pub mod fleet;
pub mod health;
pub mod key;
pub mod leases;
pub mod metrics;
pub mod prober;
pub mod provider;
pub mod providers;
pub mod proxy;
pub mod root;
pub mod server;
pub mod status;
pub mod store;
pub mod system;
#[cfg(test)]
mod tree_test;
