//! What the firewall rule of a provider says, and what has to change for a port to be open. Pure.

use crate::providers::gcp::config::{GcpConfig, SourceRange};
use google_cloud_compute_v1::model::{
    Firewall,
    firewall::{Allowed, Direction},
};

/// The longest name of a provider whose rule Google would still take.
const LONGEST_PROVIDER: usize = 48;

/// The name of a provider's rule.
#[must_use]
pub fn name_of(provider: &str) -> String {
    format!("proxy-operator-{provider}")
}

/// Whether the rule's name is one of Google's.
///
/// # Errors
/// What is wrong with the provider's name.
pub fn name_fits(provider: &str, config: &GcpConfig) -> Result<(), String> {
    if !config.manage_firewall || provider.len() <= LONGEST_PROVIDER {
        return Ok(());
    }
    Err(format!(
        "{provider:?} is longer than {LONGEST_PROVIDER} characters; with gcp.manageFirewall it becomes part of a firewall rule's name"
    ))
}

/// A rule as it is to be.
pub(super) struct Wanted<'a> {
    pub provider: &'a str,
    pub installation: &'a str,
    pub config: &'a GcpConfig,
}

/// What has to be done for a port to be open.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// It is.
    Nothing,
    /// The rule is to be made.
    Insert(Firewall),
    /// This of the rule is to be changed.
    Patch(Firewall),
    /// The rule is not ours to change, or cannot be.
    Refused(String),
}

impl Wanted<'_> {
    pub fn name(&self) -> String {
        name_of(self.provider)
    }

    /// Whose the rule is; a rule has no labels.
    fn description(&self) -> String {
        let (provider, installation) = (self.provider, self.installation);
        format!(
            "Opens the ports of provider {provider:?} for proxy-operator installation {installation:?}"
        )
    }

    /// Whether the rule is the work of this provider of this installation.
    pub fn is_ours(&self, rule: &Firewall) -> bool {
        rule.description.as_deref() == Some(&self.description())
    }

    /// What leads from the rule that is there to one that lets `port` in, and all that it lets in already.
    pub fn step(&self, there: Option<&Firewall>, port: u16) -> Step {
        let Some(there) = there else {
            let rule = self.parts(vec![port.to_string()]);
            return Step::Insert(
                rule.set_description(self.description())
                    .set_network(self.config.network.as_str())
                    .set_direction(Direction::Ingress),
            );
        };
        if !self.is_ours(there) {
            return Step::Refused(format!(
                "firewall rule {:?} is not of this provider of installation {:?}; rename the provider, or delete the rule",
                self.name(),
                self.installation
            ));
        }
        // It comes back as a URL.
        let network = there.network.as_deref().unwrap_or_default();
        if !network.ends_with(self.config.network.as_str()) {
            return Step::Refused(format!(
                "firewall rule {:?} is of network {network}, and gcp.network is {:?}: a rule cannot move, so delete it",
                self.name(),
                self.config.network
            ));
        }
        let mut ports = ports(there);
        let is_open = lets_in(&ports, port);
        if !is_open {
            ports.push(port.to_string());
        }
        let wanted = self.parts(ports);
        let same_sources = sorted(&there.source_ranges) == sorted(&wanted.source_ranges);
        if is_open && same_sources && there.target_tags == wanted.target_tags {
            return Step::Nothing;
        }
        Step::Patch(wanted)
    }

    /// What may change, and the name, which Google wants in either case.
    fn parts(&self, ports: Vec<String>) -> Firewall {
        let ranges = self.config.firewall_source_ranges.iter();
        let allowed = Allowed::new().set_ip_protocol("tcp").set_ports(ports);
        Firewall::new()
            .set_name(self.name())
            .set_allowed([allowed])
            .set_source_ranges(ranges.map(SourceRange::as_str))
            .set_target_tags([self.config.network_tag.as_str()])
    }
}

fn ports(rule: &Firewall) -> Vec<String> {
    let tcp = |allowed: &&Allowed| allowed.ip_protocol.as_deref() == Some("tcp");
    let tcp = rule.allowed.iter().filter(tcp);
    tcp.flat_map(|allowed| allowed.ports.clone()).collect()
}

/// Ports are single ones or ranges, `3000-3010`.
fn lets_in(ports: &[String], port: u16) -> bool {
    ports.iter().any(|ports| {
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let number = |text: &str| text.parse::<u16>().ok();
        match (number(first), number(last)) {
            (Some(first), Some(last)) => (first..=last).contains(&port),
            _ => false,
        }
    })
}

