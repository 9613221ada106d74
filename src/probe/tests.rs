//! Whole probes against scripted proxies on loopback.
