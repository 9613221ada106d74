//! What the operator says about a proxy.

use crate::schema::kubernetes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator knows about a proxy.
#[derive(Serialize, Deserialize, KubeSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = kubernetes)]
pub struct ProxyStatus {
    /// Generation of the spec that the last completed pass acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Where the proxy is in its life; the conditions say it in full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,

    /// The provider's key of the instance. Set once it is created, and what it is looked up and
    /// deleted by.
    #[serde(
        default,
        rename = "providerID",
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_id: Option<String>,

    /// The provider's name of the operation that the last accepted creation of an instance is, where it has
    /// one: a failure after the acceptance is read from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,

    /// Address of the instance, while it runs. Empty for External proxies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,

    /// Milliseconds that the last probe took of those that changed this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_millis: Option<u32>,

    /// Provisioned, Healthy, Synced and Ready, each with a reason and a message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// Where a proxy is in its life.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing was asked of the provider yet.
    Pending,
    /// The instance does not run yet, or was not probed yet.
    Provisioning,
    /// The proxy egresses.
    Ready,
    /// The proxy runs but does not egress.
    Unhealthy,
    /// The object is being deleted.
    Deleting,
    /// Nothing happens until the spec or the config changes.
    Failed,
}
