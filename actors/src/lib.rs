//! The behaviour of the operator, apart from all that it talks to: its actors and the ports they need.
//!
//! | actor | owns |
//! |---|---|
//! | [`root`] | the services below it |
//! | [`config`] | the set of configured providers |
//! | [`collector`] | the search for instances without a Proxy |
//! | [`monitor`] | what is known of the providers' health |
//! | [`leader`] | the right to act, and the services that need it |
//! | [`status`] | all writes to Proxy objects |
//! | [`events`] | Kubernetes Events |
//! | [`leases`] | leases and cooldowns |
//! | [`providers`], [`provider`] | the calls to the backends |
//! | [`connection`] | a session with something far away, and what is under way on it |
//! | [`health`], [`prober`] | the proof that proxies egress |
//! | [`fleet`], [`proxy`] | the Proxy objects |
//! | [`monkey`] | kills others, where that is allowed |
//! | [`server`] | a listener: the lease API, the operations endpoints |
//!
//! The outside world appears only as ports: [`store::ProxyStore`], [`events::EventSink`],
//! [`config::Source`], [`collector::LiveProxies`], [`monitor::HealthObjects`],
//! [`provider::contract::Provider`], [`prober::probe::Probe`], [`leases::journal::Journal`],
//! [`connection::link::Link`], [`server::Serve`].

pub mod collector;
pub mod config;
pub mod connection;
pub mod events;
#[cfg(test)]
mod fakes;
pub mod fleet;
pub mod health;
pub mod key;
pub mod leader;
pub mod leases;
pub mod metrics;
pub mod monitor;
pub mod monkey;
pub mod prober;
pub mod provider;
pub mod providers;
pub mod proxy;
pub mod root;
pub mod server;
pub mod status;
pub mod store;
pub mod system;
pub mod trace;
#[cfg(test)]
mod tree_test;
pub mod wall;
