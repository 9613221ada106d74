use super::*;

/// The example of the documentation, as the third entry beside two of the other type.
const KVM: &str = "
  - name: kvm-home
    type: kvm
    kvm:
      sshKeyFile: /etc/proxy-operator/kvm/id_ed25519
      knownHostsFile: /etc/proxy-operator/kvm/known_hosts
      images:
        debian-13: {url: https://example.org/debian-13-generic-amd64.qcow2}
      machineTypes:
        small: {vcpus: 1, memoryMiB: 1024}
      hosts:
        - {name: nas1, address: \"nas1.example.org:22\", user: virt, bridge: br0}
";

#[test]
fn a_kvm_block_is_understood() {
    let config = parse(&format!("{GOOD}{KVM}")).expect("good");
    let entry = &config.entries[2];
    assert_eq!(entry.kind(), "kvm");
    assert_eq!(
        entry.to_string(),
        "kvm-home: kvm, hosts nas1 at nas1.example.org:22, machine types small, images debian-13"
    );
    let Settings::Kvm(settings) = &entry.settings else {
        panic!("{entry:?}");
    };
    assert!(settings.host("nas1").is_some());
    let careless = KVM.replace(
        "knownHostsFile: /etc/proxy-operator/kvm/known_hosts",
        "insecureIgnoreHostKey: true",
    );
    let config = parse(&format!("{GOOD}{careless}")).expect("good");
    let line = config.entries[2].to_string();
    assert!(line.ends_with(", host keys NOT checked"), "{line}");
}

#[test]
fn a_wrong_kvm_block_is_refused_by_the_path_of_the_field() {
    let wrong = |from: &str, to: &str| format!("{GOOD}{}", KVM.replace(from, to));
    are_refused([
        (
            entry("{name: a, type: kvm}"),
            "providers[1] (a): kvm: missing field `sshKeyFile`",
        ),
        (
            wrong("nas1.example.org:22", "nas1"),
            "providers[2] (kvm-home): kvm.hosts[0].address: \"nas1\" is not host:port",
        ),
        (
            wrong("vcpus: 1", "vcpus: 0"),
            "providers[2] (kvm-home): kvm.machineTypes.small.vcpus: 0 is not from 1 to 255",
        ),
        (
            wrong("https:", "ftp:"),
            "providers[2] (kvm-home): kvm.images.debian-13.url: \"ftp://",
        ),
        (
            wrong("knownHostsFile:", "insecureIgnoreHostKey: false #"),
            "providers[2] (kvm-home): kvm: missing field `knownHostsFile`",
        ),
        (
            wrong("knownHostsFile:", "knownHosts:"),
            "providers[2] (kvm-home): kvm.knownHosts: unknown field `knownHosts`",
        ),
        (
            wrong("    type: kvm", "    type: kubernetes"),
            "providers[2] (kvm-home): kvm: unknown key; an entry of type kubernetes has",
        ),
    ]);
}
