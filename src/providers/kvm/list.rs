//! Everything of this installation on a host.

use super::{
    classify::refused,
    create::marks,
    get::{id, instance},
    images,
    libvirt::{Libvirt, RPC, rpc},
    link::{Answer, HostSession},
    volume,
};
use actors::provider::contract::{Instance, InstanceState};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use virt::domain::Domain;

/// The domains that carry this installation's mark, and the volumes that do and have no domain.
///
/// # Errors
/// When the list cannot be vouched for.
pub async fn run(session: &HostSession) -> Answer<Vec<Instance>> {
    let settings = Arc::clone(&session.settings);
    session
        .quick
        .run(2 * RPC, move |connect| {
            let (host, installation) = (&*settings.name, &*settings.installation);
            // Volumes first: of a domain that is defined meanwhile, they would be left over.
            let volumes = owned_volumes(connect, &settings.pool, &settings.mark)?;
            let domains = rpc("virConnectListAllDomains", "", || {
                connect.list_all_domains(0)
            })
            .map_err(|fault| refused("list the domains", &fault))?;
            let mut names = BTreeSet::new();
            let mut found = Vec::new();
            for domain in &domains {
                let Ok(name) = rpc("virDomainGetName", "", || domain.name()) else {
                    continue;
                };
                found.extend(ours(domain, host, &name, installation));
                names.insert(name);
            }
            let left_over = volumes
                .into_iter()
                .filter(|(name, _)| !names.contains(name));
            found.extend(left_over.map(|(name, created_at)| Instance {
                id: id(host, &name),
                ip: None,
                state: InstanceState::Stopped,
                uid: String::new(),
                installation: installation.to_owned(),
                created_at,
                trouble: None,
            }));
            Ok(found)
        })
        .await
}

/// The instance that the domain is, if it is this installation's. One that cannot be read is left out:
/// what is not listed is not collected.
fn ours(domain: &Domain, host: &str, name: &str, installation: &str) -> Option<Instance> {
    let read = marks(domain, name).and_then(|marks| {
        let ours = marks.is_some_and(|marks| marks.installation == installation);
        ours.then(|| instance(domain, host, name)).transpose()
    });
    read.unwrap_or_else(|error| {
        tracing::warn!(host, domain = name, %error, "left out of the list");
        None
    })
}

/// When the newest volume of each name was last written, in seconds since the epoch.
fn owned_volumes(connect: &Libvirt, pool: &str, mark: &str) -> Answer<BTreeMap<String, i64>> {
    let mut found = BTreeMap::new();
    // Where there is no pool there is nothing of ours in it, and the other hosts' orphans need not wait.
    let Some(in_pool) = images::pool_if_any(connect, pool)? else {
        return Ok(found);
    };
    for (file, there) in images::volumes(&in_pool, pool)? {
        let Some(owner) = volume::owner(&file, mark) else {
            continue;
        };
        let Ok(described) = images::describe(&there, &file) else {
            continue;
        };
        let newest = found.entry(owner.to_owned()).or_insert(0);
        *newest = described.modified.unwrap_or_default().max(*newest);
    }
    Ok(found)
}
