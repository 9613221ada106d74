//! `ProviderHealth`: what the operator's checks found out about a provider. There is no spec: only
//! the operator writes these objects, one for each provider in its config.

use crate::schema::kubernetes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest message of a [`Target`], in characters.
pub const MAX_MESSAGE: usize = 1024;

/// The absent spec; flattened, so that it leaves no trace in the object.
#[expect(
    clippy::duplicated_attributes,
    reason = "columns repeat their type and priority; the lint does not see that each is a list of its own"
)]
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "crawl.example.com",
    version = "v1alpha1",
    kind = "ProviderHealth",
    plural = "providerhealths",
    shortname = "ph",
    no_spec,
    status = "ProviderHealthStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Whether a provider of the operator's config can be used. Written by the operator alone, one object for each provider, named after it.",
    printcolumn(name = "Type", type_ = "string", json_path = ".status.type"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(name = "Targets", type_ = "string", json_path = ".status.targetsReady"),
    printcolumn(
        name = "Last Check",
        type_ = "date",
        json_path = ".status.lastCheckTime"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[schemars(transform = kubernetes)]
pub struct ProviderHealthSpec {}

/// What the checks of a provider found.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubernetes)]
pub struct ProviderHealthStatus {
    /// Type of the provider.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ProviderType>,

    /// Ready: whether every target passed its latest check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,

    /// The parts of the provider that fail by themselves: API servers, projects, hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub targets: Vec<Target>,

    /// How many targets passed out of how many, as "ready/total".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets_ready: Option<String>,

    /// When the latest round of checks finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check_time: Option<Time>,
}

/// The backends that the operator knows.
#[derive(
    Serialize, Deserialize, JsonSchema, strum::EnumString, Clone, Copy, Debug, PartialEq, Eq, Hash,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ProviderType {
    /// Squid pods in a Kubernetes cluster.
    Kubernetes,
    /// Virtual machines of Google Compute Engine.
    Gcp,
    /// Virtual machines on one's own libvirt hypervisors.
    Kvm,
}

/// A part of a provider that fails by itself.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubernetes)]
pub struct Target {
    /// Name of the target, unique within the provider.
    pub name: String,

    /// Where the target is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,

    /// Whether the target passed its latest check.
    pub ready: bool,

    /// One CamelCase word for what the check found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// What the check found, for a person to act on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,

    /// Milliseconds that the check took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_millis: Option<u32>,

    /// When ready last became true or false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// What else the check learnt, such as versions and free room.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}
