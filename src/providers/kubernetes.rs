//! Squid pods.
