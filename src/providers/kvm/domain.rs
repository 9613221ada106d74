//! The XML of a domain: as we define it, and as libvirt hands it back.

use super::{
    config::{CpuMode, DomainType, Firmware},
    metadata::Metadata,
    volume::hash,
    xml::{Element, XmlError, element},
};

/// What a domain is to be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainSpec {
    /// Its name.
    pub name: String,
    /// Hardware virtualisation or emulation.
    pub domain_type: DomainType,
    /// Which CPU the guest sees.
    pub cpu_mode: CpuMode,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// What starts it.
    pub firmware: Firmware,
    /// Path of the disk on the host, a qcow2 file.
    pub overlay: String,
    /// Path of the seed on the host.
    pub seed: String,
    /// The bridge that it is attached to.
    pub bridge: String,
    /// Whose it is.
    pub metadata: Metadata,
}

/// The XML that defines the domain.
#[must_use]
pub fn build(spec: &DomainSpec) -> String {
    let mut domain = element("domain").with("type", spec.domain_type).holding([
        element("name").text(&spec.name),
        element("metadata").holding([spec.metadata.element()]),
        element("memory").with("unit", "MiB").text(spec.memory_mib),
        element("vcpu").text(spec.vcpus),
        os(spec.firmware),
        element("features").holding([element("acpi"), element("apic")]),
    ]);
    if spec.cpu_mode != CpuMode::Default {
        domain = domain.holding([element("cpu").with("mode", spec.cpu_mode)]);
    }
    domain
        .holding([
            element("clock").with("offset", "utc"),
            element("on_poweroff").text("destroy"),
            element("on_reboot").text("restart"),
            element("on_crash").text("destroy"),
            devices(spec),
        ])
        .to_string()
}

/// With UEFI libvirt picks the loader. Secure boot is off, because images need not be signed.
fn os(firmware: Firmware) -> Element {
    let os = element("os");
    let kind = element("type")
        .with("arch", "x86_64")
        .with("machine", "q35")
        .text("hvm");
    match firmware {
        Firmware::Bios => os.holding([kind]),
        Firmware::Uefi => os.with("firmware", "efi").holding([
            kind,
            element("firmware").holding([element("feature")
                .with("enabled", "no")
                .with("name", "secure-boot")]),
        ]),
    }
}

/// Both disks are virtio, since cloud kernels have no driver for another; files rather than volumes,
/// since libvirt's `AppArmor` helper gives access to nothing else; and there is no screen.
fn devices(spec: &DomainSpec) -> Element {
    let agent = element("target")
        .with("type", "virtio")
        .with("name", "org.qemu.guest_agent.0");
    let serial = element("target").with("type", "isa-serial").with("port", 0);
    let console = element("target").with("type", "serial").with("port", 0);
    element("devices").holding([
        disk("qcow2", &spec.overlay, "vda"),
        disk("raw", &spec.seed, "vdb").holding([element("readonly")]),
        element("interface").with("type", "bridge").holding([
            element("mac").with("address", mac(&spec.name)),
            element("source").with("bridge", &spec.bridge),
            element("model").with("type", "virtio"),
        ]),
        element("serial").with("type", "pty").holding([serial]),
        element("console").with("type", "pty").holding([console]),
        element("channel").with("type", "unix").holding([agent]),
        element("rng")
            .with("model", "virtio")
            .holding([element("backend")
                .with("model", "random")
                .text("/dev/urandom")]),
    ])
}

fn disk(format: &str, path: &str, target: &str) -> Element {
    element("disk")
        .with("type", "file")
        .with("device", "disk")
        .holding([
            element("driver").with("name", "qemu").with("type", format),
            element("source").with("file", path),
            element("target").with("dev", target).with("bus", "virtio"),
        ])
}

/// The MAC address of the domain of this name, always the same: four bytes of a hash behind the
/// `52:54` of QEMU's own. Three, as usual, would have two of a thousand collide every now and then.
#[must_use]
pub fn mac(name: &str) -> String {
    let digits = hash(name, 8);
    let bytes: Vec<_> = (0..8).step_by(2).map(|at| &digits[at..at + 2]).collect();
    format!("52:54:{}", bytes.join(":"))
}

/// What is of interest in a domain's XML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// MAC addresses of its interfaces, in lower case.
    pub macs: Vec<String>,
    /// Paths of the files that are its disks.
    pub disks: Vec<String>,
    /// Whose it is, if it is of this operator's making.
    pub metadata: Option<Metadata>,
}

impl Domain {
    /// Reads a domain's XML.
    ///
    /// # Errors
    /// What is no XML, or no domain.
    pub fn parse(xml: &str) -> Result<Self, XmlError> {
        let root = Element::parse(xml)?;
        let found = root.local_name();
        if found != "domain" {
            let why = format!("<{found}> where <domain> should be");
            return Err(XmlError::new(why));
        }
        let devices = |kind: &'static str, part: &'static str, attribute: &'static str| {
            let devices = root.children("devices");
            devices
                .flat_map(move |devices| devices.children(kind))
                .filter_map(move |device| device.at([part])?.attribute(attribute))
        };
        let mut metadata = root.children("metadata").flat_map(Element::all);
        Ok(Self {
            name: root.at(["name"]).map_or("", Element::content).to_owned(),
            macs: devices("interface", "mac", "address")
                .map(str::to_ascii_lowercase)
                .collect(),
            disks: devices("disk", "source", "file")
                .map(str::to_owned)
                .collect(),
            metadata: metadata.find_map(Metadata::of),
        })
    }
}

#[cfg(test)]
mod tests;
