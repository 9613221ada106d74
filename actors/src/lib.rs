//! The actors.
