//! Creating: from a name to a domain that runs, every step of which finds what an earlier attempt did.
//!
//! The order is what makes a cut-off harmless: volumes carry the installation's mark in their names, so
//! that they can be attributed before there is a domain, and the domain is defined only when its disks
//! are whole.

use super::{
    classify::{is, is_taken, refused, unless_absent},
    config::{Host, MachineType},
    domain,
    error::HostError,
    images::{self, Base, Image},
    libvirt::{Libvirt, Line, RPC, START_STOP, rpc},
    link::{Answer, HostLink, HostSession},
    metadata::Metadata,
    room, seed, upload, volume,
};
use actors::{
    connection::Transfers,
    provider::contract::{ErrorClass, UserData},
    system::AskError,
};
use k8s_openapi::jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use virt::{domain::Domain, storage_pool::StoragePool, storage_vol::StorageVol, sys};

/// How long a create waits for its image before it says so. The transfer goes on, and the next attempt
/// joins it.
const IMAGE_PATIENCE: Duration = Duration::from_mins(2);
/// How often somebody who does the same at the same time is given way to.
const ATTEMPTS: u32 = 3;
/// An overlay that was cut off while it was made is no larger: its tables, and nothing in them.
const EMPTY_OVERLAY: u64 = 256 << 10;

/// A domain that is to run, with everything that it is made of.
pub struct Order {
    /// The domain's name.
    pub name: String,
    /// UID of the Proxy.
    pub uid: String,
    /// The installation that the domain belongs to.
    pub installation: String,
    /// Its size.
    pub machine: MachineType,
    /// What its disk starts from.
    pub image: Image,
    /// Bytes of its disk, at least.
    pub disk: u64,
    /// The host that it is made on.
    pub host: Host,
    /// Delivered byte for byte.
    pub user_data: Option<UserData>,
    /// What cloud-init does beside it.
    pub vendor: Arc<seed::Vendor>,
}

/// Makes the domain run.
///
/// # Errors
/// `AdoptionConflict` when the name is somebody else's; never `NotFound`.
pub async fn run(
    session: &HostSession,
    order: &Arc<Order>,
    transfers: &Transfers<HostLink>,
) -> Answer<()> {
    let mut attempt = 1;
    loop {
        match steps(session, order, transfers).await {
            // What a step found before is not there now, or is there now: somebody else, most likely an
            // earlier attempt at the same, is at work. So from the start: it finds what they made.
            Err(error) if is_crossed(&error) && attempt < ATTEMPTS => attempt += 1,
            Err(error) if error.class == ErrorClass::NotFound => {
                return Err(HostError {
                    class: ErrorClass::Transient,
                    ..error
                });
            }
            done => return done,
        }
    }
}

fn is_crossed(error: &HostError) -> bool {
    error.class == ErrorClass::NotFound
        || error.fault().is_some_and(is_taken)
        || error.reason == Some(upload::NOT_KEPT)
}

async fn steps(
    session: &HostSession,
    order: &Arc<Order>,
    transfers: &Transfers<HostLink>,
) -> Answer<()> {
    let exists = ask(session, order, |connect, order, _| {
        let Some(domain) = look_up(connect, &order.name)? else {
            return Ok(false);
        };
        adopt(&domain, order)?;
        Ok(true)
    });
    if !exists.await? {
        ask(session, order, room::check).await?;
        let base = base(session, order, transfers).await?;
        change(session, order, move |connect, order, pool| {
            let overlay = overlay(connect, order, pool, &base)?;
            images::is_kept(connect, pool, &base)?;
            let seed = write_seed(connect, order, pool)?;
            define(connect, order, &overlay, &seed)
        })
        .await?;
    }
    change(session, order, start).await
}

/// A step that only looks.
async fn ask<T: Send + 'static>(
    session: &HostSession,
    order: &Arc<Order>,
    step: impl FnOnce(&Libvirt, &Order, &str) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    on(&session.quick, session, order, RPC, step).await
}

/// A step that changes something, which may take a while and waits for others that do.
async fn change<T: Send + 'static>(
    session: &HostSession,
    order: &Arc<Order>,
    step: impl FnOnce(&Libvirt, &Order, &str) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    on(&session.slow, session, order, START_STOP, step).await
}

