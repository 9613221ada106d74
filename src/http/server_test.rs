use crate::http::{
    Auth, Limits, Settings,
    testing::{LedgerDesk, Served, proxy, served_with},
};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

const SHORT: Duration = Duration::from_millis(150);

async fn impatient(desk: LedgerDesk, limits: Limits) -> Served {
    let auth = Auth::new(None, None, Duration::MAX)
        .await
        .expect("no token");
    let settings = Settings {
        body: SHORT,
        ..Settings::default()
    };
    served_with(desk, auth, settings, limits).await
}

fn desk() -> LedgerDesk {
    LedgerDesk::with([proxy("a", &[])])
}

/// Sends `text` and reads until the server closes the connection.
async fn exchange(api: &Served, text: &str) -> String {
    let mut socket = TcpStream::connect(api.address).await.expect("connects");
    socket.write_all(text.as_bytes()).await.expect("writes");
    let mut answer = Vec::new();
    socket
        .read_to_end(&mut answer)
        .await
        .expect("is closed in order");
    String::from_utf8(answer).expect("text")
}

#[tokio::test]
async fn a_slow_header_and_an_idle_connection_are_cut() {
    let limits = Limits {
        header: SHORT,
        ..Limits::default()
    };
    let api = impatient(desk(), limits).await;
    for begun in ["", "GET /healthz HTTP/1.1\r\nHost: a\r\n"] {
        let started = Instant::now();
        assert_eq!(exchange(&api, begun).await, "");
        assert!(started.elapsed() >= SHORT);
    }
    let idle = exchange(&api, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(
        idle.starts_with("HTTP/1.1 200") && idle.ends_with("ok"),
        "{idle}"
    );
}

#[tokio::test]
async fn a_slow_body_is_refused_and_the_connection_closed() {
    let api = impatient(desk(), Limits::default()).await;
    for head in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
        let request = format!("POST /v1/leases HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n");
        let started = Instant::now();
        let answer = exchange(&api, &request).await;
        assert!(started.elapsed() >= SHORT);
        assert!(
            answer.starts_with("HTTP/1.1 400") && answer.contains("invalid_body"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn broken_chunks_and_a_missing_content_type_are_handled() {
    let api = impatient(desk(), Limits::default()).await;
    let chunked = "POST /v1/leases HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let broken = exchange(&api, &format!("{chunked}zz\r\n")).await;
    assert!(
        broken.starts_with("HTTP/1.1 400") && broken.contains("invalid_body"),
        "{broken}"
    );
    let good = "Connection: close\r\nContent-Length: 16\r\n\r\n{\"ttlSeconds\":5}";
    let good = exchange(
        &api,
        &format!("POST /v1/leases HTTP/1.1\r\nHost: a\r\n{good}"),
    )
    .await;
    assert!(good.starts_with("HTTP/1.1 201"), "{good}");
}

#[tokio::test]
async fn what_is_no_http_is_refused() {
    let api = impatient(desk(), Limits::default()).await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000));
    for (text, status) in [("BLA\r\n\r\n", "400"), (&long, "4")] {
        let answer = exchange(&api, text).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn connections_are_bounded_and_the_next_one_waits() {
    let limits = Limits {
        connections: 1,
        ..Limits::default()
    };
    let api = impatient(desk(), limits).await;
    let mut first = TcpStream::connect(api.address).await.expect("connects");
    let ask = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    first.write_all(ask).await.expect("writes");
    let mut byte = [0];
    first.read_exact(&mut byte).await.expect("an answer");
    let mut second = TcpStream::connect(api.address).await.expect("connects");
    second.write_all(ask).await.expect("writes");
    let early = tokio::time::timeout(SHORT, second.read_exact(&mut byte)).await;
    assert!(early.is_err(), "served over the bound");
    drop(first);
    second.read_exact(&mut byte).await.expect("an answer");
}

#[tokio::test]
async fn a_shutdown_lets_requests_in_flight_finish_and_takes_no_more() {
    let desk = desk();
    let mut api = impatient(desk.clone(), Limits::default()).await;
    desk.close_gate();
    let idle = TcpStream::connect(api.address).await.expect("connects");
    let asked = tokio::spawn(Served::send(api.request("GET", "/v1/proxies")));
    desk.came.acquire().await.expect("open").forget();
    api.stop.cancel();
    while TcpStream::connect(api.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!api.task.is_finished());
    desk.open_gate();
    let answer = asked.await.expect("ends");
    assert_eq!((answer.status, answer.header("connection")), (200, "close"));
    (&mut api.task).await.expect("ends");
    drop(idle);
}

#[tokio::test]
async fn a_shutdown_has_a_deadline() {
    let desk = desk();
    let limits = Limits {
        drain: SHORT,
        ..Limits::default()
    };
    let mut api = impatient(desk.clone(), limits).await;
    desk.close_gate();
    let asked = tokio::spawn(api.request("GET", "/v1/proxies").send());
    desk.came.acquire().await.expect("open").forget();
    let begun = Instant::now();
    api.stop.cancel();
    (&mut api.task).await.expect("ends");
    assert!(begun.elapsed() >= SHORT);
    assert!(
        asked.await.expect("ends").is_err(),
        "the connection was cut"
    );
}
