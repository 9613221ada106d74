//! Operations: what a request that changes something is answered with, and how it ends.

use super::{
    clock::{Time, written},
    life::Pace,
    link,
};
use serde_json::{Value, json};

/// Why an operation fails after it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// As in `ZONE_RESOURCE_POOL_EXHAUSTED`.
    pub code: String,
    /// For a human.
    pub message: String,
    /// HTTP status that it would have been.
    pub http: u16,
    /// Its words: `SERVICE UNAVAILABLE`.
    pub http_message: String,
}

impl Failure {
    /// Google has no such machine to spare in the zone.
    pub fn exhausted(project: &str, zone: &str) -> Self {
        Self {
            code: "ZONE_RESOURCE_POOL_EXHAUSTED".into(),
            message: format!(
                "The zone 'projects/{project}/zones/{zone}' does not have enough resources available \
                 to fulfill the request.  Try a different zone, or try again later."
            ),
            http: 503,
            http_message: "SERVICE UNAVAILABLE".into(),
        }
    }

    /// The project has no more of `metric` in the region.
    pub fn quota(metric: &str, limit: f64, region: &str) -> Self {
        Self {
            code: "QUOTA_EXCEEDED".into(),
            message: format!("Quota '{metric}' exceeded.  Limit: {limit:.1} in region {region}."),
            http: 403,
            http_message: "FORBIDDEN".into(),
        }
    }

    /// The image is not there, or nobody of this project may read it.
    pub fn image(image: &str) -> Self {
        Self {
            code: "RESOURCE_NOT_FOUND".into(),
            message: format!("The resource '{image}' was not found"),
            http: 404,
            http_message: "NOT FOUND".into(),
        }
    }
}

/// An operation on record.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its own number.
    pub id: u64,
    /// `operation-…`.
    pub name: String,
    /// `insert`, `delete`, …
    pub kind: String,
    /// The zone, or nothing for a global one.
    pub zone: Option<String>,
    /// Path of what it changes: `projects/p/zones/z/instances/i`.
    pub target: String,
    /// Number of what it changes.
    pub target_id: u64,
    /// The request ID that it was asked for with.
    pub request_id: Option<String>,
    /// Who asked.
    pub user: String,
    /// When it was accepted.
    pub accepted: Time,
    /// When it becomes RUNNING.
    pub starts: Time,
    /// When it is DONE.
    pub ends: Time,
    /// Why it fails, if it does.
    pub failure: Option<Failure>,
}

impl Operation {
    /// PENDING, RUNNING or DONE.
    pub fn status(&self, now: Time) -> &'static str {
        if now >= self.ends {
            "DONE"
        } else if now >= self.starts {
            "RUNNING"
        } else {
            "PENDING"
        }
    }

    /// When it ends, as `pace` has it; one that fails ends earlier.
    pub fn end(accepted: Time, kind: &str, failed: bool, pace: &Pace) -> Time {
        accepted
            + match kind {
                _ if failed => pace.failed,
                "delete" => pace.gone,
                "stop" => pace.stopped,
                _ => pace.running,
            }
    }

    /// As a resource.
    pub fn resource(&self, project: &str, now: Time) -> Value {
        let status = self.status(now);
        let progress = match status {
            "DONE" => 100,
            "RUNNING" => 50,
            _ => 0,
        };
        let scope = match &self.zone {
            Some(zone) => format!("projects/{project}/zones/{zone}"),
            None => format!("projects/{project}/global"),
        };
        let mut resource = json!({
            "kind": "compute#operation",
            "id": self.id.to_string(),
            "name": self.name,
            "operationType": self.kind,
            "targetLink": link(&self.target),
            "targetId": self.target_id.to_string(),
            "status": status,
            "user": self.user,
            "progress": progress,
            "insertTime": written(self.accepted),
            "selfLink": link(&format!("{scope}/operations/{}", self.name)),
        });
        if let Some(zone) = &self.zone {
            resource["zone"] = link(&format!("projects/{project}/zones/{zone}")).into();
        }
        if let Some(id) = &self.request_id {
            resource["clientOperationId"] = id.clone().into();
        }
        if status != "PENDING" {
            resource["startTime"] = written(self.starts).into();
        }
        if status == "DONE" {
            resource["endTime"] = written(self.ends).into();
            if let Some(failure) = &self.failure {
                resource["error"] = json!({
                    "errors": [{ "code": failure.code, "message": failure.message }],
                });
                resource["httpErrorStatusCode"] = failure.http.into();
                resource["httpErrorMessage"] = failure.http_message.clone().into();
            }
        }
        resource
    }
}
