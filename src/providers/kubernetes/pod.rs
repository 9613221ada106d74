//! What a proxy's pod looks like.

use super::{config::KubernetesConfig, squid};
use crate::providers::{INSTALLATION_MARK, MANAGED_MARK, UID_MARK};
use actors::provider::contract::CreateRequest;
use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, DownwardAPIVolumeFile, DownwardAPIVolumeSource,
        EmptyDirVolumeSource, ObjectFieldSelector, Pod, PodSecurityContext, PodSpec, Probe,
        ResourceRequirements, SeccompProfile, SecurityContext, Sysctl, TCPSocketAction, Volume,
        VolumeMount,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{ObjectMeta, OwnerReference},
        util::intstr::IntOrString,
    },
};
use std::collections::BTreeMap;

/// The annotation that carries Squid's configuration into the pod, where it is mounted as a file:
/// no `ConfigMap` to clean up, and no shell needed in the image.
const CONFIGURATION: &str = "crawl.example.com/squid.conf";
const CONFIGURATION_DIR: &str = "/etc/egress-proxy";
const CONFIGURATION_FILE: &str = "squid.conf";
/// `proxy`, Squid's own user in Debian's and Ubuntu's packages.
const SQUID_USER: i64 = 13;
/// Squid leaves 1 s after SIGTERM (`shutdown_lifetime`); the rest is for a busy node.
const GRACE_SECONDS: i64 = 5;

/// The pod that serves `request`.
#[must_use]
pub fn build(request: &CreateRequest, config: &KubernetesConfig) -> Pod {
    Pod {
        metadata: metadata(request, config),
        spec: Some(PodSpec {
            containers: vec![squid_container(request.port, config)],
            volumes: Some(volumes()),
            security_context: Some(pod_security(request.port)),
            // A proxy open to crawlers holds no credential, and needs no list of the services.
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            termination_grace_period_seconds: Some(GRACE_SECONDS),
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn metadata(request: &CreateRequest, config: &KubernetesConfig) -> ObjectMeta {
    ObjectMeta {
        name: Some(request.name.clone()),
        namespace: Some(request.namespace.clone()),
        labels: Some(strings([
            (MANAGED_MARK, "true"),
            (UID_MARK, &request.uid),
            (INSTALLATION_MARK, &request.installation),
            ("app.kubernetes.io/name", "squid"),
            ("app.kubernetes.io/instance", &request.name),
            ("app.kubernetes.io/component", "egress-proxy"),
            (crds::names::MANAGED_BY, crds::names::FIELD_MANAGER),
        ])),
        annotations: Some(strings([(
            CONFIGURATION,
            &*squid::configuration(request.port, &config.connect_ports),
        )])),
        owner_references: Some(vec![OwnerReference {
            api_version: format!("{}/{}", crds::names::GROUP, crds::names::VERSION),
            kind: "Proxy".to_owned(),
            name: request.proxy_name.clone(),
            uid: request.uid.clone(),
            controller: Some(true),
            // The finalizer on the Proxy does the waiting; blocking here as well would need the
            // right to update proxies/finalizers.
            block_owner_deletion: Some(false),
        }]),
        ..ObjectMeta::default()
    }
}

fn squid_container(port: u16, config: &KubernetesConfig) -> Container {
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    };
    Container {
        name: "squid".to_owned(),
        image: Some(config.image.clone()),
        // One process, in the foreground, its warnings on standard error; whatever the image's own
        // entrypoint would have set up is not needed.
        command: Some(vec!["/usr/sbin/squid".to_owned()]),
        args: Some(
            ["-N", "-d", "1", "-f"]
                .map(str::to_owned)
                .into_iter()
                .chain([format!("{CONFIGURATION_DIR}/{CONFIGURATION_FILE}")])
                .collect(),
        ),
        ports: Some(vec![ContainerPort {
            name: Some("proxy".to_owned()),
            container_port: i32::from(port),
            ..ContainerPort::default()
        }]),
        readiness_probe: Some(Probe {
            tcp_socket: Some(TCPSocketAction {
                port: IntOrString::Int(i32::from(port)),
                host: None,
            }),
            period_seconds: Some(5),
            timeout_seconds: Some(2),
            ..Probe::default()
        }),
        resources: Some(resources()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities {
                drop: Some(vec!["ALL".to_owned()]),
                add: None,
            }),
            read_only_root_filesystem: Some(true),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![
            mount("configuration", CONFIGURATION_DIR, true),
            mount("tmp", "/tmp", false),
        ]),
        ..Container::default()
    }
}

fn resources() -> ResourceRequirements {
    let quantities = |cpu: &str, memory: &str| {
        Some(BTreeMap::from([
            ("cpu".to_owned(), Quantity(cpu.to_owned())),
            ("memory".to_owned(), Quantity(memory.to_owned())),
        ]))
    };
    ResourceRequirements {
        requests: quantities("10m", "64Mi"),
        // A quota on limits refuses a pod that leaves one of them out.
        limits: quantities("1", "256Mi"),
        claims: None,
    }
}

fn volumes() -> Vec<Volume> {
    vec![
        Volume {
            name: "configuration".to_owned(),
            downward_api: Some(DownwardAPIVolumeSource {
                items: Some(vec![DownwardAPIVolumeFile {
                    path: CONFIGURATION_FILE.to_owned(),
                    field_ref: Some(ObjectFieldSelector {
                        api_version: None,
                        field_path: format!("metadata.annotations['{CONFIGURATION}']"),
                    }),
                    ..DownwardAPIVolumeFile::default()
                }]),
                default_mode: None,
            }),
            ..Volume::default()
        },
        Volume {
            name: "tmp".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource {
                size_limit: Some(Quantity("16Mi".to_owned())),
                medium: None,
            }),
            ..Volume::default()
        },
    ]
}

fn pod_security(port: u16) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(SQUID_USER),
        run_as_group: Some(SQUID_USER),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        // A port below 1024 is for root or a capability otherwise; this sysctl is the pod's own and
        // one that the restricted profile allows.
        sysctls: (port < 1024).then(|| {
            vec![Sysctl {
                name: "net.ipv4.ip_unprivileged_port_start".to_owned(),
                value: port.to_string(),
            }]
        }),
        ..PodSecurityContext::default()
    }
}

