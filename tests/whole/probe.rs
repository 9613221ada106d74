//! The probe against a real Squid and the lab's judge: every failure kind provoked for real, and
//! proof that what succeeds went through the proxy. (Answers that no Squid gives are provoked from
//! raw sockets beside the code.)

use crate::lab::{
    judge::{self, Judge},
    squid::{self, Access, Squid},
};
use actors::prober::probe::{FailureKind, Fetch, Outcome, Probe};
use anyhow::{Context, ensure};
use proxy_operator::probe::NetProbe;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::Command,
    time::{Duration, Instant},
};

/// Long enough that only a hang reaches it.
const AMPLE: Duration = Duration::from_secs(30);

/// The judge's name. Only Squid knows it, so that no probe comes to the judge by another way.
const JUDGE: &str = "judge.test";

/// A judge, a Squid before it, and a probe that trusts the judge.
struct Lab {
    judge: Judge,
    squid: Squid,
    probe: NetProbe,
}

impl Lab {
    async fn with(access: Access) -> anyhow::Result<Self> {
        Self::at(Ipv4Addr::LOCALHOST.into(), access).await
    }

    /// One whose Squid listens at `address`.
    async fn at(address: IpAddr, access: Access) -> anyhow::Result<Self> {
        let judge = Judge::start(&judge::Options {
            names: vec![JUDGE.to_owned()],
            ..judge::Options::default()
        })?;
        let squid = Squid::start(squid::Options {
            address,
            hosts: vec![(judge.https.ip(), JUDGE)],
            ..squid::Options::with(access)
        })
        .await?;
        let probe = trusting(&judge)?;
        Ok(Self {
            judge,
            squid,
            probe,
        })
    }

    /// A fetch of `path` on a listener of the judge that expects 204.
    fn fetch(&self, scheme: &str, listener: SocketAddr, path: &str) -> Fetch {
        Fetch {
            host: self.squid.address.ip().to_string().into(),
            port: self.squid.address.port(),
            url: format!("{scheme}://{JUDGE}:{}{path}", listener.port()).into(),
            expected_status: 204,
            timeout: AMPLE,
        }
    }

    fn https(&self, path: &str) -> Fetch {
        self.fetch("https", self.judge.https, path)
    }

    fn http(&self, path: &str) -> Fetch {
        self.fetch("http", self.judge.http, path)
    }
}

fn trusting(judge: &Judge) -> anyhow::Result<NetProbe> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, &judge.ca_pem)?;
    Ok(NetProbe::new(Some(&file))?)
}

fn failed(outcome: &Outcome, kind: FailureKind, words: &str) -> anyhow::Result<()> {
    let failure = outcome.as_ref().err().context("it succeeded")?;
    ensure!(failure.kind == kind, "{}: {failure}", failure.kind);
    ensure!(failure.message.contains(words), "{failure}: no {words:?}");
    Ok(())
}

/// https through CONNECT and http in absolute form both arrive, by way of Squid.
pub async fn a_page_comes_through_the_proxy() -> anyhow::Result<()> {
    let lab = Lab::with(Access::Open).await?;
    for (fetch, path) in [
        (lab.https("/generate_204/tls"), "/generate_204/tls"),
        (lab.http("/generate_204/plain"), "/generate_204/plain"),
    ] {
        for times in 1..=2 {
            let begun = Instant::now();
            let latency = lab.probe.probe(&fetch).await?;
            ensure!(latency > Duration::ZERO && latency <= begun.elapsed());
            ensure!(lab.judge.count(path) == times, "{:?}", lab.judge.counts());
            // A tunnel is never used twice. (Squid itself keeps connections for plain http.)
            let connections = lab.judge.connections();
            ensure!(
                path.ends_with("plain") || connections == times,
                "{connections}"
            );
        }
        let header = lab.judge.last_header(path).context("no request")?;
        for trace in ["traceparent", "tracestate", "baggage", "b3"] {
            ensure!(!header.contains_key(trace), "{header:?}");
        }
    }
    logged(&lab.squid, "CONNECT", lab.judge.https).await?;
    logged(&lab.squid, "GET", lab.judge.http).await
}

