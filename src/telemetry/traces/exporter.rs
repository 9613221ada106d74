//! What spans leave by. Its failures are no news for anybody but who looks for them: one line at level
//! `debug`, in place of what the SDK would say.

use super::{
    console::Console,
    settings::{Protocol, SettingsError},
};
use opentelemetry_otlp::{
    Protocol as Encoding, SpanExporter as Otlp, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};
use std::{env, time::Duration};

/// How long the collector may take for a batch, in milliseconds; the first that is set counts.
const TIMEOUTS: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
];
/// The standard's.
const TIMEOUT: Duration = Duration::from_secs(10);

/// One way out.
#[derive(Debug)]
pub(super) enum Exporter {
    Otlp(Box<Otlp>),
    Console(Console),
}

impl Exporter {
    /// To a collector; where it is, the environment says.
    pub(super) fn otlp(protocol: Protocol) -> Result<Self, SettingsError> {
        let builder = Otlp::builder();
        let exporter = match protocol {
            Protocol::Grpc => builder.with_tonic().build(),
            Protocol::Http => builder
                .with_http()
                // Or it would read the variable again, which may be the one that does not count.
                .with_protocol(Encoding::HttpBinary)
                .with_http_client(client()?)
                .build(),
        };
        Ok(Self::Otlp(Box::new(exporter?)))
    }
}

/// A client of our own, since the default one does not even speak plain HTTP where the machine, as a
/// bare container, has no CAs.
fn client() -> Result<reqwest::blocking::Client, reqwest::Error> {
    let found = rustls_native_certs::load_native_certs().certs;
    let certificates = found.iter().map(|der| reqwest::Certificate::from_der(der));
    reqwest::blocking::Client::builder()
        .timeout(timeout())
        .tls_certs_only(certificates.filter_map(Result::ok))
        .build()
}

fn timeout() -> Duration {
    let millis = TIMEOUTS
        .iter()
        .find_map(|name| env::var(name).ok()?.parse().ok());
    millis.map_or(TIMEOUT, Duration::from_millis)
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let exported = match self {
            Self::Otlp(exporter) => exporter.export(batch).await,
            Self::Console(exporter) => exporter.export(batch).await,
        };
        if let Err(error) = exported {
            tracing::debug!(spans, %error, "spans were not exported");
        }
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        match self {
            Self::Otlp(exporter) => exporter.set_resource(resource),
            Self::Console(exporter) => exporter.set_resource(resource),
        }
    }
}