async fn on<T: Send + 'static>(
    line: &Line,
    session: &HostSession,
    order: &Arc<Order>,
    limit: Duration,
    step: impl FnOnce(&Libvirt, &Order, &str) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let (order, settings) = (Arc::clone(order), Arc::clone(&session.settings));
    let step = move |connect: &Libvirt| step(connect, &order, &settings.pool);
    line.run(limit, step).await
}

/// The domain of this name; `None` when libvirt vouches that there is none.
///
/// # Errors
/// When libvirt cannot tell.
pub fn look_up(connect: &Libvirt, name: &str) -> Answer<Option<Domain>> {
    let found = rpc("virDomainLookupByName", name, || {
        connect.lookup_domain_by_name(name)
    });
    unless_absent(format!("look up domain {name}"), found)
}

/// The owner's marks on a domain; `None` when it carries none.
///
/// # Errors
/// When libvirt cannot tell.
pub fn marks(domain: &Domain, name: &str) -> Answer<Option<Metadata>> {
    let element = sys::VIR_DOMAIN_METADATA_ELEMENT.cast_signed();
    let found = rpc("virDomainGetMetadata", name, || {
        domain.metadata(element, Some(super::metadata::NAMESPACE), 0)
    });
    match found {
        // What cannot be read is nobody's, and so not ours.
        Ok(xml) => {
            tracing::trace!(domain = name, xml, "metadata");
            Ok(Metadata::parse(&xml).ok())
        }
        Err(fault) if is(&fault, sys::VIR_ERR_NO_DOMAIN_METADATA) => Ok(None),
        Err(fault) => Err(refused(
            format!("read the metadata of domain {name}"),
            &fault,
        )),
    }
}

fn adopt(domain: &Domain, order: &Order) -> Answer<()> {
    let name = &order.name;
    let said = match marks(domain, name)? {
        Some(marks) if (&marks.uid, &marks.installation) == (&order.uid, &order.installation) => {
            return Ok(());
        }
        Some(marks) => format!(
            "belongs to uid {:?} of installation {:?}",
            marks.uid, marks.installation
        ),
        None => "carries no mark of this operator".to_owned(),
    };
    let message = format!("domain {name} exists and {said}");
    Err(HostError::new(ErrorClass::AdoptionConflict, message))
}

/// The image in the pool, fetched if it is not there.
async fn base(
    session: &HostSession,
    order: &Arc<Order>,
    transfers: &Transfers<HostLink>,
) -> Answer<Base> {
    let find = || {
        ask(session, order, |connect, order, pool| {
            images::find(connect, pool, &order.image)
        })
    };
    if let Some(base) = find().await? {
        return Ok(base);
    }
    let image = order.image.clone();
    match transfers.bring(image, IMAGE_PATIENCE).await {
        Ok(brought) => brought?,
        Err(AskError::Late(_)) => {
            let message = format!("image {} is still being fetched", order.image);
            return Err(HostError::transient(message));
        }
        Err(gone @ (AskError::Down | AskError::Dropped)) => {
            let message = format!("image {}: the transfer was cut off ({gone})", order.image);
            return Err(HostError::transient(message));
        }
    }
    find().await?.ok_or_else(|| {
        HostError::transient(format!("image {} has just gone from the pool", order.image))
    })
}

/// The overlay's path on the host.
fn overlay(connect: &Libvirt, order: &Order, pool: &str, base: &Base) -> Answer<String> {
    let mark = volume::installation_mark(&order.installation);
    let name = volume::overlay_name(&order.name, &mark);
    let in_pool = images::pool(connect, pool)?;
    if let Some(there) = images::volume(&in_pool, &name)? {
        let described = images::describe(&there, &name)?;
        let backing = described.backing.map(|backing| backing.path);
        if backing.as_deref() == Some(&*base.path) {
            return Ok(described.path);
        }
        let ours = match &backing {
            Some(backing) => backing.rsplit('/').next().is_some_and(volume::is_base),
            None => described.physical <= EMPTY_OVERLAY,
        };
        if !ours {
            let message = format!(
                "volume {name} exists in pool {pool} and is not an overlay of a base image of ours"
            );
            return Err(HostError::new(ErrorClass::AdoptionConflict, message));
        }
        images::delete(connect, &there, &name)?;
    }
    let xml = volume::overlay_xml(
        &name,
        order.disk.max(base.virtual_size),
        &base.path,
        order.image.format,
    );
    let made = make_volume(connect, &in_pool, &name, &xml)?;
    Ok(images::describe(&made, &name)?.path)
}

