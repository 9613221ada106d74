//! Puts the actors and their ports together.