fn strings<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::kubernetes::tests::request;
    use serde_json::{Value, json};

    fn built(change: impl FnOnce(&mut CreateRequest)) -> Value {
        let mut request = request();
        change(&mut request);
        serde_json::to_value(build(&request, &KubernetesConfig::default())).expect("serialises")
    }

    #[test]
    fn a_pod_says_whose_it_is() {
        let metadata = &built(|_| {})["metadata"];
        let labels = &metadata["labels"];
        assert_eq!(labels[MANAGED_MARK], "true");
        assert_eq!(labels[UID_MARK], request().uid);
        assert_eq!(labels[INSTALLATION_MARK], "here");
        assert_eq!(labels["app.kubernetes.io/managed-by"], "proxy-operator");
        assert_eq!(
            metadata["ownerReferences"],
            json!([{
                "apiVersion": "crawl.example.com/v1alpha1", "kind": "Proxy", "name": "a",
                "uid": request().uid, "controller": true, "blockOwnerDeletion": false,
            }])
        );
        assert_eq!(metadata["namespace"], "crawl");
    }

    #[test]
    fn the_port_reaches_squid_the_probe_and_the_container() {
        let pod = built(|request| request.port = 8080);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["ports"][0]["containerPort"], 8080);
        assert_eq!(container["readinessProbe"]["tcpSocket"]["port"], 8080);
        let configuration = pod["metadata"]["annotations"][CONFIGURATION].as_str();
        assert!(configuration.is_some_and(|text| text.starts_with("http_port 8080\n")));
        assert_eq!(pod["spec"]["securityContext"]["sysctls"], Value::Null);
    }

    #[test]
    fn a_low_port_needs_no_capability() {
        let pod = built(|request| request.port = 80);
        assert_eq!(
            pod["spec"]["securityContext"]["sysctls"],
            json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}])
        );
    }

    #[test]
    fn placement_and_user_data_leave_no_trace() {
        let with = built(|request| {
            request.user_data = Some(b"#cloud-config sentinel".to_vec().into());
            request.placement.machine_type = Some("e2-small".to_owned());
            request.placement.image = Some("debian-13".to_owned());
        });
        assert_eq!(with, built(|_| {}));
    }
}
