//! The methods of `instances` that are about one: insert, get, delete and stop.

use super::{
    call::Call,
    clock::Time,
    instance::{Instance, Made},
    life::Life,
    operation::Failure,
    refusal::Refusal,
    rules,
    schema::matches,
    world::{Change, World, region},
};
use serde_json::{Map, Value};

/// `compute.instances.insert`.
pub fn insert(world: &mut World, call: &Call, now: Time) -> Result<Value, Refusal> {
    let request_id = call.query("requestId");
    if let Some(operation) = world.repeated(&call.repeat_key(), request_id)? {
        return Ok(operation.resource(&world.project, now));
    }
    let zone = call.path("zone");
    world.zone(zone)?;
    let body = call.body.as_object().cloned().unwrap_or_default();
    check(world, zone, &body)?;
    let name = body["name"].as_str().unwrap_or("");
    let target = Instance::path(&world.project, zone, name);
    let key = (zone.to_owned(), name.to_owned());
    if world.instances.contains_key(&key) {
        return Err(Refusal::already_exists(&target));
    }
    let failure = world
        .next_failure(&target)
        .or_else(|| over_quota(world, zone));
    let outside = body["networkInterfaces"][0]["accessConfigs"].as_array();
    let external = outside
        .is_some_and(|one| !one.is_empty())
        .then(|| world.addresses.take());
    let made = Made {
        id: world.next_id(),
        internal: world.addresses.take(),
        external,
        created: now,
        life: match failure {
            Some(_) => Life::stillborn(now, &world.pace),
            None => Life::begin(now, &world.pace),
        },
    };
    let target_id = made.id;
    let instance = Instance::new(&world.project, zone, body, made);
    world.instances.insert(key, instance);
    let change = Change {
        kind: "insert",
        zone: Some(zone),
        target,
        target_id,
        request_id,
        user: &call.user,
        failure,
    };
    let operation = world.begin(&call.repeat_key(), change, now);
    Ok(operation.resource(&world.project, now))
}

/// `compute.instances.get`.
pub fn get(world: &World, call: &Call, now: Time) -> Result<Value, Refusal> {
    let instance = find(world, call, now)?;
    Ok(instance.resource(&world.project, now))
}

/// `compute.instances.delete`.
pub fn delete(world: &mut World, call: &Call, now: Time) -> Result<Value, Refusal> {
    end(world, call, now, "delete")
}

/// `compute.instances.stop`.
pub fn stop(world: &mut World, call: &Call, now: Time) -> Result<Value, Refusal> {
    end(world, call, now, "stop")
}

fn end(world: &mut World, call: &Call, now: Time, kind: &str) -> Result<Value, Refusal> {
    let request_id = call.query("requestId");
    if let Some(operation) = world.repeated(&call.repeat_key(), request_id)? {
        return Ok(operation.resource(&world.project, now));
    }
    let found = find(world, call, now)?;
    let (id, ending) = (found.id, found.life.is_ending());
    let key = (found.zone.clone(), found.name.clone());
    let target = Instance::path(&world.project, &key.0, &key.1);
    if ending && (kind == "stop" || world.refuse_second_delete) {
        let message = format!("The resource '{target}' is not ready");
        return Err(Refusal::new(400, "resourceNotReady", message));
    }
    let failure = world.next_failure(&target);
    let pace = world.pace;
    if let (None, false, Some(instance)) = (&failure, ending, world.instances.get_mut(&key)) {
        match kind {
            "delete" => instance.life.delete(now, &pace),
            _ => instance.life.stop(now, &pace),
        }
    }
    let change = Change {
        kind,
        zone: Some(&key.0),
        target,
        target_id: id,
        request_id,
        user: &call.user,
        failure,
    };
    let operation = world.begin(&call.repeat_key(), change, now);
    Ok(operation.resource(&world.project, now))
}

/// The instance that a path names, by its name or its number.
fn find<'w>(world: &'w World, call: &Call, now: Time) -> Result<&'w Instance, Refusal> {
    let (zone, name) = (call.path("zone"), call.path("instance"));
    world.zone(zone)?;
    let key = (zone.to_owned(), name.to_owned());
    let by_number = || {
        let id = name.parse::<u64>().ok()?;
        world
            .instances
            .values()
            .find(|one| one.id == id && one.zone == zone)
    };
    let found = world.instances.get(&key).or_else(by_number);
    found
        .filter(|instance| instance.life.is_there(now))
        .ok_or_else(|| Refusal::not_found(&Instance::path(&world.project, zone, name)))
}

