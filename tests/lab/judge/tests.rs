//! What the judge answers and counts, and that the lab's Squid lies between.

use crate::{
    judge::{
        Judge, Options,
        answer::{Answer, answer},
    },
    squid::{self, Access, Squid},
};
use http::StatusCode;
use reqwest::{Certificate, Client, ClientBuilder, Proxy, redirect};
use std::{
    collections::BTreeMap,
    error::Error,
    net::{IpAddr, Ipv4Addr},
    path::Path,
    time::{Duration, Instant},
};
use tokio::{
    io::AsyncReadExt as _,
    net::TcpStream,
    task::yield_now,
    time::{sleep, timeout},
};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn judge() -> Judge {
    Judge::start(&Options::default()).unwrap()
}

fn builder(judge: &Judge) -> ClientBuilder {
    // Another test may have been first.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .timeout(Duration::from_secs(20))
        .tls_certs_only([Certificate::from_pem(judge.ca_pem.as_bytes()).unwrap()])
}

fn client(judge: &Judge) -> Client {
    builder(judge).build().unwrap()
}

fn client_through(squid: &Squid, judge: &Judge, user: Option<(&str, &str)>) -> Client {
    let mut proxy = Proxy::all(squid.url()).unwrap();
    if let Some((user, password)) = user {
        proxy = proxy.basic_auth(user, password);
    }
    builder(judge).proxy(proxy).build().unwrap()
}

