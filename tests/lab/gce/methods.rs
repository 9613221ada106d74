//! Which method does what, and the methods of operations.

use super::{
    call::Call, clock::Time, firewall, instances, link, list, operation::Operation, project,
    refusal::Refusal, world::World,
};
use serde_json::{Value, json};

/// Methods that are imitated; all others of the description are refused as a test's failure.
pub const IMITATED: [&str; 18] = [
    "compute.instances.insert",
    "compute.instances.get",
    "compute.instances.delete",
    "compute.instances.stop",
    "compute.instances.list",
    "compute.instances.aggregatedList",
    "compute.zoneOperations.get",
    "compute.zoneOperations.wait",
    "compute.zoneOperations.list",
    "compute.globalOperations.get",
    "compute.globalOperations.wait",
    "compute.firewalls.insert",
    "compute.firewalls.get",
    "compute.firewalls.patch",
    "compute.firewalls.delete",
    "compute.firewalls.list",
    "compute.projects.get",
    "compute.regions.get",
];

/// Does what a request asks for.
///
/// # Errors
/// What Compute Engine refuses.
pub fn perform(world: &mut World, call: &Call, now: Time) -> Result<Value, Refusal> {
    let (project, number) = (call.path("project"), world.number.to_string());
    if project != world.project && project != number {
        return Err(Refusal::not_found(&format!("projects/{project}")));
    }
    world.settle(now);
    match call.method.as_str() {
        "compute.instances.insert" => instances::insert(world, call, now),
        "compute.instances.get" => instances::get(world, call, now),
        "compute.instances.delete" => instances::delete(world, call, now),
        "compute.instances.stop" => instances::stop(world, call, now),
        "compute.instances.list" => list::zonal(world, call, now),
        "compute.instances.aggregatedList" => list::aggregated(world, call, now),
        "compute.zoneOperations.get"
        | "compute.zoneOperations.wait"
        | "compute.globalOperations.get"
        | "compute.globalOperations.wait" => operation(world, call, now),
        "compute.zoneOperations.list" => operations(world, call, now),
        "compute.firewalls.insert" => firewall::insert(world, call, now),
        "compute.firewalls.get" => firewall::get(world, call),
        "compute.firewalls.patch" => firewall::patch(world, call, now),
        "compute.firewalls.delete" => firewall::delete(world, call, now),
        "compute.firewalls.list" => firewall::list(world, call),
        "compute.projects.get" => Ok(project::get(world)),
        "compute.regions.get" => project::region(world, call),
        other => Err(Refusal::new(501, "notImplemented", other)),
    }
}

fn operation(world: &World, call: &Call, now: Time) -> Result<Value, Refusal> {
    let (zone, name) = (call.path("zone"), call.path("operation"));
    let zone = (!zone.is_empty()).then_some(zone);
    if let Some(zone) = zone {
        world.zone(zone)?;
    }
    let scope = zone.map_or("global".into(), |zone| format!("zones/{zone}"));
    let path = format!("projects/{}/{scope}/operations/{name}", world.project);
    let found = world.operation(zone, name);
    let found = found.map(|one| one.resource(&world.project, now));
    found.ok_or_else(|| Refusal::not_found(&path))
}

/// The newest of a zone; always one page.
fn operations(world: &World, call: &Call, now: Time) -> Result<Value, Refusal> {
    let zone = call.path("zone");
    world.zone(zone)?;
    for unlike in ["filter", "orderBy", "pageToken"] {
        if let Some(value) = call.query(unlike) {
            return Err(Refusal::invalid(unlike, value, "This is not imitated."));
        }
    }
    let mut all: Vec<&Operation> = world.operations(Some(zone)).collect();
    all.reverse();
    all.truncate(500);
    let path = format!("projects/{}/zones/{zone}/operations", world.project);
    let mut answer = json!({
        "kind": "compute#operationList", "id": path, "selfLink": link(&path),
    });
    if !all.is_empty() {
        let items = all.iter().map(|one| one.resource(&world.project, now));
        answer["items"] = items.collect();
    }
    Ok(answer)
}
