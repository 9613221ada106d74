//! The `gcp:` block of the providers file.

use super::names;
use serde::{Deserialize, Deserializer, de::Error};
use std::{fmt, net::IpAddr, num::NonZeroU32, str::FromStr};
use url::Url;

/// Where Compute Engine is, unless the config names another place.
pub const ENDPOINT: &str = "https://compute.googleapis.com";

/// What a user may set. Every value is checked while it is read, so one that exists is usable.
// The derived function reads the fields; the trait, which adds the rule across fields, uses it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, rename_all = "camelCase")]
pub struct GcpConfig {
    /// The project that VMs are made in.
    #[serde(deserialize_with = "project")]
    pub project: String,
    /// The network that they are attached to.
    #[serde(default = "default_network", deserialize_with = "network")]
    pub network: String,
    /// The network tag that they carry.
    #[serde(default = "default_tag", deserialize_with = "tag")]
    pub network_tag: String,
    /// The size of a VM's disk, in GB; never less than the image's.
    #[serde(default = "ten", deserialize_with = "disk_size")]
    pub disk_size_gb: NonZeroU32,
    /// Whether VMs have no address outside of their network, and are reached at the one inside.
    #[serde(default, rename = "internalIP")]
    pub internal_ip: bool,
    /// Whether one firewall rule of ours opens the ports in use.
    #[serde(default)]
    pub manage_firewall: bool,
    /// Who that rule lets in; there with `manage_firewall`, and only then.
    #[serde(default)]
    pub firewall_source_ranges: Vec<SourceRange>,
    /// Where Compute Engine is; `None` is Google's own place.
    #[serde(default)]
    pub endpoint: Option<Endpoint>,
}

impl GcpConfig {
    /// The base URL of all requests, without a slash at its end.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        let configured = self.endpoint.as_ref();
        configured.map_or(ENDPOINT, |endpoint| endpoint.0.as_str())
    }

    /// The host of the endpoint.
    #[must_use]
    pub fn host(&self) -> String {
        let url = Url::parse(self.endpoint()).ok();
        let host = url.as_ref().and_then(Url::host_str);
        host.unwrap_or_default().to_owned()
    }

    /// Whether the network is one of this project.
    fn has_own_network(&self) -> bool {
        let foreign = self.network.strip_prefix("projects/");
        foreign.is_none_or(|path| path.split('/').next() == Some(&self.project))
    }

    fn problem(&self) -> Option<&'static str> {
        if self.manage_firewall && !self.has_own_network() {
            return Some(
                "manageFirewall: true needs a network of the project itself: a rule is where its network is",
            );
        }
        let ranges = self.firewall_source_ranges.iter();
        let (of_6, of_4): (Vec<_>, Vec<_>) = ranges.partition(|range| range.0.contains(':'));
        if !of_6.is_empty() && !of_4.is_empty() {
            return Some(
                "firewallSourceRanges holds IPv4 and IPv6: Google takes only one of them in a rule",
            );
        }
        match (self.manage_firewall, self.firewall_source_ranges.is_empty()) {
            (true, true) => Some(
                "missing field `firewallSourceRanges`; manageFirewall: true needs to know whom to let in",
            ),
            (false, false) => {
                Some("firewallSourceRanges has no effect without manageFirewall: true")
            }
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for GcpConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let config = Self::deserialize(from)?;
        match config.problem() {
            None => Ok(config),
            Some(problem) => Err(D::Error::custom(problem)),
        }
    }
}

/// A range of addresses, `203.0.113.0/24` or `2001:db8::/32`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct SourceRange(String);

impl SourceRange {
    /// In CIDR notation.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SourceRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is no range of addresses such as 203.0.113.0/24");
        let (address, bits) = text.split_once('/').ok_or_else(refused)?;
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let digits = !bits.is_empty() && bits.bytes().all(|c| c.is_ascii_digit());
        match bits.parse::<u8>() {
            Ok(bits) if digits && bits <= most => Ok(Self(text.to_owned())),
            _ => Err(refused()),
        }
    }
}

impl TryFrom<String> for SourceRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The base URL of an API: http or https, a host, and nothing behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Endpoint(String);

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |why: &str| {
            format!("{text:?} is no endpoint such as https://compute.googleapis.com: {why}")
        };
        let url = Url::parse(text).map_err(|e| refused(&e.to_string()))?;
        // The text is not shown: it holds what the complaint is about.
        if !url.username().is_empty() || url.password().is_some() {
            return Err("an endpoint must not hold a user or a password".to_owned());
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("it must begin with http:// or https://"));
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(refused("nothing may follow the host"));
        }
        Ok(Self(url.as_str().trim_end_matches('/').to_owned()))
    }
}

impl TryFrom<String> for Endpoint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// What `check-config` tells of it.
impl fmt::Display for GcpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = if self.internal_ip {
            "internal"
        } else {
            "external"
        };
        write!(
            f,
            "project {}, network {}, tag {}, {address} addresses",
            self.project, self.network, self.network_tag
        )?;
        if self.manage_firewall {
            let ranges = self.firewall_source_ranges.iter();
            let ranges: Vec<_> = ranges.map(SourceRange::as_str).collect();
            write!(f, ", firewall open for {}", ranges.join(", "))?;
        }
        match &self.endpoint {
            Some(endpoint) => write!(f, ", endpoint {}", endpoint.0),
            None => Ok(()),
        }
    }
}