/// What Google demands of a new instance beyond the types of its fields.
fn check(world: &World, zone: &str, body: &Map<String, Value>) -> Result<(), Refusal> {
    let part = |field: &str| body.get(field).cloned().unwrap_or_default();
    rules::labels(&part("labels"))?;
    rules::metadata(&part("metadata"))?;
    rules::tags(&part("tags"))?;
    machine_type(zone, part("machineType").as_str().unwrap_or(""))?;
    let disks = part("disks");
    let Some(boot) = disks
        .as_array()
        .into_iter()
        .flatten()
        .find(|disk| disk["boot"] == true)
    else {
        let why = "No disks are specified, or none of them is a boot disk.";
        return Err(Refusal::invalid("resource.disks", "", why));
    };
    image(world, boot)?;
    let nics = part("networkInterfaces");
    let Some(nic) = nics.get(0) else {
        let why = "At least one network interface is required.";
        return Err(Refusal::invalid("resource.networkInterfaces", "", why));
    };
    network(world, nic)
}

fn machine_type(zone: &str, url: &str) -> Result<(), Refusal> {
    const FIELD: &str = "resource.machineType";
    if url.is_empty() {
        return Err(Refusal::required(FIELD));
    }
    let Some((_, path)) = url.rsplit_once("zones/") else {
        return Err(Refusal::invalid(FIELD, url, "The URL is malformed."));
    };
    let Some((of, name)) = path.split_once("/machineTypes/") else {
        return Err(Refusal::invalid(FIELD, url, "The URL is malformed."));
    };
    let known = "[a-z][0-9][a-z]?-(?:micro|small|medium|standard|highmem|highcpu|custom)[-0-9a-z]*";
    if of != zone || !matches(known, name) {
        let why = format!("Machine type with name '{name}' does not exist in zone '{zone}'.");
        return Err(Refusal::invalid(FIELD, url, &why));
    }
    Ok(())
}

fn image(world: &World, boot: &Value) -> Result<(), Refusal> {
    const FIELD: &str = "resource.disks[0].initializeParams.sourceImage";
    let params = &boot["initializeParams"];
    if boot["source"].is_string() {
        return Ok(());
    }
    let url = params["sourceImage"].as_str().unwrap_or("");
    let path = url.rsplit_once("compute/v1/").map_or(url, |(_, path)| path);
    let form = "(?:projects/[^/]+/)?global/images/(?:family/)?[a-z0-9][-_a-z0-9]*";
    if !matches(form, path) {
        let why = "The referenced image resource cannot be found or the URL is malformed.";
        return Err(Refusal::invalid(FIELD, url, why));
    }
    if world.missing_images.contains(path) {
        return Err(Refusal::not_found(path));
    }
    let size = params["diskSizeGb"].as_str().unwrap_or("10");
    if !size.parse::<u64>().is_ok_and(|size| size >= 10) {
        let why = "Requested disk size cannot be smaller than the image size (10 GB)";
        return Err(Refusal::invalid(
            "resource.disks[0].initializeParams.diskSizeGb",
            size,
            why,
        ));
    }
    Ok(())
}

fn network(world: &World, nic: &Value) -> Result<(), Refusal> {
    let url = nic["network"].as_str().unwrap_or("global/networks/default");
    let Some((_, name)) = url.rsplit_once("global/networks/") else {
        let field = "resource.networkInterfaces[0].network";
        return Err(Refusal::invalid(field, url, "The URL is malformed."));
    };
    if !world.networks.contains(name) {
        let path = format!("projects/{}/global/networks/{name}", world.project);
        return Err(Refusal::not_found(&path));
    }
    Ok(())
}

/// A region that is full takes the request and fails it afterwards.
fn over_quota(world: &World, zone: &str) -> Option<Failure> {
    let region = region(zone);
    let used = |metric: &str| super::project::usage(world, region, metric);
    let full = |(metric, limit): &(&String, &f64)| used(metric) + 1.0 > **limit;
    let (metric, limit) = world.quotas.iter().find(full)?;
    Some(Failure::quota(metric, *limit, region))
}
