//! Where metrics are handed in when they are made.

use prometheus::{Registry, core::Collector};

/// Takes metrics: a registry, which shows their values, or whatever wants to know which there are.
pub trait Register {
    /// Takes one.
    ///
    /// # Errors
    /// Where there is one of its name already.
    fn register(&self, collector: Box<dyn Collector>) -> Result<(), prometheus::Error>;
}

impl Register for Registry {
    fn register(&self, collector: Box<dyn Collector>) -> Result<(), prometheus::Error> {
        // The inherent method, not this one.
        Registry::register(self, collector)
    }
}
