use super::*;
use crate::http::{
    Api, Auth, Limits, Settings, serve,
    testing::{LedgerDesk, Served, proxy, served_of},
};
use actors::leader::standing::Office;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

const TOKEN: &str = "s3cret";

async fn auth() -> Auth {
    let token = Some(TOKEN.to_owned());
    Auth::new(token, None, Duration::MAX)
        .await
        .expect("a token")
}

fn forward(office: &Office) -> Forward {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    Forward::new(office.standing()).expect("a client")
}

fn fleet() -> LedgerDesk {
    LedgerDesk::with([proxy("a", &[("geo", "de")])])
}

async fn leader() -> Served {
    let settings = Settings::default();
    let registry = prometheus::Registry::new();
    let api = Api::new(fleet(), auth().await, &registry, settings).expect("an API");
    served_of(api, registry).await
}

/// A follower of the leader at `address`; its own desk is never asked.
async fn follower(address: Option<&str>) -> Served {
    let office = Office::default();
    office.follows(address);
    let forward = forward(&office);
    let desk = LedgerDesk {
        down: Some(crate::http::Unavailable::TooLate),
        ..fleet()
    };
    let registry = prometheus::Registry::new();
    let api = Api::new(desk, auth().await, &registry, Settings::default()).expect("an API");
    served_of(api.forwarding(forward), registry).await
}

fn with_token(request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    request.bearer_auth(TOKEN)
}

#[tokio::test]
async fn a_follower_serves_what_the_leader_answers() {
    let leader = leader().await;
    let follower = follower(Some(&leader.address.to_string())).await;
    let ask = |method: &'static str, path: String, body: &'static str| {
        let request = with_token(follower.request(method, &path)).body(body);
        Served::send(request)
    };
    let list = ask("GET", "/v1/proxies?attr.geo=d%65".into(), "").await;
    assert_eq!((list.status, &list.body["count"]), (200, &1.into()));
    let none = ask("GET", "/v1/proxies?attr.geo=fr".into(), "").await;
    assert_eq!((none.status, &none.body["count"]), (200, &0.into()));
    let head = ask("HEAD", "/v1/proxies".into(), "").await;
    assert_eq!((head.status, head.body.is_null()), (200, true));
    let length: usize = head.header("content-length").parse().expect("a length");
    assert!(length > 100, "{length}");

    let request = with_token(follower.request("POST", "/v1/leases"))
        .header("Idempotency-Key", "once")
        .body(r#"{"ttlSeconds":60}"#);
    let granted = Served::send(request.try_clone().expect("is no stream")).await;
    assert_eq!(granted.status, 201, "{granted:?}");
    assert_eq!(granted.header("content-type"), "application/json");
    let again = Served::send(request).await;
    assert_eq!(again.text("leaseID"), granted.text("leaseID"));

    let lease = format!("/v1/leases/{}", granted.text("leaseID"));
    let direct = Served::send(with_token(leader.request("GET", &lease))).await;
    assert_eq!(
        (direct.status, &direct.body["ttlSeconds"]),
        (200, &60.into())
    );
    let report = ask("POST", format!("{lease}/report"), r#"{"result":"banned"}"#).await;
    assert_eq!(report.status, 204);
    assert_eq!(ask("DELETE", lease.clone(), "").await.status, 204);
    let gone = ask("GET", lease, "").await;
    assert_eq!(gone.refusal(), "404 unknown_lease");
    let refused = ask("POST", "/v1/leases".into(), r#"{"ttlSeconds":0}"#).await;
    assert_eq!(refused.refusal(), "400 invalid_ttl");
    let busy = ask("POST", "/v1/leases".into(), "{").await;
    assert_eq!(busy.refusal(), "400 invalid_body");
}

#[tokio::test]
async fn a_follower_looks_at_token_route_and_size_itself() {
    let follower = follower(None).await;
    assert_eq!(follower.get("/healthz").await.status, 200);
    let stranger = follower.get("/v1/proxies").await;
    assert_eq!(stranger.refusal(), "401 unauthorized");
    let nothing = Served::send(with_token(follower.request("GET", "/v2"))).await;
    assert_eq!(nothing.refusal(), "404 not_found");
    let itself = Served::send(with_token(follower.request("GET", "/openapi.json"))).await;
    assert_eq!(itself.status, 200);
    let large = with_token(follower.request("POST", "/v1/leases")).body(vec![b' '; 70_000]);
    assert_eq!(Served::send(large).await.refusal(), "400 invalid_body");
}

#[tokio::test]
async fn without_a_leader_that_can_be_reached_it_says_so() {
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = closed.local_addr().expect("an address").to_string();
    drop(closed);
    for leader in [None, Some(&*address), Some("no such host:1")] {
        let follower = follower(leader).await;
        for (method, path) in [("GET", "/v1/proxies"), ("POST", "/v1/leases")] {
            let answer = Served::send(with_token(follower.request(method, path))).await;
            assert_eq!(answer.refusal(), "503 not_leader", "{leader:?}");
            assert_eq!(answer.header("retry-after"), "1");
        }
    }
}

/// Two that take each other for the leader.
#[tokio::test]
async fn a_request_is_passed_on_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("an address").to_string();
    let one = follower(Some(&address)).await;
    let office = Office::default();
    office.follows(Some(&one.address.to_string()));
    let forward = forward(&office);
    let registry = prometheus::Registry::new();
    let api = Api::new(fleet(), auth().await, &registry, Settings::default()).expect("an API");
    let service = api.forwarding(forward).service();
    tokio::spawn(serve(
        listener,
        service,
        Limits::default(),
        std::future::pending(),
    ));
    let answer = Served::send(with_token(one.request("GET", "/v1/proxies"))).await;
    assert_eq!(answer.refusal(), "503 not_leader");
}

/// Reads a request and hangs up, every time.
#[tokio::test]
async fn what_may_have_been_done_is_not_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("an address").to_string();
    let came = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&came);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut first = [0; 1024];
            if stream.read(&mut first).await.is_ok_and(|read| read > 0) {
                counted.fetch_add(1, SeqCst);
            }
        }
    });
    let follower = follower(Some(&address)).await;
    let answer = Served::send(with_token(follower.request("POST", "/v1/leases"))).await;
    assert_eq!(answer.refusal(), "500 internal");
    assert_eq!(came.load(SeqCst), 1);
}

