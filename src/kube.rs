//! Kubernetes: the watch, the writes, the Secrets and the Events.
//!
//! | file | is |
//! |---|---|
//! | [`cluster`] | the client, and what is asked of a cluster before anything starts |
//! | [`store`] | [`actors::store::ProxyStore`]: Proxies and Secrets, read and written |
//! | [`watch`] | what the watches see, coalesced per object |
//! | [`events`] | [`actors::events::EventSink`]: Events on Proxies |

pub mod cluster;
pub mod events;
pub mod store;
pub mod watch;
