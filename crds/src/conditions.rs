//! Conditions: their names, their reasons, and how one is set.

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use strum::{EnumMessage, IntoStaticStr, VariantArray};

/// The condition types of both resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
pub enum ConditionType {
    /// Does the instance run?
    Provisioned,
    /// Does the proxy egress?
    Healthy,
    /// Did the last reconcile pass end without error?
    Synced,
    /// Is all well, so that the proxy can be leased or the provider used?
    Ready,
}

impl ConditionType {
    /// The word in the object's status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
pub enum Status {
    /// Yes.
    True,
    /// No.
    False,
    /// Not known (yet).
    Unknown,
}

impl Status {
    /// The word in the object's status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl From<bool> for Status {
    fn from(yes: bool) -> Self {
        if yes { Self::True } else { Self::False }
    }
}

/// Why a condition is what it is. Users' alerts match on these words, so none is ever renamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
pub enum Reason {
    /// `Provisioned=True`: the instance runs.
    Running,
    /// `Provisioned=True`: there is nothing to provision.
    External,
    /// `Provisioned=False`: the provider was asked for an instance.
    Creating,
    /// `Provisioned=False`: the instance exists but does not run yet.
    Booting,
    /// `Provisioned=False`: the spec changed, the old instance goes first.
    Replacing,
    /// `Provisioned=False`: the instance was found stopped and is made anew.
    Stopped,
    /// `Provisioned=False`: the backend has no room for another instance.
    QuotaExceeded,
    /// `Provisioned=False`: the user-data cannot be had from its Secret.
    CloudInitError,
    /// `Provisioned=False`, `Synced=False`: trying again cannot help, the spec has to change.
    PermanentError,
    /// `Provisioned=False`, `Synced=False`: the config has no provider of this name.
    ProviderNotConfigured,
    /// `Provisioned=False`: an instance of this name exists and is not ours.
    AdoptionConflict,
    /// `Provisioned=False`, `Synced=False`: the backend failed; tried again with backoff.
    TransientError,
    /// `Healthy=True`: enough probes in a row went through.
    ProbeSucceeded,
    /// `Healthy=False`: enough probes in a row failed; the message is the last one's error.
    ProbeFailed,
    /// `Healthy=Unknown`: no verdict yet.
    NotProbedYet,
    /// `Synced=True`: the last pass ended without error.
    Reconciled,
    /// `Synced=False`: an actor of the operator fails over and over on this object.
    ActorFailed,
    /// `Ready=True`: provisioned and healthy.
    ProvisionedAndHealthy,
    /// `Ready=True` of a provider: every target passed.
    AllTargetsReady,
    /// `Ready=False` of a provider: the message names the targets that failed.
    TargetsNotReady,
    /// `Ready=Unknown` of a provider: nothing checks this type.
    NoChecker,
}

impl Reason {
    /// The word in the object's status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the Proxy is `Failed` with this reason: no provider is called until the spec, the
    /// provider's config or the referenced Secret changes.
    #[must_use]
    pub fn is_latched(self) -> bool {
        matches!(
            self,
            Self::PermanentError | Self::AdoptionConflict | Self::ProviderNotConfigured
        )
    }
}

/// The condition of this type, if it was ever set.
#[must_use]
pub fn get(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == type_.as_str())
}

/// Whether the condition of this type is `True`; absent counts as no.
#[must_use]
pub fn is_true(conditions: &[Condition], type_: ConditionType) -> bool {
    get(conditions, type_).is_some_and(|condition| condition.status == Status::True.as_str())
}

/// Adds or replaces the condition of this type.
///
/// `lastTransitionTime` becomes `now` only if the status flips; a new reason or message leaves it.
/// The time is cut to seconds, which is what the API server keeps, so that an object read back
/// equals the one that was written.
pub fn set(
    conditions: &mut Vec<Condition>,
    type_: ConditionType,
    status: Status,
    reason: Reason,
    message: impl Into<String>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let mut next = Condition {
        type_: type_.as_str().to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.as_str().to_owned(),
        message: message.into(),
        observed_generation: generation,
        last_transition_time: Time(whole_seconds(now)),
    };
    match conditions
        .iter_mut()
        .find(|condition| condition.type_ == next.type_)
    {
        None => conditions.push(next),
        Some(present) => {
            if present.status == next.status {
                next.last_transition_time = present.last_transition_time.clone();
            }
            *present = next;
        }
    }
}

/// The time as the API server keeps it.
#[must_use]
pub fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("is a time")
    }

    fn healthy(conditions: &mut Vec<Condition>, status: Status, message: &str, now: Timestamp) {
        let reason = Reason::ProbeSucceeded;
        set(
            conditions,
            ConditionType::Healthy,
            status,
            reason,
            message,
            Some(now.as_second()),
            now,
        );
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_flips() {
        let mut conditions = Vec::new();
        let mut seen = Vec::new();
        for (second, status) in [
            (1, Status::Unknown),
            (2, Status::True),
            (3, Status::True),
            (4, Status::False),
            (5, Status::False),
        ] {
            healthy(&mut conditions, status, &second.to_string(), at(second));
            let [condition] = conditions.as_slice() else {
                panic!("one type, one condition: {conditions:?}");
            };
            assert_eq!(condition.message, second.to_string());
            assert_eq!(condition.observed_generation, Some(second));
            seen.push(condition.last_transition_time.0.as_second());
        }
        assert_eq!(seen, [1, 2, 2, 4, 4]);
    }

    #[test]
    fn what_is_read_back_equals_what_was_written() {
        let mut written = Vec::new();
        let now = Timestamp::new(1, 999_999_999).expect("is a time");
        healthy(&mut written, Status::True, "", now);
        let text = serde_json::to_string(&written).expect("is JSON");
        let read: Vec<Condition> = serde_json::from_str(&text).expect("is conditions");
        assert_eq!(read, written);
    }

    #[test]
    fn an_absent_condition_is_not_true() {
        let mut conditions = Vec::new();
        assert!(get(&conditions, ConditionType::Healthy).is_none());
        assert!(!is_true(&conditions, ConditionType::Healthy));
        healthy(&mut conditions, Status::True, "", at(1));
        assert!(is_true(&conditions, ConditionType::Healthy));
        assert!(!is_true(&conditions, ConditionType::Ready));
        healthy(&mut conditions, Status::Unknown, "", at(2));
        assert!(!is_true(&conditions, ConditionType::Healthy));
    }
}
