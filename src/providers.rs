//! The backends, one folder each, and what they all write on an instance.
//!
//! A backend is a [`Provider`](actors::provider::contract::Provider); who calls it, when, and what
//! a failure leads to is decided elsewhere.

pub mod gcp;
pub mod kubernetes;
pub mod kvm;

/// The mark that says an instance is the work of some proxy-operator; its value is `true`.
pub const MANAGED_MARK: &str = "proxy-operator-managed";
/// The mark that holds the UID of the Proxy an instance belongs to.
pub const UID_MARK: &str = "proxy-operator-uid";
/// The mark that holds the id of the installation an instance belongs to.
pub const INSTALLATION_MARK: &str = "proxy-operator-installation";
