//! What Compute Engine says about a VM, in the provider-neutral words.

use super::id::VmId;
use crate::providers::{INSTALLATION_MARK, MANAGED_MARK, UID_MARK};
use actors::provider::contract::{Instance, InstanceState};
use google_cloud_compute_v1::model::{self, instance::Status};
use k8s_openapi::jiff::Timestamp;
use std::net::IpAddr;

/// The instance that the VM is. With `internal` its address is the one inside of its network.
#[must_use]
pub fn instance(id: &VmId, vm: &model::Instance, internal: bool) -> Instance {
    let ip = address(vm, internal);
    let mark = |name| vm.labels.get(name).cloned().unwrap_or_default();
    let created = vm.creation_timestamp.as_deref();
    let created = created.and_then(|at| at.parse::<Timestamp>().ok());
    Instance {
        id: id.to_string(),
        ip,
        state: state(vm.status.as_ref(), ip.is_some()),
        uid: mark(UID_MARK),
        installation: mark(INSTALLATION_MARK),
        created_at: created.map_or(0, Timestamp::as_second),
        trouble: None,
    }
}

/// Whether the VM carries the marks of this installation.
#[must_use]
pub fn is_of(vm: &model::Instance, installation: &str) -> bool {
    let mark = |name| vm.labels.get(name).map(String::as_str);
    mark(MANAGED_MARK) == Some("true") && mark(INSTALLATION_MARK) == Some(installation)
}

/// Whether the VM is on its way down. Whoever deletes one sees this until it is gone.
#[must_use]
pub fn is_stopping(vm: &model::Instance) -> bool {
    matches!(
        vm.status,
        Some(Status::Stopping | Status::PendingStop | Status::Deprovisioning)
    )
}

fn address(vm: &model::Instance, internal: bool) -> Option<IpAddr> {
    let text = |nic: &model::NetworkInterface| {
        if internal {
            return nic.network_ip.clone();
        }
        nic.access_configs.iter().find_map(|way| way.nat_ip.clone())
    };
    let mut texts = vm.network_interfaces.iter().filter_map(text);
    // Google has been seen to say "" for none yet.
    texts.find_map(|text| text.parse().ok())
}

fn state(status: Option<&Status>, has_address: bool) -> InstanceState {
    match status {
        Some(Status::Running) if has_address => InstanceState::Running,
        // Without a status nobody could tell.
        None
        | Some(Status::Provisioning | Status::Staging | Status::Repairing | Status::Running) => {
            InstanceState::Provisioning
        }
        Some(Status::Terminated) => InstanceState::Terminated,
        Some(_) => InstanceState::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn vm(parts: Value) -> model::Instance {
        serde_json::from_value(parts).expect("an instance")
    }

    fn id() -> VmId {
        VmId {
            zone: "z".to_owned(),
            name: "proxy-x".to_owned(),
        }
    }

    #[test]
    fn every_status_has_its_state() {
        use InstanceState::{Provisioning, Running, Stopped, Terminated};
        for (status, without, with) in [
            ("PROVISIONING", Provisioning, Provisioning),
            ("STAGING", Provisioning, Provisioning),
            ("REPAIRING", Provisioning, Provisioning),
            ("RUNNING", Provisioning, Running),
            ("STOPPING", Stopped, Stopped),
            ("STOPPED", Stopped, Stopped),
            ("SUSPENDING", Stopped, Stopped),
            ("SUSPENDED", Stopped, Stopped),
            ("DEPROVISIONING", Stopped, Stopped),
            ("PENDING_STOP", Stopped, Stopped),
            ("TERMINATED", Terminated, Terminated),
            ("HIBERNATED", Stopped, Stopped),
        ] {
            let nics = json!([{"accessConfigs": [{"natIP": "203.0.113.7"}]}]);
            let bare = vm(json!({"status": status}));
            let addressed = vm(json!({"status": status, "networkInterfaces": nics}));
            assert_eq!(instance(&id(), &bare, false).state, without, "{status}");
            assert_eq!(instance(&id(), &addressed, false).state, with, "{status}");
        }
        assert_eq!(instance(&id(), &vm(json!({})), false).state, Provisioning);
    }

    #[test]
    fn the_address_is_the_one_that_the_config_wants() {
        let both = vm(json!({"status": "RUNNING", "networkInterfaces": [
            {"networkIP": "10.0.0.2", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}, {"natIP": "203.0.113.7"}]},
        ]}));
        let ip = |internal| instance(&id(), &both, internal).ip.map(|ip| ip.to_string());
        assert_eq!(ip(false).as_deref(), Some("203.0.113.7"));
        assert_eq!(ip(true).as_deref(), Some("10.0.0.2"));
        let inside = vm(json!({"status": "RUNNING", "networkInterfaces": [
            {"networkIP": "10.0.0.2", "accessConfigs": [{"natIP": ""}]},
        ]}));
        assert_eq!(instance(&id(), &inside, false).ip, None);
    }

    #[test]
    fn marks_and_age_are_read_back() {
        let vm = vm(json!({
            "creationTimestamp": "2026-11-30T11:02:01.123-08:00",
            "labels": {
                "proxy-operator-managed": "true",
                "proxy-operator-uid": "u",
                "proxy-operator-installation": "here",
            },
        }));
        let read = instance(&id(), &vm, false);
        assert_eq!(read.id, "zones/z/instances/proxy-x");
        assert_eq!((&*read.uid, &*read.installation), ("u", "here"));
        assert_eq!(read.created_at, 1_796_065_321);
        assert!(is_of(&vm, "here"));
        assert!(!is_of(&vm, "elsewhere"));
        assert!(!is_of(&model::Instance::new(), "here"));
    }

    #[test]
    fn what_cannot_be_read_is_nobodys_and_very_old() {
        let read = instance(&id(), &vm(json!({"creationTimestamp": "once"})), false);
        assert_eq!(
            (&*read.uid, &*read.installation, read.created_at),
            ("", "", 0)
        );
    }
}
