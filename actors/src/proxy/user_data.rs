//! What an instance is made of, as one hash; and a look at user-data that a guest would ignore.

use crate::provider::contract::UserData;
use crds::{Placement, ProxySpec};
use sha2::{Digest, Sha256};

/// The hash of placement, port and user-data: 32 hex digits. Omitted and explicit defaults hash alike.
#[must_use]
pub fn spec_hash(spec: &ProxySpec, user_data: Option<&UserData>) -> String {
    let Placement {
        region,
        zone,
        machine_type,
        image,
    } = spec.placement.clone().unwrap_or_default();
    let port = spec.port.to_string();
    let placement = [region, zone, machine_type, image];
    let mut hash = Sha256::new();
    // Length-prefixed, so that no two different specs run together into the same bytes.
    let mut field = |bytes: Option<&[u8]>| {
        hash.update(bytes.map_or(u64::MAX, |b| b.len() as u64).to_be_bytes());
        hash.update(bytes.unwrap_or_default());
    };
    for value in &placement {
        field(value.as_deref().map(str::as_bytes));
    }
    field(Some(port.as_bytes()));
    field(user_data.map(UserData::bytes));
    data_encoding::HEXLOWER.encode(&hash.finalize()[..16])
}

/// First lines that cloud-init acts on.
const HEADERS: [&str; 9] = [
    "#cloud-config",
    "#!",
    "#include",
    "#cloud-boothook",
    "#part-handler",
    "#upstart-job",
    "## template:",
    "content-type:",
    "mime-version:",
];

/// Why a guest would ignore `user_data`, if it would. It is delivered as it is all the same.
#[must_use]
pub fn suspicion(user_data: &UserData) -> Option<&'static str> {
    const GZIP: &[u8] = &[0x1f, 0x8b];
    const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
    let bytes = user_data.bytes();
    if bytes.starts_with(GZIP) {
        return None;
    }
    if bytes.is_empty() {
        return Some("it is empty");
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        return Some("it begins with a byte-order mark, so cloud-init does not see its header");
    }
    if bytes[0].is_ascii_whitespace() {
        return Some(
            "it begins with white space or a blank line, so cloud-init does not see its header",
        );
    }
    let line = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).to_lowercase();
    if !HEADERS.iter().any(|header| line.starts_with(header)) {
        return Some(
            "its first line is no header that cloud-init knows (#cloud-config, #!, #include, MIME, …)",
        );
    }
    line.ends_with('\r')
        .then_some("its lines end in CRLF, which shells and cloud-init take for part of the text")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(text: &str) -> UserData {
        text.as_bytes().to_vec().into()
    }

    fn spec(json: serde_json::Value) -> ProxySpec {
        serde_json::from_value(json).expect("a spec")
    }

    #[test]
    fn explicit_defaults_hash_like_omitted_ones() {
        let short = spec(serde_json::json!({"mode": "Managed"}));
        let long = spec(
            serde_json::json!({"mode": "Managed", "port": 3128, "placement": {}, "maxLeases": 9,
            "attributes": {"b": "1", "a": "2"}}),
        );
        assert_eq!(spec_hash(&short, None), spec_hash(&long, None));
        assert_eq!(spec_hash(&short, None), "732ad91e8ff73982e1f9459746ffb0fd");
    }

    #[test]
    fn every_part_of_what_is_built_changes_the_hash() {
        let base = serde_json::json!({"mode": "Managed"});
        let mut seen = std::collections::HashSet::new();
        assert!(seen.insert(spec_hash(&spec(base.clone()), None)));
        for (field, value) in [
            ("port", serde_json::json!(3129)),
            ("placement", serde_json::json!({"zone": "a"})),
            ("placement", serde_json::json!({"region": "a"})),
            ("placement", serde_json::json!({"image": "a"})),
        ] {
            let mut changed = base.clone();
            changed[field] = value;
            assert!(
                seen.insert(spec_hash(&spec(changed), None)),
                "{field} does not matter"
            );
        }
        for text in ["", "#cloud-config", "#cloud-config\n"] {
            assert!(seen.insert(spec_hash(&spec(base.clone()), Some(&data(text)))));
        }
    }

    #[test]
    fn user_data_that_a_guest_ignores_is_suspicious() {
        for good in [
            "#cloud-config\na: b\n",
            "#!/bin/sh\n",
            "## template: jinja\n#cloud-config\n",
            "Content-Type: multipart/mixed\n",
            "MIME-Version: 1.0\n",
            "#include\nhttp://x/\n",
            "\u{1f}",
        ] {
            let mut bytes = good.as_bytes().to_vec();
            if good == "\u{1f}" {
                bytes.push(0x8b);
            }
            assert_eq!(suspicion(&bytes.into()), None, "{good:?}");
        }
        for (bad, why) in [
            ("", "empty"),
            ("\u{feff}#cloud-config\n", "byte-order"),
            ("\n#cloud-config\n", "blank"),
            ("packages: [squid]\n", "header"),
            ("#cloud-config\r\na: b\r\n", "CRLF"),
        ] {
            assert!(
                suspicion(&data(bad)).is_some_and(|s| s.contains(why)),
                "{bad:?}"
            );
        }
    }
}
