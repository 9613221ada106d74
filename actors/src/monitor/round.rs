//! What a round of checks makes of what was known before. Pure.

#[cfg(test)]
mod tests;

use crate::provider::contract::TargetCheck;
use crds::{
    MAX_MESSAGE, ProviderHealthStatus, Target,
    conditions::{self, ConditionType, Reason, Status, whole_seconds},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use std::{collections::BTreeMap, fmt, time::Duration};

/// Targets that a condition names before it only counts.
const NAMED: usize = 20;
/// Why a target is not ready from which nothing was heard.
const TIMEOUT: &str = "Timeout";

/// What was heard of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Of each target.
    Checks(Vec<TargetCheck>),
    /// Nothing, after so long, and why.
    Silence(Duration, String),
}

/// A target whose verdict changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Which target; the provider as a whole if none is known.
    pub target: Option<String>,
    /// Where it is reached.
    pub address: Option<String>,
    /// Whether it can be used now.
    pub ready: bool,
    /// One word for what was found.
    pub reason: String,
    /// What was found, for a person.
    pub message: String,
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, &self.address) {
            (None, _) => {}
            (Some(target), None) => write!(f, "{target}: ")?,
            (Some(target), Some(address)) => write!(f, "{target} ({address}): ")?,
        }
        write!(f, "{}: {}", self.reason, self.message)
    }
}

/// One target, as metrics tell it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The provider.
    pub provider: String,
    /// The target.
    pub target: String,
    /// Whether it can be used.
    pub up: bool,
    /// How long the check took.
    pub took: Duration,
    /// When it ended, in seconds since the Unix epoch.
    pub at: f64,
}

/// What is to be said of a provider, and what of it is news.
#[must_use]
pub fn next(
    before: Option<&ProviderHealthStatus>,
    kind: &str,
    found: &Found,
    now: Timestamp,
) -> (ProviderHealthStatus, Vec<Transition>) {
    let known = before.map_or(&[][..], |before| &before.targets);
    let targets = targets(known, found, whole_seconds(now));
    let mut transitions = news(known, &targets);
    let mut conditions = before.map_or_else(Vec::new, |before| before.conditions.clone());
    let was_ready = conditions::get(&conditions, ConditionType::Ready).map(|c| c.status.clone());
    let (status, reason, message) = verdict(&targets, found);
    if targets.is_empty() && status == Status::False && was_ready.as_deref() != Some("False") {
        transitions.push(Transition {
            target: None,
            address: None,
            ready: false,
            reason: TIMEOUT.to_owned(),
            message: message.clone(),
        });
    }
    conditions::set(
        &mut conditions,
        ConditionType::Ready,
        status,
        reason,
        message,
        None,
        now,
    );
    let ready = targets.iter().filter(|target| target.ready).count();
    let status = ProviderHealthStatus {
        type_: kind.parse().ok(),
        conditions,
        targets_ready: Some(format!("{ready}/{}", targets.len())),
        targets,
        last_check_time: Some(Time(whole_seconds(now))),
    };
    (status, transitions)
}

/// Has what was `found` before the object could be read go on from the object: what did not change since has
/// the object's time. Gives what is news to those who read the object.
pub fn resume(object: &ProviderHealthStatus, found: &mut ProviderHealthStatus) -> Vec<Transition> {
    for target in &mut found.targets {
        let mut same = object.targets.iter();
        let old = same.find(|old| old.name == target.name && old.ready == target.ready);
        if let Some(since) = old.and_then(|old| old.last_transition_time.clone()) {
            target.last_transition_time = Some(since);
        }
    }
    for condition in &mut found.conditions {
        let mut same = object.conditions.iter();
        let old = same.find(|old| old.type_ == condition.type_ && old.status == condition.status);
        if let Some(old) = old {
            condition.last_transition_time = old.last_transition_time.clone();
        }
    }
    news(&object.targets, &found.targets)
}

fn news(known: &[Target], targets: &[Target]) -> Vec<Transition> {
    let old = |target: &Target| known.iter().find(|old| old.name == target.name);
    let news = targets.iter().filter(|target| is_news(old(target), target));
    news.map(Transition::of).collect()
}

