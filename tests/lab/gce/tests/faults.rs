//! Trouble that is ordered.

use super::{Fixture, ZONE, body, read, why};
use crate::gce::faults::{self, Act, On};
use reqwest::Method;
use serde_json::Value;
use std::time::{Duration, Instant};

const GET: &str = "compute.instances.get";
const INSERT: &str = "compute.instances.insert";

#[tokio::test]
async fn each_refusal_is_as_google_writes_it() {
    let lab = Fixture::new().await;
    for (refusal, code, reason, status, info) in [
        (
            faults::unauthenticated(),
            401,
            "authError",
            "UNAUTHENTICATED",
            "ACCESS_TOKEN_EXPIRED",
        ),
        (
            faults::forbidden("compute.instances.get", "x"),
            403,
            "forbidden",
            "",
            "",
        ),
        (
            faults::api_disabled(),
            403,
            "accessNotConfigured",
            "PERMISSION_DENIED",
            "SERVICE_DISABLED",
        ),
        (faults::quota_exceeded(), 403, "quotaExceeded", "", ""),
        (
            faults::rate_limited(),
            403,
            "rateLimitExceeded",
            "PERMISSION_DENIED",
            "RATE_LIMIT_EXCEEDED",
        ),
        (
            faults::insufficient_scopes(),
            403,
            "insufficientPermissions",
            "PERMISSION_DENIED",
            "ACCESS_TOKEN_SCOPE_INSUFFICIENT",
        ),
        (faults::condition_not_met(), 412, "conditionNotMet", "", ""),
        (
            faults::too_many(7),
            429,
            "rateLimitExceeded",
            "RESOURCE_EXHAUSTED",
            "RATE_LIMIT_EXCEEDED",
        ),
        (faults::server_error(500), 500, "backendError", "", ""),
        (faults::server_error(502), 502, "backendError", "", ""),
        (faults::server_error(503), 503, "backendError", "", ""),
    ] {
        lab.gce.order(On::method(GET), 1, Act::refuse(refusal));
        let path = format!("/zones/{ZONE}/instances/a");
        let answer = lab.send(Method::GET, &path, None).await;
        let header = |name: &str| answer.headers().get(name).cloned();
        assert_eq!(header("retry-after").is_some(), code == 429);
        assert_eq!(header("www-authenticate").is_some(), code == 401);
        let (given, refused) = read(answer).await;
        assert_eq!((given, why(&refused).1), (code, reason));
        let error = &refused["error"];
        assert_eq!(error["code"], code);
        assert_eq!(error["status"].as_str().unwrap_or(""), status);
        assert_eq!(error["details"][0]["reason"].as_str().unwrap_or(""), info);
        // It was ordered once.
        assert_eq!(lab.get(&path).await.0, 404);
    }
}

#[tokio::test]
async fn trouble_is_for_those_requests_that_it_is_ordered_for() {
    let lab = Fixture::new().await;
    let refuse = || Act::refuse(faults::server_error(500));
    lab.gce.order(On::method(INSERT).with("\"b\""), 2, refuse());
    assert_eq!(lab.insert(&body("a")).await.0, 200);
    assert_eq!(lab.insert(&body("b")).await.0, 500);
    assert_eq!(lab.insert(&body("b")).await.0, 500);
    assert_eq!(lab.insert(&body("b")).await.0, 200);
    lab.gce.order(On::any(), 5, refuse());
    assert_eq!(lab.instance("a").await.0, 500);
    lab.gce.calm();
    assert_eq!(lab.instance("a").await.0, 404);
}

#[tokio::test]
async fn a_connection_is_reset_before_or_after_it_is_done() {
    let lab = Fixture::new().await;
    let path = format!("/zones/{ZONE}/instances");
    for (act, name, done) in [(Act::Reset, "a", false), (Act::ResetAfter, "b", true)] {
        lab.gce.order(On::method(INSERT), 1, act);
        let sent = lab.try_send(Method::POST, &path, Some(&body(name))).await;
        let error = format!("{:?}", sent.unwrap_err());
        assert!(error.contains("ConnectionReset"), "{error}");
        lab.pass(1.0);
        assert_eq!(lab.instance(name).await.0 == 200, done, "{name}");
    }
    let resets = lab.gce.requests();
    assert_eq!(resets.iter().filter(|one| one.status == 0).count(), 2);
}

#[tokio::test]
async fn an_answer_is_broken_and_what_was_asked_is_done() {
    let lab = Fixture::new().await;
    let path = format!("/zones/{ZONE}/instances");
    let refusal = Act::RefuseAfter(Box::new(faults::server_error(503)));
    for (act, name, status) in [
        (Act::Truncate, "a", 200),
        (Act::Cut, "b", 200),
        (refusal, "c", 503),
    ] {
        lab.gce.order(On::method(INSERT), 1, act);
        let answer = lab.send(Method::POST, &path, Some(&body(name))).await;
        assert_eq!(answer.status(), status);
        let text = answer.text().await;
        match name {
            "a" => assert!(serde_json::from_str::<Value>(&text.unwrap()).is_err()),
            "b" => assert!(text.is_err()),
            _ => assert!(text.is_ok()),
        }
        lab.pass(1.0);
        assert_eq!(lab.instance(name).await.0, 200, "{name}");
    }
}

#[tokio::test]
async fn an_answer_is_slow_or_a_page_of_a_load_balancer() {
    let lab = Fixture::new().await;
    let slow = Duration::from_millis(300);
    for act in [Act::Wait(slow), Act::WaitAfter(slow)] {
        lab.gce.order(On::method(GET), 1, act);
        let begun = Instant::now();
        assert_eq!(lab.instance("a").await.0, 404);
        assert!(begun.elapsed() >= slow);
    }
    assert_eq!(lab.gce.hung(), 2);
    lab.gce.order(On::method(GET), 1, Act::html());
    let path = format!("/zones/{ZONE}/instances/a");
    let answer = lab.send(Method::GET, &path, None).await;
    assert_eq!(answer.status(), 503);
    assert!(answer.text().await.unwrap().starts_with("<html>"));
}

#[tokio::test]
async fn what_was_asked_is_on_record() {
    let lab = Fixture::new().await;
    lab.insert(&body("a")).await;
    lab.get("/aggregated/instances?maxResults=1").await;
    let seen = lab.gce.requests();
    let [insert, list] = &seen[..] else {
        panic!("{seen:?}");
    };
    assert_eq!((insert.method.as_str(), insert.status), (INSERT, 200));
    assert!(insert.body.contains("egress-proxy"));
    assert_eq!(list.query, "maxResults=1");
    assert_eq!((insert.http.as_str(), list.http.as_str()), ("POST", "GET"));
    assert_eq!(lab.gce.counts().values().sum::<u64>(), 2);
    lab.gce.clear_requests();
    assert!(lab.gce.requests().is_empty());
}
