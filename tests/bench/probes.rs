//! `probe-rate`, `probe-cpu`, `probe-core`: real probes through a real Squid to the judge.
//!
//! Squid and the judge are processes of their own. On a small machine they take most of it, so that the
//! rate says little of what a probe costs here: `probe-cpu` compares the CPU time of this process alone.
//! `probe-core` is a process with 10 000 prober actors at the default period and nothing else.

use crate::{
    judge::{Judge, Options},
    process::{self, Helper},
    report::{Bar, Row, median, number, rate},
    squid::{self, Squid},
    wire::Wire,
};
use actors::{
    health::{HealthActor, HealthMsg},
    key::ProxyKey,
    metrics::Metrics,
    prober::{
        Prospect, Watch,
        probe::{Fetch, Probe as _},
        verdict::Thresholds,
    },
    root::RootActor,
    system::{Addr, ChildSpec, Epoch, System, meter::Meters},
};
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use prometheus::Registry;
use proxy_operator::probe::NetProbe;
use rustls::{
    ClientConfig, RootCertStore,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde::{Deserialize, Serialize};
use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};
use tokio_rustls::TlsConnector;

const CONCURRENCY: usize = 32;
const ROUNDS: usize = 11;
const ROUND: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(30);
/// Of `probe-core`: so many proxies, each probed this often.
const PROXIES: u32 = 10_000;
const PERIOD: Duration = Duration::from_secs(10);

/// Where a judge listens, and the CA to trust.
#[derive(Serialize, Deserialize)]
pub struct Where {
    pub https: SocketAddr,
    pub http: SocketAddr,
    ca: String,
}

/// A judge in a process of its own.
pub async fn judge() -> anyhow::Result<(Helper, Where)> {
    let mut judge = Helper::start(&["judge"])?;
    let place = serde_json::from_str(&judge.line().await?)?;
    Ok((judge, place))
}

/// That process.
pub async fn be_the_judge() -> anyhow::Result<()> {
    let judge = Judge::start(&Options::default())?;
    let place = Where {
        https: judge.https,
        http: judge.http,
        ca: judge.ca_pem.clone(),
    };
    println!("{}", serde_json::to_string(&place)?);
    std::future::pending().await
}

/// How many requests a judge has answered.
pub async fn answered(judge: &Where) -> anyhow::Result<u64> {
    let mut wire = Wire::open(judge.http).await?;
    let (_, answer) = wire
        .call(b"GET /counts HTTP/1.1\r\nHost: lab\r\n\r\n")
        .await?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    let counts: std::collections::BTreeMap<String, std::collections::BTreeMap<IpAddr, u64>> =
        serde_json::from_str(body)?;
    Ok(counts.values().flat_map(|by| by.values()).sum())
}

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir()?;
    let ca = folder.path().join("ca.pem");
    let (_helper, judge) = judge().await?;
    std::fs::write(&ca, &judge.ca)?;
    let squid = Squid::start(squid::Options::default()).await?;
    let url = format!("https://{}/generate_204", judge.https);

    let mut rows = compare(&squid, &judge, &url, &ca).await?;
    rows.push(core(&squid, &judge, &url, &ca).await?);
    Ok(rows)
}

async fn compare(squid: &Squid, judge: &Where, url: &str, ca: &Path) -> anyhow::Result<Vec<Row>> {
    let probe = Arc::new(NetProbe::new(Some(ca))?);
    let fetch = Arc::new(fetch(squid.address, url));
    let bare = Arc::new(Bare::new(squid.address, judge.https, ca)?);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..=ROUNDS {
        let (probe, fetch) = (Arc::clone(&probe), Arc::clone(&fetch));
        ours.push(
            round(move || {
                let (probe, fetch) = (Arc::clone(&probe), Arc::clone(&fetch));
                async move { probe.probe(&fetch).await.map(drop).map_err(Into::into) }
            })
            .await?,
        );
        let bare = Arc::clone(&bare);
        theirs.push(
            round(move || {
                let bare = Arc::clone(&bare);
                async move { bare.fetch().await }
            })
            .await?,
        );
    }
    // The first round finds everything cold.
    let (ours, theirs) = (&ours[1..], &theirs[1..]);
    let ratio = |of: fn(&Round) -> f64| median(ours.iter().zip(theirs).map(|(a, b)| of(a) / of(b)));
    let middle = |all: &[Round], of: fn(&Round) -> f64| median(all.iter().map(of));
    Ok(vec![
        Row::of_ratio(
            "probe-rate",
            "probes/s",
            middle(ours, Round::per_second),
            middle(theirs, Round::per_second),
            ratio(Round::per_second),
            Bar::AtLeast(0.8),
        ),
        Row::of_ratio(
            "probe-cpu",
            "us of CPU a probe",
            middle(ours, Round::cpu_micros),
            middle(theirs, Round::cpu_micros),
            ratio(Round::cpu_micros),
            Bar::None,
        ),
    ])
}

fn fetch(proxy: SocketAddr, url: &str) -> Fetch {
    Fetch {
        host: proxy.ip().to_string().into(),
        port: proxy.port(),
        url: url.into(),
        expected_status: 204,
        timeout: TIMEOUT,
    }
}

struct Round {
    probes: u64,
    took: Duration,
    cpu: Duration,
}

impl Round {
    fn per_second(&self) -> f64 {
        rate(self.probes, self.took)
    }

    fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / number(self.probes)
    }
}

async fn round<F>(fetch: impl Fn() -> F + Clone + Send + 'static) -> anyhow::Result<Round>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let me = std::process::id();
    let (begun, cpu) = (Instant::now(), process::cpu(me)?);
    let mut workers = JoinSet::new();
    for _ in 0..CONCURRENCY {
        let fetch = fetch.clone();
        workers.spawn(async move {
            let mut done = 0;
            while begun.elapsed() < ROUND {
                fetch().await?;
                done += 1;
            }
            anyhow::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(worker) = workers.join_next().await {
        done += worker??;
    }
    let cpu = process::cpu(me)?.saturating_sub(cpu);
    Ok(Round {
        probes: done,
        took: begun.elapsed(),
        cpu,
    })
}

/// The same fetch with nothing around it: no budget, no kinds of failure, no limits.
struct Bare {
    proxy: SocketAddr,
    connect: String,
    authority: String,
    name: ServerName<'static>,
    tls: TlsConnector,
}

impl Bare {
    fn new(proxy: SocketAddr, target: SocketAddr, ca: &Path) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca)? {
            roots.add(certificate?)?;
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self {
            proxy,
            connect: format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"),
            authority: target.to_string(),
            name: ServerName::IpAddress(target.ip().into()),
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    async fn fetch(&self) -> anyhow::Result<()> {
        let mut stream = TcpStream::connect(self.proxy).await?;
        stream.set_nodelay(true)?;
        stream.write_all(self.connect.as_bytes()).await?;
        let mut answer = Vec::with_capacity(1024);
        loop {
            ensure!(stream.read_buf(&mut answer).await? > 0, "closed");
            let mut headers = [httparse::EMPTY_HEADER; 16];
            let mut head = httparse::Response::new(&mut headers);
            if head.parse(&answer)?.is_complete() {
                ensure!(head.code == Some(200), "CONNECT: {:?}", head.code);
                break;
            }
        }
        let session = self.tls.connect(self.name.clone(), stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(session)).await?;
        let exchange = async {
            let request = hyper::Request::get("/generate_204")
                .header("host", &self.authority)
                .header("connection", "close")
                .body(Empty::<Bytes>::new())?;
            let response = sender.send_request(request).await?;
            ensure!(response.status() == 204, "{}", response.status());
            response.into_body().collect().await?;
            Ok(())
        };
        let mut exchange = pin!(exchange);
        tokio::select! {
            biased;
            done = &mut exchange => done,
            _ = connection => exchange.await,
        }
    }
}

/// The CPU time that 10 000 probers take of a second.
async fn core(squid: &Squid, judge: &Where, url: &str, ca: &Path) -> anyhow::Result<Row> {
    let ca = ca.to_str().context("a strange folder")?;
    let before = answered(judge).await?;
    let helper = Helper::start(&["probers", &squid.address.to_string(), url, ca])?;
    let begun = Instant::now();
    // The first probe of every proxy is due at once; after that they are spread over the period.
    while answered(judge).await? - before < PROXIES.into() {
        ensure!(
            begun.elapsed() < Duration::from_mins(1),
            "the probers are stuck"
        );
        sleep(Duration::from_millis(100)).await;
    }
    sleep(PERIOD / 2).await;
    let (pid, begun) = (helper.pid()?, Instant::now());
    let (probes, cpu) = (answered(judge).await?, process::cpu(pid)?);
    sleep(PERIOD * 3 / 2).await;
    let probes = answered(judge).await? - probes;
    let (cpu, took) = (process::cpu(pid)?.saturating_sub(cpu), begun.elapsed());
    let wanted = f64::from(PROXIES) / PERIOD.as_secs_f64();
    let (had, core) = (
        rate(probes, took),
        cpu.as_secs_f64() / number(probes) * wanted,
    );
    eprintln!("bench: probe-core: at {had:.0} probes/s of {wanted:.0}");
    Ok(Row::new(
        "probe-core",
        "cores at 1 000 probes/s",
        core,
        1.0,
        Bar::AtMost(1.0),
    ))
}

/// That process: 10 000 probers of one proxy.
pub async fn be_the_probers(proxy: &str, url: &str, ca: &str) -> anyhow::Result<()> {
    let registry = Registry::new();
    let prospect = Arc::new(Prospect {
        probe: Arc::new(NetProbe::new(Some(Path::new(ca)))?),
        slots: Arc::new(Semaphore::new(256)),
        metrics: Metrics::new(&registry)?,
        traced: false,
    });
    let health = Addr::default();
    let actor = ChildSpec::new("health", health.clone(), move || {
        HealthActor::new(Arc::clone(&prospect), Addr::default())
    });
    let system = System::new(Meters::new(&registry)?);
    let _running = system
        .run(&Addr::default(), RootActor::new(vec![actor]))
        .await?;
    while !health.is_up() {
        tokio::task::yield_now().await;
    }
    let fetch = fetch(proxy.parse()?, url);
    for number in 0..PROXIES {
        let watch = Watch {
            fetch: fetch.clone(),
            period: PERIOD,
            thresholds: Thresholds {
                failure: 3,
                success: 1,
            },
            verdict: None,
            epoch: Epoch::next(),
        };
        let key = ProxyKey::new("crawlers", &number.to_string());
        health.tell(HealthMsg::Watch(key, Box::new(watch), Addr::default()))?;
    }
    std::future::pending().await
}
