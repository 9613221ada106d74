//! Metrics that belong to the program as a whole.

use super::{COMMIT, VERSION};
use prometheus::{IntGaugeVec, Opts, Registry};

/// Registers `proxy_operator_build_info{version,commit}`, which is always 1: a dashboard joins it to
/// tell what is running.
///
/// # Errors
/// When the registry has it already.
pub fn register_build_info(registry: &Registry) -> Result<(), prometheus::Error> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::TextEncoder;

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
}
