//! A proxy as the lease API shows it, read back.

use super::Failure;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The proxies of one answer.
#[derive(Deserialize)]
pub struct Proxies {
    /// The proxies.
    pub proxies: Vec<Proxy>,
}

impl Proxies {
    /// Reads an answer.
    ///
    /// # Errors
    /// That it is none of the lease API's.
    pub fn read(answer: &Value) -> Result<Self, Failure> {
        Self::deserialize(answer)
            .map_err(|e| Failure::Setup(format!("the answer is not a list of proxies: {e}")))
    }
}

/// One proxy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "as the lease API has them")]
pub struct Proxy {
    pub id: String,
    pub ip: String,
    pub port: u16,
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
    pub phase: String,
    pub healthy: bool,
    pub latency_millis: Option<u32>,
    pub active_leases: u32,
    pub max_leases: u32,
}

impl Proxy {
    /// `host:port`, once there is a host.
    #[must_use]
    pub fn endpoint(&self) -> Option<String> {
        let brackets = self.ip.contains(':');
        match &*self.ip {
            "" => None,
            ip if brackets => Some(format!("[{ip}]:{}", self.port)),
            ip => Some(format!("{ip}:{}", self.port)),
        }
    }

    /// `geo=de,isp=acme`.
    #[must_use]
    pub fn attributes(&self) -> String {
        let pairs = self.attributes.iter();
        let pairs: Vec<_> = pairs.map(|(key, value)| format!("{key}={value}")).collect();
        pairs.join(",")
    }
}