fn write_seed(connect: &Libvirt, order: &Order, pool: &str) -> Answer<String> {
    let mark = volume::installation_mark(&order.installation);
    let name = volume::seed_name(&order.name, &mark);
    let in_pool = images::pool(connect, pool)?;
    let user_data = order.user_data.as_ref().map_or(&[][..], UserData::bytes);
    let image = seed::build(&order.name, user_data, &order.vendor)
        .map_err(|error| HostError::permanent(format!("seed of {}: {error}", order.name)))?;
    let made = upload::small(connect, &in_pool, &name, &image)?;
    Ok(images::describe(&made, &name)?.path)
}

/// Makes a volume as `xml` says.
///
/// # Errors
/// What libvirt gives, or that this process may not act any more.
pub fn make_volume(
    connect: &Libvirt,
    pool: &StoragePool,
    name: &str,
    xml: &str,
) -> Answer<StorageVol> {
    connect.may_act()?;
    rpc("virStorageVolCreateXML", name, || {
        StorageVol::create_xml(pool, xml, 0)
    })
    .map_err(|fault| refused(format!("create volume {name}"), &fault))
}

fn define(connect: &Libvirt, order: &Order, overlay: &str, seed: &str) -> Answer<()> {
    let xml = domain::build(&domain::DomainSpec {
        name: order.name.clone(),
        domain_type: order.host.domain_type,
        cpu_mode: order.host.cpu_mode(),
        vcpus: order.machine.vcpus.get(),
        memory_mib: order.machine.memory_mib.get(),
        firmware: order.image.firmware,
        overlay: overlay.to_owned(),
        seed: seed.to_owned(),
        bridge: order.host.bridge.clone(),
        metadata: Metadata {
            managed: true,
            uid: order.uid.clone(),
            installation: order.installation.clone(),
            created_at: Timestamp::now().as_second(),
        },
    });
    tracing::trace!(domain = order.name, xml, "defining");
    connect.may_act()?;
    rpc("virDomainDefineXML", &order.name, || {
        connect.define_domain_xml(&xml)
    })
    .map(drop)
    // Some versions of libvirt look for the firmware here, others at the start.
    .map_err(|fault| {
        let error = refused(format!("define domain {}", order.name), &fault);
        explained(error, &order.host.bridge)
    })
}

/// Says what to do where libvirt's own words are not clear.
fn explained(error: HostError, bridge: &str) -> HostError {
    let said = |words: &str| error.message.contains(words);
    let advice = if said("Unable to find any firmware") {
        "the host has no UEFI firmware for it: install it there (package ovmf or edk2-ovmf), or give \
         the image firmware: bios"
            .to_owned()
    } else if said(bridge) && (said("No such device") || said("does not exist")) {
        format!("bridge {bridge} is missing on the host: make it there, or set the host's bridge")
    } else {
        return error;
    };
    HostError {
        message: format!("{advice} ({})", error.message),
        ..error
    }
}

fn start(connect: &Libvirt, order: &Order, _: &str) -> Answer<()> {
    let name = &order.name;
    let doing = || format!("start domain {name}");
    let Some(domain) = look_up(connect, name)? else {
        return Err(HostError::transient(format!("domain {name} has just gone")));
    };
    let active = rpc("virDomainIsActive", name, || domain.is_active());
    if active.map_err(|fault| refused(doing(), &fault))? {
        return Ok(());
    }
    connect.may_act()?;
    match rpc("virDomainCreate", name, || domain.create()) {
        // Somebody was faster.
        Err(fault) if !is(&fault, sys::VIR_ERR_OPERATION_INVALID) => {
            Err(explained(refused(doing(), &fault), &order.host.bridge))
        }
        _ => Ok(()),
    }
}
