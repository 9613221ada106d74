//! What ends a start whose flags and files are right: an address in use, no cluster.

use super::{
    GOOD,
    place::{Place, kubeconfig},
};
use anyhow::Result;
use std::net::TcpListener;

const ADDRESSES: [&str; 3] = [
    "discovery-addr",
    "metrics-bind-address",
    "health-probe-bind-address",
];

pub fn an_address_in_use_is_named() -> Result<()> {
    let place = Place::new()?;
    let good = place.file("good.yaml", GOOD)?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    for flag in ADDRESSES {
        let mut words = vec![format!("--providers-config={good}")];
        words.extend(ADDRESSES.iter().map(|other| {
            let address = if *other == flag {
                &address
            } else {
                "127.0.0.1:0"
            };
            format!("--{other}={address}")
        }));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        place.operator(&words).refuses(&[&address])?;
    }
    Ok(())
}

/// A kubeconfig that leads nowhere, none at all, and a server that takes the call and never answers.
pub fn no_cluster_ends_the_start() -> Result<()> {
    let place = Place::new()?;
    let file = format!("--providers-config={}", place.file("good.yaml", GOOD)?);
    let mut words = vec![file];
    words.extend(ADDRESSES.iter().map(|flag| format!("--{flag}=127.0.0.1:0")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();

    let closed = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let nowhere = place.file("nowhere.kubeconfig", &kubeconfig(&closed))?;
    place
        .operator(&words)
        .env("KUBECONFIG", &nowhere)
        .refuses(&[&closed])?;

    let missing = place.path("missing.kubeconfig").display().to_string();
    place
        .operator(&words)
        .env("KUBECONFIG", &missing)
        .refuses(&["missing.kubeconfig"])?;

    let silent = place.server.local_addr()?.to_string();
    place.operator(&words).says_one_line(&[&silent])
}
