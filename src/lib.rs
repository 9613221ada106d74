//! The program: everything that touches the outside world.

pub mod cli;
pub mod config;
pub mod http;
pub mod kube;
pub mod probe;
pub mod providers;
pub mod reference;
pub mod telemetry;
pub mod wiring;
