use super::*;

fn spec() -> DomainSpec {
    DomainSpec {
        name: "proxy-abc".into(),
        domain_type: DomainType::Kvm,
        cpu_mode: CpuMode::HostPassthrough,
        vcpus: 2,
        memory_mib: 1024,
        firmware: Firmware::Uefi,
        overlay: "/pool/a&b.qcow2".into(),
        seed: "/pool/a-seed.iso".into(),
        bridge: "br0".into(),
        metadata: Metadata {
            managed: true,
            uid: "u-1".into(),
            installation: "home".into(),
            created_at: 0,
        },
    }
}

const WHOLE: &str = r#"<domain type="kvm">
  <name>proxy-abc</name>
  <metadata>
    <proxy-operator:proxy-operator-instance xmlns:proxy-operator="https://crawl.example.com/proxy-operator/kvm/v1">
      <proxy-operator:managed>true</proxy-operator:managed>
      <proxy-operator:uid>u-1</proxy-operator:uid>
      <proxy-operator:installation>home</proxy-operator:installation>
      <proxy-operator:createdAt>1970-01-01T00:00:00Z</proxy-operator:createdAt>
    </proxy-operator:proxy-operator-instance>
  </metadata>
  <memory unit="MiB">1024</memory>
  <vcpu>2</vcpu>
  <os firmware="efi">
    <type arch="x86_64" machine="q35">hvm</type>
    <firmware>
      <feature enabled="no" name="secure-boot"/>
    </firmware>
  </os>
  <features>
    <acpi/>
    <apic/>
  </features>
  <cpu mode="host-passthrough"/>
  <clock offset="utc"/>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <disk type="file" device="disk">
      <driver name="qemu" type="qcow2"/>
      <source file="/pool/a&amp;b.qcow2"/>
      <target dev="vda" bus="virtio"/>
    </disk>
    <disk type="file" device="disk">
      <driver name="qemu" type="raw"/>
      <source file="/pool/a-seed.iso"/>
      <target dev="vdb" bus="virtio"/>
      <readonly/>
    </disk>
    <interface type="bridge">
      <mac address="52:54:MAC"/>
      <source bridge="br0"/>
      <model type="virtio"/>
    </interface>
    <serial type="pty">
      <target type="isa-serial" port="0"/>
    </serial>
    <console type="pty">
      <target type="serial" port="0"/>
    </console>
    <channel type="unix">
      <target type="virtio" name="org.qemu.guest_agent.0"/>
    </channel>
    <rng model="virtio">
      <backend model="random">/dev/urandom</backend>
    </rng>
  </devices>
</domain>"#;

#[test]
fn a_domain_is_built_whole() {
    let expected = WHOLE.replace("52:54:MAC", &mac("proxy-abc"));
    assert_eq!(build(&spec()), expected);
}

#[test]
fn firmware_type_and_cpu_follow_the_config() {
    let bios = build(&DomainSpec {
        firmware: Firmware::Bios,
        ..spec()
    });
    assert!(
        bios.contains("<os>\n") && !bios.contains("firmware"),
        "{bios}"
    );
    for (cpu_mode, line) in [
        (CpuMode::HostModel, Some("<cpu mode=\"host-model\"/>")),
        (CpuMode::Maximum, Some("<cpu mode=\"maximum\"/>")),
        (CpuMode::Default, None),
    ] {
        let xml = build(&DomainSpec {
            domain_type: DomainType::Qemu,
            cpu_mode,
            ..spec()
        });
        assert!(xml.starts_with("<domain type=\"qemu\">"), "{xml}");
        match line {
            Some(line) => assert!(xml.contains(line), "{xml}"),
            None => assert!(!xml.contains("<cpu"), "{xml}"),
        }
    }
}

#[test]
fn a_mac_is_stable_and_a_guests_own() {
    assert_eq!(mac("proxy-abc"), mac("proxy-abc"));
    assert_ne!(mac("proxy-abc"), mac("proxy-abd"));
    let mac = mac("proxy-abc");
    assert_eq!(mac.len(), 17);
    assert!(mac.starts_with("52:54:"), "{mac}");
    assert_eq!(mac, mac.to_ascii_lowercase());
}

#[test]
fn what_was_built_reads_back() {
    let spec = spec();
    let domain = Domain {
        name: spec.name.clone(),
        macs: vec![mac(&spec.name)],
        disks: vec![spec.overlay.clone(), spec.seed.clone()],
        metadata: Some(spec.metadata.clone()),
    };
    assert_eq!(Domain::parse(&build(&spec)), Ok(domain));
}

#[test]
fn the_domain_of_another_is_read_without_metadata() {
    let xml = "<domain type='kvm' id='3'><name>theirs</name><metadata>\
        <x:proxy-operator-instance xmlns:x='https://else.example/v1'><x:managed>true</x:managed></x:proxy-operator-instance>\
        </metadata><devices>\
        <disk type='volume' device='disk'><source pool='p' volume='v'/></disk>\
        <disk type='file' device='cdrom'><target dev='sda'/></disk>\
        <interface type='network'><mac address='52:54:00:AA:bb:cc'/></interface>\
        <interface type='user'/></devices></domain>";
    let domain = Domain {
        name: "theirs".into(),
        macs: vec!["52:54:00:aa:bb:cc".into()],
        disks: vec![],
        metadata: None,
    };
    assert_eq!(Domain::parse(xml), Ok(domain));
    let refusal = Domain::parse("<network/>")
        .expect_err("no domain")
        .to_string();
    assert!(refusal.contains("<network> where <domain>"), "{refusal}");
}
