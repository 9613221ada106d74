//! Whether a host has room for one domain more.

use super::{
    classify::refused,
    create::Order,
    error::HostError,
    images,
    libvirt::{Libvirt, rpc},
    link::Answer,
};
use actors::provider::contract::ErrorClass;
use virt::{storage_pool::StoragePool, sys};

const MIB: u64 = 1 << 20;

/// Compares what the order needs with what the host has.
///
/// # Errors
/// `QuotaExceeded`, with the figures; `Transient` when the pool is not active.
pub fn check(connect: &Libvirt, order: &Order, pool: &str) -> Answer<()> {
    let available = available(&images::pool(connect, pool)?, pool)?;
    if available < order.disk {
        let (available, needed) = (available / MIB, order.disk / MIB);
        return Err(full(format!(
            "pool {pool} has {available} MiB free, the disk may grow to {needed} MiB"
        )));
    }
    let needed = u64::from(order.machine.memory_mib.get()) * MIB;
    let free = rpc("virNodeGetFreeMemory", "", || connect.free_memory())
        .map_err(|fault| refused("look at the free memory", &fault))?;
    if free >= needed {
        return Ok(());
    }
    // What the system uses as a cache is not counted as free, though guests can have it: so only what
    // other guests hold is taken as gone.
    let spare = not_given_to_guests(connect)?;
    if spare >= needed {
        return Ok(());
    }
    let (spare, needed) = (spare / MIB, needed / MIB);
    Err(full(format!(
        "the host has {spare} MiB of memory free, the machine type needs {needed} MiB"
    )))
}

/// Bytes free in a pool.
///
/// # Errors
/// When libvirt cannot tell, or the pool is not active: it has no space then, which is not what is
/// wrong with it.
pub fn available(in_pool: &StoragePool, pool: &str) -> Answer<u64> {
    // Or libvirt says what it saw when it looked last. It refuses while a volume is being made, and
    // will have looked when that is done.
    rpc("virStoragePoolRefresh", pool, || in_pool.refresh(0)).ok();
    let info = rpc("virStoragePoolGetInfo", pool, || in_pool.info())
        .map_err(|fault| refused(format!("look at pool {pool}"), &fault))?;
    if info.state != sys::VIR_STORAGE_POOL_RUNNING {
        let message = format!("pool {pool} is not active: start it (virsh pool-start {pool})");
        return Err(HostError::transient(message).because("PoolNotActive"));
    }
    Ok(info.available)
}

fn not_given_to_guests(connect: &Libvirt) -> Answer<u64> {
    let seen = |fault| refused("look at the memory of the guests", &fault);
    let node = rpc("virNodeGetInfo", "", || connect.node_info()).map_err(seen)?;
    let active = sys::VIR_CONNECT_LIST_DOMAINS_ACTIVE;
    let guests = rpc("virConnectListAllDomains", "", || {
        connect.list_all_domains(active)
    });
    // One that ends meanwhile has given its memory back.
    let held = guests
        .map_err(seen)?
        .iter()
        .filter_map(|guest| rpc("virDomainGetInfo", "", || guest.info()).ok())
        .fold(0u64, |held, info| held.saturating_add(info.memory));
    Ok(node.memory.saturating_sub(held).saturating_mul(1024))
}

fn full(message: String) -> HostError {
    HostError::new(ErrorClass::QuotaExceeded, message)
}
