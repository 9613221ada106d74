//! Kubernetes: the watch, the writes and the Events.
