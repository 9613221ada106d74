//! The provider id of a VM: `zones/<zone>/instances/<name>`.

use super::names::is_name;
use std::{fmt, str::FromStr};

/// Which VM. Its project is the provider's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VmId {
    /// The zone, `europe-west1-b`.
    pub zone: String,
    /// The name of the instance.
    pub name: String,
}

/// A provider id that no VM can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("providerID {0:?}: not a VM's zones/<zone>/instances/<name>")]
pub struct MalformedId(String);

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zones/{}/instances/{}", self.zone, self.name)
    }
}

impl FromStr for VmId {
    type Err = MalformedId;

    /// Strict, since the parts become parts of a URL.
    fn from_str(id: &str) -> Result<Self, MalformedId> {
        let parts: Vec<&str> = id.split('/').collect();
        match parts[..] {
            ["zones", zone, "instances", name] if is_name(zone) && is_name(name) => Ok(Self {
                zone: zone.to_owned(),
                name: name.to_owned(),
            }),
            _ => Err(MalformedId(id.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_zone_and_name_are_an_id() {
        let id: VmId = "zones/europe-west1-b/instances/proxy-abc"
            .parse()
            .expect("an id");
        assert_eq!((&*id.zone, &*id.name), ("europe-west1-b", "proxy-abc"));
        let long = format!("zones/a/instances/{}", "b".repeat(64));
        for malformed in [
            "",
            "zones",
            "zones/a/instances",
            "zones/a/instances/",
            "zones//instances/b",
            "/zones/a/instances/b",
            "zones/a/instances/b/",
            "zones/a/instances/b/c",
            "projects/p/zones/a/instances/b",
            "zones/a/disks/b",
            "zones/A/instances/b",
            "zones/../instances/b",
            "zones/a/instances/..",
            "zones/a/instances/b?c",
            "zones/a/instances/b%2f",
            "zones/a/instances/b\n",
            " zones/a/instances/b",
            "zones/1a/instances/b",
            "zones/a/instances/ä",
            &long,
        ] {
            assert_eq!(
                malformed.parse::<VmId>(),
                Err(MalformedId(malformed.to_owned())),
                "{malformed:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_to_the_same(text in "zones/[a-z0-9-]{0,8}/instances/[a-z0-9/-]{0,70}") {
            if let Ok(id) = text.parse::<VmId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
