//! Metrics that belong to the program as a whole.

use super::{COMMIT, VERSION};
use actors::metrics::Register;
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts};

/// Registers `proxy_operator_build_info{version,commit}`, which is always 1: a dashboard joins it to
/// tell what is running.
///
/// # Errors
/// When the registry has it already.
pub fn register_build_info(registry: &impl Register) -> Result<(), prometheus::Error> {
    let info = IntGaugeVec::new(
        Opts::new(
            "proxy_operator_build_info",
            "Version and commit of the running program; always 1.",
        ),
        &["version", "commit"],
    )?;
    info.with_label_values(&[VERSION, COMMIT]).set(1);
    registry.register(Box::new(info))
}

/// Registers `proxy_operator_image_download_bytes_total{provider,host}`: what is fetched of disk images,
/// in bytes.
///
/// # Errors
/// When the registry has it already.
pub fn image_downloads(registry: &impl Register) -> Result<IntCounterVec, prometheus::Error> {
    let downloads = IntCounterVec::new(
        Opts::new(
            "proxy_operator_image_download_bytes_total",
            "Bytes of disk images fetched and passed on to the host.",
        ),
        &["provider", "host"],
    )?;
    registry.register(Box::new(downloads.clone()))?;
    Ok(downloads)
}

/// Registers `proxy_operator_undecodable_objects_total`.
///
/// # Errors
/// When the registry has it already.
pub fn undecodable_objects(registry: &impl Register) -> Result<IntCounter, prometheus::Error> {
    let undecodable = IntCounter::new(
        "proxy_operator_undecodable_objects_total",
        "Proxy objects seen that do not decode and are left alone.",
    )?;
    registry.register(Box::new(undecodable.clone()))?;
    Ok(undecodable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{Registry, TextEncoder};

    #[test]
    fn the_build_is_told_once() {
        let registry = Registry::new();
        register_build_info(&registry).expect("registers");
        assert!(register_build_info(&registry).is_err());
        let text = TextEncoder::new()
            .encode_to_string(&registry.gather())
            .expect("text");
        let sample =
            format!("proxy_operator_build_info{{commit=\"{COMMIT}\",version=\"{VERSION}\"}} 1\n");
        assert!(text.ends_with(&sample), "{text}");
    }

    #[test]
    fn downloads_are_counted_by_provider_and_host() {
        let registry = Registry::new();
        let downloads = image_downloads(&registry).expect("registers");
        downloads.with_label_values(&["home", "nas1"]).inc_by(7);
        let text = TextEncoder::new()
            .encode_to_string(&registry.gather())
            .expect("text");
        let sample =
            "proxy_operator_image_download_bytes_total{host=\"nas1\",provider=\"home\"} 7\n";
        assert!(text.ends_with(sample), "{text}");
    }
}
