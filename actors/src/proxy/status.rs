//! What the status should say. Pure: a function of the object and of what is known beyond it.

use super::memory::{Around, Backend, Memory, Wanted};
use crate::provider::contract::ErrorClass;
use crds::{
    Mode, Phase, Proxy, ProxyStatus,
    conditions::{self, ConditionType, Reason, Status},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};

/// The status that the object should have; `complete` when the pass has nothing more to do now.
#[must_use]
pub fn status(memory: &Memory, around: &Around<'_>, complete: bool, now: Timestamp) -> ProxyStatus {
    let object = around.object;
    let before = object.status.clone().unwrap_or_default();
    let generation = object.metadata.generation;
    let mut all = before.conditions.clone();
    let mut set = |type_, (status, reason, message): Said| {
        conditions::set(&mut all, type_, status, reason, message, generation, now);
    };
    let provisioned = provisioned(memory, around, &before);
    let healthy = healthy(memory, object);
    let ready = (provisioned.0, healthy.0) == (Status::True, Status::True);
    set(ConditionType::Provisioned, provisioned.clone());
    set(ConditionType::Healthy, healthy.clone());
    set(ConditionType::Synced, synced(memory, around, &before));
    set(
        ConditionType::Ready,
        self::ready(ready, &provisioned, &healthy),
    );

    let id = match object.spec.mode {
        Mode::External => None,
        Mode::Managed => memory.id(object).map(str::to_owned),
    };
    let operation = match object.spec.mode {
        Mode::External => None,
        Mode::Managed => memory.operation(object).map(str::to_owned),
    };
    ProxyStatus {
        observed_generation: if complete {
            generation
        } else {
            before.observed_generation
        },
        phase: Some(phase(object, id.as_deref(), &provisioned, &healthy)),
        provider_id: id,
        operation,
        ip: match &memory.backend {
            Backend::Running(ip) if object.spec.mode == Mode::Managed && !memory.leaving => {
                Some(ip.to_string())
            }
            _ => None,
        },
        latency_millis: memory.verdict.as_ref().and_then(|v| v.latency_millis),
        conditions: all,
    }
}

type Said = (Status, Reason, String);

fn provisioned(memory: &Memory, around: &Around<'_>, before: &ProxyStatus) -> Said {
    let object = around.object;
    let no = |reason, message: &str| (Status::False, reason, message.to_owned());
    if object.spec.mode == Mode::External {
        return (
            Status::True,
            Reason::External,
            "the endpoint is taken as it is".into(),
        );
    }
    if around.config.is_none() && !object.is_deleting() {
        return no(Reason::ProviderNotConfigured, &not_configured(object));
    }
    if memory.is_replacing(object) {
        return no(
            Reason::Replacing,
            "the old instance goes before the new one is created",
        );
    }
    if let Backend::Running(ip) = &memory.backend
        && !memory.leaving
    {
        return (
            Status::True,
            Reason::Running,
            format!("the instance runs at {ip}"),
        );
    }
    if let Some(problem) = &memory.problem {
        return no(reason_of(problem.class), &problem.message);
    }
    match (&memory.wanted, memory.id(object)) {
        (Wanted::Unavailable(why), None) => return no(Reason::CloudInitError, why),
        (Wanted::Unread(why, _), None) => return no(Reason::TransientError, why),
        _ => {}
    }
    if !memory.answered
        && let Some(said) = as_it_was(&before.conditions, ConditionType::Provisioned)
    {
        return said;
    }
    match memory.backend {
        Backend::Booting => no(Reason::Booting, "the instance does not run yet"),
        Backend::Stopped | Backend::Leaving => no(
            Reason::Stopped,
            "the instance does not run and is being deleted",
        ),
        _ => no(Reason::Creating, "an instance is being created"),
    }
}

/// What the condition says already: right after a restart nothing else is known of the backend. The
/// reasons left out are those that do not rest on it.
fn as_it_was(before: &[Condition], type_: ConditionType) -> Option<Said> {
    let condition = conditions::get(before, type_)?;
    [
        Reason::Creating,
        Reason::Booting,
        Reason::Replacing,
        Reason::Stopped,
        Reason::QuotaExceeded,
        Reason::TransientError,
        Reason::PermanentError,
        Reason::AdoptionConflict,
    ]
    .into_iter()
    .find(|reason| reason.as_str() == condition.reason)
    .map(|reason| (Status::False, reason, condition.message.clone()))
}

