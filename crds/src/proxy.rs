//! `Proxy`: what a user asks for, and what the operator says about it.

use crate::schema::kubernetes;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

mod reading;
mod rules;
mod status;

pub use rules::is_attribute_key;
pub use status::{Phase, ProxyStatus};

/// What a proxy should be.
#[expect(
    clippy::duplicated_attributes,
    reason = "columns repeat their type and priority; the lint does not see that each is a list of its own"
)]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "crawl.example.com",
    version = "v1alpha1",
    kind = "Proxy",
    plural = "proxies",
    shortname = "px",
    namespaced,
    status = "ProxyStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "A forward proxy for crawlers: an instance that a provider runs for it (Managed) or an endpoint that exists already (External).",
    printcolumn(name = "Mode", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Provider", type_ = "string", json_path = ".spec.provider"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "IP", type_ = "string", json_path = ".status.ip"),
    printcolumn(
        name = "Healthy",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Healthy\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Port",
        type_ = "integer",
        json_path = ".spec.port",
        priority = 1
    ),
    printcolumn(
        name = "Latency",
        type_ = "integer",
        json_path = ".status.latencyMillis",
        description = "Milliseconds",
        priority = 1
    ),
    printcolumn(
        name = "ProviderID",
        type_ = "string",
        json_path = ".status.providerID",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Provisioned\")].reason",
        description = "Reason of the condition Provisioned",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubernetes)]
#[x_kube(validation = rules::required("provider", Mode::Managed))]
#[x_kube(validation = rules::required("endpoint", Mode::External))]
#[x_kube(validation = rules::forbidden("provider", Mode::External))]
#[x_kube(validation = rules::forbidden("placement", Mode::External))]
#[x_kube(validation = rules::forbidden("cloudInit", Mode::External))]
#[x_kube(validation = rules::forbidden("endpoint", Mode::Managed))]
pub struct ProxySpec {
    /// Who makes the proxy exist: Managed (the operator has a provider run an instance) or External
    /// (it runs already, at spec.endpoint). Cannot be changed.
    #[x_kube(validation = rules::immutable("mode"))]
    pub mode: Mode,

    /// Name of the provider that runs the instance, as the operator's config calls it. Required when
    /// mode is Managed, forbidden when it is External. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = rules::LABEL))]
    #[x_kube(validation = rules::immutable("provider"))]
    pub provider: Option<String>,

    /// Where and on what the instance runs, in the provider's own words. Managed only. A change
    /// replaces the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,

    /// TCP port that the proxy listens on. A change replaces the instance.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,

    /// User-data for the instance, delivered as it is. Managed only. A change, of the Secret too,
    /// replaces the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cloud_init: Option<CloudInit>,

    /// Where the proxy is reached. Required when mode is External, forbidden when it is Managed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Endpoint>,

    /// Free labels that clients select a proxy by, such as geo, asn or purpose. At most 64; keys
    /// have up to 63 letters, digits, '-', '_' and '.', begin and end with a letter or digit; values
    /// have up to 253 bytes.
    #[serde(default)]
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = rules::attribute_value()))]
    #[x_kube(validation = rules::attribute_keys())]
    pub attributes: BTreeMap<String, String>,

    /// How many leases may be active on this proxy at a time. 0 takes it out of leasing.
    #[serde(default = "default_max_leases")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub max_leases: u32,

    /// How the operator finds out whether the proxy egresses.
    #[serde(default)]
    pub health_check: HealthCheck,
}

fn default_port() -> u16 {
    3128
}

fn default_max_leases() -> u32 {
    5
}

/// Who makes the proxy exist.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The operator has a provider run an instance.
    #[default]
    Managed,
    /// The proxy runs already.
    External,
}

/// Where and on what an instance runs. The API server cannot know what a provider offers, so the
/// values are checked by the provider.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubernetes)]
pub struct Placement {
    /// Region, for providers that have regions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub region: Option<String>,

    /// Zone within the region, host or node: the provider's unit of placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub zone: Option<String>,

    /// Size of the instance, in the provider's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub machine_type: Option<String>,

    /// Image that the instance starts from, in the provider's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub image: Option<String>,
}

/// Where an instance's user-data comes from: exactly one of the two.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubernetes)]
#[x_kube(validation = rules::one_source())]
pub struct CloudInit {
    /// The user-data itself, at most 262144 characters. Whoever may read the Proxy can read it:
    /// secrets belong in a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 262_144))]
    pub inline: Option<String>,

    /// A key of a Secret in the Proxy's namespace. The Secret needs the label
    /// crawl.example.com/cloud-init: "true".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

/// User-data carries credentials, and whatever is printed ends up in a log.
impl fmt::Debug for CloudInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inline = self
            .inline
            .as_ref()
            .map(|text| format!("{} bytes", text.len()));
        f.debug_struct("CloudInit")
            .field("inline", &inline.as_deref().unwrap_or("none"))
            .field("secret_ref", &self.secret_ref)
            .finish()
    }
}

