//! The `kubernetes:` block of the providers file.

use serde::{Deserialize, Deserializer, de::Error};
use std::num::NonZeroU16;

/// The image when the config names none.
pub const DEFAULT_IMAGE: &str = "ubuntu/squid:6.6-24.04_edge";

/// What a user may set. Every value is checked while it is read, so one that exists is usable.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct KubernetesConfig {
    /// Container image with Squid 5 or newer at `/usr/sbin/squid`.
    #[serde(deserialize_with = "image")]
    pub image: String,
    /// The ports that CONNECT may reach, 443 alone by default. Plain HTTP is not bound by it.
    #[serde(deserialize_with = "ports")]
    pub connect_ports: Vec<NonZeroU16>,
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        const HTTPS: NonZeroU16 = NonZeroU16::MIN.saturating_add(442);
        Self {
            image: DEFAULT_IMAGE.to_owned(),
            connect_ports: vec![HTTPS],
        }
    }
}

/// The API server takes any image name without blanks at its ends, and the kubelet fails later on
/// the rest; what can never be a name is refused here, where somebody is looking.
fn image<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let image = String::deserialize(from)?;
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(D::Error::custom(format!(
            "{image:?} is not the name of a container image"
        )));
    }
    Ok(image)
}

fn ports<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NonZeroU16>, D::Error> {
    let ports = Vec::<NonZeroU16>::deserialize(from)?;
    if ports.is_empty() {
        return Err(D::Error::custom(
            "an empty list would refuse every CONNECT; leave it out for 443",
        ));
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_block_means_the_defaults() {
        let config: KubernetesConfig = serde_yaml::from_str("{}").expect("parses");
        assert_eq!(config, KubernetesConfig::default());
        assert_eq!(config.image, DEFAULT_IMAGE);
        assert_eq!(config.connect_ports[0].get(), 443);
    }

    #[test]
    fn every_field_is_read() {
        let config: KubernetesConfig =
            serde_yaml::from_str("{image: 'lab.local/squid:1', connectPorts: [443, 8443]}")
                .expect("parses");
        assert_eq!(config.image, "lab.local/squid:1");
        let ports: Vec<u16> = config.connect_ports.iter().map(|port| port.get()).collect();
        assert_eq!(ports, [443, 8443]);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        for (yaml, complaint) in [
            ("{imgae: x}", "imgae"),
            ("{image: ''}", "\"\" is not the name"),
            ("{image: 'a b'}", "\"a b\" is not the name"),
            ("{connectPorts: []}", "an empty list"),
            ("{connectPorts: [0]}", "nonzero"),
            ("{connectPorts: [70000]}", "70000"),
            ("{connectPorts: 443}", "sequence"),
        ] {
            let error = serde_yaml::from_str::<KubernetesConfig>(yaml).expect_err(yaml);
            assert!(error.to_string().contains(complaint), "{yaml}: {error}");
        }
    }
}