fn sorted(texts: &[String]) -> Vec<&String> {
    let mut texts: Vec<_> = texts.iter().collect();
    texts.sort();
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(ranges: &str) -> GcpConfig {
        let yaml =
            format!("{{project: p, manageFirewall: true, firewallSourceRanges: [{ranges}]}}");
        serde_yaml::from_str(&yaml).expect("a config")
    }

    fn wanted(config: &GcpConfig) -> Wanted<'_> {
        Wanted {
            provider: "gcp-eu",
            installation: "here",
            config,
        }
    }

    /// The rule as Google shows it once it was made.
    fn made(config: &GcpConfig, port: u16) -> Firewall {
        let Step::Insert(rule) = wanted(config).step(None, port) else {
            panic!("no rule is made");
        };
        let url = "https://www.googleapis.com/compute/v1/projects/p/global/networks/default";
        rule.set_network(url)
    }

    #[test]
    fn a_rule_lets_the_ranges_in_at_the_tag() {
        let config = config("10.0.0.0/8, 192.0.2.0/24");
        let rule = made(&config, 3128);
        assert_eq!(rule.name.as_deref(), Some("proxy-operator-gcp-eu"));
        assert_eq!(rule.source_ranges, ["10.0.0.0/8", "192.0.2.0/24"]);
        assert_eq!(rule.target_tags, ["egress-proxy"]);
        assert_eq!(ports(&rule), ["3128"]);
    }

    #[test]
    fn ports_are_added_and_none_is_taken_away() {
        let config = config("10.0.0.0/8");
        let rule = made(&config, 3128);
        assert_eq!(wanted(&config).step(Some(&rule), 3128), Step::Nothing);
        let Step::Patch(patch) = wanted(&config).step(Some(&rule), 8080) else {
            panic!("no patch");
        };
        assert_eq!(ports(&patch), ["3128", "8080"]);
        assert_eq!(patch.name, rule.name);
        assert!(patch.description.is_none() && patch.network.is_none());
    }

    #[test]
    fn what_the_config_says_of_sources_and_tag_is_brought_into_the_rule() {
        let (before, after) = (config("10.0.0.0/8"), config("192.0.2.0/24"));
        let rule = made(&before, 3128);
        assert!(matches!(
            wanted(&after).step(Some(&rule), 3128),
            Step::Patch(_)
        ));
        let another_tag = rule.set_target_tags(["x"]);
        let step = wanted(&before).step(Some(&another_tag), 3128);
        assert!(matches!(step, Step::Patch(_)));
        let two = config("10.0.0.0/8, 192.0.2.0/24");
        let turned = made(&two, 1).set_source_ranges(["192.0.2.0/24", "10.0.0.0/8"]);
        assert_eq!(wanted(&two).step(Some(&turned), 1), Step::Nothing);
    }

    #[test]
    fn somebody_elses_rule_is_never_changed() {
        let config = config("10.0.0.0/8");
        let rule = made(&config, 3128);
        let elsewhere = Wanted {
            installation: "elsewhere",
            ..wanted(&config)
        };
        let by_hand = rule.clone().set_description("by hand");
        for step in [
            elsewhere.step(Some(&rule), 3128),
            wanted(&config).step(Some(&by_hand), 3128),
            wanted(&config).step(Some(&rule.clone().set_network("global/networks/x")), 3128),
        ] {
            assert!(matches!(step, Step::Refused(_)), "{step:?}");
        }
    }

    #[test]
    fn ranges_of_ports_are_understood() {
        let ports = ["22".to_owned(), "3000-3010".to_owned(), "odd".to_owned()];
        for (port, open) in [(22, true), (3000, true), (3010, true), (3011, false)] {
            assert_eq!(lets_in(&ports, port), open, "{port}");
        }
    }

    #[test]
    fn a_long_name_is_refused_only_where_it_becomes_a_rule() {
        let (long, config) = ("a".repeat(49), config("10.0.0.0/8"));
        assert!(name_fits(&long, &config).is_err());
        assert!(name_fits(&long[..48], &config).is_ok());
        let without: GcpConfig = serde_yaml::from_str("{project: p}").expect("a config");
        assert!(name_fits(&long, &without).is_ok());
    }
}
