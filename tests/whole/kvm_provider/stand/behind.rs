//! What libvirt has and is made to have, behind the providers' backs, over its own socket.

use super::{Stand, is_marker, locked};
use crate::{
    conformance::eventually,
    lab::{hypervisor::Hypervisor, proxy::PATIENCE},
};
use anyhow::{Context as _, ensure};
use proxy_operator::providers::kvm::{
    config::{CpuMode, DomainType, Firmware},
    domain::{self, DomainSpec},
    metadata::Metadata,
    volume::{installation_mark, overlay_name, seed_name},
};
use std::{
    collections::BTreeSet,
    thread::sleep,
    time::{Duration, Instant},
};
use tokio::task::block_in_place;
use virt::{connect::Connect, domain::Domain, storage_pool::StoragePool, storage_vol::StorageVol};

/// A network of libvirt's own, beside the bridge that is used otherwise.
const NETWORK: &str = "posed";
const NETWORK_XML: &str = "<network><name>posed</name><forward mode='open'/>\
    <bridge name='posed0' stp='off' delay='0'/><ip address='10.79.254.1' netmask='255.255.255.0'>\
    <dhcp><range start='10.79.254.10' end='10.79.254.200'/></dhcp></ip></network>";

impl Stand<'_> {
    /// Something to do with libvirt, behind the provider's back.
    ///
    /// # Errors
    /// What it gives.
    pub fn libvirt<T>(
        &self,
        calls: impl FnOnce(&Connect) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let connect = locked(&self.connect).clone();
        block_in_place(|| calls(&connect))
    }

    /// With a connection to libvirt of now: libvirtd may have been started anew.
    ///
    /// # Errors
    /// When libvirt does not answer.
    pub fn refreshed(&self) -> anyhow::Result<&Self> {
        *locked(&self.connect) = connect(self.host)?;
        Ok(self)
    }

    /// The pool.
    ///
    /// # Errors
    /// When there is none.
    pub fn pool(&self) -> anyhow::Result<StoragePool> {
        self.libvirt(|connect| Ok(connect.lookup_storage_pool_by_name(&self.host.pool)?))
    }

    /// The names of all volumes whose name contains `part`, as they are on the disk now.
    ///
    /// # Errors
    /// What libvirt gives.
    pub fn volumes(&self, part: &str) -> anyhow::Result<BTreeSet<String>> {
        let pool = self.pool()?;
        self.libvirt(|_| {
            look_anew(&pool)?;
            let all = pool.list_all_volumes(0)?;
            let names = all.iter().filter_map(|volume| volume.name().ok());
            Ok(names.filter(|name| name.contains(part)).collect())
        })
    }

    /// The base images of this installation, without their markers.
    ///
    /// # Errors
    /// What libvirt gives.
    pub fn bases(&self) -> anyhow::Result<BTreeSet<String>> {
        let all = self.volumes(&format!("base-{}", self.installation))?;
        Ok(all.into_iter().filter(|name| !is_marker(name)).collect())
    }

    /// Runs a shell script on the host, in the pool's folder.
    ///
    /// # Errors
    /// What it says, if it fails.
    pub async fn in_pool(&self, script: &str) -> anyhow::Result<String> {
        let path = self.host.virsh(&["pool-dumpxml", &self.host.pool]).await?;
        let (_, path) = path.split_once("<path>").context("a path")?;
        let (path, _) = path.split_once("</path>").context("a path")?;
        let script = format!("cd {path} && {script}");
        self.host.exec(&["sh", "-ec", &script]).await
    }

    /// Sees to it that there is one base, and that it is the halting image byte for byte.
    ///
    /// # Errors
    /// When it is not.
    pub async fn base_is_right(&self) -> anyhow::Result<()> {
        let bases = self.bases()?;
        let [base] = &Vec::from_iter(&bases)[..] else {
            anyhow::bail!("not one base: {bases:?}")
        };
        let said = self.in_pool(&format!("sha256sum {base}")).await?;
        ensure!(said.starts_with(&self.sha256), "{base} is {said}");
        Ok(())
    }

    /// Removes the bases and their markers, behind the provider's back.
    ///
    /// # Errors
    /// What the host says.
    pub async fn without_bases(&self) -> anyhow::Result<()> {
        self.in_pool(&format!("rm -f base-{}*", self.installation))
            .await?;
        // libvirt looks at its files again.
        self.bases().map(drop)
    }

    /// A volume with this content, made by somebody else.
    ///
    /// # Errors
    /// What libvirt gives.
    pub fn make_volume(&self, name: &str, format: &str) -> anyhow::Result<StorageVol> {
        let pool = self.pool()?;
        let xml = format!(
            "<volume><name>{name}</name><capacity unit='MiB'>1</capacity><allocation>0</allocation>\
             <target><format type='{format}'/></target></volume>"
        );
        self.libvirt(|_| Ok(StorageVol::create_xml(&pool, &xml, 0)?))
    }

    /// A domain with disks and these marks, defined by hand.
    ///
    /// # Errors
    /// What libvirt gives.
    pub fn define(&self, name: &str, metadata: Option<Metadata>) -> anyhow::Result<Domain> {
        locked(&self.names).insert(name.to_owned());
        let mark = self.mark();
        let overlay = self.make_volume(&overlay_name(name, &mark), "qcow2")?;
        let seed = self.make_volume(&seed_name(name, &mark), "raw")?;
        let marked = metadata.is_some();
        let xml = self.libvirt(|_| {
            Ok(domain::build(&DomainSpec {
                name: name.to_owned(),
                domain_type: DomainType::Qemu,
                cpu_mode: CpuMode::Maximum,
                vcpus: 1,
                memory_mib: 16,
                firmware: Firmware::Bios,
                overlay: overlay.path()?,
                seed: seed.path()?,
                bridge: self.host.bridge.clone(),
                metadata: metadata.unwrap_or_else(|| self.marks("nobody")),
            }))
        })?;
        let xml = if marked {
            xml
        } else {
            let (before, rest) = xml.split_once("<metadata>").context("metadata")?;
            let (_, after) = rest.split_once("</metadata>").context("metadata")?;
            format!("{before}{after}")
        };
        self.libvirt(|connect| Ok(connect.define_domain_xml(&xml)?))
    }

    /// The marks of this installation.
    pub fn marks(&self, uid: &str) -> Metadata {
        Metadata {
            managed: true,
            uid: uid.to_owned(),
            installation: self.installation.clone(),
            created_at: 1_700_000_000,
        }
    }

    /// Defines and starts a domain that gets its address from libvirt's own DHCP, the only one whose
    /// leases libvirt tells: its BIOS asks for one, since there is nothing on its disk. (The ARP table
    /// would do, but libvirt 9.0 cannot read that of a Linux 6.18.)
    ///
    /// # Errors
    /// What libvirt gives, or that there is no address.
    pub async fn addressed(&self, name: &str, metadata: Metadata) -> anyhow::Result<Domain> {
        let defined = self.define(name, Some(metadata))?;
        let xml = self.libvirt(|connect| {
            if connect.list_networks()?.iter().all(|name| name != NETWORK) {
                let made = connect.create_network_xml(NETWORK_XML);
                // Another scenario may have been faster.
                made.or_else(|_| connect.lookup_network_by_name(NETWORK))?;
            }
            Ok(defined.xml_desc(0)?)
        })?;
        let bridge = &self.host.bridge;
        let xml = xml
            .replace("<boot dev='hd'/>", "<boot dev='network'/>")
            .replace("<interface type='bridge'>", "<interface type='network'>")
            .replace(
                &format!("<source bridge='{bridge}'/>"),
                &format!("<source network='{NETWORK}'/>"),
            );
        let domain = self.libvirt(|connect| {
            let domain = connect.define_domain_xml(&xml)?;
            domain.create()?;
            Ok(domain)
        })?;
        eventually("the BIOS has an address", || async {
            let lease = virt::sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE;
            let seen = self.libvirt(|_| Ok(domain.interface_addresses(lease, 0)?))?;
            Ok((!seen.is_empty()).then_some(()))
        })
        .await?;
        Ok(domain)
    }

    /// Removes what this installation made and somebody may have left, and stops its actors.
    ///
    /// # Errors
    /// What libvirt gives.
    pub fn end(&self) -> anyhow::Result<()> {
        self.stop();
        for name in locked(&self.names).iter() {
            self.remove_domain(name)?;
        }
        let pool = self.pool()?;
        let other = installation_mark(&format!("not-{}", self.installation));
        for part in [self.mark(), other, self.installation.clone()] {
            for name in self.volumes(&part)? {
                self.libvirt(|_| Ok(pool.lookup_storage_vol_by_name(&name)?.delete(0)?))?;
            }
        }
        Ok(())
    }

    /// Ends and undefines a domain, if it is there.
    ///
    /// # Errors
    /// What libvirt gives.
    pub fn remove_domain(&self, name: &str) -> anyhow::Result<()> {
        self.libvirt(|connect| {
            if let Ok(domain) = connect.lookup_domain_by_name(name) {
                domain.destroy().ok();
                domain.undefine()?;
            }
            Ok(())
        })
    }
}

/// libvirt looks at the pool's files again, which it refuses while anybody makes a volume in it.
fn look_anew(pool: &StoragePool) -> anyhow::Result<()> {
    let until = Instant::now() + PATIENCE;
    while let Err(refused) = pool.refresh(0) {
        ensure!(Instant::now() < until, "{refused}");
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

pub(super) fn connect(host: &Hypervisor) -> anyhow::Result<Connect> {
    let socket = host.libvirt_socket();
    let uri = format!("qemu+unix:///system?socket={}", socket.display());
    block_in_place(|| {
        virt::error::clear_error_callback();
        Connect::open(Some(&uri)).context(uri.clone())
    })
}