fn healthy(memory: &Memory, object: &Proxy) -> Said {
    match memory.verdict.as_deref().filter(|_| memory.runs(object)) {
        None => (
            Status::Unknown,
            Reason::NotProbedYet,
            "no probe has ended yet".into(),
        ),
        Some(verdict) if verdict.healthy => (
            Status::True,
            Reason::ProbeSucceeded,
            "the health check's URL was fetched through the proxy".into(),
        ),
        Some(verdict) => {
            let error = verdict.error.as_deref().unwrap_or("the probe failed");
            (Status::False, Reason::ProbeFailed, error.to_owned())
        }
    }
}

fn synced(memory: &Memory, around: &Around<'_>, before: &ProxyStatus) -> Said {
    let yes = (
        Status::True,
        Reason::Reconciled,
        "the last pass ended without error".to_owned(),
    );
    let no = |reason, message: &str| (Status::False, reason, message.to_owned());
    let object = around.object;
    if object.spec.mode == Mode::Managed && around.config.is_none() {
        return no(Reason::ProviderNotConfigured, &not_configured(object));
    }
    if let Some(problem) = &memory.problem {
        return match problem.class {
            // Having no room is an answer, not an error.
            ErrorClass::QuotaExceeded => yes,
            class => no(reason_of(class), &problem.message),
        };
    }
    match &memory.wanted {
        Wanted::Unavailable(why) => return no(Reason::CloudInitError, why),
        Wanted::Unread(why, _) => return no(Reason::TransientError, why),
        Wanted::Unresolved | Wanted::Asked | Wanted::Hash(_) => {}
    }
    if let Some(why) = &memory.prober_error {
        return no(Reason::ActorFailed, why);
    }
    if !memory.answered
        && object.spec.mode == Mode::Managed
        && let Some(said) = as_it_was(&before.conditions, ConditionType::Synced)
    {
        return said;
    }
    yes
}

fn reason_of(class: ErrorClass) -> Reason {
    match class {
        ErrorClass::QuotaExceeded => Reason::QuotaExceeded,
        ErrorClass::Permanent => Reason::PermanentError,
        ErrorClass::AdoptionConflict => Reason::AdoptionConflict,
        ErrorClass::Transient | ErrorClass::NotFound => Reason::TransientError,
    }
}

fn ready(ready: bool, provisioned: &Said, healthy: &Said) -> Said {
    if ready {
        return (
            Status::True,
            Reason::ProvisionedAndHealthy,
            "provisioned and healthy".into(),
        );
    }
    let (_, reason, message) = if provisioned.0 == Status::True {
        healthy
    } else {
        provisioned
    };
    (Status::False, *reason, message.clone())
}

fn phase(object: &Proxy, id: Option<&str>, provisioned: &Said, healthy: &Said) -> Phase {
    match (provisioned, healthy.0) {
        _ if object.is_deleting() => Phase::Deleting,
        ((Status::False, reason, _), _) if reason.is_latched() => Phase::Failed,
        ((Status::True, ..), Status::True) => Phase::Ready,
        ((Status::True, ..), Status::False) => Phase::Unhealthy,
        _ if id.is_none() && object.spec.mode == Mode::Managed && !was_created(object) => {
            Phase::Pending
        }
        _ => Phase::Provisioning,
    }
}

/// Whether a `create` was accepted at some time, as far as the status on record tells.
fn was_created(object: &Proxy) -> bool {
    matches!(
        object.status.as_ref().and_then(|s| s.phase),
        Some(Phase::Provisioning | Phase::Ready | Phase::Unhealthy)
    )
}

fn not_configured(object: &Proxy) -> String {
    let provider = object.spec.provider.as_deref().unwrap_or_default();
    if object.is_deleting() {
        format!(
            "spec.provider: provider {provider:?} is not in the operator's config, so the instance cannot be \
             deleted; annotate the object with {}=true to let it go without",
            crds::names::SKIP_CLEANUP
        )
    } else {
        format!("spec.provider: provider {provider:?} is not in the operator's config")
    }
}