/// Waits for Squid to say that it served two such requests: it logs a tunnel when it is closed.
async fn logged(squid: &Squid, method: &str, listener: SocketAddr) -> anyhow::Result<()> {
    let target = format!("{JUDGE}:{}", listener.port());
    let wanted = |line: &&str| line.contains(method) && line.contains(&target);
    let both = async {
        while squid.access_log().lines().filter(wanted).count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(AMPLE, both)
        .await
        .with_context(|| format!("no {method} {target} in\n{}", squid.access_log()))
}

/// An IPv6 address and a host name of the proxy work as its IPv4 address does; and so does a target
/// that is an address.
pub async fn a_proxy_is_reached_by_address_and_by_name() -> anyhow::Result<()> {
    let lab = Lab::at(Ipv6Addr::LOCALHOST.into(), Access::Open).await?;
    lab.probe.probe(&lab.https("/generate_204")).await?;

    let lab = Lab::with(Access::Open).await?;
    let by_name = Fetch {
        host: "localhost".into(),
        ..lab.https("/generate_204")
    };
    lab.probe.probe(&by_name).await?;

    let of_address = Fetch {
        url: lab.judge.url("/generate_204").into(),
        ..by_name
    };
    lab.probe.probe(&of_address).await?;
    Ok(())
}

/// A proxy that wants credentials says so, for both schemes.
pub async fn a_proxy_that_wants_credentials_is_told_apart() -> anyhow::Result<()> {
    let (user, password) = ("crawler", "planted-secret");
    let lab = Lab::with(Access::Authenticated { user, password }).await?;
    for fetch in [lab.https("/"), lab.http("/")] {
        let outcome = lab.probe.probe(&fetch).await;
        failed(&outcome, FailureKind::ProxyAuth, "407")?;
    }
    ensure!(lab.judge.connections() == 0, "the judge was reached");
    Ok(())
}

/// A proxy that denies CONNECT, or cannot reach the target, answers with its own status.
pub async fn a_refused_tunnel_is_told_with_its_status() -> anyhow::Result<()> {
    let lab = Lab::with(Access::NoConnect).await?;
    let outcome = lab.probe.probe(&lab.https("/")).await;
    failed(&outcome, FailureKind::ConnectRefused, "403")?;
    lab.probe.probe(&lab.http("/")).await?;

    let lab = Lab::with(Access::Open).await?;
    let (tls, plain) = (lab.https("/"), lab.http("/"));
    drop(lab.judge);
    let outcome = lab.probe.probe(&tls).await;
    failed(&outcome, FailureKind::ConnectRefused, "503")?;
    // Without a tunnel nobody can tell whose 503 it is.
    let outcome = lab.probe.probe(&plain).await;
    failed(&outcome, FailureKind::Status, "answered 503")
}

/// A certificate of an unknown CA and one for another name are refused before anything is asked.
pub async fn a_wrong_certificate_is_a_tls_failure() -> anyhow::Result<()> {
    let lab = Lab::with(Access::Open).await?;
    for (listener, words) in [
        (lab.judge.untrusted, "invalid peer certificate"),
        (lab.judge.misnamed, "not valid for name"),
    ] {
        let outcome = lab.probe.probe(&lab.fetch("https", listener, "/")).await;
        failed(&outcome, FailureKind::Tls, words)?;
    }
    // Plain HTTP behind the tunnel is no TLS at all.
    let no_tls = lab.fetch("https", lab.judge.http, "/");
    let outcome = lab.probe.probe(&no_tls).await;
    failed(&outcome, FailureKind::Tls, "TLS with")?;
    ensure!(lab.judge.counts().is_empty(), "{:?}", lab.judge.counts());
    Ok(())
}

/// The target's own status counts, whatever it is; nobody follows its redirects.
pub async fn the_status_of_the_target_is_compared() -> anyhow::Result<()> {
    let lab = Lab::with(Access::Open).await?;
    for (path, status) in [
        ("/ip", 200),
        ("/redirect", 302),
        ("/status/403", 403),
        ("/status/407", 407),
        ("/status/429", 429),
        ("/status/500", 500),
    ] {
        let fetch = lab.https(path);
        let outcome = lab.probe.probe(&fetch).await;
        let words = format!("answered {status}");
        failed(&outcome, FailureKind::Status, &words)?;
        let as_expected = Fetch {
            expected_status: status,
            ..fetch
        };
        lab.probe.probe(&as_expected).await?;
    }
    let followed = lab.judge.count("/generate_204");
    ensure!(followed == 0, "a redirect was followed");
    Ok(())
}

/// A long page is not read to its end; one that breaks off, or never begins, is a failure.
pub async fn a_body_is_read_but_not_all_of_it() -> anyhow::Result<()> {
    let lab = Lab::with(Access::Open).await?;
    for fetch in [lab.https("/large/1024"), lab.http("/large/1024")] {
        let fetch = Fetch {
            expected_status: 200,
            ..fetch
        };
        lab.probe.probe(&fetch).await?;
    }
    for path in ["/cut", "/cut/early"] {
        let fetch = Fetch {
            expected_status: 200,
            ..lab.https(path)
        };
        let outcome = lab.probe.probe(&fetch).await;
        failed(
            &outcome,
            FailureKind::Protocol,
            "before the answer was complete",
        )?;
    }
    Ok(())
}

/// A slow target is a success within the budget, with its latency, and a timeout beyond it.
pub async fn a_slow_target_is_measured_or_times_out() -> anyhow::Result<()> {
    let lab = Lab::with(Access::Open).await?;
    let latency = lab.probe.probe(&lab.https("/delay/400")).await?;
    ensure!(latency >= Duration::from_millis(400), "{latency:?}");

    let timeout = Duration::from_secs(2);
    let slow = Fetch {
        timeout,
        ..lab.https("/delay/60000")
    };
    let begun = Instant::now();
    let outcome = lab.probe.probe(&slow).await;
    let took = begun.elapsed();
    failed(&outcome, FailureKind::Timeout, "GET https://judge.test")?;
    ensure!(took >= timeout && took < 2 * timeout, "{took:?}");
    Ok(())
}

/// A frozen proxy is a timeout, a thawed one works again, and a dead one is a closed port.
pub async fn a_frozen_and_a_dead_proxy_are_told_apart() -> anyhow::Result<()> {
    let lab = Lab::with(Access::Open).await?;
    let fetch = lab.https("/generate_204");
    signal("-STOP", &lab.squid)?;
    let hasty = Fetch {
        timeout: Duration::from_secs(1),
        ..fetch.clone()
    };
    let outcome = lab.probe.probe(&hasty).await;
    failed(&outcome, FailureKind::Timeout, "CONNECT judge.test")?;
    signal("-CONT", &lab.squid)?;
    lab.probe.probe(&fetch).await?;

    let address = lab.squid.address;
    drop(lab.squid);
    let outcome = lab.probe.probe(&fetch).await;
    failed(&outcome, FailureKind::Connect, &address.to_string())?;
    failed(&outcome, FailureKind::Connect, "refused")
}

fn signal(signal: &str, squid: &Squid) -> anyhow::Result<()> {
    let pid = squid.pid().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status()?;
    ensure!(sent.success(), "kill {signal} {pid}: {sent}");
    Ok(())
}
