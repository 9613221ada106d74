//! From the proxy's name to the handshake with the target.

use super::*;
use std::net::Ipv6Addr;

#[tokio::test]
async fn a_page_through_a_tunnel_is_a_success_whatever_the_proxy_is_called() {
    let World { probe, target } = world();
    for (listens, called) in [
        (IpAddr::from(Ipv4Addr::LOCALHOST), "127.0.0.1"),
        (IpAddr::from(Ipv6Addr::LOCALHOST), "::1"),
        (IpAddr::from(Ipv4Addr::LOCALHOST), "localhost"),
    ] {
        let target = target.clone();
        let address = proxy_on(listens, move |stream| {
            let target = target.clone();
            async move {
                let session = open_tunnel(stream, &target).await;
                answer(session, b"HTTP/1.1 204 No Content\r\n\r\n").await;
            }
        })
        .await;
        let host = called.into();
        let fetch = Fetch {
            host,
            ..through(address)
        };
        let latency = probe.probe(&fetch).await.expect(called);
        assert!(latency > Duration::ZERO && latency < AMPLE);
    }
}

#[tokio::test]
async fn the_tunnel_is_asked_for_by_host_and_port() {
    let probe = NetProbe::new(None).expect("a probe");
    for (url, wanted) in [
        ("https://target.test/", "target.test:443"),
        ("https://u:secret@target.test:8443/x?y", "target.test:8443"),
        ("https://192.0.2.1/", "192.0.2.1:443"),
        ("https://[2001:db8::1]/", "[2001:db8::1]:443"),
        ("https://[2001:db8::1]:8443/", "[2001:db8::1]:8443"),
    ] {
        let (heard, mut requests) = tokio::sync::mpsc::unbounded_channel();
        let address = proxy(move |mut stream| {
            let heard = heard.clone();
            async move {
                heard.send(head(&mut stream).await).expect("is waited for");
            }
        })
        .await;
        probe
            .probe(&of(url, through(address)))
            .await
            .expect_err(url);
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            requests.recv().await.expect("a request"),
            format!(
                "CONNECT {wanted} HTTP/1.1\r\nHost: {wanted}\r\n\
                 User-Agent: proxy-operator/{version}\r\n\r\n"
            )
        );
    }
}

