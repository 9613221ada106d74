//! The provider id of a VM: `hosts/<host>/domains/<name>`.

use super::config::Name;
use crate::config::names::is_dns_label;
use std::{fmt, str::FromStr};

/// Which domain on which host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostedDomain {
    /// The host's name in the config.
    pub host: Name,
    /// The name of the domain.
    pub name: String,
}

/// A provider id that no VM can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a VM's hosts/<host>/domains/<name>")]
pub struct MalformedId(String);

impl fmt::Display for HostedDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hosts/{}/domains/{}", self.host, self.name)
    }
}

impl FromStr for HostedDomain {
    type Err = MalformedId;

    /// Strict, since the name becomes part of the names of volumes that are deleted.
    fn from_str(id: &str) -> Result<Self, MalformedId> {
        let parts: Vec<_> = id.split('/').collect();
        if let ["hosts", host, "domains", name] = parts[..]
            && let Ok(host) = host.parse()
            && is_dns_label(name)
        {
            return Ok(Self {
                host,
                name: name.to_owned(),
            });
        }
        Err(MalformedId(id.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_hosts_host_domains_name_is_an_id() {
        let id: HostedDomain = "hosts/Nas_1.lan/domains/proxy-abc".parse().expect("an id");
        assert_eq!((id.host.as_str(), &*id.name), ("Nas_1.lan", "proxy-abc"));
        let long = format!("hosts/a/domains/{}", "b".repeat(64));
        for malformed in [
            "",
            "hosts",
            "hosts/a",
            "hosts/a/domains",
            "hosts/a/domains/",
            "hosts//domains/b",
            "hosts/a/domains/b/",
            "/hosts/a/domains/b",
            "hosts/a/domains/b/c",
            "Hosts/a/domains/b",
            "hosts/a/domain/b",
            "hosts/-a/domains/b",
            "hosts/../domains/b",
            "hosts/a b/domains/b",
            "hosts/ä/domains/b",
            "hosts/a/domains/B",
            "hosts/a/domains/b.c",
            "hosts/a/domains/..",
            "hosts/a/domains/b\n",
            " hosts/a/domains/b",
            "crawl/proxy-abc",
            &long,
        ] {
            assert_eq!(
                malformed.parse::<HostedDomain>(),
                Err(MalformedId(malformed.to_owned())),
                "{malformed:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same(host in "[A-Za-z0-9._-]{1,64}", name in "[a-z0-9-]{1,64}") {
            let text = format!("hosts/{host}/domains/{name}");
            if let Ok(id) = text.parse::<HostedDomain>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