fn targets(known: &[Target], found: &Found, now: Timestamp) -> Vec<Target> {
    let mut targets: Vec<_> = match found {
        Found::Checks(checks) => checks.iter().map(checked).collect(),
        Found::Silence(took, why) => known.iter().map(|old| silent(old, *took, why)).collect(),
    };
    for target in &mut targets {
        let old = known.iter().find(|old| old.name == target.name);
        let since = old.filter(|old| old.ready == target.ready);
        let since = since.and_then(|old| old.last_transition_time.clone());
        target.last_transition_time = Some(since.unwrap_or(Time(now)));
    }
    targets
}

fn checked(check: &TargetCheck) -> Target {
    Target {
        name: check.name.clone(),
        address: Some(check.address.clone()),
        ready: check.ready,
        reason: Some(check.reason.to_owned()),
        message: Some(cut(&check.message)),
        latency_millis: Some(millis(check.latency)),
        last_transition_time: None,
        details: check.details.clone(),
    }
}

fn silent(old: &Target, took: Duration, why: &str) -> Target {
    Target {
        name: old.name.clone(),
        address: old.address.clone(),
        ready: false,
        reason: Some(TIMEOUT.to_owned()),
        message: Some(said(took, why)),
        latency_millis: Some(millis(took)),
        last_transition_time: None,
        details: BTreeMap::new(),
    }
}

fn said(took: Duration, why: &str) -> String {
    cut(&format!("no result within {} s: {why}", took.as_secs()))
}

/// Going down, coming back, and being down for another reason are news. What is up from the start is not.
fn is_news(old: Option<&Target>, new: &Target) -> bool {
    match old {
        None => !new.ready,
        Some(old) if old.ready != new.ready => true,
        Some(old) => !new.ready && old.reason != new.reason,
    }
}

impl Transition {
    fn of(target: &Target) -> Self {
        Self {
            target: Some(target.name.clone()),
            address: target.address.clone(),
            ready: target.ready,
            reason: target.reason.clone().unwrap_or_default(),
            message: target.message.clone().unwrap_or_default(),
        }
    }
}

fn verdict(targets: &[Target], found: &Found) -> (Status, Reason, String) {
    let failing: Vec<_> = targets.iter().filter(|target| !target.ready).collect();
    match (found, targets.is_empty()) {
        (Found::Checks(_), true) => {
            let message = "nothing checks a provider of this type".to_owned();
            return (Status::Unknown, Reason::NoChecker, message);
        }
        (Found::Silence(took, why), true) => {
            return (Status::False, Reason::TargetsNotReady, said(*took, why));
        }
        _ => {}
    }
    if failing.is_empty() {
        let message = format!("{} of {0} targets passed", targets.len());
        return (Status::True, Reason::AllTargetsReady, message);
    }
    let name = |target: &&Target| {
        let reason = target.reason.as_deref().unwrap_or_default();
        format!("{} ({reason})", target.name)
    };
    let mut named: Vec<_> = failing.iter().take(NAMED).map(name).collect();
    if let Some(more) = failing.len().checked_sub(NAMED).filter(|more| *more > 0) {
        named.push(format!("{more} more"));
    }
    let message = format!("not ready: {}", named.join(", "));
    (Status::False, Reason::TargetsNotReady, message)
}

/// The rows of a provider that says `status` after `found`.
#[must_use]
pub fn rows(
    provider: &str,
    status: &ProviderHealthStatus,
    found: &Found,
    now: Timestamp,
) -> Vec<Row> {
    let took = |target: &Target| match found {
        Found::Silence(took, _) => *took,
        Found::Checks(checks) => checks
            .iter()
            .find(|check| check.name == target.name)
            .map_or(Duration::ZERO, |check| check.latency),
    };
    let row = |target: &Target| Row {
        provider: provider.to_owned(),
        target: target.name.clone(),
        up: target.ready,
        took: took(target),
        at: Duration::try_from(now.as_duration())
            .unwrap_or_default()
            .as_secs_f64(),
    };
    status.targets.iter().map(row).collect()
}

fn millis(took: Duration) -> u32 {
    took.as_millis().try_into().unwrap_or(u32::MAX)
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_MESSAGE).collect()
}