/// A text that is one, or a complaint that shows it.
fn text<'de, D: Deserializer<'de>>(
    from: D,
    is_good: fn(&str) -> bool,
    what: &str,
) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if is_good(&text) {
        return Ok(text);
    }
    Err(D::Error::custom(format!("{text:?} is not {what}")))
}

fn project<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    text(from, names::is_project, "the id of a project")
}

fn network<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let what = "a network: global/networks/<name> or projects/<project>/global/networks/<name>";
    text(from, names::is_network, what)
}

fn tag<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let what = "a network tag: a lower-case letter, then up to 62 of a-z, 0-9 and '-', no '-' last";
    text(from, names::is_name, what)
}

/// Compute Engine's largest disk is 64 TiB.
fn disk_size<'de, D: Deserializer<'de>>(from: D) -> Result<NonZeroU32, D::Error> {
    let size = u32::deserialize(from)?;
    match NonZeroU32::new(size) {
        Some(good) if size <= 65_536 => Ok(good),
        _ => Err(D::Error::custom(format!("{size} is not from 1 to 65536"))),
    }
}

fn default_network() -> String {
    "global/networks/default".to_owned()
}

fn default_tag() -> String {
    "egress-proxy".to_owned()
}

fn ten() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<GcpConfig, String> {
        serde_yaml::from_str(yaml).map_err(|e| e.to_string())
    }

    #[test]
    fn all_but_the_project_has_defaults() {
        let config = read("{project: my-project}").expect("parses");
        assert_eq!(config.project, "my-project");
        assert_eq!(config.network, "global/networks/default");
        assert_eq!(config.network_tag, "egress-proxy");
        assert_eq!(config.disk_size_gb.get(), 10);
        assert!(!config.internal_ip && !config.manage_firewall);
        assert_eq!(config.endpoint(), "https://compute.googleapis.com");
        assert_eq!(
            config.to_string(),
            "project my-project, network global/networks/default, tag egress-proxy, external addresses"
        );
    }

    #[test]
    fn every_field_is_read() {
        let config = read(
            "{project: 'example.com:p', network: 'projects/example.com:p/global/networks/n', networkTag: t, \
             diskSizeGb: 20, internalIP: true, manageFirewall: true, \
             firewallSourceRanges: [10.0.0.0/8, 192.0.2.0/24], endpoint: 'http://127.0.0.1:4000/'}",
        )
        .expect("parses");
        assert_eq!(config.endpoint(), "http://127.0.0.1:4000");
        assert_eq!(config.host(), "127.0.0.1");
        assert_eq!(
            config.to_string(),
            "project example.com:p, network projects/example.com:p/global/networks/n, tag t, internal \
             addresses, firewall open for 10.0.0.0/8, 192.0.2.0/24, endpoint http://127.0.0.1:4000"
        );
        assert_eq!(config.disk_size_gb.get(), 20);
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        for (yaml, complaint) in [
            ("{}", "missing field `project`"),
            ("{project: ''}", "\"\" is not the id of a project"),
            ("{project: My}", "\"My\" is not the id"),
            ("{project: p, networks: x}", "networks"),
            (
                "{project: p, network: default}",
                "\"default\" is not a network",
            ),
            ("{project: p, networkTag: A}", "\"A\" is not a network tag"),
            ("{project: p, diskSizeGb: 0}", "0 is not from 1 to 65536"),
            ("{project: p, diskSizeGb: 70000}", "70000 is not from 1"),
            ("{project: p, internalIP: maybe}", "maybe"),
            ("{project: p, manageFirewall: true}", "firewallSourceRanges"),
            (
                "{project: p, firewallSourceRanges: [10.0.0.0/8]}",
                "no effect without manageFirewall",
            ),
            (
                "{project: p, manageFirewall: true, firewallSourceRanges: [10.0.0.0]}",
                "\"10.0.0.0\" is no range",
            ),
            (
                "{project: p, manageFirewall: true, firewallSourceRanges: [10.0.0.0/33]}",
                "is no range",
            ),
            (
                "{project: p, manageFirewall: true, firewallSourceRanges: [10.0.0.0/8, 'fd00::/8']}",
                "only one of them",
            ),
            (
                "{project: p, network: projects/q/global/networks/n, manageFirewall: true, firewallSourceRanges: [10.0.0.0/8]}",
                "needs a network of the project itself",
            ),
            ("{project: p, endpoint: compute}", "is no endpoint"),
            ("{project: p, endpoint: 'ftp://x'}", "must begin with http"),
            (
                "{project: p, endpoint: 'https://x/y'}",
                "nothing may follow",
            ),
            (
                "{project: p, endpoint: 'https://a:b@x'}",
                "a user or a password",
            ),
        ] {
            let error = read(yaml).expect_err(yaml);
            assert!(error.contains(complaint), "{yaml}: {error}");
        }
    }
}
