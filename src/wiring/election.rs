//! This process's part in the election: as whom, where the record is, where others reach it.

use crate::{cli::options::LeaderElection, kube::election::LeaseElection};
use actors::leader::{
    Candidacy,
    elector::{Candidate, Pace},
};
use kube::Client;
use std::{
    fs,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// Where Kubernetes tells a pod its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// What is missing for an election.
#[derive(Debug, thiserror::Error)]
pub(super) enum ElectionError {
    #[error(
        "--leader-elect: other replicas must reach this one: set --advertise-addr, or POD_IP in the environment"
    )]
    NoAddress,
    #[error("--leader-elect: POD_IP is {0:?}, which is no IP address; set --advertise-addr")]
    BadPodIp(String),
    #[error("--leader-elect: in which namespace? This is no pod: set --leader-election-namespace")]
    NoNamespace,
}

/// Who this process is: in the election, and to the API server. No other process is called so, a restarted
/// one of the same host included.
pub(super) fn identity() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let host: String = host.chars().filter(plain).collect();
    let host = if host.is_empty() { "unnamed" } else { &host };
    format!("{host}_{:08x}", rand::random::<u32>())
}

/// What is known of the election before there is a cluster.
pub(super) struct Terms {
    me: Candidate,
    pub(super) namespace: String,
}

impl Terms {
    /// The terms for a lease API that listens at `api`.
    pub(super) fn of(
        election: &LeaderElection,
        identity: &str,
        api: SocketAddr,
    ) -> Result<Self, ElectionError> {
        let address = match &election.advertise {
            Some(address) => address.clone(),
            None => pod_address(std::env::var("POD_IP").ok(), api.port())?,
        };
        let namespace = election.namespace.clone().or_else(pod_namespace);
        Ok(Self {
            me: Candidate {
                identity: identity.to_owned(),
                address,
            },
            namespace: namespace.ok_or(ElectionError::NoNamespace)?,
        })
    }

    /// The part in the election, by a client that works for followers too.
    pub(super) fn candidacy(self, client: Client) -> Candidacy {
        Candidacy {
            election: Arc::new(LeaseElection::new(client, &self.namespace)),
            me: self.me,
            pace: Pace::DEFAULT,
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.me.address
    }
}

fn pod_address(pod_ip: Option<String>, port: u16) -> Result<String, ElectionError> {
    let text = pod_ip.filter(|text| !text.is_empty());
    let text = text.ok_or(ElectionError::NoAddress)?;
    let ip: IpAddr = text.parse().map_err(|_| ElectionError::BadPodIp(text))?;
    Ok(SocketAddr::new(ip, port).to_string())
}

fn pod_namespace() -> Option<String> {
    let told = std::env::var("POD_NAMESPACE").ok();
    let told = told.or_else(|| fs::read_to_string(NAMESPACE_FILE).ok());
    let told = told.map(|text| text.trim().to_owned());
    told.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_address_is_its_ip_and_the_port_of_the_api() {
        let of = |ip: Option<&str>| pod_address(ip.map(str::to_owned), 8090);
        assert_eq!(of(Some("10.0.0.7")).expect("good"), "10.0.0.7:8090");
        assert_eq!(of(Some("2001:db8::7")).expect("good"), "[2001:db8::7]:8090");
        for (bad, says) in [
            (None, "--advertise-addr"),
            (Some(""), "POD_IP"),
            (Some("x"), "\"x\""),
        ] {
            let error = of(bad).expect_err("bad").to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn no_two_processes_have_one_identity() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        assert!(one.bytes().all(|byte| byte.is_ascii_graphic()), "{one}");
    }
}
