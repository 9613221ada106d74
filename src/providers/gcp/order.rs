//! What a VM is made of, and whether it can be made at all.

use super::{config::GcpConfig, id::VmId, names};
use crate::providers::{INSTALLATION_MARK, MANAGED_MARK, UID_MARK};
use actors::provider::contract::{CreateRequest, UserData};
use google_cloud_compute_v1::model::{
    AccessConfig, AttachedDisk, AttachedDiskInitializeParams, Instance, Metadata, NetworkInterface,
    Tags, access_config, metadata::Items,
};

/// The most that Compute Engine takes as one value of metadata, in bytes.
const LARGEST_VALUE: usize = 256 << 10;

/// A VM that can be asked for.
#[derive(Debug)]
pub(super) struct Order {
    pub id: VmId,
    pub vm: Instance,
}

/// What is to be asked for, or what no retry can mend, as `field value: why`.
pub(super) fn order(request: &CreateRequest, config: &GcpConfig) -> Result<Order, String> {
    let placement = &request.placement;
    let zone = field("placement.zone", placement.zone.as_deref())?;
    let machine_type = field("placement.machineType", placement.machine_type.as_deref())?;
    let image = field("placement.image", placement.image.as_deref())?;
    let name = request.name.as_str();
    let like = "a lower-case letter, then up to 62 of a-z, 0-9 and '-'";
    for (field, value) in [
        ("placement.zone", zone),
        ("placement.machineType", machine_type),
        ("name", name),
    ] {
        if !names::is_name(value) {
            return Err(format!(
                "{field} {value:?}: not a name of Google's ({like})"
            ));
        }
    }
    if !names::is_image(image) {
        return Err(format!(
            "placement.image {image:?}: not an image; write projects/<project>/global/images/<name>, or …/images/family/<family>"
        ));
    }
    for (field, value) in [
        ("uid", &request.uid),
        ("installation", &request.installation),
    ] {
        if value.is_empty() || !names::is_label_value(value) {
            return Err(format!(
                "{field} {value:?}: Google takes no such label (1 to 63 of a-z, 0-9, '_' and '-')"
            ));
        }
    }
    if request.port == 0 {
        return Err("port 0: must be 1 to 65535".to_owned());
    }
    let mut vm = Instance::new()
        .set_name(name)
        .set_description(description(request))
        .set_machine_type(format!("zones/{zone}/machineTypes/{machine_type}"))
        .set_labels(marks(request))
        .set_tags(Tags::new().set_items([config.network_tag.as_str()]))
        .set_network_interfaces([interface(config)])
        .set_disks([disk(image, config)]);
    if let Some(user_data) = &request.user_data {
        vm = vm.set_metadata(Metadata::new().set_items(items(user_data)?));
    }
    Ok(Order {
        id: VmId {
            zone: zone.to_owned(),
            name: name.to_owned(),
        },
        vm,
    })
}

fn field<'a>(name: &str, value: Option<&'a str>) -> Result<&'a str, String> {
    let value = value.unwrap_or_default();
    if value.is_empty() {
        return Err(format!("{name} \"\": missing; the gcp provider needs it"));
    }
    Ok(value)
}

/// For people only. Namespace and name may be longer than a label, and hold dots.
fn description(request: &CreateRequest) -> String {
    let (namespace, name) = (&request.namespace, &request.proxy_name);
    format!("Proxy {namespace}/{name} of proxy-operator")
}

fn marks(request: &CreateRequest) -> [(&'static str, &str); 3] {
    [
        (MANAGED_MARK, "true"),
        (UID_MARK, &request.uid),
        (INSTALLATION_MARK, &request.installation),
    ]
}

fn interface(config: &GcpConfig) -> NetworkInterface {
    let interface = NetworkInterface::new().set_network(config.network.as_str());
    if config.internal_ip {
        return interface;
    }
    interface.set_access_configs([AccessConfig::new()
        .set_name("External NAT")
        .set_type(access_config::Type::OneToOneNat)])
}

fn disk(image: &str, config: &GcpConfig) -> AttachedDisk {
    let from = AttachedDiskInitializeParams::new()
        .set_source_image(image)
        .set_disk_size_gb(config.disk_size_gb.get());
    AttachedDisk::new()
        .set_boot(true)
        .set_auto_delete(true)
        .set_initialize_params(from)
}

/// The user-data as cloud-init looks for it. What is no text comes encoded, and with a word about it.
fn items(user_data: &UserData) -> Result<Vec<Items>, String> {
    let item = |key: &str, value: &str| Items::new().set_key(key).set_value(value);
    let items = if let Ok(text) = std::str::from_utf8(user_data.bytes()) {
        vec![item("user-data", text)]
    } else {
        let text = data_encoding::BASE64.encode(user_data.bytes());
        vec![
            item("user-data", &text),
            item("user-data-encoding", "base64"),
        ]
    };
    let size = items[0].value.as_ref().map_or(0, String::len);
    if size > LARGEST_VALUE {
        let encoded = if items.len() > 1 { " in base64" } else { "" };
        return Err(format!(
            "cloudInit of {size} bytes{encoded}: Google takes at most {LARGEST_VALUE}"
        ));
    }
    Ok(items)
}

#[cfg(test)]
mod tests;
