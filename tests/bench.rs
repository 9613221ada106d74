//! The benchmarks: `make bench`, or `cargo bench --bench bench`; `ONLY=<row>` runs one.
//!
//! Every number is set against a baseline of the same run: the two take turns in short rounds, so that
//! a busy machine slows both. What loads the measured side from outside (the judge, a proxy) runs as a
//! process of its own, which is this program again with a role. The exit code says whether everything
//! ran, not whether every bar was reached; that is in the table and in `target/bench.json`.
//!
//! | row | file |
//! |---|---|
//! | `lease-cycle` | [`lease_cycle`] |
//! | `lease-cycle-observed` | [`observed`] |
//! | `ledger-acquire`, `ledger-growth` | [`ledger`] |
//! | `probe-rate`, `probe-core` | [`probes`] |
//! | `fleet-ready` | [`fleet_ready`] |
//! | `memory-10k` | [`memory`] |
//! | `actor-restart` | [`restart`] |
//! | `ledger-restart` | [`ledger_restart`] |
//! | `scrape-10k`, `scrape-wait` | [`scrape`] |
//! | `kvm-upload`, `kvm-upload-rss`, `kvm-create`, `kvm-isolation`, `kvm-mailbox`, `kvm-busy-host` | [`kvm`] |

#[path = "bench/cluster.rs"]
mod cluster;
#[path = "bench/fleet_ready.rs"]
mod fleet_ready;
#[path = "bench/forward.rs"]
mod forward;
#[path = "lab/hypervisor.rs"]
#[expect(dead_code, reason = "hypervisors can do more than benchmarks ask for")]
mod hypervisor;
#[path = "lab/image_server.rs"]
#[expect(dead_code, reason = "the server can do more than benchmarks ask for")]
mod image_server;
#[path = "lab/judge.rs"]
#[expect(dead_code, reason = "the judge can do more than benchmarks ask for")]
mod judge;
#[path = "bench/kvm.rs"]
mod kvm;
#[path = "bench/lease_cycle.rs"]
mod lease_cycle;
#[path = "bench/ledger.rs"]
mod ledger;
#[path = "bench/ledger_restart.rs"]
mod ledger_restart;
#[path = "bench/memory.rs"]
mod memory;
#[path = "bench/observed.rs"]
mod observed;
#[path = "bench/operator.rs"]
mod operator;
#[path = "lab/otlp.rs"]
#[expect(
    dead_code,
    reason = "the collector can do more than benchmarks ask for"
)]
mod otlp;
#[path = "bench/probes.rs"]
mod probes;
#[path = "bench/process.rs"]
mod process;
#[path = "bench/report.rs"]
mod report;
#[path = "bench/restart.rs"]
mod restart;
#[path = "bench/scrape.rs"]
mod scrape;
#[path = "lab/squid.rs"]
#[expect(dead_code, reason = "Squid can do more than benchmarks ask for")]
mod squid;
#[path = "bench/tree.rs"]
mod tree;
#[path = "bench/wire.rs"]
mod wire;

use futures::future::BoxFuture;
use report::Row;
use std::{process::ExitCode, time::Duration};

/// Some rows that belong together: their names, the longest they may take, and what runs them.
struct Bench {
    rows: &'static [&'static str],
    bound: Duration,
    run: fn() -> BoxFuture<'static, anyhow::Result<Vec<Row>>>,
}

