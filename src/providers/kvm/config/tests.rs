mod wrong;

use super::*;
use serde_yaml::Value;

/// A block with every field.
const WHOLE: &str = r##"
sshKeyFile: /etc/kvm/id_ed25519
knownHostsFile: /etc/kvm/known_hosts
insecureIgnoreHostKey: false
diskSizeGb: 20
vendorData: "#cloud-config\n"
installGuestAgent: false
images:
  debian-13:
    url: https://example.org/debian.raw
    sha256: "ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB"
    format: raw
    firmware: bios
machineTypes:
  small: {vcpus: 1, memoryMiB: 1024}
hosts:
  - {name: nas1, address: "nas1.example.org:22", user: virt, bridge: br0}
  - name: nas2
    address: "[fd00::2]:2222"
    user: virt
    bridge: br-lan.7
    socket: /run/libvirt/libvirt-sock
    pool: fast pool
    cpuMode: maximum
    domainType: qemu
"##;

/// The least that is a block.
const LEAST: &str = "
sshKeyFile: id
insecureIgnoreHostKey: true
machineTypes: {s: {vcpus: 1, memoryMiB: 1}}
hosts: [{name: a, address: 'a:1', user: u, bridge: b}]
";

fn read(text: &str) -> Result<KvmConfig, String> {
    let value: Value = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
    serde_path_to_error::deserialize(value).map_err(|e| format!("{}: {}", e.path(), e.inner()))
}

#[test]
fn every_field_is_read() {
    let config = read(WHOLE).expect("good");
    assert_eq!(config.ssh_key_file, PathBuf::from("/etc/kvm/id_ed25519"));
    assert_eq!(config.known_hosts_file, Some("/etc/kvm/known_hosts".into()));
    assert_eq!(config.disk_size_gb.get(), 20);
    assert_eq!(config.vendor_data, Some("#cloud-config\n".into()));
    assert!(!config.install_guest_agent && !config.insecure_ignore_host_key);
    let (key, image) = config.images.first_key_value().expect("an image");
    assert_eq!(key.as_str(), "debian-13");
    assert_eq!(image.url.to_string(), "https://example.org/debian.raw");
    let digest = image.sha256.as_ref().map(Sha256Hex::as_str);
    assert_eq!(digest, Some("ab".repeat(32).as_str()));
    assert_eq!(
        (image.format, image.firmware),
        (Format::Raw, Firmware::Bios)
    );
    let (_, small) = config.machine_types.first_key_value().expect("a type");
    assert_eq!((small.vcpus.get(), small.memory_mib.get()), (1, 1024));
    let nas2 = config.host("nas2").expect("a host");
    assert_eq!(
        (nas2.address.host.as_str(), nas2.address.port),
        ("fd00::2", 2222)
    );
    assert_eq!(nas2.address.to_string(), "[fd00::2]:2222");
    assert_eq!(
        (nas2.bridge.as_str(), nas2.pool.as_str()),
        ("br-lan.7", "fast pool")
    );
    assert_eq!(nas2.socket, "/run/libvirt/libvirt-sock");
    assert_eq!(
        (nas2.cpu_mode(), nas2.domain_type),
        (CpuMode::Maximum, DomainType::Qemu)
    );
    assert!(config.host("nas3").is_none());
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = read(LEAST).expect("good");
    assert_eq!(config.known_hosts_file, None);
    assert_eq!(config.disk_size_gb.get(), 10);
    assert_eq!(config.vendor_data, None);
    assert!(config.install_guest_agent && config.images.is_empty());
    let host = &config.hosts[0];
    assert_eq!(host.socket, "/var/run/libvirt/libvirt-sock");
    assert_eq!(host.pool, "default");
    assert_eq!(
        (host.cpu_mode(), host.domain_type),
        (CpuMode::HostPassthrough, DomainType::Kvm)
    );
    // An emulated guest cannot have the host's own CPU.
    let emulated = read(&LEAST.replace("bridge: b", "bridge: b, domainType: qemu"));
    assert_eq!(
        emulated.expect("good").hosts[0].cpu_mode(),
        CpuMode::Maximum
    );
    let image = read(&format!("{LEAST}images: {{a: {{url: 'http://h/i'}}}}")).expect("good");
    let image = image.images.values().next().expect("an image");
    assert_eq!(
        (image.format, image.firmware),
        (Format::Qcow2, Firmware::Uefi)
    );
    assert_eq!(image.sha256, None);
}

#[test]
fn every_field_refuses_what_cannot_work() {
    for (from, to, complaint) in wrong::FIELDS {
        let text = WHOLE.replacen(from, to, 1);
        assert_ne!(text, WHOLE, "{from} is not there");
        let refusal = read(&text).expect_err(complaint);
        assert!(
            refusal.contains(complaint),
            "{to}\n  is refused by: {refusal}\n  not by: {complaint}"
        );
        assert!(!refusal.contains("secret"), "{refusal}");
    }
}

#[test]
fn lists_and_keys_are_refused_as_a_whole() {
    let hosts = WHOLE.find("hosts:").expect("there");
    for (text, complaint) in [
        (WHOLE[..hosts].to_owned(), "missing field `hosts`"),
        (
            format!("{}hosts: []", &WHOLE[..hosts]),
            "hosts: must list at least one host",
        ),
        (
            format!("{}hosts:", &WHOLE[..hosts]),
            "hosts: must list at least one host",
        ),
        (
            format!("{WHOLE}hosts: []"),
            "duplicate entry with key \"hosts\"",
        ),
        (
            WHOLE.replace("  small:", "  small: {vcpus: 2, memoryMiB: 2}\n  small:"),
            "duplicate entry with key \"small\"",
        ),
    ] {
        let refusal = read(&text).expect_err(complaint);
        assert!(refusal.contains(complaint), "{refusal}");
    }
}

#[test]
fn neither_a_document_nor_a_signature_is_printed() {
    let text = WHOLE
        .replace("#cloud-config", "sentinel")
        .replace("debian.raw", "debian.raw?signature=sentinel#sentinel");
    let config = read(&text).expect("good");
    let image = &config.images.values().next().expect("an image").url;
    assert_eq!(image.to_string(), "https://example.org/debian.raw?…");
    assert_eq!(image.url().query(), Some("signature=sentinel"));
    let printed = format!("{config:?} {image}");
    assert!(!printed.contains("sentinel"), "{printed}");
    let refusal = "ftp://h/a?sentinel".parse::<ImageUrl>().expect_err("ftp");
    assert!(!refusal.contains("sentinel"), "{refusal}");
}
