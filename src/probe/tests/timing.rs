//! The budget, wherever it runs out; and a probe that is given up.

use super::*;
use std::time::Instant;
use tokio::{
    net::TcpSocket,
    sync::{mpsc, watch},
};

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
    let address = proxy(hang).await;
    let plain = of("http://target.test/", through(address));
    tokio::join!(
        assert_times_out(&probe, through(address), "CONNECT target.test:443"),
        assert_times_out(&probe, plain, "GET http://target.test/"),
    );
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

/// A proxy whose target says `said` and then nothing, without hanging up.
async fn proxy_to_hanging(target: &TlsAcceptor, said: &'static str) -> SocketAddr {
    let target = target.clone();
    proxy(move |stream| {
        let target = target.clone();
        async move {
            let mut session = open_tunnel(stream, &target).await;
            head(&mut session).await;
            session.write_all(said.as_bytes()).await.expect("sent");
            session.flush().await.expect("sent");
            hang(session).await;
        }
    })
    .await
}

#[tokio::test]
async fn a_target_that_hangs_before_or_in_its_answer_ends_with_the_budget() {
    let World { probe, target } = world();
    let cases = [
        ("", "no complete answer"),
        ("HTTP/1.1 200 OK", "no complete answer"),
        ("HTTP/1.1 100 Continue\r\n\r\n", "no complete answer"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npage",
            "the body did not end",
        ),
    ];
    futures::future::join_all(cases.map(async |(said, missing)| {
        let address = proxy_to_hanging(&target, said).await;
        let stage = format!("GET https://target.test/check through {address}: {missing}");
        assert_times_out(&probe, expecting(200, through(address)), &stage).await;
    }))
    .await;
}

#[tokio::test]
async fn a_target_that_said_all_is_not_waited_for() {
    let World { probe, target } = world();
    let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let address = proxy_to_hanging(&target, empty).await;
    let outcome = probe.probe(&expecting(200, through(address))).await;
    outcome.expect("a success");

    // What is wrong shows in the head, so nobody waits for the body.
    let wrong = "HTTP/1.1 503 Down\r\nContent-Length: 9\r\n\r\n";
    let address = proxy_to_hanging(&target, wrong).await;
    let outcome = probe.probe(&expecting(200, through(address))).await;
    assert_failed(&outcome, FailureKind::Status, "answered 503");
}

#[tokio::test]
async fn the_latency_counts_the_wait_for_the_head_but_not_for_the_body() {
    const PAUSE: Duration = Duration::from_millis(500);
    let World { probe, target } = world();
    // Each value lets the target say one more piece.
    let (say, said) = watch::channel(0);
    let address = proxy(move |stream| {
        let (target, mut said) = (target.clone(), said.clone());
        async move {
            let mut session = open_tunnel(stream, &target).await;
            head(&mut session).await;
            for (turn, piece) in [
                (1, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"),
                (2, "page"),
            ] {
                said.wait_for(|said| *said == turn).await.expect("a turn");
                session.write_all(piece.as_bytes()).await.expect("sent");
                session.flush().await.expect("sent");
            }
        }
    })
    .await;
    let fetch = expecting(200, through(address));
    let begun = Instant::now();
    let mut running = probe.probe(&fetch);
    for turn in [1, 2] {
        let early = tokio::time::timeout(PAUSE, &mut running).await;
        early.expect_err("a piece is missing");
        say.send(turn).expect("is listened to");
    }
    let latency = running.await.expect("a success");
    assert!(
        latency >= PAUSE,
        "{latency:?} is without the wait for the head"
    );
    let without_body = begun.elapsed().saturating_sub(PAUSE / 2);
    assert!(
        latency < without_body,
        "{latency:?} is with the wait for the body"
    );
}

#[tokio::test]
async fn a_probe_that_is_dropped_closes_its_connection() {
    let probe = NetProbe::new(None).expect("a probe");
    let (heard, mut requests) = mpsc::unbounded_channel();
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
            asked = requests.recv() => assert!(asked.expect("a request").starts_with("CONNECT")),
        }
    }
    assert_eq!(requests.recv().await.as_deref(), Some("closed"));
}
