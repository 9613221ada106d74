//! The HTTP servers: the lease API, the operations endpoints, the admin server.
//!
//! | file | is |
//! |---|---|
//! | [`api`] | the lease API: route, token, body, ledger, answer |
//! | [`desk`] | the port to the lease ledger |
//! | [`routes`] | the one table of routes |
//! | [`body`], [`query`], [`target`], [`lease_id`], [`reading`] | what a request says, validated |
//! | [`answers`], [`refusal`] | what is answered |
//! | [`auth`] | who may ask |
//! | [`admin`] | the actors from outside |
//! | [`forward`] | from a follower to the leader |
//! | [`openapi`] | the API's description of itself, made from the types above |
//! | [`metrics`], [`trace`] | counts, times and spans by route |
//! | [`ops`] | `/metrics`, `/healthz`, `/readyz` |
//! | [`bind`] | where a server listens, as flags spell it |
//! | [`server`], [`listener`] | the accept loop, and the bound listener that an actor serves |
//! | [`ledger_desk`] | the desk over the leases actor |

pub mod admin;
pub mod answers;
pub mod api;
pub mod auth;
pub mod bind;
pub mod body;
#[cfg(test)]
mod contract_test;
pub mod desk;
pub mod forward;
pub mod lease_id;
pub mod ledger_desk;
pub mod listener;
pub mod metrics;
pub mod openapi;
pub mod ops;
pub mod query;
pub mod reading;
pub mod refusal;
pub mod routes;
pub mod server;
pub mod target;
#[cfg(test)]
mod testing;
mod trace;

pub use api::{Api, Settings};
pub use auth::Auth;
pub use bind::{BindAddress, BindError, parse_bind_address};
pub use desk::{Desk, Unavailable};
pub use server::{Limits, serve};