/// A key of a Secret.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubernetes)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(max = 253), regex(pattern = rules::SUBDOMAIN))]
    pub name: String,

    /// Key in the Secret's data.
    #[serde(default = "default_key")]
    #[schemars(length(max = 253), regex(pattern = rules::SECRET_KEY))]
    pub key: String,
}

fn default_key() -> String {
    "user-data".to_owned()
}

/// Where a proxy that exists already is reached.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubernetes)]
pub struct Endpoint {
    /// DNS name, IPv4 address or IPv6 address of the proxy; no scheme, no port, no brackets.
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::host())]
    pub host: String,

    /// TCP port of the proxy; spec.port counts where this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
}

/// How a proxy is probed.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubernetes)]
pub struct HealthCheck {
    /// Absolute http or https URL that is fetched through the proxy.
    #[serde(default = "HealthCheck::default_url")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = rules::probe_url())]
    pub url: String,

    /// HTTP status that the fetch has to end with.
    #[serde(default = "HealthCheck::default_expected_status")]
    #[schemars(range(min = 100, max = 599))]
    pub expected_status: u16,

    /// Seconds from one probe to the next.
    #[serde(default = "HealthCheck::default_period_seconds")]
    #[schemars(range(min = 1, max = 3600))]
    pub period_seconds: u32,

    /// Seconds that one probe may take from connecting to the answer.
    #[serde(default = "HealthCheck::default_timeout_seconds")]
    #[schemars(range(min = 1, max = 60))]
    pub timeout_seconds: u32,

    /// How many probes in a row have to fail until the proxy counts as unhealthy.
    #[serde(default = "HealthCheck::default_failure_threshold")]
    #[schemars(range(min = 1, max = 20))]
    pub failure_threshold: u32,

    /// How many probes in a row have to succeed until the proxy counts as healthy again.
    #[serde(default = "HealthCheck::default_success_threshold")]
    #[schemars(range(min = 1, max = 20))]
    pub success_threshold: u32,
}

impl HealthCheck {
    fn default_url() -> String {
        "https://www.gstatic.com/generate_204".to_owned()
    }

    fn default_expected_status() -> u16 {
        204
    }

    fn default_period_seconds() -> u32 {
        10
    }

    fn default_timeout_seconds() -> u32 {
        5
    }

    fn default_failure_threshold() -> u32 {
        3
    }

    fn default_success_threshold() -> u32 {
        1
    }
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            url: Self::default_url(),
            expected_status: Self::default_expected_status(),
            period_seconds: Self::default_period_seconds(),
            timeout_seconds: Self::default_timeout_seconds(),
            failure_threshold: Self::default_failure_threshold(),
            success_threshold: Self::default_success_threshold(),
        }
    }
}

impl Default for ProxySpec {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            provider: None,
            placement: None,
            port: default_port(),
            cloud_init: None,
            endpoint: None,
            attributes: BTreeMap::new(),
            max_leases: default_max_leases(),
            health_check: HealthCheck::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_a_proxy_does_not_print_its_user_data() {
        let spec = ProxySpec {
            cloud_init: Some(CloudInit {
                inline: Some("password: hunter2".to_owned()),
                secret_ref: None,
            }),
            ..ProxySpec::default()
        };
        let printed = format!("{:?} {spec:#?}", Proxy::new("a", spec.clone()));
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("17 bytes"), "{printed}");
    }

    #[test]
    fn what_is_left_out_equals_the_explicit_default() {
        let least = r#"{"mode": "Managed", "provider": "kvm"}"#;
        let explicit = r#"{"mode": "Managed", "provider": "kvm", "port": 3128, "attributes": {}, "maxLeases": 5,
            "healthCheck": {"url": "https://www.gstatic.com/generate_204", "expectedStatus": 204,
            "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3, "successThreshold": 1}}"#;
        let read = |text| serde_json::from_str::<ProxySpec>(text).expect("is a spec");
        assert_eq!(read(least), read(explicit));
        let partial =
            r#"{"mode": "Managed", "provider": "kvm", "healthCheck": {"periodSeconds": 10}}"#;
        assert_eq!(read(least), read(partial));
    }

    #[test]
    fn an_explicit_zero_survives() {
        let spec = ProxySpec {
            max_leases: 0,
            ..ProxySpec::default()
        };
        let text = serde_json::to_string(&spec).expect("is JSON");
        let read: ProxySpec = serde_json::from_str(&text).expect("is a spec");
        assert_eq!(read.max_leases, 0);
    }
}
