//! Deleting: the domain first, since it holds the volumes open; each step may find its work done.

use super::{
    classify::{is, unless_absent},
    create::{look_up, marks},
    error::HostError,
    images,
    libvirt::{Libvirt, RPC, START_STOP, rpc},
    link::{Answer, HostSession},
    volume,
};
use actors::provider::contract::ErrorClass;
use std::sync::Arc;
use virt::{storage_vol::StorageVol, sys};

/// All that goes with a domain beside its volumes.
const EVERYTHING: u32 = sys::VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | sys::VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | sys::VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | sys::VIR_DOMAIN_UNDEFINE_NVRAM;

/// Removes the domain `name` and its volumes.
///
/// # Errors
/// `AdoptionConflict` when the domain is not this installation's: nothing is touched then.
pub async fn run(session: &HostSession, name: String) -> Answer<()> {
    let settings = Arc::clone(&session.settings);
    session
        .slow
        .run(START_STOP + RPC, move |connect| {
            undefine(connect, &name, &settings.installation)?;
            volumes(connect, &settings.pool, &name, &settings.mark)
        })
        .await
}

fn undefine(connect: &Libvirt, name: &str, installation: &str) -> Answer<()> {
    let Some(domain) = look_up(connect, name)? else {
        return Ok(());
    };
    let ours = marks(&domain, name)?.is_some_and(|marks| marks.installation == installation);
    if !ours {
        let message = format!("domain {name} is not this installation's and is left alone");
        return Err(HostError::new(ErrorClass::AdoptionConflict, message));
    }
    connect.may_act()?;
    match rpc("virDomainDestroy", name, || domain.destroy()) {
        Err(fault) if !is(&fault, sys::VIR_ERR_OPERATION_INVALID) => {
            unless_absent(format!("stop domain {name}"), Err::<(), _>(fault))?;
        }
        _ => {}
    }
    connect.may_act()?;
    let undefined = rpc("virDomainUndefineFlags", name, || {
        domain.undefine_flags(EVERYTHING)
    });
    unless_absent(format!("undefine domain {name}"), undefined)?;
    Ok(())
}

fn volumes(connect: &Libvirt, pool: &str, name: &str, mark: &str) -> Answer<()> {
    for (volume, there) in volumes_of(connect, pool, name, mark)? {
        images::delete(connect, &there, &volume)?;
    }
    Ok(())
}

/// The volumes of the domain `name` that are there, whether or not it is. Where there is no pool, there
/// are none.
///
/// # Errors
/// When libvirt cannot tell.
pub fn volumes_of(
    connect: &Libvirt,
    pool: &str,
    name: &str,
    mark: &str,
) -> Answer<Vec<(String, StorageVol)>> {
    let Some(in_pool) = images::pool_if_any(connect, pool)? else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for volume in [
        volume::overlay_name(name, mark),
        volume::seed_name(name, mark),
    ] {
        if let Some(there) = images::volume(&in_pool, &volume)? {
            all.push((volume, there));
        }
    }
    Ok(all)
}