const BENCHES: [Bench; 14] = [
    Bench {
        rows: &["ledger-acquire", "ledger-growth", "ledger-million"],
        bound: Duration::from_mins(1),
        run: || Box::pin(ledger::run()),
    },
    Bench {
        rows: &["lease-cycle", "lease-cpu"],
        bound: Duration::from_mins(1),
        run: || Box::pin(lease_cycle::run()),
    },
    Bench {
        rows: &["lease-cycle-observed", "lease-observed-cpu"],
        bound: Duration::from_mins(2),
        run: || Box::pin(observed::run()),
    },
    Bench {
        rows: &["actor-restart"],
        bound: Duration::from_mins(1),
        run: || Box::pin(restart::run()),
    },
    Bench {
        rows: &["ledger-restart"],
        bound: Duration::from_mins(3),
        run: || Box::pin(ledger_restart::run()),
    },
    Bench {
        rows: &["scrape-10k", "scrape-wait"],
        bound: Duration::from_mins(2),
        run: || Box::pin(scrape::run()),
    },
    Bench {
        rows: &["probe-rate", "probe-cpu", "probe-core"],
        bound: Duration::from_mins(2),
        run: || Box::pin(probes::run()),
    },
    Bench {
        rows: &["fleet-ready", "fleet-writes", "fleet-steady-writes"],
        // Three minutes on two cores of its own; a third of them takes three times as long.
        bound: Duration::from_mins(12),
        run: || Box::pin(fleet_ready::run()),
    },
    Bench {
        rows: &["memory-10k", "memory-flat"],
        bound: Duration::from_mins(8),
        run: || Box::pin(memory::run()),
    },
    Bench {
        rows: &["kvm-upload"],
        bound: Duration::from_mins(10),
        run: || Box::pin(kvm::upload::run()),
    },
    Bench {
        rows: &["kvm-upload-rss"],
        bound: Duration::from_mins(5),
        run: || Box::pin(kvm::weight::run()),
    },
    Bench {
        rows: &["kvm-create"],
        bound: Duration::from_mins(5),
        run: || Box::pin(kvm::create::run()),
    },
    Bench {
        rows: &["kvm-isolation", "kvm-mailbox"],
        bound: Duration::from_mins(5),
        run: || Box::pin(kvm::isolation::run()),
    },
    Bench {
        rows: &["kvm-busy-host"],
        bound: Duration::from_mins(10),
        run: || Box::pin(kvm::busy::run()),
    },
];

fn main() -> ExitCode {
    // An error means that a provider is installed already, which is as good.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("bench: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ran = match arguments.split_first() {
        Some((flag, rest)) if flag == process::ROLE => runtime.block_on(role(rest)).map(|()| true),
        _ => runtime.block_on(all(std::env::var("ONLY")
            .ok()
            .filter(|only| !only.is_empty()))),
    };
    runtime.shutdown_background();
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What this program is as a helper of its own benchmarks.
async fn role(arguments: &[String]) -> anyhow::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["judge"] => probes::be_the_judge().await,
        ["lease-api", how] => observed::be_the_api(how == "observed").await,
        ["forward"] => forward::serve().await,
        ["probers", proxy, url, ca] => probes::be_the_probers(proxy, url, ca).await,
        ["weigh", what] => memory::weigh(what).await,
        ["images", file] => kvm::serve(file).await,
        ["gets", config, id] => kvm::isolation::ask(config, id).await,
        ["upload", config] => kvm::weight::upload(config).await,
        _ => anyhow::bail!("no such role: {words:?}"),
    }
}

/// Runs what is asked for; false when something of it could not be measured.
async fn all(only: Option<String>) -> anyhow::Result<bool> {
    let wanted = |bench: &&Bench| {
        only.as_deref()
            .is_none_or(|only| bench.rows.contains(&only))
    };
    let benches: Vec<_> = BENCHES.iter().filter(wanted).collect();
    if benches.is_empty() {
        let names: Vec<_> = BENCHES.iter().flat_map(|bench| bench.rows).collect();
        anyhow::bail!("no row {only:?}; there are {names:?}");
    }
    let (mut rows, mut complete) = (Vec::new(), true);
    for bench in benches {
        eprintln!("bench: {} …", bench.rows.join(", "));
        match tokio::time::timeout(bench.bound, (bench.run)()).await {
            Ok(Ok(measured)) => rows.extend(measured),
            Ok(Err(error)) => {
                eprintln!("bench: {}: {error:#}", bench.rows[0]);
                complete = false;
            }
            Err(_) => {
                eprintln!("bench: {}: not done in {:?}", bench.rows[0], bench.bound);
                complete = false;
            }
        }
    }
    rows.retain(|row| only.as_deref().is_none_or(|only| row.name == only));
    print!("{}", report::table(&rows));
    report::write(&rows)?;
    Ok(complete)
}
