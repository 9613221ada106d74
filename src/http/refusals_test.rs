use super::tests::{NOBODYS, fleet};
use crate::http::testing::served;

/// Method, path, body; the refusal, and what its message names. `{lease}` is a live one's path.
const REFUSALS: &[(&str, &str, &str, &str, &str)] = &[
    (
        "GET",
        "/v1/proxies?healthy=1",
        "",
        "400 invalid_query",
        "healthy",
    ),
    (
        "GET",
        "/v1/proxies?attr.geo=a&attr.geo=b",
        "",
        "400 invalid_query",
        "attr.geo",
    ),
    ("GET", "/v1/proxies?zone=a", "", "400 invalid_query", "zone"),
    (
        "GET",
        "/v1/proxies?attr.geo=%ff",
        "",
        "400 invalid_query",
        "%ff",
    ),
    (
        "GET",
        "/v1/proxies/fleet/a?healthy=true",
        "",
        "400 invalid_query",
        "",
    ),
    (
        "POST",
        "/v1/leases?attr.geo=de",
        "",
        "400 invalid_query",
        "",
    ),
    ("GET", "/v1/proxies/fleet/x", "", "404 unknown_proxy", ""),
    ("GET", "/v1/proxies/fleet/%ff", "", "404 unknown_proxy", ""),
    ("GET", "/v1/proxies/fl%2Feet/a", "", "404 unknown_proxy", ""),
    ("POST", "/v1/leases", "[]", "400 invalid_body", "object"),
    (
        "POST",
        "/v1/leases",
        r#"{"geo":"de"}"#,
        "400 invalid_body",
        "`geo`",
    ),
    (
        "POST",
        "/v1/leases",
        r#"{"selector":{"geo":1}}"#,
        "400 invalid_body",
        "selector.geo",
    ),
    (
        "POST",
        "/v1/leases",
        r#"{"target":"a b"}"#,
        "400 invalid_body",
        "target",
    ),
    (
        "POST",
        "/v1/leases",
        r#"{"ttlSeconds":0}"#,
        "400 invalid_ttl",
        "ttlSeconds",
    ),
    (
        "POST",
        "/v1/leases",
        r#"{"ttlSeconds":3601}"#,
        "400 invalid_ttl",
        "3600",
    ),
    (
        "POST",
        "/v1/leases",
        r#"{"selector":{"geo":"us"}}"#,
        "409 no_match",
        "",
    ),
    (
        "POST",
        "{lease}/renew",
        r#"{"ttlSeconds":"5"}"#,
        "400 invalid_ttl",
        "ttlSeconds",
    ),
    ("POST", "{lease}/renew", "{", "400 invalid_body", "JSON"),
    ("POST", "{lease}/report", "", "400 invalid_result", "result"),
    (
        "POST",
        "{lease}/report",
        r#"{"result":"meh"}"#,
        "400 invalid_result",
        "result",
    ),
    (
        "POST",
        "{lease}/report",
        r#"{"result":5}"#,
        "400 invalid_body",
        "result",
    ),
    (
        "POST",
        "{lease}/report",
        r#"{"result":"ok","target":""}"#,
        "400 invalid_body",
        "target",
    ),
    (
        "POST",
        "{nobodys}/report",
        r#"{"result":"ok"}"#,
        "404 unknown_lease",
        "",
    ),
    ("POST", "{nobodys}/renew", "", "404 unknown_lease", ""),
    ("GET", "{nobodys}", "", "404 unknown_lease", ""),
    ("GET", "/v1/leases/x", "", "404 unknown_lease", ""),
    ("GET", "/", "", "404 not_found", ""),
    ("GET", "/v1/lease", "", "404 not_found", ""),
    ("GET", "/v1/leases", "", "405 method_not_allowed", "POST"),
    (
        "OPTIONS",
        "/v1/proxies",
        "",
        "405 method_not_allowed",
        "GET",
    ),
    ("PATCH", "{lease}", "", "405 method_not_allowed", "DELETE"),
];

#[tokio::test]
async fn every_refusal_has_its_code() {
    let api = served(fleet()).await;
    let lease = api.call("POST", "/v1/leases", "").await.text("leaseID");
    let lease = format!("/v1/leases/{lease}");
    for (method, path, body, refusal, named) in REFUSALS {
        let path = path
            .replace("{lease}", &lease)
            .replace("{nobodys}", NOBODYS);
        let answer = api.call(method, &path, body).await;
        assert_eq!(answer.refusal(), *refusal, "{method} {path} {body:.40}");
        assert!(answer.text("message").contains(named), "{answer:?}");
    }
    let large = format!(r#"{{"target":"{}"}}"#, "a".repeat(64 * 1024));
    let refused = api.call("POST", "/v1/leases", &large).await;
    assert_eq!(refused.refusal(), "400 invalid_body");
    let released = api.call("DELETE", "/v1/leases/x?y", "{}").await;
    assert_eq!(released.status, 204, "always");
    let refused = api.call("PUT", &lease, "").await;
    assert_eq!(refused.header("allow"), "GET, HEAD, DELETE");
}
