//! The language of the operator: its custom resources as Rust types.
//!
//! The types are the single source. The `CustomResourceDefinition` documents beside this crate's
//! sources are generated from them (see [`yaml`]) and carry every rule that the API server enforces,
//! so that a bad object is refused before the operator sees it.
//!
//! Nothing here talks to anything: no client, no runtime, only data and pure helpers.

pub mod conditions;
pub mod names;
pub mod provider_health;
pub mod proxy;
mod schema;
pub mod yaml;

pub use provider_health::{
    MAX_MESSAGE, ProviderHealth, ProviderHealthStatus, ProviderType, Target,
};
pub use proxy::{
    CloudInit, Endpoint, HealthCheck, Mode, Phase, Placement, Proxy, ProxySpec, ProxyStatus,
    SecretRef, is_attribute_key,
};
