//! What a target may answer.

use super::*;
use FailureKind::{Protocol, Status};

/// A proxy whose target answers with `said` in TLS.
async fn proxy_to(target: &TlsAcceptor, said: impl Into<Vec<u8>>) -> SocketAddr {
    let (target, said) = (target.clone(), said.into());
    proxy(move |stream| {
        let (target, said) = (target.clone(), said.clone());
        async move { answer(open_tunnel(stream, &target).await, &said).await }
    })
    .await
}

#[tokio::test]
async fn a_target_answers_in_any_form_of_http_1() {
    let World { probe, target } = world();
    let long = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n{}",
        "x".repeat(200 * 1024)
    );
    for (said, status) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", 204),
        ("HTTP/1.0 200 OK\r\n\r\nuntil the end", 200),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200),
        ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage", 200),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;x=y\r\npage\r\n0\r\nA: b\r\n\r\n",
            200,
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
             HTTP/1.1 204 No Content\r\n\r\n",
            204,
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: https://x/\r\nContent-Length: 0\r\n\r\n",
            302,
        ),
        ("HTTP/1.1 407 Odd\r\nContent-Length: 0\r\n\r\n", 407),
        ("HTTP/1.1 500 Down\r\nContent-Length: 0\r\n\r\n", 500),
        // Longer than what is read: the rest is not waited for.
        (&long, 200),
    ] {
        let address = proxy_to(&target, said).await;
        let outcome = probe.probe(&expecting(status, through(address))).await;
        outcome.unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[tokio::test]
async fn another_status_than_expected_is_told_with_both() {
    let World { probe, target } = world();
    for (said, answered) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "answered 200 OK",
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: https://x/\r\nContent-Length: 0\r\n\r\n",
            "answered 302 Found",
        ),
        (
            "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n",
            "answered 403 Forbidden",
        ),
        (
            "HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n",
            "answered 407",
        ),
        (
            "HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n",
            "answered 429",
        ),
    ] {
        let address = proxy_to(&target, said).await;
        let outcome = probe.probe(&through(address)).await;
        assert_failed(&outcome, Status, answered);
        assert_failed(&outcome, Status, "expected 204");
        let asked = format!("GET https://target.test/check through {address}: ");
        assert_failed(&outcome, Status, &asked);
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_or_no_http_is_a_protocol_failure() {
    let World { probe, target } = world();
    let long = format!("HTTP/1.1 204 OK\r\nA: {}\r\n\r\n", "b".repeat(70 * 1024));
    for said in [
        "",
        "HTTP/1.1 2",
        "HTTP/1.1 204 No Content\r\nA: b\r\n",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 204 No Content\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npage",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npa",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\npage\r\n0\r\n\r\n",
        &long,
    ] {
        let address = proxy_to(&target, said).await;
        let expected = if said.contains("200") { 200 } else { 204 };
        let outcome = probe.probe(&expecting(expected, through(address))).await;
        assert_failed(&outcome, Protocol, "GET https://target.test/check");
    }
}

#[tokio::test]
async fn a_body_without_a_frame_may_end_without_the_goodbye_of_tls() {
    let World { probe, target } = world();
    for (said, fails) in [
        ("HTTP/1.0 200 OK\r\n\r\npage", false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\npage", true),
    ] {
        let target = target.clone();
        let address = proxy(move |stream| {
            let target = target.clone();
            async move {
                let mut session = open_tunnel(stream, &target).await;
                head(&mut session).await;
                session.write_all(said.as_bytes()).await.expect("sent");
                session.flush().await.expect("sent");
                let (mut stream, _) = session.into_inner();
                stream.shutdown().await.expect("closed");
                hang(stream).await;
            }
        })
        .await;
        let outcome = probe.probe(&expecting(200, through(address))).await;
        if fails {
            assert_failed(&outcome, Protocol, "closed before the answer was complete");
        } else {
            outcome.expect("a success");
        }
    }
}

#[tokio::test]
async fn the_request_in_the_tunnel_says_no_more_than_it_must() {
    let World { probe, target } = world();
    let (heard, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let address = proxy(move |stream| {
        let (target, heard) = (target.clone(), heard.clone());
        async move {
            let mut session = open_tunnel(stream, &target).await;
            heard.send(head(&mut session).await).expect("is waited for");
            let said = b"HTTP/1.1 204 No Content\r\n\r\n";
            session.write_all(said).await.expect("sent");
        }
    })
    .await;
    let fetch = of("https://u:secret@target.test/a?b=c#d", through(address));
    probe.probe(&fetch).await.expect("a success");
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        requests.recv().await.expect("a request"),
        format!(
            "GET /a?b=c HTTP/1.1\r\nhost: target.test\r\nuser-agent: proxy-operator/{version}\r\n\
             accept: */*\r\nconnection: close\r\n\r\n"
        )
    );
}

#[tokio::test]
async fn a_plain_http_url_is_asked_of_the_proxy_itself() {
    let probe = NetProbe::new(None).expect("a probe");
    for (said, expected) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", Ok(())),
        (
            "HTTP/1.1 407 Auth\r\nContent-Length: 0\r\n\r\n",
            Err((FailureKind::ProxyAuth, "407")),
        ),
        (
            "HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n",
            Err((Status, "503")),
        ),
        (
            "HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n",
            Err((Status, "301")),
        ),
        ("", Err((Protocol, "closed before"))),
    ] {
        let (heard, mut requests) = tokio::sync::mpsc::unbounded_channel();
        let address = proxy(move |mut stream| {
            let heard = heard.clone();
            async move {
                heard.send(head(&mut stream).await).expect("is waited for");
                stream.write_all(said.as_bytes()).await.expect("sent");
            }
        })
        .await;
        let fetch = of("http://u:secret@target.test:8080/a?b=c", through(address));
        let outcome = probe.probe(&fetch).await;
        match expected {
            Ok(()) => drop(outcome.expect("a success")),
            Err((kind, words)) => assert_failed(&outcome, kind, words),
        }
        let request = requests.recv().await.expect("a request");
        let start = "GET http://target.test:8080/a?b=c HTTP/1.1\r\nhost: target.test:8080\r\n";
        assert!(request.starts_with(start), "{request}");
    }
}

#[tokio::test]
async fn a_url_that_cannot_be_fetched_is_a_protocol_failure() {
    let probe = NetProbe::new(None).expect("a probe");
    let address = proxy(hang).await;
    for (url, words) in [
        ("ftp://target.test/", "URL ftp://target.test/: is neither"),
        ("target.test", "URL target.test: is not an absolute URL"),
    ] {
        let outcome = probe.probe(&of(url, through(address))).await;
        assert_failed(&outcome, Protocol, words);
    }
}