#[tokio::test]
async fn a_closed_port_is_a_connect_failure() {
    let probe = NetProbe::new(None).expect("a probe");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let outcome = probe.probe(&through(address)).await;
    assert_failed(&outcome, FailureKind::Connect, "refused");
    assert_failed(&outcome, FailureKind::Connect, &address.to_string());
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_a_connect_failure() {
    let probe = NetProbe::new(None).expect("a probe");
    // No name server is asked for a label that is longer than labels can be.
    let host: Arc<str> = "x".repeat(64).into();
    let fetch = Fetch {
        host: Arc::clone(&host),
        ..through(SocketAddr::from(([127, 0, 0, 1], 3128)))
    };
    let outcome = probe.probe(&fetch).await;
    assert_failed(
        &outcome,
        FailureKind::Connect,
        &format!("resolving the proxy {host}: "),
    );
}

#[tokio::test]
async fn the_next_address_of_a_name_is_tried_when_one_does_not_answer() {
    let open = proxy(hang).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let closed = listener.local_addr().expect("an address");
    drop(listener);
    let sink = timing::Sink::new().await;

    for first in [closed, sink.address] {
        let budget = Budget::start(Duration::from_secs(4));
        let stream = dial::dial(&[first, open], &budget).await.expect("dialled");
        assert_eq!(stream.peer_addr().expect("a peer"), open);
    }
    let budget = Budget::start(AMPLE);
    let failure = dial::dial(&[open, closed][1..], &budget).await.map(drop);
    assert_failed(
        &failure.map(|()| Duration::ZERO),
        FailureKind::Connect,
        &closed.to_string(),
    );
}

#[tokio::test]
async fn a_certificate_that_proves_nothing_is_a_tls_failure() {
    let (trusting, strangers) = (world(), world());
    let other = world_with(|issuer| acceptor(issuer, "other.test"));
    for (probe, target, words) in [
        (
            &trusting.probe,
            strangers.target,
            "invalid peer certificate",
        ),
        (&other.probe, other.target, "not valid for name"),
    ] {
        let address = proxy(move |mut stream| {
            let target = target.clone();
            async move {
                head(&mut stream).await;
                stream.write_all(OPEN.as_bytes()).await.expect("sent");
                target.accept(stream).await.expect_err("the probe refuses");
            }
        })
        .await;
        let outcome = probe.probe(&through(address)).await;
        assert_failed(&outcome, FailureKind::Tls, words);
        assert_failed(&outcome, FailureKind::Tls, "TLS with target.test:443");
    }
}

#[tokio::test]
async fn what_is_no_handshake_is_a_tls_failure() {
    const ALERT: &[u8] = b"\x15\x03\x03\x00\x02\x02\x28";
    let World { probe, .. } = world();
    for (said, words) in [
        (b"".as_slice(), "eof"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "corrupt message"),
        (ALERT, "HandshakeFailure"),
    ] {
        // Both in the packet of the answer to CONNECT, where it is the tunnel's already, and after
        // it.
        for together in [true, false] {
            let address = proxy(move |mut stream| async move {
                head(&mut stream).await;
                let mut first = OPEN.as_bytes().to_vec();
                if together {
                    first.extend_from_slice(said);
                }
                stream.write_all(&first).await.expect("sent");
                if !together {
                    stream.read_u8().await.expect("a hello");
                    stream.write_all(said).await.expect("sent");
                }
                stream.shutdown().await.expect("closed");
                hang(stream).await;
            })
            .await;
            let outcome = probe.probe(&through(address)).await;
            assert_failed(&outcome, FailureKind::Tls, words);
        }
    }
}

#[tokio::test]
async fn a_target_that_wants_a_certificate_of_ours_is_a_tls_failure() {
    // In TLS 1.3 our side of the handshake is over by the time the target says no.
    let World { probe, target } = world_with(acceptor_that_wants_certificates);
    let address = proxy(move |mut stream| {
        let target = target.clone();
        async move {
            head(&mut stream).await;
            stream.write_all(OPEN.as_bytes()).await.expect("sent");
            let refused = target.accept(stream).into_fallible().await;
            let (_, stream) = refused.expect_err("the target refuses");
            hang(stream).await;
        }
    })
    .await;
    let outcome = probe.probe(&through(address)).await;
    assert_failed(&outcome, FailureKind::Tls, "CertificateRequired");
}

#[tokio::test]
async fn every_probe_is_a_new_connection_and_a_full_handshake() {
    let World { probe, target } = world();
    let (seen, mut handshakes) = tokio::sync::mpsc::unbounded_channel();
    let address = proxy(move |stream| {
        let (target, seen) = (target.clone(), seen.clone());
        async move {
            let session = open_tunnel(stream, &target).await;
            let kind = session.get_ref().1.handshake_kind();
            seen.send(kind).expect("is waited for");
            answer(session, b"HTTP/1.1 204 No Content\r\n\r\n").await;
        }
    })
    .await;
    for _ in 0..3 {
        probe.probe(&through(address)).await.expect("a success");
        assert_eq!(
            handshakes.recv().await.expect("a connection"),
            Some(rustls::HandshakeKind::Full)
        );
    }
}

#[test]
fn a_ca_file_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ca, issuer) = authority();
    let key = issuer.key().serialize_pem();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (name, content, words) in [
        ("missing.pem", None, "cannot read"),
        ("empty.pem", Some(String::new()), "holds no certificate"),
        ("text.pem", Some("hello".to_owned()), "holds no certificate"),
        ("key.pem", Some(key), "holds no certificate"),
        (
            "cut.pem",
            Some(ca[..ca.len() / 2].to_owned()),
            "cannot read",
        ),
        ("second.pem", Some(ca.clone() + broken), "certificate 2"),
    ] {
        let file = folder.path().join(name);
        if let Some(content) = content {
            std::fs::write(&file, content).expect("written");
        }
        let error = NetProbe::new(Some(&file)).map(drop).expect_err(name);
        let text = error.to_string();
        assert!(text.contains(words), "{text}");
        assert!(text.contains(&file.display().to_string()), "{text}");
    }
}
