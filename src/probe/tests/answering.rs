//! What a proxy may answer to CONNECT.

use super::*;

#[tokio::test]
async fn any_2xx_opens_the_tunnel_however_it_is_split() {
    let World { probe, target } = world();
    for said in [
        OPEN,
        "HTTP/1.0 200 OK\r\n\r\n",
        "HTTP/1.1 200\r\n\r\n",
        "HTTP/1.1 299 Odd\r\nVia: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ] {
        for size in [1, 7, usize::MAX] {
            let target = target.clone();
            let address = proxy(move |mut stream| {
                let target = target.clone();
                async move {
                    head(&mut stream).await;
                    for packet in said.as_bytes().chunks(size) {
                        stream.write_all(packet).await.expect("sent");
                        // Gives the probe its turn to read this packet alone.
                        tokio::task::yield_now().await;
                    }
                    let session = target.accept(stream).await.expect("a handshake");
                    answer(session, b"HTTP/1.1 204 No Content\r\n\r\n").await;
                }
            })
            .await;
            let outcome = probe.probe(&through(address)).await;
            outcome.unwrap_or_else(|failure| panic!("{said:?} by {size}: {failure}"));
        }
    }
}

#[tokio::test]
async fn any_other_answer_is_told_apart() {
    use FailureKind::{ConnectRefused, Protocol, ProxyAuth};
    let probe = NetProbe::new(None).expect("a probe");
    let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(70 * 1024));
    for (said, kind, words) in [
        ("HTTP/1.1 407 Auth\r\n\r\n", ProxyAuth, "answered 407"),
        ("HTTP/1.0 407 Auth\r\n\r\n", ProxyAuth, "answered 407"),
        ("HTTP/1.1 403 No\r\n\r\n", ConnectRefused, "answered 403"),
        ("HTTP/1.1 302 No\r\n\r\n", ConnectRefused, "answered 302"),
        (
            "HTTP/1.1 503 No\r\n\r\nbody",
            ConnectRefused,
            "answered 503",
        ),
        ("HTTP/1.1 101 No\r\n\r\n", ConnectRefused, "answered 101"),
        ("SSH-2.0-OpenSSH\r\n", Protocol, "\"SSH-2.0-OpenSSH\""),
        ("HTTP/1.1 2000 OK\r\n\r\n", Protocol, "malformed"),
        ("HTTP/1.1 200 OK\r\nnone\r\n\r\n", Protocol, "malformed"),
        ("HTTP/1.1 200 OK\r\nA: b\r\n", Protocol, "middle of"),
        ("HTTP/1.1 20", Protocol, "middle of"),
        ("", Protocol, "without an answer"),
        (&long, Protocol, "longer than 65536 bytes"),
    ] {
        let (bytes, kept_open) = (said.as_bytes().to_vec(), words.contains("malformed"));
        let address = proxy(move |mut stream| {
            let bytes = bytes.clone();
            async move {
                head(&mut stream).await;
                stream.write_all(&bytes).await.ok();
                if kept_open {
                    hang(stream).await;
                }
            }
        })
        .await;
        let outcome = probe.probe(&through(address)).await;
        assert_failed(&outcome, kind, words);
        let asked = format!("CONNECT target.test:443 at {address}: ");
        assert_failed(&outcome, kind, &asked);
    }
}

#[tokio::test]
async fn no_failure_repeats_what_may_be_secret_in_the_url() {
    let World { probe, target } = world();
    let refuses = proxy(|mut stream| async move {
        head(&mut stream).await;
        let refusal = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(refusal).await.expect("sent");
    })
    .await;
    let tunnels = proxy(move |stream| {
        let target = target.clone();
        async move {
            let session = open_tunnel(stream, &target).await;
            answer(session, b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n").await;
        }
    })
    .await;
    for (address, url) in [
        (
            refuses,
            "https://user:secret@target.test/?token=secret#secret",
        ),
        (
            refuses,
            "http://user:secret@target.test/?token=secret#secret",
        ),
        (
            tunnels,
            "https://user:secret@target.test/?token=secret#secret",
        ),
        (
            refuses,
            "ftp://user:secret@target.test/?token=secret#secret",
        ),
        (refuses, "https://user:secret@target.test:x/?token=secret"),
    ] {
        let outcome = probe.probe(&of(url, through(address))).await;
        let failure = outcome.expect_err(url);
        assert!(!failure.message.contains("secret"), "{failure}");
        assert!(failure.message.contains("target.test"), "{failure}");
    }
}
