//! Kubernetes: the watch, the writes, the Secrets, the Events and what is said of providers.
//!
//! | file | is |
//! |---|---|
//! | [`client`] | the clients, and the gate before all that only a leader may do |
//! | [`cluster`] | what is asked of a cluster before anything starts |
//! | [`election`] | [`actors::leader::election::Election`]: a Lease |
//! | [`store`] | [`actors::store::ProxyStore`]: Proxies and Secrets, read and written |
//! | [`watch`] | what the watches see, coalesced per object |
//! | [`live`] | [`actors::collector::LiveProxies`]: which Proxies exist |
//! | [`provider_health`] | [`actors::monitor::HealthObjects`]: what is known of the providers |
//! | [`events`] | [`actors::events::EventSink`]: Events |

pub mod client;
pub mod cluster;
pub mod election;
pub mod events;
pub mod live;
pub mod provider_health;
pub mod store;
mod trace;
pub mod watch;
