//! A prober: one actor that keeps proving one proxy.

pub mod probe;