#[tokio::test]
async fn headers_go_from_end_to_end_and_hop_by_hop_ones_do_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("an address").to_string();
    let seen = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).await.expect("a header");
            text.push(byte[0]);
        }
        let answer = "HTTP/1.1 200 OK\r\nX-Kept: yes\r\nX-Dropped: yes\r\n\
            Connection: close, X-Dropped\r\nContent-Length: 2\r\n\r\n{}";
        stream.write_all(answer.as_bytes()).await.expect("writes");
        String::from_utf8(text).expect("text").to_ascii_lowercase()
    });
    let follower = follower(Some(&address)).await;
    let request = with_token(follower.request("GET", "/v1/proxies?healthy=true"))
        .header(
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
        .header("Connection", "X-Mine")
        .header("X-Mine", "1");
    let answer = Served::send(request).await;
    assert_eq!((answer.status, answer.header("x-kept")), (200, "yes"));
    assert_eq!(answer.header("x-dropped"), "");
    let seen = seen.await.expect("a request");
    for there in [
        "get /v1/proxies?healthy=true http/1.1",
        "authorization: bearer s3cret",
        "traceparent: 00-0af7",
        "x-proxy-operator-hop: 1",
        &format!("host: {address}"),
    ] {
        assert!(seen.contains(there), "{there} is not in {seen}");
    }
    assert!(!seen.contains("x-mine"), "{seen}");
}

#[tokio::test]
async fn a_leader_answers_itself_and_one_whose_tenure_ended_does_not() {
    let office = Office::default();
    office.leads(
        1,
        Some(tokio::time::Instant::now() + Duration::from_millis(300)),
    );
    let forward = forward(&office);
    let registry = prometheus::Registry::new();
    let api = Api::new(fleet(), auth().await, &registry, Settings::default()).expect("an API");
    let api = served_of(api.forwarding(forward), registry).await;
    let ask = || Served::send(with_token(api.request("GET", "/v1/proxies")));
    assert_eq!(ask().await.status, 200);
    let standing = office.standing();
    while standing.may_act() {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask().await.refusal(), "503 not_leader");
}