/// Waits for a line with `text`: Squid logs a tunnel only when it is closed.
async fn logged(squid: &Squid, text: &str) {
    let line = async {
        while !squid.access_log().contains(text) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let found = timeout(Duration::from_secs(10), line).await;
    assert!(found.is_ok(), "no {text} in {}", squid.access_log());
}

/// Everything that an error says, down to its cause.
fn told(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause: &dyn Error = error;
    while let Some(deeper) = cause.source() {
        text = format!("{text}: {deeper}");
        cause = deeper;
    }
    text
}

#[test]
fn a_path_says_what_it_is_answered_with() {
    for (path, expected) in [
        ("/", Answer::Status(StatusCode::NO_CONTENT)),
        ("/generate_204", Answer::Status(StatusCode::NO_CONTENT)),
        (
            "/generate_204/anything",
            Answer::Status(StatusCode::NO_CONTENT),
        ),
        ("/ip", Answer::Address),
        (
            "/status/503",
            Answer::Status(StatusCode::SERVICE_UNAVAILABLE),
        ),
        ("/status/none", Answer::Status(StatusCode::BAD_REQUEST)),
        ("/delay/250", Answer::Delay(Duration::from_millis(250))),
        ("/cut", Answer::Cut),
        ("/cut/early", Answer::CutEarly),
        ("/large", Answer::Large(8)),
        ("/large/2", Answer::Large(2)),
        ("/redirect", Answer::Redirect),
        ("/elsewhere", Answer::Status(StatusCode::NOT_FOUND)),
    ] {
        assert_eq!(answer(path), expected, "{path}");
    }
}

#[tokio::test]
async fn both_listeners_answer_alike() {
    let judge = judge();
    let client = client(&judge);
    for base in [judge.url(""), format!("http://{}", judge.http)] {
        let get = async |path: &str| client.get(format!("{base}{path}")).send().await.unwrap();
        for (path, status) in [
            ("/", 204),
            ("/generate_204", 204),
            ("/status/429", 429),
            ("/redirect", 302),
            ("/x", 404),
        ] {
            assert_eq!(get(path).await.status().as_u16(), status, "{base}{path}");
        }
        assert_eq!(get("/ip").await.text().await.unwrap(), "127.0.0.1");
        assert_eq!(get("/large/3").await.bytes().await.unwrap().len(), 3 << 20);
        let since = Instant::now();
        assert_eq!(get("/delay/300").await.status(), 204);
        assert!(since.elapsed() >= Duration::from_millis(300));
    }
}

#[tokio::test]
async fn a_cut_connection_is_an_error_at_the_client() {
    let judge = judge();
    let client = client(&judge);
    let answered = client.get(judge.url("/cut")).send().await.unwrap();
    assert_eq!(answered.status(), 200);
    assert!(answered.bytes().await.is_err());
    assert!(client.get(judge.url("/cut/early")).send().await.is_err());
}

#[tokio::test]
async fn the_wrong_certificates_are_refused_for_their_own_reasons() {
    let judge = judge();
    let client = client(&judge);
    let refused = async |at| {
        told(
            &client
                .get(format!("https://{at}/"))
                .send()
                .await
                .unwrap_err(),
        )
    };
    let stranger = refused(judge.untrusted).await;
    assert!(stranger.contains("UnknownIssuer"), "{stranger}");
    let other_name = refused(judge.misnamed).await;
    assert!(other_name.contains("not valid for name"), "{other_name}");
    assert_eq!(judge.count("/"), 0);
}

#[tokio::test]
async fn requests_are_counted_by_path_and_peer() {
    let judge = judge();
    let other: IpAddr = "127.0.0.9".parse().unwrap();
    let near = client(&judge);
    let far = builder(&judge).local_address(other).build().unwrap();
    for _ in 0..3 {
        near.get(judge.url("/generate_204"))
            .header("x-try", "near")
            .send()
            .await
            .unwrap();
    }
    far.get(judge.url("/generate_204"))
        .header("x-try", "far")
        .send()
        .await
        .unwrap();
    far.get(judge.url("/status/500/far")).send().await.unwrap();

    assert_eq!(judge.count("/generate_204"), 4);
    assert_eq!(judge.count_from("/generate_204", HERE), 3);
    assert_eq!(judge.count_from("/generate_204", other), 1);
    assert_eq!(judge.count_from("/status/500/far", HERE), 0);
    assert_eq!(judge.last_header("/generate_204").unwrap()["x-try"], "far");
    assert_eq!(judge.connections(), 2, "each client keeps its connection");
    let told: BTreeMap<String, BTreeMap<IpAddr, u64>> = near
        .get(judge.url("/counts"))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(told, judge.counts());
}

#[tokio::test]
async fn a_path_can_be_diverted_while_it_runs() {
    let judge = judge();
    let client = client(&judge);
    let status = async || {
        client
            .get(judge.url("/generate_204"))
            .send()
            .await
            .unwrap()
            .status()
    };
    judge.divert("/generate_204", Some("/status/503"));
    assert_eq!(status().await, 503);
    judge.divert("/generate_204", None);
    assert_eq!(status().await, 204);

    let switch = judge.url("/divert/generate_204");
    assert_eq!(
        client
            .put(&switch)
            .body("/status/418")
            .send()
            .await
            .unwrap()
            .status(),
        204
    );
    assert_eq!(status().await, 418);
    assert_eq!(
        client
            .put(&switch)
            .body("nonsense")
            .send()
            .await
            .unwrap()
            .status(),
        400
    );
    assert_eq!(client.delete(&switch).send().await.unwrap().status(), 204);
    assert_eq!(status().await, 204);
    assert_eq!(judge.count("/generate_204"), 4);
}

#[tokio::test]
async fn a_dropped_judge_is_gone() {
    let judge = judge();
    let address = judge.https;
    let mut open = TcpStream::connect(address).await.unwrap();
    while judge.connections() == 0 {
        yield_now().await;
    }
    drop(judge);
    // The tasks end when the runtime comes to it.
    let gone = async {
        while TcpStream::connect(address).await.is_ok() {
            yield_now().await;
        }
        open.read(&mut [0]).await.unwrap_or(0)
    };
    assert_eq!(timeout(Duration::from_secs(5), gone).await, Ok(0));
}

#[tokio::test]
async fn an_open_squid_lies_between() {
    let judge = Judge::start(&Options {
        names: vec!["judge.test".into()],
        ..Options::default()
    })
    .unwrap();
    let squid = Squid::start(squid::Options {
        hosts: vec![(HERE, "judge.test")],
        ..Default::default()
    })
    .await
    .unwrap();
    let client = client_through(&squid, &judge, None);
    let named = format!("https://judge.test:{}/ip", judge.https.port());
    // Only Squid knows the name.
    for url in [judge.url("/ip"), named, format!("http://{}/ip", judge.http)] {
        assert_eq!(
            client.get(&url).send().await.unwrap().text().await.unwrap(),
            "127.0.0.1",
            "{url}"
        );
    }
    assert_eq!(judge.count("/ip"), 3);
    drop(client);
    logged(&squid, "CONNECT judge.test:").await;
    logged(&squid, &format!("GET http://{}/ip", judge.http)).await;
}

#[tokio::test]
async fn a_squid_asks_for_credentials() {
    let judge = judge();
    let access = Access::Authenticated {
        user: "crawler",
        password: "s3cret",
    };
    let squid = Squid::start(squid::Options::with(access)).await.unwrap();
    let plain = format!("http://{}/", judge.http);
    for wrong in [None, Some(("crawler", "guess"))] {
        let client = client_through(&squid, &judge, wrong);
        assert_eq!(client.get(&plain).send().await.unwrap().status(), 407);
        let tunnel = told(&client.get(judge.url("/")).send().await.unwrap_err());
        assert!(tunnel.contains("proxy authorization required"), "{tunnel}");
    }
    assert_eq!(judge.connections(), 0);
    let client = client_through(&squid, &judge, Some(("crawler", "s3cret")));
    assert_eq!(client.get(&plain).send().await.unwrap().status(), 204);
    assert_eq!(
        client.get(judge.url("/")).send().await.unwrap().status(),
        204
    );
}

#[tokio::test]
async fn a_squid_refuses_tunnels_only() {
    let judge = judge();
    let squid = Squid::start(squid::Options::with(Access::NoConnect))
        .await
        .unwrap();
    let client = client_through(&squid, &judge, None);
    assert!(client.get(judge.url("/")).send().await.is_err());
    assert_eq!(judge.connections(), 0);
    logged(&squid, "TCP_DENIED/403").await;
    assert_eq!(
        client
            .get(format!("http://{}/", judge.http))
            .send()
            .await
            .unwrap()
            .status(),
        204
    );
}

#[tokio::test]
async fn a_dropped_squid_is_gone() {
    let squid = Squid::start(squid::Options::default()).await.unwrap();
    let (address, process) = (squid.address, format!("/proc/{}", squid.pid()));
    drop(squid);
    assert!(TcpStream::connect(address).await.is_err());
    assert!(!Path::new(&process).exists());
}
