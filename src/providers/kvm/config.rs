//! The `kvm:` block of the providers file.

mod values;

pub use values::{Address, Document, ImageUrl, Name, Sha256Hex};

use serde::{Deserialize, Deserializer, de::Error};
use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    path::PathBuf,
};

/// What a user may set. Every value is checked while it is read, so one that exists is usable.
// The derived functions read the fields; the traits, which add the rules across fields, use them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, rename_all = "camelCase")]
pub struct KvmConfig {
    /// The private key that hosts know; read at every dial.
    #[serde(deserialize_with = "values::file")]
    pub ssh_key_file: PathBuf,
    /// The keys of the hosts; there unless `insecure_ignore_host_key`.
    #[serde(default, deserialize_with = "values::optional_file")]
    pub known_hosts_file: Option<PathBuf>,
    /// Whether any host key will do.
    #[serde(default)]
    pub insecure_ignore_host_key: bool,
    /// The least size of a VM's disk, in GiB.
    #[serde(default = "ten", deserialize_with = "values::up_to::<_, 65_536>")]
    pub disk_size_gb: NonZeroU32,
    /// A cloud-init document for every VM, beside its own user-data.
    #[serde(default)]
    pub vendor_data: Option<Document>,
    /// Whether guests are told to install the QEMU guest agent.
    #[serde(default = "yes")]
    pub install_guest_agent: bool,
    /// What `placement.image` may name, beside URLs.
    #[serde(default)]
    pub images: BTreeMap<Name, Image>,
    /// What `placement.machineType` may name; at least one.
    #[serde(deserialize_with = "machine_types")]
    pub machine_types: BTreeMap<Name, MachineType>,
    /// Where VMs may run, `placement.zone` says which; at least one, with names of their own.
    #[serde(deserialize_with = "hosts")]
    pub hosts: Vec<Host>,
}

/// A disk image that VMs start from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Image {
    /// Where it is fetched from.
    pub url: ImageUrl,
    /// What its bytes must hash to.
    #[serde(default)]
    pub sha256: Option<Sha256Hex>,
    /// What kind of file it is.
    #[serde(default)]
    pub format: Format,
    /// What starts it.
    #[serde(default)]
    pub firmware: Firmware,
}

/// The format of a disk image.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, strum::Display, strum::EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[expect(missing_docs, reason = "the names are those of QEMU")]
pub enum Format {
    #[default]
    Qcow2,
    Raw,
}

/// The firmware that starts a VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Firmware {
    #[default]
    Uefi,
    Bios,
}

/// How large a VM is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MachineType {
    /// Virtual CPUs. A `q35` machine without an IOMMU, which is what VMs get, takes 255.
    #[serde(deserialize_with = "values::up_to::<_, 255>")]
    pub vcpus: NonZeroU32,
    /// Memory in MiB.
    #[serde(
        rename = "memoryMiB",
        deserialize_with = "values::up_to::<_, 16_777_216>"
    )]
    pub memory_mib: NonZeroU32,
}

/// A hypervisor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, rename_all = "camelCase")]
pub struct Host {
    /// What `placement.zone` says; part of the provider id.
    pub name: Name,
    /// Where its SSH server listens.
    pub address: Address,
    /// Who to log in as.
    #[serde(deserialize_with = "values::user")]
    pub user: String,
    /// The bridge that VMs are attached to.
    #[serde(deserialize_with = "values::interface")]
    pub bridge: String,
    /// libvirt's socket on the host.
    #[serde(default = "default_socket", deserialize_with = "values::socket")]
    pub socket: String,
    /// The storage pool that holds the disks.
    #[serde(default = "default_pool", deserialize_with = "values::pool")]
    pub pool: String,
    /// As configured; [`Host::cpu_mode`] is what holds.
    #[serde(default)]
    pub cpu_mode: Option<CpuMode>,
    /// How VMs are run.
    #[serde(default)]
    pub domain_type: DomainType,
}

/// Which CPU a guest sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, strum::Display, strum::EnumIter)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "the names are those of libvirt")]
pub enum CpuMode {
    HostPassthrough,
    HostModel,
    Maximum,
    /// Whatever QEMU takes when it is not told.
    Default,
}

/// How a domain is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, strum::Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum DomainType {
    /// By the processor.
    #[default]
    Kvm,
    /// By software emulation.
    Qemu,
}

impl KvmConfig {
    /// The host of this name.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name.as_str() == name)
    }

    fn problem(&self) -> Option<&'static str> {
        (self.known_hosts_file.is_none() && !self.insecure_ignore_host_key).then_some(
            "missing field `knownHostsFile`; only insecureIgnoreHostKey: true does without it",
        )
    }
}

impl Host {
    /// Which CPU guests see: the host's own, unless it is configured or emulated.
    #[must_use]
    pub fn cpu_mode(&self) -> CpuMode {
        self.cpu_mode.unwrap_or(match self.domain_type {
            DomainType::Kvm => CpuMode::HostPassthrough,
            DomainType::Qemu => CpuMode::Maximum,
        })
    }

    fn problem(&self) -> Option<&'static str> {
        let passthrough = self.cpu_mode == Some(CpuMode::HostPassthrough);
        (passthrough && self.domain_type == DomainType::Qemu).then_some(
            "cpuMode host-passthrough cannot be had with domainType qemu; leave it out or say maximum",
        )
    }
}

impl<'de> Deserialize<'de> for KvmConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let config = Self::deserialize(from)?;
        match config.problem() {
            None => Ok(config),
            Some(problem) => Err(D::Error::custom(problem)),
        }
    }
}

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let host = Self::deserialize(from)?;
        match host.problem() {
            None => Ok(host),
            Some(problem) => Err(D::Error::custom(problem)),
        }
    }
}

fn machine_types<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<Name, MachineType>, D::Error> {
    let types = BTreeMap::deserialize(from)?;
    if types.is_empty() {
        return Err(D::Error::custom("must name at least one machine type"));
    }
    Ok(types)
}

fn hosts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Host>, D::Error> {
    let hosts = Vec::<Host>::deserialize(from)?;
    if hosts.is_empty() {
        return Err(D::Error::custom("must list at least one host"));
    }
    let mut names = BTreeSet::new();
    if let Some(second) = hosts.iter().find(|host| !names.insert(&host.name)) {
        return Err(D::Error::custom(format!(
            "two hosts have the name {:?}",
            second.name.as_str()
        )));
    }
    Ok(hosts)
}

fn ten() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(9)
}

fn yes() -> bool {
    true
}

fn default_socket() -> String {
    "/var/run/libvirt/libvirt-sock".into()
}

fn default_pool() -> String {
    "default".into()
}

#[cfg(test)]
mod tests;
