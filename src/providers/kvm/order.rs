//! From a request to everything that a host needs to know, or what is wrong with it.

use super::{
    config::{Host, ImageUrl, KvmConfig, MachineType},
    create::Order,
    images::Image,
    seed::Vendor,
};
use crate::config::names::is_dns_label;
use actors::provider::contract::CreateRequest;
use std::{fmt::Display, sync::Arc};

/// The config, as far as orders are made of it.
pub struct Orders {
    config: KvmConfig,
    installation: String,
    vendor: Arc<Vendor>,
}

impl Orders {
    /// Orders by this config.
    #[must_use]
    pub fn new(config: KvmConfig, installation: &str) -> Self {
        let vendor = Vendor {
            install_guest_agent: config.install_guest_agent,
            document: config.vendor_data.clone(),
        };
        Self {
            config,
            installation: installation.to_owned(),
            vendor: Arc::new(vendor),
        }
    }

    /// What to make of `request`.
    ///
    /// # Errors
    /// What no retry can mend, as `field value: why`.
    pub fn order(&self, request: &CreateRequest) -> Result<Order, String> {
        let name = &request.name;
        if !is_dns_label(name) {
            return Err(format!("name {name:?}: not a DNS label"));
        }
        for (field, value) in [
            ("uid", &request.uid),
            ("installation", &request.installation),
        ] {
            if value.is_empty() || value.chars().any(char::is_control) {
                return Err(format!(
                    "{field} {value:?}: missing, or no text of one line"
                ));
            }
        }
        if request.installation != self.installation {
            let (theirs, ours) = (&request.installation, &self.installation);
            return Err(format!("installation {theirs:?}: this one is {ours:?}"));
        }
        let placement = &request.placement;
        Ok(Order {
            name: name.clone(),
            uid: request.uid.clone(),
            installation: request.installation.clone(),
            machine: self.machine(placement.machine_type.as_deref())?,
            image: self.image(placement.image.as_deref())?,
            disk: u64::from(self.config.disk_size_gb.get()) << 30,
            host: self.host(placement.zone.as_deref())?.clone(),
            user_data: request.user_data.clone(),
            vendor: Arc::clone(&self.vendor),
        })
    }

    fn host(&self, zone: Option<&str>) -> Result<&Host, String> {
        let hosts = &self.config.hosts;
        let known = || known(hosts.iter().map(|host| &host.name));
        match (zone, &**hosts) {
            (None, [only]) => Ok(only),
            (None, _) => Err(format!(
                "spec.placement.zone: missing; it names the host, one of {}",
                known()
            )),
            (Some(zone), _) => self.config.host(zone).ok_or_else(|| {
                let known = known();
                format!("spec.placement.zone {zone:?}: no such host; known: {known}")
            }),
        }
    }

    fn machine(&self, name: Option<&str>) -> Result<MachineType, String> {
        let types = &self.config.machine_types;
        let known = || known(types.keys());
        let Some(name) = name else {
            let known = known();
            return Err(format!(
                "spec.placement.machineType: missing; one of {known}"
            ));
        };
        let found = types.iter().find(|(key, _)| key.as_str() == name);
        found.map(|(_, machine)| *machine).ok_or_else(|| {
            let known = known();
            format!("spec.placement.machineType {name:?}: no such machine type; known: {known}")
        })
    }

    fn image(&self, name: Option<&str>) -> Result<Image, String> {
        let images = &self.config.images;
        let known = || known(images.keys());
        let Some(name) = name else {
            let known = known();
            return Err(format!(
                "spec.placement.image: missing; an http(s) URL or one of {known}"
            ));
        };
        if let Some((key, image)) = images.iter().find(|(key, _)| key.as_str() == name) {
            return Ok(Image::configured(key, image));
        }
        if name.contains("://") {
            let url = name.parse::<ImageUrl>();
            return url
                .map(Image::at)
                .map_err(|why| format!("spec.placement.image: {why}"));
        }
        let known = known();
        Err(format!(
            "spec.placement.image {name:?}: no such image, and no http(s) URL; known: {known}"
        ))
    }
}

fn known(names: impl Iterator<Item = impl Display>) -> String {
    let names: Vec<_> = names.map(|name| name.to_string()).collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    names.join(", ")
}
