//! Traces: which spans there are for an exporter, and how they get out of the process.
//!
//! Off, at no cost, until the environment says where spans go ([`settings`]). An exporter works on a
//! thread of its own behind a bounded queue; what does not fit is dropped, and a collector that refuses
//! or hangs is a line at level `debug` and no more. At the end of the process what is queued is sent,
//! within [`FLUSH`].

mod console;
mod exporter;
mod filter;
mod sampler;
mod settings;

pub use filter::{REQUEST, SpanFilter};
pub use settings::{Settings, SettingsError};

use exporter::Exporter;
use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_sdk::{
    Resource,
    trace::{SdkTracer, SdkTracerProvider, SpanProcessor},
};
use sampler::Door;
use settings::Sink;
use std::time::Duration;
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// How long the end of the process waits for spans to be sent, by each exporter. With the actors' seven
/// seconds and the log's one that is within the ten in which the process has to be gone.
const FLUSH: Duration = Duration::from_secs(1);
/// What the process is called, unless the environment names it.
const SERVICE: &str = "proxy-operator";

/// The way of spans out of the process.
pub struct Traces {
    provider: SdkTracerProvider,
    door: Door,
    remarks: Vec<String>,
}

impl Traces {
    /// As the environment wants it; nothing if it wants no traces. To be called within the runtime.
    ///
    /// # Errors
    /// Which variable is wrong.
    pub fn from_env() -> Result<Option<Self>, SettingsError> {
        let Some(settings) = Settings::from_env()? else {
            return Ok(None);
        };
        let door = Door::from_env();
        let mut provider = SdkTracerProvider::builder()
            .with_resource(resource())
            .with_sampler(door.clone());
        for sink in settings.sinks {
            let exporter = match sink {
                Sink::Console => Exporter::Console(console::Console::default()),
                Sink::Otlp(protocol) => Exporter::otlp(protocol)?,
            };
            provider = provider.with_batch_exporter(exporter);
        }
        Ok(Some(Self {
            provider: provider.build(),
            door,
            remarks: settings.remarks,
        }))
    }

    /// Hands spans to `processor`, wherever the environment wants them.
    pub fn to(processor: impl SpanProcessor + 'static) -> Self {
        let door = Door::from_env();
        let provider = SdkTracerProvider::builder()
            .with_sampler(door.clone())
            .with_span_processor(processor);
        Self {
            provider: provider.build(),
            door,
            remarks: Vec::new(),
        }
    }

    /// What [`Self::layer`] has to be filtered by.
    #[must_use]
    pub fn filter(&self) -> SpanFilter {
        SpanFilter::new(self.door.clone())
    }

    /// Makes traces of the spans that [`Self::filter`] lets through.
    #[must_use]
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer(SERVICE))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
    }

    /// Says what was found in the environment and not understood.
    pub(super) fn remark(&self) {
        for remark in &self.remarks {
            tracing::warn!("{remark}");
        }
    }

    /// Sends what is queued, within [`FLUSH`]. Not for a thread of the runtime, which may have to work for it.
    pub fn flush(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// What is said of the process with every span: as the environment says, else what we know.
fn resource() -> Resource {
    let found = Resource::builder().build();
    let is_there = |name: &'static str| {
        let value = found.get(&name.into());
        value.is_some_and(|value| !value.as_str().starts_with("unknown_service"))
    };
    let mut resource = Resource::builder();
    if !is_there("service.name") {
        resource = resource.with_service_name(SERVICE);
    }
    if !is_there("service.version") {
        resource = resource.with_attribute(KeyValue::new("service.version", super::VERSION));
    }
    resource.build()
}
