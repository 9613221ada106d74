//! Rounds, one after the other, and what each makes of the last.

use super::*;
use crds::ProviderType;

fn check(name: &str, ready: bool, reason: &'static str) -> TargetCheck {
    TargetCheck {
        name: name.into(),
        address: format!("{name}:22"),
        ready,
        reason,
        message: format!("{name} says {reason}"),
        latency: Duration::from_millis(1500),
        details: BTreeMap::from([("version".into(), "1".into())]),
    }
}

fn checks(checks: &[(&str, bool, &'static str)]) -> Found {
    let all = checks.iter();
    Found::Checks(all.map(|(n, ready, why)| check(n, *ready, why)).collect())
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn since(status: &ProviderHealthStatus) -> Vec<i64> {
    let time = |target: &Target| {
        target
            .last_transition_time
            .as_ref()
            .map(|t| t.0.as_second())
    };
    status.targets.iter().filter_map(time).collect()
}

fn ready(status: &ProviderHealthStatus) -> (&str, &str, &str, i64) {
    let ready = conditions::get(&status.conditions, ConditionType::Ready).expect("is set");
    (
        &ready.status,
        &ready.reason,
        &ready.message,
        ready.last_transition_time.0.as_second(),
    )
}

#[test]
fn what_is_up_from_the_start_is_no_news_and_what_is_down_is() {
    let found = checks(&[("a", true, "Reachable"), ("b", false, "Unreachable")]);
    let (status, news) = next(None, "kvm", &found, at(7));
    assert_eq!(status.type_, Some(ProviderType::Kvm));
    assert_eq!(status.targets_ready.as_deref(), Some("1/2"));
    assert_eq!(
        status.last_check_time.as_ref().map(|t| t.0.as_second()),
        Some(7)
    );
    assert_eq!(
        ready(&status),
        ("False", "TargetsNotReady", "not ready: b (Unreachable)", 7)
    );
    let [news] = &news[..] else {
        panic!("{news:?}")
    };
    assert_eq!(
        news.to_string(),
        "b (b:22): Unreachable: b says Unreachable"
    );
    assert!(!news.ready);
    let a = &status.targets[0];
    assert_eq!(
        (a.latency_millis, a.address.as_deref()),
        (Some(1500), Some("a:22"))
    );
    assert_eq!(a.details["version"], "1");
}

#[test]
fn times_move_only_when_a_verdict_flips() {
    let steps: [(&str, bool, &[i64], usize); 7] = [
        ("Reachable", true, &[0], 0),
        ("Reachable", true, &[0], 0),
        ("Timeout", false, &[2], 1),
        ("Unreachable", false, &[2], 1),
        ("Unreachable", false, &[2], 0),
        ("Reachable", true, &[5], 1),
        ("Else", true, &[5], 0),
    ];
    let mut before = None;
    for (second, (reason, up, times, news)) in (0..).zip(steps) {
        let found = checks(&[("a", up, reason)]);
        let (status, told) = next(before.as_ref(), "kvm", &found, at(second));
        assert_eq!(since(&status), times, "{second}");
        assert_eq!(ready(&status).3, times[0], "{second}");
        assert_eq!(told.len(), news, "{second}: {told:?}");
        before = Some(status);
    }
}

#[test]
fn silence_is_a_timeout_of_every_known_target() {
    let found = checks(&[("a", true, "Reachable"), ("b", false, "Timeout")]);
    let (before, _) = next(None, "kvm", &found, at(0));
    let silence = Found::Silence(Duration::from_secs(15), "no answer".into());
    let (status, news) = next(Some(&before), "kvm", &silence, at(1));
    assert_eq!(since(&status), [1, 0]);
    assert_eq!(
        news.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["a (a:22): Timeout: no result within 15 s: no answer"]
    );
    assert_eq!(status.targets_ready.as_deref(), Some("0/2"));
    let rows = rows("p", &status, &silence, at(1));
    assert!(rows.iter().all(|row| !row.up && row.took.as_secs() == 15));
}

#[test]
fn a_provider_of_which_nothing_was_ever_heard_says_so_once() {
    let silence = Found::Silence(Duration::from_secs(15), "no answer".into());
    let (status, news) = next(None, "gcp", &silence, at(0));
    assert_eq!(ready(&status).1, "TargetsNotReady");
    assert_eq!(status.targets_ready.as_deref(), Some("0/0"));
    assert_eq!(
        news[0].to_string(),
        "Timeout: no result within 15 s: no answer"
    );
    let (_, news) = next(Some(&status), "gcp", &silence, at(1));
    assert!(news.is_empty());
}

#[test]
fn a_provider_without_targets_has_no_checker() {
    let (status, news) = next(None, "gcp", &checks(&[]), at(0));
    assert_eq!(
        (ready(&status).0, ready(&status).1),
        ("Unknown", "NoChecker")
    );
    assert!(news.is_empty());
}

#[test]
fn what_is_too_long_is_cut() {
    let mut long = check("a", false, "APIError");
    long.message = "ü".repeat(2000);
    let many = (0..50).map(|n| check(&format!("t{n}"), false, "Timeout"));
    let found = Found::Checks(many.chain([long]).collect());
    let (status, _) = next(None, "kvm", &found, at(0));
    let message = status.targets[50].message.as_deref().expect("says why");
    assert_eq!(message.chars().count(), MAX_MESSAGE);
    assert!(ready(&status).2.ends_with("t19 (Timeout), 31 more"));
    // A target of which nothing is heard any more is not kept.
    let (status, _) = next(
        Some(&status),
        "kvm",
        &checks(&[("a", true, "Reachable")]),
        at(1),
    );
    assert_eq!(status.targets.len(), 1);
    assert_eq!(ready(&status).2, "1 of 1 targets passed");
}
