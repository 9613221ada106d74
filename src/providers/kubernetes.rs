//! Squid pods.

pub mod config;
