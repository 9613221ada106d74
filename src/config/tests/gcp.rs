use super::*;

/// The example of the documentation, with a firewall, as the third entry beside two of another type.
const GCP: &str = "
  - name: gcp-eu
    type: gcp
    gcp:
      project: my-project
      network: global/networks/default
      networkTag: egress-proxy
      diskSizeGb: 10
      manageFirewall: true
      firewallSourceRanges: [203.0.113.0/24]
";

#[test]
fn a_gcp_block_is_understood() {
    let config = parse(&format!("{GOOD}{GCP}")).expect("good");
    let entry = &config.entries[2];
    assert_eq!(entry.kind(), "gcp");
    assert_eq!(
        entry.to_string(),
        "gcp-eu: gcp, project my-project, network global/networks/default, tag egress-proxy, \
         external addresses, firewall open for 203.0.113.0/24"
    );
}

#[test]
fn a_wrong_gcp_block_is_refused_by_the_path_of_the_field() {
    let wrong = |from: &str, to: &str| format!("{GOOD}{}", GCP.replace(from, to));
    let long = "g".repeat(49);
    are_refused([
        (
            entry("{name: a, type: gcp}"),
            "providers[1] (a): gcp: missing field `project`",
        ),
        (
            entry("{name: a, type: gcp, gcp: {project: 5}}"),
            "providers[1] (a): gcp.project: invalid type: integer `5`, expected a string",
        ),
        (
            wrong("my-project", "My-Project"),
            "providers[2] (gcp-eu): gcp.project: \"My-Project\" is not the id of a project",
        ),
        (
            wrong("global/networks/default", "default"),
            "providers[2] (gcp-eu): gcp.network: \"default\" is not a network: global/networks/",
        ),
        (
            wrong("diskSizeGb: 10", "diskSizeGb: 0"),
            "providers[2] (gcp-eu): gcp.diskSizeGb: 0 is not from 1 to 65536",
        ),
        (
            wrong("203.0.113.0/24", "203.0.113.0"),
            "providers[2] (gcp-eu): gcp.firewallSourceRanges[0]: \"203.0.113.0\" is no range",
        ),
        (
            wrong("firewallSourceRanges: [203.0.113.0/24]", ""),
            "providers[2] (gcp-eu): gcp: missing field `firewallSourceRanges`",
        ),
        (
            wrong("networkTag", "tag"),
            "providers[2] (gcp-eu): gcp.tag: unknown field `tag`",
        ),
        (
            wrong("gcp-eu", &long),
            "gcp.manageFirewall it becomes part of a firewall rule's name",
        ),
        (
            wrong("    type: gcp", "    type: kvm"),
            "providers[2] (gcp-eu): gcp: unknown key; an entry of type kvm has",
        ),
    ]);
}

#[test]
fn the_sample_of_the_component_is_good() {
    let sample = include_str!("../../../deploy/components/gcp/providers.yaml");
    let config = parse(sample).expect("good");
    assert_eq!(config.entries[1].kind(), "gcp");
}
