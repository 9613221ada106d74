//! What a pod says about the instance that it is.

use crate::providers::{INSTALLATION_MARK, UID_MARK};
use actors::provider::contract::{Instance, InstanceState};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use std::net::IpAddr;

/// The instance that `pod` is.
#[must_use]
pub fn instance(pod: &Pod) -> Instance {
    let status = pod.status.as_ref();
    let ip = status
        .and_then(|status| status.pod_ip.as_deref())
        .and_then(|ip| ip.parse::<IpAddr>().ok());
    let phase = status.and_then(|status| status.phase.as_deref());
    let mark = |name| pod.labels().get(name).cloned().unwrap_or_default();
    Instance {
        id: format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()),
        ip,
        state: state(
            phase,
            ip.is_some(),
            pod.metadata.deletion_timestamp.is_some(),
        ),
        uid: mark(UID_MARK),
        installation: mark(INSTALLATION_MARK),
        created_at: pod
            .creation_timestamp()
            .map_or(0, |created| created.0.as_second()),
        trouble: None,
    }
}

fn state(phase: Option<&str>, has_address: bool, deleting: bool) -> InstanceState {
    match phase {
        // It serves for some seconds yet, and must be in nobody's hands when it ends.
        _ if deleting => InstanceState::Terminated,
        Some("Running") if has_address => InstanceState::Running,
        // A pod that nobody has looked at yet has no phase.
        None | Some("" | "Pending" | "Running") => InstanceState::Provisioning,
        // Unknown: its node is lost. Pods are cheap, so the proxy moves on.
        Some("Succeeded" | "Failed" | "Unknown") => InstanceState::Terminated,
        Some(_) => InstanceState::Stopped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(status: &serde_json::Value, deleting: bool) -> Pod {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "proxy-x", "namespace": "crawl",
                "creationTimestamp": "2026-11-30T19:02:01Z",
                "labels": {"proxy-operator-uid": "u", "proxy-operator-installation": "here"},
            },
            "status": status,
        }))
        .expect("a pod");
        if deleting {
            pod.metadata.deletion_timestamp = pod.metadata.creation_timestamp.clone();
        }
        pod
    }

    #[test]
    fn every_phase_has_its_state() {
        use InstanceState::{Provisioning, Running, Stopped, Terminated};
        for (phase, ip, alive, deleting) in [
            (None, None, Provisioning, Terminated),
            (Some(""), None, Provisioning, Terminated),
            (Some("Pending"), None, Provisioning, Terminated),
            (Some("Pending"), Some("10.79.1.2"), Provisioning, Terminated),
            (Some("Running"), None, Provisioning, Terminated),
            (
                Some("Running"),
                Some("no address"),
                Provisioning,
                Terminated,
            ),
            (Some("Running"), Some("10.79.1.2"), Running, Terminated),
            (Some("Running"), Some("fd00::2"), Running, Terminated),
            (Some("Succeeded"), Some("10.79.1.2"), Terminated, Terminated),
            (Some("Failed"), None, Terminated, Terminated),
            (Some("Unknown"), Some("10.79.1.2"), Terminated, Terminated),
            (Some("Hibernated"), Some("10.79.1.2"), Stopped, Terminated),
        ] {
            let status = json!({"phase": phase, "podIP": ip});
            let state = |deleting| instance(&pod(&status, deleting)).state;
            assert_eq!(state(false), alive, "{phase:?} {ip:?}");
            assert_eq!(state(true), deleting, "{phase:?} {ip:?}, being deleted");
        }
    }

    #[test]
    fn marks_and_age_are_read_back() {
        let read = instance(&pod(
            &json!({"phase": "Running", "podIP": "10.79.1.2"}),
            false,
        ));
        assert_eq!(read.id, "crawl/proxy-x");
        assert_eq!((&*read.uid, &*read.installation), ("u", "here"));
        assert_eq!(read.created_at, 1_796_065_321);
        assert_eq!(read.ip, Some([10, 79, 1, 2].into()));
    }

    #[test]
    fn what_cannot_be_read_is_nobodys_and_very_old() {
        let read = instance(&Pod::default());
        assert_eq!(
            (&*read.uid, &*read.installation, read.created_at),
            ("", "", 0)
        );
    }
}
