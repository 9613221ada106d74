//! Instances: what an insert makes, and how one looks.

use super::{
    clock::{Time, written},
    fingerprint,
    life::Life,
    link,
};
use serde_json::{Map, Value, json};
use std::net::Ipv4Addr;

/// An instance on record.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its number.
    pub id: u64,
    /// The zone's name.
    pub zone: String,
    /// Its own name.
    pub name: String,
    /// What was asked for, with what never changes filled in.
    given: Map<String, Value>,
    /// Its address in the network.
    pub internal: Ipv4Addr,
    /// Its address outside, if it was asked for.
    pub external: Option<Ipv4Addr>,
    /// When it was accepted.
    pub created: Time,
    /// What becomes of it.
    pub life: Life,
}

/// What an instance is made with beside the request.
pub struct Made {
    /// Its number.
    pub id: u64,
    /// Its address in the network.
    pub internal: Ipv4Addr,
    /// Its address outside, if it was asked for.
    pub external: Option<Ipv4Addr>,
    /// When it was accepted.
    pub created: Time,
    /// What becomes of it.
    pub life: Life,
}

impl Instance {
    /// One of `zone` as `body` asks for it.
    pub fn new(project: &str, zone: &str, mut body: Map<String, Value>, made: Made) -> Self {
        let name = body["name"].as_str().unwrap_or("").to_owned();
        body.retain(|_, value| !value.is_null());
        let scope = format!("projects/{project}/zones/{zone}");
        let machine = format!("{scope}/{}", last(&body, "machineType", "machineTypes"));
        body.insert("machineType".into(), link(&machine).into());
        disks(&mut body, &scope, &name);
        marks(&mut body);
        network(&mut body, project, zone);
        body.entry("scheduling").or_insert_with(|| {
            json!({
                "onHostMaintenance": "MIGRATE", "automaticRestart": true,
                "preemptible": false, "provisioningModel": "STANDARD",
            })
        });
        for (field, value) in [("canIpForward", false), ("deletionProtection", false)] {
            body.entry(field).or_insert(value.into());
        }
        Self {
            id: made.id,
            zone: zone.to_owned(),
            name,
            given: body,
            internal: made.internal,
            external: made.external,
            created: made.created,
            life: made.life,
        }
    }

    /// `projects/p/zones/z/instances/i`.
    pub fn path(project: &str, zone: &str, name: &str) -> String {
        format!("projects/{project}/zones/{zone}/instances/{name}")
    }

    /// The value of one of its labels.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.given.get("labels")?[key].as_str()
    }

    /// The value of one item of its metadata.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        let items = self.given.get("metadata")?["items"].as_array()?;
        let item = items.iter().find(|item| item["key"] == key)?;
        item["value"].as_str()
    }

    /// Changes what was asked for, behind everybody's back.
    pub fn given_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.given
    }

    /// As a resource.
    pub fn resource(&self, project: &str, now: Time) -> Value {
        let mut resource = self.given.clone();
        let path = Self::path(project, &self.zone, &self.name);
        let zone = format!("projects/{project}/zones/{}", self.zone);
        let status = self.life.status(now);
        let mut put = |field: &str, value: Value| resource.insert(field.to_owned(), value);
        put("kind", "compute#instance".into());
        put("id", self.id.to_string().into());
        put("creationTimestamp", written(self.created).into());
        put("name", self.name.clone().into());
        put("zone", link(&zone).into());
        put("selfLink", link(&path).into());
        put("status", status.into());
        put("cpuPlatform", "Intel Broadwell".into());
        put("startRestricted", false.into());
        let stamp = format!("{path}{status}{:?}", self.given.get("labels"));
        put("fingerprint", fingerprint(stamp.as_bytes()).into());
        if let Some(started) = self.life.started(now) {
            put("lastStartTimestamp", written(started).into());
        }
        if let Some(nic) = resource
            .get_mut("networkInterfaces")
            .and_then(|nics| nics.get_mut(0))
        {
            nic["networkIP"] = self.internal.to_string().into();
            if let (Some(address), true) = (self.external, self.life.has_address(now)) {
                nic["accessConfigs"][0]["natIP"] = address.to_string().into();
            }
        }
        Value::Object(resource)
    }
}

