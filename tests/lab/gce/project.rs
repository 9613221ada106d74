//! `projects.get` and `regions.get`, with their quotas.

use super::{
    call::Call, clock::written, link, refusal::Refusal, world::World, world::region as region_of,
};
use serde_json::{Value, json};
use std::time::Duration;

/// 2020: before everything else.
const FOUNDED: Duration = Duration::from_hours(438_300);

/// `compute.projects.get`.
pub fn get(world: &World) -> Value {
    let path = format!("projects/{}", world.project);
    json!({
        "kind": "compute#project",
        "id": world.number.to_string(),
        "creationTimestamp": written(FOUNDED),
        "name": world.project,
        "commonInstanceMetadata": { "kind": "compute#metadata", "fingerprint": "AAAAAAAAAAA=" },
        "quotas": [
            { "metric": "FIREWALLS", "limit": 200.0, "usage": to_double(world.firewalls.len()) },
            { "metric": "NETWORKS", "limit": 50.0, "usage": to_double(world.networks.len()) },
        ],
        "selfLink": link(&path),
        "defaultServiceAccount": format!("{}-compute@developer.gserviceaccount.com", world.number),
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
        "defaultNetworkTier": "PREMIUM",
    })
}

/// `compute.regions.get`.
pub fn region(world: &World, call: &Call) -> Result<Value, Refusal> {
    let name = call.path("region");
    let path = format!("projects/{}/regions/{name}", world.project);
    let zones: Vec<Value> = world
        .zones
        .iter()
        .filter(|zone| region_of(zone) == name)
        .map(|zone| link(&format!("projects/{}/zones/{zone}", world.project)).into())
        .collect();
    if zones.is_empty() {
        return Err(Refusal::not_found(&path));
    }
    let quotas: Vec<Value> = world
        .quotas
        .iter()
        .map(|(metric, limit)| {
            json!({ "metric": metric, "limit": limit, "usage": usage(world, name, metric) })
        })
        .collect();
    Ok(json!({
        "kind": "compute#region",
        "id": "1230",
        "creationTimestamp": written(FOUNDED),
        "name": name,
        "description": name,
        "status": "UP",
        "zones": zones,
        "quotas": quotas,
        "selfLink": link(&path),
        "supportsPzs": false,
    }))
}

/// How much of a quota is used in a region.
pub fn usage(world: &World, region: &str, metric: &str) -> f64 {
    let there = world
        .instances
        .values()
        .filter(|instance| region_of(&instance.zone) == region);
    let amounts = there.map(|instance| match metric {
        "INSTANCES" | "CPUS" => 1,
        "DISKS_TOTAL_GB" => 10,
        "IN_USE_ADDRESSES" => usize::from(instance.external.is_some()),
        _ => 0,
    });
    to_double(amounts.sum())
}

fn to_double(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
