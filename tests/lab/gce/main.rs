//! The stand-in for Compute Engine as a program of its own, for the demo and for clients in other
//! languages.
//!
//! `cargo run --example gce -- --port 8085 --token-out /tmp/token`
//!
//! Its tests stand beside it (`cargo test --example gce`).

#[path = "../gce.rs"]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "this program serves; it is tests that ask")
)]
mod gce;
#[path = "../squid.rs"]
#[expect(dead_code, reason = "only how it is started and stopped is needed")]
mod squid;
#[cfg(test)]
mod tests;

use anyhow::Context as _;
use clap::Parser;
use gce::{Gce, Options};
use std::{net::IpAddr, path::PathBuf};

/// A server that speaks Compute Engine's REST protocol; what it imitates is told in tests/lab/gce.rs.
#[derive(Parser)]
struct Arguments {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port; 0 takes a free one
    #[arg(long, default_value_t = 8085)]
    port: u16,
    /// The project that there is
    #[arg(long, default_value = "lab-project")]
    project: String,
    /// How many times as fast as Google it is
    #[arg(long, default_value_t = 10.0)]
    speed: f64,
    /// A real Squid on this port of each running instance's address; none without
    #[arg(long)]
    proxy_port: Option<u16>,
    /// File that gets a user's credentials, as `gcloud auth application-default login` writes them
    #[arg(long)]
    credentials_out: Option<PathBuf>,
    /// File that gets an access token
    #[arg(long)]
    token_out: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let gce = Gce::start(Options {
        address: arguments.listen,
        port: arguments.port,
        project: arguments.project,
        speed: arguments.speed,
        proxies: arguments.proxy_port.map(gce::proxies::on_port),
        ..Options::default()
    })
    .await?;
    if let Some(file) = &arguments.credentials_out {
        std::fs::write(file, gce.user().to_string())
            .with_context(|| format!("writing {}", file.display()))?;
    }
    if let Some(file) = &arguments.token_out {
        std::fs::write(file, gce.token()).with_context(|| format!("writing {}", file.display()))?;
    }
    println!("gce ready endpoint={}", gce.endpoint());
    tokio::signal::ctrl_c().await?;
    for (method, count) in gce.counts() {
        eprintln!("gce: {count} {method}");
    }
    Ok(())
}