/// The last segment of a URL in `field`, below `kind`: `machineTypes/e2-small`.
fn last(body: &Map<String, Value>, field: &str, kind: &str) -> String {
    let url = body.get(field).and_then(Value::as_str).unwrap_or("");
    let name = url.rsplit('/').next().unwrap_or("");
    format!("{kind}/{name}")
}

fn disks(body: &mut Map<String, Value>, scope: &str, name: &str) {
    let Some(Value::Array(disks)) = body.get_mut("disks") else {
        return;
    };
    for (index, disk) in disks.iter_mut().enumerate() {
        let size = disk["initializeParams"]["diskSizeGb"].clone();
        let size = size.as_str().unwrap_or("10").to_owned();
        let suffix = if index == 0 {
            String::new()
        } else {
            format!("-{index}")
        };
        *disk = json!({
            "kind": "compute#attachedDisk",
            "type": "PERSISTENT",
            "mode": "READ_WRITE",
            "source": link(&format!("{scope}/disks/{name}{suffix}")),
            "deviceName": format!("persistent-disk-{index}"),
            "index": index,
            "boot": disk["boot"].as_bool().unwrap_or(false),
            "autoDelete": disk["autoDelete"].as_bool().unwrap_or(false),
            "interface": "SCSI",
            "diskSizeGb": size,
        });
    }
}

fn marks(body: &mut Map<String, Value>) {
    let labels = body.get("labels").map(Value::to_string);
    let stamp = fingerprint(labels.unwrap_or_default().as_bytes());
    body.insert("labelFingerprint".into(), stamp.into());
    let metadata = body.entry("metadata").or_insert_with(|| json!({}));
    let stamp = fingerprint(metadata["items"].to_string().as_bytes());
    metadata["kind"] = "compute#metadata".into();
    metadata["fingerprint"] = stamp.into();
    let tags = body.entry("tags").or_insert_with(|| json!({}));
    let stamp = fingerprint(tags["items"].to_string().as_bytes());
    tags["fingerprint"] = stamp.into();
    for fields in [&mut *tags].into_iter().filter_map(Value::as_object_mut) {
        fields.retain(|_, value| !value.is_null());
    }
    if let Some(fields) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        fields.retain(|_, value| !value.is_null());
    }
}

fn network(body: &mut Map<String, Value>, project: &str, zone: &str) {
    let region = super::world::region(zone);
    let Some(Value::Array(nics)) = body.get_mut("networkInterfaces") else {
        return;
    };
    for (index, nic) in nics.iter_mut().enumerate() {
        let given = nic["network"].as_str().unwrap_or("default");
        let name = given.rsplit('/').next().unwrap_or("default").to_owned();
        nic["network"] = link(&format!("projects/{project}/global/networks/{name}")).into();
        if nic["subnetwork"].is_null() {
            let path = format!("projects/{project}/regions/{region}/subnetworks/{name}");
            nic["subnetwork"] = link(&path).into();
        }
        nic["kind"] = "compute#networkInterface".into();
        nic["name"] = format!("nic{index}").into();
        nic["stackType"] = "IPV4_ONLY".into();
        nic["fingerprint"] = fingerprint(name.as_bytes()).into();
        for access in nic["accessConfigs"].as_array_mut().into_iter().flatten() {
            access["kind"] = "compute#accessConfig".into();
            for (field, value) in [
                ("type", "ONE_TO_ONE_NAT"),
                ("name", "External NAT"),
                ("networkTier", "PREMIUM"),
            ] {
                if access[field].is_null() {
                    access[field] = value.into();
                }
            }
        }
        if let Some(fields) = nic.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
}
