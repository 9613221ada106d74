//! Every field, wrong.

/// `(what stands in `WHOLE`, what stands there instead, the refusal)`.
pub const FIELDS: [(&str, &str, &str); 70] = [
    (
        "sshKeyFile: /etc/kvm/id_ed25519",
        "",
        ".: missing field `sshKeyFile`",
    ),
    ("/etc/kvm/id_ed25519", "", "sshKeyFile: invalid type: unit"),
    (
        "/etc/kvm/id_ed25519",
        "''",
        "sshKeyFile: \"\" is not a file's path",
    ),
    (
        "/etc/kvm/id_ed25519",
        "~/.ssh/id_ed25519",
        "sshKeyFile: \"~/.ssh/id_ed25519\": '~' is not replaced",
    ),
    (
        "/etc/kvm/id_ed25519",
        "\"/a\\nb\"",
        "sshKeyFile: \"/a\\nb\" is not a file's path",
    ),
    (
        "knownHostsFile: /etc/kvm/known_hosts",
        "",
        ".: missing field `knownHostsFile`; only insecureIgnoreHostKey",
    ),
    (
        "/etc/kvm/known_hosts",
        "''",
        "knownHostsFile: \"\" is not a file's path",
    ),
    (
        "/etc/kvm/known_hosts",
        "[a]",
        "knownHostsFile: invalid type: sequence",
    ),
    (
        "insecureIgnoreHostKey: false",
        "insecureIgnoreHostKey: 'no'",
        "insecureIgnoreHostKey: invalid type: string \"no\"",
    ),
    (
        "diskSizeGb: 20",
        "diskSizeGb: 0",
        "diskSizeGb: 0 is not from 1 to 65536",
    ),
    (
        "diskSizeGb: 20",
        "diskSizeGb: -1",
        "diskSizeGb: invalid value: integer `-1`",
    ),
    (
        "diskSizeGb: 20",
        "diskSizeGb: 65537",
        "diskSizeGb: 65537 is not from 1",
    ),
    (
        "diskSizeGb: 20",
        "diskSizeGb: 5000000000",
        "diskSizeGb: invalid value: integer `5000000000`",
    ),
    (
        "diskSizeGb: 20",
        "diskSizeGb: 1.5",
        "diskSizeGb: invalid type: floating point `1.5`",
    ),
    (
        "diskSizeGb: 20",
        "diskSizeGb: '20'",
        "diskSizeGb: invalid type: string \"20\"",
    ),
    (
        "vendorData: \"#cloud-config\\n\"",
        "vendorData: {a: b}",
        "vendorData: invalid type: map",
    ),
    (
        "installGuestAgent: false",
        "installGuestAgent: 0",
        "installGuestAgent: invalid type: integer `0`",
    ),
    (
        "installGuestAgent: false",
        "installAgent: false",
        "installAgent: unknown field `installAgent`",
    ),
    (
        "  debian-13:",
        "  'debian 13':",
        "\"debian 13\" is not a name",
    ),
    ("  debian-13:", "  -debian:", "\"-debian\" is not a name"),
    (
        "  debian-13:",
        "  ../debian:",
        "\"../debian\" is not a name",
    ),
    (
        "    url: https://example.org/debian.raw",
        "",
        "images.debian-13: missing field `url`",
    ),
    (
        "https://example.org/debian.raw",
        "debian.raw",
        "images.debian-13.url: \"debian.raw\" is not an image's URL",
    ),
    (
        "https://example.org/debian.raw",
        "ftp://example.org/a",
        "images.debian-13.url: \"ftp://example.org/a\" is not an image's URL: it must begin with http",
    ),
    (
        "https://example.org/debian.raw",
        "file:///etc/passwd",
        "images.debian-13.url: \"file:///etc/passwd\" is not",
    ),
    (
        "https://example.org/debian.raw",
        "'https://'",
        "images.debian-13.url: \"https://\" is not an image's URL: empty host",
    ),
    (
        "https://example.org/debian.raw",
        "'https://h/a b'",
        "images.debian-13.url: \"https://h/a b\" is not an image's URL: it holds white space",
    ),
    (
        "https://example.org/debian.raw",
        "https://me:secret@h/a",
        "images.debian-13.url: an image's URL must not hold a user or a password",
    ),
    (
        "https://example.org/debian.raw",
        "7",
        "images.debian-13.url: invalid type: integer `7`",
    ),
    ("ABABAB", "ABAB", "images.debian-13.sha256: \"ABAB"),
    ("ABABAB", "ABABAX", "is not 64 hexadecimal digits"),
    (
        "format: raw",
        "format: vmdk",
        "images.debian-13.format: unknown variant `vmdk`, expected `qcow2` or `raw`",
    ),
    (
        "format: raw",
        "format: RAW",
        "images.debian-13.format: unknown variant `RAW`",
    ),
    (
        "firmware: bios",
        "firmware: efi",
        "images.debian-13.firmware: unknown variant `efi`, expected `uefi` or `bios`",
    ),
    (
        "firmware: bios",
        "boot: bios",
        "images.debian-13.boot: unknown field `boot`",
    ),
    (
        "machineTypes:\n  small: {vcpus: 1, memoryMiB: 1024}",
        "",
        ".: missing field `machineTypes`",
    ),
    (
        "machineTypes:\n  small: {vcpus: 1, memoryMiB: 1024}",
        "machineTypes: {}",
        "machineTypes: must name at least one",
    ),
    ("  small:", "  's/l':", "\"s/l\" is not a name"),
    (
        "vcpus: 1, ",
        "",
        "machineTypes.small: missing field `vcpus`",
    ),
    (
        "vcpus: 1",
        "vcpus: 0",
        "machineTypes.small.vcpus: 0 is not from 1 to 255",
    ),
    (
        "vcpus: 1",
        "vcpus: 256",
        "machineTypes.small.vcpus: 256 is not from 1 to 255",
    ),
    (
        "vcpus: 1",
        "vcpus: two",
        "machineTypes.small.vcpus: invalid type: string \"two\"",
    ),
    (
        ", memoryMiB: 1024",
        "",
        "machineTypes.small: missing field `memoryMiB`",
    ),
    (
        "memoryMiB: 1024",
        "memoryMiB: 0",
        "machineTypes.small.memoryMiB: 0 is not from 1 to 16777216",
    ),
    (
        "memoryMiB: 1024",
        "memoryMib: 1024",
        "machineTypes.small.memoryMib: unknown field `memoryMib`",
    ),
    ("name: nas1, ", "", "hosts[0]: missing field `name`"),
    (
        "name: nas1",
        "name: nas/1",
        "hosts[0].name: \"nas/1\" is not a name",
    ),
    (
        "name: nas1",
        "name: nas2",
        "hosts: two hosts have the name \"nas2\"",
    ),
    (
        "address: \"nas1.example.org:22\", ",
        "",
        "hosts[0]: missing field `address`",
    ),
    (
        "nas1.example.org:22",
        "nas1.example.org",
        "hosts[0].address: \"nas1.example.org\" is not host:port",
    ),
    (
        "nas1.example.org:22",
        "nas1:0",
        "hosts[0].address: \"nas1:0\" is not host:port",
    ),
    (
        "nas1.example.org:22",
        "nas1:65536",
        "\"65536\" is no port from 1 to 65535",
    ),
    ("nas1.example.org:22", "nas1:+22", "\"+22\" is no port"),
    (
        "nas1.example.org:22",
        ":22",
        "hosts[0].address: \":22\" is not host:port",
    ),
    (
        "nas1.example.org:22",
        "me@nas1:22",
        "\"me@nas1\" is no host",
    ),
    (
        "nas1.example.org:22",
        "fd00::1",
        "an IPv6 address needs brackets",
    ),
    (
        "nas1.example.org:22",
        "10.0.0.256:22",
        "\"10.0.0.256\" is no host",
    ),
    (
        "[fd00::2]:2222",
        "[fd00::2]",
        "hosts[1].address: \"[fd00::2]\" is not host:port",
    ),
    ("[fd00::2]:2222", "[nas2]:22", "\"nas2\" is no host"),
    ("user: virt, ", "", "hosts[0]: missing field `user`"),
    (
        "user: virt, ",
        "user: 'a b', ",
        "hosts[0].user: \"a b\" is not the name of a user",
    ),
    (", bridge: br0", "", "hosts[0]: missing field `bridge`"),
    (
        "bridge: br0",
        "bridge: 'br/0'",
        "hosts[0].bridge: \"br/0\" is not a network interface",
    ),
    (
        "bridge: br0",
        "bridge: a-very-long-name",
        "hosts[0].bridge: \"a-very-long-name\" is not a network interface",
    ),
    (
        "/run/libvirt/libvirt-sock",
        "libvirt-sock",
        "hosts[1].socket: \"libvirt-sock\" is not the absolute path",
    ),
    (
        "fast pool",
        "a/b",
        "hosts[1].pool: \"a/b\" is not the name of a storage pool",
    ),
    ("fast pool", "\"a\\tb\"", "hosts[1].pool: \"a\\tb\" is not"),
    (
        "cpuMode: maximum",
        "cpuMode: max",
        "hosts[1].cpuMode: unknown variant `max`, expected one of `host-passthrough`, `host-model`, `maximum`, `default`",
    ),
    (
        "cpuMode: maximum",
        "cpuMode: host-passthrough",
        "hosts[1]: cpuMode host-passthrough cannot be had with domainType qemu",
    ),
    (
        "domainType: qemu",
        "domainType: xen",
        "hosts[1].domainType: unknown variant `xen`, expected `kvm` or `qemu`",
    ),
];
