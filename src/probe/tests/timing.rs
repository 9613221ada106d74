//! The budget, wherever it runs out; and a probe that is given up.

use super::*;
use std::time::Instant;
use tokio::{net::TcpSocket, sync::mpsc};

/// Short, but enough for a busy machine to come to the step that hangs.
const SHORT: Duration = Duration::from_secs(2);

/// An address whose TCP never answers: a listener with more waiting connections than it takes.
pub struct Sink {
    pub address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Sink {
    pub async fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        socket.bind(any).expect("bound");
        let listener = socket.listen(1).expect("listens");
        let address = listener.local_addr().expect("an address");
        let mut waiting = Vec::new();
        while let Ok(stream) =
            tokio::time::timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            waiting.push(stream.expect("connected"));
            assert!(waiting.len() < 100, "the listener takes everything");
        }
        Self {
            address,
            _listener: listener,
            _waiting: waiting,
        }
    }
}

async fn assert_times_out(probe: &NetProbe, fetch: Fetch, stage: &str) {
    let fetch = Fetch {
        timeout: SHORT,
        ..fetch
    };
    let begun = Instant::now();
    let outcome = probe.probe(&fetch).await;
    let took = begun.elapsed();
    assert_failed(&outcome, FailureKind::Timeout, stage);
    assert_failed(&outcome, FailureKind::Timeout, "within the 2s of the probe");
    assert!(took >= SHORT && took < 2 * SHORT, "{took:?}");
}

#[tokio::test]
async fn a_black_hole_ends_with_the_budget() {
    let probe = NetProbe::new(None).expect("a probe");
    let sink = Sink::new().await;
    let stage = format!("dialling the proxy {}: no connection", sink.address);
    assert_times_out(&probe, through(sink.address), &stage).await;
}

#[tokio::test]
async fn a_proxy_that_never_answers_ends_with_the_budget() {
    let probe = NetProbe::new(None).expect("a probe");
    let address = proxy(|stream| hang(stream)).await;
    assert_times_out(&probe, through(address), "CONNECT target.test:443").await;
    let plain = of("http://target.test/", through(address));
    assert_times_out(&probe, plain, "GET http://target.test/").await;
}

#[tokio::test]
async fn an_answer_that_trickles_ends_with_the_budget() {
    let probe = NetProbe::new(None).expect("a probe");
    let address = proxy(|mut stream| async move {
        head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\n")
            .await
            .expect("sent");
        let mut tick = tokio::time::interval(SHORT / 10);
        while stream.write_all(b"A: b\r\n").await.is_ok() {
            tick.tick().await;
        }
    })
    .await;
    assert_times_out(&probe, through(address), "CONNECT target.test:443").await;
}

#[tokio::test]
async fn a_target_that_hangs_in_the_handshake_ends_with_the_budget() {
    let probe = NetProbe::new(None).expect("a probe");
    let address = proxy(|mut stream| async move {
        head(&mut stream).await;
        stream.write_all(OPEN.as_bytes()).await.expect("sent");
        hang(stream).await;
    })
    .await;
    assert_times_out(&probe, through(address), "TLS with target.test:443").await;
}

#[tokio::test]
async fn a_target_that_hangs_before_or_in_its_answer_ends_with_the_budget() {
    let World { probe, target } = world();
    for (said, missing) in [
        ("", "no complete answer"),
        ("HTTP/1.1 204 No", "no complete answer"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "no complete answer"),
        ("HTTP/1.1 204 OK\r\nContent-Length: 0\r\n\r\n", ""),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npage",
            "the body did not end",
        ),
    ] {
        let target = target.clone();
        let address = proxy(move |stream| {
            let target = target.clone();
            async move {
                let mut session = open_tunnel(stream, &target).await;
                head(&mut session).await;
                session.write_all(said.as_bytes()).await.expect("sent");
                session.flush().await.expect("sent");
                hang(session).await;
            }
        })
        .await;
        let expected = if said.contains("200") { 200 } else { 204 };
        let fetch = expecting(expected, through(address));
        if missing.is_empty() {
            // All is said, so a connection that stays open is not waited for.
            probe.probe(&fetch).await.expect("a success");
        } else {
            let stage = format!("GET https://target.test/check through {address}: {missing}");
            assert_times_out(&probe, fetch, &stage).await;
        }
    }
}

#[tokio::test]
async fn a_wrong_status_is_told_without_waiting_for_the_body() {
    let World { probe, target } = world();
    let address = proxy(move |stream| {
        let target = target.clone();
        async move {
            let mut session = open_tunnel(stream, &target).await;
            head(&mut session).await;
            let said = b"HTTP/1.1 503 Down\r\nContent-Length: 9\r\n\r\n";
            session.write_all(said).await.expect("sent");
            session.flush().await.expect("sent");
            hang(session).await;
        }
    })
    .await;
    let outcome = probe.probe(&through(address)).await;
    assert_failed(&outcome, FailureKind::Status, "answered 503");
}

#[tokio::test]
async fn the_latency_leaves_out_the_body() {
    const PAUSE: Duration = Duration::from_secs(1);
    let World { probe, target } = world();
    let address = proxy(move |stream| {
        let target = target.clone();
        async move {
            let mut session = open_tunnel(stream, &target).await;
            head(&mut session).await;
            let said = b"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n";
            tokio::time::sleep(PAUSE).await;
            session.write_all(said).await.expect("sent");
            session.flush().await.expect("sent");
            hang(session).await;
        }
    })
    .await;
    let latency = probe.probe(&through(address)).await.expect("a success");
    assert!(latency >= PAUSE, "{latency:?}");
}

#[tokio::test]
async fn a_probe_that_is_dropped_closes_its_connection() {
    let probe = NetProbe::new(None).expect("a probe");
    let (heard, mut hears) = mpsc::unbounded_channel();
    let address = proxy(move |mut stream| {
        let heard = heard.clone();
        async move {
            heard.send(head(&mut stream).await).expect("is waited for");
            hang(stream).await;
            heard.send("closed".to_owned()).expect("is waited for");
        }
    })
    .await;
    let fetch = through(address);
    {
        let mut running = probe.probe(&fetch);
        tokio::select! {
            outcome = &mut running => panic!("ended: {outcome:?}"),
            asked = hears.recv() => assert!(asked.expect("a request").starts_with("CONNECT")),
        }
    }
    assert_eq!(hears.recv().await.as_deref(), Some("closed"));
}
