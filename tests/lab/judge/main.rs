//! The judge as a program of its own, for the demo and for load tests from other processes.
//!
//! `cargo run --example judge -- --listen 10.76.0.1 --ca-out /tmp/judge-ca.pem`
//!
//! Its tests stand beside it (`cargo test --example judge`), with those of the lab's Squid, its
//! hypervisors and its image server.

#[cfg(test)]
#[path = "../hosts.rs"]
#[expect(dead_code, reason = "the rest is for whoever shares hosts")]
mod hosts;
#[cfg(test)]
#[path = "../hypervisor.rs"]
#[expect(dead_code, reason = "the rest is for whoever shares hosts")]
mod hypervisor;
#[cfg(test)]
#[path = "../hypervisor/tests.rs"]
mod hypervisor_tests;
#[cfg(test)]
#[path = "../image_server.rs"]
mod image_server;
#[cfg(test)]
#[path = "../image_server/tests.rs"]
mod image_server_tests;
#[path = "../judge.rs"]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "this program serves; it is tests that ask")
)]
mod judge;
#[cfg(test)]
#[path = "../squid.rs"]
mod squid;
#[cfg(test)]
mod tests;

use anyhow::Context as _;
use clap::Parser;
use judge::{Judge, Options};
use std::{net::IpAddr, path::PathBuf};

/// A server for probes to fetch; what it answers is described in tests/lab/judge.rs.
#[derive(Parser)]
struct Arguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port for HTTPS
    #[arg(long, default_value_t = 8443)]
    https_port: u16,
    /// Port for plain HTTP
    #[arg(long, default_value_t = 8081)]
    http_port: u16,
    /// Port for HTTPS with a certificate of an unknown CA
    #[arg(long, default_value_t = 8444)]
    wrong_port: u16,
    /// Port for HTTPS with a certificate for another name
    #[arg(long, default_value_t = 8445)]
    misnamed_port: u16,
    /// A host name that the certificate is for, beside the addresses; may be repeated
    #[arg(long = "name")]
    names: Vec<String>,
    /// File that gets the PEM of the CA to trust
    #[arg(long)]
    ca_out: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let judge = Judge::start(&Options {
        address: arguments.listen,
        https_port: arguments.https_port,
        http_port: arguments.http_port,
        untrusted_port: arguments.wrong_port,
        misnamed_port: arguments.misnamed_port,
        names: arguments.names,
    })?;
    if let Some(file) = &arguments.ca_out {
        std::fs::write(file, &judge.ca_pem)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    println!(
        "judge ready https={} http={} wrong={} misnamed={}",
        judge.https, judge.http, judge.untrusted, judge.misnamed
    );
    tokio::signal::ctrl_c().await?;
    let requests: u64 = judge.counts().values().flat_map(|by| by.values()).sum();
    eprintln!(
        "judge: {} connections, {requests} requests",
        judge.connections()
    );
    Ok(())
}
