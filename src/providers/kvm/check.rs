//! How a host is: whether libvirt answers, and whether the pool is there and running.

use super::{
    classify::{is, refused},
    error::{HostError, Stage},
    libvirt::{Libvirt, Line, rpc},
    link::{Answer, HostSession},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use virt::sys;

/// How long a check waits for a connection, and for its answers.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What a check found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether the host may be used.
    pub ready: bool,
    /// Why, or why not.
    pub reason: &'static str,
    /// For a person.
    pub message: String,
    /// What was seen.
    pub details: BTreeMap<String, String>,
}

/// One sign of life from libvirt.
///
/// # Errors
/// Why there was none.
pub async fn ping(line: &Line) -> Answer<()> {
    let hostname = |connect: &Libvirt| {
        rpc("virConnectGetHostname", "", || connect.hostname())
            .map_err(|fault| refused("ask for the host name", &fault))
    };
    line.run(super::libvirt::RPC, hostname).await.map(drop)
}

/// Looks at the host.
///
/// # Errors
/// When libvirt does not answer.
pub async fn run(session: &HostSession) -> Answer<Report> {
    let settings = Arc::clone(&session.settings);
    let look = move |connect: &Libvirt| {
        let seen = |what: &'static str| move |fault| refused(what, &fault);
        let version = rpc("virConnectGetLibVersion", "", || connect.lib_version())
            .map_err(seen("ask for libvirt's version"))?;
        let hostname = rpc("virConnectGetHostname", "", || connect.hostname())
            .map_err(seen("ask for the host name"))?;
        let free = rpc("virNodeGetFreeMemory", "", || connect.free_memory())
            .map_err(seen("look at the free memory"))?;
        let mut details = BTreeMap::from(
            [
                ("user", settings.target.user.clone()),
                ("hostname", hostname),
                ("libvirtVersion", dotted(version)),
                ("pool", settings.pool.clone()),
                ("memoryFree", gib(free)),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        let (reason, message) = pool(connect, &settings.pool, &mut details)?;
        Ok(Report {
            ready: reason == "Reachable",
            reason,
            message,
            details,
        })
    };
    session.quick.run(PATIENCE, look).await
}

fn pool(
    connect: &Libvirt,
    name: &str,
    details: &mut BTreeMap<String, String>,
) -> Answer<(&'static str, String)> {
    let found = rpc("virStoragePoolLookupByName", name, || {
        connect.lookup_storage_pool_by_name(name)
    });
    let pool = match found {
        Err(fault) if is(&fault, sys::VIR_ERR_NO_STORAGE_POOL) => {
            return Ok(("PoolNotFound", format!("there is no pool {name}")));
        }
        found => found.map_err(|fault| refused(format!("look up pool {name}"), &fault))?,
    };
    let info = rpc("virStoragePoolGetInfo", name, || pool.info())
        .map_err(|fault| refused(format!("look at pool {name}"), &fault))?;
    let state = match info.state {
        sys::VIR_STORAGE_POOL_INACTIVE => "inactive",
        sys::VIR_STORAGE_POOL_BUILDING => "building",
        sys::VIR_STORAGE_POOL_RUNNING => "running",
        sys::VIR_STORAGE_POOL_DEGRADED => "degraded",
        sys::VIR_STORAGE_POOL_INACCESSIBLE => "inaccessible",
        _ => "unknown",
    };
    details.extend(
        [
            ("poolState", state.to_owned()),
            ("poolCapacity", gib(info.capacity)),
            ("poolAvailable", gib(info.available)),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    Ok(if info.state == sys::VIR_STORAGE_POOL_RUNNING {
        ("Reachable", "libvirt answers and the pool runs".to_owned())
    } else {
        ("PoolNotActive", format!("pool {name} is {state}"))
    })
}

/// The reason of a check that got no answer.
#[must_use]
pub fn reason(error: &HostError) -> &'static str {
    error.reason.unwrap_or(match error.stage {
        Some(Stage::SshMaterial) => "SSHMaterialUnavailable",
        Some(Stage::Tcp) => "Unreachable",
        Some(Stage::SshHandshake) => "SSHHandshakeFailed",
        Some(Stage::LibvirtConnect) => "LibvirtConnectFailed",
        None => "LibvirtError",
    })
}

/// libvirt packs its version as 1 000 000 a major, 1 000 a minor.
fn dotted(version: u32) -> String {
    let (major, minor, micro) = (
        version / 1_000_000,
        version / 1_000 % 1_000,
        version % 1_000,
    );
    format!("{major}.{minor}.{micro}")
}

fn gib(bytes: u64) -> String {
    let tenths = bytes / (1 << 30) * 10 + bytes % (1 << 30) * 10 / (1 << 30);
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_as_people_read_them() {
        assert_eq!(dotted(9_000_000), "9.0.0");
        assert_eq!(dotted(11_006_002), "11.6.2");
        assert_eq!(gib(0), "0.0 GiB");
        assert_eq!(gib(3 << 29), "1.5 GiB");
        assert_eq!(gib((10 << 30) - 1), "9.9 GiB");
    }
}
