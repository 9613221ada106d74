use super::{LISTS, answers};
use crate::http::{
    Auth, Limits, Settings, Unavailable,
    testing::{LedgerDesk, Served, proxy, served, served_with},
};
use actors::leases::terms::Candidate;
use http_body_util::BodyExt as _;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;

pub(super) const NOBODYS: &str = "/v1/leases/AAAAAAAAAAAAAAAAAAAAAAAAAA";

pub(super) fn fleet() -> LedgerDesk {
    LedgerDesk::with([
        proxy("a", &[("geo", "de")]),
        proxy("b", &[("geo", "fr"), ("asn", "64500")]),
        Candidate {
            healthy: false,
            latency_millis: None,
            ..proxy("c", &[])
        },
    ])
}

#[tokio::test]
async fn a_lease_lives_from_acquire_to_release() {
    let api = served(fleet()).await;
    let granted = api
        .call(
            "POST",
            "/v1/leases",
            r#"{"selector":{"geo":"fr"},"target":"WWW.example.com:443"}"#,
        )
        .await;
    assert_eq!(granted.status, 201);
    assert_eq!(granted.header("content-type"), "application/json");
    assert_eq!(granted.body["ttlSeconds"], 300);
    assert_eq!(
        granted.body["proxy"],
        json!({
            "id": "fleet/b", "ip": "192.0.2.1", "port": 3128, "phase": "Ready", "healthy": true,
            "attributes": { "geo": "fr", "asn": "64500" },
            "latencyMillis": 20, "activeLeases": 1, "maxLeases": 2,
        })
    );
    let lease = format!("/v1/leases/{}", granted.text("leaseID"));
    let ends = humantime::parse_rfc3339(&granted.text("expiresAt")).expect("RFC 3339");
    let left = ends
        .duration_since(std::time::SystemTime::now())
        .expect("to come");
    assert!((295..=300).contains(&left.as_secs()), "{left:?}");

    let shown = api.get(&lease).await;
    assert_eq!(
        shown.body,
        json!({
            "leaseID": granted.body["leaseID"], "proxy": "fleet/b", "target": "www.example.com",
            "expiresAt": granted.body["expiresAt"], "ttlSeconds": 300,
        })
    );
    let renewed = api
        .call("POST", &format!("{lease}/renew"), r#"{"ttlSeconds":3600}"#)
        .await;
    assert_eq!(
        (renewed.status, &renewed.body["ttlSeconds"]),
        (200, &json!(3600))
    );
    assert!(renewed.text("expiresAt") > granted.text("expiresAt"));

    for _ in 0..2 {
        let released = api.call("DELETE", &lease, "").await;
        assert_eq!(
            (released.status, released.header("content-type")),
            (204, "")
        );
    }
    assert_eq!(api.get(&lease).await.refusal(), "404 unknown_lease");
    let late = api.call("POST", &format!("{lease}/renew"), "").await;
    assert_eq!(late.refusal(), "404 unknown_lease");
    let report = api
        .call("POST", &format!("{lease}/report"), r#"{"result":"banned"}"#)
        .await;
    assert_eq!(report.status, 204, "an ended lease stays reportable");
}

#[tokio::test]
async fn proxies_are_listed_by_what_they_are() {
    let api = served(fleet()).await;
    for (query, ids) in [
        ("", &["fleet/a", "fleet/b", "fleet/c"][..]),
        ("?healthy=true", &["fleet/a", "fleet/b"]),
        ("?healthy=false", &["fleet/c"]),
        ("?attr.geo=fr&attr.asn=64500", &["fleet/b"]),
        ("?attr.geo=f%72", &["fleet/b"]),
        ("?attr.geo=fr&attr.asn=1", &[]),
    ] {
        let list = api.get(&format!("/v1/proxies{query}")).await;
        let found: Vec<_> = list.body["proxies"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one["id"].as_str().expect("an id"))
            .collect();
        assert_eq!((list.status, found), (200, ids.to_vec()), "{query}");
        assert_eq!(list.body["count"], ids.len());
    }
    let one = api.get("/v1/proxies/fleet/%63").await.body;
    assert_eq!(one["id"], "fleet/c");
    assert!(
        one["latencyMillis"].is_null() && one.get("attributes").is_none(),
        "{one}"
    );
}

#[tokio::test]
async fn a_refused_acquire_counts_why() {
    let api = served(fleet()).await;
    let wants = r#"{"target":"shop.example","selector":{"geo":"de"}}"#;
    let lease = api.call("POST", "/v1/leases", wants).await.text("leaseID");
    let report = format!("/v1/leases/{lease}/report");
    let banned = api.call("POST", &report, r#"{"result":"banned"}"#).await;
    assert_eq!(banned.status, 204);
    for _ in 0..2 {
        api.call("POST", "/v1/leases", r#"{"selector":{"geo":"fr"}}"#)
            .await;
    }
    let refused = api
        .call("POST", "/v1/leases", r#"{"target":"SHOP.example."}"#)
        .await;
    assert_eq!(refused.refusal(), "409 no_match");
    for (count, of) in [
        ("considered", 3),
        ("atCapacity", 1),
        ("inCooldown", 1),
        ("unhealthy", 1),
    ] {
        assert_eq!(refused.body[count], of, "{count}");
    }
    let elsewhere = api
        .call("POST", "/v1/leases", r#"{"target":"news.example"}"#)
        .await;
    assert_eq!(elsewhere.status, 201, "the cooldown is for one target");
}

#[tokio::test]
async fn an_acquire_sent_again_gets_the_same_lease() {
    let api = served(fleet()).await;
    let send = async |key: &str, body: &str| {
        let request = api
            .request("POST", "/v1/leases")
            .header("Idempotency-Key", key);
        Served::send(request.body(body.to_owned())).await
    };
    let first = send("job-1", r#"{"ttlSeconds":60}"#).await;
    let again = send("job-1", r#"{ "ttlSeconds": 60 }"#).await;
    assert_eq!((again.status, &again.body), (201, &first.body));
    let other = send("job-1", r#"{"ttlSeconds":61}"#).await;
    assert_eq!(other.refusal(), "400 invalid_body");
    let longest = send(&"k".repeat(128), "").await;
    assert_eq!(longest.status, 201);
    for bad in ["", &"k".repeat(129), "two words"] {
        assert_eq!(send(bad, "").await.refusal(), "400 invalid_body", "{bad:?}");
    }
    let twice = api
        .request("POST", "/v1/leases")
        .header("Idempotency-Key", "a")
        .header("Idempotency-Key", "a");
    assert_eq!(Served::send(twice).await.refusal(), "400 invalid_body");
}

#[tokio::test]
async fn a_chunked_body_is_limited_like_the_rest() {
    let api = served(fleet()).await;
    let chunked = async |pieces: Vec<Vec<u8>>| {
        let pieces = pieces.into_iter().map(Ok::<_, std::io::Error>);
        let body = reqwest::Body::wrap_stream(futures::stream::iter(pieces));
        Served::send(api.request("POST", "/v1/leases").body(body)).await
    };
    let small = chunked(vec![b"{\"ttlSeco".to_vec(), b"nds\":5}".to_vec()]).await;
    assert_eq!((small.status, &small.body["ttlSeconds"]), (201, &json!(5)));
    let large = chunked(vec![vec![b' '; 16 * 1024]; 5]).await;
    assert_eq!(large.refusal(), "400 invalid_body");
    assert!(
        large.text("message").contains("over 65536 bytes"),
        "{large:?}"
    );
    let never_read = Served::send(api.request("PUT", "/v1/leases").body(vec![b' '; 8 << 20])).await;
    assert_eq!(
        never_read.refusal(),
        "405 method_not_allowed",
        "and not a broken pipe"
    );
    let mut padded = b"{}".to_vec();
    padded.resize(64 * 1024, b' ');
    let fitting = chunked(padded.chunks(1000).map(<[u8]>::to_vec).collect()).await;
    assert_eq!(fitting.status, 201);
}

#[tokio::test]
async fn one_request_too_many_is_answered_503() {
    let desk = fleet();
    let auth = Auth::new(None, None, Duration::MAX)
        .await
        .expect("no token");
    let settings = Settings {
        in_flight: 2,
        ..Settings::default()
    };
    let api = served_with(desk.clone(), auth, settings, Limits::default()).await;
    desk.close_gate();
    let request = api.request("GET", "/v1/proxies");
    let hanging: Vec<_> = (0..2)
        .map(|_| tokio::spawn(Served::send(request.try_clone().expect("no body"))))
        .collect();
    desk.came.acquire_many(2).await.expect("open").forget();
    let refused = Served::send(request).await;
    assert_eq!(refused.refusal(), "503 overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(api.get("/healthz").await.status, 200);
    desk.open_gate();
    for answer in hanging {
        assert_eq!(answer.await.expect("ends").status, 200);
    }
    assert_eq!(api.get("/v1/proxies").await.status, 200);
}

#[tokio::test]
async fn one_list_too_many_is_answered_503_and_other_requests_are_not() {
    let desk = fleet();
    let api = served(desk.clone()).await;
    desk.close_gate();
    let request = api.request("GET", "/v1/proxies");
    let hanging: Vec<_> = (0..LISTS)
        .map(|_| tokio::spawn(Served::send(request.try_clone().expect("no body"))))
        .collect();
    let lists = u32::try_from(LISTS).expect("few");
    desk.came.acquire_many(lists).await.expect("open").forget();
    let refused = Served::send(request).await;
    assert_eq!(refused.refusal(), "503 overloaded");
    desk.open_gate();
    for answer in hanging {
        assert_eq!(answer.await.expect("ends").status, 200);
    }
    let list = api.get("/v1/proxies").await;
    assert_eq!(list.status, 200);
    assert_eq!(
        list.header("content-length"),
        list.body.to_string().len().to_string()
    );
}

#[tokio::test]
async fn a_large_answer_holds_its_place_until_it_is_sent() {
    let places = Arc::new(Semaphore::new(1));
    let place = Arc::clone(&places).try_acquire_owned().expect("free");
    let mut body = answers::large_json(&["a"], place).into_body();
    let piece = body.frame().await.expect("a piece").expect("no error");
    assert_eq!(piece.into_data().expect("data"), "[\"a\"]");
    assert_eq!(places.available_permits(), 0);
    assert!(body.frame().await.is_none());
    drop(body);
    assert_eq!(places.available_permits(), 1);
}

#[tokio::test]
async fn a_ledger_without_an_answer_is_told_apart() {
    for (why, refusal, retry) in [
        (Unavailable::NotLeader, "503 not_leader", "1"),
        (Unavailable::TooLate, "503 overloaded", "1"),
        (Unavailable::Dropped, "503 not_leader", "1"),
    ] {
        let desk = LedgerDesk {
            down: Some(why),
            ..fleet()
        };
        let api = served(desk).await;
        for (method, path) in [
            ("GET", "/v1/proxies"),
            ("POST", "/v1/leases"),
            ("DELETE", NOBODYS),
        ] {
            let answer = api.call(method, path, "").await;
            assert_eq!(answer.refusal(), refusal, "{method}");
            assert_eq!(answer.header("retry-after"), retry);
        }
    }
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let api = served(fleet()).await;
    let head = Served::send(api.request("HEAD", "/v1/proxies")).await;
    assert_eq!((head.status, head.body.is_null()), (200, true));
    assert!(
        head.header("content-length")
            .parse::<usize>()
            .expect("a length")
            > 100
    );
    let none = Served::send(api.request("HEAD", "/v1/leases")).await;
    assert_eq!((none.status, none.header("allow")), (405, "POST"));
}

#[tokio::test]
async fn requests_are_counted_by_route_and_status() {
    let api = served(fleet()).await;
    api.get("/v1/proxies/fleet/a").await;
    api.get("/v1/proxies/fleet/x").await;
    api.get("/v1/proxies/fleet/y").await;
    api.get("/secret/path").await;
    let text = prometheus::TextEncoder
        .encode_to_string(&api.registry.gather())
        .expect("encodes");
    for line in [
        r#"proxy_operator_http_requests_total{route="/v1/proxies/{namespace}/{name}",status="200"} 1"#,
        r#"proxy_operator_http_requests_total{route="/v1/proxies/{namespace}/{name}",status="404"} 2"#,
        r#"proxy_operator_http_requests_total{route="unmatched",status="404"} 1"#,
        r#"proxy_operator_http_request_duration_seconds_count{route="/v1/proxies/{namespace}/{name}"} 3"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(
        !text.contains("secret") && !text.contains("} 0\nproxy_operator_http_requests"),
        "{text}"
    );
}
