//! The providers file.
